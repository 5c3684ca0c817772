/* Ids whose rows are gone for good: those that a connection deleted itself. A scan passes over them instead of reading
 * what is left of the rows, which VACUUM can't remove while a transaction is open that began before they were deleted.
 *
 * They stand in ranges, of which there are TOMBSTONES_RANGES_MAX at most: where ids are missing in between
 * (transactions that are open or were rolled back), a range ends. When there are too many, the smallest one is
 * forgotten; its ids are read again, which costs only time. */
#ifndef TALLY_RELAY_TOMBSTONES_H
#define TALLY_RELAY_TOMBSTONES_H

#include <stddef.h>
#include <stdint.h>

#define TOMBSTONES_RANGES_MAX 4000u /* a scan that looks between so many takes some eight milliseconds longer */

struct id_range {
    uint64_t first, last; /* both are in it */
};

struct tombstones {
    struct id_range ranges[TOMBSTONES_RANGES_MAX + 1]; /* rising; between two at least one id is missing */
    size_t count;
    uint64_t id_count;
};

void tombstones_clear(struct tombstones *tombstones);

/* Adds ids that may be known already. O(ranges) at worst, and O(1) for ids that follow the last. */
void tombstones_add(struct tombstones *tombstones, struct id_range range);

/* Forgets the ids up to `floor`. Returns the new floor, raised over the deleted ids right behind it. */
uint64_t tombstones_raise(struct tombstones *tombstones, uint64_t floor);

/* How many of the ids from `range.first` to `range.last` are gone. */
uint64_t tombstones_count_in(const struct tombstones *tombstones, struct id_range range);

#endif
