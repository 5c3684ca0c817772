/* Move tasks: a task takes the messages of a dead-letter queue to other queues, the oldest first, each with an event of
 * its own. A task moves at most as many messages as were deliverable when it began. So a message that fails again and
 * comes back does not keep it running. It ends when it has moved that many, when no deliverable message is left, when
 * it is cancelled, or when it has no queue for the next message.
 *
 * A task with a selection (selection.h) is for some messages only, which it moves or deletes. It looks at each once, in
 * order, and leaves those with which it can't be done where they are.
 *
 * A queue has at most one running task, and remembers the newest ones that have ended. Tasks are deleted with their
 * queue. */
#ifndef TALLY_CORE_MESSAGES_MOVE_H
#define TALLY_CORE_MESSAGES_MOVE_H

#include "base/cursor.h"
#include "base/heap.h"
#include "base/slab.h"

struct core;
struct core_writer;
struct message;
struct queue;
struct selection;

#define MOVE_RATE_MAX 500u /* messages a second */

/* The numbers are stored in the log. */
enum move_status { MOVE_RUNNING = 1, MOVE_COMPLETED = 2, MOVE_CANCELLED = 3, MOVE_FAILED = 4 };
enum move_failure {
    MOVE_NO_FAILURE = 0,
    MOVE_NO_QUEUE = 1,  /* the next message's destination does not exist */
    MOVE_NO_ORIGIN = 2, /* the next message should go back to its source, and has none */
};

struct move_task {
    uint64_t number;                /* rising */
    uint32_t source;                /* slot of the queue */
    uint32_t destination;           /* id; 0: each message returns to its source */
    struct bytes destination_owned; /* its name, which may outlive the queue */
    uint32_t rate;                  /* messages a second; 0: no limit */
    enum move_status status;
    enum move_failure failure;
    /* how many were deliverable, or fitted the selection, when it began: it moves or deletes no more */
    uint64_t to_move;
    uint64_t moved; /* or deleted */
    uint64_t started_at_ms;
    uint64_t moved_at_ms;              /* when the newest move or look of a selection was, or when it began */
    uint64_t rate_tat_us;              /* of the rate (queue.h) */
    uint32_t due_index;                /* in `due`, while it runs */
    struct selection *selection_owned; /* NULL: it is for all that can be delivered */
};

struct moves {
    struct slab tasks;
    struct heap due; /* running tasks, by the time of their next move */
    uint64_t number; /* the newest given out */
};

void move_init(struct moves *moves);
void move_deinit(struct core *core);

/* The tasks of a queue, queue->move_count of them: the newest is 0. */
const struct move_task *move_at(const struct core *core, const struct queue *source, uint32_t index);

/* The running task of a queue, or NULL. */
const struct move_task *move_running(const struct core *core, const struct queue *source);

/* Does the redrive policy of some queue name this one, or does it hold messages that were dead-lettered? O(queues). */
bool move_is_dead_letter_queue(const struct core *core, const struct queue *queue);

/* Where a message of `source` goes; NULL, with the reason, if there is no such queue. `destination` empty: to where it
 * came from. A queue that was deleted and made again under its name counts as the same, because it is named by its
 * ARN. */
const struct queue *move_find_target(const struct core *core, const struct queue *source, struct bytes destination,
                                     const struct message *message, enum move_failure *failure);

/* The group of a FIFO queue to which the message would go, or 0: it does not exist yet. */
uint32_t move_find_line(const struct core *core, const struct message *message, const struct queue *target);

/* Must something else happen before a message goes to that queue? Dependents of it may have to be told that it failed,
 * or cancelled messages of its new group may have to be ended. decide_due() will do that soon. */
bool move_is_early(const struct core *core, const struct message *message, const struct queue *target);

/* In the line of its group the message stands at the end; but if something there waits for it or for its batch, on
 * whatever way, before that, or each would wait for the other (though never before a head that is held): right before
 * it, behind those that were moved there before and behind what is in flight. 0: at the end; else a sequence number
 * that no message of the line has, or, where none is left, that of the one in front of it. O(what waits for the
 * message), O(1) but for odd cases. */
uint64_t move_find_sequence(const struct core *core, const struct message *message, const struct queue *target);

/* When a task may next make a move, or UINT64_MAX. */
uint64_t move_due_ms(const struct core *core);

/* Makes up to `portion` moves that are due. For decide_due(). */
void move_due(struct core *core, unsigned portion);

/* For apply: counts one more message that the queue's running task moved; false if that task is not running. The other
 * function removes all its tasks. */
bool move_count(struct core *core, const struct queue *source, uint64_t task);
void move_forget_queue(struct core *core, struct queue *source);

void move_encode(const struct core *core, struct core_writer *writer);
bool move_decode(struct core *core, struct cursor *cursor);

/* Their selections, which older snapshots don't have. */
void move_encode_selections(const struct core *core, struct core_writer *writer);
bool move_decode_selections(struct core *core, struct cursor *cursor);
void move_check(const struct core *core);

#endif
