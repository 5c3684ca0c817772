/* The calls of source_queue.c and its parts to a Tally, over libtally, with results as a relay needs them. */
#ifndef TALLY_RELAY_QUEUE_CALLS_H
#define TALLY_RELAY_QUEUE_CALLS_H

#include "client/json.h"
#include "relay/spec.h"
#include "tally/tally.h"

#define QUEUE_CALL_ENTRIES_MAX 10u

/* A client for the Tally of the spec, which tries each call once. NULL: `fault` says why. */
struct tally_client *queue_calls_connect(const struct relay_spec *spec, struct fault *fault);

/* What the client's last error, of a call about `queue`, means: somebody has to do something (the queue is missing,
 * rights), or wait. */
enum step queue_calls_judge(const struct tally_client *client, const char *queue, struct fault *fault);

bool queue_calls_is_refused(const struct tally_client *client, const char *code);

/* Is a Commit of one message refused because of that very message, and would it be again? Everything else is of the
 * queue, of rights or of the server, and no message pays for it (P14). */
bool queue_calls_is_of_message(const struct tally_client *client);

/* DeleteMessageBatch, and ChangeMessageVisibilityBatch, for any number of handles: each a request for ten, as
 * queue_access_ops.remove and .hide. */
enum step queue_calls_delete(struct tally_client *client, const char *queue, const char *const *handles, size_t count,
                             struct fault *fault);
enum step queue_calls_hide(struct tally_client *client, const char *queue, const char *const *handles, size_t count,
                           unsigned visibility_s, bool *is_hidden, struct fault *fault);

#endif
