/* How things end: a message, a unit, a batch, and everything that ends with each. Private to src/core.
 *
 * All results of one ending are written in the same frame: the unit, the batch's events, their messages, and the
 * parent's unit, up to the outermost batch (invariants B2, B15). */
#ifndef TALLY_CORE_FINISH_H
#define TALLY_CORE_FINISH_H

#include "core/state.h"

/* Ends a live message; its unit, or the unit that its batch is in a parent, ends with it. */
void finish_message(struct core *core, uint32_t slot, enum end_reason reason);

/* A message has no attempts left: it moves to `target`, or is dropped if that is NULL. Its unit has failed. */
void finish_by_dead_letter(struct core *core, uint32_t slot, const struct queue *target);

/* The queue for this queue's messages without attempts left, or NULL. O(hops). */
const struct queue *finish_dead_letter_queue(const struct core *core, const struct queue *queue);

/* What becomes of the group of a message that is given up: GROUP_FAILURE_SKIP, too, if it stands in no FIFO group. */
enum group_failure finish_group_policy(const struct core *core, const struct queue *queue, uint32_t slot);

/* A message has no attempts left, or failed for good. It is dead-lettered, or dropped if there is no such queue; at the
 * head of a FIFO group, the queue's policy decides. */
void finish_spent(struct core *core, const struct queue *queue, uint32_t slot, const struct queue *dead_letters);

/* Dead-letters the head of a group and cancels the messages that are now after it. */
void finish_with_rest(struct core *core, const struct queue *queue, uint32_t head, const struct queue *dead_letters);

/* Ends a unit if it is outstanding. The unit is given by its number or, in an xor ledger, by its id. True if it ended
 * now. */
bool finish_unit(struct core *core, uint32_t batch, uint32_t unit, uint64_t xor_id, enum unit_state outcome,
                 struct bytes detail);

/* Fires the events that are due after the batch has changed (batch_due). `status` completes it at once (cancelled,
 * expired); BATCH_NO_STATUS otherwise. */
void finish_step(struct core *core, uint32_t batch, bool has_failure, enum batch_status status);

/* Seals the batch if it is open and has as many units as its Total, not counting those that joined from inside. */
void finish_total(struct core *core, uint32_t batch);

/* An outstanding unit of the batch lets `count` more join; they are added next. */
void finish_growth(struct core *core, uint32_t batch, uint32_t count);

#endif
