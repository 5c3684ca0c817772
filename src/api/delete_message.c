/* DeleteMessage and its batch form. */
#include "api/action.h"

static enum error delete_one(struct call *call, const struct params *params)
{
    struct queue *queue;
    struct bytes handle = {NULL, 0};
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(params, "ReceiptHandle", &handle);
    if (error == OK)
        error = decide_delete(call->core, queue, handle);
    if (error == ERROR_RECEIPT_HANDLE_IS_INVALID)
        return call_fail_handle(call, handle);
    if (error == ERROR_INVALID_PARAMETER_VALUE)
        return params_invalid(params, "ReceiptHandle", handle, "The receipt handle has expired.");
    return error;
}

enum error action_delete_message(struct call *call)
{
    return delete_one(call, &call->params);
}

enum error action_delete_message_batch(struct call *call)
{
    struct queue *queue;
    enum error error = call_queue(call, &queue);
    return error == OK ? entries_run(call, "DeleteMessageBatchRequestEntry", NULL, delete_one) : error;
}
