#include "base/slab.h"

#include "base/accounted.h"
#include "base/assert.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define POOL_CHUNK_RECORDS ((uint32_t)1 << POOL_CHUNK_SHIFT)

/* A slab grows in blocks from this size on. Below it huge pages would save little, and cost a small server memory. */
#define POOL_BLOCKS_FROM ((size_t)32 << 20)

/* A slab that was empty keeps this many chunks, or twice as many as it uses again. It gives the others back this many
 * blocks at a time: unmapping gigabytes at once would pause the server. */
#define SLAB_CHUNKS_KEPT 16u
#define POOL_RELEASES_AT_ONCE 16u

static size_t chunk_size(const struct slab *slab)
{
    return (size_t)POOL_CHUNK_RECORDS * slab->record_size;
}

/* As many chunks as fill whole huge pages: none of them is shared with anything else. */
static uint32_t chunks_in_block(const struct slab *slab)
{
    size_t count = 1;
    while (count * chunk_size(slab) % MEMORY_HUGE_PAGE_SIZE != 0)
        count *= 2;
    return (uint32_t)count;
}

void slab_init(struct slab *slab, uint32_t record_size)
{
    ASSERT(record_size >= sizeof(uint32_t));
    *slab = (struct slab){.record_size = record_size, .slot_end = 1};
    slab->block_begin = (uint32_t)((POOL_BLOCKS_FROM + chunk_size(slab) - 1) / chunk_size(slab));
}

void slab_deinit(struct slab *slab)
{
    accounted_count_less((size_t)slab->used * slab->record_size);
    for (uint32_t i = 0; i < slab->chunk_count; i += i < slab->block_begin ? 1 : chunks_in_block(slab))
        free(slab->chunks_owned[i]);
    free(slab->chunks_owned);
    *slab = (struct slab){0};
}

/* Adds `count` chunks that lie one behind the other. */
static void add_chunks(struct slab *slab, char *memory, uint32_t count)
{
    while (slab->chunk_count + count > slab->chunk_capacity) {
        slab->chunk_capacity = slab->chunk_capacity == 0 ? 4 : slab->chunk_capacity * 2;
        slab->chunks_owned = memory_resize(slab->chunks_owned, slab->chunk_capacity * sizeof(void *));
    }
    for (uint32_t i = 0; i < count; i++)
        slab->chunks_owned[slab->chunk_count++] = memory + i * chunk_size(slab);
    poison_put(memory, count * chunk_size(slab));
}

static void slab_grow(struct slab *slab)
{
    if (slab->chunk_count < slab->block_begin) {
        add_chunks(slab, memory_allocate(chunk_size(slab)), 1);
        return;
    }
    uint32_t count = chunks_in_block(slab);
    add_chunks(slab, memory_allocate_huge(count * chunk_size(slab)), count);
}

uint32_t slab_allocate(struct slab *slab)
{
    ASSERT(slab->record_size > 0);
    uint32_t slot = slab->free_head;
    if (slot != 0) {
        ASSERT(slot < slab->slot_end);
        poison_lift(slab_at(slab, slot), slab->record_size);
        memcpy(&slab->free_head, slab_at(slab, slot), sizeof(slab->free_head));
    } else {
        ASSERT(slab->slot_end < UINT32_MAX);
        slot = slab->slot_end++;
        if (slot >> POOL_CHUNK_SHIFT == slab->chunk_count)
            slab_grow(slab);
        poison_lift(slab_at(slab, slot), slab->record_size);
    }
    memset(slab_at(slab, slot), 0, slab->record_size);
    slab->used++;
    accounted_count_more(slab->record_size);
    return slot;
}

/* Gives the last block back if no slot of it was used since the slab was empty, and there is more than enough room
 * without it. */
static bool release_block(struct slab *slab)
{
    uint32_t needed = 2 * (slab->slot_end >> POOL_CHUNK_SHIFT) + SLAB_CHUNKS_KEPT;
    if (slab->chunk_count <= needed)
        return false;
    uint32_t count = slab->chunk_count > slab->block_begin ? chunks_in_block(slab) : 1;
    if (slab->chunk_count - count < needed)
        return false;
    slab->chunk_count -= count;
    free(slab->chunks_owned[slab->chunk_count]);
    return true;
}

void slab_trim(struct slab *slab)
{
    if (slab->used == 0) {
        slab->slot_end = 1; /* all slots count as never used, so the last chunks are freed first */
        slab->free_head = 0;
    }
    for (unsigned i = 0; i < POOL_RELEASES_AT_ONCE && release_block(slab); i++)
        continue;
}

void slab_free(struct slab *slab, uint32_t slot)
{
    ASSERT(slot != 0 && slot < slab->slot_end);
    ASSERT(slot != slab->free_head);
    ASSERT(slab->used > 0);
    memcpy(slab_at(slab, slot), &slab->free_head, sizeof(slab->free_head));
    poison_put(slab_at(slab, slot), slab->record_size);
    slab->free_head = slot;
    slab->used--;
    accounted_count_less(slab->record_size);
}
