/* Who asks, and may they? The api puts these two questions to src/auth. Private to src/api.
 *
 * Without credentials nobody is identified: the caller of a call is NULL, and everything is allowed. One exception: a
 * GET may only read (GROWTH_READS) unless a program has signed it. The server's guard keeps web pages away, but a GET
 * of an old browser does not show that it comes from a page. With them:
 *   - a credential's rights and patterns of queue names bound what it may do, everywhere;
 *   - on a queue of another namespace than its own, the queue's policy must allow the action too, and only actions that
 *     SQS lets owners share (the row's `shared_as`) can be allowed. Others do not learn whether such a queue
 * exists. */
#ifndef TALLY_API_ACCESS_H
#define TALLY_API_ACCESS_H

#include "api/action.h"

/* Verifies the signature of the request and notes its owner in the call. Errors: see sigv4_verify(); none without
 * credentials. */
enum error access_identify(struct call *call);

/* Is the caller a part of the server itself (front_set_inner_credentials())? */
bool access_is_inner(const struct call *call);

/* `exchange` waits, and other credentials were in force when it was signed. May it still wait, and who is its caller
 * now? Sets its caller. Errors as sigv4_verify() would give them now. */
enum error access_renew(const struct front *front, struct exchange *exchange, struct failure *failure);

/* May the caller do this at all? ERROR_ACCESS_DENIED. */
enum error access_check_action(struct call *call);

/* Does the caller have this right? For parts of an action that need a right of their own. ERROR_ACCESS_DENIED. */
enum error access_check_right(struct call *call, enum right right);

/* Is the namespace the caller's own? For actions that reach beyond a queue that a policy opens. `what` is its name in
 * the refusal. ERROR_ACCESS_DENIED. */
enum error access_check_owner(struct call *call, const char *what);

/* May the caller do it with the queue of that name? `queue` is NULL if there is none. ERROR_ACCESS_DENIED. */
enum error access_check_queue(struct call *call, struct bytes name, const struct queue *queue);

/* May a call that has waited for the queue go on? The answer may have changed since the call began.
 * ERROR_ACCESS_DENIED. */
enum error access_check_again(struct call *call, const struct queue *queue);

/* Do the caller's patterns cover the name? For lists, which leave out the other names. */
bool access_covers(const struct call *call, struct bytes queue_name);

#endif
