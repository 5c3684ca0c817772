/* Who asks, and may they: the api's two questions to src/auth. Private to src/api.
 *
 * Without credentials nobody is asked who they are, the caller of a call is NULL, and everything is allowed. But a
 * GET only reads (GROWTH_READS) unless a program has signed it: the server's guard keeps web pages away, and a GET of
 * an old browser does not tell that a page is behind it. With them:
 *   - a credential's rights and patterns of queue names bound what it may do, everywhere;
 *   - on a queue of another namespace than its own, the queue's policy must allow the action too, and only actions that
 *     SQS lets owners share (the row's `shared_as`) can be allowed. Whether such a queue exists is not told to
 * others. */
#ifndef TALLY_API_ACCESS_H
#define TALLY_API_ACCESS_H

#include "api/action.h"

/* Verifies the signature of the request and notes whose it is in the call. Errors: see sigv4_verify(); none without
 * credentials. */
enum error access_identify(struct call *call);

/* `exchange` waits, and was signed when other credentials were in force: may it still, and whose is it now? Sets its
 * caller. Errors as sigv4_verify() would give them now. */
enum error access_renew(const struct front *front, struct exchange *exchange, struct failure *failure);

/* May the caller do this at all? ERROR_ACCESS_DENIED. */
enum error access_check_action(struct call *call);

/* Has the caller this right? For the parts of an action that need one of their own. ERROR_ACCESS_DENIED. */
enum error access_check_right(struct call *call, enum right right);

/* Is the namespace the caller's own? For what reaches beyond a queue that a policy opens; `what` is what the refusal
 * calls it. ERROR_ACCESS_DENIED. */
enum error access_check_owner(struct call *call, const char *what);

/* May the caller do it with the queue of that name? `queue` is NULL where there is none. ERROR_ACCESS_DENIED. */
enum error access_check_queue(struct call *call, struct bytes name, const struct queue *queue);

/* May a call that has waited for the queue go on? What was true when it began may not be now. ERROR_ACCESS_DENIED. */
enum error access_check_again(struct call *call, const struct queue *queue);

/* Do the caller's patterns cover the name? For lists, which leave out the rest. */
bool access_covers(const struct call *call, struct bytes queue_name);

#endif
