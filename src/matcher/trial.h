/* What `tally pool simulate` measures: recorded tickets are offered to a simulation, and everything that happens is
 * kept until it is asked for. */
#ifndef TALLY_MATCHER_TRIAL_H
#define TALLY_MATCHER_TRIAL_H

#include "base/buffer.h"
#include "matcher/simulation.h"
#include <stdio.h>

/* How long a ticket waited that was matched, and the level that it had reached. */
struct trial_wait {
    uint64_t ms;
    uint32_t level;
};

struct trial_distances {
    uint32_t attribute;
    struct buffer values; /* double: how far the members of a match are apart in it; of matches that all have it */
};

struct trial {
    const struct rules *rules; /* borrowed */
    struct simulation simulation;
    FILE *matches;            /* borrowed: where each match is told as a line of JSON; NULL: nowhere */
    struct buffer keys;       /* char *, owned, by number of the ticket, from 1 */
    struct table key_numbers; /* of those that have a key */
    struct buffer waits;      /* struct trial_wait; by ms after trial_finish() */
    struct trial_distances distances[RULES_ATTRIBUTES_MAX]; /* of what near rules and nearest compare */
    uint32_t distance_count;
    uint64_t until_ms; /* what would happen from then on doesn't */
    uint64_t matches_made;
    uint64_t expired;
    uint64_t cancelled;
    uint64_t repeated; /* lines of a key that was offered before */
};

void trial_init(struct trial *trial, const struct rules *rules, uint64_t window_ms, uint64_t ttl_ms, uint64_t until_ms,
                FILE *matches);
void trial_deinit(struct trial *trial);

/* Offers the ticket of a line, unless it comes too late, or its key was offered before, which adds nothing in a pool
 * either. False with `failure` filled if it can't be. */
bool trial_offer(struct trial *trial, yyjson_val *line, struct failure *failure);

/* Lets the time pass until `until_ms`, or until nothing happens any more, and puts what was measured in order. */
void trial_finish(struct trial *trial);

size_t trial_wait_count(const struct trial *trial);

/* The wait that `part` (0 to 1) of the matched tickets of a level did not exceed; RULES_LEVELS_MAX: of all. 0 where
 * there are none. */
uint64_t trial_quantile_ms(const struct trial *trial, uint32_t level, double part);
/* How many there are. */
uint64_t trial_count(const struct trial *trial, uint32_t level);

/* Mean and quantile of a distance; false where no match has it. */
bool trial_distance(const struct trial_distances *distances, double part, double *mean, double *quantile);

#endif
