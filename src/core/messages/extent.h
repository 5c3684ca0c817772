/* How much of each segment of the log is live: for every segment with content of live messages, the number of those
 * messages and the bytes. It is derived from the messages, so it is neither logged nor in a snapshot. */
#ifndef TALLY_CORE_MESSAGES_EXTENT_H
#define TALLY_CORE_MESSAGES_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct extent {
    uint64_t ordinal; /* of the segment */
    uint64_t live_count;
    uint64_t live_bytes;
};

/* Zeroed: empty. */
struct extents {
    struct extent *items_owned; /* ascending by ordinal; each has live content */
    size_t count;
    size_t capacity;
    uint64_t live_bytes; /* of all */
};

void extents_deinit(struct extents *extents);

/* Adds or removes a live content of `size` bytes in that segment. O(log segments); when an extent is added or removed,
 * the newer ones move. */
void extents_enter(struct extents *extents, uint64_t ordinal, uint32_t size);
void extents_leave(struct extents *extents, uint64_t ordinal, uint32_t size);

/* Index of the first extent whose ordinal is not less than `ordinal`. O(log segments). */
size_t extents_index(const struct extents *extents, uint64_t ordinal);

/* Is the segment with that ordinal among these, which are ascending? O(log count). */
bool extent_is_among(const uint64_t *ordinals, size_t count, uint64_t ordinal);

/* Asserts that the extents are valid and equal to `other`. */
void extents_check(const struct extents *extents, const struct extents *expected);

#endif
