/* Decisions (docs/architecture.md, "Decide and apply"). Tasks that move messages from one queue to others. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_MOVE_H
#define TALLY_CORE_MESSAGES_DECIDE_MOVE_H

#include "core/core.h"
#include "core/messages/move.h"

/* Begins to move the deliverable messages of `source` to `destination`, another queue of the same kind; NULL: each
 * message goes to the queue in which it failed. rate: messages a second; 0: no limit. The source has no running task.
 * decide_due() moves the messages. O(1). */
const struct move_task *decide_start_move(struct core *core, struct queue *source, const struct queue *destination,
                                          uint32_t rate);

/* Ends a running task; messages that it has moved stay moved. */
void decide_cancel_move(struct core *core, const struct move_task *task);

#endif
