/* The table of segments and their maps. See segment_table.h. */
#include "log/segment_table.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/segment.h"
#include <stdlib.h>

void segment_table_init(struct segment_table *table, struct disk *disk)
{
    ASSERT(disk != NULL);
    *table = (struct segment_table){.disk = disk};
}

static void entry_unmap(struct segment_table *table, struct segment_entry *entry)
{
    if (entry->memory == NULL)
        return;
    table->disk->operations->unmap(table->disk, entry->memory, table->segment_size);
    entry->memory = NULL;
    table->mapped_count--;
}

/* Unmaps one mapped segment, round robin. */
static void unmap_next(struct segment_table *table)
{
    ASSERT(table->mapped_count > 0);
    do
        table->hand = table->hand + 1 < table->count ? table->hand + 1 : 0;
    while (table->entries_owned[table->hand].memory == NULL);
    segment_table_unmap(table, table->hand);
}

void segment_table_unmap(struct segment_table *table, size_t index)
{
    ASSERT(index < table->count);
    entry_unmap(table, &table->entries_owned[index]);
}

void segment_table_deinit(struct segment_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        entry_unmap(table, &table->entries_owned[i]);
    free(table->entries_owned);
    segment_table_init(table, table->disk);
}

void segment_table_set_size(struct segment_table *table, uint64_t segment_size)
{
    ASSERT(table->segment_size == 0);
    ASSERT(segment_size >= SEGMENT_SIZE_MIN);
    table->segment_size = segment_size;
}

void segment_table_add(struct segment_table *table, uint64_t ordinal)
{
    ASSERT(table->count == 0 || table->entries_owned[table->count - 1].ordinal < ordinal);
    ARRAY_GROW(table->entries_owned, table->count, table->capacity);
    table->entries_owned[table->count++] = (struct segment_entry){.ordinal = ordinal};
}

void segment_table_set_overhang(struct segment_table *table, uint64_t overhang)
{
    ASSERT(table->count > 0);
    struct segment_entry *newest = &table->entries_owned[table->count - 1];
    ASSERT(newest->overhang <= overhang);
    table->overhang += overhang - newest->overhang;
    newest->overhang = overhang;
}

/* Index of an ordinal, or table->count if it is not there. */
static size_t entry_find(const struct segment_table *table, uint64_t ordinal)
{
    if (table->count == 0 || ordinal > table->entries_owned[table->count - 1].ordinal)
        return table->count;
    const uint64_t distance = table->entries_owned[table->count - 1].ordinal - ordinal;
    if (distance < table->count) {
        const size_t guess = table->count - 1 - (size_t)distance;
        if (table->entries_owned[guess].ordinal == ordinal)
            return guess;
    }
    size_t low = 0, high = table->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (table->entries_owned[middle].ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->count && table->entries_owned[low].ordinal == ordinal ? low : table->count;
}

void segment_table_drop(struct segment_table *table, size_t index)
{
    ASSERT(index < table->count);
    struct segment_entry *entry = &table->entries_owned[index];
    ASSERT(!entry->is_gone);
    entry_unmap(table, entry);
    table->overhang -= entry->overhang;
    entry->is_gone = true;
}

void segment_table_pack(struct segment_table *table)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++)
        if (!table->entries_owned[i].is_gone)
            table->entries_owned[kept++] = table->entries_owned[i];
    table->count = kept;
}

void segment_table_remove_newest(struct segment_table *table)
{
    segment_table_drop(table, table->count - 1);
    table->count--;
}

bool segment_table_has(const struct segment_table *table, uint64_t ordinal)
{
    return entry_find(table, ordinal) < table->count;
}

const uint8_t *segment_table_memory(struct segment_table *table, uint64_t ordinal)
{
    ASSERT(table->segment_size != 0);
    const size_t index = entry_find(table, ordinal);
    if (index == table->count)
        return NULL;
    struct segment_entry *entry = &table->entries_owned[index];
    if (entry->memory != NULL)
        return entry->memory;

    if (table->mapped_count == SEGMENT_MAPS_MAX)
        unmap_next(table);
    const struct disk_operations *operations = table->disk->operations;
    char name[SEGMENT_NAME_SIZE];
    segment_name(ordinal * table->segment_size, name);
    struct disk_file *file;
    if (operations->open(table->disk, name, &file, NULL) != OK)
        return NULL;
    if (operations->map(file, table->segment_size, &entry->memory, NULL) == OK)
        table->mapped_count++;
    else
        entry->memory = NULL;
    operations->close(file);
    return entry->memory;
}
