/* ListQueues. */
#include "api/access.h"

/* Queues in order of name. */
enum error action_list_queues(struct call *call)
{
    struct bytes prefix = {NULL, 0};
    int64_t results_max;
    bool is_paged;
    enum error error = params_text(&call->params, "QueueNamePrefix", &prefix);
    struct bytes from = prefix;
    if (error == OK)
        error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    const struct queue *next = NULL;
    int64_t count = 0;
    for (size_t i = core_queue_place(call->core, from); i < core_queue_count(call->core); i++) {
        const struct queue *queue = core_queue_by_name(call->core, i);
        if (!bytes_starts_with(queue->name_owned, prefix))
            break;
        if (!access_covers(call, queue->name_owned))
            continue;
        if (count == results_max) {
            next = queue;
            break;
        }
        if (count++ == 0)
            writer_list_begin(call->reply, "QueueUrls");
        writer_text(call->reply, NULL, call_queue_url(call, queue));
    }
    if (count > 0)
        writer_list_end(call->reply);
    if (next != NULL && is_paged)
        writer_hex(call->reply, "NextToken", next->name_owned);
    return OK;
}
