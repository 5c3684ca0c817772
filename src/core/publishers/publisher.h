/* Publishers: what a namespace remembers of the rows that relays publish into it (docs/reference/publishers.md), so
 * that each row is stored once, whatever is repeated, and so that of two relays of one source only the newer one is
 * heard.
 *
 * A publisher stands for one source. It has one owner at a time, who holds its epoch; both are the fence. It numbers
 * its batches of rows from 1 on, across owners. A row is known by its uid, since a source that lost its last commits
 * gives their ids to other rows. Rows that the source may still have are kept for ever; those that it has confirmed to
 * be gone from it are kept for a while, the newest ones, because a failover may bring them back; of what is forgotten
 * the ids stay, in ranges.
 *
 * What is over is as good as forgotten at once: it is not found, and encoded as forgotten; only its memory is given
 * back later, in portions. So nothing here needs an event when it ends. 40 bytes a row, plus 16 to 42 in two tables;
 * O(1) to find and to add. */
#ifndef TALLY_CORE_PUBLISHERS_PUBLISHER_H
#define TALLY_CORE_PUBLISHERS_PUBLISHER_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/table.h"
#include "core/digest.h"
#include "core/publishers/id_ranges.h"
#include "core/queues/queue_set.h"

struct core;
struct core_writer;

#define PUBLISHERS_MAX 100000u   /* of a namespace: none is ever forgotten */
#define PUBLISHER_ID_SIZE 16u    /* a UUID */
#define PUBLISHER_ROW_SIZE 24u   /* u64 id, uid: a row in an event and in a snapshot */
#define PUBLISHER_ROWS_MAX 1000u /* of one batch */
#define PUBLISHER_UNCONFIRMED_MAX 100000u
#define PUBLISHER_CONFIRMED_MAX 1000000u
#define PUBLISHER_CONFIRMED_MS 600000u
#define PUBLISHER_RANGES_MAX 100000u

/* What became of a row that was not stored; on disk. */
enum row_fate {
    ROW_DUPLICATE = 1, /* its uid is known, or its message is a duplicate in its queue */
    ROW_TOO_OLD,       /* its uid is not known, and its id is among those forgotten */
    ROW_REFUSED,       /* with a code and a text */
    ROW_BLOCKED,       /* the same; its queue can't be used */
    ROW_STALE,         /* a receipt handle that ends nothing (any more): nothing to do */
    ROW_PUT_OFF,       /* the record had no room left */
    ROW_HELD,          /* an earlier row of its group stays behind */
};

/* Results of a batch: a run, by index, of the rows that were not just stored; each u32 index, u8 fate, and, if that is
 * ROW_REFUSED or ROW_BLOCKED, code and text, each u32 size and the bytes. */
struct row_result {
    uint32_t index;
    enum row_fate fate;
    struct bytes code;
    struct bytes text;
};

void row_result_encode(const struct row_result *result, struct buffer *out);

/* Takes one off the front of a run; `row_count` is that of the batch. False, with the cursor failed, if there is no
 * whole one. */
bool row_result_decode(struct cursor *cursor, uint32_t row_count, struct row_result *result);

/* Is it such a run? */
bool row_results_are_sound(struct bytes results, uint32_t row_count);

struct row_entry {
    uint8_t uid[PUBLISHER_ID_SIZE];
    uint64_t id;
    uint64_t since;     /* confirmed: the time of that, ms; else its batch */
    uint32_t publisher; /* slot */
    uint32_t next;      /* of its publisher, the one that was published after it; 0: none */
};

static_assert(sizeof(struct row_entry) == 40, "there may be tens of millions");

struct publisher {
    uint8_t id[PUBLISHER_ID_SIZE];
    uint8_t owner[PUBLISHER_ID_SIZE];
    uint64_t epoch;
    uint64_t number; /* of creation, from 1 on */
    uint64_t batch;  /* the last one; 0: none */
    uint64_t confirmed_batch;
    struct digest_tag digest;   /* of the last batch's ids and uids */
    struct bytes results_owned; /* of the last batch */
    uint32_t row_count;         /* of the last batch, results included */
    uint32_t first;             /* entries, by age: the confirmed ones, then the others */
    uint32_t first_unconfirmed;
    uint32_t last;
    uint32_t confirmed_count;
    uint32_t unconfirmed_count;
    uint32_t index; /* in the heap */
    struct id_ranges forgotten;
    struct queue_set queues; /* that its rows have named */
    /* while they have named none: a hash of whom the api lets open it; 0: those who cover every queue */
    uint64_t claim;
};

struct publishers {
    struct slab items;
    struct table by_id;
    struct heap expiries; /* publishers, by the time at which their oldest confirmed row is forgotten */
    struct slab entries;
    struct table entry_by_uid;
    struct table entry_by_id; /* of the rows with one id the first */
    uint64_t number;          /* the newest given out */
    uint64_t reused_count;    /* rows stored under an id that another row had: it was still remembered */
};

void publisher_init(struct publishers *publishers);
void publisher_deinit(struct publishers *publishers);

/* Its slot, or 0. */
uint32_t publisher_find_slot(const struct core *core, const uint8_t id[PUBLISHER_ID_SIZE]);
struct publisher *publisher_at(const struct core *core, uint32_t slot);

/* Its hash among the rows of this publisher. */
uint64_t publisher_hash_uid(const struct core *core, const struct publisher *publisher,
                            const uint8_t uid[PUBLISHER_ID_SIZE]);

/* Is the row known, whose hash that is? And is the id among those forgotten? Only right after publisher_settle(). */
bool publisher_knows(const struct core *core, uint32_t slot, const uint8_t uid[PUBLISHER_ID_SIZE], uint64_t hash);
bool publisher_has_forgotten(const struct core *core, uint32_t slot, uint64_t id);

/* Does one of the first PUBLISHERS_ASKED_MAX publishers remember a row of that uid? Perhaps for a little longer than it
 * must. O(publishers). */
#define PUBLISHERS_ASKED_MAX 10000u
bool publisher_remembers(const struct core *core, const uint8_t uid[PUBLISHER_ID_SIZE]);

/* The rows that are not confirmed, by age: the first (`entry` NULL), and the one behind `entry`; NULL: there are no
 * more. */
const struct row_entry *publisher_next_unconfirmed(const struct core *core, const struct publisher *publisher,
                                                   const struct row_entry *entry);

/* Digest of a run of rows as they stand in an event. */
struct digest_tag publisher_digest(const struct core *core, struct bytes rows);

/* Gives back the memory of what is over. That changes nothing that can be seen. Amortised O(1) a row. */
void publisher_settle(struct core *core, uint32_t slot);

/* The same for up to `portion` rows of all publishers; true if more may be. And when to call it next, or UINT64_MAX: up
 * to a second late, so that it has much to do. */
bool publisher_sweep(struct core *core, unsigned portion);
uint64_t publisher_due_ms(const struct core *core);

/* --- the snapshot (publisher_snapshot.c) -------------------------------------------------------------------------- */

/* Canonical. */
void publisher_encode(const struct core *core, struct core_writer *writer);
bool publisher_decode(struct core *core, struct cursor *cursor);

/* For decode: a publisher with this number, and its rows by age. */
uint32_t publisher_add(struct core *core, const uint8_t id[PUBLISHER_ID_SIZE], uint64_t number);
/* False, with nothing changed, if its uid is known; *is_reused: its id is known. */
bool publisher_add_row(struct core *core, uint32_t slot, const struct row_entry *row, bool is_confirmed,
                       bool *is_reused);
bool publisher_is_over(const struct core *core, const struct row_entry *row);

void publisher_check(const struct core *core);

#endif
