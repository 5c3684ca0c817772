/* ListQueues and ListDeadLetterSourceQueues: queues in order of name, a page at a time. */
#include "api/access.h"

/* Which queues a list has. */
struct selection {
    struct bytes prefix;        /* of their names */
    const struct queue *target; /* only queues with this dead-letter queue; NULL: all queues */
};

static bool is_selected(const struct call *call, const struct selection *selection, const struct queue *queue)
{
    bool is_source = selection->target == NULL || queue_is_source_of(queue, selection->target);
    return is_source && access_covers(call, queue->name_owned);
}

/* Writes a page of their URLs as the list `member`. */
static enum error list(struct call *call, const char *member, const struct selection *selection)
{
    struct bytes from = selection->prefix;
    int64_t results_max, count = 0;
    bool is_paged;
    enum error error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    const struct queue *next = NULL;
    for (size_t i = core_queue_index(call->core, from); i < core_queue_count(call->core) && next == NULL; i++) {
        const struct queue *queue = core_queue_by_name(call->core, i);
        if (!bytes_starts_with(queue->name_owned, selection->prefix))
            break;
        if (!is_selected(call, selection, queue))
            continue;
        if (count == results_max) {
            next = queue;
            continue;
        }
        if (count++ == 0)
            writer_list_begin(call->reply, member);
        writer_text(call->reply, NULL, call_queue_url(call, queue));
    }
    if (count > 0)
        writer_list_end(call->reply);
    if (next != NULL && is_paged)
        writer_hex(call->reply, "NextToken", next->name_owned);
    return OK;
}

enum error action_list_queues(struct call *call)
{
    struct selection selection = {.target = NULL};
    enum error error = params_text(&call->params, "QueueNamePrefix", &selection.prefix);
    return error == OK ? list(call, "QueueUrls", &selection) : error;
}

enum error action_list_dead_letter_source_queues(struct call *call)
{
    struct queue *target;
    enum error error = call_queue(call, &target);
    return error == OK ? list(call, "queueUrls", &(struct selection){.target = target}) : error;
}
