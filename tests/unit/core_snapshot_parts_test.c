/* What a snapshot may say of what stands behind the messages: pools, matches, publishers, what is remembered, groups
 * and types. As core_snapshot_bounds_test.c, on states that random decisions have led to. */
#include "core/messages/selection.h"
#include "core/state.h"
#include "support/core_rig.h"

#include "snapshot_bounds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define STEPS_MAX 20000u

/* Random decisions until there is what `find` looks for. */
static void *lead_to(struct core_rig *rig, void *(*find)(struct core *core))
{
    core_rig_init(rig, 11);
    for (unsigned step = 0; step < STEPS_MAX; step++) {
        core_rig_step(rig);
        void *found = find(rig->core);
        if (found != NULL) {
            expect_read(rig, "as it is");
            return found;
        }
    }
    fail_msg("no such state");
    return NULL;
}

/* Each field of that many bits, one after the other: the last value that is read and the first one that is refused. */
static void expect_end_u64(const struct core_rig *rig, uint64_t *field, uint64_t last, const char *what)
{
    const uint64_t saved = *field;
    *field = last;
    expect_read(rig, what);
    *field = last + 1;
    expect_refused(rig, what);
    *field = saved;
}

static void expect_refused_u64(const struct core_rig *rig, uint64_t *field, uint64_t value, const char *what)
{
    const uint64_t saved = *field;
    *field = value;
    expect_refused(rig, what);
    *field = saved;
}

static void expect_end_u32(const struct core_rig *rig, uint32_t *field, uint32_t last, const char *what)
{
    const uint32_t saved = *field;
    *field = last;
    expect_read(rig, what);
    *field = last + 1;
    expect_refused(rig, what);
    *field = saved;
}

static void expect_refused_u32(const struct core_rig *rig, uint32_t *field, uint32_t value, const char *what)
{
    const uint32_t saved = *field;
    *field = value;
    expect_refused(rig, what);
    *field = saved;
}

static void expect_refused_u8(const struct core_rig *rig, uint8_t *field, uint8_t value, const char *what)
{
    const uint8_t saved = *field;
    *field = value;
    expect_refused(rig, what);
    *field = saved;
}

/* A text of 1 to size_max bytes. */
static void expect_text(const struct core_rig *rig, struct bytes *text, size_t size_max, const char *what)
{
    static const char letters[256] = "a text that ends in NULs";
    const struct bytes saved = *text;
    *text = bytes_make(letters, size_max);
    expect_read(rig, what);
    *text = bytes_make(letters, size_max + 1);
    expect_refused(rig, what);
    *text = bytes_make(letters, 0);
    expect_refused(rig, what);
    *text = saved;
}

/* --- pools and tickets -------------------------------------------------------------------------------------------- */

static struct ticket *newest_waiting(const struct ticket_pool *pool)
{
    struct ticket *ticket = pool->live_last == 0 ? NULL : ticket_at(&pool->tickets, pool->live_last);
    return ticket != NULL && ticket->state == TICKET_WAITING ? ticket : NULL;
}

static void *find_tickets(struct core *core)
{
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        struct ticket_pool *pool = ticket_pool_at(core, i);
        if (newest_waiting(pool) != NULL && pool->ended_count >= 2 && pool->live_first != pool->live_last)
            return pool;
    }
    return NULL;
}

static void the_fields_of_a_ticket_are_possible(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = lead_to(&rig, find_tickets);
    struct ticket *ticket = newest_waiting(pool);
    const uint64_t now_ms = core_now_ms(rig.core);
    expect_text(&rig, &ticket->key_owned, TICKET_KEY_SIZE_MAX, "the key of a ticket");
    expect_refused_u64(&rig, &ticket->entry.number, 0, "a ticket without a number");
    expect_refused_u64(&rig, &ticket->entry.number, rig.core->pools.ticket_number + 1, "a number not given out");
    expect_refused_u64(&rig, &ticket->entry.number, ticket_at(&pool->tickets, pool->live_first)->entry.number,
                       "two tickets of one number");
    expect_end_u64(&rig, &ticket->entry.offered_at_ms, now_ms, "the time of an offer");
    expect_refused_u64(&rig, &ticket->match, 1, "a ticket that waits, in a match");
    expect_refused_u64(&rig, &ticket->ended_at_ms, 1, "a ticket that waits and has ended");
    expect_refused_u32(&rig, &ticket->version, 0, "no version");
    expect_end_u32(&rig, &ticket->entry.weight, RULES_WEIGHT_MAX, "the weight of a ticket");
    expect_refused_u32(&rig, &ticket->entry.weight, 0, "no weight");
    expect_refused_u8(&rig, &ticket->entry.priority, ENTRY_PRIORITY_MAX + 1, "the priority of a ticket");
    expect_refused_u8(&rig, &ticket->state, 0, "no state");
    expect_refused_u8(&rig, &ticket->state, TICKET_CANCELLED, "a live ticket that was cancelled");
    const uint32_t level_version = ticket->level_version;
    ticket->level_version = pool->rules_version;
    expect_refused_u8(&rig, &ticket->entry.level, pool->rules_owned->level_count, "a level that the rules have not");
    ticket->level_version = level_version;
    struct ticket *ended = ticket_at(&pool->tickets, pool->ended_last);
    expect_refused_u64(&rig, &ended->ended_at_ms, 0, "a ticket that ended at no time");
    expect_end_u64(&rig, &ended->ended_at_ms, now_ms, "the end of a ticket");
    expect_refused_u64(&rig, &ended->ended_at_ms, ticket_at(&pool->tickets, pool->ended_first)->ended_at_ms - 1,
                       "an end before the last one");
    expect_refused_u8(&rig, &ended->state, TICKET_EXPIRED + 1, "a state that there is not");
    expect_refused_u8(&rig, &ended->state, TICKET_WAITING, "an ended ticket that waits");
    core_rig_deinit(&rig);
}

static void the_counts_of_a_pool_add_up(void **state)
{
    (void)state;
    struct core_rig rig;
    struct ticket_pool *pool = lead_to(&rig, find_tickets);
    expect_text(&rig, &pool->name_owned, TICKET_POOL_NAME_SIZE_MAX, "the name of a pool");
    expect_refused_u32(&rig, &pool->rules_version, 0, "no version of the rules");
    expect_refused_u32(&rig, &rig.core->pools.pool_id, pool->id - 1, "an id that was not given out");
    expect_refused_u64(&rig, &pool->counts.offered, pool->counts.offered + 1, "more offered than there are");
    expect_refused_u64(&rig, &pool->results, pool->results + 1, "more results than matches");
    uint64_t *const counts[] = {&pool->counts.matched, &pool->counts.cancelled, &pool->counts.expired};
    for (unsigned i = 0; i < ARRAY_LENGTH(counts); i++) {
        const uint64_t more = *counts[i] + 1;
        expect_refused_u64(&rig, counts[i], more, "a sum that is not that of its parts");
        uint64_t *other = counts[(i + 1) % ARRAY_LENGTH(counts)];
        const uint64_t saved = *counts[i], other_saved = *other;
        *other += saved;
        *counts[i] = 0;
        bool is_remembered = false;
        for (uint32_t slot = pool->ended_first; slot != 0; slot = ticket_at(&pool->tickets, slot)->next)
            is_remembered |= ticket_at(&pool->tickets, slot)->state == TICKET_MATCHED + i;
        if (is_remembered)
            expect_refused(&rig, "fewer than are remembered");
        *other = other_saved;
        *counts[i] = saved;
    }
    core_rig_deinit(&rig);
}

/* --- matches ------------------------------------------------------------------------------------------------------ */

static struct made_match *find_unsettled(struct core *core, unsigned wanted)
{
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        const struct ticket_pool *pool = ticket_pool_at(core, i);
        struct made_match *last = pool->unsettled_last == 0 ? NULL : made_match_at(core, pool->unsettled_last);
        if (last != NULL && last->state == wanted && last->member_count > 1 && last->proposal_owned.size > 0)
            return last;
    }
    return NULL;
}

static void *find_held(struct core *core)
{
    return find_unsettled(core, MATCH_HELD);
}

static void *find_made(struct core *core)
{
    return find_unsettled(core, MATCH_MADE);
}

static void *find_settled(struct core *core)
{
    for (uint32_t i = 0; i < ticket_pool_count(core); i++) {
        const struct ticket_pool *pool = ticket_pool_at(core, i);
        if (pool->settled_first != pool->settled_last)
            return made_match_at(core, pool->settled_last);
    }
    return NULL;
}

static void expect_match(struct core_rig *rig, struct made_match *match)
{
    expect_refused_u64(rig, &match->number, 0, "a match without a number");
    expect_refused_u64(rig, &rig->core->matches.match_number, match->number - 1, "a number not given out");
    expect_refused_u64(rig, &match->made_at_ms, core_now_ms(rig->core) + 1, "made in the future");
    expect_refused_u8(rig, &match->state, 0, "no state");
    expect_refused_u8(rig, &match->state, MATCH_REFUSED + 1, "a state that there is not");
    const struct bytes proposal = match->proposal_owned;
    static const char letters[TICKET_KEY_SIZE_MAX + 1] = "an id that ends in NULs";
    match->proposal_owned = bytes_make(letters, TICKET_KEY_SIZE_MAX);
    expect_read(rig, "the longest id of a proposal");
    match->proposal_owned.size++;
    expect_refused(rig, "an id of a proposal that is too long");
    match->proposal_owned = proposal;
}

static void expect_members(struct core_rig *rig, struct made_match *match)
{
    struct match_member *member = &match->members_owned[1];
    const uint8_t team = member->team;
    member->team = RULES_TEAMS_MAX - 1;
    expect_read(rig, "the last team");
    member->team = team;
    expect_refused_u8(rig, &member->team, RULES_TEAMS_MAX, "a team that there is not");
    expect_refused_u64(rig, &member->ticket, match->members_owned[0].ticket, "a member twice");
    expect_refused_u64(rig, &member->ticket, 0, "a member that there is not");
    expect_refused_u32(rig, &match->member_count, 0, "no members");
    expect_refused_u32(rig, &match->member_count, match->member_count - 1, "a ticket of no match");
}

static void a_held_match_waits_for_somebody(void **state)
{
    (void)state;
    struct core_rig rig;
    struct made_match *match = lead_to(&rig, find_held);
    expect_match(&rig, match);
    expect_members(&rig, match);
    expect_refused_u64(&rig, &match->confirm_by_ms, 0, "held without end");
    expect_refused_u64(&rig, &match->message, 1, "held, with a result message");
    expect_refused_u8(&rig, &match->state, MATCH_MADE, "made, of tickets that are held");
    for (uint32_t i = 0; i < match->member_count; i++)
        match->members_owned[i].has_confirmed = true;
    expect_refused(&rig, "held, though all have confirmed");
    core_rig_deinit(&rig);
}

static void a_match_that_was_made_has_its_message(void **state)
{
    (void)state;
    struct core_rig rig;
    struct made_match *match = lead_to(&rig, find_made);
    expect_match(&rig, match);
    expect_members(&rig, match);
    expect_refused_u64(&rig, &match->confirm_by_ms, core_now_ms(rig.core) + 1, "made, and to be confirmed");
    expect_refused_u64(&rig, &match->message, 0, "made, without a result message");
    expect_refused_u8(&rig, &match->state, MATCH_ACKED, "settled, and not among the settled");
    match->has_body = true;
    expect_refused(&rig, "made, with the body that a hold keeps");
    match->has_body = false;
    core_rig_deinit(&rig);
}

static void a_settled_match_has_ended(void **state)
{
    (void)state;
    struct core_rig rig;
    struct made_match *match = lead_to(&rig, find_settled);
    expect_match(&rig, match);
    expect_end_u64(&rig, &match->ended_at_ms, core_now_ms(rig.core), "the end of a match");
    expect_refused_u64(&rig, &match->ended_at_ms, match->made_at_ms - 1, "ended before it was made");
    expect_refused_u8(&rig, &match->state, MATCH_MADE, "made, and among the settled");
    core_rig_deinit(&rig);
}

/* --- publishers --------------------------------------------------------------------------------------------------- */

/* Meets freed records, which are zero. */
POISON_MAY_LOOK static void *find_publisher(struct core *core)
{
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++) {
        struct publisher *publisher = publisher_at(core, slot);
        if (publisher->confirmed_count > 0 && publisher->unconfirmed_count > 1 && publisher->batch > 2)
            return publisher;
    }
    return NULL;
}

static void what_a_publisher_has_published_is_in_order(void **state)
{
    (void)state;
    struct core_rig rig;
    struct publisher *publisher = lead_to(&rig, find_publisher);
    struct core *core = rig.core;
    expect_refused_u64(&rig, &publisher->epoch, 0, "no epoch");
    expect_end_u64(&rig, &publisher->epoch, INT64_MAX, "an epoch");
    expect_refused_u64(&rig, &publisher->confirmed_batch, publisher->batch + 1, "more confirmed than published");
    expect_end_u32(&rig, &publisher->row_count, PUBLISHER_ROWS_MAX, "the rows of a batch");
    expect_refused_u32(&rig, &publisher->row_count, 0, "a batch without rows");
    struct row_entry *confirmed = slab_at(&core->publishers.entries, publisher->first);
    struct row_entry *row = slab_at(&core->publishers.entries, publisher->first_unconfirmed);
    struct row_entry *last = slab_at(&core->publishers.entries, publisher->last);
    expect_refused_u64(&rig, &row->id, 0, "a row without an id");
    expect_refused_u64(&rig, &row->id, (uint64_t)INT64_MAX + 1, "an id that is too large");
    expect_refused_u64(&rig, &row->since, publisher->confirmed_batch, "not confirmed, of a confirmed batch");
    expect_refused_u64(&rig, &last->since, publisher->batch + 1, "of a batch to come");
    expect_refused_u64(&rig, &row->since, last->since + 1, "a later row in front");
    expect_refused_u64(&rig, &confirmed->since, core_now_ms(core) + 1, "confirmed in the future");
    core_rig_deinit(&rig);
}

static void a_publisher_that_published_nothing_has_no_rows(void **state)
{
    (void)state;
    struct core_rig rig;
    struct publisher *publisher = lead_to(&rig, find_publisher);
    expect_refused_u64(&rig, &publisher->batch, 0, "rows of no batch");
    core_rig_deinit(&rig);
}

/* --- what is remembered against repeats --------------------------------------------------------------------------- */

/* Meets freed records, which are zero. */
POISON_MAY_LOOK static void *find_window(struct core *core)
{
    const struct slab *slab = &core->deduplication.windows;
    for (uint32_t slot = 1; slot < slab->slot_end; slot++) {
        struct window *window = slab_at(slab, slot);
        if (window->queue == 0 || window->count < 2 || window->window_ms == WINDOW_EVER_MS ||
            core_queue(core, window->queue)->message_list == 0)
            continue;
        const struct id_entry *first = slab_at(&core->deduplication.entries, window->first);
        if (first->expires_at_ms > core->now_ms)
            return window;
    }
    return NULL;
}

static void what_is_remembered_is_not_over(void **state)
{
    (void)state;
    struct core_rig rig;
    struct window *window = lead_to(&rig, find_window);
    struct core *core = rig.core;
    struct id_entry *first = slab_at(&core->deduplication.entries, window->first);
    struct id_entry *last = slab_at(&core->deduplication.entries, window->last);
    expect_end_u64(&rig, &last->number, core->messages.message_number, "the number of a message");
    expect_refused_u64(&rig, &first->number, 0, "no number");
    expect_refused_u64(&rig, &first->number, last->number + 1, "a later message in front");
    expect_end_u64(&rig, &last->expires_at_ms, core->now_ms + window->window_ms, "the end of a window");
    expect_refused_u64(&rig, &first->expires_at_ms, last->expires_at_ms + 1, "a later end in front");
    expect_refused_u64(&rig, &last->expires_at_ms, WINDOW_EVER_MS, "for ever, in a window that ends");
    const struct digest_tag key = first->key;
    first->key = last->key;
    expect_refused(&rig, "one id twice");
    first->key = key;
    core_rig_deinit(&rig);
}

static void *find_producer(struct core *core)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        if (queue->first_producer == 0)
            continue;
        struct producer *producer = slab_at(&core->deduplication.producers, queue->first_producer);
        if (producer->count > 1)
            return producer;
    }
    return NULL;
}

static void the_numbers_of_a_producer_rise(void **state)
{
    (void)state;
    struct core_rig rig;
    struct producer *producer = lead_to(&rig, find_producer);
    struct produced *first = &producer->pairs_owned[0], *second = &producer->pairs_owned[1];
    expect_refused_u64(&rig, &first->number, 0, "no number");
    expect_refused_u64(&rig, &first->number, second->number, "two numbers that are the same");
    expect_refused_u64(&rig, &first->sequence, second->sequence, "two sequence numbers that are the same");
    expect_refused_u64(&rig, &producer->pairs_owned[producer->count - 1].number, rig.core->messages.message_number + 1,
                       "a number that was not given out");
    core_rig_deinit(&rig);
}

/* --- outcomes ----------------------------------------------------------------------------------------------------- */

static void *find_outcomes(struct core *core)
{
    struct outcomes *outcomes = &core->dependencies.failures;
    return outcomes->records.used > 2 && outcomes->oldest != outcomes->newest ? outcomes : NULL;
}

static void outcomes_have_happened_and_are_not_over(void **state)
{
    (void)state;
    struct core_rig rig;
    struct outcomes *outcomes = lead_to(&rig, find_outcomes);
    const uint64_t now_ms = core_now_ms(rig.core), newest = rig.core->messages.message_number;
    struct outcome *first = slab_at(&outcomes->records, outcomes->oldest);
    struct outcome *last = slab_at(&outcomes->records, outcomes->newest);
    expect_refused_u64(&rig, &first->number, 0, "no number");
    expect_end_u64(&rig, &last->number, newest, "the number of a message");
    expect_end_u64(&rig, &last->ended_at_ms, now_ms, "when something ended");
    expect_refused_u64(&rig, &first->ended_at_ms, last->ended_at_ms + 1, "a later end in front");
    expect_refused_u64(&rig, &first->ended_at_ms, now_ms - OUTCOME_WINDOW_MS, "an end that is over");
    const uint64_t ended_at_ms = first->ended_at_ms;
    first->ended_at_ms = now_ms - OUTCOME_WINDOW_MS + 1;
    expect_read(&rig, "an end that is nearly over");
    first->ended_at_ms = ended_at_ms;
    expect_refused_u8(&rig, &first->state, UNIT_OUTSTANDING, "an outcome of what has not ended");
    expect_refused_u8(&rig, &first->state, UNIT_CANCELLED + 1, "an outcome that there is not");
    expect_end_u64(&rig, &outcomes->forgotten_number, newest, "the highest that was forgotten");
    core_rig_deinit(&rig);
}

/* --- groups and types --------------------------------------------------------------------------------------------- */

/* Meets freed records, which are zero. */
POISON_MAY_LOOK static void *find_group(struct core *core)
{
    struct group *newest = NULL;
    for (uint32_t slot = 1; slot < core->groups.items.slot_end; slot++) {
        struct group *group = core_group(core, slot);
        if (group->is_live && (newest == NULL || newest->number < group->number))
            newest = group;
    }
    return newest != NULL && newest->id_owned.size > 0 && newest->count > 1 && newest->cancelled_sequence == 0 &&
                   core_message_list_at(core, newest->message_list)->queue != 0
               ? newest
               : NULL;
}

static void a_group_stands_where_it_belongs(void **state)
{
    (void)state;
    struct core_rig rig;
    struct group *group = lead_to(&rig, find_group);
    struct core *core = rig.core;
    expect_refused_u64(&rig, &core->groups.group_number, group->number - 1, "a number that was not given out");
    expect_refused_u64(&rig, &group->cancelled_sequence, UINT64_MAX, "cancelled, with nothing to be ended");
    group->is_line = !group->is_line;
    expect_refused(&rig, "a line in a queue that is none, or the other way round");
    group->is_line = !group->is_line;
    const struct bytes id = group->id_owned;
    static const char letters[GROUP_ID_SIZE_MAX + 1] = "an id that ends in NULs";
    group->id_owned = bytes_make(letters, GROUP_ID_SIZE_MAX + 1);
    expect_refused(&rig, "an id that is too long");
    group->id_owned = id;
    group->is_held = !group->is_held;
    expect_refused(&rig, "held, and not where held groups are, or the other way round");
    group->is_held = !group->is_held;
    core_rig_deinit(&rig);
}

/* The type order at a place in their order by name. */
static struct type_order *order_at(const struct core *core, uint32_t place)
{
    return slab_at(&core->type_orders.items, name_index_at(&core->type_orders.order, place));
}

static void *find_order(struct core *core)
{
    return core->type_orders.order.count > 1 && order_at(core, 0)->count == 2 ? order_at(core, 0) : NULL;
}

static void an_order_names_types_that_there_are(void **state)
{
    (void)state;
    struct core_rig rig;
    struct type_order *order = lead_to(&rig, find_order);
    expect_end_u32(&rig, &order->retention_s, TYPE_RETENTION_S_MAX, "how long a success counts");
    expect_refused_u32(&rig, &order->count, 1, "an order of one type");
    expect_refused_u32(&rig, &order->count, 0, "an order of no type");
    expect_refused_u8(&rig, &order->types[0], order->types[1], "a type twice");
    expect_refused_u8(&rig, &order->types[0], TYPES_MAX, "a type that there can't be");
    const struct bytes name = order->name_owned;
    order->name_owned = order_at(rig.core, 1)->name_owned;
    expect_refused(&rig, "two orders of one name");
    order->name_owned = BYTES("");
    expect_refused(&rig, "an order without a name");
    order->name_owned = name;
    static const char letters[TYPE_NAME_SIZE_MAX + 1] = "z, a name that ends in NULs";
    struct type_order *last = order_at(rig.core, rig.core->type_orders.order.count - 1);
    const struct bytes last_name = last->name_owned;
    last->name_owned = bytes_make(letters, TYPE_NAME_SIZE_MAX);
    expect_read(&rig, "the longest name");
    last->name_owned.size++;
    expect_refused(&rig, "a name that is too long");
    last->name_owned = last_name;
    core_rig_deinit(&rig);
}

static void a_type_is_of_use_and_has_a_name(void **state)
{
    (void)state;
    struct core_rig rig;
    struct type_order *order = lead_to(&rig, find_order);
    struct type_orders *orders = &rig.core->type_orders;
    expect_text(&rig, &orders->types[order->types[0]].name_owned, TYPE_NAME_SIZE_MAX, "the name of a type");
    unsigned unused = 0;
    while (orders->types[unused].name_owned.ptr != NULL)
        unused++;
    orders->types[unused].name_owned = BYTES("unused");
    expect_refused(&rig, "a type of no use");
    orders->types[unused].name_owned = orders->types[order->types[0]].name_owned;
    expect_refused(&rig, "two types of one name");
    orders->types[unused].name_owned = (struct bytes){0};
    core_rig_deinit(&rig);
}

/* --- moves, schedules and relays ---------------------------------------------------------------------------------- */

static void *find_move(struct core *core)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        if (queue->move_count == 0)
            continue;
        struct move_task *task = slab_at(&core->moves.tasks, queue->moves[queue->move_count - 1]);
        if (task->status == MOVE_RUNNING && task->destination != 0 && task->moved < task->to_move &&
            task->selection_owned == NULL)
            return task;
    }
    return NULL;
}

static void the_fields_of_a_move_agree(void **state)
{
    (void)state;
    struct core_rig rig;
    struct move_task *task = lead_to(&rig, find_move);
    struct core *core = rig.core;
    expect_refused_u64(&rig, &task->number, 0, "a task without a number");
    expect_end_u64(&rig, &task->number, core->moves.number, "the number of a task");
    expect_end_u32(&rig, &task->rate, MOVE_RATE_MAX, "the rate of a task");
    expect_end_u64(&rig, &task->moved, task->to_move, "how many were moved");
    expect_end_u32(&rig, &task->destination, core->queues.queue_id, "where to");
    expect_refused_u32(&rig, &task->destination, 0, "nowhere, by name");
    expect_end_u64(&rig, &task->moved_at_ms, core->now_ms, "when the newest was moved");
    expect_refused_u64(&rig, &task->started_at_ms, task->moved_at_ms + 1, "moved before it began");
    expect_text(&rig, &task->destination_owned, QUEUE_NAME_SIZE_MAX, "the name of where to");
    task->failure = MOVE_NO_ORIGIN;
    expect_refused(&rig, "running, with a failure");
    task->status = MOVE_FAILED;
    expect_read(&rig, "failed");
    task->failure = MOVE_NO_ORIGIN + 1;
    expect_refused(&rig, "a failure that there is not");
    task->failure = MOVE_NO_FAILURE;
    expect_refused(&rig, "failed, without a failure");
    task->status = MOVE_FAILED + 1;
    expect_refused(&rig, "a status that there is not");
    task->status = 0;
    expect_refused(&rig, "no status");
    task->status = MOVE_RUNNING;
    core_rig_deinit(&rig);
}

/* A running task for some numbers, that has looked and left one. */
static void *find_selection(struct core *core)
{
    for (uint32_t i = 0; i < core->queues.order.count; i++) {
        const struct queue *queue = core_queue(core, name_index_at(&core->queues.order, i));
        const struct move_task *task = queue->move_count == 0 ? NULL : move_at(core, queue, 0);
        struct selection *selection = task == NULL || task->status != MOVE_RUNNING ? NULL : task->selection_owned;
        if (selection != NULL && selection->number_count >= 2 && selection->refusal_count > 0)
            return selection;
    }
    return NULL;
}

static void the_fields_of_a_selection_agree(void **state)
{
    (void)state;
    struct core_rig rig;
    struct selection *selection = lead_to(&rig, find_selection);
    const uint64_t newest = rig.core->messages.message_number, now_ms = rig.core->now_ms;
    uint64_t *last = &selection->numbers_owned[selection->number_count - 1];
    selection->act = 0;
    expect_refused(&rig, "no act");
    selection->act = SELECTION_DELETES + 1;
    expect_refused(&rig, "an act that there is not");
    selection->act = SELECTION_MOVES;
    expect_end_u64(&rig, last, newest, "the last of its numbers");
    expect_refused_u64(&rig, last, selection->numbers_owned[selection->number_count - 2], "numbers that don't rise");
    expect_end_u64(&rig, &selection->newest, newest, "the newest message");
    expect_end_u64(&rig, &selection->place.number, newest, "its place");
    expect_end_u64(&rig, &selection->place.arrival, newest, "its place among the arrivals");
    expect_end_u64(&rig, &selection->place.counted_from_ms, now_ms, "the age of its place");
    expect_refused_u64(&rig, &selection->refused, selection->looked + 1, "more refused than it has looked at");
    expect_refused_u64(&rig, &selection->refused, selection->refusal_count - 1, "more named than refused");
    expect_end_u64(&rig, &selection->refusals_owned[0].number, newest, "the number of a refusal");
    expect_refused_u64(&rig, &selection->refusals_owned[0].number, 0, "a refusal of no message");
    expect_refused_u8(&rig, &selection->refusals_owned[0].reason, 0, "a refusal without a reason");
    expect_refused_u8(&rig, &selection->refusals_owned[0].reason, REFUSED_NO_QUEUE + 1, "a reason that there is not");
    core_rig_deinit(&rig);
}

static void *find_schedule(struct core *core)
{
    if (core->schedules.order.count < 2)
        return NULL;
    struct schedule *schedule = slab_at(&core->schedules.schedules, name_index_at(&core->schedules.order, 1));
    return schedule->last_message != 0 ? schedule : NULL;
}

static void the_fields_of_a_schedule_agree(void **state)
{
    (void)state;
    struct core_rig rig;
    struct schedule *schedule = lead_to(&rig, find_schedule);
    struct core *core = rig.core;
    struct schedule *first = slab_at(&core->schedules.schedules, name_index_at(&core->schedules.order, 0));
    expect_refused_u64(&rig, &schedule->number, 0, "a schedule without a number");
    expect_refused_u64(&rig, &schedule->number, core->schedules.number + 1, "a number that was not given out");
    expect_refused_u64(&rig, &schedule->number, first->number, "two schedules of one number");
    expect_end_u64(&rig, &schedule->last_message, core->messages.message_number, "its newest message");
    expect_refused_u64(&rig, &schedule->last_message, 0, "it fired without a message");
    expect_refused_u64(&rig, &schedule->last_at_ms, 0, "a message, though it never fired");
    const struct bytes name = first->name_owned;
    first->name_owned = schedule->name_owned;
    expect_refused(&rig, "two schedules of one name");
    first->name_owned = BYTES("");
    expect_refused(&rig, "a schedule without a name");
    first->name_owned = BYTES("~");
    expect_refused(&rig, "names out of order");
    first->name_owned = name;
    core_rig_deinit(&rig);
}

/* The relay at a place in their order by name. */
static struct relay_record *relay_at(const struct core *core, uint32_t place)
{
    return slab_at(&core->relays.items, name_index_at(&core->relays.order, place));
}

static void *find_relay(struct core *core)
{
    return core->relays.order.count > 1 ? relay_at(core, 0) : NULL;
}

static void the_fields_of_a_relay_are_possible(void **state)
{
    (void)state;
    struct core_rig rig;
    struct relay_record *relay = lead_to(&rig, find_relay);
    struct core *core = rig.core;
    expect_refused_u64(&rig, &relay->number, 0, "a relay without a number");
    expect_refused_u64(&rig, &relay->number, core->relays.number + 1, "a number that was not given out");
    expect_refused_u64(&rig, &relay->number, relay_at(core, 1)->number, "two relays of one number");
    struct relay_record *last = relay_at(core, core->relays.order.count - 1);
    const struct bytes name = last->name_owned;
    static const char high[RELAY_RECORD_NAME_SIZE_MAX + 1] = "~, a name that ends in NULs";
    last->name_owned = bytes_make(high, RELAY_RECORD_NAME_SIZE_MAX);
    expect_read(&rig, "the longest name");
    last->name_owned.size++;
    expect_refused(&rig, "a name that is too long");
    last->name_owned = relay->name_owned;
    expect_refused(&rig, "two relays of one name");
    last->name_owned = name;
    core_rig_deinit(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fields_of_a_ticket_are_possible),
        cmocka_unit_test(the_counts_of_a_pool_add_up),
        cmocka_unit_test(a_held_match_waits_for_somebody),
        cmocka_unit_test(a_match_that_was_made_has_its_message),
        cmocka_unit_test(a_settled_match_has_ended),
        cmocka_unit_test(what_a_publisher_has_published_is_in_order),
        cmocka_unit_test(a_publisher_that_published_nothing_has_no_rows),
        cmocka_unit_test(what_is_remembered_is_not_over),
        cmocka_unit_test(the_numbers_of_a_producer_rise),
        cmocka_unit_test(outcomes_have_happened_and_are_not_over),
        cmocka_unit_test(a_group_stands_where_it_belongs),
        cmocka_unit_test(an_order_names_types_that_there_are),
        cmocka_unit_test(a_type_is_of_use_and_has_a_name),
        cmocka_unit_test(the_fields_of_a_move_agree),
        cmocka_unit_test(the_fields_of_a_selection_agree),
        cmocka_unit_test(the_fields_of_a_schedule_agree),
        cmocka_unit_test(the_fields_of_a_relay_are_possible),
    };
    return cmocka_run_group_tests_name("core snapshot parts", tests, NULL, NULL);
}
