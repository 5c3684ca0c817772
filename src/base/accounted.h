/* Kept memory: what the state is made of, counted. Everything of core and match that outlives a request, and every
 * slab, table and heap, is allocated here. Short-lived memory (a request's arena, buffers of sockets and frames) comes
 * from memory.h and is not counted.
 *
 * The count is the one mutable global of the libraries, as the allocator behind it is one: a counter in every structure
 * would have to show the same number (docs/internals/decisions/0012-memory.md). The count is what the allocator really
 * spends on blocks. Of a slab only the records in use count, not the free ones: so the same content always has the same
 * count. Any thread. */
#ifndef TALLY_BASE_ACCOUNTED_H
#define TALLY_BASE_ACCOUNTED_H

#include "base/bytes.h"

/* Like the functions of the same name in memory.h. The caller frees the memory with accounted_free(), never with
 * free(). */
void *accounted_allocate(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *accounted_allocate_zeroed(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *accounted_resize(void *ptr, size_t size) __attribute__((returns_nonnull, warn_unused_result));
struct bytes accounted_duplicate(struct bytes view);

/* ARRAY_GROW() for kept memory: room for one more item in an array of `count` items. The first room is for `first`
 * items; a full array doubles. `items` and `capacity` are lvalues, and change; the array of capacity 0 is NULL. */
#define ACCOUNTED_GROW(items, count, capacity, first)                                                                  \
    do {                                                                                                               \
        if ((count) >= (capacity)) {                                                                                   \
            (capacity) = (capacity) == 0 ? (first) : (capacity)*2;                                                     \
            (items) = accounted_resize((items), (capacity) * sizeof(*(items)));                                        \
        }                                                                                                              \
    } while (0)

/* Replaces *owned by a copy of `view`, which may be a part of *owned. An empty view frees the memory. */
void accounted_replace(struct bytes *owned, struct bytes view);

/* NULL is fine. */
void accounted_free(void *ptr);

/* For slabs, whose chunks are plain memory: `size` more bytes of the chunks are in use, or `size` fewer. */
void accounted_count_more(size_t size);
void accounted_count_less(size_t size);

/* Bytes in use now. O(1). */
size_t accounted_in_use(void);

#endif
