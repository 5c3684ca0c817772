/* Connections to other nodes, on which requests are passed on: one request at a time on each, kept alive between them.
 *
 * What became of a request is one of three: it was answered; it was not sent, and may be tried again; or nobody knows,
 * because the connection broke behind it, also where the other machine has said nothing for UPSTREAM_SILENCE_MS. It is
 * never sent twice here: an idle connection that turns out to be closed when the request is written has taken none of
 * it only where not a byte was written.
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

enum upstream_outcome {
    UPSTREAM_ANSWERED,
    UPSTREAM_NOT_SENT,
    UPSTREAM_UNKNOWN,
};

/* An answer; borrowed until the callback returns. */
struct upstream_answer {
    struct foreign_reply reply;
    bool is_not_owner; /* Tally-Not-Owner: the node does not serve what the request is about */
};

struct upstream;

typedef void (*upstream_cb)(void *context, enum upstream_outcome outcome, const struct upstream_answer *answer);

struct upstreams {
    uv_loop_t *loop;
    struct list idle; /* the newest first */
    struct list busy;
    size_t count;                  /* open ones, and those that are being closed */
    size_t opening_count;          /* those of them that can't take a request yet */
    uint64_t opened_total;         /* connections that were begun */
    uint64_t handshakes_failed;    /* without a certificate, or with a wrong one, or no TLS */
    const struct tls_context *tls; /* borrowed; NULL: plain */
    struct reply_budget *replies;  /* counts the answers while they are read; borrowed */
    size_t answer_size_max;        /* bytes of an answer's body; beyond: UPSTREAM_UNKNOWN */
    void (*freed)(void *context);  /* upstream_send() may find room again */
    void *context;
    char room[UPSTREAM_READ_SIZE]; /* for one read at a time: it is used up before the next */
};

/* In zeroed memory. `tls`: NULL, or of TLS_FOR_NODES, with a certificate by the first request. `freed` is called where
 * a request that found no room might find it; it must not send from inside. */
void upstreams_init(struct upstreams *upstreams, uv_loop_t *loop, const struct tls_context *tls,
                    struct reply_budget *replies, size_t answer_size_max, void (*freed)(void *context), void *context);

/* Closes all, without a word to those who wait. The loop must run once more. */
void upstreams_close(struct upstreams *upstreams);

/* Sends a request to a node that peer_may_try() has said yes of. `request` must stay until `done` was called, which is
 * once, and never from inside this function. NULL: there is no socket for it, or too many connections are being made;
 * nothing was sent, and `done` is not called. Notes for the peer whether it was reached. */
struct upstream *upstream_send(struct upstreams *upstreams, struct peer *peer, struct bytes request, upstream_cb done,
                               void *context);

/* Its client has gone, or waits no longer: closes the connection. `done` is not called any more. */
void upstream_stop(struct upstream *upstream);

/* The same where the other node has not taken the connection for too long. */
void upstream_give_up(struct upstream *upstream);

/* Was anything of the request written? */
bool upstream_has_sent(const struct upstream *upstream);

/* Closes those that have been idle for longer. */
void upstreams_close_idle(struct upstreams *upstreams, uint64_t idle_ms);

#endif
