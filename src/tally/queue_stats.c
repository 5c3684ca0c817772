#include "tally/queue_stats.h"

#include "base/memory.h"
#include "client/json.h"

#define PAGE_SIZE 1000

static bool has(yyjson_val *queue, const char *member)
{
    return yyjson_obj_get(queue, member) != NULL;
}

static void take_queue(yyjson_val *queue, struct queue_stats_list *list)
{
    ARRAY_GROW(list->items_owned, list->count, list->capacity);
    struct queue_stats *stats = &list->items_owned[list->count++];
    *stats = (struct queue_stats){
        .visible = json_number(queue, "Visible"),
        .in_flight = json_number(queue, "InFlight"),
        .delayed = json_number(queue, "Delayed"),
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

enum tally_status queue_stats_read(struct tally_client *client, const char *prefix, struct queue_stats_list *list)
{
    char token[4096] = "";
    *list = (struct queue_stats_list){0};
    do {
        struct json_body body;
        struct tally_reply reply;
        size_t i, max;
        yyjson_val *queue;
        json_body_init(&body);
        json_add_text(&body, body.root, "QueueNamePrefix", prefix);
        json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
        json_add_number(&body, body.root, "MaxResults", PAGE_SIZE);
        enum tally_status status = json_body_call(&body, client, "Tally.ListQueueStats", &reply);
        if (status != TALLY_OK)
            return status;
        yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Queues"), i, max, queue)
        {
            take_queue(queue, list);
        }
        json_copy(json_root(&reply), "NextToken", token, sizeof token);
        tally_reply_deinit(&reply);
    } while (*token != '\0');
    return TALLY_OK;
}
