/* What `tally match` knows of a pool: its waiting tickets as the feed tells of them, in a matcher of the same code that
 * the server has.
 *
 * A ticket that is proposed, or put aside after a refusal, is out of the matcher, so that it is not proposed twice at
 * once; it comes back as a seed. What the feed says of it meanwhile is noted and counts when the answer is there. */
#ifndef TALLY_MATCHER_POOL_COPY_H
#define TALLY_MATCHER_POOL_COPY_H

#include "base/table.h"
#include "match/matcher.h"

#define POOL_COPY_PARTS_MAX 64u

enum pool_copy_state { POOL_COPY_WAITING /* in the matcher */, POOL_COPY_PROPOSED, POOL_COPY_ASIDE };

struct pool_copy_ticket {
    uint32_t slot; /* its own; 0: nobody is here */
    uint32_t part;
    struct entry entry;
    struct facts *facts_owned;
    struct bytes key_owned;
    uint64_t version;
    uint32_t aside_index; /* in the heap of those put aside, by when they come back */
    uint8_t state;        /* enum pool_copy_state */
    bool has_gone;        /* retired while it was proposed */
};

struct pool_copy {
    struct rules *rules_owned;
    bool has_own_rules; /* not the pool's: then its levels are not ours */
    uint32_t parts;     /* by which seeds are shared out; 0: they are not */
    bool is_mine[POOL_COPY_PARTS_MAX];
    struct slab tickets;
    struct table by_key;
    struct table by_number;
    struct heap aside;
    struct matcher matcher;
    uint64_t order;          /* for numbers of tickets of one millisecond */
    uint64_t not_understood; /* offers that were left out */
};

/* `rules` are the copy's from then on. At most POOL_COPY_PARTS_MAX parts; 0: seeds are not shared out. */
void pool_copy_init(struct pool_copy *copy, struct rules *rules, bool has_own_rules, uint32_t parts);
void pool_copy_deinit(struct pool_copy *copy);

/* Forgets all tickets, also those that are proposed: slots mean nothing any more. Takes other rules, unless NULL. */
void pool_copy_clear(struct pool_copy *copy, struct rules *rules);

/* Which parts are ours now; NULL: as before. What becomes ours looks for partners. False, with nothing changed, if this
 * is no list of parts that there are. */
bool pool_copy_set_parts(struct pool_copy *copy, yyjson_val *parts);

/* One event of the feed, or a ticket of ListTickets, which is an offer. Rules events are the caller's. An offer that
 * the rules don't take, or of a part that there is not, is counted as not understood. */
void pool_copy_apply(struct pool_copy *copy, yyjson_val *event, uint64_t now_ms);

/* The next group that fits; its tickets are proposed from now on. Like matcher_look(): MATCHER_IDLE says that there is
 * none now, MATCHER_TIRED that the budget is used up and something is left to do. */
enum matcher_outcome pool_copy_find(struct pool_copy *copy, uint64_t now_ms, uint32_t *budget,
                                    struct matcher_group *group);

const struct pool_copy_ticket *pool_copy_ticket(const struct pool_copy *copy, uint32_t slot);
/* 0: not known. */
uint32_t pool_copy_find_ticket(const struct pool_copy *copy, struct bytes key);

/* A proposed ticket's answer is there: it is over; or waits and looks again; or does so at a later time. What the feed
 * said since counts more. */
void pool_copy_drop(struct pool_copy *copy, uint32_t slot, uint64_t version, uint64_t now_ms);
void pool_copy_return(struct pool_copy *copy, uint32_t slot, uint64_t now_ms);
void pool_copy_put_aside(struct pool_copy *copy, uint32_t slot, uint64_t version, uint64_t until_ms, uint64_t now_ms);

#endif
