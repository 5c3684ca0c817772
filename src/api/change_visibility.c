/* ChangeMessageVisibility and its batch form. */
#include "api/receipt.h"
#include "engine/grant.h"

#define TIMEOUT_S_MAX 43200

/* Why the core refused, in SQS's words. */
static enum error explain(struct call *call, const struct params *params, const struct queue *queue, enum error error,
                          struct bytes handle, int64_t timeout_s, const struct receipt_use *use)
{
    if (error == ERROR_RECEIPT_HANDLE_IS_INVALID)
        return receipt_answer(call, params, queue, handle, error, use);
    if (use->is_gone)
        return params_invalid(params, "ReceiptHandle", handle,
                              "Message does not exist or is not available for visibility timeout change.");
    return call_fail(
        call, error,
        "Value %lld for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is "
        "beyond the limit [43200 seconds]",
        (long long)timeout_s);
}

static enum error change_one(struct call *call, const struct params *params)
{
    struct queue *queue;
    struct bytes handle = {NULL, 0};
    int64_t timeout_s = -1;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(params, "ReceiptHandle", &handle);
    if (error == OK)
        error = params_integer_in(params, "VisibilityTimeout", 0, TIMEOUT_S_MAX, "Must be between 0 and 43200.",
                                  &timeout_s);
    if (error != OK)
        return error;
    if (timeout_s < 0)
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter VisibilityTimeout.");
    struct receipt_use use;
    struct granted_lease given;
    error = decide_change_visibility(call->core, queue, handle, (uint32_t)timeout_s * 1000, &given, &use);
    receipt_note(call, &use);
    if (error == OK && given.message != 0)
        *grants_add(namespace_grants(call->ns), &call->exchange->grant_owned, 1, (uint32_t)timeout_s * 1000,
                    core_now_ms(call->core)) = given;
    return error == OK ? OK : explain(call, params, queue, error, handle, timeout_s, &use);
}

enum error action_change_message_visibility(struct call *call)
{
    return change_one(call, &call->params);
}

enum error action_change_message_visibility_batch(struct call *call)
{
    struct queue *queue;
    enum error error = call_queue(call, &queue);
    return error == OK ? entries_run(call, "ChangeMessageVisibilityBatchRequestEntry", NULL, change_one) : error;
}
