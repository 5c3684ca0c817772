/* Rows that stay behind: their destination can't be used, the sink wants them later, or a refused one holds its group.
 * They stay in the source; what is known of them here is their names, so that scans pass them over, and whom they hold:
 * rows of their groups, rows to a blocked queue, or all rows where the order is strict (P4, R18, R20).
 *
 * All are let go at once, when their time has come, and only where no scan is open: then they come back before
 * everything behind them, in their order, and those that can't go are held again. */
#ifndef TALLY_RELAY_HOLDS_H
#define TALLY_RELAY_HOLDS_H

#include "relay/source.h"

/* Scans get slower with each name that they pass over. When there are so many, nothing is read until they are let
 * go. */
#define HOLDS_MAX 100000u

struct holds {
    struct arena arena;
    struct row_name *names_owned;
    size_t count;
    size_t capacity;
    struct bytes *keys_owned; /* an open table of the groups and queues that are held; ptr NULL: a free place */
    size_t key_count;
    size_t key_capacity;
    bool is_strict;
};

void holds_init(struct holds *holds, bool is_strict);
void holds_deinit(struct holds *holds);

/* Lets all of them go. */
void holds_clear(struct holds *holds);

/* The row stays behind, and so does its group; with `holds_queue` all rows to its queue too. */
void holds_add(struct holds *holds, const struct row *row, bool holds_queue);

/* Must the row wait because of one that does? If so it is held from now on. */
bool holds_take(struct holds *holds, const struct row *row);

/* Is there no point in reading more? */
bool holds_are_full(const struct holds *holds);

#endif
