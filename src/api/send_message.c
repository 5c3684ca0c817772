/* SendMessage and SendMessageBatch. Order of the checks: body present, attributes by themselves, size, characters, ids,
 * delay. */
#include "api/action.h"
#include "api/text.h"

#define REQUEST_SIZE_MAX 1048576u

/* What a send says, as read. */
struct send_parameters {
    struct bytes body;
    struct bytes group;
    struct bytes trace;
    int64_t delay_s;
    struct attributes attributes;
    uint8_t body_md5[DIGEST_MD5_SIZE];
    uint8_t attributes_md5[DIGEST_MD5_SIZE];
    bool has_system_attributes;
    uint8_t system_attributes_md5[DIGEST_MD5_SIZE];
};

static enum error check_body(struct call *call, const struct queue *queue, const struct send_parameters *send,
                             bool is_entry)
{
    size_t size = send->body.size + send->attributes.size;
    if (size > queue->settings.message_size_max)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "One or more parameters %s. Reason: Message must be shorter than %u bytes.",
                         is_entry ? "cannot be validated" : "are invalid", queue->settings.message_size_max);
    return text_is_allowed(send->body)
               ? OK
               : call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "%s", error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
}

/* The one system attribute that can be sent: AWSTraceHeader. */
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

static enum error read_ids(const struct params *params, struct send_parameters *send)
{
    struct bytes deduplication = {NULL, 0};
    enum error error = params_text(params, "MessageGroupId", &send->group);
    if (error == OK)
        error = params_text(params, "MessageDeduplicationId", &deduplication);
    if (error != OK)
        return error;
    error = call_check_group(params, send->group);
    if (error != OK)
        return error;
    if (deduplication.ptr != NULL)
        return params_invalid(params, "MessageDeduplicationId", deduplication,
                              "The request include parameter that is not valid for this queue type.");
    return OK;
}

static enum error read_send(struct call *call, const struct params *params, const struct queue *queue, bool is_entry,
                            struct send_parameters *send)
{
    *send = (struct send_parameters){.delay_s = queue->settings.delay_s};
    enum error error = params_required_text(params, "MessageBody", &send->body);
    if (error == OK)
        error = attributes_parse(params, "MessageAttributes", call->arena, &send->attributes);
    if (error == OK)
        error = check_body(call, queue, send, is_entry);
    if (error == OK)
        error = read_system_attributes(call, params, send);
    if (error == OK)
        error = read_ids(params, send);
    if (error == OK)
        error =
            params_integer_in(params, "DelaySeconds", 0, 900, "DelaySeconds must be >= 0 and <= 900.", &send->delay_s);
    return error;
}

static enum error fail_join(struct call *call, enum error error, struct bytes batch_id)
{
    int size = (int)(batch_id.size < BATCH_ID_SIZE_MAX ? batch_id.size : BATCH_ID_SIZE_MAX);
    const char *id = (const char *)batch_id.ptr;
    switch (error) {
    case ERROR_BATCH_DOES_NOT_EXIST:
        return call_fail(call, error, "Tally.Batch: there is no batch '%.*s'; create it first.", size, id);
    case ERROR_BATCH_SEALED:
        return call_fail(call, error, "Tally.Batch: batch '%.*s' is sealed; no message can join it.", size, id);
    case ERROR_BATCH_TOTAL_EXCEEDED:
        return call_fail(call, error, "Tally.Batch: batch '%.*s' has all the units of its Total.", size, id);
    default:
        return call_fail(call, error, "Tally.Batch: batch '%.*s' can take no more units; the limit is %u.", size, id,
                         LEDGER_UNITS_MAX);
    }
}

/* Decides a send that was read, and writes the fields of its reply. */
static enum error send(struct call *call, struct queue *queue, struct send_parameters *send)
{
    struct buffer encoded;
    buffer_init(&encoded);
    if (send->attributes.count > 0)
        attributes_encode(&send->attributes, &encoded);
    digest_md5(call_digest(call), send->body, send->body_md5);
    attributes_md5(&send->attributes, call_digest(call), call_scratch(call), send->attributes_md5);
    struct send_command command = {
        .queue = queue,
        .content = {.body = send->body,
                    .attributes = buffer_bytes(&encoded),
                    .group = send->group,
                    .sender = core_name(call->core),
                    .trace = send->trace},
        .delay_ms = (uint32_t)send->delay_s * 1000,
        .priority = PRIORITY_DEFAULT,
    };
    /* A header may hold any bytes; what is no text is not handed on, or the reply to the receiver would not be JSON. */
    struct bytes header = call->exchange->request.trace_header;
    if (send->trace.size == 0 && text_is_printable(header))
        command.content.trace = header;
    memcpy(command.content.body_md5, send->body_md5, sizeof(send->body_md5));
    memcpy(command.content.attributes_md5, send->attributes_md5, sizeof(send->attributes_md5));
    const struct attribute *batch = attributes_find(&send->attributes, BYTES("Tally.Batch"));
    if (batch != NULL)
        command.batch_id = batch->value;
    struct send_result result;
    enum error error = decide_send(call->core, &command, &result);
    buffer_deinit(&encoded);
    if (error != OK)
        return fail_join(call, error, command.batch_id);
    char id[IDENTITY_TEXT_SIZE];
    identity_to_text(result.id, id);
    writer_hex(call->reply, "MD5OfMessageBody", bytes_make(send->body_md5, DIGEST_MD5_SIZE));
    if (send->attributes.count > 0)
        writer_hex(call->reply, "MD5OfMessageAttributes", bytes_make(send->attributes_md5, DIGEST_MD5_SIZE));
    if (send->has_system_attributes)
        writer_hex(call->reply, "MD5OfMessageSystemAttributes",
                   bytes_make(send->system_attributes_md5, DIGEST_MD5_SIZE));
    writer_text(call->reply, "MessageId", bytes_make(id, sizeof(id)));
    return OK;
}

enum error action_send_message(struct call *call)
{
    struct queue *queue;
    struct send_parameters parameters;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_send(call, &call->params, queue, false, &parameters);
    return error == OK ? send(call, queue, &parameters) : error;
}

/* The sum over all entries, as far as they can be read; what can't be is a fault of its entry. */
static enum error check_sum(struct call *call, yyjson_val *entries)
{
    size_t sum = 0;
    size_t index, count;
    yyjson_val *entry;
    yyjson_arr_foreach(entries, index, count, entry)
    {
        struct failure ignored;
        struct params params = {.object = entry, .failure = &ignored};
        struct attributes attributes;
        sum += yyjson_get_len(yyjson_obj_get(entry, "MessageBody"));
        if (yyjson_obj_get(entry, "MessageAttributes") != NULL &&
            attributes_parse(&params, "MessageAttributes", call->arena, &attributes) == OK)
            sum += attributes.size;
    }
    if (sum > REQUEST_SIZE_MAX)
        return call_fail(call, ERROR_BATCH_REQUEST_TOO_LONG,
                         "Batch requests cannot be longer than %u bytes. You have sent %zu bytes.", REQUEST_SIZE_MAX,
                         sum);
    return OK;
}

static enum error send_entry(struct call *call, const struct params *entry)
{
    struct queue *queue;
    struct send_parameters parameters;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_send(call, entry, queue, true, &parameters);
    return error == OK ? send(call, queue, &parameters) : error;
}

enum error action_send_message_batch(struct call *call)
{
    struct queue *queue;
    enum error error = call_queue(call, &queue);
    return error == OK ? entries_run(call, "SendMessageBatchRequestEntry", check_sum, send_entry) : error;
}
