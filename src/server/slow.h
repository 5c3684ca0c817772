/* How long requests take the server: the measuring, and what is said of those that take it long.
 *
 * From when a request was read whole until its reply goes to the socket. What a client takes to send it, or to take the
 * reply, does not count. A request that waits for something (a long poll, another node) counts from when that is over.
 * Both the histogram in /metrics and the slow requests have this time. It is that of the loop's clock (uv_hrtime()). */
#ifndef TALLY_SERVER_SLOW_H
#define TALLY_SERVER_SLOW_H

#include "server/hub.h"

/* It had to wait until it could begin, since then; and it is handed to an action, and when: that is returned. */
void slow_note_put_off(struct pending_request *pending, uint64_t since_ns);
uint64_t slow_note_begun(struct pending_request *pending);

/* An action has answered it, at once or behind a wait. */
void slow_note_decided(struct pending_request *pending);
void slow_note_waited(struct hub *hub, struct pending_request *pending);

/* Its reply may be written; and goes to the socket now. */
void slow_note_ready(struct hub *hub, struct pending_request *pending);
void slow_note_written(struct hub *hub, const struct pending_request *pending);

#endif
