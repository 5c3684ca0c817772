/* A map from numbers that were given out in rising order to slots of a pool: the messages of a namespace by their
 * number.
 *
 * Sixteen numbers in a row share a leaf, and a hash table finds the leaf. Whoever sends, receives and deletes in order
 * stays in one leaf for sixteen steps, so a lookup seldom misses the processor's cache however many entries there are;
 * a hash of each number would miss at every step. 5 to 6 bytes an entry where the numbers are dense, up to 100 for one
 * that is left alone among numbers that have gone. O(1). Slot 0 is never stored. */
#ifndef TALLY_BASE_NUMBER_MAP_H
#define TALLY_BASE_NUMBER_MAP_H

#include "base/slab.h"
#include "base/table.h"

struct number_map {
    struct slab leaves;
    struct table leaf_by_first;
    uint32_t newest; /* the leaf of the newest insert; 0: none, or it has gone */
    uint64_t count;
};

/* An empty map; allocates nothing until the first insert. */
void number_map_init(struct number_map *map);
void number_map_deinit(struct number_map *map);

/* Adds `slot` (not 0) under `number`, which must not be there yet (asserted). */
void number_map_insert(struct number_map *map, uint64_t number, uint32_t slot);

/* Removes `number`, which must be there (asserted). */
void number_map_remove(struct number_map *map, uint64_t number);

/* The slot under `number`, or 0. */
uint32_t number_map_find(const struct number_map *map, uint64_t number);

/* The slots under `count` numbers, or 0, like number_map_find() for each; their waits for memory overlap. */
void number_map_find_many(const struct number_map *map, const uint64_t *numbers, uint32_t *slots, size_t count);

/* Asserts that every leaf can be found, holds as many entries as it says, and at least one. O(n). */
void number_map_check(const struct number_map *map);

#endif
