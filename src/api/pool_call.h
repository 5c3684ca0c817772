/* What the actions of pools share: finding pools and tickets by the names that clients give, and how both are written.
 * Private to src/api. */
#ifndef TALLY_API_POOL_CALL_H
#define TALLY_API_POOL_CALL_H

#include "api/action.h"
#include "core/pools/ticket.h"
#include "core/pools/ticket_pool.h"

#define POOL_PARTS_MAX 64u

/* PoolName: 1 to 80 letters, digits, hyphens, underscores and dots. ERROR_MISSING_PARAMETER,
 * ERROR_INVALID_PARAMETER_VALUE. */
enum error pool_call_name(struct call *call, struct bytes *name);

/* The pool that PoolName names, if the caller reaches it: whoever may not use its queues may not use the pool either.
 * Errors as pool_call_name(), then ERROR_POOL_DOES_NOT_EXIST. */
enum error pool_call_find(struct call *call, struct ticket_pool **pool);

/* The same where the pool of that name is looked up; NULL: there is none. ERROR_POOL_DOES_NOT_EXIST. */
enum error pool_call_check(struct call *call, struct bytes name, const struct ticket_pool *pool);

/* A TicketId, or what is like one: 1 to 128 letters, digits and punctuation. */
bool pool_call_is_id(struct bytes id);

/* The slot of the ticket that TicketId names. ERROR_MISSING_PARAMETER, ERROR_TICKET_DOES_NOT_EXIST. */
enum error pool_call_ticket(struct call *call, const struct ticket_pool *pool, uint32_t *ticket);

/* Parts: 1 to 64, 64 where it is absent. ERROR_INVALID_PARAMETER_VALUE. */
enum error pool_call_parts(struct call *call, uint32_t *parts);

/* The tickets in slots below this one are all there are; a slot without a ticket is in no state. */
static inline uint32_t pool_slot_end(const struct ticket_pool *pool)
{
    return pool->tickets.slot_end;
}

/* "waiting", "matched" …: what a ticket is. */
const char *pool_ticket_status(const struct ticket *ticket);

/* The match of a ticket that is held or matched, as MatchId; nothing for another. */
void pool_write_match_of(struct call *call, const struct ticket *ticket);
void pool_write_match_id(struct call *call, uint64_t match);

/* The number of the match that MatchId names; 0 where it names none. ERROR_MISSING_PARAMETER. */
enum error pool_call_match(struct call *call, uint64_t *match);

/* What an offer event says of a waiting ticket, from TicketId on, with which of so many parts it is in. */
void pool_write_ticket(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket, uint32_t parts);

/* Attributes and, where there is one, Need of a ticket that is not over. */
void pool_write_facts(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket);

/* What a ticket needs, as JSON, in the arena; empty: nothing. */
struct bytes pool_need_text(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket);

/* Attributes, Rules, Size or Teams, and Pick of a pool. */
void pool_write_rules(struct call *call, const struct ticket_pool *pool);

/* Warnings: what makes the built-in matcher slow; nothing if all is well, or if it does not run. */
void pool_write_warnings(struct call *call, const struct ticket_pool *pool);

/* How much Attributes, Need and Body of one ticket may be together. */
size_t pool_ticket_size_max(const struct ticket_pool *pool);

#endif
