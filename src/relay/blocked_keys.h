/* Rows that were read and can't be tried now, and what each of them waits for. Only their names are kept: the source
 * returns a row again as soon as it is no longer in flight, so a long wait needs no memory for bodies.
 *
 * A row has two keys: its destination, and its group there. A key is blocked when a row with it failed; that row is the
 * head. When a blocked key is due, its head alone is tried. The other rows with that key wait behind it, in their
 * order, until the key is open again. */
#ifndef TALLY_RELAY_BLOCKED_KEYS_H
#define TALLY_RELAY_BLOCKED_KEYS_H

#include "base/table.h"
#include "relay/source.h"

/* How many rows may wait behind others: each makes every scan slower. Rows beyond that are read again and again. A few
 * more are allowed for rows that are being tried, because a row that fails must be remembered. */
#define BLOCKED_KEYS_ROWS_MAX 100000u
#define BLOCKED_KEYS_ROWS_SPARE 2000u

/* Both are hashes: rows whose hashes collide wait for each other, which does no harm. */
struct row_keys {
    uint64_t queue;
    uint64_t group; /* of the group in its queue; of the row itself if it has none */
};

struct held {
    struct row_name name;
    struct row_keys keys;
    uint32_t intent;          /* slot of the open intent that names it; 0: none */
    bool is_doubted;          /* an attempt may have been delivered */
    bool is_offered;          /* the last scan was free to return it */
    bool is_seen;             /* and did */
    int64_t doubted_since_ms; /* monotonic, perhaps from before the machine started; if it is in doubt */
};

struct blocked_key {
    uint64_t key; /* the hash of the queue or of the group */
    uint64_t head;
    uint64_t due_ms; /* monotonic */
    unsigned failures;
    bool is_blocked; /* a destination that can't be used */
};

struct blocked_keys {
    struct held *rows_owned;
    size_t count, capacity;
    struct table by_id; /* slots are indices + 1, in both tables */
    struct blocked_key *keys_owned;
    size_t key_count, key_capacity;
    struct table by_key;
};

void blocked_keys_init(struct blocked_keys *keys);
void blocked_keys_deinit(struct blocked_keys *keys);

/* NULL: the row does not wait. Borrowed, like the result of blocked_keys_add(), until the next row is added or
 * removed. */
struct held *blocked_keys_find(const struct blocked_keys *keys, const struct row_name *name);

/* Finds it or adds it. One of the same id and another uid is forgotten: the source has given its id away again. */
struct held *blocked_keys_add(struct blocked_keys *keys, const struct row_name *name, const struct row_keys *row_keys);

/* Forgets the row, and opens the keys whose head it is. */
void blocked_keys_remove(struct blocked_keys *keys, const struct row_name *name);

/* True if there is no room for one more row that waits; for one more row that is tried. */
bool blocked_keys_are_full(const struct blocked_keys *keys);
bool blocked_keys_are_packed(const struct blocked_keys *keys);

/* May this row be tried now? */
bool blocked_keys_admits(const struct blocked_keys *keys, const struct row_keys *row_keys, uint64_t id,
                         uint64_t now_ms);

/* Blocks a key, with this row as its head, or finds it blocked. Borrowed until another key is blocked or opened. */
struct blocked_key *blocked_keys_close(struct blocked_keys *keys, uint64_t key, uint64_t head);
struct blocked_key *blocked_keys_find_key(const struct blocked_keys *keys, uint64_t key); /* NULL: it is open */
void blocked_keys_open(struct blocked_keys *keys, uint64_t key);
bool blocked_keys_have_blocked(const struct blocked_keys *keys);

/* Before a scan: forgets what has no reason to wait any more, and puts the names of those that do into `names`, which
 * has room for all rows. The others are offered. */
size_t blocked_keys_list(struct blocked_keys *keys, uint64_t now_ms, struct row_name *names);

/* After a scan: a row that was offered and has left the source, if the scan, which returned rows up to `last` (0:
 * none), proves that. NULL: there is none. */
const struct held *blocked_keys_find_deleted(const struct blocked_keys *keys, uint64_t last);

#endif
