/* Pools of tickets (docs/reference/pools.md; decision 0010). A pool owns its tickets, knows them by id and by number,
 * and counts them. "Pool" alone is base/slab.h's word for an allocator, so here it is a ticket pool.
 *
 * The state is what the log says: tickets, matches, counts, the number of the newest feed event. The matcher, the
 * feed's ring and the heaps are derived from it; the matcher lives only where decisions are made: it sleeps during a
 * replay and is filled in portions afterwards. */
#ifndef TALLY_CORE_POOLS_TICKET_POOL_H
#define TALLY_CORE_POOLS_TICKET_POOL_H

#include "base/cursor.h"
#include "base/list.h"
#include "base/table.h"
#include "core/pools/feed.h"
#include "core/pools/ticket.h"
#include "core/pools/waits.h"
#include "match/matcher.h"

struct core;
struct core_writer;
struct digest;

#define TICKET_POOLS_MAX 1000u
#define TICKET_POOL_NAME_SIZE_MAX 80u
#define TICKET_POOL_ENDED_MAX 1000000u /* tickets remembered after their end, and matches after theirs */

enum matcher_kind { MATCHER_BUILT_IN = 1, MATCHER_EXTERNAL = 2, MATCHER_BOTH = 3 };

/* What CreatePool says. Encoded: u32 result_queue, u32 expiry_queue, u8 matcher, u8 verifies, u32 retention_s, u64
 * window_ms, u64 ttl_ms, u64 confirm_ms, u64 results_max, text rules (u32 size + bytes). */
struct pool_spec {
    uint32_t result_queue; /* id */
    uint32_t expiry_queue; /* id; 0: none */
    enum matcher_kind matcher;
    bool verifies;        /* proposals from outside are held against the rules */
    uint32_t retention_s; /* of tickets and matches that are over */
    uint64_t window_ms;
    uint64_t ttl_ms;      /* of tickets that say nothing of it; 0: none */
    uint64_t confirm_ms;  /* 0: a match is made at once */
    uint64_t results_max; /* messages in the result queue; 0: no limit */
    struct bytes rules;   /* JSON, see match/rules.h */
};

void pool_spec_encode(const struct pool_spec *spec, struct buffer *out);
/* False, with *spec untouched, if `encoded` is none. Its views point into `encoded`. */
bool pool_spec_decode(struct bytes encoded, struct pool_spec *spec);

/* Where the tickets are that were ever offered: offered is the sum of the others (M28). */
struct ticket_counts {
    uint64_t offered;
    uint64_t waiting;
    uint64_t held;
    uint64_t matched;
    uint64_t cancelled;
    uint64_t expired;
};

/* What only this process has seen; in no snapshot. */
struct pool_tally {
    uint64_t already_offered;
    uint64_t conflicts;
    uint64_t stale;
    uint64_t other_refusals;
};

struct ticket_pool {
    uint64_t order; /* the id again, for heaps */
    uint32_t id;    /* never reused */
    uint32_t rules_version;
    struct bytes name_owned;
    struct bytes spec_encoded_owned;
    struct pool_spec spec; /* views into spec_encoded_owned */
    struct rules *rules_owned;
    const struct digest *digest; /* the namespace's, borrowed: for the hashes of names */

    struct slab tickets;
    struct slab sets;           /* exclusive_set.h */
    struct table ticket_by_key; /* all, the ended ones too */
    struct table ticket_by_number;
    struct table set_by_name;
    struct heap expiries; /* waiting tickets, by expires_at_ms */
    uint32_t live_first;  /* tickets that are not over for good, by number: slots */
    uint32_t live_last;
    uint32_t ended_first; /* those that are, in order of their end */
    uint32_t ended_last;
    uint32_t ended_count;
    uint32_t settled_first; /* matches that are over for good, the same (made_match.h): slots in core->matches.items */
    uint32_t settled_last;
    uint32_t settled_count;
    uint32_t unsettled_first; /* the others, by number: held, or with a result message */
    uint32_t unsettled_last;
    struct ticket_counts counts;
    uint64_t weight; /* of the waiting */
    uint64_t matches;
    uint64_t put_backs;
    /* matches that are not settled: each has a message in the result queue or under way from it, or a place there */
    uint64_t results;
    uint64_t set_number;
    struct feed feed;

    struct matcher matcher;
    bool is_awake; /* the matcher follows the tickets */
    /* while it is filled: tickets in slots from here on are not in it yet, unless they came since; 0: it is full */
    uint32_t index_next;
    struct pool_tally tally;
    /* how long the matched ones waited, by level, since the start; NULL: none was matched yet */
    struct waits *waits_owned;

    uint32_t due_index; /* in core->pools.timers */
    /* in core->pools.fed: the feed has grown since the api last asked; deleted: in leaving_pools */
    struct list_link feed_link;
};

/* Ticket pools in order of name: how many, the i-th, the index of the first whose name is not below `name`; by name; by
 * id (NULL: none). */
uint32_t ticket_pool_count(const struct core *core);
struct ticket_pool *ticket_pool_at(const struct core *core, uint32_t index);
uint32_t ticket_pool_index(const struct core *core, struct bytes name);
struct ticket_pool *ticket_pool_find(const struct core *core, struct bytes name);
struct ticket_pool *ticket_pool_find_by_id(const struct core *core, uint32_t id);

/* Pools whose feed has grown since the last call, one by one; NULL when there are no more. */
struct ticket_pool *ticket_pool_take_fed(struct core *core);
bool ticket_pool_has_fed(const struct core *core);

/* From now on the matcher follows the tickets; those that are there are put into it in portions. Live only; nothing
 * happens if it is awake. */
void ticket_pool_wake(struct ticket_pool *pool);

/* May the built-in matcher make a match now: is it to, and has the result queue room? */
bool ticket_pool_may_match(const struct core *core, const struct ticket_pool *pool);

/* How many tickets the built-in matcher has yet to look for. */
uint32_t ticket_pool_seed_count(const struct ticket_pool *pool);

/* When it next has something to forget; UINT64_MAX: never. */
uint64_t ticket_pool_forget_due_ms(const struct core *core, const struct ticket_pool *pool);

/* How many of the oldest tickets that have ended are over now, and how many of the oldest settled matches: at most
 * `portion`. */
uint32_t ticket_pool_count_over_tickets(const struct core *core, const struct ticket_pool *pool, unsigned portion);
uint32_t ticket_pool_count_over_matches(const struct core *core, const struct ticket_pool *pool, unsigned portion);

/* Gives back a portion of the memory of deleted pools; true if more is left. */
bool ticket_pool_drain(struct core *core);

/* From now on its feed keeps events, if it is a pool for matchers outside; a feed that does goes on. */
void ticket_pool_begin_feed(struct ticket_pool *pool);

/* Adds to the feed what happened to a ticket. */
void ticket_pool_feed(struct core *core, struct ticket_pool *pool, const struct feed_event *event);

/* Tells the core's timers when the pool next has something to do. After whatever changes that. */
void ticket_pool_set_timer(struct core *core, struct ticket_pool *pool);

/* When some pool next has something to do: 0: at once; UINT64_MAX: never. O(1). */
uint64_t ticket_pool_due_ms(const struct core *core);

/* Does what is due in pools, each a portion: fills indexes, expires tickets, ends holds, takes widening steps, looks
 * for matches (at most `steps` in all), forgets. Live only. For decide_due(). */
void ticket_pool_do_due(struct core *core, unsigned portion, uint32_t steps);

/* Is the set of names, ids and timers complete, for ticket_pool_snapshot.c: makes a pool. Its spec can be decoded and
 * `rules` are its rules, which become the pool's. */
struct ticket_pool *ticket_pool_add(struct core *core, uint32_t id, struct bytes name, struct bytes spec,
                                    struct rules *rules);
/* Are its queues there, and standard ones? */
bool ticket_pool_has_queues(const struct core *core, const struct pool_spec *spec);

void ticket_pool_encode_all(const struct core *core, struct core_writer *writer);
bool ticket_pool_decode_all(struct core *core, struct cursor *cursor);
void ticket_pool_check_all(const struct core *core);
void ticket_pool_init_all(struct core *core);
void ticket_pool_deinit_all(struct core *core);

#endif
