/* Exclusive sets (ExclusiveSet): tickets of a pool of which at most one may be matched. A set exists while it has a
 * ticket that is not over for good. Its number shows the matcher that two tickets are in one set; it is in no log and
 * no snapshot. */
#ifndef TALLY_CORE_POOLS_EXCLUSIVE_SET_H
#define TALLY_CORE_POOLS_EXCLUSIVE_SET_H

#include "base/bytes.h"

struct ticket_pool;

#define EXCLUSIVE_SET_NAME_SIZE_MAX 128u
#define EXCLUSIVE_SET_TICKETS_MAX 500u /* not over for good: the record of a match names them all */

struct exclusive_set {
    uint64_t number;
    struct bytes name_owned;
    uint32_t first; /* ticket slots, by number of the ticket */
    uint32_t last;
    uint32_t count;
    uint32_t held; /* how many are held, or matched and may come back: then no other one may be matched */
};

/* Adds the ticket to the end of the set with that name, which is made if there is none. */
void exclusive_set_join(struct ticket_pool *pool, uint32_t ticket, struct bytes name);

/* Is the set of that name full? */
bool exclusive_set_is_full(const struct ticket_pool *pool, struct bytes name);

/* Takes it out of its set, which is freed with its last ticket. */
void exclusive_set_leave(struct ticket_pool *pool, uint32_t ticket);

struct exclusive_set *exclusive_set_at(const struct ticket_pool *pool, uint32_t slot);

/* Frees the sets of a deleted pool, `*left` of them at most, without touching the tickets' links; true when none is
 * left. */
bool exclusive_set_give_back(struct ticket_pool *pool, unsigned *left);

/* Asserts that each set and its tickets are consistent. */
void exclusive_set_check_all(const struct ticket_pool *pool);

#endif
