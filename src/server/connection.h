/* A connection: reads requests, keeps them in order, writes replies, and cuts off clients that are too slow.
 *
 * Requests are handed on as they are read, also while replies to earlier ones are held for their frame (pipelining);
 * behind a request that waits for messages, reading goes on only to notice that the client has gone. Keep-alive lasts
 * until the client, a limit or an error in the HTTP itself ends it; errors of the api do not.
 *
 * A client that closes its sending side still gets what was finished; one that waited for messages is taken for gone,
 * because a message given to a closed socket would be lost until its visibility timeout.
 *
 * While the replies that exist take more memory than they may, or the disk is far behind (admission.h), a request is
 * put off: it stays in the input, nothing behind it is parsed, and it is begun when enough of that has gone. Nothing is
 * lost and nobody is refused; a client that closes its sending side meanwhile is taken for gone, and when the server
 * stops, what was not begun has no reply.
 *
 * How its bytes travel is the channel's business. */
#ifndef TALLY_SERVER_CONNECTION_H
#define TALLY_SERVER_CONNECTION_H

#include "server/hub.h"

#include <uv.h>

struct connection;

/* Takes the next connection of a listener of that kind. */
void connection_accept(struct hub *hub, uv_stream_t *listener, enum listener_kind kind);

/* Takes what the front has finished: each reply is held for its frame, or its connection is to be served. */
void connection_take_finished(struct hub *hub);

/* Has the connections served whose replies were held for frames that are durable now. */
void connection_take_durable(struct served *served);

/* Serves the connections that have something to write or to go on with; true if new requests came of it. */
bool connection_serve_ready(struct hub *hub);

/* Begins some of the requests that wait for memory of replies, as far as there is room by now: a turn of the loop must
 * not be theirs alone. */
void connection_begin_put_off(struct hub *hub);

/* Cuts off the connections whose time is over, and where replies take too much memory those that are slow to take
 * theirs. `now_ms` is the loop's time. */
void connection_check_deadlines(struct hub *hub, uint64_t now_ms);

/* Clean stop: no further request is read; each connection closes once its replies are written. */
void connection_stop_all(struct hub *hub);

/* Closes every connection as it is. */
void connection_close_all(struct hub *hub);

void connection_pool_deinit(struct hub *hub);

#endif
