/* An arena: memory of one request, freed whole. A block is kept across resets, so that a warm server allocates nothing
 * for an ordinary request. Arenas that share a stock keep their free blocks there: an empty arena then takes no
 * memory. */
#ifndef TALLY_BASE_ARENA_H
#define TALLY_BASE_ARENA_H

#include "base/bytes.h"

struct arena_block;

/* Blocks in a stock, 16 KiB each: few arenas hold something at the same time. */
#define ARENA_STOCK_MAX 16u

/* Blocks of ordinary size that no arena needs now. One thread. */
struct arena_stock {
    struct arena_block *blocks_owned; /* newest first: its memory is still in the processor's cache */
    size_t count;
};

struct arena {
    struct arena_block *blocks_owned; /* newest first */
    uint8_t *next;
    size_t left;
    struct arena_stock *stock; /* borrowed; NULL: it shares none */
};

void arena_init(struct arena *arena);
void arena_deinit(struct arena *arena);

/* From now on the arena, which is empty, takes its blocks from `stock` and gives them back there. */
void arena_share(struct arena *arena, struct arena_stock *stock);

/* Frees everything handed out since arena_init or the last reset. Keeps one block of ordinary size,
 * or none if it shares a stock. */
void arena_reset(struct arena *arena);

void arena_stock_init(struct arena_stock *stock);
void arena_stock_deinit(struct arena_stock *stock);

/* `size` bytes aligned to 16, not zeroed; live until the arena is reset. */
void *arena_allocate(struct arena *arena, size_t size) __attribute__((returns_nonnull));

/* Resizes `old`, which arena_allocate() or this function returned, from `old_size` to `size` bytes. The content stays
 * as far as it fits. The newest large allocation grows where it is, or moves without a second copy beside it: a growing
 * array never takes its memory twice. */
void *arena_resize(struct arena *arena, void *old, size_t old_size, size_t size) __attribute__((returns_nonnull));

/* True if the arena holds no block. */
static inline bool arena_is_empty(const struct arena *arena)
{
    return arena->blocks_owned == NULL;
}

/* Bytes that the arena has taken from the system. O(blocks). */
size_t arena_size(const struct arena *arena);

/* A copy of `view` that lives as long as the arena. */
struct bytes arena_copy(struct arena *arena, struct bytes view);

/* printf into the arena. */
struct bytes arena_format(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
