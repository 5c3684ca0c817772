/* What others ask about the namespaces that this node has or follows: who serves one, why nobody does, and how many. */
#include "tallyd/ownership_state.h"

#include "server/metric.h"

#include <string.h>

/* --- finding ------------------------------------------------------------------------------------------------------ */

size_t ownership_place_of(const struct ownership *ownership, struct bytes name)
{
    size_t low = 0, high = ownership->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (bytes_compare(bytes_from_string(ownership->holdings_owned[middle]->name_owned), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct holding *ownership_find_holding(const struct ownership *ownership, struct bytes name)
{
    const size_t place = ownership_place_of(ownership, name);
    struct holding *holding = place < ownership->count ? ownership->holdings_owned[place] : NULL;
    return holding != NULL && bytes_equal(bytes_from_string(holding->name_owned), name) ? holding : NULL;
}

struct holding *ownership_find_asked(const struct ownership *ownership, struct bytes name)
{
    return name.size == 0 && ownership->count > 0 ? ownership->holdings_owned[0]
                                                  : ownership_find_holding(ownership, name);
}

size_t ownership_count_in(const struct ownership *ownership, enum holding_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < ownership->awake_count; i++)
        count += ownership->awake_owned[i]->state == state;
    return count;
}

bool ownership_is_in_cluster(const struct ownership *ownership)
{
    return belonging_is_in_cluster(&ownership->belonging);
}

bool ownership_serves_nothing(const struct ownership *ownership)
{
    return ownership->belonging.rest_ms == 0 && ownership_count_in(ownership, HOLDING_SERVES) == 0;
}

/* --- one of them -------------------------------------------------------------------------------------------------- */

/* Why nobody may have it at the moment, whoever it belongs to; empty: nothing is known. */
static void explain_absence(const struct holding *holding, char *text, size_t size)
{
    text[0] = '\0';
    if (holding->is_moving)
        (void)snprintf(text, size, "The log of namespace %s is moving to another PostgreSQL. Try again.",
                       holding->name_owned);
    else if (!belonging_sees(holding))
        (void)snprintf(text, size, "The PostgreSQL of namespace %s does not answer. Try again.", holding->name_owned);
}

enum forward_owner ownership_find_node(const struct ownership *ownership, const struct holding *holding,
                                       struct forward_target *target)
{
    struct pg_node owner = belonging_owner(holding);
    explain_absence(holding, target->trouble, sizeof(target->trouble));
    if (owner.name[0] == '\0')
        owner = belonging_home(&ownership->belonging, holding);
    if (owner.name[0] == '\0')
        return FORWARD_LATER;
    (void)snprintf(target->said, sizeof(target->said), "%s", owner.name);
    struct peer_address address;
    if (!peer_address_parse(owner.address, &address))
        return FORWARD_TO_NOBODY;
    (void)snprintf(target->address, sizeof(target->address), "%s", owner.address);
    (void)snprintf(target->said, sizeof(target->said), "%s (%s)", owner.name, owner.address);
    const bool was_me = strcmp(owner.address, ownership->options.cluster->address) == 0;
    return was_me ? FORWARD_LATER : FORWARD_TO_ADDRESS;
}

void ownership_explain(const struct ownership *ownership, struct bytes name, char *text, size_t size)
{
    const struct holding *holding = ownership_find_asked(ownership, name);
    if (holding == NULL)
        return;
    const struct pg_node owner = belonging_owner(holding);
    char absence[sizeof(((struct forward_target *)NULL)->trouble)];
    explain_absence(holding, absence, sizeof(absence));
    if (holding->state == HOLDING_FOLLOWS && disk_postgres_lacks_replica(holding->opened_owned->disk))
        (void)snprintf(text, size, "This node stands by until there is a replica: " PG_NO_REPLICA " in PostgreSQL.");
    else if (absence[0] != '\0')
        (void)snprintf(text, size, "%s", absence);
    else if (holding->state == HOLDING_STALLS)
        (void)snprintf(text, size, "This node serves, and waits for its log in PostgreSQL. Try again.");
    else if (owner.name[0] == '\0')
        (void)snprintf(text, size, "This node stands by: nobody serves yet. Try again.");
    else if (strcmp(owner.name, ownership->node) == 0)
        (void)snprintf(text, size, "This node served last, and reads its log. Try again.");
    else
        (void)snprintf(text, size, "This node stands by: node %s serves. Try again, or ask that one.", owner.name);
    const size_t used = strlen(text);
    if (holding->loss.error == ERROR_DISK_FULL)
        (void)snprintf(text + used, size - used, " Before, this node served, and gave up: %s", holding->loss.text);
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* Must another node have it? Where it is at rest, the node where it belongs opens it, and where there is none, this
 * one. */
static bool is_for_others(const struct holding *holding)
{
    return holding->state != HOLDING_SERVES && holding->is_wanted && !holding->is_at_rest;
}

bool ownership_others_have_owners(const struct ownership *ownership)
{
    for (size_t i = 0; i < ownership->count; i++) {
        const struct holding *holding = ownership->holdings_owned[i];
        struct forward_target target = {0};
        if (is_for_others(holding) && ownership_find_node(ownership, holding, &target) == FORWARD_LATER)
            return false;
    }
    return true;
}

/* Are requests answered by this node or passed on, if only about one namespace? One that nobody can serve is refused by
 * each node, and must not take all of them away from a load balancer, and the other namespaces with them. */
static bool answers_some(const struct ownership *ownership)
{
    size_t unknown = 0;
    for (size_t i = 0; i < ownership->count; i++) {
        const struct holding *holding = ownership->holdings_owned[i];
        struct forward_target target = {0};
        if (holding->state == HOLDING_SERVES)
            return true;
        if (is_for_others(holding) && ownership_find_node(ownership, holding, &target) == FORWARD_TO_ADDRESS)
            return true;
        unknown += is_for_others(holding);
    }
    return unknown == 0;
}

/* Of a cluster in which nothing rests each node answers that serves one. */
static bool stands_by(const struct ownership *ownership)
{
    return ownership_is_in_cluster(ownership) && ownership->belonging.rest_ms == 0 ? ownership_serves_nothing(ownership)
                                                                                   : !ownership->is_ready;
}

struct presence ownership_presence(const struct ownership *ownership)
{
    const size_t served = ownership_count_in(ownership, HOLDING_SERVES);
    return (struct presence){.stands_by = stands_by(ownership),
                             .namespaces = ownership->count,
                             .served = served,
                             .followed = ownership_count_in(ownership, HOLDING_FOLLOWS),
                             .is_reachable = belonging_is_reachable(&ownership->belonging),
                             .knows_owners = ownership_is_in_cluster(ownership) && answers_some(ownership)};
}

enum permission ownership_may_answer(const struct ownership *ownership, const struct served *served,
                                     struct failure *failure)
{
    return namespaces_may_answer(ownership->options.namespaces, CONTAINER_OF(served, struct opened_namespace, served),
                                 failure);
}

static size_t count_at_rest(const struct ownership *ownership)
{
    size_t count = 0;
    for (size_t i = 0; i < ownership->count; i++)
        count += ownership->holdings_owned[i]->is_at_rest;
    return count;
}

void ownership_write_metrics(const struct ownership *ownership, struct buffer *text)
{
    uint64_t longest_ms = 0, position = 0;
    size_t owned = 0;
    for (size_t i = 0; i < ownership->count; i++) {
        const struct holding *holding = ownership->holdings_owned[i];
        const bool has_log = holding_has_log(holding);
        owned += has_log && holding->state != HOLDING_STALLS;
        if (has_log || holding->state == HOLDING_FOLLOWS)
            position += disk_postgres_position(holding->opened_owned->disk);
        const uint64_t silence_ms = has_log ? opened_namespace_silence_ms(holding->opened_owned) : 0;
        longest_ms = silence_ms > longest_ms ? silence_ms : longest_ms;
    }
    metric_write(text, "tally_log_owner", "gauge",
                 "Whether this node has logs in PostgreSQL and serves (1), or only stands by (0).", owned > 0);
    metric_write(text, "tally_namespaces", "gauge", "Namespaces that the credentials name.", ownership->count);
    metric_write(text, "tally_namespaces_owned", "gauge", "Namespaces whose log in PostgreSQL is this node's.", owned);
    metric_write(text, "tally_namespaces_at_rest", "gauge",
                 "Namespaces that no node has open: empty, and not asked for. The next request opens one.",
                 count_at_rest(ownership));
    metric_write(text, "tally_namespaces_stalled", "gauge",
                 "Namespaces that this node had when their PostgreSQL went silent, and serves again when that answers.",
                 ownership_count_in(ownership, HOLDING_STALLS));
    metric_write(text, "tally_namespaces_followed", "gauge",
                 "Namespaces that this node follows, to take them over when their owner ends.",
                 ownership_count_in(ownership, HOLDING_FOLLOWS));
    metric_write_seconds(text, "tally_log_silence_seconds",
                         "How long ago the last statement began that PostgreSQL acknowledged; of all namespaces of "
                         "this node the longest. From the lease on nothing of such a namespace is answered.",
                         longest_ms);
    metric_write(text, "tally_log_position_bytes", "gauge",
                 "Where the logs end, of all namespaces in sum: what this node has written, or, where it stands by, "
                 "followed and applied.",
                 position);
}
