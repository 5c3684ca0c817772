/* A ticket: what waits in a pool to be matched. It is known by its key (TicketId) and by its number in the namespace. Its content is
 * kept in memory while it can wait again; when it is over, only what answers a late repeat is. */
#ifndef TALLY_CORE_TICKET_H
#define TALLY_CORE_TICKET_H

#include "base/assert.h"
#include "base/pool.h"
#include "base/table.h"
#include "core/digest.h"
#include "match/entry.h"

struct core;
struct ticket_pool;

#define TICKET_KEY_SIZE_MAX 128u
#define TICKET_SIZE_MAX 65536u        /* attributes, needs and body together */
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
    uint32_t level_version;    /* rules_version that entry.level belongs to; under another one it has taken no step */
    uint32_t ttl_s;
    uint32_t expiry_index;       /* in the pool's heap */
    uint32_t prev, next;         /* among the pool's ended ones */
    uint32_t set_prev, set_next; /* among the waiting and held ones of its exclusive set */
    uint32_t set;                /* slot in the pool's sets; 0: none */
    uint32_t conflicts;          /* proposals with it that failed, since the start */
    uint8_t state;               /* enum ticket_state */
    bool is_settled;             /* over for good: among the ended */
};

/* An exclusive set that has tickets that wait or are held. */
struct exclusive_set {
    uint64_t number;
    struct bytes name_owned;
    uint32_t first; /* ticket slots */
    uint32_t last;
    uint32_t held; /* how many of them are held or matched and may come back: then no other may be matched */
};

static inline struct ticket *ticket_at(const struct pool *tickets, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(tickets, slot);
}

/* Slots, 0: none. */
uint32_t ticket_find(const struct ticket_pool *pool, struct bytes key);
uint32_t ticket_find_by_number(const struct ticket_pool *pool, uint64_t number);

/* The level of a waiting ticket under the pool's present rules. */
uint32_t ticket_level(const struct ticket_pool *pool, const struct ticket *ticket);

/* For made_match.c: moves a ticket from one state to another: matcher, expiries, counts, sets and feed follow. A ticket that waits again has a
 * higher version. `reason` is that of its retirement (enum feed_reason; 0 when it waits again). */
void ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state, uint64_t match,
                   unsigned reason);
void ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot);
/* It is over for good: only its key, state and match are kept, for a while. */
void ticket_settle(struct core *core, struct ticket_pool *pool, uint32_t slot);

#endif
