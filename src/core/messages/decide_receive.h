/* Decisions (docs/internals/architecture.md, "Decide and apply"). Giving messages to a consumer. */
#ifndef TALLY_CORE_MESSAGES_DECIDE_RECEIVE_H
#define TALLY_CORE_MESSAGES_DECIDE_RECEIVE_H

#include "core/core.h"
#include "core/identity.h"

#define RECEIVE_MAX 10u

/* Texts are copies, because a receive may end its messages, and with them their queue; borrowed until the next
 * receive. */
struct received_message {
    struct handle handle;
    uint32_t slot;     /* until the next decision; 0: it is not in flight any more */
    uint64_t position; /* of the content */
    uint32_t content_size;
    uint32_t receive_count;
    uint64_t sent_at_ms;
    uint64_t first_received_at_ms; /* 0: never */
    struct bytes origin;           /* name of the queue in which it failed; empty: it was not dead-lettered */
    bool is_renamed;     /* its MessageId is made from its number; its content names the message before a move */
    uint64_t sequence;   /* in its group; 0: it has none */
    struct bytes reason; /* of its newest failed attempt, or empty */
};

/* The message in `slot` as a receive would describe it. Texts are views until the next decision. Nothing changes. */
struct received_message received_describe(const struct core *core, const struct queue *queue, uint32_t slot);

/* Takes up to `count_max` deliverable messages and leases them for timeout_ms. Messages without a group come oldest
 * first, groups in the order of their rings; of a FIFO group it takes the run from its head. A message without attempts
 * left goes to the dead-letter queue instead, or its group's policy decides. From an at-most-once queue the messages
 * end here. *count may be 0. ERROR_OVER_LIMIT if a standard queue already has in_flight_max messages in flight; a FIFO
 * queue then gives nothing. */
enum error decide_receive(struct core *core, struct queue *queue, unsigned count_max, uint32_t timeout_ms,
                          uint32_t in_flight_max, struct received_message messages[RECEIVE_MAX], unsigned *count);

/* Repeats the messages of an earlier receive, under the same handles, with new leases, if that attempt's deliveries
 * still hold all of them. ERROR_INVALID_PARAMETER_VALUE if one does not; *count 0 if the attempt id is unknown. */
enum error decide_receive_again(struct core *core, struct queue *queue, struct bytes attempt, uint32_t timeout_ms,
                                struct received_message messages[RECEIVE_MAX], unsigned *count);

/* Remembers the deliveries of a receive under an attempt id, for ATTEMPT_WINDOW_MS. If there are very many, it
 * remembers them for less time, or not at all (deduplication_attempt_window_ms). */
void decide_remember_attempt(struct core *core, const struct queue *queue, struct bytes attempt,
                             const struct received_message *messages, unsigned count);

#endif
