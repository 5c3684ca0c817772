/* How much of each segment of the log is alive: for every segment that a live message has its content in, how many have
 * and how many bytes. Derived from the messages, so that it is neither logged nor in a snapshot. */
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
    struct extent *items_owned; /* rising by ordinal; each has a live content */
    size_t count;
    size_t capacity;
    uint64_t live_bytes; /* of all */
};

void extents_deinit(struct extents *extents);

/* A live content of `size` bytes stands in that segment, or no longer does. O(log segments), where segments with live
 * contents that are newer move for one that comes or goes. */
void extents_enter(struct extents *extents, uint64_t ordinal, uint32_t size);
void extents_leave(struct extents *extents, uint64_t ordinal, uint32_t size);

/* Index of the first one whose ordinal is not below `ordinal`. O(log segments). */
size_t extents_index(const struct extents *extents, uint64_t ordinal);

/* Is the segment of that ordinal among these, which rise? O(log count). */
bool extent_is_among(const uint64_t *ordinals, size_t count, uint64_t ordinal);

/* Asserts that they are sound and equal to others. */
void extents_check(const struct extents *extents, const struct extents *expected);

#endif
