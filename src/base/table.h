/* A hash table from a 64-bit hash to a 32-bit slot of a pool: open addressing, linear probing, removal without
 * tombstones. It keeps 8 bytes a cell (the slot and 32 bits of the hash), so the index stays small; the keys live in
 * the records, and the caller compares them.
 *
 * Finding:
 *     for (struct table_probe probe = table_probe_start(table, hash); table_probe_next(table, &probe);)
 *         if (record_matches(slab_at(pool, probe.slot), key)) return probe.slot;
 *
 * Grows by moving a bounded number of cells with every insert and removal (two generations while it grows) and gives
 * the old memory back in pieces, so that no insert pauses the server however large the table is; shrinks in the same
 * way. O(1). Slot 0 is never stored.
 *
 * An insert or a removal ends every probe of the table: start again after it. */
#ifndef TALLY_BASE_TABLE_H
#define TALLY_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table_cell {
    uint32_t slot; /* 0: empty */
    uint32_t hash; /* the upper half of the 64-bit hash; its low bits choose the cell, so moving needs no key */
};

struct table_generation {
    struct table_cell *cells_owned; /* NULL: not in use */
    size_t capacity;                /* a power of two, at most 2^32 */
    size_t count;
};

struct table {
    struct table_generation now;
    struct table_generation old; /* being emptied into `now` */
    size_t old_end;              /* cells of `old` from here on have moved; at least 1 while `old` is in use */
    size_t old_kept;             /* cells of `old` whose memory has not been given back: more than old_end, or all */
};

/* Lives on the stack of one search. */
struct table_probe {
    uint64_t hash;
    uint32_t slot;      /* the candidate after table_probe_next() returned true */
    uint8_t generation; /* where to look next: 0 `now`, 1 `old`, 2 nowhere */
    size_t cell;        /* of that generation */
};

/* An empty table; allocates nothing until the first insert. */
void table_init(struct table *table);
void table_deinit(struct table *table);

/* Adds `slot` (not 0) under `hash`. The caller has made sure that its key is not there yet. */
void table_insert(struct table *table, uint64_t hash, uint32_t slot);

/* Removes exactly this slot, which must be there under this hash (asserted). */
void table_remove(struct table *table, uint64_t hash, uint32_t slot);

struct table_probe table_probe_start(const struct table *table, uint64_t hash);

/* Begins to load the cell where a search for `hash` starts: for whoever searches for several things at once. */
void table_prefetch(const struct table *table, uint64_t hash);

/* Moves on to the next candidate with the same hash; false when there is none. */
bool table_probe_next(const struct table *table, struct table_probe *probe);

size_t table_count(const struct table *table);

/* Asserts that every entry can be found from its hash and that the counts are right. O(n). */
void table_check(const struct table *table);

/* A well-mixed 64-bit hash of a number, for keys that are numbers. Different keys have different hashes. */
uint64_t table_hash_u64(uint64_t key);

#endif
