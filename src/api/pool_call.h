/* Shared by the actions of pools: finds pools and tickets by the names that clients give, and writes both. Private to
 * src/api. */
#ifndef TALLY_API_POOL_CALL_H
#define TALLY_API_POOL_CALL_H

#include "api/action.h"
#include "core/pools/ticket.h"
#include "core/pools/ticket_pool.h"

#define POOL_PARTS_MAX 64u

/* PoolName: 1 to 80 letters, digits, hyphens, underscores and dots. ERROR_MISSING_PARAMETER,
 * ERROR_INVALID_PARAMETER_VALUE. */
enum error pool_call_name(struct call *call, struct bytes *name);

/* The pool that PoolName names, if the caller reaches it: only a caller who may use its queues may use the pool. Errors
 * as pool_call_name(), then ERROR_POOL_DOES_NOT_EXIST. */
enum error pool_call_find(struct call *call, struct ticket_pool **pool);

/* The same for an action that looks the pool up by itself; NULL: there is none. ERROR_POOL_DOES_NOT_EXIST. */
enum error pool_call_check(struct call *call, struct bytes name, const struct ticket_pool *pool);

/* A TicketId, or a similar id: 1 to 128 letters, digits and punctuation. */
bool pool_call_is_id(struct bytes id);

/* The slot of the ticket that TicketId names. ERROR_MISSING_PARAMETER, ERROR_TICKET_DOES_NOT_EXIST. */
enum error pool_call_ticket(struct call *call, const struct ticket_pool *pool, uint32_t *ticket);

/* Parts: 1 to 64; 64 if it is absent. ERROR_INVALID_PARAMETER_VALUE. */
enum error pool_call_parts(struct call *call, uint32_t *parts);

/* All tickets have slots below this one. A slot without a ticket has no state. */
static inline uint32_t pool_slot_end(const struct ticket_pool *pool)
{
    return pool->tickets.slot_end;
}

/* "waiting", "matched" …: the state of a ticket. */
const char *pool_ticket_status(const struct ticket *ticket);

/* Writes MatchId of a held or matched ticket; nothing for others. */
void pool_write_match_of(struct call *call, const struct ticket *ticket);
void pool_write_match_id(struct call *call, uint64_t match);

/* The number of the match that MatchId names; 0 if there is none. ERROR_MISSING_PARAMETER. */
enum error pool_call_match(struct call *call, uint64_t *match);

/* The fields of an offer event of a waiting ticket, from TicketId on, with its part out of so many parts. */
void pool_write_ticket(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket, uint32_t parts);

/* Attributes and, if it has one, Need of a ticket that is not over. */
void pool_write_facts(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket);

/* A ticket's Need as JSON, in the arena; empty: none. */
struct bytes pool_need_text(struct call *call, const struct ticket_pool *pool, const struct ticket *ticket);

/* Attributes, Rules, Size or Teams, and Pick of a pool. */
void pool_write_rules(struct call *call, const struct ticket_pool *pool);

/* Warnings: what makes the built-in matcher slow. Nothing if all is well, or if it does not run. */
void pool_write_warnings(struct call *call, const struct ticket_pool *pool);

/* How large Attributes, Need and Body of one ticket may be together. */
size_t pool_ticket_size_max(const struct ticket_pool *pool);

#endif
