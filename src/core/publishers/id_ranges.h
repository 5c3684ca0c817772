/* A set of numbers as the ranges that they form: sorted, adjacent ones merged. Where there would be more than a
 * maximum, the lowest are merged over the gaps between them, so that it holds numbers that nobody has added: it never
 * lacks one that somebody has.
 *
 * 16 bytes a range. O(log ranges) to find; to add, that and a move of what stands on the nearer side of the place, so
 * O(log ranges) for numbers that rise or nearly do. */
#ifndef TALLY_CORE_PUBLISHERS_ID_RANGES_H
#define TALLY_CORE_PUBLISHERS_ID_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct id_range {
    uint64_t first;
    uint64_t last;
};

/* All zeros: an empty set. */
struct id_ranges {
    struct id_range *items_owned; /* in use from `start` on */
    uint32_t start;
    uint32_t count;
    uint32_t capacity;
};

void id_ranges_deinit(struct id_ranges *ranges);

bool id_ranges_contain(const struct id_ranges *ranges, uint64_t id);

/* Adds `id`; at most `count_max` ranges are left. What it leaves depends on the order of the adding only where there
 * were more. */
void id_ranges_add(struct id_ranges *ranges, uint64_t id, uint32_t count_max);

/* The i-th, from the lowest. */
static inline const struct id_range *id_ranges_at(const struct id_ranges *ranges, uint32_t index)
{
    return &ranges->items_owned[ranges->start + index];
}

/* For a decoder: a range behind all others. False if it is none, or does not lie above them with a gap between. */
bool id_ranges_append(struct id_ranges *ranges, struct id_range range);

void id_ranges_copy(struct id_ranges *to, const struct id_ranges *from);

void id_ranges_check(const struct id_ranges *ranges, uint32_t count_max);

#endif
