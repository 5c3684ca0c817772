/* Reach: what a credential with queues= (a confined one) may use and see, beyond the queues that a request names
 * (access.h). Every action says in its row what it is about; docs/access.md has the whole table. Private to src/api.
 *
 * One rule: a batch, a pool, a schedule or a publisher is within reach if the credential covers each queue that it has
 * to do with, and a batch or a pool has to do with at least one. What belongs to no queue belongs to the namespace,
 * and is for credentials that cover all of it. What is out of reach answers as if it did not exist.
 *
 * Callers without queues=, and a daemon without credentials, reach everything. O(queues of the object * patterns). */
#ifndef TALLY_API_REACH_H
#define TALLY_API_REACH_H

#include "api/action.h"
#include "core/pools/ticket_pool.h"
#include "core/publishers/publisher.h"
#include "core/schedules/schedule.h"

/* Does the caller cover some queues only? */
bool reach_is_confined(const struct call *call);

/* Each notes in the call that it was asked: an action that succeeds without having asked for what its row says is a
 * bug. */
bool reach_batch(struct call *call, const struct batch *batch);
bool reach_pool(struct call *call, const struct ticket_pool *pool);
bool reach_schedule(struct call *call, const struct schedule *schedule);

/* While no row of it has named a queue, a publisher is for those with the very patterns of who first opened it.
 * ERROR_ACCESS_DENIED, for NULL never: opening one that is not there makes it, so that one is there can't be hidden. */
enum error reach_check_publisher(struct call *call, const struct publisher *publisher);

/* Of the caller, for a publisher that it makes: a hash of its patterns, 0 where it has none. */
uint64_t reach_claim(const struct call *call);

/* For what is about the namespace as a whole. ERROR_ACCESS_DENIED. */
enum error reach_check_namespace(struct call *call, const char *what);

/* Is the message of that number in a queue that the caller covers? Of one that has ended nobody knows where it was. */
bool reach_message(const struct call *call, uint64_t number);

/* The same of a queue, by its id; not of one that was deleted. */
bool reach_queue_id(const struct call *call, uint32_t queue);

/* Does the caller cover them all? Not an open set. */
bool reach_queues(const struct call *call, const struct queue_set *queues);

/* What messages add about things that are not there: "" or, for a confined caller, that it may not see all there is.
 * Static text. */
const char *reach_words(const struct call *call);

/* The call has asked what its row says. */
static inline void reach_note(struct call *call, enum reach reach)
{
    call->reached |= 1u << reach;
}

#endif
