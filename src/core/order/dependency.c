#include "core/order/dependency.h"

#include "core/apply.h"

#include "base/accounted.h"
#include <stdlib.h>

static struct dependencies *of(const struct core *core)
{
    return (struct dependencies *)(uintptr_t)&core->dependencies;
}

void dependency_init(struct dependencies *dependencies)
{
    slab_init(&dependencies->antecedents, sizeof(struct antecedent));
    slab_init(&dependencies->edges, sizeof(struct edge));
    table_init(&dependencies->by_number);
    list_init(&dependencies->resolving);
    outcomes_init(&dependencies->failures);
    outcomes_init(&dependencies->batch_outcomes);
}

void dependency_deinit(struct dependencies *dependencies)
{
    slab_deinit(&dependencies->antecedents);
    slab_deinit(&dependencies->edges);
    table_deinit(&dependencies->by_number);
    outcomes_deinit(&dependencies->failures);
    outcomes_deinit(&dependencies->batch_outcomes);
}

static struct message_extra *dependent_of(const struct core *core, const struct edge *edge)
{
    return core_extra_of(core, core_message(core, edge->dependent));
}

/* --- antecedents and edges ---------------------------------------------------------------------------------------- */

static uint64_t hash_of(enum antecedent_kind kind, uint64_t number)
{
    return table_hash_u64(number * 2 + (kind == ANTECEDENT_BATCH));
}

uint32_t antecedent_find(const struct dependencies *dependencies, enum antecedent_kind kind, uint64_t number)
{
    for (struct table_probe probe = table_probe_start(&dependencies->by_number, hash_of(kind, number));
         table_probe_next(&dependencies->by_number, &probe);) {
        const struct antecedent *antecedent = antecedent_at(dependencies, probe.slot);
        if (antecedent->kind == kind && antecedent->number == number)
            return probe.slot;
    }
    return 0;
}

/* The extra of a message that has not ended; it is needed only if something waits for the message. */
static struct message_extra *extra_of_outstanding(struct core *core, const struct antecedent *antecedent)
{
    uint32_t message = core_find_message(core, antecedent->number);
    ASSERT(antecedent->kind == ANTECEDENT_MESSAGE && antecedent->outcome == UNIT_OUTSTANDING && message != 0);
    return core_give_extra(core, message);
}

static uint32_t antecedent_open(struct core *core, const struct antecedent_found *name)
{
    struct dependencies *dependencies = of(core);
    uint32_t slot = antecedent_find(dependencies, name->kind, name->number);
    if (slot != 0)
        return slot;
    slot = slab_allocate(&dependencies->antecedents);
    struct antecedent *antecedent = antecedent_at(dependencies, slot);
    antecedent->number = name->number;
    antecedent->kind = (uint8_t)name->kind;
    antecedent->outcome = (uint8_t)name->outcome;
    antecedent->is_live = true;
    table_insert(&dependencies->by_number, hash_of(name->kind, name->number), slot);
    if (name->kind == ANTECEDENT_MESSAGE && name->outcome == UNIT_OUTSTANDING)
        extra_of_outstanding(core, antecedent)->antecedent = slot;
    return slot;
}

/* An antecedent with no dependents to tell leaves the list. One without edges is freed, and false is returned. */
static bool antecedent_settle(struct core *core, uint32_t slot)
{
    struct dependencies *dependencies = of(core);
    struct antecedent *antecedent = antecedent_at(dependencies, slot);
    if (antecedent->untold_count > 0)
        return true;
    if (list_is_linked(&antecedent->resolving_link))
        list_remove(&antecedent->resolving_link);
    if (antecedent->told_count > 0)
        return true;
    if (antecedent->kind == ANTECEDENT_MESSAGE && antecedent->outcome == UNIT_OUTSTANDING)
        extra_of_outstanding(core, antecedent)->antecedent = 0;
    table_remove(&dependencies->by_number, hash_of((enum antecedent_kind)antecedent->kind, antecedent->number), slot);
    antecedent->is_live = false;
    slab_free(&dependencies->antecedents, slot);
    return false;
}

/* Puts an edge at the end of those that its antecedent has to tell. */
static void antecedent_append(struct dependencies *dependencies, struct antecedent *antecedent, uint32_t slot)
{
    struct edge *edge = edge_at(dependencies, slot);
    edge->prev = antecedent->last_edge;
    *(antecedent->last_edge == 0 ? &antecedent->first_edge : &edge_at(dependencies, antecedent->last_edge)->next) =
        slot;
    antecedent->last_edge = slot;
    antecedent->untold_count++;
}

static void antecedent_remove(struct dependencies *dependencies, struct antecedent *antecedent, struct edge *edge)
{
    ASSERT(!edge->is_told && antecedent->untold_count > 0);
    *(edge->prev == 0 ? &antecedent->first_edge : &edge_at(dependencies, edge->prev)->next) = edge->next;
    *(edge->next == 0 ? &antecedent->last_edge : &edge_at(dependencies, edge->next)->prev) = edge->prev;
    edge->prev = edge->next = 0;
    antecedent->untold_count--;
}

static void told_append(struct dependencies *dependencies, struct antecedent *antecedent, uint32_t slot)
{
    struct edge *edge = edge_at(dependencies, slot);
    edge->is_told = true;
    edge->next = antecedent->first_told;
    if (edge->next != 0)
        edge_at(dependencies, edge->next)->prev = slot;
    antecedent->first_told = slot;
    antecedent->told_count++;
}

static void told_remove(struct dependencies *dependencies, struct antecedent *antecedent, struct edge *edge)
{
    ASSERT(edge->is_told && antecedent->told_count > 0);
    *(edge->prev == 0 ? &antecedent->first_told : &edge_at(dependencies, edge->prev)->next) = edge->next;
    if (edge->next != 0)
        edge_at(dependencies, edge->next)->prev = edge->prev;
    edge->prev = edge->next = 0;
    edge->is_told = false;
    antecedent->told_count--;
}

/* Inserts an edge after `prev` among those of its dependent, or first; and removes it. */
static void dependent_insert(struct core *core, uint32_t slot, uint32_t prev)
{
    struct dependencies *dependencies = of(core);
    struct edge *edge = edge_at(dependencies, slot);
    struct message_extra *extra = core_give_extra(core, edge->dependent);
    uint32_t *link = prev == 0 ? &extra->first_edge : &edge_at(dependencies, prev)->dependent_next;
    edge->dependent_prev = prev;
    edge->dependent_next = *link;
    if (edge->dependent_next != 0)
        edge_at(dependencies, edge->dependent_next)->dependent_prev = slot;
    *link = slot;
}

static void dependent_remove(struct core *core, struct edge *edge)
{
    struct dependencies *dependencies = of(core);
    struct message_extra *extra = core_extra_of(core, core_message(core, edge->dependent));
    *(edge->dependent_prev == 0 ? &extra->first_edge : &edge_at(dependencies, edge->dependent_prev)->dependent_next) =
        edge->dependent_next;
    if (edge->dependent_next != 0)
        edge_at(dependencies, edge->dependent_next)->dependent_prev = edge->dependent_prev;
}

uint32_t edge_link(struct core *core, const struct antecedent_found *name, uint32_t dependent, uint32_t prev,
                   bool is_told)
{
    struct dependencies *dependencies = of(core);
    uint32_t antecedent_slot = antecedent_open(core, name);
    struct antecedent *antecedent = antecedent_at(dependencies, antecedent_slot);
    uint32_t slot = slab_allocate(&dependencies->edges);
    struct edge *edge = edge_at(dependencies, slot);
    edge->antecedent = antecedent_slot;
    edge->dependent = dependent;
    dependent_insert(core, slot, prev);
    if (is_told)
        told_append(dependencies, antecedent, slot);
    else
        antecedent_append(dependencies, antecedent, slot);
    return slot;
}

/* Removes an edge at both ends. False: it was the last edge of its antecedent, which is freed. */
static bool edge_unlink(struct core *core, uint32_t slot)
{
    struct dependencies *dependencies = of(core);
    struct edge *edge = edge_at(dependencies, slot);
    uint32_t antecedent_slot = edge->antecedent;
    struct antecedent *antecedent = antecedent_at(dependencies, antecedent_slot);
    if (edge->is_told)
        told_remove(dependencies, antecedent, edge);
    else
        antecedent_remove(dependencies, antecedent, edge);
    dependent_remove(core, edge);
    slab_free(&dependencies->edges, slot);
    return antecedent_settle(core, antecedent_slot);
}

/* --- declaring ---------------------------------------------------------------------------------------------------- */

bool antecedent_is_possible(const struct core *core, const struct antecedent_found *name)
{
    uint32_t record = antecedent_find(of(core), name->kind, name->number);
    if (name->number == 0 || name->outcome > UNIT_CANCELLED ||
        (record != 0 && antecedent_at(of(core), record)->outcome != name->outcome))
        return false;
    bool is_outstanding;
    if (name->kind == ANTECEDENT_MESSAGE) {
        uint32_t slot = core_find_message(core, name->number);
        is_outstanding = slot != 0 && !core_message(core, slot)->is_moved;
    } else {
        uint32_t slot = core_find_batch_by_number(core, name->number);
        is_outstanding = slot != 0 && core_batch(core, slot)->state != BATCH_COMPLETED;
    }
    uint64_t newest = name->kind == ANTECEDENT_MESSAGE ? core->messages.message_number : core->batches.batch_number;
    return name->number <= newest && is_outstanding == (name->outcome == UNIT_OUTSTANDING);
}

static struct antecedent_found read_entry(struct cursor *cursor)
{
    struct antecedent_found name;
    name.kind = (enum antecedent_kind)cursor_u8(cursor);
    name.number = cursor_u64(cursor);
    name.outcome = (enum unit_state)cursor_u8(cursor);
    return name;
}

bool antecedent_is_behind(const struct antecedent_found *last, const struct antecedent_found *next)
{
    return last->kind < next->kind || (last->kind == next->kind && last->number < next->number);
}

/* Each antecedent once, each exists, and an ended one only if it holds the message. */
static bool antecedents_fit(const struct core *core, const struct event_waited *waited)
{
    if (waited->count == 0 || waited->antecedents.size != (size_t)waited->count * WAITED_ENTRY_SIZE)
        return false;
    struct antecedent_found last = {0};
    for (struct cursor cursor = cursor_make(waited->antecedents); cursor.rest.size > 0;) {
        struct antecedent_found name = read_entry(&cursor);
        bool is_kind = name.kind == ANTECEDENT_MESSAGE || name.kind == ANTECEDENT_BATCH;
        bool is_self = name.kind == ANTECEDENT_MESSAGE && name.number >= waited->number;
        bool is_ended = name.outcome != UNIT_OUTSTANDING;
        if (!is_kind || is_self || !antecedent_is_behind(&last, &name) ||
            (is_ended && (waited->policy != AFTER_FAILURE_HOLD || name.outcome == UNIT_SUCCEEDED)) ||
            !antecedent_is_possible(core, &name))
            return false;
        last = name;
    }
    return true;
}

bool apply_waited(struct core *core, const struct event_waited *waited)
{
    uint32_t slot = core_find_message(core, waited->number);
    if (slot == 0 || waited->number != core->messages.message_number || waited->policy > AFTER_FAILURE_HOLD ||
        core_message(core, slot)->delivery != 0 || core_message(core, slot)->is_moved ||
        (core_message(core, slot)->extra != 0 && core_extra_of(core, core_message(core, slot))->first_edge != 0) ||
        !antecedents_fit(core, waited))
        return false;
    struct message_extra *extra = core_give_extra(core, slot);
    extra->after_failure = waited->policy;
    uint32_t edge = 0;
    for (struct cursor cursor = cursor_make(waited->antecedents); cursor.rest.size > 0;) {
        struct antecedent_found name = read_entry(&cursor);
        bool is_told = name.outcome != UNIT_OUTSTANDING;
        edge = edge_link(core, &name, slot, edge, is_told);
        extra->is_held = extra->is_held || is_told;
        core_wait(core, slot);
    }
    return true;
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static void start_resolving(struct dependencies *dependencies, uint32_t slot, enum unit_state outcome)
{
    struct antecedent *antecedent = antecedent_at(dependencies, slot);
    ASSERT(antecedent->outcome == UNIT_OUTSTANDING && outcome != UNIT_OUTSTANDING);
    ASSERT(antecedent->untold_count > 0 && antecedent->told_count == 0);
    antecedent->outcome = (uint8_t)outcome;
    list_append(&dependencies->resolving, &antecedent->resolving_link);
}

static void tell_dependents(struct core *core, uint32_t message, enum unit_state outcome)
{
    struct message_extra *extra = core_extra_of(core, core_message(core, message));
    if (extra == NULL || extra->antecedent == 0)
        return;
    start_resolving(of(core), extra->antecedent, outcome);
    extra->antecedent = 0;
}

void dependency_message_ended(struct core *core, uint32_t slot, enum unit_state outcome)
{
    const struct message *message = core_message(core, slot);
    tell_dependents(core, slot, outcome);
    if (outcome != UNIT_SUCCEEDED)
        outcomes_remember(&of(core)->failures, (struct digest_tag){.low = message->number}, message->number, outcome,
                          core->now_ms);
}

void dependency_message_dead_lettered(struct core *core, uint32_t message)
{
    tell_dependents(core, message, UNIT_FAILED);
}

/* Ids of batches are the clients' texts; only a keyed hash of them is stored. */
static struct digest_tag batch_key(const struct core *core, struct bytes id)
{
    const struct bytes parts[] = {BYTES("batch outcome"), id};
    return digest_keyed_wide(core->digest_owned, parts, ARRAY_LENGTH(parts));
}

const struct outcome *dependency_batch_outcome(const struct core *core, struct bytes id)
{
    return outcomes_find(&of(core)->batch_outcomes, batch_key(core, id));
}

enum unit_state dependency_outcome_of_batch(const struct batch *batch)
{
    ASSERT(batch->state == BATCH_COMPLETED);
    if (batch->status == BATCH_SUCCEEDED)
        return UNIT_SUCCEEDED;
    return batch->status == BATCH_CANCELLED ? UNIT_CANCELLED : UNIT_FAILED;
}

void dependency_batch_completed(struct core *core, uint32_t slot)
{
    const struct batch *batch = core_batch(core, slot);
    uint32_t antecedent = antecedent_find(of(core), ANTECEDENT_BATCH, batch->number);
    if (antecedent != 0)
        start_resolving(of(core), antecedent, dependency_outcome_of_batch(batch));
}

void dependency_batch_forgotten(struct core *core, uint32_t slot)
{
    const struct batch *batch = core_batch(core, slot);
    outcomes_remember(&of(core)->batch_outcomes, batch_key(core, batch->id_owned), batch->number,
                      dependency_outcome_of_batch(batch), core->now_ms);
}

void dependency_forget_dependent(struct core *core, uint32_t slot)
{
    struct message_extra *extra = core_extra_of(core, core_message(core, slot));
    while (extra->first_edge != 0) {
        ASSERT(extra->wait_count > 0);
        edge_unlink(core, extra->first_edge);
        extra->wait_count--;
    }
    extra->is_held = false;
}

void dependency_advance(struct core *core)
{
    outcomes_forget(&of(core)->failures, core->now_ms);
    outcomes_forget(&of(core)->batch_outcomes, core->now_ms);
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

/* An edge of an antecedent, by its dependent. */
struct moved_edge {
    uint64_t number;
    uint32_t edge;
};

static int compare_moved_edges(const void *a, const void *b)
{
    const struct moved_edge *one = a, *other = b;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* Takes all edges off the antecedent's lists, into an array by dependent, which the caller frees. */
static struct moved_edge *take_edges(struct core *core, struct antecedent *antecedent, uint32_t *count)
{
    struct dependencies *dependencies = of(core);
    struct moved_edge *edges = accounted_allocate((antecedent->told_count + antecedent->untold_count) * sizeof(*edges));
    *count = 0;
    while (antecedent->told_count > 0) {
        edges[(*count)++].edge = antecedent->first_told;
        told_remove(dependencies, antecedent, edge_at(dependencies, antecedent->first_told));
    }
    while (antecedent->untold_count > 0) {
        edges[(*count)++].edge = antecedent->first_edge;
        antecedent_remove(dependencies, antecedent, edge_at(dependencies, antecedent->first_edge));
    }
    for (uint32_t i = 0; i < *count; i++)
        edges[i].number = core_message(core, edge_at(dependencies, edges[i].edge)->dependent)->number;
    if (*count > 1)
        qsort(edges, *count, sizeof(*edges), compare_moved_edges);
    return edges;
}

/* The antecedent has a new number, the highest of all, so its edge comes after the dependent's others. */
static void move_back(struct core *core, uint32_t slot)
{
    struct dependencies *dependencies = of(core);
    struct edge *edge = edge_at(dependencies, slot);
    uint32_t prev = edge->dependent_prev;
    dependent_remove(core, edge);
    for (uint32_t at = edge->dependent_next; at != 0; at = edge_at(dependencies, at)->dependent_next) {
        if (antecedent_at(dependencies, edge_at(dependencies, at)->antecedent)->kind != ANTECEDENT_MESSAGE)
            break;
        prev = at;
    }
    dependent_insert(core, slot, prev);
}

/* Its dependents have not been told how it ended, and it holds nobody. They must be told in the order of their
 * numbers. */
static void forget_telling(struct core *core, struct antecedent *antecedent)
{
    uint32_t count;
    struct moved_edge *edges = take_edges(core, antecedent, &count);
    for (uint32_t i = 0; i < count; i++) {
        antecedent_append(of(core), antecedent, edges[i].edge);
        if (antecedent->kind == ANTECEDENT_MESSAGE)
            move_back(core, edges[i].edge);
        uint32_t dependent = edge_at(of(core), edges[i].edge)->dependent;
        bool is_held;
        dependency_count(core, dependent, &is_held);
        core_extra_of(core, core_message(core, dependent))->is_held = is_held;
    }
    accounted_free(edges);
}

uint32_t dependency_count_of(const struct core *core, uint64_t number)
{
    const struct antecedent *antecedent = antecedent_get(of(core), ANTECEDENT_MESSAGE, number);
    return antecedent == NULL ? 0 : antecedent->untold_count + antecedent->told_count;
}

bool dependency_is_untold(const struct core *core, uint64_t number)
{
    const struct antecedent *antecedent = antecedent_get(of(core), ANTECEDENT_MESSAGE, number);
    return antecedent != NULL && antecedent->outcome != UNIT_OUTSTANDING && antecedent->untold_count > 0;
}

void dependency_message_moved(struct core *core, uint64_t number, uint32_t message)
{
    struct dependencies *dependencies = of(core);
    ASSERT(core_find_message(core, number) == 0 && !dependency_is_untold(core, number));
    outcomes_remember(&dependencies->failures, (struct digest_tag){.low = number}, number, UNIT_FAILED, core->now_ms);
    uint32_t slot = antecedent_find(dependencies, ANTECEDENT_MESSAGE, number);
    if (slot == 0)
        return;
    struct antecedent *antecedent = antecedent_at(dependencies, slot);
    table_remove(&dependencies->by_number, hash_of(ANTECEDENT_MESSAGE, number), slot);
    antecedent->number = core_message(core, message)->number;
    antecedent->outcome = UNIT_OUTSTANDING;
    table_insert(&dependencies->by_number, hash_of(ANTECEDENT_MESSAGE, antecedent->number), slot);
    core_give_extra(core, message)->antecedent = slot;
    forget_telling(core, antecedent);
}

void dependency_batch_redeemed(struct core *core, uint32_t batch)
{
    struct dependencies *dependencies = of(core);
    uint32_t slot = antecedent_find(dependencies, ANTECEDENT_BATCH, core_batch(core, batch)->number);
    if (slot == 0)
        return;
    struct antecedent *antecedent = antecedent_at(dependencies, slot);
    antecedent->outcome = UNIT_SUCCEEDED;
    forget_telling(core, antecedent);
    if (!list_is_linked(&antecedent->resolving_link))
        list_append(&dependencies->resolving, &antecedent->resolving_link);
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

struct antecedent *dependency_first_resolving(const struct core *core)
{
    struct list_link *link = list_first(&of(core)->resolving);
    return link == NULL ? NULL : CONTAINER_OF(link, struct antecedent, resolving_link);
}

/* What the policy of the edge's dependent does at this end of its antecedent. */
static enum after_failure consequence(const struct core *core, const struct antecedent *antecedent,
                                      const struct edge *edge)
{
    if (antecedent->outcome == UNIT_SUCCEEDED)
        return AFTER_FAILURE_RUN;
    return (enum after_failure)dependent_of(core, edge)->after_failure;
}

uint32_t dependency_count_tellable(const struct core *core, const struct antecedent *antecedent, uint32_t count_max)
{
    uint32_t count = 0;
    for (uint32_t slot = antecedent->first_edge; slot != 0 && count < count_max; slot = edge_at(of(core), slot)->next) {
        if (consequence(core, antecedent, edge_at(of(core), slot)) == AFTER_FAILURE_CANCEL)
            break;
        count++;
    }
    return count;
}

static void hold(struct dependencies *dependencies, struct antecedent *antecedent, uint32_t slot,
                 struct message_extra *extra)
{
    struct edge *edge = edge_at(dependencies, slot);
    antecedent_remove(dependencies, antecedent, edge);
    told_append(dependencies, antecedent, slot);
    extra->is_held = true;
}

bool apply_resolved(struct core *core, const struct event_resolved *resolved)
{
    struct antecedent *antecedent = dependency_first_resolving(core);
    if (antecedent == NULL || antecedent->kind != resolved->kind || antecedent->number != resolved->number ||
        resolved->count == 0 || dependency_count_tellable(core, antecedent, resolved->count) != resolved->count)
        return false;
    uint32_t slot = edge_at(of(core), antecedent->first_edge)->antecedent;
    bool is_left = true;
    for (uint32_t i = 0; i < resolved->count; i++) {
        uint32_t edge_slot = antecedent->first_edge;
        struct edge *edge = edge_at(of(core), edge_slot);
        uint32_t dependent = edge->dependent;
        if (consequence(core, antecedent, edge) == AFTER_FAILURE_HOLD) {
            hold(of(core), antecedent, edge_slot, dependent_of(core, edge));
            continue;
        }
        is_left = edge_unlink(core, edge_slot);
        core_stop_waiting(core, dependent);
    }
    if (is_left)
        antecedent_settle(core, slot);
    return true;
}

bool dependency_is_resolving(const struct core *core)
{
    return !list_is_empty(&of(core)->resolving);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

bool dependency_next(const struct core *core, uint32_t message, uint32_t *edge_slot, struct antecedent_view *view)
{
    const struct message_extra *extra = core_extra_of(core, core_message(core, message));
    if (extra == NULL)
        return false;
    *edge_slot = *edge_slot == 0 ? extra->first_edge : edge_at(of(core), *edge_slot)->dependent_next;
    if (*edge_slot == 0)
        return false;
    const struct edge *edge = edge_at(of(core), *edge_slot);
    const struct antecedent *antecedent = antecedent_at(of(core), edge->antecedent);
    *view = (struct antecedent_view){.kind = (enum antecedent_kind)antecedent->kind,
                                     .number = antecedent->number,
                                     .outcome = (enum unit_state)antecedent->outcome,
                                     .is_holding = edge->is_told};
    uint32_t batch = antecedent->kind == ANTECEDENT_BATCH ? core_find_batch_by_number(core, antecedent->number) : 0;
    if (batch != 0)
        view->batch_id = core_batch(core, batch)->id_owned;
    return true;
}

uint32_t dependency_count(const struct core *core, uint32_t message, bool *is_held)
{
    const struct message_extra *extra = core_extra_of(core, core_message(core, message));
    uint32_t count = 0;
    *is_held = false;
    for (uint32_t slot = extra == NULL ? 0 : extra->first_edge; slot != 0;
         slot = edge_at(of(core), slot)->dependent_next) {
        *is_held = *is_held || edge_at(of(core), slot)->is_told;
        count++;
    }
    return count;
}
