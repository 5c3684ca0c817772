/* FailMessage: ends this attempt now, with a reason. */
#include "api/growth.h"
#include "api/receipt.h"
#include "api/text.h"

static enum error read_reason(struct call *call, struct bytes *reason)
{
    enum error error = params_text(&call->params, "Reason", reason);
    if (error != OK)
        return error;
    if (reason->size > FAILURE_REASON_SIZE_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Reason has %zu bytes; the limit is %u.", reason->size,
                         FAILURE_REASON_SIZE_MAX);
    if (!text_is_allowed(*reason))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Reason contains characters that a message attribute can't have.");
    return reason->size > 0 ? growth_check(call, GROWTH_LITTLE) : OK; /* it stays with the message */
}

enum error action_fail_message(struct call *call)
{
    struct queue *queue;
    struct bytes handle = {NULL, 0}, reason = {NULL, 0};
    bool is_final = false;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "ReceiptHandle", &handle);
    if (error == OK)
        error = read_reason(call, &reason);
    if (error == OK)
        error = params_boolean(&call->params, "Final", &is_final);
    if (error != OK)
        return error;
    struct receipt_use use;
    error = decide_fail(call->core, queue, handle, reason, is_final, &use);
    receipt_note(call, &use);
    return receipt_answer(call, &call->params, queue, handle, error, &use);
}
