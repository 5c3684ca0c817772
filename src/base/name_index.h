/* The records of a slab in order of their names: an array of slots, sorted. Each record has its name in a struct bytes
 * at a fixed offset, and no two have the same.
 *
 * 4 bytes a record. O(log n) to find; to insert and to remove, that and a move of the slots behind. The array never
 * shrinks: it is for what is few, or as many as it once was. */
#ifndef TALLY_BASE_NAME_INDEX_H
#define TALLY_BASE_NAME_INDEX_H

#include "base/assert.h"
#include "base/bytes.h"
#include "base/slab.h"

struct name_index {
    const struct slab *slab; /* borrowed */
    uint32_t name_offset;
    uint32_t *slots_owned;
    uint32_t count;
    uint32_t capacity;
};

/* An empty index; allocates nothing until the first insert. `slab` outlives it. */
void name_index_init(struct name_index *index, const struct slab *slab, size_t name_offset);
void name_index_deinit(struct name_index *index);

/* The place of the first record whose name is not below `name`; `count` if there is none. */
uint32_t name_index_place(const struct name_index *index, struct bytes name);

/* The slot of the record that has this name, or 0. */
uint32_t name_index_find(const struct name_index *index, struct bytes name);

/* The slot at a place, which is below `count`. */
static inline uint32_t name_index_at(const struct name_index *index, uint32_t place)
{
    ASSERT(place < index->count);
    return index->slots_owned[place];
}

/* Takes in the record at `slot`, whose name is not there yet; takes it out, while it still has that name. */
void name_index_insert(struct name_index *index, uint32_t slot);
void name_index_remove(struct name_index *index, uint32_t slot);

/* Asserts that the names rise. O(n). */
void name_index_check(const struct name_index *index);

#endif
