#include "core/match_result.h"

bool match_result_has_room(const struct core *core, const struct ticket_pool *pool)
{
    return core_find_queue_by_id(core, pool->spec.result_queue) != NULL &&
           (pool->spec.results_max == 0 || pool->results < pool->spec.results_max);
}

uint64_t match_result_send(struct core *core, const struct ticket_pool *pool, uint64_t match,
                           const struct match_seat *seats, uint32_t count, const struct bytes *body)
{
    (void)core;
    (void)pool;
    (void)match;
    (void)seats;
    (void)count;
    (void)body;
    return 0;
}

void match_result_send_expiry(struct core *core, struct ticket_pool *pool, uint32_t ticket)
{
    (void)core;
    (void)pool;
    (void)ticket;
}
