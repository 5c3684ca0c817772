/* Decisions (docs/internals/architecture.md, "Decide and apply"). Tasks that move messages from one queue to others, or
 * delete them. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_MOVE_H
#define TALLY_CORE_MESSAGES_DECIDE_MOVE_H

#include "core/core.h"
#include "core/messages/move.h"
#include "core/messages/selection.h"

struct move_command {
    /* of the source's kind, and another one; NULL: each goes back to where it failed */
    const struct queue *destination;
    uint32_t rate;         /* messages a second; 0: no limit */
    uint64_t messages_max; /* it moves or deletes no more; UINT64_MAX: any number */
};

/* Begins to move the deliverable messages of `source`. The source has no running task. decide_due() moves the messages.
 * O(1). */
const struct move_task *decide_start_move(struct core *core, struct queue *source, const struct move_command *command);

/* The same for those of a selection, which are moved or deleted. O(PREVIEW_VISITS_MAX). */
const struct move_task *decide_start_selection(struct core *core, struct queue *source,
                                               const struct move_command *command,
                                               const struct selection_command *selection);

/* Ends a running task; messages that it has moved stay moved, and what it has deleted is gone. */
void decide_cancel_move(struct core *core, const struct move_task *task);

#endif
