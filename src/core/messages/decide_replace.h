/* Decisions (docs/internals/architecture.md, "Decide and apply"). A message is replaced by a changed copy, in one
 * record. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_REPLACE_H
#define TALLY_CORE_MESSAGES_DECIDE_REPLACE_H

#include "core/core.h"

#define REPLACE_DEPENDENTS_MAX 10000u

/* Why a message can't be replaced. */
enum replace_refusal {
    REPLACE_IS_POSSIBLE,
    REPLACE_IN_FLIGHT, /* it is somebody's work */
    REPLACE_WAITING,   /* for antecedents, which the copy would have to name */
    REPLACE_TYPED,     /* a type order has numbered it */
    REPLACE_RESULT,    /* its id is that of a match */
    REPLACE_NO_QUEUE,  /* a dead letter, and the queue where it failed does not exist */
    REPLACE_EARLY,     /* its dependents are just being told that it failed */
    REPLACE_AWAITED,   /* by more than REPLACE_DEPENDENTS_MAX messages, which would all be moved at once */
    REPLACE_ENDED,     /* it was cancelled, and only waits to be ended */
};

/* May the message in that slot be replaced? *target is where its copy goes: the queue where a dead letter failed; any
 * other message stays in its own, and in its place in a FIFO group. O(1), but for a dead letter of a line as
 * move_find_sequence(). */
enum replace_refusal decide_check_replace(const struct core *core, uint32_t message, const struct queue **target);

/* Replaces a message that may be. The copy has all of `content` but the id, which it gets. It takes over the message's
 * unit, which is outstanding again if it had failed, and what waits for it. Returns the copy's slot. */
uint32_t decide_replace(struct core *core, uint32_t message, const struct queue *target, struct content *content);

#endif
