/* Allocation that does not fail: a queue server that can't get memory for its index can't keep a promise, so it stops
 * with a message and recovers from its log. Every allocation of the libraries goes through here; what the state is made
 * of goes through accounted.h, which counts it. */
#ifndef TALLY_BASE_MEMORY_H
#define TALLY_BASE_MEMORY_H

#include "base/bytes.h"

/* Fresh memory, not zeroed / zeroed; `size` may be zero. The caller frees it with free(). */
void *memory_allocate(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *memory_allocate_zeroed(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* Fresh memory, not zeroed, for what is large and lives long: a multiple of MEMORY_HUGE_PAGE_SIZE, aligned to it, and
 * backed by huge pages where the system has some. The caller frees it with free(). */
#define MEMORY_HUGE_PAGE_SIZE ((size_t)2 << 20)
void *memory_allocate_huge(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));

/* Gives the system back the memory of the whole huge pages from `begin` to `end`, inside a block of bytes that remains
 * allocated and whose content there is not needed any more; reading it is allowed, but its content is undefined.
 * Returns where to begin the next time. */
uint8_t *memory_give_back(uint8_t *begin, const uint8_t *end) __attribute__((warn_unused_result));

/* Like realloc(); on return the old pointer is dead. */
void *memory_resize(void *ptr, size_t size) __attribute__((returns_nonnull, warn_unused_result));

/* Makes room for one more item in a growing array of `count` items: a full one doubles. `items` and `capacity` are
 * lvalues, and change; the array of capacity 0 is NULL. The caller frees `items` with free(). */
#define ARRAY_GROW(items, count, capacity)                                                                             \
    do {                                                                                                               \
        if ((count) >= (capacity)) {                                                                                   \
            (capacity) = (capacity) == 0 ? ARRAY_FIRST : (capacity)*2;                                                 \
            (items) = memory_resize((items), (capacity) * sizeof(*(items)));                                           \
        }                                                                                                              \
    } while (0)
#define ARRAY_FIRST 16u

/* A copy of `view` in fresh memory; the caller frees its ptr. */
struct bytes memory_duplicate(struct bytes view);

/* The same of a string, with its NUL. */
char *memory_duplicate_string(const char *string) __attribute__((malloc, returns_nonnull, warn_unused_result));

#endif
