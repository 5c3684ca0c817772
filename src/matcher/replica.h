/* What `tally match` knows of a pool: its waiting tickets as the feed tells of them, in a matcher of the same code that
 * the server has.
 *
 * A ticket that is proposed, or put aside after a refusal, is out of the matcher, so that it is not proposed twice at
 * once; it comes back as a seed. What the feed says of it meanwhile is noted and counts when the answer is there. */
#ifndef TALLY_MATCHER_REPLICA_H
#define TALLY_MATCHER_REPLICA_H

#include "base/table.h"
#include "match/matcher.h"

#define REPLICA_PARTS_MAX 64u

enum replica_state { REPLICA_WAITING /* in the matcher */, REPLICA_PROPOSED, REPLICA_ASIDE };

struct replica_ticket {
    uint32_t slot; /* its own; 0: nobody is here */
    uint32_t part;
    struct entry entry;
    struct facts *facts_owned;
    struct bytes key_owned;
    uint64_t version;
    uint32_t aside_index; /* in the heap of those put aside, by when they come back */
    uint8_t state;        /* enum replica_state */
    bool has_gone;        /* retired while it was proposed */
};

struct replica {
    struct rules *rules_owned;
    bool has_own_rules; /* not the pool's: then its levels are not ours */
    uint32_t parts;     /* by which seeds are shared out; 0: they are not */
    bool is_mine[REPLICA_PARTS_MAX];
    struct pool tickets;
    struct table by_key;
    struct table by_number;
    struct heap aside;
    struct matcher matcher;
    uint64_t order;          /* for numbers of tickets of one millisecond */
    uint64_t not_understood; /* offers that were left out */
};

/* `rules` are the replica's from then on. At most REPLICA_PARTS_MAX parts; 0: seeds are not shared out. */
void replica_init(struct replica *replica, struct rules *rules, bool has_own_rules, uint32_t parts);
void replica_deinit(struct replica *replica);

/* Forgets all tickets, also those that are proposed: slots mean nothing any more. Takes other rules, unless NULL. */
void replica_clear(struct replica *replica, struct rules *rules);

/* Which parts are ours now; NULL: as before. What becomes ours looks for partners. False, with nothing changed, if this
 * is no list of parts that there are. */
bool replica_set_parts(struct replica *replica, yyjson_val *parts);

/* One event of the feed, or a ticket of ListTickets, which is an offer. Rules events are the caller's. An offer that
 * the rules don't take, or of a part that there is not, is counted as not understood. */
void replica_apply(struct replica *replica, yyjson_val *event, uint64_t now_ms);

/* The next group that fits; its tickets are proposed from now on. Like matcher_look(): MATCHER_IDLE says that there is
 * none now, MATCHER_TIRED that the budget is used up and something is left to do. */
enum matcher_outcome replica_find(struct replica *replica, uint64_t now_ms, uint32_t *budget,
                                  struct matcher_group *group);

const struct replica_ticket *replica_ticket(const struct replica *replica, uint32_t slot);
/* 0: not known. */
uint32_t replica_find_ticket(const struct replica *replica, struct bytes key);

/* A proposed ticket's answer is there: it is over; or waits and looks again; or does so at a later time. What the feed
 * said since counts more. */
void replica_drop(struct replica *replica, uint32_t slot, uint64_t version, uint64_t now_ms);
void replica_return(struct replica *replica, uint32_t slot, uint64_t now_ms);
void replica_put_aside(struct replica *replica, uint32_t slot, uint64_t version, uint64_t until_ms, uint64_t now_ms);

#endif
