/* The messages that a pool sends: the result of a match, and the notice of an expired ticket
 * (docs/reference/pools.md). Private to src/core. */
#ifndef TALLY_CORE_POOLS_MATCH_RESULT_H
#define TALLY_CORE_POOLS_MATCH_RESULT_H

#include "core/state.h"

/* A member of a match that will be made: its ticket's slot, and its team. */
struct match_seat {
    uint32_t ticket;
    uint8_t team;
};

/* Has the result queue room for one more match? It must exist, and fewer than results_max matches of the pool may be
 * unfinished. While there is no room nothing can be matched, and the pool does not search. O(1). */
bool match_result_has_room(const struct core *core, const struct ticket_pool *pool);

/* Sends the result of a match and returns its message's number. The event that makes the match comes next, in the same
 * frame. `body` is the proposal's; NULL: none. */
uint64_t match_result_send(struct core *core, const struct ticket_pool *pool, uint64_t match,
                           const struct match_seat *seats, uint32_t count, const struct bytes *body);

/* Tells the pool's expiry queue, if it has one, about a waiting ticket that expires in this frame. */
void match_result_send_expiry(struct core *core, struct ticket_pool *pool, uint32_t ticket);

#endif
