/* What the namespace remembers so that nothing happens twice: deduplication ids, numbered producers, and receive attempts.
 *
 * An entry lives for its window, not for its message (invariants U3, U7). One that is over is as good as gone at once; its
 * memory is given back in portions. Keys are 128-bit keyed hashes of what clients said. */
#ifndef TALLY_CORE_DEDUPLICATION_H
#define TALLY_CORE_DEDUPLICATION_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/pool.h"
#include "base/table.h"

struct core;
struct core_writer;
struct queue;

#define DEDUPLICATION_ID_SIZE_MAX 128u
#define PRODUCER_PAIRS 256u /* newest messages of a producer whose numbers are remembered */

struct deduplication {
    struct pool entries;
    struct table by_key;
    struct heap expiries;
    struct pool producers;
    struct table by_producer;
    struct pool attempts;
    struct table by_attempt;
    struct heap attempt_expiries;
    uint64_t entry_number; /* of the newest record of any of the three: order of creation */
};

void deduplication_init(struct deduplication *deduplication);
void deduplication_deinit(struct deduplication *deduplication);

/* Message number of the living entry for this id (`group` empty where the scope is the queue), or 0. */
uint64_t deduplication_find(const struct core *core, const struct queue *queue, struct bytes group, struct bytes id);

/* Is `sequence` not above the producer's newest? Then *number is its message, or 0 where that is no longer remembered. */
bool deduplication_find_produced(const struct core *core, const struct queue *queue, struct bytes producer,
                                 uint64_t sequence, uint64_t *number);

/* Encoded deliveries (EVENT_ATTEMPTED) of a living attempt; empty: none. */
struct bytes deduplication_find_attempt(const struct core *core, const struct queue *queue, struct bytes attempt);

/* The queue was purged (ids go unless its window was set on purpose) or deleted (all goes). Takes effect at once. */
void deduplication_forget_queue(struct core *core, const struct queue *queue, bool is_deleted);

/* Gives back the memory of up to `portion` entries that are over; true if more are. */
bool deduplication_sweep(struct core *core, unsigned portion);

/* When the next entry is over, or UINT64_MAX. */
uint64_t deduplication_due_ms(const struct core *core);

/* Canonical; entries that are over are left out. */
void deduplication_encode(const struct core *core, struct core_writer *writer);
bool deduplication_decode(struct core *core, struct cursor *cursor);
void deduplication_check(const struct core *core);

#endif
