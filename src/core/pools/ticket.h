/* A ticket: waits in a pool to be matched. It is known by its key (TicketId) and by its number in the namespace. Its
 * content is kept in memory while it can wait again. When it is over, only the data for answering a late repeat is
 * kept. */
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
    TICKET_MATCHED, /* its match may be put back until its result message has ended */
    TICKET_CANCELLED,
    TICKET_EXPIRED,
};

/* Why a ticket ended without a match. Stored in the log. */
enum ticket_end {
    TICKET_END_CANCELLED = 1,
    TICKET_END_EXPIRED = 2,
};

/* The contents of a ticket. The views of a stored one point into one block, `content_owned`. */
struct ticket_content {
    struct bytes attributes; /* JSON object, as given, without white space; empty: none */
    struct bytes facts;      /* encoded, match/facts.h */
    struct bytes body;       /* text */
    bool has_body;
};

/* The size, as JSON, of what a result repeats of it. O(its size). */
size_t ticket_content_size(const struct ticket_content *content);

struct ticket {
    struct entry entry; /* number, age, expiry, set, facts, weight, priority, level */
    uint64_t match;     /* number of the match that holds or has it; 0: none */
    uint64_t ended_at_ms;
    struct digest_tag offer; /* of the whole offer; it distinguishes a repeat from another offer */
    struct bytes key_owned;
    void *content_owned; /* NULL once it is over for good */
    struct ticket_content content;
    struct facts *facts_owned; /* entry.facts; NULL once it is over for good */
    uint32_t version;          /* from 1; increases with each change that a proposal must know */
    /* the rules_version to which entry.level belongs; under another one it has taken no step: ticket_level() */
    uint32_t level_version;
    uint32_t ttl_s;
    uint32_t expiry_index; /* in the pool's heap */
    uint32_t prev, next;   /* among the pool's tickets that are not over for good, by number; or among the ended ones */
    uint32_t set_prev, set_next; /* among those of its exclusive set that are not over for good, by number */
    uint32_t set;                /* slot in the pool's sets; 0: none, or over for good */
    uint32_t conflicts;          /* how many proposals with it have failed, since the start */
    uint8_t state;               /* enum ticket_state */
    bool is_settled;             /* over for good: among the ended */
};

static inline struct ticket *ticket_at(const struct slab *tickets, uint32_t slot)
{
    ASSERT(slot != 0);
    return slab_at(tickets, slot);
}

/* Both may be asked of a freed record. */
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

/* Its entry with that level, as rules need it. After a change of the rules, entry.level may be old until the matcher
 * comes to the ticket, so use this function. */
const struct entry *ticket_entry(const struct ticket_pool *pool, uint32_t slot);

/* Does its exclusive set allow a match of it? No other ticket of the set may be held, or matched and able to come
 * back. */
bool ticket_is_free(const struct ticket_pool *pool, const struct ticket *ticket);

/* The ticket that has waited for the longest, or NULL. Looks at *visits tickets at most, the oldest ones that are not
 * over for good, and takes them off *visits; at 0 a NULL may mean that it did not look far enough. */
const struct ticket *ticket_oldest_waiting(const struct ticket_pool *pool, unsigned *visits);

/* Puts a waiting ticket into the matcher, if that is awake and the ticket is free. The ticket must not be in it. */
void ticket_join_matcher(struct core *core, struct ticket_pool *pool, uint32_t slot);

/* For made_match.c: moves a ticket from one state to another, and updates matcher, expiries, counts, sets and feed.
 * `state` is held, matched, cancelled or expired; the last two are over for good at once. `reason` (enum feed_reason)
 * is the reason in the feed. */
void ticket_retire(struct core *core, struct ticket_pool *pool, uint32_t slot, enum ticket_state state, uint64_t match,
                   unsigned reason);
/* It waits again, with a higher version. */
void ticket_return(struct core *core, struct ticket_pool *pool, uint32_t slot);
/* It is matched, cancelled or expired for good: only its key, state and match are kept, for a while. Nothing happens if
 * that was already so. */
void ticket_settle(struct core *core, struct ticket_pool *pool, uint32_t slot);

/* Forgets the ticket that ended first. There must be one. */
void ticket_forget_oldest(struct core *core, struct ticket_pool *pool);

/* Replaces its contents with a copy of the given ones, in one block; `facts` become its own. */
void ticket_adopt_content(struct ticket *ticket, const struct ticket_content *content, struct facts *facts);

/* Adds a complete ticket, except for its links and its set, to the end of the lists, of its state and of its set. */
void ticket_restore(struct core *core, struct ticket_pool *pool, uint32_t slot, struct bytes set);

/* Frees the memory of a ticket in a pool that will be deleted. */
void ticket_free(struct ticket *ticket);

#endif
