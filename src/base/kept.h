/* Kept memory: what the state is made of, counted. Everything of core and match that outlives a request, and every
 * pool, table and heap, is taken from here; what passes (a request's arena, buffers of sockets and frames) is plain
 * memory (memory.h) and not counted.
 *
 * The count is the one mutable global of the libraries, as the allocator behind it is one: a counter handed through
 * every structure would have to say the same number (docs/decisions/0012-memory.md). It is what the allocator really
 * spends on the blocks, and of pools the records that are in use, not what lies ready: full again it is as it was, and
 * empty again it is as it was. Any thread. */
#ifndef TALLY_BASE_KEPT_H
#define TALLY_BASE_KEPT_H

#include "base/bytes.h"

/* As their namesakes in memory.h. The caller gives them back by kept_free(), never by free(). */
void *kept_allocate(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *kept_allocate_zeroed(size_t size) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *kept_resize(void *ptr, size_t size) __attribute__((returns_nonnull, warn_unused_result));
struct bytes kept_duplicate(struct bytes view);

/* Puts a copy of `view`, which may be part of it, in place of what *owned holds; an empty one leaves no memory
 * behind. */
void kept_replace(struct bytes *owned, struct bytes view);

/* NULL is fine. */
void kept_free(void *ptr);

/* For pools, whose chunks are plain memory: so many bytes of them are in use, and no longer. */
void kept_count_more(size_t size);
void kept_count_less(size_t size);

/* Bytes in use now. O(1). */
size_t kept_in_use(void);

#endif
