/* Rows that must wait: their destination can't be used, the sink wants them later, or a refused row blocks its group.
 * They stay in the source. This keeps their names, so that scans skip them, and what they block: rows of their groups,
 * rows to a blocked queue, or all rows if the order is strict (P4, R18, R20).
 *
 * All are released at once when their time has come, and only when no scan is open: then scans return them in their
 * order before all later rows, and those that still can't go wait again. */
#ifndef TALLY_RELAY_BLOCKED_ROWS_H
#define TALLY_RELAY_BLOCKED_ROWS_H

#include "relay/source.h"

/* Scans get slower with each name that they skip. With this many names nothing is read until they are released. */
#define BLOCKED_ROWS_MAX 100000u

struct blocked_rows {
    struct arena arena;
    struct row_name *names_owned;
    size_t count;
    size_t capacity;
    struct bytes *keys_owned; /* an open table of the groups and queues that are held; ptr NULL: a free cell */
    size_t key_count;
    size_t key_capacity;
    bool is_strict;
};

void blocked_rows_init(struct blocked_rows *blocked, bool is_strict);
void blocked_rows_deinit(struct blocked_rows *blocked);

/* Releases all of them. */
void blocked_rows_clear(struct blocked_rows *blocked);

/* The row must wait, and so must its group; with `holds_queue` all rows to its queue as well. */
void blocked_rows_add(struct blocked_rows *blocked, const struct row *row, bool holds_queue);

/* Must the row wait because of another one? If so, adds it. */
bool blocked_rows_take(struct blocked_rows *blocked, const struct row *row);

/* True if there are so many that reading more is useless. */
bool blocked_rows_are_full(const struct blocked_rows *blocked);

#endif
