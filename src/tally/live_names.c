#include "tally/live_names.h"

#include "base/assert.h"
#include "client/json.h"
#include <string.h>

#define TIMEOUT_MS 300u
#define NAMES_MAX 1000u

/* How each kind is listed. */
static const struct {
    const char *action;
    const char *prefix; /* the member of the request that chooses by the beginning of the name; where there is none, the
                         * server passes over it */
    const char *list;
    const char *name; /* in an item of the list; NULL: an item is a URL that ends with the name */
} lists[] = {
    [NAMES_OF_QUEUES] = {"AmazonSQS.ListQueues", "QueueNamePrefix", "QueueUrls", NULL},
    [NAMES_OF_BATCHES] = {"Tally.ListBatches", "Prefix", "Batches", "BatchId"},
    [NAMES_OF_POOLS] = {"Tally.ListPools", "Prefix", "Pools", "PoolName"},
    [NAMES_OF_RELAYS] = {"Tally.ListRelays", "Prefix", "Relays", "Name"},
    [NAMES_OF_SCHEDULES] = {"Tally.ListSchedules", "Prefix", "Schedules", "Name"},
    [NAMES_OF_TYPE_ORDERS] = {"Tally.ListTypeOrders", "Prefix", "TypeOrders", "Name"},
};

/* Is the name one word to a shell, and no option? Names may have any punctuation, and come from whoever made them. */
static bool is_plain(const char *name)
{
    return name[0] != '\0' && name[0] != '-' &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/@+,%=")] == '\0';
}

static void add_name(struct candidates *candidates, yyjson_val *item)
{
    const char *member = lists[candidates->names].name;
    const char *name = member == NULL ? yyjson_get_str(item) : json_text(item, member);
    if (member == NULL && name != NULL && strrchr(name, '/') != NULL)
        name = strrchr(name, '/') + 1;
    if (name != NULL && is_plain(name) && strncmp(name, candidates->prefix, strlen(candidates->prefix)) == 0)
        candidates_add(candidates, bytes_from_string(name), "");
}

void live_names_add(struct candidates *candidates)
{
    ASSERT(candidates->names < ARRAY_LENGTH(lists) && lists[candidates->names].action != NULL);
    const struct tally_options options = {
        .endpoint = candidates->endpoint, .ca_file = candidates->ca_file, .timeout_ms = TIMEOUT_MS, .attempts_max = 1};
    struct tally_client *client;
    struct tally_error ignored;
    struct tally_reply reply;
    struct json_body body;
    size_t i, max;
    yyjson_val *item;
    if (tally_client_create(&options, &client, &ignored) != TALLY_OK)
        return;
    json_body_init(&body);
    json_add_number(&body, body.root, "MaxResults", NAMES_MAX);
    if (candidates->prefix[0] != '\0')
        json_add_text(&body, body.root, lists[candidates->names].prefix, candidates->prefix);
    if (json_body_call(&body, client, lists[candidates->names].action, &reply) == TALLY_OK) {
        yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), lists[candidates->names].list), i, max, item)
        {
            add_name(candidates, item);
        }
        tally_reply_deinit(&reply);
    }
    tally_client_destroy(client);
}
