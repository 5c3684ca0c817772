#include "base/heap.h"

#include "base/accounted.h"

#include <stdlib.h>

/* Four children: half the depth of a binary heap, and the four stand side by side in 64 bytes. */
#define HEAP_ARITY 4
#define HEAP_CAPACITY_MIN 16

/* Entries given back at once (512 KiB): unmapping a large array in one piece would take milliseconds. */
#define HEAP_PIECE 32768u

/* Below, a heap that is full becomes twice as large. */
#define DOUBLED_MAX (1u << 18)

static_assert(sizeof(struct heap_entry) == 16, "four entries take 64 bytes");

/* Where the record at `slot` keeps the index of its entry + 1. */
static uint32_t *heap_index(const struct heap *heap, uint32_t slot)
{
    return (uint32_t *)(void *)((char *)slab_at(heap->pool, slot) + heap->index_offset);
}

static uint64_t heap_order(const struct heap *heap, uint32_t slot)
{
    return *(const uint64_t *)(const void *)((const char *)slab_at(heap->pool, slot) + heap->order_offset);
}

static bool heap_entry_is_before(const struct heap *heap, struct heap_entry a, struct heap_entry b)
{
    if (a.key != b.key)
        return a.key < b.key;
    return heap_order(heap, a.slot) < heap_order(heap, b.slot);
}

/* The index of the entry of a record that is in this heap. */
static size_t heap_find(const struct heap *heap, uint32_t slot)
{
    uint32_t index = *heap_index(heap, slot);
    ASSERT(index > 0 && index <= heap->count);
    ASSERT(heap->entries_owned[index - 1].slot == slot);
    return index - 1;
}

static void heap_put(struct heap *heap, size_t index, struct heap_entry entry)
{
    heap->entries_owned[index] = entry;
    *heap_index(heap, entry.slot) = (uint32_t)index + 1;
}

/* Puts `entry` at the hole `index` or above it. */
static void heap_sift_up(struct heap *heap, size_t index, struct heap_entry entry)
{
    while (index > 0) {
        size_t parent = (index - 1) / HEAP_ARITY;
        if (!heap_entry_is_before(heap, entry, heap->entries_owned[parent]))
            break;
        heap_put(heap, index, heap->entries_owned[parent]);
        index = parent;
    }
    heap_put(heap, index, entry);
}

/* Puts `entry` at the hole `index` or below it. */
static void heap_sift_down(struct heap *heap, size_t index, struct heap_entry entry)
{
    for (;;) {
        size_t child = index * HEAP_ARITY + 1;
        if (child >= heap->count)
            break;
        size_t end = child + HEAP_ARITY < heap->count ? child + HEAP_ARITY : heap->count;
        size_t least = child;
        for (child++; child < end; child++)
            if (heap_entry_is_before(heap, heap->entries_owned[child], heap->entries_owned[least]))
                least = child;
        if (!heap_entry_is_before(heap, heap->entries_owned[least], entry))
            break;
        heap_put(heap, index, heap->entries_owned[least]);
        index = least;
    }
    heap_put(heap, index, entry);
}

/* Puts `entry` where it belongs, starting from the hole `index`. */
static void heap_settle(struct heap *heap, size_t index, struct heap_entry entry)
{
    size_t parent = (index - 1) / HEAP_ARITY; /* not used for index 0 */
    if (index > 0 && heap_entry_is_before(heap, entry, heap->entries_owned[parent]))
        heap_sift_up(heap, index, entry);
    else
        heap_sift_down(heap, index, entry);
}

void heap_init(struct heap *heap, const struct slab *slab, size_t index_offset, size_t order_offset)
{
    ASSERT(index_offset % sizeof(uint32_t) == 0 && index_offset + sizeof(uint32_t) <= slab->record_size);
    ASSERT(order_offset % sizeof(uint64_t) == 0 && order_offset + sizeof(uint64_t) <= slab->record_size);
    *heap = (struct heap){
        .pool = slab,
        .index_offset = (uint32_t)index_offset,
        .order_offset = (uint32_t)order_offset,
    };
}

void heap_deinit(struct heap *heap)
{
    accounted_free(heap->entries_owned);
    *heap = (struct heap){0};
}

/* Twice the capacity. A large heap grows by an eighth, because doubling could leave megabytes unused, and the system
 * grows a large block by remapping its pages, without a copy. */
static uint32_t capacity_above(uint32_t capacity)
{
    if (capacity == 0)
        return HEAP_CAPACITY_MIN;
    ASSERT(capacity <= UINT32_MAX / 2);
    return capacity < DOUBLED_MAX ? capacity * 2 : capacity + capacity / 8;
}

void heap_push(struct heap *heap, uint64_t key, uint32_t slot)
{
    ASSERT(slot != 0);
    ASSERT(*heap_index(heap, slot) == 0);
    if (heap->count == heap->capacity) {
        heap->capacity = capacity_above(heap->capacity);
        heap->entries_owned = accounted_resize(heap->entries_owned, heap->capacity * sizeof(struct heap_entry));
        poison_put(heap->entries_owned + heap->count, (heap->capacity - heap->count) * sizeof(struct heap_entry));
    }
    poison_lift(heap->entries_owned + heap->count, sizeof(struct heap_entry));
    heap->count++;
    heap_sift_up(heap, heap->count - 1, (struct heap_entry){.key = key, .slot = slot});
}

/* Gives memory back when the capacity is above twice the count plus one piece, and all of it when the heap is empty.
 * Amortised O(1). */
static void heap_shrink(struct heap *heap)
{
    uint32_t capacity = heap->capacity;
    if (heap->count == 0 && capacity > HEAP_CAPACITY_MIN)
        capacity = HEAP_CAPACITY_MIN; /* from three pieces at most */
    else if ((uint64_t)heap->count * 2 + 2 * HEAP_PIECE < capacity)
        capacity -= HEAP_PIECE;
    if (capacity >= heap->capacity)
        return;
    heap->capacity = capacity;
    heap->entries_owned = accounted_resize(heap->entries_owned, capacity * sizeof(struct heap_entry));
}

void heap_remove(struct heap *heap, uint32_t slot)
{
    size_t index = heap_find(heap, slot);
    *heap_index(heap, slot) = 0;
    heap->count--;
    if (index < heap->count)
        heap_settle(heap, index, heap->entries_owned[heap->count]);
    poison_put(heap->entries_owned + heap->count, sizeof(struct heap_entry));
    heap_shrink(heap);
}

void heap_update(struct heap *heap, uint64_t key, uint32_t slot)
{
    size_t index = heap_find(heap, slot);
    struct heap_entry entry = heap->entries_owned[index];
    entry.key = key;
    heap_settle(heap, index, entry);
}

uint32_t heap_note(const struct heap *heap, uint32_t slot)
{
    return heap->entries_owned[heap_find(heap, slot)].note;
}

uint32_t heap_exchange_note(struct heap *heap, uint32_t slot, uint32_t note)
{
    struct heap_entry *entry = &heap->entries_owned[heap_find(heap, slot)];
    const uint32_t before = entry->note;
    entry->note = note;
    return before;
}

void heap_prefetch(const struct heap *heap, uint32_t slot)
{
    uint32_t index = *heap_index(heap, slot);
    if (index > 0 && index <= heap->count)
        __builtin_prefetch(&heap->entries_owned[index - 1], 1);
}

void heap_set(struct heap *heap, uint64_t key, uint32_t slot)
{
    bool is_there = *heap_index(heap, slot) != 0;
    if (key != HEAP_NEVER && is_there)
        heap_update(heap, key, slot);
    else if (key != HEAP_NEVER)
        heap_push(heap, key, slot);
    else if (is_there)
        heap_remove(heap, slot);
}

void heap_check(const struct heap *heap)
{
    ASSERT(heap->count <= heap->capacity);
    for (size_t i = 0; i < heap->count; i++) {
        struct heap_entry entry = heap->entries_owned[i];
        ASSERT(entry.slot != 0);
        ASSERT(*heap_index(heap, entry.slot) == i + 1);
        ASSERT(i == 0 || heap_entry_is_before(heap, heap->entries_owned[(i - 1) / HEAP_ARITY], entry));
    }
}
