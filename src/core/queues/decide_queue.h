/* Decisions (docs/internals/architecture.md, "Decide and apply"). Queues: made, set, tagged, purged, deleted. */
#ifndef TALLY_CORE_QUEUES_DECIDE_QUEUE_H
#define TALLY_CORE_QUEUES_DECIDE_QUEUE_H

#include "core/core.h"

/* A queue under a name that no queue has. */
struct queue *decide_create_queue(struct core *core, struct bytes name, const struct queue_settings *settings);
void decide_set_queue(struct core *core, struct queue *queue, const struct queue_settings *settings);

/* Gives the queue tags (tags.h), in place of those it has under the same keys. ERROR_OVER_LIMIT: it would have more
 * than TAGS_MAX. */
enum error decide_tag_queue(struct core *core, struct queue *queue, struct bytes tags);

/* Takes those tags from it that have one of `keys` (a run of u32 size and the bytes); keys of no tag are passed
 * over. */
void decide_untag_queue(struct core *core, struct queue *queue, struct bytes keys);

/* Whatever the queue holds ends: units of it as failed. O(1); the messages are ended in portions by decide_due(). */
void decide_purge_queue(struct core *core, struct queue *queue);

/* ERROR_QUEUE_IN_USE while a batch that has not completed has it as a target, or a schedule. */
enum error decide_delete_queue(struct core *core, struct queue *queue);

#endif
