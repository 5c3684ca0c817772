/* A connection: reads requests, keeps them in order, writes replies, and cuts off clients that are too slow.
 *
 * Requests are handed on as they are read, even while replies to earlier ones are held for their frame (pipelining).
 * After a request that waits for messages, reading goes on only to notice that the client has gone. Keep-alive lasts
 * until the client, a limit or an error in the HTTP itself ends it; errors of the api do not.
 *
 * A client that closes its sending side still gets its finished replies. If a request of it waits for messages, the
 * client counts as gone, because a message given to a closed socket would be lost until its visibility timeout.
 *
 * A request is put off while replies take more memory than they may, or the disk is far behind (admission.h). It stays
 * in the input, and nothing after it is parsed. It begins when there is room again. Nothing is lost and nobody is
 * refused. A client that closes its sending side meanwhile counts as gone. When the server stops, requests that have
 * not begun get no reply.
 *
 * The channel decides how the bytes travel. */
#ifndef TALLY_SERVER_CONNECTION_H
#define TALLY_SERVER_CONNECTION_H

#include "server/hub.h"

#include <uv.h>

struct connection;

/* Takes the next connection of a listener of that kind. */
void connection_accept(struct hub *hub, uv_stream_t *listener, enum listener_kind kind);

/* Takes the finished exchanges from the front: each reply is held for its frame, or its connection is to be served. */
void connection_take_finished(struct hub *hub);

/* Marks connections to be served if their replies were held for frames that are now durable. */
void connection_take_durable(struct served *served);

/* Serves the connections that have something to write or to continue; true if this brought new requests. */
bool connection_serve_ready(struct hub *hub);

/* Begins some of the requests that wait for memory of replies, as far as there is room. Not all, because a turn of the
 * loop must serve others, too. */
void connection_begin_put_off(struct hub *hub);

/* Cuts off the connections whose time is over. If replies take too much memory, also cuts off those that are slow to
 * take theirs. `now_ms` is the loop's time. */
void connection_check_deadlines(struct hub *hub, uint64_t now_ms);

/* Clean stop: no further request is read. Each connection closes once its replies are written. */
void connection_stop_all(struct hub *hub);

/* The log has failed. Whoever waits for a reply gets a 503 with this text, as far as its socket takes it at once. */
void connection_fail_all(struct hub *hub, const char *text);

/* Each request that the namespace has or has answered, and whose reply has not been written, gets a 503 with this text
 * instead. Nothing of the namespace is shown behind this. */
void connection_refuse_namespace(struct hub *hub, const struct api *api, const char *text);

/* The namespace goes, and all that it has decided is durable: replies that have not been written stay as they are, and
 * forget it. */
void connection_forget_namespace(struct hub *hub, const struct api *api);

/* Closes every connection in its present state. */
void connection_close_all(struct hub *hub);

/* The address of the client of an exchange, for the front (front_set_address_finder()). */
void connection_client_address(const struct exchange *exchange, char *text, size_t size);

void connection_pool_deinit(struct hub *hub);

#endif
