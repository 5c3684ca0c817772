/* Decisions (docs/internals/architecture.md, "Decide and apply"). An operator takes a message away from whoever has it.
 * */
#ifndef TALLY_CORE_MESSAGES_DECIDE_RELEASE_H
#define TALLY_CORE_MESSAGES_DECIDE_RELEASE_H

#include "core/messages/decide_message.h"

/* What the next receive that meets the message makes of it, once its lease is over. */
struct release_outlook {
    enum failure_outcome outcome; /* FAILURE_RETURNED: delivers it; FAILURE_DEAD_LETTERED; FAILURE_HELD: its group */
    uint32_t attempt;             /* that ends with the lease, from 1 */
    uint32_t attempts_max;        /* how many there are at most; 0: any number */
    const struct queue *dead_letters; /* where it would go; else NULL */
    bool cancels_rest;                /* of its group, when it goes there */
};

/* Of a message in flight, in that queue. Only reads. O(hops of dead-letter queues). */
void release_foresee(const struct core *core, const struct queue *queue, uint32_t slot,
                     struct release_outlook *outlook);

/* Ends the lease of a message in flight: it is visible again at once, and the attempt counts. This is what
 * ChangeMessageVisibility with 0 does for the holder, and the same event. O(log messages). */
void decide_release_message(struct core *core, uint32_t slot);

#endif
