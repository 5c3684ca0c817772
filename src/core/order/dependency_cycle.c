/* The search for cycles (invariant D9). "X waits for Y" comes from an edge (dependency.h), from a batch to its
 * outstanding units and child batches, from a parent to the completion message of a child, from a message of a FIFO
 * group to the one before it, and from a message with a type to the earlier ones whose types stand before its own. (A
 * type order that requires a success of a type is no such step: any message of the type will do, and one may be sent
 * later.)
 *
 * Only two things can wait for a new message: its batch, and, in a FIFO group into which a child batch will send its
 * completion message, that child's parent. So the search begins there. It goes from each thing to its dependents,
 * breadth first, until it meets something for which the new message would wait. It need not visit the units of a batch,
 * which may be millions, nor the messages before one in a line. */
#include "core/order/dependency.h"

#include "core/batches/batch.h"
#include "core/identity.h"
#include "core/order/type_lane.h"
#include "core/state.h"

#include <stdio.h>

/* How a node waits for the node from which it was found. */
enum via { VIA_EDGE, VIA_LINE, VIA_UNIT, VIA_CHILD, VIA_EVENT, VIA_TAIL, VIA_TYPE };

struct node {
    uint32_t slot; /* of a message or a batch */
    uint32_t from; /* index of the node for which this one waits; NODE_NEWCOMER */
    bool is_batch;
    uint8_t via; /* enum via */
};

#define NODE_NEWCOMER UINT32_MAX

/* How far a lane of a later type has been walked, from its end, for messages of one type. */
struct type_walk {
    uint32_t lane; /* slots */
    uint32_t later;
    uint32_t at; /* the next one; 0: none is left */
};

struct search {
    const struct core *core;
    const struct newcomer *newcomer;
    struct buffer nodes; /* in the order of finding; those before `next` have been walked from */
    uint32_t count;
    uint32_t next;
    uint32_t scanned;  /* steps that found nothing new, and batches that were asked for their target's line */
    struct table seen; /* (is_batch, slot) -> index of the node, plus 1 */
    struct buffer type_walks;
    struct table type_walk_by_lanes; /* (lane, later) -> index of the walk, plus 1 */
};

static struct node *node_at(const struct search *search, uint32_t index)
{
    ASSERT(index < search->count);
    return (struct node *)(void *)search->nodes.data_owned + index;
}

/* Purged, or cancelled with its batch or its group: it will soon end, whatever it waits for. */
static bool is_dying(const struct core *core, uint32_t message)
{
    return core_message_is_dead(core, core_message(core, message));
}

/* True: the node is new. */
static bool add(struct search *search, bool is_batch, uint32_t slot, uint32_t from, enum via via)
{
    if (!is_batch && via != VIA_LINE && is_dying(search->core, slot))
        return false; /* in a line it leads to those after it */
    uint64_t hash = table_hash_u64((uint64_t)slot * 2 + is_batch);
    for (struct table_probe probe = table_probe_start(&search->seen, hash); table_probe_next(&search->seen, &probe);) {
        const struct node *node = node_at(search, probe.slot - 1);
        if (node->is_batch == is_batch && node->slot == slot)
            return false;
    }
    struct node node = {.slot = slot, .from = from, .is_batch = is_batch, .via = (uint8_t)via};
    buffer_append(&search->nodes, &node, sizeof(node));
    table_insert(&search->seen, hash, ++search->count);
    return true;
}

/* Is a list skipped because it may be longer than the whole search may visit? */
static bool is_exhausted(const struct search *search)
{
    return search->count > DEPENDENCY_VISITS_MAX || search->scanned > DEPENDENCY_VISITS_MAX;
}

/* A completed batch waits for nothing. */
static void add_batch(struct search *search, uint32_t slot, uint32_t from, enum via via)
{
    if (slot != 0 && core_batch(search->core, slot)->state != BATCH_COMPLETED)
        add(search, true, slot, from, via);
}

/* --- who waits ---------------------------------------------------------------------------------------------------- */

static void add_dependents(struct search *search, enum antecedent_kind kind, uint64_t number, uint32_t from)
{
    const struct dependencies *dependencies = &search->core->dependencies;
    uint32_t antecedent = antecedent_find(dependencies, kind, number);
    uint32_t edge = antecedent == 0 ? 0 : antecedent_at(dependencies, antecedent)->first_edge;
    for (; edge != 0 && !is_exhausted(search); edge = edge_at(dependencies, edge)->next)
        search->scanned += !add(search, false, edge_at(dependencies, edge)->dependent, from, VIA_EDGE);
}

/* Includes those that are held because it failed. */
static void add_all_dependents(struct search *search, enum antecedent_kind kind, uint64_t number)
{
    const struct dependencies *dependencies = &search->core->dependencies;
    uint32_t antecedent = antecedent_find(dependencies, kind, number);
    uint32_t edge = antecedent == 0 ? 0 : antecedent_at(dependencies, antecedent)->first_told;
    for (; edge != 0 && !is_exhausted(search); edge = edge_at(dependencies, edge)->next)
        search->scanned += !add(search, false, edge_at(dependencies, edge)->dependent, NODE_NEWCOMER, VIA_EDGE);
    add_dependents(search, kind, number, NODE_NEWCOMER);
}

/* Parents that wait for completion messages at the end of this line. O(batches with the queue as target); they count as
 * visits. */
static void add_parents_at_tail(struct search *search, uint32_t queue_slot, struct bytes group, uint32_t from)
{
    const struct core *core = search->core;
    const struct queue *queue = core_queue(core, queue_slot);
    for (struct list_link *link = list_first(&queue->awaited); link != NULL && search->scanned <= DEPENDENCY_VISITS_MAX;
         link = list_next(&queue->awaited, link)) {
        const struct batch *batch = CONTAINER_OF(link, struct batch, awaited_link);
        search->scanned++;
        if (batch->parent != 0 && bytes_equal(batch->spec.targets[batch_awaited_event(&batch->spec) - 1].group, group))
            add_batch(search, batch->parent, from, VIA_TAIL);
    }
}

/* Those after a message in its line: only the next one, which leads to the rest. */
static void add_behind(struct search *search, const struct message *message, uint32_t from)
{
    const struct core *core = search->core;
    uint32_t slot = core_group_of(core, message);
    if (slot == 0 || !core_group(core, slot)->is_line)
        return;
    const struct group *group = core_group(core, slot);
    if (core_message_list_at(core, group->message_list)->queue == 0)
        return; /* the whole line will soon end */
    uint32_t behind = core_extra_of(core, message)->next;
    if (behind != 0)
        add(search, false, behind, from, VIA_LINE);
    else
        add_parents_at_tail(search, core_message_list_at(core, group->message_list)->queue, group->id_owned, from);
}

static struct type_walk *type_walk_at(const struct search *search, uint32_t index)
{
    ASSERT(index < search->type_walks.size / sizeof(struct type_walk));
    return (struct type_walk *)(void *)search->type_walks.data_owned + index;
}

/* The walk along a lane for messages of another one; begins a walk at the lane's end if there is none. Borrowed until
 * the next one is begun. */
static struct type_walk *open_type_walk(struct search *search, uint32_t lane, uint32_t later)
{
    uint64_t hash = table_hash_u64((uint64_t)lane << 32 | later);
    for (struct table_probe probe = table_probe_start(&search->type_walk_by_lanes, hash);
         table_probe_next(&search->type_walk_by_lanes, &probe);) {
        struct type_walk *walk = type_walk_at(search, probe.slot - 1);
        if (walk->lane == lane && walk->later == later)
            return walk;
    }
    struct type_walk walk = {.lane = lane, .later = later, .at = type_lane_at(search->core, later)->last};
    buffer_append(&search->type_walks, &walk, sizeof(walk));
    uint32_t count = (uint32_t)(search->type_walks.size / sizeof(walk));
    table_insert(&search->type_walk_by_lanes, hash, count);
    return type_walk_at(search, count - 1);
}

/* Messages of later types that were sent after it. Messages that another one of its type already led to are not walked
 * again; otherwise a group with thousands of two types would take millions of steps. */
static void add_later_types(struct search *search, const struct typed *typed, uint32_t from)
{
    const struct core *core = search->core;
    const struct type_lane *lane = type_lane_at(core, typed->lane);
    const struct type_group *group = type_group_at(core, lane->group);
    for (unsigned i = 0; i < (unsigned)__builtin_popcountll(group->mask); i++) {
        if (group->lanes_owned[i] == typed->lane)
            continue; /* no type comes before itself */
        struct type_walk *walk = open_type_walk(search, typed->lane, group->lanes_owned[i]);
        while (walk->at != 0 && !is_exhausted(search)) {
            const struct typed *other = typed_at(core, walk->at);
            if (other->number < typed->number)
                break;
            bool does_wait = (other->waits & type_bit(lane->type)) != 0;
            search->scanned += !does_wait || !add(search, false, other->message, from, VIA_TYPE);
            walk->at = other->prev;
        }
    }
}

static void add_who_waits_for_message(struct search *search, uint32_t slot, uint32_t from)
{
    const struct message *message = core_message(search->core, slot);
    /* Nobody waits for a message that has failed or will soon end, but it is before others in its line. */
    if (message->is_moved || is_dying(search->core, slot)) {
        add_behind(search, message, from);
        return;
    }
    if (message->extra != 0 && core_extra_of(search->core, message)->antecedent != 0)
        add_dependents(search, ANTECEDENT_MESSAGE, message->number, from);
    if (message->extra != 0 && core_extra_of(search->core, message)->typed != 0)
        add_later_types(search, typed_at(search->core, core_extra_of(search->core, message)->typed), from);
    add_behind(search, message, from);
    if (message->batch == 0)
        return;
    const struct batch *batch = core_batch(search->core, message->batch);
    if (message->completes == 0)
        add_batch(search, message->batch, from, VIA_UNIT);
    else if (message->completes == batch_awaited_event(&batch->spec))
        add_batch(search, batch->parent, from, VIA_EVENT);
}

static void add_who_waits_for_batch(struct search *search, uint32_t slot, uint32_t from)
{
    const struct batch *batch = core_batch(search->core, slot);
    add_dependents(search, ANTECEDENT_BATCH, batch->number, from);
    add_batch(search, batch->parent, from, VIA_CHILD);
}

/* A dead-lettered message comes back: its dependents, waiting or held; and those of each batch that contains it. */
static void add_who_waits_for_moved(struct search *search, const struct message *message)
{
    add_all_dependents(search, ANTECEDENT_MESSAGE, message->number);
    for (uint32_t slot = message->batch; slot != 0; slot = core_batch(search->core, slot)->parent) {
        add_all_dependents(search, ANTECEDENT_BATCH, core_batch(search->core, slot)->number);
        add_batch(search, slot, NODE_NEWCOMER, VIA_UNIT);
    }
}

static void add_who_waits_for_newcomer(struct search *search)
{
    const struct newcomer *newcomer = search->newcomer;
    if (newcomer->batch != NULL)
        add_batch(search, core_find_batch_by_number(search->core, newcomer->batch->number), NODE_NEWCOMER,
                  newcomer->is_batch ? VIA_CHILD : VIA_UNIT);
    if (newcomer->queue != 0 && !newcomer->is_batch)
        add_parents_at_tail(search, newcomer->queue, newcomer->group_id, NODE_NEWCOMER);
}

/* --- what the newcomer waits for ---------------------------------------------------------------------------------- */

/* Does it wait for anything that lasts? A line without a waiting message moves on by itself. */
static bool waits_for_something(const struct core *core, const struct newcomer *newcomer)
{
    for (uint32_t i = 0; i < newcomer->antecedent_count; i++)
        if (newcomer->antecedents[i].outcome == UNIT_OUTSTANDING)
            return true;
    if (newcomer->type_group != 0 && (type_group_at(core, newcomer->type_group)->busy & newcomer->types_before) != 0)
        return true;
    return newcomer->group != 0 && core_group(core, newcomer->group)->waiting_count > 0;
}

/* An antecedent that ended badly is in the list if it holds the new message, but nobody waits for it. */
static bool is_antecedent(const struct newcomer *newcomer, enum antecedent_kind kind, uint64_t number)
{
    uint32_t low = 0, high = newcomer->antecedent_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct antecedent_found *at = &newcomer->antecedents[middle];
        if (at->kind < kind || (at->kind == kind && at->number < number))
            low = middle + 1;
        else
            high = middle;
    }
    return low < newcomer->antecedent_count && newcomer->antecedents[low].kind == kind &&
           newcomer->antecedents[low].number == number && newcomer->antecedents[low].outcome == UNIT_OUTSTANDING;
}

/* Is it in the new message's group, with a type that comes before? */
static bool is_of_type_before(const struct search *search, const struct message *message)
{
    const struct message_extra *extra = core_extra_of(search->core, message);
    if (search->newcomer->types_before == 0 || extra == NULL || extra->typed == 0)
        return false;
    const struct type_lane *lane = type_lane_at(search->core, typed_at(search->core, extra->typed)->lane);
    return lane->group == search->newcomer->type_group && (search->newcomer->types_before & type_bit(lane->type)) != 0;
}

/* Would the new message wait for this node? Then says how. */
static bool is_hit(const struct search *search, const struct node *node, enum via *via)
{
    *via = VIA_EDGE;
    if (node->is_batch)
        return is_antecedent(search->newcomer, ANTECEDENT_BATCH, core_batch(search->core, node->slot)->number);
    const struct message *message = core_message(search->core, node->slot);
    if (!is_dying(search->core, node->slot)) {
        if (is_antecedent(search->newcomer, ANTECEDENT_MESSAGE, message->number))
            return true;
        *via = VIA_TYPE;
        if (is_of_type_before(search, message))
            return true;
    }
    *via = VIA_LINE;
    return search->newcomer->group != 0 && core_group_of(search->core, message) == search->newcomer->group;
}

/* --- the way in words --------------------------------------------------------------------------------------------- */

static const char *const words_of[] = {
    [VIA_EDGE] = "waits for",
    [VIA_LINE] = "stands behind",
    [VIA_UNIT] = "waits for its unit",
    [VIA_CHILD] = "waits for its child",
    [VIA_EVENT] = "waits for its child's completion,",
    [VIA_TYPE] = "waits, by its type, for",
    [VIA_TAIL] = "waits for a completion message that will stand behind",
};

/* The longest name of a node: the id of a batch. */
#define NODE_NAME_SIZE (sizeof("message ") + BATCH_ID_SIZE_MAX)

static void name_node(const struct core *core, const struct node *node, char name[NODE_NAME_SIZE])
{
    if (node->is_batch) {
        struct bytes id = core_batch(core, node->slot)->id_owned;
        snprintf(name, NODE_NAME_SIZE, "batch %.*s", BYTES_FORMAT(id));
        return;
    }
    uint8_t id[MESSAGE_ID_SIZE];
    char text[IDENTITY_TEXT_SIZE];
    identity_message(core->digest_owned, core_message(core, node->slot)->number, id);
    identity_to_text(id, text);
    snprintf(name, NODE_NAME_SIZE, "message %.*s", IDENTITY_TEXT_SIZE, text);
}

/* "this message stands behind message X, which waits for batch B, which waits for its unit, this message". A way that
 * is too long for `path` ends with dots. */
static void describe(const struct search *search, uint32_t index, enum via via, char path[DEPENDENCY_PATH_SIZE])
{
    const char *subject = search->newcomer->is_batch ? "this batch" : "this message";
    bool is_later = search->newcomer->is_batch && via == VIA_LINE;
    struct buffer text;
    buffer_init(&text);
    buffer_append_format(&text, "%s %s ", subject,
                         is_later ? "has a completion message that will stand behind" : words_of[via]);
    for (uint32_t at = index; at != NODE_NEWCOMER && text.size < DEPENDENCY_PATH_SIZE;) {
        const struct node *node = node_at(search, at);
        char name[NODE_NAME_SIZE];
        name_node(search->core, node, name);
        buffer_append_format(&text, "%s, which %s ", name, words_of[node->via]);
        at = node->from;
    }
    buffer_append_bytes(&text, bytes_from_string(subject));
    bool is_whole = text.size < DEPENDENCY_PATH_SIZE;
    size_t size = is_whole ? text.size : DEPENDENCY_PATH_SIZE - sizeof(" ...");
    memcpy(path, text.data_owned, size);
    memcpy(path + size, is_whole ? "" : " ...", is_whole ? 1 : sizeof(" ..."));
    buffer_deinit(&text);
}

/* --- the search --------------------------------------------------------------------------------------------------- */

static void search_init(struct search *search, const struct core *core, const struct newcomer *newcomer)
{
    *search = (struct search){.core = core, .newcomer = newcomer};
    buffer_init(&search->nodes);
    table_init(&search->seen);
    buffer_init(&search->type_walks);
    table_init(&search->type_walk_by_lanes);
}

static void search_deinit(struct search *search)
{
    table_deinit(&search->type_walk_by_lanes);
    buffer_deinit(&search->type_walks);
    table_deinit(&search->seen);
    buffer_deinit(&search->nodes);
}

static bool is_too_deep(const struct search *search)
{
    return search->next >= DEPENDENCY_VISITS_MAX || search->scanned > DEPENDENCY_VISITS_MAX;
}

static void add_who_waits_for_node(struct search *search, const struct node *node)
{
    if (node->is_batch)
        add_who_waits_for_batch(search, node->slot, search->next);
    else
        add_who_waits_for_message(search, node->slot, search->next);
}

static enum error walk(struct search *search, char path[DEPENDENCY_PATH_SIZE])
{
    add_who_waits_for_newcomer(search);
    for (; search->next < search->count; search->next++) {
        if (is_too_deep(search))
            return ERROR_DEPENDENCY_TOO_DEEP;
        struct node node = *node_at(search, search->next);
        enum via via;
        if (is_hit(search, &node, &via)) {
            describe(search, search->next, via, path);
            return ERROR_DEPENDENCY_CYCLE;
        }
        add_who_waits_for_node(search, &node);
    }
    return search->scanned > DEPENDENCY_VISITS_MAX ? ERROR_DEPENDENCY_TOO_DEEP : OK;
}

enum error dependency_find_cycle(const struct core *core, const struct newcomer *newcomer,
                                 char path[DEPENDENCY_PATH_SIZE])
{
    if (!waits_for_something(core, newcomer))
        return OK;
    struct search search;
    search_init(&search, core, newcomer);
    enum error error = walk(&search, path);
    if (newcomer->visits != NULL)
        *newcomer->visits = search.count + search.scanned;
    search_deinit(&search);
    return error;
}

/* The first message of a line that waits for anything, or an earlier one after many steps: all before it wait for
 * nothing. */
static uint32_t first_waiting(const struct core *core, uint32_t line)
{
    const struct group *group = core_group(core, line);
    uint32_t slot = group->is_held ? core_extra_of(core, core_message(core, group->first))->next : group->first;
    for (uint32_t steps = 0; slot != 0 && steps < DEPENDENCY_VISITS_MAX; steps++) {
        if (core_message(core, slot)->state == MESSAGE_WAITING)
            break;
        slot = core_extra_of(core, core_message(core, slot))->next;
    }
    return slot;
}

/* The search does not walk from messages in the line, because each leads to those after it. */
static uint32_t walk_to_line(struct search *search, uint32_t line)
{
    const struct core *core = search->core;
    uint32_t first = 0;
    for (; search->next < search->count && !is_too_deep(search); search->next++) {
        struct node node = *node_at(search, search->next);
        if (node.is_batch || core_group_of(core, core_message(core, node.slot)) != line) {
            add_who_waits_for_node(search, &node);
            continue;
        }
        if (first == 0 || group_stands_before(core, node.slot, first))
            first = node.slot;
    }
    return is_too_deep(search) ? first_waiting(core, line) : first;
}

uint32_t dependency_first_in_line(const struct core *core, const struct message *message, uint32_t line)
{
    if (core_group(core, line)->waiting_count == 0)
        return 0;
    struct search search;
    search_init(&search, core, NULL);
    add_who_waits_for_moved(&search, message);
    uint32_t first = walk_to_line(&search, line);
    search_deinit(&search);
    return first;
}

enum error dependency_check_child(const struct core *core, const struct batch *parent, const struct batch_spec *spec,
                                  char path[DEPENDENCY_PATH_SIZE])
{
    const struct batch_target *target = &spec->targets[batch_awaited_event(spec) - 1];
    const struct queue *queue = target->queue == 0 ? NULL : core_find_queue_by_id(core, target->queue);
    if (queue == NULL || !queue->settings.is_fifo)
        return OK;
    struct newcomer newcomer = {.is_batch = true, .batch = parent};
    newcomer.queue = core_find_queue_slot(core, queue->id);
    newcomer.group = group_find(core, queue->message_list, target->group);
    newcomer.group_id = target->group;
    return dependency_find_cycle(core, &newcomer, path);
}
