#include "base/pool.h"

#include "base/assert.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define POOL_CHUNK_RECORDS ((uint32_t)1 << POOL_CHUNK_SHIFT)

void pool_init(struct pool *pool, uint32_t record_size)
{
    ASSERT(record_size >= sizeof(uint32_t));
    *pool = (struct pool){.record_size = record_size, .slot_end = 1};
}

void pool_deinit(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        free(pool->chunks_owned[i]);
    free(pool->chunks_owned);
    *pool = (struct pool){0};
}

static void pool_add_chunk(struct pool *pool)
{
    if (pool->chunk_count == pool->chunk_capacity) {
        pool->chunk_capacity = pool->chunk_capacity == 0 ? 4 : pool->chunk_capacity * 2;
        pool->chunks_owned = memory_resize(pool->chunks_owned, pool->chunk_capacity * sizeof(void *));
    }
    size_t size = (size_t)POOL_CHUNK_RECORDS * pool->record_size;
    pool->chunks_owned[pool->chunk_count++] = memory_allocate_zeroed(size);
}

uint32_t pool_allocate(struct pool *pool)
{
    ASSERT(pool->record_size > 0);
    uint32_t slot = pool->free_head;
    if (slot != 0) {
        ASSERT(slot < pool->slot_end);
        void *record = pool_at(pool, slot);
        memcpy(&pool->free_head, record, sizeof(pool->free_head));
        memset(record, 0, pool->record_size);
    } else {
        ASSERT(pool->slot_end < UINT32_MAX);
        slot = pool->slot_end++;
        if (slot >> POOL_CHUNK_SHIFT == pool->chunk_count)
            pool_add_chunk(pool);
    }
    pool->used++;
    return slot;
}

void pool_free(struct pool *pool, uint32_t slot)
{
    ASSERT(slot != 0 && slot < pool->slot_end);
    ASSERT(slot != pool->free_head);
    ASSERT(pool->used > 0);
    memcpy(pool_at(pool, slot), &pool->free_head, sizeof(pool->free_head));
    pool->free_head = slot;
    pool->used--;
}
