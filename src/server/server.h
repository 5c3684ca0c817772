/* The server: one loop that accepts connections, hands requests to the api, and releases replies once their frames are
 * durable. Everything read in a turn of the loop goes into one frame:
 *
 *     bytes arrive       connection.c reads requests and submits them
 *     before it sleeps   finished exchanges are written or held, the api flushes its open frame to the log
 *     the log wakes it   replies held for durable frames are written
 *
 * Owns its handles on the given loop. Only its listeners and open connections keep the loop alive: when all are gone,
 * the loop ends by itself. Does not log, does not exit, installs no signal handler. */
#ifndef TALLY_SERVER_SERVER_H
#define TALLY_SERVER_SERVER_H

#include "server/options.h"
#include "server/served.h"

#include <uv.h>

struct forwarder;
struct server;
struct tls_context;

/* `options` is copied; what it points to, and the rest, is borrowed for the server's life. */
struct server *server_create(uv_loop_t *loop, const struct server_options *options, struct front *front,
                             const struct clock *clock);

/* Call it after server_run() has returned, or instead of it, and after namespace_close(), because that thread may still
 * wake the server. Runs the loop once more to close its handles. */
void server_destroy(struct server *server);

/* From now on it asks other nodes for what it does not serve. Borrowed until the server is destroyed. */
void server_set_forwarder(struct server *server, struct forwarder *forwarder);

/* The budget of replies, for what is made of it outside; there from server_create() to server_destroy(). */
struct reply_budget *server_replies(struct server *server);

/* What connections to other nodes use, for as long as the server is there; NULL: nodes speak plain HTTP. */
const struct tls_context *server_nodes_tls(const struct server *server);

/* Tells the loop that a frame has become durable or the log has failed; `server` is a struct server. Any thread, from
 * server_create() to server_destroy(). For namespace_options.wake. */
void server_wake(void *server);

/* Where its namespaces count the frames that wait for the disk. Requests wait while there are too many. For
 * namespace_options.backlog. */
struct frame_backlog *server_backlog(struct server *server);

/* From now on the namespace is served. Call it before server_listen(), or at any time after it. Its owner removes it
 * with served_deinit(), once the loop has ended or served_is_over(). Both are borrowed until then. */
void server_serve(struct server *server, struct served *served, struct namespace *ns);

/* When served_is_over(), while the loop goes on: served_deinit() and namespace_retire(), also where a client has not
 * taken its reply yet. */
void server_retire(struct server *server, struct served *served);

/* Opens the listeners. The errors of server_reload(); ERROR_SERVICE_UNAVAILABLE if an
 * address or a socket can't be used. */
enum error server_listen(struct server *server, struct failure *failure);

/* Opens one more listener, only for other threads of this process: a Unix socket at `path`, which is borrowed for the
 * server's life. Once, while it serves. ERROR_SERVICE_UNAVAILABLE if it can't be used, or if the server is stopping. */
enum error server_open_private(struct server *server, const char *path, struct failure *failure);

/* Reads the certificates for TLS again, for new connections. ERROR_INVALID_PARAMETER_VALUE if one can't be used: the
 * present one stays. Does nothing without TLS. */
enum error server_reload(struct server *server, struct failure *failure);

/* When the first of its certificates expires, in seconds since the epoch; 0: it has none. */
int64_t server_certificate_expires_at_s(const struct server *server);

/* For FeedEvents, of one namespace and of all: api_note_event() and front_notice(), and who waits for it is told. */
void server_note_event(struct server *server, struct served *served, const char *action, const char *text);
void server_notice(struct server *server, const char *action, const char *text);

/* Takes over what may change while it serves: ui, metrics_are_local and slow_request_ms. */
void server_adjust(struct server *server, const struct server_options *options);

/* From now on, refuses connections above this number; open ones stay. */
void server_set_connections_max(struct server *server, size_t connections_max);

/* Open connections, except those of LISTENER_PRIVATE. */
size_t server_connection_count(const struct server *server);

/* The port that a listener for TCP has; while it serves. */
uint16_t server_port(const struct server *server, enum listener_kind kind);

/* Clean stop: accepts nothing more, answers waiting receives and lets replies leave, for at most stop_timeout_ms. A
 * second call closes everything at once. */
void server_stop(struct server *server);

/* Runs the loop until a stop is over. An error comes from the log: held replies have not been sent, and the process
 * must end. */
enum error server_run(struct server *server, struct failure *failure);

#endif
