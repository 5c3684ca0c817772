/* When what is over in a pool of tickets is forgotten, and how much of it. */
#include "core/pools/ticket_pool.h"

#include "core/pools/made_match.h"
#include "core/state.h"

/* What is over is forgotten up to this much later: one event for many. */
#define FORGET_DELAY_MS 1000u

/* When what ended at ended_at_ms is over, one of `count`, the oldest. */
static uint64_t forget_at_ms(const struct ticket_pool *pool, uint32_t count, uint64_t ended_at_ms)
{
    return count > TICKET_POOL_ENDED_MAX ? 0 : ended_at_ms + (uint64_t)pool->spec.retention_s * 1000;
}

uint64_t ticket_pool_forget_due_ms(const struct core *core, const struct ticket_pool *pool)
{
    uint64_t at_ms = UINT64_MAX, match_ms = UINT64_MAX;
    if (pool->ended_count > 0)
        at_ms = forget_at_ms(pool, pool->ended_count, ticket_at(&pool->tickets, pool->ended_first)->ended_at_ms);
    if (pool->settled_count > 0)
        match_ms = forget_at_ms(pool, pool->settled_count, made_match_at(core, pool->settled_first)->ended_at_ms);
    at_ms = match_ms < at_ms ? match_ms : at_ms;
    return at_ms == 0 || at_ms == UINT64_MAX ? at_ms : at_ms + FORGET_DELAY_MS;
}

uint32_t ticket_pool_count_over_tickets(const struct core *core, const struct ticket_pool *pool, unsigned portion)
{
    uint32_t count = 0;
    for (uint32_t slot = pool->ended_first; slot != 0 && count < portion; count++) {
        const struct ticket *ticket = ticket_at(&pool->tickets, slot);
        if (forget_at_ms(pool, pool->ended_count - count, ticket->ended_at_ms) > core->now_ms)
            break;
        slot = ticket->next;
    }
    return count;
}

uint32_t ticket_pool_count_over_matches(const struct core *core, const struct ticket_pool *pool, unsigned portion)
{
    uint32_t count = 0;
    for (uint32_t slot = pool->settled_first; slot != 0 && count < portion; count++) {
        const struct made_match *match = made_match_at(core, slot);
        if (forget_at_ms(pool, pool->settled_count - count, match->ended_at_ms) > core->now_ms)
            break;
        slot = match->next;
    }
    return count;
}
