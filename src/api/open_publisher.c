/* OpenPublisher: from now on only this owner may publish rows of the publisher. */
#include "api/publisher.h"
#include "api/reach.h"
#include "core/publishers/decide_publish.h"

enum error publisher_read_uuid(const struct params *params, const char *name, uint8_t uuid[PUBLISHER_ID_SIZE])
{
    struct bytes text = {NULL, 0};
    enum error error = params_required_text(params, name, &text);
    if (error == OK && !identity_from_text(text, uuid))
        return params_invalid(params, name, text, "It must be a UUID, such as 01234567-89ab-4def-8123-456789abcdef.");
    return error;
}

enum error publisher_read_number(const struct params *params, const char *name, int64_t min, uint64_t *value)
{
    int64_t number = 0;
    bool is_given;
    enum error error = params_integer(params, name, &number, &is_given);
    if (error == OK && !is_given)
        return failure_set(params->failure, ERROR_MISSING_PARAMETER, "The request must contain the parameter %s.",
                           name);
    if (error == OK && number < min)
        return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Value %lld for parameter %s is invalid. Reason: It must be an integer from %lld to "
                           "9223372036854775807.",
                           (long long)number, name, (long long)min);
    *value = (uint64_t)number;
    return error;
}

enum error publisher_claim_read(struct call *call, struct publisher_claim *claim)
{
    enum error error = publisher_read_uuid(&call->params, "Publisher", claim->publisher);
    if (error == OK)
        error = publisher_read_number(&call->params, "Epoch", 1, &claim->epoch);
    if (error == OK)
        error = publisher_read_uuid(&call->params, "Owner", claim->owner);
    return error == OK ? reach_check_publisher(call, decide_find_publisher(call->core, claim->publisher)) : error;
}

/* How far a new epoch may be above the known one, and how high the first one may be. Each takeover adds one, even while
 * this namespace can't be reached. The limit keeps a mistaken OpenPublisher from using up the epochs: there are always
 * enough left for real takeovers. */
#define EPOCH_STEP_MAX ((uint64_t)1 << 20)
#define EPOCH_FIRST_MAX ((uint64_t)1 << 62)

/* A caller with all rights in the namespace may skip epochs. */
static bool may_jump(const struct call *call)
{
    return call->caller == NULL || ((call->caller->rights & RIGHT_ADMIN) != 0 && !reach_is_confined(call));
}

static enum error check_epoch(struct call *call, const struct publisher_claim *claim)
{
    const struct publisher *publisher = decide_find_publisher(call->core, claim->publisher);
    uint64_t known = publisher == NULL ? 0 : publisher->epoch;
    uint64_t step_max = publisher == NULL ? EPOCH_FIRST_MAX : EPOCH_STEP_MAX;
    if (claim->epoch <= known || claim->epoch - known <= step_max || may_jump(call))
        return OK;
    return call_fail(
        call, ERROR_INVALID_PARAMETER_VALUE,
        "Epoch %llu is %llu above the one known, %llu; the limit is %llu, because an epoch too high would "
        "fence the publisher for ever. Only a credential with the right 'admin' and without queues= may go "
        "further.",
        (unsigned long long)claim->epoch, (unsigned long long)(claim->epoch - known), (unsigned long long)known,
        (unsigned long long)step_max);
}

static void write_uuid(struct writer *writer, const char *name, const uint8_t uuid[PUBLISHER_ID_SIZE])
{
    char text[IDENTITY_TEXT_SIZE];
    identity_to_text(uuid, text);
    writer_text(writer, name, bytes_make(text, sizeof(text)));
}

/* A relay lets these be deleted from its source before it scans it. Nobody else sees them. */
static void write_unconfirmed(struct call *call, const struct publisher *publisher)
{
    writer_list_begin(call->reply, "Unconfirmed");
    const struct row_entry *row = publisher_next_unconfirmed(call->core, publisher, NULL);
    for (; row != NULL; row = publisher_next_unconfirmed(call->core, publisher, row)) {
        writer_object_begin(call->reply, NULL);
        writer_number(call->reply, "Id", row->id);
        write_uuid(call->reply, "Uid", row->uid);
        writer_object_end(call->reply);
    }
    writer_list_end(call->reply);
}

enum error action_open_publisher(struct call *call)
{
    struct publisher_claim claim;
    enum error error = publisher_claim_read(call, &claim);
    if (error == OK)
        error = check_epoch(call, &claim);
    if (error != OK)
        return error;
    bool is_accepted, is_new = decide_find_publisher(call->core, claim.publisher) == NULL;
    error = decide_open_publisher(call->core, claim.publisher, claim.epoch, claim.owner, &is_accepted);
    if (error != OK)
        return call_fail(
            call, error,
            "There are %u publishers, as many as there can be, and each is remembered for ever. Those that are "
            "there can be opened again.",
            PUBLISHERS_MAX);
    if (is_new && reach_claim(call) != 0)
        decide_claim_publisher(call->core, claim.publisher, reach_claim(call));
    const struct publisher *publisher = decide_find_publisher(call->core, claim.publisher);
    writer_boolean(call->reply, "Accepted", is_accepted);
    writer_number(call->reply, "Epoch", publisher->epoch);
    write_uuid(call->reply, "Owner", publisher->owner);
    writer_number(call->reply, "LastBatch", publisher->batch);
    if (is_accepted)
        write_unconfirmed(call, publisher);
    return OK;
}
