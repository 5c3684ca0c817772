/* What the namespace remembers so that nothing happens twice: deduplication ids, numbered producers, and receive
 * attempts.
 *
 * Each record lives for its window, independent of its message (invariants U3, U7). A record that has expired, or was
 * forgotten with its queue, is gone at once: it is not found and not encoded. Only its memory is freed later, in
 * portions. So no record needs an event when it ends. Keys are 128-bit keyed hashes of the clients' texts.
 *
 * Ids are in windows, one for each queue and each length. In a window they expire in the order in which they came, so
 * an id needs neither a heap nor a timer of its own. An id takes 40 bytes, plus 11 to 21 in the table (more for a while
 * after most have gone). Adding and sweeping are O(1). */
#ifndef TALLY_CORE_DEDUPLICATION_DEDUPLICATION_H
#define TALLY_CORE_DEDUPLICATION_DEDUPLICATION_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/slab.h"
#include "base/table.h"
#include "core/digest.h"

struct core;
struct core_writer;
struct queue;

#define DEDUPLICATION_ID_SIZE_MAX 128u /* of what clients give */
#define PRODUCER_PAIRS 256u            /* newest messages of a producer whose numbers are remembered */
#define ATTEMPT_DELIVERIES_MAX 10u     /* as many as a receive gives */
#define ATTEMPT_DELIVERY_SIZE 16u      /* u64 message number, u64 delivery */
#define ATTEMPT_WINDOW_MS 300000u      /* how long a receive attempt is remembered, unless there are too many */
#define ATTEMPTS_MAX 1000000u          /* of a namespace */
/* How long a message that was moved here is known by its uid: as long as any SQS keeps a message, so as long as its
 * source can give it out again. */
#define UID_WINDOW_MS (14u * 86400u * 1000u)
#define WINDOW_EVER_MS UINT64_MAX /* length of a window that never ends, and its end */

/* One deduplication id. */
struct id_entry {
    struct digest_tag key;
    uint64_t number; /* of the message */
    uint64_t expires_at_ms;
    uint32_t window;
    uint32_t next; /* in its window, the one that came after it; 0: none */
};

static_assert(sizeof(struct id_entry) == 40, "there may be hundreds of millions");

struct window {
    uint64_t window_ms;
    uint64_t order; /* unique, for the heap */
    uint64_t count;
    uint32_t queue; /* slot; 0: forgotten */
    uint32_t first; /* entries, by age */
    uint32_t last;
    uint32_t next;  /* of its queue, by length; or of the forgotten ones */
    uint32_t index; /* in the heap of windows; 0: it never ends, or is forgotten */
};

/* The message that has a sequence number of a producer. */
struct produced {
    uint64_t sequence;
    uint64_t number;
};

struct producer {
    struct digest_tag key;
    struct produced *pairs_owned; /* ascending; with PRODUCER_PAIRS of them it is a ring that begins at `start` */
    uint32_t count;
    uint32_t capacity;
    uint32_t start;
    uint32_t next; /* of its queue, by age; of the forgotten ones */
};

/* The deliveries of a receive under the attempt id of its sender. */
struct attempt {
    struct digest_tag key;
    uint64_t expires_at_ms;
    uint64_t order; /* unique, for the heap */
    struct list_link link;
    uint32_t queue; /* id: of a queue that may be gone */
    uint32_t index; /* in the heap */
    uint32_t count;
    uint8_t deliveries[ATTEMPT_DELIVERIES_MAX * ATTEMPT_DELIVERY_SIZE];
};

struct deduplication {
    struct slab entries;
    struct table entry_by_key;
    struct slab windows;
    struct heap window_expiries; /* by the end of the oldest entry */
    uint32_t forgotten_window;   /* the first of those whose memory must be freed; 0: none */
    struct slab producers;
    struct table producer_by_key;
    uint32_t forgotten_producer;
    struct slab attempts;
    struct table attempt_by_key;
    struct heap attempt_expiries;
    struct list attempt_order; /* by age */
    uint64_t order;            /* the newest given out */
};

void deduplication_init(struct deduplication *deduplication);
void deduplication_deinit(struct deduplication *deduplication);

/* Message number of the living entry for this id, or 0. `group` is empty if the queue is the scope. O(1). */
uint64_t deduplication_find(const struct core *core, const struct queue *queue, struct bytes group, struct bytes id);

/* What is known about a number that is not above its producer's newest. */
struct produced_before {
    uint64_t number;      /* of its message; 0: no longer remembered, or it never existed */
    uint64_t newest;      /* the highest sequence of the producer */
    bool was_passed_over; /* it certainly never existed */
};

/* Is `sequence` not above the producer's newest? Then *before has the rest. False for an unknown producer. O(log
 * PRODUCER_PAIRS). */
bool deduplication_find_produced(const struct core *core, const struct queue *queue, struct bytes producer,
                                 uint64_t sequence, struct produced_before *before);

/* Encoded deliveries (EVENT_ATTEMPTED) of a living attempt; empty: none. Borrowed until the next event. O(1). */
struct bytes deduplication_find_attempt(const struct core *core, const struct queue *queue, struct bytes attempt);

/* How long one more attempt is remembered when there are many: ATTEMPT_WINDOW_MS; from half of ATTEMPTS_MAX on less and
 * less, and 0 at ATTEMPTS_MAX. A client repeats a receive within seconds. So a flood of attempts shortens the time for
 * all, instead of ending it for the latest. */
uint64_t deduplication_attempt_window_ms(uint64_t attempt_count);

/* For apply: the queue was purged (ids are forgotten, unless its window was set on purpose; uids are not, for their
 * messages may still be in their source) or deleted (everything is forgotten). Takes effect at once. O(number of
 * window lengths of the queue). */
void deduplication_forget_queue(struct core *core, struct queue *queue, bool is_deleted);

/* Frees the memory of up to `portion` expired records; true if there may be more. Changes nothing that is visible. */
bool deduplication_sweep(struct core *core, unsigned portion);

/* When to call deduplication_sweep() next, or UINT64_MAX. It is up to a second late, so that there is much to sweep. */
uint64_t deduplication_due_ms(const struct core *core);

/* --- the snapshot (deduplication_snapshot.c) ---------------------------------------------------------------------- */

/* Canonical; expired records are left out. */
void deduplication_encode(const struct core *core, struct core_writer *writer);
bool deduplication_decode(struct core *core, struct cursor *cursor);

/* For decode: records that do not exist yet. */
uint32_t deduplication_find_key(const struct core *core, struct digest_tag key);
void deduplication_add(struct core *core, uint32_t queue, uint64_t window_ms, const struct id_entry *entry);
uint32_t deduplication_find_producer(const struct core *core, struct digest_tag key);
uint32_t deduplication_add_producer(struct core *core, struct queue *queue, struct digest_tag key);
void producer_add(struct producer *producer, struct produced pair);
const struct produced *producer_at(const struct producer *producer, uint32_t index); /* 0: the oldest */
uint32_t deduplication_find_attempt_key(const struct core *core, struct digest_tag key);
void deduplication_add_attempt(struct core *core, const struct attempt *attempt);

void deduplication_check(const struct core *core);

#endif
