#include "base/pool.h"

#include "base/assert.h"
#include "base/kept.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define POOL_CHUNK_RECORDS ((uint32_t)1 << POOL_CHUNK_SHIFT)

/* A pool grows in blocks from this size on. Below it huge pages would save little, and cost a small server memory. */
#define POOL_BLOCKS_FROM ((size_t)32 << 20)

/* A pool that was empty keeps this many chunks, or twice as many as it uses again. It gives the others back this many
 * blocks at a time: unmapping gigabytes at once would pause the server. */
#define POOL_CHUNKS_KEPT 16u
#define POOL_RELEASES_AT_ONCE 16u

static size_t chunk_size(const struct pool *pool)
{
    return (size_t)POOL_CHUNK_RECORDS * pool->record_size;
}

/* As many chunks as fill whole huge pages: none of them is shared with anything else. */
static uint32_t chunks_in_block(const struct pool *pool)
{
    size_t count = 1;
    while (count * chunk_size(pool) % MEMORY_HUGE_PAGE_SIZE != 0)
        count *= 2;
    return (uint32_t)count;
}

void pool_init(struct pool *pool, uint32_t record_size)
{
    ASSERT(record_size >= sizeof(uint32_t));
    *pool = (struct pool){.record_size = record_size, .slot_end = 1};
    pool->block_begin = (uint32_t)((POOL_BLOCKS_FROM + chunk_size(pool) - 1) / chunk_size(pool));
}

void pool_deinit(struct pool *pool)
{
    kept_count_less((size_t)pool->used * pool->record_size);
    for (uint32_t i = 0; i < pool->chunk_count; i += i < pool->block_begin ? 1 : chunks_in_block(pool))
        free(pool->chunks_owned[i]);
    free(pool->chunks_owned);
    *pool = (struct pool){0};
}

/* Adds `count` chunks that lie one behind the other. */
static void add_chunks(struct pool *pool, char *memory, uint32_t count)
{
    while (pool->chunk_count + count > pool->chunk_capacity) {
        pool->chunk_capacity = pool->chunk_capacity == 0 ? 4 : pool->chunk_capacity * 2;
        pool->chunks_owned = memory_resize(pool->chunks_owned, pool->chunk_capacity * sizeof(void *));
    }
    for (uint32_t i = 0; i < count; i++)
        pool->chunks_owned[pool->chunk_count++] = memory + i * chunk_size(pool);
    poison_put(memory, count * chunk_size(pool));
}

static void pool_grow(struct pool *pool)
{
    if (pool->chunk_count < pool->block_begin) {
        add_chunks(pool, memory_allocate(chunk_size(pool)), 1);
        return;
    }
    uint32_t count = chunks_in_block(pool);
    add_chunks(pool, memory_allocate_huge(count * chunk_size(pool)), count);
}

uint32_t pool_allocate(struct pool *pool)
{
    ASSERT(pool->record_size > 0);
    uint32_t slot = pool->free_head;
    if (slot != 0) {
        ASSERT(slot < pool->slot_end);
        poison_lift(pool_at(pool, slot), pool->record_size);
        memcpy(&pool->free_head, pool_at(pool, slot), sizeof(pool->free_head));
    } else {
        ASSERT(pool->slot_end < UINT32_MAX);
        slot = pool->slot_end++;
        if (slot >> POOL_CHUNK_SHIFT == pool->chunk_count)
            pool_grow(pool);
        poison_lift(pool_at(pool, slot), pool->record_size);
    }
    memset(pool_at(pool, slot), 0, pool->record_size);
    pool->used++;
    kept_count_more(pool->record_size);
    return slot;
}

/* Gives the last block back if no slot of it was used since the pool was empty, and there is more than enough room
 * without it. */
static bool release_block(struct pool *pool)
{
    uint32_t needed = 2 * (pool->slot_end >> POOL_CHUNK_SHIFT) + POOL_CHUNKS_KEPT;
    if (pool->chunk_count <= needed)
        return false;
    uint32_t count = pool->chunk_count > pool->block_begin ? chunks_in_block(pool) : 1;
    if (pool->chunk_count - count < needed)
        return false;
    pool->chunk_count -= count;
    free(pool->chunks_owned[pool->chunk_count]);
    return true;
}

void pool_trim(struct pool *pool)
{
    if (pool->used == 0) {
        pool->slot_end = 1; /* all slots count as never used, so the last chunks are freed first */
        pool->free_head = 0;
    }
    for (unsigned i = 0; i < POOL_RELEASES_AT_ONCE && release_block(pool); i++)
        continue;
}

void pool_free(struct pool *pool, uint32_t slot)
{
    ASSERT(slot != 0 && slot < pool->slot_end);
    ASSERT(slot != pool->free_head);
    ASSERT(pool->used > 0);
    memcpy(pool_at(pool, slot), &pool->free_head, sizeof(pool->free_head));
    poison_put(pool_at(pool, slot), pool->record_size);
    pool->free_head = slot;
    pool->used--;
    kept_count_less(pool->record_size);
}
