/* How things end: a message, a unit, a batch, and what each drags along. Private to src/core.
 *
 * Everything that one ending makes due is yielded in the same frame: the unit, the batch's events, their messages, and
 * the parent's unit, up to the outermost batch (invariants B2, B15). */
#ifndef TALLY_CORE_FINISH_H
#define TALLY_CORE_FINISH_H

#include "core/state.h"

/* Ends a live message; its unit, or the unit that its batch is in a parent, ends with it. */
void finish_message(struct core *core, uint32_t slot, enum end_reason reason);

/* A message out of attempts: it moves to `target`, or is dropped where that is NULL; its unit has failed. */
void finish_by_dead_letter(struct core *core, uint32_t slot, const struct queue *target);

/* The queue that messages of this one go to when they are out of attempts, or NULL. O(hops). */
const struct queue *finish_dead_letter_queue(const struct core *core, const struct queue *queue);

/* A message is out of attempts, or failed for good: it is dead-lettered (dropped where there is no such queue), or, at
 * the head of a FIFO group, what the queue's policy says happens. */
void finish_spent(struct core *core, const struct queue *queue, uint32_t slot, const struct queue *dead_letters);

/* The head of a group is dead-lettered and what stands behind it now is cancelled. */
void finish_with_rest(struct core *core, const struct queue *queue, uint32_t head, const struct queue *dead_letters);

/* Ends a unit if it is outstanding, named by its number or, in an xor ledger, by its id. True if it ended now. */
bool finish_unit(struct core *core, uint32_t batch, uint32_t unit, uint64_t xor_id, enum unit_state outcome,
                 struct bytes detail);

/* Fires whatever is due after a step that changed the batch (batch_due). `status` completes it at once (cancelled,
 * expired); BATCH_NO_STATUS otherwise. */
void finish_step(struct core *core, uint32_t batch, bool has_failure, enum batch_status status);

/* Seals the batch if it is open and has as many units as its Total, those that joined from inside not counted. */
void finish_total(struct core *core, uint32_t batch);

/* An outstanding unit of the batch lets `count` more join, which are added next. */
void finish_growth(struct core *core, uint32_t batch, uint32_t count);

#endif
