/* Dependencies in the core's snapshot, and the check of their invariants.
 *
 * Edges are written with their dependents, in order of number; this also gives the order of an antecedent's edges.
 * Antecedent records are rebuilt from the edges. Only the order in which ended ones are resolved is stored. */
#include "core/order/dependency.h"
#include "core/snapshot.h"
#include "core/state.h"

#include "base/accounted.h"
#include <stdlib.h>

struct dependent {
    uint64_t number;
    uint32_t message; /* slot */
};

static int compare_numbers(const void *a, const void *b)
{
    const struct dependent *one = a, *other = b;
    return one->number < other->number ? -1 : one->number > other->number;
}

static bool has_edges(const struct message_extra *extra)
{
    return message_extra_is_used(extra) && extra->first_edge != 0;
}

/* The messages that have edges, by number; the caller frees them. */
static struct dependent *list_dependents(const struct core *core, uint32_t *count)
{
    *count = 0;
    for (uint32_t slot = 1; slot < core->extras.slot_end; slot++)
        *count += has_edges(message_extra_at(&core->extras, slot));
    struct dependent *dependents = accounted_allocate(*count * sizeof(*dependents));
    uint32_t filled = 0;
    for (uint32_t slot = 1; slot < core->extras.slot_end; slot++) {
        const struct message_extra *extra = message_extra_at(&core->extras, slot);
        if (!has_edges(extra))
            continue;
        dependents[filled].number = core_message(core, extra->message)->number;
        dependents[filled++].message = extra->message;
    }
    if (filled > 1)
        qsort(dependents, filled, sizeof(*dependents), compare_numbers);
    return dependents;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_dependent(const struct core *core, const struct dependent *dependent, struct core_writer *writer)
{
    const struct dependencies *dependencies = &core->dependencies;
    buffer_append_u64(&writer->piece, dependent->number);
    bool is_held;
    buffer_append_u32(&writer->piece, dependency_count(core, dependent->message, &is_held));
    uint32_t slot = core_extra_of(core, core_message(core, dependent->message))->first_edge;
    for (; slot != 0; slot = edge_at(dependencies, slot)->dependent_next) {
        const struct antecedent *antecedent = antecedent_at(dependencies, edge_at(dependencies, slot)->antecedent);
        buffer_append_u8(&writer->piece, antecedent->kind);
        buffer_append_u64(&writer->piece, antecedent->number);
        buffer_append_u8(&writer->piece, antecedent->outcome);
        buffer_append_u8(&writer->piece, edge_at(dependencies, slot)->is_told);
        core_writer_pass_on(writer);
    }
}

static void write_resolving(const struct dependencies *dependencies, struct core_writer *writer)
{
    uint32_t count = 0;
    struct list_link *link;
    for (link = list_first(&dependencies->resolving); link != NULL; link = list_next(&dependencies->resolving, link))
        count++;
    buffer_append_u32(&writer->piece, count);
    for (link = list_first(&dependencies->resolving); link != NULL; link = list_next(&dependencies->resolving, link)) {
        const struct antecedent *antecedent = CONTAINER_OF(link, struct antecedent, resolving_link);
        buffer_append_u8(&writer->piece, antecedent->kind);
        buffer_append_u64(&writer->piece, antecedent->number);
        core_writer_pass_on(writer);
    }
}

void dependency_encode(const struct core *core, struct core_writer *writer)
{
    outcomes_encode(&core->dependencies.failures, writer);
    outcomes_encode(&core->dependencies.batch_outcomes, writer);
    uint32_t count;
    struct dependent *dependents = list_dependents(core, &count);
    buffer_append_u32(&writer->piece, count);
    for (uint32_t i = 0; i < count; i++)
        write_dependent(core, &dependents[i], writer);
    accounted_free(dependents);
    write_resolving(&core->dependencies, writer);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* An antecedent that has not ended must have the extra that says so. */
static bool has_extra(const struct core *core, const struct antecedent_found *name)
{
    if (name->kind != ANTECEDENT_MESSAGE || name->outcome != UNIT_OUTSTANDING)
        return true;
    uint32_t message = core_find_message(core, name->number);
    return message != 0 && core_message(core, message)->extra != 0;
}

static uint32_t read_edge(struct core *core, uint32_t message, uint32_t prev, struct cursor *cursor)
{
    struct antecedent_found name;
    name.kind = (enum antecedent_kind)cursor_u8(cursor);
    name.number = cursor_u64(cursor);
    name.outcome = (enum unit_state)cursor_u8(cursor);
    uint8_t is_told = cursor_u8(cursor);
    const struct message_extra *extra = core_extra_of(core, core_message(core, message));
    struct antecedent_found last = {0};
    if (prev != 0) {
        const struct antecedent *antecedent =
            antecedent_at(&core->dependencies, edge_at(&core->dependencies, prev)->antecedent);
        last.kind = (enum antecedent_kind)antecedent->kind;
        last.number = antecedent->number;
    }
    bool is_self = name.kind == ANTECEDENT_MESSAGE && name.number == core_message(core, message)->number;
    bool is_bad = name.outcome == UNIT_FAILED || name.outcome == UNIT_CANCELLED;
    if (cursor->is_failed || is_told > 1 || is_self || !antecedent_is_behind(&last, &name) ||
        !antecedent_is_possible(core, &name) || !has_extra(core, &name) ||
        (is_told != 0 && !(is_bad && extra->after_failure == AFTER_FAILURE_HOLD)))
        return 0;
    return edge_link(core, &name, message, prev, is_told != 0);
}

static bool read_dependent(struct core *core, uint64_t *newest, struct cursor *cursor)
{
    uint64_t number = cursor_u64(cursor);
    uint32_t count = cursor_u32(cursor);
    uint32_t message = cursor->is_failed ? 0 : core_find_message(core, number);
    if (message == 0 || number <= *newest || count == 0)
        return false;
    *newest = number;
    const struct message *dependent = core_message(core, message);
    if (dependent->state != MESSAGE_WAITING || dependent->delivery != 0 || dependent->is_moved)
        return false;
    uint32_t edge = 0;
    for (uint32_t i = 0; i < count; i++)
        if ((edge = read_edge(core, message, edge, cursor)) == 0)
            return false;
    return true;
}

/* Ended antecedents with dependents to tell, each once, and no others. */
static bool read_resolving(struct core *core, struct cursor *cursor)
{
    struct dependencies *dependencies = &core->dependencies;
    uint32_t count = cursor_u32(cursor);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t kind = cursor_u8(cursor);
        uint64_t number = cursor_u64(cursor);
        uint32_t slot = cursor->is_failed ? 0 : antecedent_find(dependencies, (enum antecedent_kind)kind, number);
        if (slot == 0)
            return false;
        struct antecedent *antecedent = antecedent_at(dependencies, slot);
        if (antecedent->outcome == UNIT_OUTSTANDING || antecedent->untold_count == 0 ||
            list_is_linked(&antecedent->resolving_link))
            return false;
        list_append(&dependencies->resolving, &antecedent->resolving_link);
    }
    for (uint32_t slot = 1; slot < dependencies->antecedents.slot_end; slot++) {
        const struct antecedent *antecedent = antecedent_at(dependencies, slot);
        if (antecedent->outcome != UNIT_OUTSTANDING && antecedent->untold_count > 0 &&
            !list_is_linked(&antecedent->resolving_link))
            return false;
    }
    return !cursor->is_failed;
}

bool dependency_decode(struct core *core, struct cursor *cursor)
{
    struct dependencies *dependencies = &core->dependencies;
    if (!outcomes_decode(&dependencies->failures, cursor, core->messages.message_number, core->now_ms) ||
        !outcomes_decode(&dependencies->batch_outcomes, cursor, core->batches.batch_number, core->now_ms))
        return false;
    uint32_t count = cursor_u32(cursor);
    uint64_t newest = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!read_dependent(core, &newest, cursor))
            return false;
        cursor_release(cursor);
    }
    return read_resolving(core, cursor);
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* Its edges, at both ends. */
static void check_antecedent(const struct core *core, uint32_t slot)
{
    const struct dependencies *dependencies = &core->dependencies;
    const struct antecedent *antecedent = antecedent_at(dependencies, slot);
    uint32_t count = 0, prev = 0;
    uint64_t number = 0;
    for (uint32_t at = antecedent->first_edge; at != 0; prev = at, at = edge_at(dependencies, at)->next) {
        const struct edge *edge = edge_at(dependencies, at);
        const struct message *dependent = core_message(core, edge->dependent);
        ASSERT(edge->antecedent == slot && edge->prev == prev && !edge->is_told);
        ASSERT(dependent->state == MESSAGE_WAITING && dependent->number > number);
        number = dependent->number;
        count++;
    }
    ASSERT(antecedent->last_edge == prev && antecedent->untold_count == count);
    uint32_t told_count = 0;
    prev = 0;
    for (uint32_t at = antecedent->first_told; at != 0; prev = at, at = edge_at(dependencies, at)->next) {
        const struct edge *edge = edge_at(dependencies, at);
        ASSERT(edge->antecedent == slot && edge->prev == prev && edge->is_told);
        told_count++;
    }
    ASSERT(antecedent->told_count == told_count);
    ASSERT(count > 0 || antecedent->told_count > 0);
    bool has_ended = antecedent->outcome != UNIT_OUTSTANDING;
    ASSERT(list_is_linked(&antecedent->resolving_link) == (has_ended && count > 0));
    ASSERT(antecedent_find(dependencies, (enum antecedent_kind)antecedent->kind, antecedent->number) == slot);
    if (has_ended)
        return;
    if (antecedent->kind == ANTECEDENT_MESSAGE) {
        const struct message *message = core_message(core, core_find_message(core, antecedent->number));
        ASSERT(!message->is_moved && core_extra_of(core, message)->antecedent == slot);
    } else {
        uint32_t batch = core_find_batch_by_number(core, antecedent->number);
        ASSERT(core_batch(core, batch)->state != BATCH_COMPLETED);
    }
}

/* The edges of a message; returns how many. */
static uint32_t check_dependent(const struct core *core, const struct message_extra *extra)
{
    const struct dependencies *dependencies = &core->dependencies;
    uint32_t count = 0, prev = 0;
    for (uint32_t at = extra->first_edge; at != 0; prev = at, at = edge_at(dependencies, at)->dependent_next) {
        const struct edge *edge = edge_at(dependencies, at);
        const struct antecedent *antecedent = antecedent_at(dependencies, edge->antecedent);
        ASSERT(edge->dependent == extra->message && edge->dependent_prev == prev && antecedent->is_live);
        ASSERT(!edge->is_told || extra->after_failure == AFTER_FAILURE_HOLD);
        count++;
    }
    return count;
}

/* An uncompleted batch that will send an awaited message into a FIFO queue is in that queue's list, and no other batch
 * is. */
static void check_awaited(const struct core *core)
{
    size_t linked_count = 0, batch_count = 0;
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        for (struct list_link *link = list_first(&queue->awaited); link != NULL;
             link = list_next(&queue->awaited, link)) {
            const struct batch *batch = CONTAINER_OF(link, struct batch, awaited_link);
            ASSERT(batch->state != BATCH_COMPLETED && queue->settings.is_fifo);
            ASSERT(batch->spec.targets[batch_awaited_event(&batch->spec) - 1].queue == queue->id);
            linked_count++;
        }
    }
    for (size_t i = 0; i < core->batches.order_count; i++) {
        uint32_t slot = core->batches.order_owned[i].slot;
        const struct batch *batch = slot == 0 ? NULL : core_batch(core, slot);
        if (batch == NULL || batch->state == BATCH_COMPLETED)
            continue;
        const struct batch_target *target = &batch->spec.targets[batch_awaited_event(&batch->spec) - 1];
        const struct queue *queue = target->queue == 0 ? NULL : core_find_queue_by_id(core, target->queue);
        batch_count += queue != NULL && queue->settings.is_fifo;
    }
    ASSERT(linked_count == batch_count);
}

bool core_waits_add_up(const struct core *core)
{
    for (uint32_t slot = 1; slot < core->extras.slot_end; slot++) {
        const struct message_extra *extra = message_extra_at(&core->extras, slot);
        if (!message_extra_is_used(extra))
            continue;
        bool is_held;
        uint32_t edge_count = dependency_count(core, extra->message, &is_held);
        uint32_t type_count = type_order_is_blocked(core, extra->message);
        if (extra->wait_count != edge_count + type_count || extra->is_held != is_held)
            return false;
    }
    return true;
}

void dependency_check(const struct core *core)
{
    const struct dependencies *dependencies = &core->dependencies;
    uint32_t edge_count = 0, antecedent_count = 0, told_count = 0, untold_count = 0;
    for (uint32_t slot = 1; slot < core->extras.slot_end; slot++)
        if (has_edges(message_extra_at(&core->extras, slot)))
            edge_count += check_dependent(core, message_extra_at(&core->extras, slot));
    for (uint32_t slot = 1; slot < dependencies->antecedents.slot_end; slot++) {
        if (!antecedent_is_used(antecedent_at(dependencies, slot)))
            continue;
        check_antecedent(core, slot);
        told_count += antecedent_at(dependencies, slot)->told_count;
        untold_count += antecedent_at(dependencies, slot)->untold_count;
        antecedent_count++;
    }
    ASSERT(edge_count == told_count + untold_count && edge_count == dependencies->edges.used);
    ASSERT(antecedent_count == dependencies->antecedents.used);
    ASSERT(table_count(&dependencies->by_number) == antecedent_count);
    ASSERT(core_waits_add_up(core));
    check_awaited(core);
    outcomes_check(&dependencies->failures, core->now_ms);
    outcomes_check(&dependencies->batch_outcomes, core->now_ms);
}
