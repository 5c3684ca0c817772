/* An ordered set in memory: a B+ tree of (bucket, sort key, number) -> slot, walked in both directions. All waiting
 * tickets of a pool stand in one: the bucket says what must be equal, the sort key is what is near, the number breaks
 * ties. 28 bytes an entry, half as much again for free entries. O(log n) to find, insert and remove, O(1) to step.
 * Pure. */
#ifndef TALLY_MATCH_ORDERED_H
#define TALLY_MATCH_ORDERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ordered_key {
    uint64_t bucket;
    uint64_t sort_key;
    uint64_t number;
};

struct ordered_node;

struct ordered {
    struct ordered_node *root_owned; /* NULL: empty */
    size_t count;
};

/* Where an entry stands; good until the next insert or removal. */
struct ordered_cursor {
    struct ordered_node *leaf; /* NULL: nowhere */
    uint32_t index;
};

void ordered_init(struct ordered *ordered);
/* Frees everything. O(nodes). */
void ordered_deinit(struct ordered *ordered);

/* The key is not in it (asserted); is in it (asserted). */
void ordered_insert(struct ordered *ordered, const struct ordered_key *key, uint32_t slot);
void ordered_remove(struct ordered *ordered, const struct ordered_key *key);

/* The first entry whose key is not below `key`; and the last one whose key is below it. */
struct ordered_cursor ordered_seek(const struct ordered *ordered, const struct ordered_key *key);
struct ordered_cursor ordered_seek_below(const struct ordered *ordered, const struct ordered_key *key);
struct ordered_cursor ordered_next(struct ordered_cursor cursor);
struct ordered_cursor ordered_previous(struct ordered_cursor cursor);

/* Of a cursor that is somewhere. */
const struct ordered_key *ordered_key(struct ordered_cursor cursor);
uint32_t ordered_slot(struct ordered_cursor cursor);

/* A number as a sort key: order as numbers is order as sort keys. -0 is 0; not for NaN. And back. */
uint64_t ordered_sort_key(double number);
double ordered_number(uint64_t sort_key);

/* Asserts the order, the fill of nodes and the links. O(n). */
void ordered_check(const struct ordered *ordered);

#endif
