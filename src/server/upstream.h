/* Connections to other nodes, on which requests are passed on, kept alive between them. A connection has one request at
 * a time, or several that may share it: those that came in one turn of the loop, with one key. They are written at
 * once, and their answers come in their order. So none may share that could keep the others waiting.
 *
 * What became of a request is one of four: it was answered; it was not sent, or not begun, and may be tried again; or
 * nobody knows, because the connection broke behind it, also where the other machine has said nothing for
 * UPSTREAM_SILENCE_MS. It is never sent twice here. An idle connection may turn out to be closed when a request is
 * written: that was not sent if not a byte was written.
 *
 * Where nodes have certificates, a request is written once each side has taken that of the other one. A connection on
 * which that fails has taken nothing.
 *
 * Of an answer its framing is judged, and that its status is a final one. One thread: the loop's. */
#ifndef TALLY_SERVER_UPSTREAM_H
#define TALLY_SERVER_UPSTREAM_H

#include "api/front.h"
#include "base/list.h"
#include "server/peer.h"
#include "server/tls.h"

#include <uv.h>

#define UPSTREAM_SILENCE_MS 3000u
#define UPSTREAM_READ_SIZE ((size_t)64 * 1024)
/* Connections that are being made at a time; further requests wait for the first that is free. With more handshakes, a
 * busy machine would be late with all of them, and give them all up. */
#define UPSTREAM_OPENING_MAX 512u
#define UPSTREAM_SHAKING_MAX 16u /* over TLS */
/* Requests that share a connection, and their bytes. A node reads more of a connection before it has answered. */
#define UPSTREAM_SHARED_MAX 32u
#define UPSTREAM_SHARED_SIZE_MAX ((size_t)64 * 1024)
#define UPSTREAM_SHARED_SLOTS 256u /* a power of two */

enum upstream_outcome {
    UPSTREAM_ANSWERED,
    UPSTREAM_NOT_SENT,
    UPSTREAM_NOT_BEGUN, /* it was behind one whose answer ended the connection */
    UPSTREAM_UNKNOWN,
};

/* An answer; borrowed until the callback returns. */
struct upstream_answer {
    struct foreign_reply reply;
    bool is_not_owner; /* Tally-Not-Owner: the node does not serve what the request is about */
};

struct upstream;
struct upstream_call; /* a request that is with a connection */

typedef void (*upstream_cb)(void *context, enum upstream_outcome outcome, const struct upstream_answer *answer);

struct upstreams {
    uv_loop_t *loop;
    struct list idle; /* the newest first */
    struct list busy;
    struct list unsent;                             /* busy ones that upstreams_flush() writes to */
    struct upstream *shared[UPSTREAM_SHARED_SLOTS]; /* by their keys: those that take more requests before that */
    size_t count;                                   /* open ones, and those that are being closed */
    size_t opening_count;                           /* those of them that can't take a request yet */
    uint64_t opened_total;                          /* connections that were begun */
    uint64_t written_total;                         /* writes of requests, of one or of several */
    uint64_t handshakes_failed;                     /* without a certificate, or with a wrong one, or no TLS */
    const struct tls_context *tls;                  /* borrowed; NULL: plain */
    struct reply_budget *replies;                   /* counts the answers while they are read; borrowed */
    size_t answer_size_max;                         /* bytes of an answer's body; beyond: UPSTREAM_UNKNOWN */
    void (*freed)(void *context);                   /* upstream_send() may find room again */
    void *context;
    char room[UPSTREAM_READ_SIZE]; /* for one read at a time: it is used up before the next */
};

/* In zeroed memory. `tls`: NULL, or of TLS_FOR_NODES, with a certificate by the first request. `freed` is called where
 * a request that found no room might find it; it must not send from inside. */
void upstreams_init(struct upstreams *upstreams, uv_loop_t *loop, const struct tls_context *tls,
                    struct reply_budget *replies, size_t answer_size_max, void (*freed)(void *context), void *context);

/* Closes all, without a word to those who wait. The loop must run once more. */
void upstreams_close(struct upstreams *upstreams);

/* Sends a request to a node that peer_may_try() has said yes of, at the next upstreams_flush(). `key`: it may share a
 * connection with others of that key; 0: it has one for itself. `request` must stay until `done` was called, which is
 * once, and never from inside this function. NULL: there is no socket for it, or too many connections are being made;
 * nothing is sent, and `done` is not called. Notes for the peer whether it was reached. */
struct upstream_call *upstream_send(struct upstreams *upstreams, struct peer *peer, uint64_t key, struct bytes request,
                                    upstream_cb done, void *context);

/* Writes the requests of this turn of the loop. A `done` that is called from inside says UPSTREAM_NOT_SENT. */
void upstreams_flush(struct upstreams *upstreams);

/* Its client has gone, or waits no longer: its `done` is not called any more, nor any other, and the call is gone.
 * Closes the connection if nobody else waits for it, so that the other node notices. */
void upstream_stop(struct upstream_call *call);

/* The same where the other node has not taken the connection for too long: closes it in any case, and calls `done` of
 * the others that wait for it with UPSTREAM_NOT_SENT. */
void upstream_give_up(struct upstream_call *call);

/* Was the request given out to be written, so that some of it may have gone? */
bool upstream_has_sent(const struct upstream_call *call);

/* Closes those that have been idle for longer. */
void upstreams_close_idle(struct upstreams *upstreams, uint64_t idle_ms);

#endif
