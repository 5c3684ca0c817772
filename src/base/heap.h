/* A four-ary min-heap of (key, slot) whose entries can be removed or moved from the middle: timers and ordered sets.
 *
 * Each record knows its entry: the heap writes the entry's index + 1 into a uint32_t of the record (0 = in no heap),
 * found through the pool and the member's offset. Ties are broken by the record's `order`, not by its slot, so that two
 * machines that replay the same log pop in the same order. O(log n) push, remove, update; O(1) look at the top. */
#ifndef TALLY_BASE_HEAP_H
#define TALLY_BASE_HEAP_H

#include "base/assert.h"
#include "base/slab.h"
#include <stdbool.h>

struct heap_entry {
    uint64_t key;
    uint32_t slot;
    uint32_t note; /* the caller's: it moves with the entry, and means nothing to the heap */
};

struct heap {
    struct heap_entry *entries_owned;
    uint32_t count;
    uint32_t capacity;
    const struct slab *pool; /* borrowed: where the records live */
    uint32_t index_offset;   /* of the uint32_t inside a record */
    uint32_t order_offset;   /* of a uint64_t inside a record, unique: breaks ties */
};

void heap_init(struct heap *heap, const struct slab *slab, size_t index_offset, size_t order_offset);
void heap_deinit(struct heap *heap);

/* Adds a record that is in no heap through this index. */
void heap_push(struct heap *heap, uint64_t key, uint32_t slot);

/* Removes a record that is in the heap. */
void heap_remove(struct heap *heap, uint32_t slot);

/* Gives a record that is in the heap another key. */
void heap_update(struct heap *heap, uint64_t key, uint32_t slot);

/* The note of a record that is in the heap: 0 until it is set, and forgotten with the entry. */
uint32_t heap_note(const struct heap *heap, uint32_t slot);

/* Sets it, and returns the one before. */
uint32_t heap_exchange_note(struct heap *heap, uint32_t slot, uint32_t note);

/* Begins to load the entry of a record, if it has one. */
void heap_prefetch(const struct heap *heap, uint32_t slot);

#define HEAP_NEVER UINT64_MAX

/* Gives a record that key, whether it is in the heap or not; HEAP_NEVER takes it out. */
void heap_set(struct heap *heap, uint64_t key, uint32_t slot);

/* The smallest entry; the heap must not be empty. */
static inline struct heap_entry heap_top(const struct heap *heap)
{
    ASSERT(heap->count > 0);
    return heap->entries_owned[0];
}

/* The smallest key; HEAP_NEVER of an empty heap. Of a heap of timers: when the next is due. */
static inline uint64_t heap_top_key(const struct heap *heap)
{
    return heap->count == 0 ? HEAP_NEVER : heap_top(heap).key;
}

/* Asserts order and back-references of every entry. O(n). */
void heap_check(const struct heap *heap);

#endif
