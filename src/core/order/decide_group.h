/* Decisions (docs/internals/architecture.md, "Decide and apply"). Groups: paused, resumed, released. */
#ifndef TALLY_CORE_ORDER_DECIDE_GROUP_H
#define TALLY_CORE_ORDER_DECIDE_GROUP_H

#include "core/core.h"

void decide_pause_queue(struct core *core, struct queue *queue, bool is_paused);
void decide_pause_group(struct core *core, struct queue *queue, struct bytes group, bool is_paused);

enum group_release { RELEASE_RETRY, RELEASE_SKIP, RELEASE_CANCEL_REST };

/* Releases a held group. ERROR_GROUP_NOT_HELD. */
enum error decide_release_group(struct core *core, struct queue *queue, struct bytes group, enum group_release action);

#endif
