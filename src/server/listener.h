/* A listener: a TCP address or a Unix socket where connections come in.
 *
 * A Unix socket's file has mode 0660, that of a private one 0600. The file belongs to the listener and is removed with
 * it. A socket file that a dead process left behind is removed; one at which somebody listens is not. */
#ifndef TALLY_SERVER_LISTENER_H
#define TALLY_SERVER_LISTENER_H

#include "base/error.h"
#include "server/options.h"

#include <sys/types.h>
#include <uv.h>

struct listener {
    union {
        uv_handle_t any; /* its data is the context of listener_open() */
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } handle;
    enum listener_kind kind;
    const char *path; /* of the Unix socket; borrowed from the options */
    dev_t device;     /* of its file */
    ino_t inode;
    uint16_t port;
    bool is_open;
};

/* Listens; `options` has an address. ERROR_SERVICE_UNAVAILABLE if the address can't be used. In either case
 * listener_close() ends it, and its memory stays until the loop has run once more. */
enum error listener_open(struct listener *listener, uv_loop_t *loop, enum listener_kind kind,
                         const struct listener_options *options, uv_connection_cb on_connection, void *context,
                         struct failure *failure);

/* From then on nobody connects, not even to a child process that has a copy of the socket. Does nothing if it is not
 * open. */
void listener_close(struct listener *listener);

#endif
