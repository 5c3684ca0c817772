/* What time makes due in pools of tickets, live only, a portion at a time. At one instant arrivals come first (they
 * have been: each was an event of its own), then steps, then expiries: a ticket whose ttl ends at its own step may
 * still match. */
#include "core/pools/ticket_pool.h"

#include "base/budget.h"
#include "core/pools/decide_match.h"
#include "core/pools/match_result.h"
#include <stdlib.h>

/* A ticket is put into the matcher in a fraction of the time of anything that is logged. */
#define FILL_SHARE 4u

/* Widening steps in one event. */
#define STEPS_MAX 250u
#define STEP_SIZE (sizeof(uint64_t) + 1)

/* A busy matcher holds up an expiry no longer than this. */
#define EXPIRY_PATIENCE_MS 1000u

/* What one pool may do in one call, of each kind. */
struct share {
    unsigned portion;
    uint32_t steps; /* of matchers (match/matcher.h) */
};

/* Puts waiting tickets into the matcher after a start or a change of the rules; each is a seed. */
static void fill(struct core *core, struct ticket_pool *pool, unsigned portion)
{
    for (; pool->index_next != 0 && portion > 0; portion--) {
        uint32_t slot = pool->index_next++;
        if (slot >= pool->tickets.slot_end) {
            pool->index_next = 0;
            return;
        }
        /* A ticket that came since is in the matcher. */
        if (ticket_is_waiting(ticket_at(&pool->tickets, slot)) && !matcher_has(&pool->matcher, slot))
            ticket_join_matcher(core, pool, slot);
    }
}

/* Takes the widening steps that are due by `until_ms`; they become known in one event. Returns how many. */
static unsigned take_steps(struct core *core, struct ticket_pool *pool, uint64_t until_ms, unsigned portion)
{
    uint8_t run[STEPS_MAX * STEP_SIZE];
    uint32_t level, slot, count = 0;
    unsigned taken = 0;
    while (taken < portion && count < STEPS_MAX && (slot = matcher_take_step(&pool->matcher, until_ms, &level)) != 0) {
        const struct ticket *ticket = ticket_at(&pool->tickets, slot);
        taken++;
        if (level == ticket_level(pool, ticket))
            continue;                                     /* it only became urgent */
        heap_set(&pool->matcher.steps, HEAP_NEVER, slot); /* until its level is known, and the next step with it */
        bytes_put_u64(run + count * STEP_SIZE, ticket->entry.number);
        run[count * STEP_SIZE + sizeof(uint64_t)] = (uint8_t)level;
        count++;
    }
    if (count > 0)
        core_emit(core, &(struct event){.kind = EVENT_TICKETS_WIDENED,
                                        .tickets_widened = {.pool = pool->id,
                                                            .count = count,
                                                            .tickets = bytes_make(run, count * STEP_SIZE)}});
    return taken;
}

static bool has_left(const struct core *core, unsigned portion)
{
    return portion > 0 && !core_frame_is_ample(core);
}

/* Is there something to be looked for, now? */
static bool has_work(const struct core *core, const struct ticket_pool *pool)
{
    return pool->index_next != 0 ||
           (ticket_pool_may_match(core, pool) && matcher_has_work(&pool->matcher, core->now_ms));
}

static void look(struct core *core, struct ticket_pool *pool, uint32_t *steps)
{
    if (*steps == 0 || core_frame_is_ample(core) || !has_work(core, pool))
        return;
    uint64_t before = pool->matcher.counters.cost;
    decide_match(core, pool, *steps);
    budget_spend(steps, pool->matcher.counters.cost - before);
}

static void expire(struct core *core, struct ticket_pool *pool, uint32_t slot)
{
    match_result_send_expiry(core, pool, slot);
    core_emit(core, &(struct event){.kind = EVENT_TICKET_ENDED,
                                    .ticket_ended = {.pool = pool->id,
                                                     .number = ticket_at(&pool->tickets, slot)->entry.number,
                                                     .reason = TICKET_END_EXPIRED}});
}

/* Steps up to the next expiry, the looks that they cause, expiries up to the next step, and so on up to now. */
static void pass_time(struct core *core, struct ticket_pool *pool, struct share share)
{
    unsigned left = share.portion;
    while (has_left(core, left)) {
        uint64_t expires_at_ms = heap_top_key(&pool->expiries);
        uint64_t until_ms = expires_at_ms < core->now_ms ? expires_at_ms : core->now_ms;
        while (has_left(core, left) && heap_top_key(&pool->matcher.steps) <= until_ms)
            left -= take_steps(core, pool, until_ms, left);
        look(core, pool, &share.steps);
        bool is_busy = left == 0 || (has_work(core, pool) && core->now_ms < expires_at_ms + EXPIRY_PATIENCE_MS);
        expires_at_ms = heap_top_key(&pool->expiries); /* it may have been matched */
        if (is_busy || expires_at_ms > core->now_ms)
            return;
        uint64_t step_ms = heap_top_key(&pool->matcher.steps);
        while (has_left(core, left) && expires_at_ms <= core->now_ms && expires_at_ms < step_ms) {
            expire(core, pool, heap_top(&pool->expiries).slot);
            expires_at_ms = heap_top_key(&pool->expiries);
            left--;
        }
    }
}

/* --- forgetting --------------------------------------------------------------------------------------------------- */

static void forget(struct core *core, struct ticket_pool *pool, unsigned portion)
{
    if (core_frame_is_ample(core) || ticket_pool_forget_due_ms(core, pool) > core->now_ms)
        return;
    uint32_t tickets = ticket_pool_count_over_tickets(core, pool, portion),
             matches = ticket_pool_count_over_matches(core, pool, portion);
    if (tickets > 0 || matches > 0)
        core_emit(core,
                  &(struct event){.kind = EVENT_TICKETS_FORGOTTEN,
                                  .tickets_forgotten = {.pool = pool->id, .tickets = tickets, .matches = matches}});
}

/* --- all pools ---------------------------------------------------------------------------------------------------- */

static void serve(struct core *core, struct ticket_pool *pool, struct share share)
{
    ticket_pool_wake(pool);
    fill(core, pool, share.portion * FILL_SHARE);
    pass_time(core, pool, share);
    forget(core, pool, share.portion);
    ticket_pool_set_timer(core, pool);
}

/* Ids of the pools that have something due, rising. */
static uint32_t list_due(const struct core *core, uint32_t ids[TICKET_POOLS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->pools.timers.count; i++) {
        struct heap_entry entry = core->pools.timers.entries_owned[i];
        if (entry.key <= core->now_ms)
            ids[count++] = ((const struct ticket_pool *)slab_at(&core->pools.items, entry.slot))->id;
    }
    core_sort_ids(ids, count);
    return count;
}

/* Every pool gets the same share, in order of id. If the frame becomes ample before all had theirs, the next call goes
 * on behind the last one; whose turn it is says nothing else, so a core that was read from a snapshot goes on like the
 * live one. */
static void serve_all(struct core *core, unsigned portion, uint32_t steps)
{
    uint32_t ids[TICKET_POOLS_MAX];
    uint32_t count = list_due(core, ids), first = 0;
    struct share share = {.portion = portion / (count == 0 ? 1 : count) + 1,
                          .steps = steps / (count == 0 ? 1 : count) + 1};
    while (first < count && ids[first] <= core->pools.turn)
        first++;
    uint32_t served = 0;
    for (; served < count && !core_frame_is_ample(core); served++) {
        core->pools.turn = ids[(first + served) % count];
        serve(core, ticket_pool_find_by_id(core, core->pools.turn), share);
    }
    if (served == count)
        core->pools.turn = 0;
}

void ticket_pool_do_due(struct core *core, unsigned portion, uint32_t steps)
{
    (void)ticket_pool_drain(core);
    decide_end_holds(core, portion);
    if (core->pools.timers.count > 0 && heap_top(&core->pools.timers).key <= core->now_ms)
        serve_all(core, portion, steps);
}
