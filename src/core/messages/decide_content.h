/* Decisions (docs/internals/architecture.md, "Decide and apply"). Contents that move to another position in the log. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_CONTENT_H
#define TALLY_CORE_MESSAGES_DECIDE_CONTENT_H

#include "core/core.h"

/* Moves the content of the message (core_has_content()) to the open frame. `content`: its bytes. O(log segments). */
void decide_move_content(struct core *core, const struct live_content *found, struct bytes content);

#endif
