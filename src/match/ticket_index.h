/* The index of the waiting tickets: an ordered set in which the plan places each entry, and counts with which a look
 * skips empty parts. It says in which streams, which are ranges of the ordered set, all candidates of an entry are.
 * Pure. */
#ifndef TALLY_MATCH_TICKET_INDEX_H
#define TALLY_MATCH_TICKET_INDEX_H

#include "match/ordered.h"
#include "match/plan.h"

struct ticket_index {
    struct plan plan;
    struct ordered ordered;
    uint32_t class_counts[PLAN_CLASSES];        /* entries that stand somewhere, by priority class */
    uint32_t level_counts[RULES_LEVELS_MAX];    /* without a need's bucket, by the group of their level */
    uint32_t need_counts[RULES_ATTRIBUTES_MAX]; /* that stand by a clause of their need, by its attribute */
    uint32_t *value_counts_owned; /* about how often a share value stands in it; NULL without a share rule */
};

/* One piece: of one bucket, of every class, the sort keys from low to high. */
struct stream {
    uint64_t bucket; /* without the class */
    uint64_t low, high;
};

/* The streams of a look; the memory is used again for the next one. */
struct streams {
    struct stream *items_owned;
    uint32_t count;
    uint32_t capacity;
};

void ticket_index_init(struct ticket_index *index, const struct rules *rules);
void ticket_index_deinit(struct ticket_index *index);

/* By what the entry is when it is inserted, and must still be when it is removed: level, urgency, facts. O(streams x
 * log n). */
void ticket_index_insert(struct ticket_index *index, const struct entry *entry, uint32_t slot);
void ticket_index_remove(struct ticket_index *index, const struct entry *entry);

/* Which values of the entry's own set a look visits for the share rule, as bits: the rarest ones, and enough that each
 * ticket that shares enough values has one of them. */
uint64_t ticket_index_values(const struct ticket_index *index, const struct entry *entry);

/* Fills `streams` so that they contain all entries that can fit. No stream: nothing can fit. */
void ticket_index_streams(const struct ticket_index *index, const struct entry *entry, uint64_t values,
                          struct streams *streams);
void streams_deinit(struct streams *streams);

/* Asserts order and counts. `count` entries stand somewhere. O(n). */
void ticket_index_check(const struct ticket_index *index, uint32_t count);

#endif
