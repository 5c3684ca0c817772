/* A slab of equal records addressed by a 32-bit slot. Slot 0 is never handed out: it means "none".
 *
 * Records never move, so pointers to them stay good until slab_free(). Freed slots are reused, newest first. Memory
 * grows in chunks; slab_trim() gives it back. The records in use count as kept memory (accounted.h). O(1).
 *
 * Code that walks over all slots meets freed ones. Until slab_trim() a freed record keeps its content, but for its
 * first four bytes. Each kind of record that is walked over has a function, marked POISON_MAY_LOOK, that tells from the
 * content whether the record is free. Only that function may read a freed record; AddressSanitizer reports any other
 * read (poison.h).
 *
 * A large slab grows in blocks of many chunks, which the system may back with huge pages: a fork then copies a
 * five-hundredth of the page tables, and fewer accesses miss the processor's table of translations. */
#ifndef TALLY_BASE_SLAB_H
#define TALLY_BASE_SLAB_H

#include "base/poison.h"

#include <stddef.h>
#include <stdint.h>

struct slab {
    void **chunks_owned;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint32_t block_begin; /* chunks from here on lie in blocks; all those before it were allocated one by one */
    uint32_t record_size; /* bytes; at least 4 */
    uint32_t slot_end;    /* slots from here on were never used */
    uint32_t free_head;   /* newest freed slot, 0 = none; the next one stands in its first four bytes */
    uint32_t used;        /* records handed out now */
};

#define POOL_CHUNK_SHIFT 10 /* records per chunk: 1,024 */

void slab_init(struct slab *slab, uint32_t record_size);
void slab_deinit(struct slab *slab);

/* A zeroed record. Stops the program at 2^32 - 1 records. */
uint32_t slab_allocate(struct slab *slab);
void slab_free(struct slab *slab, uint32_t slot);

/* Gives back, in portions, the memory of a slab that was empty, as far as it is not used again. Only where nobody reads
 * a freed record, and where no walk over the slots relies on slot_end never falling. */
void slab_trim(struct slab *slab);

/* The record at `slot`, which must be in use, except for the function that tells whether it is. */
static inline void *slab_at(const struct slab *slab, uint32_t slot)
{
    return (char *)slab->chunks_owned[slot >> POOL_CHUNK_SHIFT] +
           (size_t)(slot & ((1u << POOL_CHUNK_SHIFT) - 1)) * slab->record_size;
}

#endif
