/* The options of a server: where to listen, and every limit. */
#ifndef TALLY_SERVER_OPTIONS_H
#define TALLY_SERVER_OPTIONS_H

#include "base/buffer.h"
#include "base/error.h"
#include "server/tls_files.h"
#include "ui/ui.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct own_names;
struct served;

/* The kinds of listeners; a server has at most one of each. */
enum listener_kind {
    LISTENER_PLAIN,
    LISTENER_TLS,
    LISTENER_NODES, /* other nodes of the cluster, over TLS; they show certificates, too */
    LISTENER_UNIX,
    LISTENER_PRIVATE, /* a Unix socket for other threads of this process: server_open_private() */
    LISTENER_KIND_COUNT,
};

static inline bool listener_is_path(enum listener_kind kind)
{
    return kind == LISTENER_UNIX || kind == LISTENER_PRIVATE;
}

static inline bool listener_has_tls(enum listener_kind kind)
{
    return kind == LISTENER_TLS || kind == LISTENER_NODES;
}

struct listener_options {
    const char *address; /* an IP address, or the path of a Unix socket; NULL: there is none. Borrowed */
    uint16_t port;       /* 0: a free one */
};

/* Of a namespace. */
enum permission {
    PERMISSION_GIVEN,
    PERMISSION_PENDING, /* its replies wait; it is asked again every few milliseconds */
    PERMISSION_SILENT,  /* its log has not answered for so long that another process may own it, as `failure` says */
    PERMISSION_LOST,    /* this process does not own its log, or knows it wrongly: `failure` says why */
};

/* How much of what this node is for it serves itself, for /health and /ready. */
struct presence {
    bool stands_by;    /* it does not serve what it is for */
    size_t namespaces; /* all that there are */
    size_t served;
    size_t followed;   /* on their way to be served, as soon as their owners go */
    bool is_reachable; /* where their logs are, as far as is known */
    bool knows_owners; /* requests are answered or can be passed on, about one of them at least */
};

struct server_options {
    struct listener_options listeners[LISTENER_KIND_COUNT];
    struct tls_files tls;   /* for LISTENER_TLS: read at the start and by server_reload(); borrowed */
    struct tls_files nodes; /* the same for LISTENER_NODES */
    const char *node_host;  /* by which other nodes reach this one; with LISTENER_NODES */

    /* Used while there are no credentials; borrowed. NULL: only the names that it always has. */
    const struct own_names *names;

    enum ui_mode ui;        /* is the dashboard served? */
    bool metrics_are_local; /* GET /metrics is answered to clients on this machine only */

    size_t connections_max;    /* above: 503, and the connection is closed; connections of LISTENER_PRIVATE don't
                                * count */
    size_t pipelined_max;      /* requests of one connection whose replies have not left; at the limit, reading waits */
    size_t pipelined_size_max; /* the same in bytes of replies */
    size_t head_size_max;      /* bytes of request line and header fields */
    size_t body_size_max;      /* bytes; at most HTTP_BODY_SIZE_LIMIT */
    size_t input_memory_max;   /* bytes of requests, beyond 16 KiB of each; above: 503, if the others hold so much */
    size_t reply_memory_max;   /* bytes of replies that have not left; above: requests wait, and slow readers are cut
                                * off */

    uint64_t idle_timeout_ms;    /* between a reply and the next request */
    uint64_t request_timeout_ms; /* from the first byte of a request to its last */
    uint64_t reply_timeout_ms;   /* how long a client may need to take a reply */
    uint64_t linger_timeout_ms;  /* for this long, bytes from a refused client are read and thrown away */
    uint64_t stop_timeout_ms;    /* a clean stop waits this long for replies to leave */

    uint64_t slow_request_ms; /* a request that takes so long is noted, and reported; 0: none is */

    void (*report)(void *context, const char *text); /* reports something that an operator should read; not NULL */
    void *report_context;

    /* NULL: everything may be answered, and a log that fails ends the server. Else asked before anything of a namespace
     * is answered. One whose log is silent, or that is lost, as where its log has failed, goes and the others stay: the
     * front has it no more, and who waited for it has been refused, when lose() is called from the loop, with the one
     * or the other. */
    enum permission (*may_answer)(void *context, const struct served *served, struct failure *failure);
    void (*lose)(void *context, struct served *served, enum permission why, const struct failure *failure);
    /* NULL: it serves all that there is. */
    struct presence (*presence)(void *context);
    void *namespaces_context;

    void (*write_metrics)(void *context, struct buffer *text); /* more metrics, about the whole process; NULL: none */
    void *metrics_context;
};

/* This many connections above the limit get an answer; further ones are closed without one. */
static inline size_t connections_refused_max(size_t connections_max)
{
    return connections_max / 8 < 64 ? connections_max / 8 + 1 : 64;
}

/* The documented limits; no listener, no report function. */
void server_options_init(struct server_options *options);

#endif
