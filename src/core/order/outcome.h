/* The namespace's memory of outcomes: how things ended that no longer exist, oldest first.
 *
 * An outcome is kept for OUTCOME_WINDOW_MS. There are at most OUTCOMES_MAX of them: one more makes the namespace forget
 * the oldest. If an outcome is not here, the caller must decide what that means; forgotten_number tells how far
 * forgetting went. */
#ifndef TALLY_CORE_ORDER_OUTCOME_H
#define TALLY_CORE_ORDER_OUTCOME_H

#include "base/assert.h"
#include "base/cursor.h"
#include "base/slab.h"
#include "base/table.h"
#include "core/batches/ledger.h"
#include "core/digest.h"

struct core_writer;

#define OUTCOME_WINDOW_MS (14u * 86400u * 1000u)
#define OUTCOMES_MAX 1000000u

struct outcome {
    struct digest_tag key;
    uint64_t number; /* of the message or batch */
    uint64_t ended_at_ms;
    uint32_t next;      /* ended later, or at the same time */
    uint8_t state;      /* enum unit_state */
    bool is_superseded; /* another one of its key is newer, and is in the table instead */
};

static_assert(sizeof(struct outcome) == 40, "there may be a million of each kind");

struct outcomes {
    struct slab records;
    struct table by_key;
    uint32_t oldest; /* slots */
    uint32_t newest;
    uint64_t forgotten_number; /* the highest that was forgotten */
};

void outcomes_init(struct outcomes *outcomes);
void outcomes_deinit(struct outcomes *outcomes);

/* Remembers how something ended now. A key may be remembered again: the newest counts. O(1), however often the key was
 * remembered. */
void outcomes_remember(struct outcomes *outcomes, struct digest_tag key, uint64_t number, enum unit_state state,
                       uint64_t now_ms);

/* The newest outcome under that key, or NULL. */
const struct outcome *outcomes_find(const struct outcomes *outcomes, struct digest_tag key);

/* The result of outcome_find() after `more` others are remembered, and forgotten_number then. O(more). */
const struct outcome *outcomes_find_after(const struct outcomes *outcomes, struct digest_tag key, uint32_t more,
                                          uint64_t *forgotten_number);

/* Forgets the outcomes that are older than the window. The rest does not depend on how often this is called. */
void outcomes_forget(struct outcomes *outcomes, uint64_t now_ms);

/* u64 forgotten number, u32 count, then for each: u64 low, u64 high of the key, u64 number, u64 ended_at_ms, u8
 * state. */
void outcomes_encode(const struct outcomes *outcomes, struct core_writer *writer);

/* Numbers up to number_max exist. False if outcomes_encode() can't have written these bytes at that time. */
bool outcomes_decode(struct outcomes *outcomes, struct cursor *cursor, uint64_t number_max, uint64_t now_ms);

void outcomes_check(const struct outcomes *outcomes, uint64_t now_ms);

#endif
