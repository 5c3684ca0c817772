/* A ticket: what waits in a pool to be matched. It is known by its key (TicketId) and by its number in the namespace.
 * Its content is kept in memory while it can wait again; when it is over, only what answers a late repeat is. */
#ifndef TALLY_CORE_POOLS_TICKET_H
#define TALLY_CORE_POOLS_TICKET_H

#include "base/assert.h"
#include "base/slab.h"
#include "core/digest.h"
#include "core/pools/exclusive_set.h"
#include "match/entry.h"

struct core;
struct ticket_pool;

#define TICKET_KEY_SIZE_MAX 128u
#define TICKET_SIZE_MAX 65536u        /* attributes, needs and body together, as JSON */
#define TICKET_GROUP_SIZE_MAX 524288u /* the same, of all members of a match */

/* In a snapshot. */
enum ticket_state {
    TICKET_WAITING = 1,
    TICKET_HELD,    /* by a match that waits for its confirmations */
    TICKET_MATCHED, /* its match may still be put back until its result message has gone */
    TICKET_CANCELLED,
    TICKET_EXPIRED,
};

/* Why a ticket ended otherwise than by a match. In the log. */
enum ticket_end {
    TICKET_END_CANCELLED = 1,
    TICKET_END_EXPIRED = 2,
};

/* What a ticket says. The views of a stored one point into one block, `content_owned`. */
struct ticket_content {
    struct bytes attributes; /* JSON object, as given, without white space; empty: none */
    struct bytes facts;      /* encoded, match/facts.h */
    struct bytes body;       /* text */
    bool has_body;
};

/* How much of that a result repeats, as JSON. O(its size). */
size_t ticket_content_size(const struct ticket_content *content);

struct ticket {
    struct entry entry; /* number, age, expiry, set, facts, weight, priority, level */
    uint64_t match;     /* number of the match that holds or has it; 0: none */
    uint64_t ended_at_ms;
    struct digest_tag offer; /* of the whole offer, which tells a repeat from another one */
    struct bytes key_owned;
    void *content_owned; /* NULL once it is over for good */
    struct ticket_content content;
    struct facts *facts_owned; /* entry.facts; NULL once it is over for good */
    uint32_t version;          /* from 1; rises with each change that a proposal must know of */
    /* rules_version that entry.level belongs to; under another one it has taken no step: ticket_level() */
    uint32_t level_version;
    uint32_t ttl_s;
    uint32_t expiry_index; /* in the pool's heap */
    uint32_t prev, next;   /* among the pool's tickets that are not over for good, by number; or among the ended ones */
    uint32_t set_prev, set_next; /* among those of its exclusive set that are not over for good, by number */
    uint32_t set;                /* slot in the pool's sets; 0: none, or over for good */
    uint32_t conflicts;          /* proposals with it that failed, since the start */
    uint8_t state;               /* enum ticket_state */
    bool is_settled;             /* over for good: among the ended */
};

static inline struct ticket *ticket_at(const struct slab *tickets, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(tickets, slot);
}

/* These two may be asked of a freed record. */
POISON_MAY_LOOK static inline bool ticket_is_used(const struct ticket *ticket)
{
    return ticket->state != 0;
}

POISON_MAY_LOOK static inline bool ticket_is_waiting(const struct ticket *ticket)
{
    return ticket->state == TICKET_WAITING;
}

/* Slots, 0: none. */
uint32_t ticket_find(const struct ticket_pool *pool, struct bytes key);
uint32_t ticket_find_by_number(const struct ticket_pool *pool, uint64_t number);

/* The level of a ticket under the pool's present rules. */
uint32_t ticket_level(const struct ticket_pool *pool, const struct ticket *ticket);

/* Its entry, with that level in it: what rules are checked against. After a change of the rules entry.level may be an
 * old one until the matcher comes to the ticket, so nobody else may read it. */
const struct entry *ticket_entry(const struct ticket_pool *pool, uint32_t slot);

/* May a match take it, as far as its exclusive set goes: no other one of it is held, or matched and may come back? */
bool ticket_is_free(const struct ticket_pool *pool, const struct ticket *ticket);

/* Puts a waiting ticket into the matcher, if that is awake and the ticket is free. It must not be in it. */
void ticket_join_matcher(struct core *core, struct ticket_pool *pool, uint32_t slot);

/* For made_match.c: moves a ticket from one state to another: matcher, expiries, counts, sets and feed follow. `state`
 * is held, matched, cancelled or expired; the last two are over for good at once. `reason` (enum feed_reason) is what
 * the feed says of it. */
void ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state, uint64_t match,
                   unsigned reason);
/* It waits again, with a higher version. */
void ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot);
/* It is matched, cancelled or expired, and that is final: only its key, state and match are kept, for a while. Nothing
 * happens if it was. */
void ticket_settle(struct core *core, struct ticket_pool *pool, uint32_t slot);

/* Forgets the one that ended first. There is one. */
void ticket_forget_oldest(struct core *core, struct ticket_pool *pool);

/* Gives it a copy of what it says, in one block, in place of what it said; `facts` become its own. */
void ticket_adopt_content(struct ticket *ticket, const struct ticket_content *content, struct facts *facts);

/* A ticket of which everything but links and set is there takes its place behind all others, in the lists, its state
 * and its set. */
void ticket_restore(struct core *core, struct ticket_pool *pool, uint32_t slot, struct bytes set);

/* Frees what a ticket owns that is in a pool about to go. */
void ticket_free(struct ticket *ticket);

#endif
