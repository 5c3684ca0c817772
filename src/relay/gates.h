/* Rows that were read and can't be tried now, and what each of them waits for. Only their names are kept: the source
 * returns a row again as soon as it is no longer in flight, so a long wait needs no memory for bodies.
 *
 * A row has two keys: its destination, and its group there. A key is blocked when a row with it failed; that row is the
 * head. When a blocked key is due, its head alone is tried. The other rows with that key wait behind it, in their
 * order, until the key is open again. */
#ifndef TALLY_RELAY_GATES_H
#define TALLY_RELAY_GATES_H

#include "base/table.h"
#include "relay/source.h"

/* How many rows may wait behind others: each makes every scan slower. Rows beyond that are read again and again. A few
 * more are allowed for rows that are being tried, because a row that fails must be remembered. */
#define GATES_ROWS_MAX 100000u
#define GATES_ROWS_SPARE 2000u

/* Both are hashes: rows whose hashes collide wait for each other, which does no harm. */
struct way {
    uint64_t queue;
    uint64_t group; /* of the group in its queue; of the row itself if it has none */
};

struct held {
    struct row_name name;
    struct way way;
    uint32_t intent;          /* slot of the open intent that names it; 0: none */
    bool is_doubted;          /* an attempt may have been delivered */
    bool is_offered;          /* the last scan was free to return it */
    bool is_seen;             /* and did */
    int64_t doubted_since_ms; /* monotonic, perhaps from before the machine started; if it is in doubt */
};

struct gate {
    uint64_t key; /* the hash of the queue or of the group */
    uint64_t head;
    uint64_t due_ms; /* monotonic */
    unsigned failures;
    bool is_blocked; /* a destination that can't be used */
};

struct gates {
    struct held *rows_owned;
    size_t count, capacity;
    struct table by_id; /* slots are indices + 1, in both tables */
    struct gate *gates_owned;
    size_t gate_count, gate_capacity;
    struct table by_key;
};

void gates_init(struct gates *gates);
void gates_deinit(struct gates *gates);

/* NULL: the row does not wait. Borrowed, like the result of gates_add(), until the next row is added or removed. */
struct held *gates_find(const struct gates *gates, const struct row_name *name);

/* Finds it or adds it. One of the same id and another uid is forgotten: the source has given its id away again. */
struct held *gates_add(struct gates *gates, const struct row_name *name, const struct way *way);

/* Forgets the row, and opens the keys whose head it is. */
void gates_remove(struct gates *gates, const struct row_name *name);

/* True if there is no room for one more row that waits; for one more row that is tried. */
bool gates_are_full(const struct gates *gates);
bool gates_are_packed(const struct gates *gates);

/* May this row be tried now? */
bool gates_admits(const struct gates *gates, const struct way *way, uint64_t id, uint64_t now_ms);

/* Blocks a key, with this row as its head, or finds it blocked. Borrowed until another key is blocked or opened. */
struct gate *gates_close(struct gates *gates, uint64_t key, uint64_t head);
struct gate *gates_find_gate(const struct gates *gates, uint64_t key); /* NULL: it is open */
void gates_open(struct gates *gates, uint64_t key);
bool gates_have_blocked(const struct gates *gates);

/* Before a scan: forgets what has no reason to wait any more, and puts the names of those that do into `names`, which
 * has room for all rows. The others are offered. */
size_t gates_list(struct gates *gates, uint64_t now_ms, struct row_name *names);

/* After a scan: a row that was offered and has left the source, if the scan, which returned rows up to `last` (0:
 * none), proves that. NULL: there is none. */
const struct held *gates_find_gone(const struct gates *gates, uint64_t last);

#endif
