/* Decisions (docs/internals/architecture.md, "Decide and apply"). Pools (docs/reference/pools.md), and the tickets in
 * them. */
#ifndef TALLY_CORE_POOLS_DECIDE_TICKET_H
#define TALLY_CORE_POOLS_DECIDE_TICKET_H

#include "core/core.h"
#include "core/pools/ticket_pool.h"

/* Creates the pool of that name, or gives it another spec. Its rules are valid (rules_create() accepted them) and
 * extend the old ones. Its queues exist. ERROR_OVER_LIMIT: there are TICKET_POOLS_MAX. */
enum error decide_put_pool(struct core *core, struct bytes name, const struct pool_spec *spec,
                           struct ticket_pool **pool);
void decide_delete_pool(struct core *core, struct ticket_pool *pool);

struct offer_command {
    struct bytes key;
    struct bytes set; /* exclusive set, or empty */
    struct ticket_content content;
    uint32_t weight;
    uint32_t ttl_s;  /* 0: none */
    uint64_t ttl_ms; /* the pool's if ttl_s was not given; UINT64_MAX: none */
    uint8_t priority;
    bool has_zero_ttl; /* ttl_s was given, as 0: this differs from an offer that leaves it to the pool */
};

/* Offers a ticket, or finds the one that was offered under this key (*is_known; in whatever state it is now).
 * ERROR_INVALID_PARAMETER_VALUE: it was offered with other content; ERROR_OVER_LIMIT: its exclusive set has
 * EXCLUSIVE_SET_TICKETS_MAX. decide_match() makes the search. O(log waiting). */
enum error decide_offer(struct core *core, struct ticket_pool *pool, const struct offer_command *command,
                        uint32_t *ticket, bool *is_known);

/* The result of a change: DONE, or what prevented it. */
enum ticket_outcome {
    TICKET_DONE,
    TICKET_IS_STALE,     /* `version` is not its version */
    TICKET_IS_TAKEN,     /* held or matched */
    TICKET_IS_CANCELLED, /* before */
    TICKET_IS_EXPIRED,
};

/* Gives a waiting ticket other facts and attributes. version 0: any present version. */
enum ticket_outcome decide_update_ticket(struct core *core, struct ticket_pool *pool, uint32_t ticket, uint32_t version,
                                         struct bytes facts, struct bytes attributes);

/* Cancels it: TICKET_DONE, or TICKET_IS_CANCELLED, TICKET_IS_TAKEN, TICKET_IS_EXPIRED. */
enum ticket_outcome decide_cancel_ticket(struct core *core, struct ticket_pool *pool, uint32_t ticket);

#endif
