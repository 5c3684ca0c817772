/* Reach: what a credential with queues= (a confined one) may use and see, beyond the queues that a request names
 * (access.h). The row of each action says what it is about; docs/reference/access.md has the whole table. Private to
 * src/api.
 *
 * One rule: a batch, a pool, a schedule or a publisher is within reach if the credential covers each of its queues. A
 * batch or a pool must have at least one. Things that belong to no queue belong to the namespace. They need a
 * credential that covers all of it. A thing out of reach answers as if it did not exist.
 *
 * Callers without queues=, and a daemon without credentials, reach everything. O(queues of the object * patterns). */
#ifndef TALLY_API_REACH_H
#define TALLY_API_REACH_H

#include "api/action.h"
#include "core/pools/ticket_pool.h"
#include "core/publishers/publisher.h"
#include "core/schedules/schedule.h"

/* Does the caller cover only some queues? */
bool reach_is_confined(const struct call *call);

/* Each notes in the call that it was asked. An action that succeeds without the checks of its row has a bug. */
bool reach_batch(struct call *call, const struct batch *batch);
bool reach_pool(struct call *call, const struct ticket_pool *pool);
bool reach_schedule(struct call *call, const struct schedule *schedule);

/* Until one of its rows has named a queue, a publisher belongs to callers with the same patterns as the one who first
 * opened it. ERROR_ACCESS_DENIED, but never for NULL: opening makes a missing publisher, so an existing one can't be
 * hidden. */
enum error reach_check_publisher(struct call *call, const struct publisher *publisher);

/* The caller's mark on a publisher that it makes: a hash of its patterns, 0 if it has none. */
uint64_t reach_claim(const struct call *call);

/* For what is about the namespace as a whole. ERROR_ACCESS_DENIED. */
enum error reach_check_namespace(struct call *call, const char *what);

/* Is the message of that number in a queue that the caller covers? If the message has ended, its queue is unknown. */
bool reach_message(const struct call *call, uint64_t number);

/* The same for a queue, by its id. No deleted queue is covered. */
bool reach_queue_id(const struct call *call, uint32_t queue);

/* Does the caller cover them all? Not an open set. */
bool reach_queues(const struct call *call, const struct queue_set *queues);

/* The addition to messages about missing things: "" or, for a confined caller, that it may not see everything. Static
 * text. */
const char *reach_words(const struct call *call);

/* Has the call made the checks of its row? */
static inline void reach_note(struct call *call, enum reach reach)
{
    call->reached |= 1u << reach;
}

#endif
