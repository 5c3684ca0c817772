/* Decisions (docs/internals/architecture.md, "Decide and apply"). What a consumer reports about a message: it is done,
 * needs more time, or has failed. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_MESSAGE_H
#define TALLY_CORE_MESSAGES_DECIDE_MESSAGE_H

#include "core/core.h"

/* What a receipt handle was when it was used, whatever the result. */
struct receipt_use {
    bool is_gone;     /* there was nothing to do: its message has ended, or as each function says */
    bool is_stale;    /* the message exists, and the handle is not its newest, or a failure took it away */
    bool is_late;     /* the message exists, and the handle's visibility timeout is over */
    uint64_t late_ms; /* for how long; if the message was delivered again since, at least for this long */
};

/* Ends the message and its unit, as succeeded. A message that has already ended is no error. An older handle ends it
 * too, if the queue accepts such handles. Errors: ERROR_RECEIPT_HANDLE_IS_INVALID: not a handle of this queue, or,
 * where *use is_stale, one that is not the newest; ERROR_INVALID_PARAMETER_VALUE: on a FIFO queue, its visibility
 * timeout is over. use may be NULL. */
enum error decide_delete(struct core *core, struct queue *queue, struct bytes handle, struct receipt_use *use);

/* The number of the live message of this queue whose newest handle it is, or 0. For Commit. use may be NULL. */
uint64_t decide_held_message(const struct core *core, const struct queue *queue, struct bytes handle,
                             struct receipt_use *use);

/* The number of the message that decide_delete() would end, or 0. */
uint64_t decide_deletable_message(const struct core *core, const struct queue *queue, struct bytes handle,
                                  struct receipt_use *use);

/* Makes the message visible at now + timeout_ms (0: at once). If the queue accepts older handles, they change the
 * newest lease. Errors, in order: ERROR_RECEIPT_HANDLE_IS_INVALID as decide_delete(); ERROR_INVALID_PARAMETER_VALUE
 * with *use is_gone: the message has ended, waits for its back-off or, on a FIFO queue, is not held any more; the same
 * without: in total more than 12 hours since the receive. *given is the lease as it is now; message 0: it is none.
 * Source: SQS API reference, ChangeMessageVisibility. */
enum error decide_change_visibility(struct core *core, struct queue *queue, struct bytes handle, uint32_t timeout_ms,
                                    struct granted_lease *given, struct receipt_use *use);

/* The lease lasts until visible_at_ms at least, and `lease` says until when. The message's timeout stays the one that
 * was asked for. False, with nothing changed: the lease is over, or somebody has shortened it since it was given. O(log
 * messages). */
bool decide_renew_lease(struct core *core, struct granted_lease *lease, uint64_t visible_at_ms);

/* The message is visible again, if the lease is the newest of it and not over. The delivery counts. O(log messages). */
void decide_end_lease(struct core *core, const struct granted_lease *lease);

/* The report of a failed attempt; zeroed: the queue's settings decide what follows. */
struct failed_attempt {
    struct bytes reason; /* may be empty */
    bool is_final;
    bool has_wait; /* it waits wait_ms before the next attempt, whatever the queue's back-off is */
    uint32_t wait_ms;
    struct backoff backoff;           /* if the queue has none and has_wait is false */
    uint32_t attempts_max;            /* the number of attempts, or fewer if the queue says so; 0: as the queue says */
    const struct queue *dead_letters; /* of the queue's type, but another queue: replaces the queue's own target */
};

enum failure_outcome {
    FAILURE_IGNORED, /* the message had ended, or was in another queue, before */
    FAILURE_RETURNED,
    FAILURE_DEAD_LETTERED,
    FAILURE_DROPPED,
    FAILURE_HELD, /* with its group, or until it is the first of that */
};

struct failure_result {
    struct receipt_use use; /* of its handle; also after an error */
    enum failure_outcome outcome;
    uint32_t attempt;                 /* that has failed, from 1; 0 where it was ignored */
    uint32_t attempts_max;            /* how many there are at most; 0: any number */
    uint64_t wait_ms;                 /* from now on, before the next one */
    const struct queue *dead_letters; /* where it is now, if it was dead-lettered; else NULL */
};

/* Ends the attempt that holds the message: it is visible again after a back-off; if final or out of attempts, it is
 * dead-lettered, dropped, or its group is held. Nothing is done (use.is_gone) if the message has ended
 * (FAILURE_IGNORED) or, on a standard queue, if this attempt was failed before and `attempt` does not give the message
 * up either (FAILURE_RETURNED, and how it waits now). Errors, whatever the queue accepts:
 * ERROR_RECEIPT_HANDLE_IS_INVALID: not a handle of this queue, or not the newest; ERROR_INVALID_PARAMETER_VALUE: its
 * visibility timeout is over; ERROR_UNSUPPORTED_OPERATION: it names a dead-letter queue, and is given up only behind
 * others of its group. */
enum error decide_fail(struct core *core, struct queue *queue, struct bytes handle,
                       const struct failed_attempt *attempt, struct failure_result *result);

#endif
