/* Requests that take the server long: the measuring, and what is said of them.
 *
 * From when a request was read whole until its reply goes to the socket. What a client takes to send it, or to take the
 * reply, does not count. A request that waits for something (a long poll, another node) counts from when that is over.
 * Times are the low 32 bits of log time: differences are what counts. */
#ifndef TALLY_SERVER_SLOW_H
#define TALLY_SERVER_SLOW_H

#include "server/hub.h"

/* An action has answered it, at once or behind a wait. */
void slow_note_decided(struct hub *hub, struct pending_request *pending, uint64_t now_ms);
void slow_note_waited(struct hub *hub, struct pending_request *pending);

/* Its reply may be written; and goes to the socket now. */
void slow_note_ready(struct hub *hub, struct pending_request *pending);
void slow_note_written(struct hub *hub, const struct pending_request *pending);

#endif
