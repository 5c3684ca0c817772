/* SendMessage and SendMessageBatch. */
#include "api/send.h"

#define REQUEST_SIZE_MAX 1048576u

static enum error send_one(struct call *call, const struct params *params, enum send_context context)
{
    struct queue *queue;
    struct send_parameters send;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = send_read(call, params, queue, context, bytes_make(NULL, 0), &send);
    if (error != OK)
        return error;
    struct send_command command = send_command_of(call, &send);
    struct send_result result;
    error = decide_send(call->core, &command, &result);
    if (error != OK)
        return send_fail(call, &send, error, &result);
    send_write_reply(call, &send, &result);
    return OK;
}

enum error action_send_message(struct call *call)
{
    return send_one(call, &call->params, SEND_ALONE);
}

/* The sum over all entries, valid or not. */
static enum error check_sum(struct call *call, yyjson_val *entries)
{
    size_t sum = 0;
    size_t index, count;
    yyjson_val *entry;
    yyjson_arr_foreach(entries, index, count, entry)
    {
        struct params params = {.object = entry};
        sum += params_bytes(yyjson_obj_get(entry, "MessageBody")).size;
        sum += attributes_measure(&params, "MessageAttributes");
    }
    if (sum > REQUEST_SIZE_MAX)
        return call_fail(call, ERROR_BATCH_REQUEST_TOO_LONG,
                         "Batch requests cannot be longer than %u bytes. You have sent %zu bytes.", REQUEST_SIZE_MAX,
                         sum);
    return OK;
}

/* The sum, then the ids that a FIFO queue requires: one entry without them fails the whole request (reference: SQS,
 * 5.3). */
static enum error check_entries(struct call *call, yyjson_val *entries)
{
    struct queue *queue;
    enum error error = check_sum(call, entries);
    if (error == OK)
        error = call_queue(call, &queue);
    size_t index, count;
    yyjson_val *entry;
    yyjson_arr_foreach(entries, index, count, entry)
    {
        struct params params = {.object = entry, .failure = call->failure};
        if (error == OK)
            error = send_check_ids(call, &params, queue, ERROR_INVALID_PARAMETER_VALUE);
    }
    return error;
}

static enum error send_entry(struct call *call, const struct params *entry)
{
    return send_one(call, entry, SEND_IN_ENTRY);
}

enum error action_send_message_batch(struct call *call)
{
    struct queue *queue;
    enum error error = call_queue(call, &queue);
    return error == OK ? entries_run(call, "SendMessageBatchRequestEntry", check_entries, send_entry) : error;
}
