/* DeleteMessage and its batch form. */
#include "api/receipt.h"

static enum error delete_one(struct call *call, const struct params *params)
{
    struct queue *queue;
    struct bytes handle = {NULL, 0};
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(params, "ReceiptHandle", &handle);
    if (error != OK)
        return error;
    struct receipt_use use;
    error = decide_delete(call->core, queue, handle, &use);
    receipt_note_delete(call, queue, &use);
    return receipt_answer(call, params, queue, handle, error, &use);
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
