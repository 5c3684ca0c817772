/* CreateBatch: its arguments become a struct batch_spec. A repeat must have the same spec, byte for byte. */
#include "api/reach.h"
#include "api/text.h"
#include "core/order/dependency.h"

#define EXPIRES_DEFAULT_S 1209600 /* 14 days, the longest retention of SQS */
#define RETENTION_DEFAULT_S 345600
#define SECONDS_MAX 31536000
#define TOTAL_MAX ((int64_t)LEDGER_UNITS_MAX)

/* Body and attributes of a target together. A record that completes a whole chain of nested batches must fit a
 * frame. */
#define TARGET_SIZE_MAX 65536u

static const struct {
    const char *member;
    const char *event;
} targets[BATCH_EVENT_COUNT] = {
    [BATCH_EVENT_COMPLETE - 1] = {"OnComplete", "complete"},
    [BATCH_EVENT_SUCCESS - 1] = {"OnSuccess", "success"},
    [BATCH_EVENT_FIRST_FAILURE - 1] = {"OnFirstFailure", "first-failure"},
};

const char *call_target_member(unsigned target)
{
    ASSERT(target < BATCH_EVENT_COUNT);
    return targets[target].member;
}

static enum error check_id(const struct params *params, const char *name, struct bytes id)
{
    if (id.size == 0 || text_is_identifier(id, BATCH_ID_SIZE_MAX))
        return OK;
    return params_invalid(params, name, id,
                          "It can only include ASCII letters, digits and punctuation, 1 to 128 of them.");
}

/* The attributes of a target, with two that Tally adds: its batch, and which event it is for. */
static enum error read_target_attributes(struct call *call, const struct params *params, struct bytes batch_id,
                                         const char *event, struct attributes *attributes)
{
    enum error error = attributes_parse(params, "MessageAttributes", call->arena, attributes);
    if (error != OK)
        return error;
    for (uint32_t i = 0; i < attributes->count; i++)
        if (bytes_starts_with(attributes->items[i].name, BYTES("Tally.")))
            return call_fail(
                call, ERROR_INVALID_PARAMETER_VALUE,
                "A target's MessageAttributes can't contain %.*s: names that begin with Tally. are set by Tally; to "
                "make this batch a unit of another one, use Parent.",
                BYTES_FORMAT(attributes->items[i].name));
    attributes_add(attributes, BYTES("Tally.Batch.Completed"), batch_id);
    attributes_add(attributes, BYTES("Tally.Batch.Event"), bytes_from_string(event));
    attributes_sort(attributes);
    return OK;
}

static enum error check_target(struct call *call, const struct params *params, const char *member,
                               const struct queue *queue, const struct batch_target *target,
                               const struct attributes *attributes)
{
    size_t size = target->body.size + attributes->size;
    size_t limit =
        queue->settings.message_size_max < TARGET_SIZE_MAX ? queue->settings.message_size_max : TARGET_SIZE_MAX;
    if (size > limit)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "%s is too long: body and attributes are %zu bytes; the limit is %zu.", member, size, limit);
    if (target->has_body && !text_is_allowed(target->body))
        return call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "%s", error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
    return call_check_group(params, target->group);
}

/* Reads the member OnComplete, OnSuccess or OnFirstFailure, if there is one. */
static enum error read_target(struct call *call, const struct params *whole, unsigned which, struct bytes batch_id,
                              struct batch_target *target)
{
    yyjson_val *object;
    enum error error = params_object(whole, targets[which].member, &object);
    if (error != OK || object == NULL)
        return error;
    struct params params = {.object = object, .failure = call->failure};
    struct queue *queue;
    struct attributes attributes;
    error = call_find_queue(call, &params, &queue);
    if (error == OK)
        error = params_text(&params, "MessageBody", &target->body);
    if (error == OK)
        error = params_text(&params, "MessageGroupId", &target->group);
    if (error == OK)
        error = read_target_attributes(call, &params, batch_id, targets[which].event, &attributes);
    if (error != OK)
        return error;
    if (queue->settings.is_fifo && target->group.ptr == NULL)
        return call_fail(call, ERROR_MISSING_PARAMETER, "%s: The request must contain the parameter MessageGroupId.",
                         targets[which].member);
    target->has_body = target->body.size > 0;
    error = check_target(call, whole, targets[which].member, queue, target, &attributes);
    if (error != OK)
        return error;
    target->queue = queue->id;
    struct buffer encoded;
    buffer_init(&encoded);
    attributes_encode(&attributes, &encoded);
    target->attributes = arena_copy(call->arena, buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    attributes_md5(&attributes, call_digest(call), call_scratch(call), target->attributes_md5);
    return OK;
}

static enum error read_tracking(const struct params *params, struct batch_spec *spec)
{
    struct bytes tracking = BYTES("exact");
    enum error error = params_text(params, "Tracking", &tracking);
    if (error != OK)
        return error;
    bool is_xor = bytes_equal(tracking, BYTES("xor"));
    if (!is_xor && !bytes_equal(tracking, BYTES("exact")))
        return params_invalid(params, "Tracking", tracking, "It must be exact or xor.");
    spec->tracking = is_xor ? BATCH_XOR : BATCH_EXACT;
    return OK;
}

static enum error read_numbers(const struct params *params, struct batch_spec *spec)
{
    int64_t total = -1, expires_s = EXPIRES_DEFAULT_S, retention_s = RETENTION_DEFAULT_S;
    enum error error = params_integer_in(params, "Total", 0, TOTAL_MAX, "It must be from 0 to 100000000.", &total);
    if (error == OK)
        error = params_integer_in(params, "ExpiresAfterSeconds", 1, SECONDS_MAX, "It must be from 1 to 31536000.",
                                  &expires_s);
    if (error == OK)
        error = params_integer_in(params, "RetentionSeconds", 0, SECONDS_MAX, "It must be from 0 to 31536000.",
                                  &retention_s);
    spec->has_total = total >= 0;
    spec->total = total >= 0 ? (uint32_t)total : 0;
    spec->expires_after_s = (uint32_t)expires_s;
    spec->retention_s = (uint32_t)retention_s;
    return error;
}

static enum error read_members(struct call *call, const struct params *params, struct create_batch_command *command)
{
    *command = (struct create_batch_command){0};
    enum error error = params_text(params, "BatchId", &command->id);
    if (error == OK)
        error = check_id(params, "BatchId", command->id);
    if (error == OK)
        error = params_text(params, "Parent", &command->parent_id);
    if (error == OK)
        error = check_id(params, "Parent", command->parent_id);
    if (error == OK)
        error = read_tracking(params, &command->spec);
    if (error == OK)
        error = read_numbers(params, &command->spec);
    if (error == OK && command->id.size == 0) {
        /* The targets carry the id as an attribute, so the id is made first. */
        uint8_t raw[MESSAGE_ID_SIZE];
        char *text = arena_allocate(call->arena, IDENTITY_TEXT_SIZE);
        decide_next_batch_id(call->core, raw);
        identity_to_text(raw, text);
        command->id = bytes_make(text, IDENTITY_TEXT_SIZE);
    }
    for (unsigned i = 0; i < BATCH_EVENT_COUNT && error == OK; i++)
        error = read_target(call, params, i, command->id, &command->spec.targets[i]);
    return error;
}

/* A confined caller makes batches of its own queues, below batches within its reach. It may repeat the request for an
 * existing batch within its reach. */
static enum error check_reach(struct call *call, const struct create_batch_command *command)
{
    bool has_target = false;
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++)
        has_target = has_target || command->spec.targets[i].queue != 0;
    if (!has_target && reach_is_confined(call))
        return call_fail(
            call, ERROR_ACCESS_DENIED,
            "Access is denied: a batch without a target is no queue's, and the credential %.*s covers some "
            "queues only (queues=). Give it OnComplete, OnSuccess or OnFirstFailure.",
            BYTES_FORMAT(call->caller->access_key));
    const struct batch *parent = core_find_batch(call->core, command->parent_id);
    if (parent != NULL && !reach_batch(call, parent))
        return ERROR_BATCH_DOES_NOT_EXIST;
    const struct batch *known = core_find_batch(call->core, command->id);
    return known == NULL || reach_batch(call, known) ? OK : ERROR_BATCH_ALREADY_EXISTS;
}

enum error call_fail_creation(struct call *call, const struct create_batch_command *command, enum error error)
{
    int size = (int)command->parent_id.size;
    const char *parent = (const char *)command->parent_id.ptr;
    switch (error) {
    case ERROR_ACCESS_DENIED:
        return error; /* says already what it is */
    case ERROR_BATCH_ALREADY_EXISTS:
        return call_fail(call, error, "Batch '%.*s' exists and was created with other arguments.",
                         BYTES_FORMAT(command->id));
    case ERROR_BATCH_DOES_NOT_EXIST:
        return call_fail(call, error, "Parent: there is no batch '%.*s'%s.", size, parent, reach_words(call));
    case ERROR_BATCH_SEALED:
        return call_fail(call, error, "Parent: batch '%.*s' %.*s", size, parent,
                         BYTES_FORMAT(call_closed_words(call, command->parent_id)));
    case ERROR_BATCH_TOTAL_EXCEEDED:
        return call_fail(call, error, "Parent: batch '%.*s' has all the units of its Total.", size, parent);
    case ERROR_DEPENDENCY_CYCLE:
        return call_fail(call, error, "Parent: batch '%.*s' would wait for itself: %s", size, parent,
                         reach_is_confined(call) ? "through something that it waits for" : command->path);
    case ERROR_DEPENDENCY_TOO_DEEP:
        return call_fail(call, error,
                         "Parent: so much waits for batch '%.*s' that the search for a cycle met its limit.", size,
                         parent);
    default:
        return call_fail(
            call, error,
            "Parent: batch '%.*s' can't take this child; batches nest at most %u deep and have at most %u units.", size,
            parent, BATCH_DEPTH_MAX, LEDGER_UNITS_MAX);
    }
}

enum error call_read_creation(struct call *call, const struct params *params, struct create_batch_command *command)
{
    enum error error = read_members(call, params, command);
    if (error != OK)
        return error;
    command->path = arena_allocate(call->arena, DEPENDENCY_PATH_SIZE);
    error = check_reach(call, command);
    return error == OK ? OK : call_fail_creation(call, command, error);
}

enum error action_create_batch(struct call *call)
{
    struct create_batch_command command;
    enum error error = call_read_creation(call, &call->params, &command);
    if (error != OK)
        return error;
    const struct batch *batch;
    error = decide_create_batch(call->core, &command, &batch);
    if (error != OK)
        return call_fail_creation(call, &command, error);
    writer_text(call->reply, "BatchId", batch->id_owned);
    writer_string(call->reply, "State", batch_state_name(batch->state));
    return OK;
}
