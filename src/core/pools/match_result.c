/* Whether a pool's queue of results has room; the results themselves: match_result_send.c. */
#include "core/pools/match_result.h"

bool match_result_has_room(const struct core *core, const struct ticket_pool *pool)
{
    return core_find_queue_by_id(core, pool->spec.result_queue) != NULL &&
           (pool->spec.results_max == 0 || pool->results < pool->spec.results_max);
}
