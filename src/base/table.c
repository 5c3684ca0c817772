/* Invariants, which table_check() asserts:
 *
 * N  In `now` every cell from the home of an entry to the entry itself is full: a search may stop at an empty cell.
 * O  The same holds in `old` below cell old_end. It is emptied from its end, which cuts runs of full cells behind,
 *    never in front; a hash whose home is not below old_end has no entry there any more.
 * W  Cell 0 of `old` is empty and so is cell old_end, if there is one: a search that runs over the end of `old` stops
 *    there. This is why growth begins by moving the run at cell 0, with the entries that had wrapped around to it. */
#include "base/table.h"

#include "base/accounted.h"
#include "base/assert.h"

#include <stdlib.h>

#define TABLE_CAPACITY_MIN 16
#define TABLE_CAPACITY_MAX ((size_t)1 << 32)

/* Cells of `old` emptied by each insert and removal. Any number above 2 ends a growth before the next one begins: the
 * old cells are gone after a sixteenth of their number of operations, the new ones are full after 3/4 of it. */
#define TABLE_STEP 16

/* Cells of `old` given back at once (512 KiB): unmapping a large table in one piece would take milliseconds. */
#define TABLE_PIECE 65536

static_assert(sizeof(struct table_cell) == 8, "an entry costs 8 bytes");
static_assert(sizeof(size_t) >= 8, "2^32 places must be countable");

static uint32_t table_stored_hash(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static size_t generation_home(const struct table_generation *generation, uint32_t stored_hash)
{
    return stored_hash & (generation->capacity - 1);
}

static size_t generation_after(const struct table_generation *generation, size_t cell)
{
    return (cell + 1) & (generation->capacity - 1);
}

static struct table_generation generation_make(size_t capacity)
{
    ASSERT(capacity <= TABLE_CAPACITY_MAX);
    return (struct table_generation){
        .cells_owned = accounted_allocate_zeroed(capacity * sizeof(struct table_cell)),
        .capacity = capacity,
    };
}

static void generation_insert(struct table_generation *generation, struct table_cell entry)
{
    ASSERT(generation->count < generation->capacity - 1);
    size_t cell = generation_home(generation, entry.hash);
    while (generation->cells_owned[cell].slot != 0)
        cell = generation_after(generation, cell);
    generation->cells_owned[cell] = entry;
    generation->count++;
}

/* Empties `hole` and closes it: each later entry of the run that may stand there moves up and leaves its own hole. */
static void generation_remove(struct table_generation *generation, size_t hole)
{
    size_t mask = generation->capacity - 1;
    for (size_t cell = generation_after(generation, hole); generation->cells_owned[cell].slot != 0;
         cell = generation_after(generation, cell)) {
        struct table_cell entry = generation->cells_owned[cell];
        size_t from_home = (cell - generation_home(generation, entry.hash)) & mask;
        size_t from_hole = (cell - hole) & mask;
        if (from_home >= from_hole) {
            generation->cells_owned[hole] = entry;
            hole = cell;
        }
    }
    generation->cells_owned[hole] = (struct table_cell){0};
    generation->count--;
}

/* Whether an entry with this hash can still be in `old`. */
static bool table_old_may_hold(const struct table *table, uint32_t stored_hash)
{
    return table->old.cells_owned != NULL && generation_home(&table->old, stored_hash) < table->old_end;
}

static void table_move_cell(struct table *table, size_t cell)
{
    struct table_cell *from = &table->old.cells_owned[cell];
    if (from->slot != 0) {
        generation_insert(&table->now, *from);
        *from = (struct table_cell){0};
        table->old.count--;
    }
}

/* Moves the last TABLE_STEP cells of `old`, and gives up the memory behind them. */
static void table_move_step(struct table *table)
{
    if (table->old.cells_owned == NULL)
        return;
    for (int i = 0; i < TABLE_STEP; i++)
        table_move_cell(table, --table->old_end);
    if (table->old_end == 0) {
        ASSERT(table->old.count == 0);
        accounted_free(table->old.cells_owned);
        table->old = (struct table_generation){0};
        table->old_kept = 0;
    } else if (table->old_kept - table->old_end > TABLE_PIECE) {
        table->old_kept = table->old_end + 1; /* the empty cell at old_end stays; invariant W */
        table->old.cells_owned = accounted_resize(table->old.cells_owned, table->old_kept * sizeof(struct table_cell));
    }
}

/* Makes `now` the old generation and begins an empty one of that size. */
static void table_change_size(struct table *table, size_t capacity)
{
    ASSERT(table->old.cells_owned == NULL);
    table->old = table->now;
    table->now = generation_make(capacity);
    table->old_end = table->old.capacity;
    table->old_kept = table->old.capacity;
    for (size_t cell = 0; table->old.cells_owned[cell].slot != 0; cell++)
        table_move_cell(table, cell); /* invariant W */
}

static void table_grow(struct table *table)
{
    if (table->now.cells_owned == NULL)
        table->now = generation_make(TABLE_CAPACITY_MIN);
    else
        table_change_size(table, table->now.capacity * 2);
}

/* A table that is an eighth full takes half the room; with TABLE_STEP that, too, ends before the next growth begins. */
static void table_shrink(struct table *table)
{
    if (table->old.cells_owned == NULL && table->now.capacity > TABLE_CAPACITY_MIN &&
        table->now.count < table->now.capacity / 8)
        table_change_size(table, table->now.capacity / 2);
}

void table_init(struct table *table)
{
    *table = (struct table){0};
}

void table_deinit(struct table *table)
{
    accounted_free(table->now.cells_owned);
    accounted_free(table->old.cells_owned);
    *table = (struct table){0};
}

size_t table_count(const struct table *table)
{
    return table->now.count + table->old.count;
}

void table_insert(struct table *table, uint64_t hash, uint32_t slot)
{
    ASSERT(slot != 0);
    if (table_count(table) >= table->now.capacity / 4 * 3)
        table_grow(table);
    generation_insert(&table->now, (struct table_cell){.slot = slot, .hash = table_stored_hash(hash)});
    table_move_step(table);
}

/* Removes `entry` if it is in the run of full cells at `cell`. */
static bool generation_remove_from(struct table_generation *generation, size_t cell, struct table_cell entry)
{
    for (; generation->cells_owned[cell].slot != 0; cell = generation_after(generation, cell)) {
        if (generation->cells_owned[cell].slot == entry.slot) {
            ASSERT(generation->cells_owned[cell].hash == entry.hash);
            generation_remove(generation, cell);
            return true;
        }
    }
    return false;
}

void table_remove(struct table *table, uint64_t hash, uint32_t slot)
{
    ASSERT(slot != 0);
    ASSERT(table_count(table) > 0);
    struct table_cell entry = {.slot = slot, .hash = table_stored_hash(hash)};
    bool is_removed = generation_remove_from(&table->now, generation_home(&table->now, entry.hash), entry);
    if (!is_removed && table_old_may_hold(table, entry.hash))
        is_removed = generation_remove_from(&table->old, generation_home(&table->old, entry.hash), entry);
    ASSERT(is_removed);
    table_move_step(table);
    table_shrink(table);
}

enum { PROBE_NOW, PROBE_OLD, PROBE_END };

struct table_probe table_probe_start(const struct table *table, uint64_t hash)
{
    if (table->now.cells_owned == NULL)
        return (struct table_probe){.hash = hash, .generation = PROBE_END};
    return (struct table_probe){
        .hash = hash,
        .generation = PROBE_NOW,
        .cell = generation_home(&table->now, table_stored_hash(hash)),
    };
}

void table_prefetch(const struct table *table, uint64_t hash)
{
    if (table->now.cells_owned != NULL)
        __builtin_prefetch(&table->now.cells_owned[generation_home(&table->now, table_stored_hash(hash))]);
}

/* Looks from probe->cell to the end of its run. */
static bool probe_generation(const struct table_generation *generation, struct table_probe *probe)
{
    for (;;) {
        struct table_cell entry = generation->cells_owned[probe->cell];
        if (entry.slot == 0)
            return false;
        probe->cell = generation_after(generation, probe->cell);
        if (entry.hash == table_stored_hash(probe->hash)) {
            probe->slot = entry.slot;
            return true;
        }
    }
}

bool table_probe_next(const struct table *table, struct table_probe *probe)
{
    if (probe->generation == PROBE_NOW) {
        if (probe_generation(&table->now, probe))
            return true;
        probe->generation = PROBE_END;
        uint32_t stored_hash = table_stored_hash(probe->hash);
        if (table_old_may_hold(table, stored_hash)) {
            probe->generation = PROBE_OLD;
            probe->cell = generation_home(&table->old, stored_hash);
        }
    }
    if (probe->generation == PROBE_OLD) {
        if (probe_generation(&table->old, probe))
            return true;
        probe->generation = PROBE_END;
    }
    return false;
}

/* Asserts that no cell between `start` and the entry at `cell` is empty. */
static void generation_check_reachable(const struct table_generation *generation, size_t start, size_t cell)
{
    for (; start != cell; start = generation_after(generation, start))
        ASSERT(generation->cells_owned[start].slot != 0);
}

void table_check(const struct table *table)
{
    size_t count = 0;
    for (size_t cell = 0; cell < table->now.capacity; cell++) {
        struct table_cell entry = table->now.cells_owned[cell];
        if (entry.slot != 0) {
            generation_check_reachable(&table->now, generation_home(&table->now, entry.hash), cell);
            count++;
        }
    }
    ASSERT(count == table->now.count);
    ASSERT(table_count(table) <= table->now.capacity / 4 * 3);

    count = 0;
    for (size_t cell = 0; cell < table->old_end; cell++) {
        struct table_cell entry = table->old.cells_owned[cell];
        if (entry.slot != 0) {
            ASSERT(generation_home(&table->old, entry.hash) <= cell);
            generation_check_reachable(&table->old, generation_home(&table->old, entry.hash), cell);
            count++;
        }
    }
    ASSERT(count == table->old.count);
    ASSERT((table->old.cells_owned != NULL) == (table->old_end > 0));
    ASSERT(table->old_end < table->old_kept || table->old_kept == table->old.capacity);
    ASSERT(table->old_end <= table->old_kept && table->old_kept <= table->old.capacity);
    ASSERT(table->old_end == 0 || table->old.cells_owned[0].slot == 0);
    ASSERT(table->old_end == table->old.capacity || table->old.cells_owned[table->old_end].slot == 0);
}

uint64_t table_hash_u64(uint64_t key)
{
    /* One step of splitmix64: a bijection whose every output bit depends on every input bit. */
    key += UINT64_C(0x9e3779b97f4a7c15);
    key = (key ^ key >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ key >> 27) * UINT64_C(0x94d049bb133111eb);
    return key ^ key >> 31;
}
