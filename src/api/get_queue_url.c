/* GetQueueUrl. */
#include "api/access.h"

enum error action_get_queue_url(struct call *call)
{
    struct bytes name = {NULL, 0}, account = {NULL, 0};
    enum error error = params_text(&call->params, "QueueName", &name);
    if (error == OK)
        error = params_text(&call->params, "QueueOwnerAWSAccountId", &account);
    if (error != OK)
        return error;
    if (name.size == 0)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value for parameter QueueName is invalid. Reason: Must specify a queue name.");
    bool is_ours = account.size == 0 || bytes_equal(account, core_name(call->core));
    const struct queue *queue = is_ours ? core_find_queue(call->core, name) : NULL;
    error = access_check_queue(call, name, queue);
    if (error != OK)
        return error;
    if (!is_ours)
        return call_fail_namespace(call, account);
    if (queue == NULL)
        return call_fail_name(call, name);
    writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
    return OK;
}
