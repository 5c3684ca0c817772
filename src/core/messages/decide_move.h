/* Decisions (docs/architecture.md, "Decide and apply"). Tasks that move messages from one queue to others. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_MOVE_H
#define TALLY_CORE_MESSAGES_DECIDE_MOVE_H

#include "core/core.h"
#include "core/messages/move.h"

/* Begins to move what can be delivered from `source` to `destination`, another queue of the same kind; NULL: each
 * message to the queue that it failed in. rate: messages a second; 0: no limit. No task of the source is running. The
 * messages are moved by decide_due(). O(1). */
const struct move_task *decide_start_move(struct core *core, struct queue *source, const struct queue *destination,
                                          uint32_t rate);

/* Ends a running task; what it has moved stays moved. */
void decide_cancel_move(struct core *core, const struct move_task *task);

#endif
