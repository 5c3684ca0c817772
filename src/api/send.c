#include "api/send.h"

#include "api/reach.h"
#include "api/text.h"
#include "core/deduplication/deduplication.h"

#include <inttypes.h>

/* --- reading ------------------------------------------------------------------------------------------------------ */

static enum error check_body(struct call *call, const struct params *params, struct send_parameters *send,
                             enum send_context context)
{
    uint32_t size_max = send->queue->settings.message_size_max;
    send->given_size = send->body.size + attributes_measure(params, "MessageAttributes");
    if (send->given_size > size_max)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "One or more parameters %s. Reason: Message must be shorter than %u bytes.",
                         context == SEND_IN_ENTRY ? "cannot be validated" : "are invalid", size_max);
    return text_is_allowed(send->body)
               ? OK
               : call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "%s", error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
}

/* The one system attribute that a sender can give: AWSTraceHeader. */
static enum error read_system_attributes(struct call *call, const struct params *params, struct send_parameters *send)
{
    struct attributes attributes;
    enum error error = attributes_parse(params, "MessageSystemAttributes", call->arena, &attributes);
    if (error != OK || attributes.count == 0)
        return error;
    const struct attribute *trace = attributes_find(&attributes, BYTES("AWSTraceHeader"));
    if (attributes.count != 1 || trace == NULL || !bytes_equal(trace->type, BYTES("String")))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The only message system attribute that can be sent is AWSTraceHeader, of type String.");
    send->trace = trace->value;
    send->has_system_attributes = true;
    attributes_md5(&attributes, call_digest(call), call_scratch(call), send->system_attributes_md5);
    return OK;
}

static bool is_given(const struct params *params, const char *name)
{
    yyjson_val *value = yyjson_obj_get(params->object, name);
    return value != NULL && !yyjson_is_null(value);
}

static bool has_producer(const struct params *params)
{
    return yyjson_obj_get(yyjson_obj_get(params->object, "MessageAttributes"), "Tally.Producer") != NULL;
}

enum error send_check_ids(struct call *call, const struct params *params, const struct queue *queue, enum error absent)
{
    if (!queue->settings.is_fifo)
        return OK;
    if (!is_given(params, "MessageGroupId"))
        return call_fail(call, absent, "The request must contain the parameter MessageGroupId.");
    /* A numbered producer needs no other id. */
    if (!queue->settings.is_content_deduplicated && !has_producer(params) &&
        !is_given(params, "MessageDeduplicationId"))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
                         "provided explicitly");
    return OK;
}

/* SHA-256 of the body in hexadecimal: the message's deduplication id if the queue deduplicates by content. */
static struct bytes body_sha256(struct call *call, struct bytes body)
{
    uint8_t sha256[DIGEST_SHA256_SIZE];
    char *text = arena_allocate(call->arena, 2 * DIGEST_SHA256_SIZE);
    digest_sha256(call_digest(call), body, sha256);
    bytes_to_hex(bytes_make(sha256, sizeof(sha256)), text);
    return bytes_make(text, 2 * DIGEST_SHA256_SIZE);
}

static enum error read_ids(struct call *call, const struct params *params, struct bytes uid,
                           struct send_parameters *send)
{
    enum error error = params_text(params, "MessageGroupId", &send->group);
    if (error == OK)
        error = params_text(params, "MessageDeduplicationId", &send->deduplication);
    if (error == OK)
        error = call_check_group(params, send->group);
    if (error != OK)
        return error;
    if (send->deduplication.ptr != NULL && !text_is_identifier(send->deduplication, DEDUPLICATION_ID_SIZE_MAX))
        return params_invalid(
            params, "MessageDeduplicationId", send->deduplication,
            "MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.");
    if (send->deduplication.size == 0 && send->queue->settings.is_fifo && !has_producer(params))
        send->deduplication = uid;
    if (send->deduplication.size == 0 || send->group.size == 0)
        error = send_check_ids(call, params, send->queue, ERROR_MISSING_PARAMETER);
    if (error == OK && send->deduplication.size == 0 && send->queue->settings.is_content_deduplicated)
        send->deduplication = body_sha256(call, send->body);
    return error;
}

/* On a FIFO queue the delay is the queue's own: 0 means that, and a larger value is refused. */
static enum error read_delay(struct call *call, const struct params *params, struct send_parameters *send)
{
    bool is_fifo = send->queue->settings.is_fifo;
    int64_t delay_s = is_fifo ? 0 : send->queue->settings.delay_s;
    enum error error =
        params_integer_in(params, "DelaySeconds", 0, 900, "DelaySeconds must be >= 0 and <= 900.", &delay_s);
    if (error == OK && is_fifo && delay_s > 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value %lld for parameter DelaySeconds is invalid. Reason: The request include parameter that "
                         "is not valid for this queue type.",
                         (long long)delay_s);
    send->delay_s = is_fifo ? send->queue->settings.delay_s : delay_s;
    return error;
}

/* A consumer finds the row's uid in the message, unless the sender gave the attribute a value. */
static void add_uid(struct send_parameters *send, struct bytes uid)
{
    if (attributes_find(&send->attributes, BYTES(ATTRIBUTE_OUTBOX_ID)) != NULL)
        return;
    attributes_add(&send->attributes, BYTES(ATTRIBUTE_OUTBOX_ID), uid);
    attributes_sort(&send->attributes);
}

/* False: it would make the message too large. */
static bool add_trace_attribute(struct send_parameters *send, struct bytes name, struct bytes value, size_t *size)
{
    const size_t added = name.size + sizeof("String") - 1 + value.size;
    if (*size + added > send->queue->settings.message_size_max)
        return false;
    *size += added;
    attributes_add(&send->attributes, name, value);
    return true;
}

/* Takes the context of the trace from the request's headers if the message has none. A send never fails because of its
 * trace: what is malformed, or too large for the message, is not taken. False: nothing was. */
static bool add_trace_context(const struct call *call, struct send_parameters *send)
{
    const struct request *request = &call->exchange->request;
    size_t size = send->body.size + send->attributes.size;
    if (!trace_context_is_parent(request->traceparent) ||
        attributes_find(&send->attributes, BYTES(TRACE_PARENT)) != NULL ||
        attributes_find(&send->attributes, BYTES(TRACE_STATE)) != NULL)
        return false;
    if (!add_trace_attribute(send, BYTES(TRACE_PARENT), request->traceparent, &size))
        return false;
    if (trace_context_is_state(request->tracestate))
        (void)add_trace_attribute(send, BYTES(TRACE_STATE), request->tracestate, &size);
    attributes_sort(&send->attributes);
    return true;
}

/* The digest of what the request gives, and of what the message has. */
static void digest_attributes(struct call *call, bool is_row, struct send_parameters *send)
{
    send->has_given_attributes = send->attributes.count > 0;
    attributes_md5(&send->attributes, call_digest(call), call_scratch(call), send->given_attributes_md5);
    memcpy(send->attributes_md5, send->given_attributes_md5, sizeof(send->attributes_md5));
    /* The headers of a Publish are the relay's, and not those of who wrote the row. */
    if (!is_row && add_trace_context(call, send))
        attributes_md5(&send->attributes, call_digest(call), call_scratch(call), send->attributes_md5);
}

enum error send_read(struct call *call, const struct params *params, struct queue *queue, enum send_context context,
                     struct bytes uid, struct send_parameters *send)
{
    *send = (struct send_parameters){.queue = queue, .priority = PRIORITY_DEFAULT};
    enum error error = params_required_text(params, "MessageBody", &send->body);
    if (error == OK)
        error = check_body(call, params, send, context);
    if (error == OK)
        error = attributes_parse(params, "MessageAttributes", call->arena, &send->attributes);
    if (error == OK)
        error = read_system_attributes(call, params, send);
    if (error == OK)
        error = read_ids(call, params, uid, send);
    if (error == OK)
        error = read_delay(call, params, send);
    if (error == OK && send->attributes.count > 0)
        error = send_read_own_attributes(call, params, send);
    if (error != OK)
        return error;
    if (uid.size > 0)
        add_uid(send, uid);
    digest_md5(call_digest(call), send->body, send->body_md5);
    digest_attributes(call, uid.size > 0, send);
    return OK;
}

enum error send_read_moved(struct call *call, const struct params *params, struct queue *queue,
                           struct send_parameters *send)
{
    struct bytes given = {NULL, 0}, uid = {NULL, 0};
    uint8_t identity[MESSAGE_ID_SIZE];
    enum error error = params_text(params, "Uid", &given);
    if (error == OK && given.ptr != NULL) {
        if (!identity_from_text(given, identity))
            return params_invalid(params, "Uid", given,
                                  "It must be a UUID, such as 01234567-89ab-4def-8123-456789abcdef.");
        char *text = arena_allocate(call->arena, IDENTITY_TEXT_SIZE);
        identity_to_text(identity, text); /* one way to write it */
        uid = bytes_make(text, IDENTITY_TEXT_SIZE);
    }
    if (error == OK)
        error = send_read(call, params, queue, SEND_IN_ENTRY, uid, send);
    if (error == OK && uid.size > 0)
        send->moved_id =
            arena_format(call->arena, "%.*s %.*s", BYTES_FORMAT(uid), BYTES_FORMAT(body_sha256(call, send->body)));
    return error;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static struct bytes encode_attributes(struct call *call, const struct attributes *attributes)
{
    if (attributes->count == 0)
        return bytes_make(NULL, 0);
    struct buffer encoded;
    buffer_init(&encoded);
    attributes_encode(attributes, &encoded);
    struct bytes copy = arena_copy(call->arena, buffer_bytes(&encoded));
    buffer_deinit(&encoded);
    return copy;
}

struct send_command send_command_of(struct call *call, const struct send_parameters *send)
{
    struct send_command command = {
        .queue = send->queue,
        .content = {.body = send->body,
                    .attributes = encode_attributes(call, &send->attributes),
                    .group = send->group,
                    .sender = call->caller == NULL ? core_name(call->core) : call->caller->access_key,
                    .trace = send->trace,
                    .deduplication = send->deduplication},
        .moved_id = send->moved_id,
        .delay_ms = (uint32_t)send->delay_s * 1000,
        .priority = send->priority,
        .batch_id = send->batch_id,
        .type = send->type,
        .producer = send->producer,
        .sequence = send->sequence,
        .antecedents = send->antecedents,
        .antecedent_count = send->antecedent_count,
        .after_failure = send->after_failure,
    };
    /* A header may hold any bytes. If it is not valid text it is dropped, because the receiver's reply would not be
     * valid JSON. */
    struct bytes header = call->exchange->request.trace_header;
    if (send->trace.size == 0 && text_is_printable(header))
        command.content.trace = header;
    memcpy(command.content.body_md5, send->body_md5, sizeof(send->body_md5));
    memcpy(command.content.attributes_md5, send->attributes_md5, sizeof(send->attributes_md5));
    return command;
}

/* --- the reply ---------------------------------------------------------------------------------------------------- */

static enum error fail_join(struct call *call, enum error error, struct bytes batch_id)
{
    int size = (int)(batch_id.size < BATCH_ID_SIZE_MAX ? batch_id.size : BATCH_ID_SIZE_MAX);
    const char *id = (const char *)batch_id.ptr;
    switch (error) {
    case ERROR_BATCH_DOES_NOT_EXIST:
        return call_fail(call, error, "Tally.Batch: there is no batch '%.*s'%s; create it first.", size, id,
                         reach_words(call));
    case ERROR_BATCH_SEALED:
        return call_fail(call, error, "Tally.Batch: batch '%.*s' %.*s", size, id,
                         BYTES_FORMAT(call_closed_words(call, batch_id)));
    case ERROR_BATCH_TOTAL_EXCEEDED:
        return call_fail(call, error, "Tally.Batch: batch '%.*s' has all the units of its Total.", size, id);
    default:
        return call_fail(call, error, "Tally.Batch: batch '%.*s' can take no more units; the limit is %u.", size, id,
                         LEDGER_UNITS_MAX);
    }
}

/* An antecedent as its sender wrote it. */
static struct bytes antecedent_text(struct call *call, const struct antecedent_name *name)
{
    if (name->kind == NAMED_DEDUPLICATION)
        return arena_format(call->arena, "dedup:%.*s/%.*s", BYTES_FORMAT(name->queue), BYTES_FORMAT(name->text));
    return arena_format(call->arena, "%s:%.*s", name->kind == NAMED_BATCH ? "batch" : "message",
                        BYTES_FORMAT(name->text));
}

enum error send_fail(struct call *call, const struct send_parameters *send, enum error error,
                     const struct send_result *result)
{
    struct bytes antecedent = BYTES("");
    if (result->failed < send->antecedent_count)
        antecedent = antecedent_text(call, &send->antecedents[result->failed]);
    switch (error) {
    case ERROR_DEPENDENCY_DOES_NOT_EXIST:
        if (result->is_forgotten)
            return call_fail(call, error, "Tally.After: %.*s ended so long ago that how it ended is forgotten.",
                             BYTES_FORMAT(antecedent));
        return call_fail(call, error, "Tally.After: %.*s is not known in this namespace.", BYTES_FORMAT(antecedent));
    case ERROR_DEPENDENCY_CYCLE:
        return call_fail(call, error, "The message would wait for itself: %s.",
                         reach_is_confined(call) ? "through something that it waits for" : result->path);
    case ERROR_DEPENDENCY_TOO_DEEP:
        return call_fail(call, error,
                         "Tally.After: %.*s depends on so much that the search for a cycle met its limit; wait for a "
                         "batch of it instead.",
                         BYTES_FORMAT(antecedent));
    default:
        return fail_join(call, error, send->batch_id);
    }
}

void send_write_reply(struct call *call, const struct send_parameters *send, const struct send_result *result)
{
    struct writer *reply = call->reply;
    writer_hex(reply, "MD5OfMessageBody", bytes_make(send->body_md5, DIGEST_MD5_SIZE));
    if (send->has_given_attributes)
        writer_hex(reply, "MD5OfMessageAttributes", bytes_make(send->given_attributes_md5, DIGEST_MD5_SIZE));
    if (send->has_system_attributes)
        writer_hex(reply, "MD5OfMessageSystemAttributes", bytes_make(send->system_attributes_md5, DIGEST_MD5_SIZE));
    if (result->number != 0) {
        char id[IDENTITY_TEXT_SIZE];
        identity_to_text(result->id, id);
        writer_text(reply, "MessageId", bytes_make(id, sizeof(id)));
    }
    /* A message is accepted at the end of its group, so its sequence number then is its own number. */
    if (result->number != 0 && send->queue->settings.is_fifo)
        writer_text(reply, "SequenceNumber", call_sequence_number(call, result->number));
    if (result->is_duplicate)
        writer_boolean(reply, "Duplicate", true);
    if (result->is_produced)
        writer_text(reply, "LastSequence", arena_format(call->arena, "%" PRIu64, result->sequence_last));
    if (result->was_passed_over)
        writer_boolean(reply, "PassedOver", true);
}
