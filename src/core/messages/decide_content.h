/* Decisions (docs/architecture.md, "Decide and apply"). Contents that go to another place in the log. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_CONTENT_H
#define TALLY_CORE_MESSAGES_DECIDE_CONTENT_H

#include "core/core.h"

/* The content that the message has (core_has_content()) stands in the open frame from now on. `content`: its bytes.
 * O(log segments). */
void decide_move_content(struct core *core, const struct live_content *found, struct bytes content);

#endif
