/* ListQueues, ListDeadLetterSourceQueues and ListQueueStats: queues in order of name, a page at a time. */
#include "api/access.h"
#include "api/wait.h"
#include "core/messages/message_list.h"

/* Which queues a list has. */
struct selection {
    struct bytes prefix;        /* of their names */
    const struct queue *target; /* only queues with this dead-letter queue; NULL: all queues */
    bool has_empty_list;        /* where there is none; SQS's own actions leave the list out */
};

static bool is_selected(const struct call *call, const struct selection *selection, const struct queue *queue)
{
    bool is_source = selection->target == NULL || queue_is_source_of(queue, selection->target);
    return is_source && access_covers(call, queue->name_owned);
}

static void write_url(struct call *call, const struct queue *queue)
{
    writer_text(call->reply, NULL, call_queue_url(call, queue));
}

/* Writes a page of them as the list `member`. */
static enum error list(struct call *call, const char *member, const struct selection *selection,
                       void (*write)(struct call *call, const struct queue *queue))
{
    struct bytes from = selection->prefix;
    int64_t results_max, count = 0;
    bool is_paged;
    enum error error = call_page_by_name(call, &from, &results_max, &is_paged);
    if (error != OK)
        return error;
    const struct queue *next = NULL;
    if (selection->has_empty_list)
        writer_list_begin(call->reply, member);
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
        if (count++ == 0 && !selection->has_empty_list)
            writer_list_begin(call->reply, member);
        write(call, queue);
    }
    if (count > 0 || selection->has_empty_list)
        writer_list_end(call->reply);
    if (next != NULL && is_paged)
        writer_hex(call->reply, "NextToken", next->name_owned);
    return OK;
}

enum error action_list_queues(struct call *call)
{
    struct selection selection = {.target = NULL};
    enum error error = params_text(&call->params, "QueueNamePrefix", &selection.prefix);
    return error == OK ? list(call, "QueueUrls", &selection, write_url) : error;
}

enum error action_list_dead_letter_source_queues(struct call *call)
{
    struct queue *target;
    enum error error = call_queue(call, &target);
    return error == OK ? list(call, "queueUrls", &(struct selection){.target = target}, write_url) : error;
}

/* --- what is in them, and what happens there ---------------------------------------------------------------------- */

/* The name of its dead-letter queue, if it has one of this namespace and the caller covers that. */
static void write_dead_letter_queue(struct call *call, const struct queue *queue)
{
    const struct bytes name = queue_name_of_arn(queue->settings.dead_letter_arn);
    if (name.size > 0 && access_covers(call, name))
        writer_text(call->reply, "DeadLetterQueue", name);
}

/* What came and went a second, over the last minute (queue_counters.h); and when somebody last asked for messages. */
static void write_rates(struct call *call, const struct queue *queue)
{
    static const struct {
        const char *name;
        enum queue_counter counter;
    } rates[] = {{"SentPerSecond", COUNTER_SENT},
                 {"ReceivedPerSecond", COUNTER_RECEIVED},
                 {"DeletedPerSecond", COUNTER_DELETED},
                 {"FailedPerSecond", COUNTER_FAILED}};
    for (size_t i = 0; i < ARRAY_LENGTH(rates); i++) {
        const double rate = core_rate(call->core, queue, rates[i].counter);
        writer_real(call->reply, rates[i].name, (double)(uint64_t)(rate * 1000 + 0.5) / 1000);
    }
    if (queue->counters.last_receive_ms != 0)
        writer_time(call->reply, "LastReceiveAt", queue->counters.last_receive_ms);
}

static void write_stats(struct call *call, const struct queue *queue)
{
    struct writer *reply = call->reply;
    const struct message_list *list = core_message_list(call->core, queue);
    const uint64_t oldest_ms = core_oldest_since_ms(call->core, queue), now_ms = core_now_ms(call->core);
    writer_object_begin(reply, NULL);
    writer_text(reply, "QueueName", queue->name_owned);
    writer_text(reply, "QueueUrl", call_queue_url(call, queue));
    writer_number(reply, "Visible", message_list_visible_count(list));
    writer_number(reply, "InFlight", list->in_flight_count);
    writer_number(reply, "Delayed", list->delayed_count);
    if (list->group_count > 0)
        writer_number(reply, "Groups", list->group_count);
    if (oldest_ms != UINT64_MAX)
        writer_number(reply, "OldestMessageAge", oldest_ms > now_ms ? 0 : (now_ms - oldest_ms) / 1000);
    writer_number(reply, "WaitingReceives", wait_receive_count(call->api, queue));
    write_rates(call, queue);
    if (queue->is_paused)
        writer_boolean(reply, "Paused", true);
    write_dead_letter_queue(call, queue);
    writer_object_end(reply);
}

enum error action_list_queue_stats(struct call *call)
{
    struct selection selection = {.has_empty_list = true};
    enum error error = params_text(&call->params, "QueueNamePrefix", &selection.prefix);
    return error == OK ? list(call, "Queues", &selection, write_stats) : error;
}
