/* The relays of the daemon: started, paused and stopped as the namespaces' records say.
 *
 * A relay works in threads of its own (relay/relay.h). It uses queues of the daemon like any other client: over a Unix
 * socket in the data folder that nobody else may use, with a credential that nobody else knows. The socket is made when
 * a relay first needs it.
 *
 * A relay is started only if there are descriptors for everything that it may open. If there are too few for a recorded
 * relay, it waits for them, and its description says so. */
#ifndef TALLY_TALLYD_RELAYS_H
#define TALLY_TALLYD_RELAYS_H

#include "server/server.h"
#include "tallyd/descriptors.h"
#include "tallyd/namespaces.h"

struct relays;

/* `descriptors` is borrowed: relays take their share from it and give it back. */
struct relays *relays_create(struct descriptors *descriptors, void (*report)(void *context, const char *text),
                             void *context);

/* The api's interface to relays, for api_options; lives as long as the relays. */
const struct relay_control *relays_control(const struct relays *relays);

/* Starts the recorded relays, and follows the records from now on. Call it while the server serves; everything is
 * borrowed until relays_close(). `data` is the folder in which the socket is made. ERROR_INTERNAL_FAILURE: the system
 * does not know it. */
enum error relays_begin(struct relays *relays, uv_loop_t *loop, const struct namespaces *namespaces, const char *data,
                        struct failure *failure);

/* More namespaces are served now: starts their recorded relays. Not after relays_stop(). */
void relays_follow_namespaces(struct relays *relays);

/* The namespace is about to leave: its relays are asked to end, and no more of it are started. What they have in flight
 * is settled first, for which it must still be served. */
void relays_leave_namespace(struct relays *relays, struct opened_namespace *opened);
bool relays_have_left_namespace(const struct opened_namespace *opened);

/* They have left: frees what was known of them. */
void relays_forget_namespace(struct opened_namespace *opened);

/* Asks all relays to end, and starts no more. Calls `done` from the loop when none is left, perhaps at once. They first
 * settle what they have in flight, so the server must still serve. */
void relays_stop(struct relays *relays, void (*done)(void *context), void *context);

/* Those that run. */
size_t relays_running_count(const struct relays *relays);

/* Waits for those that have not ended yet. The loop must run once more before relays_destroy(). */
void relays_close(struct relays *relays);
void relays_destroy(struct relays *relays);

#endif
