#include "tally/queue_stats.h"

#include "base/memory.h"
#include "client/json.h"
#include "tally/pages.h"

struct reading {
    const char *prefix;
    struct queue_stats_list *list;
};

static bool has(yyjson_val *queue, const char *member)
{
    return yyjson_obj_get(queue, member) != NULL;
}

static void take_queue(void *context, yyjson_val *queue)
{
    struct queue_stats_list *list = ((struct reading *)context)->list;
    ARRAY_GROW(list->items_owned, list->count, list->capacity);
    struct queue_stats *stats = &list->items_owned[list->count++];
    *stats = (struct queue_stats){
        .visible = json_number(queue, "Visible"),
        .in_flight = json_number(queue, "InFlight"),
        .delayed = json_number(queue, "Delayed"),
        .blocked = json_number(queue, "Blocked"),
        .groups = json_number(queue, "Groups"),
        .held_groups = json_number(queue, "HeldGroups"),
        .oldest_s = json_number(queue, "OldestMessageAge"),
        .deliverable_s = json_number(queue, "OldestDeliverableAge"),
        .waiting_receives = json_number(queue, "WaitingReceives"),
        .sent = json_real(queue, "SentPerSecond"),
        .received = json_real(queue, "ReceivedPerSecond"),
        .deleted = json_real(queue, "DeletedPerSecond"),
        .failed = json_real(queue, "FailedPerSecond"),
        .last_receive_at = json_real(queue, "LastReceiveAt"),
        .has_oldest = has(queue, "OldestMessageAge"),
        .has_deliverable = has(queue, "OldestDeliverableAge"),
        .knows_held_groups = has(queue, "HeldGroups"),
        .is_paused = json_is_true(queue, "Paused"),
    };
    json_copy(queue, "QueueName", stats->name, sizeof stats->name);
    json_copy(queue, "DeadLetterQueue", stats->dead_letter_queue, sizeof stats->dead_letter_queue);
}

static void ask(void *context, struct json_body *body)
{
    const struct reading *reading = context;
    json_add_text(body, body->root, "QueueNamePrefix", reading->prefix);
}

int queue_stats_read(struct invocation *invocation, const char *prefix, struct queue_stats_list *list)
{
    struct reading reading = {.prefix = prefix, .list = list};
    *list = (struct queue_stats_list){0};
    return pages_run(&(struct pages){.invocation = invocation,
                                     .action = "Tally.ListQueueStats",
                                     .list = "Queues",
                                     .ask = ask,
                                     .take = take_queue,
                                     .context = &reading});
}
