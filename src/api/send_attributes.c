/* Tally's own message attributes: reads their meaning from their texts. They go on to the receiver like any other
 * attribute. */
#include "api/access.h"
#include "api/reach.h"
#include "api/send.h"

#include "api/text.h"
#include "core/deduplication/deduplication.h"
#include "core/order/type_order.h"

#define PRODUCER_SIZE_MAX 128u

/* Text of the attribute, sent as String or Number; *value does not change if there is none. */
static enum error read_text(const struct params *params, const struct send_parameters *send, const char *name,
                            struct bytes *value)
{
    const struct attribute *attribute = attributes_find(&send->attributes, bytes_from_string(name));
    if (attribute == NULL)
        return OK;
    if (attribute->is_binary)
        return params_invalid(params, name, BYTES("(binary)"), "It must be of type String or Number.");
    *value = attribute->value;
    return OK;
}

static enum error read_number(const struct params *params, const struct send_parameters *send, const char *name,
                              uint64_t max, const char *reason, uint64_t *value)
{
    struct bytes text = {NULL, 0};
    uint64_t number;
    enum error error = read_text(params, send, name, &text);
    if (error != OK || text.ptr == NULL)
        return error;
    struct bytes digits = text; /* leading zeros are allowed: a SequenceNumber may be used as Tally.Sequence
                                 * elsewhere */
    while (digits.size > 1 && digits.ptr[0] == '0')
        digits = bytes_make(digits.ptr + 1, digits.size - 1);
    if (!bytes_to_u64(digits, &number) || number > max)
        return params_invalid(params, name, text, reason);
    *value = number;
    return OK;
}

/* --- Tally.After -------------------------------------------------------------------------------------------------- */

static const struct {
    struct bytes prefix;
    enum antecedent_name_kind kind;
} antecedent_kinds[] = {
    {{(const uint8_t *)"message:", 8}, NAMED_MESSAGE},
    {{(const uint8_t *)"batch:", 6}, NAMED_BATCH},
    {{(const uint8_t *)"dedup:", 6}, NAMED_DEDUPLICATION},
};

static bool starts_item(struct bytes text)
{
    for (size_t i = 0; i < ARRAY_LENGTH(antecedent_kinds); i++)
        if (bytes_starts_with(text, antecedent_kinds[i].prefix))
            return true;
    return false;
}

static struct bytes skip_blanks(struct bytes text)
{
    while (text.size > 0 && text.ptr[0] == ' ')
        text = bytes_skip(text, 1);
    return text;
}

/* Takes the first item off the list. Ids may contain commas. So a comma ends an item only if another item begins after
 * it. */
static struct bytes take_item(struct bytes *list)
{
    struct bytes rest = skip_blanks(*list);
    size_t size = 0;
    *list = bytes_make(NULL, 0);
    for (; size < rest.size; size++) {
        if (rest.ptr[size] != ',')
            continue;
        struct bytes next = skip_blanks(bytes_skip(rest, size + 1));
        if (starts_item(next)) {
            *list = next;
            break;
        }
    }
    while (size > 0 && rest.ptr[size - 1] == ' ')
        size--;
    return bytes_make(rest.ptr, size);
}

/* "name" or "name.fifo". */
static bool is_queue_name(struct bytes name)
{
    struct bytes suffix = BYTES(".fifo");
    bool is_fifo = bytes_ends_with(name, suffix);
    return name.size <= QUEUE_NAME_SIZE_MAX &&
           text_is_word(bytes_make(name.ptr, name.size - (is_fifo ? suffix.size : 0)), QUEUE_NAME_SIZE_MAX);
}

/* False if the item has none of the three forms. */
static bool parse_item(struct bytes item, struct antecedent_name *name)
{
    size_t kind = 0;
    while (kind < ARRAY_LENGTH(antecedent_kinds) && !bytes_starts_with(item, antecedent_kinds[kind].prefix))
        kind++;
    if (kind == ARRAY_LENGTH(antecedent_kinds))
        return false;
    struct bytes text = bytes_skip(item, antecedent_kinds[kind].prefix.size);
    *name = (struct antecedent_name){.kind = antecedent_kinds[kind].kind, .text = text};
    switch (name->kind) {
    case NAMED_MESSAGE: /* an id that has not the form of a MessageId belongs to no message */
    case NAMED_BATCH:
        return text_is_identifier(text, BATCH_ID_SIZE_MAX);
    case NAMED_DEDUPLICATION:
        break;
    }
    const uint8_t *slash = text.size == 0 ? NULL : memchr(text.ptr, '/', text.size);
    if (slash == NULL)
        return false;
    name->queue = bytes_make(text.ptr, (size_t)(slash - text.ptr));
    name->text = bytes_skip(text, name->queue.size + 1);
    return is_queue_name(name->queue) && text_is_identifier(name->text, DEDUPLICATION_ID_SIZE_MAX);
}

/* Does the caller reach the thing that the item names? A message that has ended belongs to no queue any more. */
static bool reaches_item(struct call *call, const struct antecedent_name *name)
{
    uint8_t id[MESSAGE_ID_SIZE];
    if (name->kind == NAMED_MESSAGE)
        return identity_from_text(name->text, id) &&
               reach_message(call, identity_message_number(call_digest(call), id));
    const struct batch *batch = core_find_batch(call->core, name->text);
    return batch != NULL && reach_batch(call, batch);
}

/* A caller who may not use a queue may not learn which ids it knows, either. */
static enum error check_item(struct call *call, const struct antecedent_name *name, struct bytes item)
{
    if (name->kind == NAMED_DEDUPLICATION)
        return access_check_queue(call, name->queue, core_find_queue(call->core, name->queue));
    if (!reach_is_confined(call) || reaches_item(call, name))
        return OK;
    return call_fail(call, ERROR_DEPENDENCY_DOES_NOT_EXIST,
                     "Tally.After: %.*s is not known within the queues of this credential. A message that has ended is "
                     "known by dedup:<queue name>/<MessageDeduplicationId> only.",
                     BYTES_FORMAT(item));
}

static enum error read_after(struct call *call, const struct params *params, struct send_parameters *send)
{
    struct bytes list = {NULL, 0};
    enum error error = read_text(params, send, "Tally.After", &list);
    if (error != OK || list.ptr == NULL)
        return error;
    uint32_t count = 0;
    for (struct bytes rest = list; rest.size > 0; count++)
        take_item(&rest);
    send->antecedents = arena_allocate(call->arena, count * sizeof(*send->antecedents));
    for (struct bytes rest = list; rest.size > 0 && error == OK; send->antecedent_count++) {
        struct bytes item = take_item(&rest);
        if (!parse_item(item, &send->antecedents[send->antecedent_count]))
            return params_invalid(params, "Tally.After", item,
                                  "An item must be message:<MessageId>, batch:<BatchId> or dedup:<queue "
                                  "name>/<MessageDeduplicationId>.");
        error = check_item(call, &send->antecedents[send->antecedent_count], item);
    }
    return error;
}

static enum error read_after_failure(const struct params *params, struct send_parameters *send)
{
    static const char *const policies[] = {
        [AFTER_FAILURE_CANCEL] = "cancel", [AFTER_FAILURE_RUN] = "run", [AFTER_FAILURE_HOLD] = "hold"};
    struct bytes text = {NULL, 0};
    enum error error = read_text(params, send, "Tally.AfterFailure", &text);
    if (error != OK || text.ptr == NULL)
        return error;
    for (size_t i = 0; i < ARRAY_LENGTH(policies); i++) {
        if (bytes_equal(text, bytes_from_string(policies[i]))) {
            send->after_failure = (enum after_failure)i;
            return OK;
        }
    }
    return params_invalid(params, "Tally.AfterFailure", text, "It must be cancel, run or hold.");
}

/* --- the others --------------------------------------------------------------------------------------------------- */

static enum error read_type(const struct params *params, struct send_parameters *send)
{
    enum error error = read_text(params, send, "Tally.Type", &send->type);
    if (error == OK && send->type.ptr != NULL && !text_is_identifier(send->type, TYPE_NAME_SIZE_MAX))
        return params_invalid(params, "Tally.Type", send->type,
                              "It can only include ASCII letters, digits and punctuation, 1 to 128 of them.");
    return error;
}

static enum error read_producer(const struct params *params, struct send_parameters *send)
{
    enum error error = read_text(params, send, "Tally.Producer", &send->producer);
    if (error == OK && send->producer.ptr != NULL && !text_is_identifier(send->producer, PRODUCER_SIZE_MAX))
        return params_invalid(params, "Tally.Producer", send->producer,
                              "It can only include ASCII letters, digits and punctuation, 1 to 128 of them.");
    uint64_t sequence = UINT64_MAX;
    if (error == OK)
        error = read_number(params, send, "Tally.Sequence", INT64_MAX,
                            "It must be an integer from 0 to 9223372036854775807.", &sequence);
    bool has_sequence = sequence != UINT64_MAX;
    if (error == OK && has_sequence != (send->producer.ptr != NULL))
        return failure_set(params->failure, ERROR_INVALID_PARAMETER_VALUE,
                           "Tally.Producer and Tally.Sequence go together: the message has only %s.",
                           has_sequence ? "Tally.Sequence" : "Tally.Producer");
    if (error == OK && has_sequence)
        send->sequence = sequence;
    return error;
}

/* A name that begins with "Tally." but is not one of these is a typing error. Ignoring "Tally.Afetr" would deliver the
 * message too early. The attributes that the server itself makes may come back with a forwarded message. */
static enum error check_names(const struct params *params, const struct send_parameters *send)
{
    static const char *const known[] = {"Tally.Batch",        "Tally.Priority",        "Tally.Type",
                                        "Tally.Producer",     "Tally.Sequence",        "Tally.After",
                                        "Tally.AfterFailure", "Tally.Batch.Completed", "Tally.Batch.Event",
                                        "Tally.FencingToken", "Tally.FailureReason",   "Tally.Schedule",
                                        "Tally.Match",        "Tally.Ticket",          ATTRIBUTE_OUTBOX_ID};
    for (uint32_t i = 0; i < send->attributes.count; i++) {
        struct bytes name = send->attributes.items[i].name;
        bool is_known = !bytes_starts_with(name, BYTES("Tally."));
        for (size_t k = 0; k < ARRAY_LENGTH(known) && !is_known; k++)
            is_known = bytes_equal(name, bytes_from_string(known[k]));
        if (!is_known)
            return failure_set(
                params->failure, ERROR_INVALID_PARAMETER_VALUE,
                "There is no message attribute '%.*s': names that begin with Tally. are the server's own, "
                "such as Tally.Batch, Tally.After, Tally.AfterFailure, Tally.Type, Tally.Priority, "
                "Tally.Producer and Tally.Sequence.",
                (int)(name.size < 80 ? name.size : 80), (const char *)name.ptr);
    }
    return OK;
}

/* Batches, dependencies and type orders connect a message with others of the whole namespace. A policy opens one queue,
 * not these. A type that orders name makes messages of other queues wait, so callers with queues= may not send it,
 * either. */
static enum error check_owner(struct call *call, const struct send_parameters *send)
{
    static const char *const names[] = {"Tally.Batch", "Tally.After", "Tally.Type"};
    enum error error = OK;
    for (size_t i = 0; i < ARRAY_LENGTH(names) && error == OK; i++)
        if (attributes_find(&send->attributes, bytes_from_string(names[i])) != NULL)
            error = access_check_owner(call, names[i]);
    if (error == OK && attributes_find(&send->attributes, BYTES("Tally.Type")) != NULL)
        error = reach_check_namespace(call, "Tally.Type");
    return error;
}

static enum error read_batch(struct call *call, const struct params *params, struct send_parameters *send)
{
    enum error error = read_text(params, send, "Tally.Batch", &send->batch_id);
    if (error != OK || send->batch_id.ptr == NULL || !reach_is_confined(call))
        return error;
    const struct batch *batch = core_find_batch(call->core, send->batch_id);
    if (batch == NULL || reach_batch(call, batch))
        return OK;
    return send_fail(call, send, ERROR_BATCH_DOES_NOT_EXIST, &(struct send_result){0});
}

enum error send_read_own_attributes(struct call *call, const struct params *params, struct send_parameters *send)
{
    uint64_t priority = send->priority;
    enum error error = check_names(params, send);
    if (error == OK)
        error = check_owner(call, send);
    if (error == OK)
        error = read_batch(call, params, send);
    if (error == OK)
        error =
            read_number(params, send, "Tally.Priority", PRIORITY_MAX, "It must be an integer from 0 to 9.", &priority);
    send->priority = (uint8_t)priority;
    if (error == OK)
        error = read_type(params, send);
    if (error == OK)
        error = read_producer(params, send);
    if (error == OK)
        error = read_after_failure(params, send);
    struct bytes outbox_id = {NULL, 0}; /* means nothing here: it is for the receiver */
    if (error == OK)
        error = read_text(params, send, ATTRIBUTE_OUTBOX_ID, &outbox_id);
    return error == OK ? read_after(call, params, send) : error;
}
