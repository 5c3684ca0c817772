#include "base/number_map.h"

#include "base/assert.h"

#define LEAF_NUMBERS 16u /* a power of two */

struct leaf {
    uint64_t first; /* the number of slots[0]: a multiple of LEAF_NUMBERS */
    uint32_t count; /* slots that are not 0; at least one */
    uint32_t slots[LEAF_NUMBERS];
};

static_assert(sizeof(struct leaf) == 80, "a leaf of dense numbers costs 5 bytes an entry");

static struct leaf *leaf_at(const struct number_map *map, uint32_t slot)
{
    return slab_at(&map->leaves, slot);
}

/* May be called for a freed leaf. */
POISON_MAY_LOOK static bool leaf_is_used(const struct leaf *leaf)
{
    return leaf->count != 0;
}

static uint64_t leaf_first(uint64_t number)
{
    return number & ~(uint64_t)(LEAF_NUMBERS - 1);
}

static uint32_t *leaf_entry(struct leaf *leaf, uint64_t number)
{
    return &leaf->slots[number & (LEAF_NUMBERS - 1)];
}

void number_map_init(struct number_map *map)
{
    *map = (struct number_map){0};
    slab_init(&map->leaves, sizeof(struct leaf));
    table_init(&map->leaf_by_first);
}

void number_map_deinit(struct number_map *map)
{
    table_deinit(&map->leaf_by_first);
    slab_deinit(&map->leaves);
}

/* The leaf that holds `number`, or 0. */
static uint32_t find_leaf(const struct number_map *map, uint64_t number)
{
    const uint64_t first = leaf_first(number);
    if (map->newest != 0 && leaf_at(map, map->newest)->first == first)
        return map->newest; /* most inserts go on where the last one was */
    for (struct table_probe probe = table_probe_start(&map->leaf_by_first, table_hash_u64(first));
         table_probe_next(&map->leaf_by_first, &probe);)
        if (leaf_at(map, probe.slot)->first == first)
            return probe.slot;
    return 0;
}

static uint32_t add_leaf(struct number_map *map, uint64_t first)
{
    const uint32_t slot = slab_allocate(&map->leaves);
    leaf_at(map, slot)->first = first;
    table_insert(&map->leaf_by_first, table_hash_u64(first), slot);
    return slot;
}

void number_map_insert(struct number_map *map, uint64_t number, uint32_t slot)
{
    ASSERT(slot != 0);
    uint32_t found = find_leaf(map, number);
    if (found == 0)
        found = add_leaf(map, leaf_first(number));
    struct leaf *leaf = leaf_at(map, found);
    ASSERT(*leaf_entry(leaf, number) == 0);
    *leaf_entry(leaf, number) = slot;
    leaf->count++;
    map->count++;
    map->newest = found;
}

void number_map_remove(struct number_map *map, uint64_t number)
{
    const uint32_t found = find_leaf(map, number);
    ASSERT(found != 0);
    struct leaf *leaf = leaf_at(map, found);
    ASSERT(*leaf_entry(leaf, number) != 0);
    *leaf_entry(leaf, number) = 0;
    leaf->count--;
    map->count--;
    if (leaf->count > 0)
        return;
    table_remove(&map->leaf_by_first, table_hash_u64(leaf->first), found);
    slab_free(&map->leaves, found);
    if (map->newest == found)
        map->newest = 0;
}

uint32_t number_map_find(const struct number_map *map, uint64_t number)
{
    const uint32_t found = find_leaf(map, number);
    return found == 0 ? 0 : *leaf_entry(leaf_at(map, found), number);
}

/* Begins to load the leaf that holds `number`, if there is one. */
static void prefetch_leaf(const struct number_map *map, uint64_t number)
{
    struct table_probe probe = table_probe_start(&map->leaf_by_first, table_hash_u64(leaf_first(number)));
    if (!table_probe_next(&map->leaf_by_first, &probe))
        return;
    struct leaf *leaf = leaf_at(map, probe.slot);
    __builtin_prefetch(leaf);
    __builtin_prefetch(leaf_entry(leaf, number)); /* may stand in the next line of the cache */
}

void number_map_find_many(const struct number_map *map, const uint64_t *numbers, uint32_t *slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        table_prefetch(&map->leaf_by_first, table_hash_u64(leaf_first(numbers[i])));
    for (size_t i = 0; i < count; i++)
        prefetch_leaf(map, numbers[i]);
    for (size_t i = 0; i < count; i++)
        slots[i] = number_map_find(map, numbers[i]);
}

void number_map_check(const struct number_map *map)
{
    uint64_t count = 0;
    uint32_t leaf_count = 0;
    for (uint32_t slot = 1; slot < map->leaves.slot_end; slot++) {
        const struct leaf *leaf = leaf_at(map, slot);
        if (!leaf_is_used(leaf))
            continue;
        uint32_t used = 0;
        for (size_t i = 0; i < LEAF_NUMBERS; i++)
            used += leaf->slots[i] != 0;
        ASSERT(used == leaf->count);
        ASSERT(find_leaf(map, leaf->first) == slot);
        count += used;
        leaf_count++;
    }
    ASSERT(count == map->count);
    ASSERT(leaf_count == map->leaves.used && leaf_count == table_count(&map->leaf_by_first));
}
