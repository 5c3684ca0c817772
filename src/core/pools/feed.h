/* The feed of a pool: everything that happens to its tickets, numbered without gaps, from 1 or after the numbers of
 * deleted pools. The numbers are part of the state. The newest events are kept in a ring, in memory only. A caller that
 * asks for an older event is told to read the tickets again (RESYNC). */
#ifndef TALLY_CORE_POOLS_FEED_H
#define TALLY_CORE_POOLS_FEED_H

#include <stdbool.h>
#include <stdint.h>

#define FEED_EVENTS_MAX 100000u

enum feed_kind { FEED_OFFER = 1, FEED_RETIRE, FEED_WIDEN, FEED_RULES };
enum feed_reason { FEED_BY_MATCH = 1, FEED_BY_CANCEL, FEED_BY_TTL, FEED_BY_HOLD };

struct feed_event {
    uint64_t ticket;  /* number */
    uint64_t match;   /* the match's number, if the ticket was retired by a match or a hold */
    uint32_t version; /* of the ticket, or of the rules */
    uint8_t kind;
    uint8_t reason; /* of a retirement */
    uint8_t level;  /* of a widening */
};

struct feed {
    struct feed_event *ring_owned; /* NULL until feed_begin(); by number */
    uint32_t capacity;             /* places of the ring: as many as were needed so far, up to FEED_EVENTS_MAX */
    uint64_t last;                 /* number of the newest event; 0: none yet */
    uint64_t first;                /* number of the oldest in the ring; last + 1: the ring is empty */
    bool is_whole;                 /* no event of the pool is older than `first` */
};

void feed_init(struct feed *feed);
void feed_deinit(struct feed *feed); /* it is empty then, as after feed_init() */

/* The next event is the one after that number. `is_new`: the pool has had no events yet; otherwise all are
 * forgotten. */
void feed_go_to(struct feed *feed, uint64_t last, bool is_new);

/* The numbers of `step` events are left out. Whoever asks for one of them, or for an older one, must read the tickets
 * again. */
void feed_skip(struct feed *feed, uint64_t step);

/* Keeps events from now on. The ring grows with them, to 3.2 MB. */
void feed_begin(struct feed *feed);

/* O(1). */
void feed_add(struct feed *feed, const struct feed_event *event);

/* The event of that number; NULL if it is not in the ring. */
const struct feed_event *feed_at(const struct feed *feed, uint64_t number);

#endif
