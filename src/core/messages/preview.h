/* A preview: what an act of an operator would end or move, counted before it is done. Only reads.
 *
 * One looks at PREVIEW_VISITS_MAX messages at most. If there are more, it is not complete, and its counts are those of
 * the messages that it has looked at, the oldest ones. */
#ifndef TALLY_CORE_MESSAGES_PREVIEW_H
#define TALLY_CORE_MESSAGES_PREVIEW_H

#include "base/number_map.h"
#include "core/messages/decide_release.h"
#include "core/messages/selection.h"
#include "core/order/decide_group.h"

struct batch;

#define PREVIEW_VISITS_MAX MESSAGE_WALK_VISITS_MAX
#define PREVIEW_QUEUES_MAX 100u

struct preview {
    const struct core *core;
    uint64_t messages;  /* would end, or be moved */
    uint64_t in_flight; /* of those that would end */
    uint64_t dead_lettered;
    uint64_t units;      /* would end */
    uint64_t dependents; /* edges of messages that wait for something of this, and hear of its end; or, of dead letters
                          * that are moved, wait for the new message */
    uint64_t refused;    /* messages that are meant and would stay */
    uint32_t refusal_count;
    struct refusal refusals[REFUSALS_MAX]; /* of the first ones */
    struct number_map batches;             /* by number: whose units would end, or be outstanding again */
    uint64_t ending_groups;                /* which lose their last message */
    struct number_map leaving;             /* by number of a group: how many of its messages leave it */
    struct number_map groups;              /* by number: held ones that get some of what is moved */
    struct number_map queues;              /* by id: index of queue_counts, plus 1 */
    struct preview_queue {
        uint32_t id;
        uint64_t messages;              /* would go there */
    } queue_counts[PREVIEW_QUEUES_MAX]; /* the first ones that were met */
    uint32_t queue_count;
    unsigned visits_left;
    bool is_complete;
};

void preview_init(struct preview *preview, const struct core *core);
void preview_deinit(struct preview *preview);

/* The messages of a queue that a task would move to the queue of that name (empty: each to where it came from), or
 * delete; messages_max at most. */
void preview_selection(struct preview *preview, const struct queue *source, struct bytes destination,
                       uint64_t messages_max, const struct selection_command *selection);

/* All messages of a queue end. */
void preview_purge(struct preview *preview, const struct queue *queue);

/* A held group is released. ERROR_GROUP_NOT_HELD. */
enum error preview_release(struct preview *preview, const struct queue *queue, struct bytes group,
                           enum group_release action);

/* The lease of a message in flight ends, and a receive meets the message. */
void preview_release_message(struct preview *preview, const struct queue *queue, uint32_t slot,
                             const struct release_outlook *outlook);

/* A batch is cancelled. The messages of an xor ledger can't be found from it: they are not counted, and the preview is
 * not complete. */
void preview_cancel(struct preview *preview, const struct batch *batch);

#endif
