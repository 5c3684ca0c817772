/* Which segments there are, and their memory maps for reading. Belongs to the loop's thread alone.
 *
 * A segment is mapped when it is first read and stays so until it is removed; no file stays open for it. Sorted by
 * ordinal, nearly always without gaps, so that finding one is O(1). */
#ifndef TALLY_LOG_SEGMENT_TABLE_H
#define TALLY_LOG_SEGMENT_TABLE_H

#include "log/disk.h"

struct segment_entry {
    uint64_t ordinal;
    const uint8_t *memory; /* NULL: not mapped yet */
    uint64_t overhang;     /* bytes of frames behind the room that it had when it was made */
    bool is_gone;          /* segment_table_drop() */
};

/* How many segments are mapped at once. Linux gives a process 65,530 maps (vm.max_map_count), and the allocator needs
 * some. */
#define SEGMENT_MAPS_MAX 4000u

struct segment_table {
    struct disk *disk;
    uint64_t segment_size;
    struct segment_entry *entries_owned;
    size_t count;
    size_t capacity;
    size_t mapped_count;
    size_t hand;       /* where the search for one to unmap goes on */
    uint64_t overhang; /* of all */
};

void segment_table_init(struct segment_table *table, struct disk *disk);
void segment_table_deinit(struct segment_table *table);

/* Must be known before the first map. */
void segment_table_set_size(struct segment_table *table, uint64_t segment_size);

/* Adds a segment above all that are there. */
void segment_table_add(struct segment_table *table, uint64_t ordinal);

/* How many bytes of the newest segment's frames lie behind its reserved room. */
void segment_table_set_overhang(struct segment_table *table, uint64_t overhang);

/* Forgets the entry at this index, whose memory is unmapped. The entry stays in the array, and nothing else may be
 * called, until segment_table_pack() has removed all such entries. So forgetting many costs O(count) in all. */
void segment_table_drop(struct segment_table *table, size_t index);
void segment_table_pack(struct segment_table *table);

/* Forgets the newest one. */
void segment_table_remove_newest(struct segment_table *table);

/* Gives back the memory of the entry at this index. */
void segment_table_unmap(struct segment_table *table, size_t index);

bool segment_table_has(const struct segment_table *table, uint64_t ordinal);

/* The segment's memory; NULL if it is missing or can't be mapped. Borrowed until the next call, which may unmap it. */
const uint8_t *segment_table_memory(struct segment_table *table, uint64_t ordinal);

#endif
