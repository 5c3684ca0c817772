/* Decisions about matches. */
#include "core/decide.h"
#include "core/match_result.h"

void decide_match(struct core *core, struct ticket_pool *pool, uint32_t candidates)
{
    (void)core;
    (void)pool;
    (void)candidates;
}

void decide_end_holds(struct core *core, unsigned portion)
{
    (void)core;
    (void)portion;
}
