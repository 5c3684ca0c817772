/* Passing requests on: any node of a cluster answers, and one that does not serve what a request is about asks the
 * node that does.
 *
 * The other node gets the request as it came, with the client's Host, so that its signature holds, and one line more:
 * who passes it on, and a proof that this node knows the cluster's secret. Such a request is not passed on again. A
 * node that does not serve says so (Tally-Not-Owner), and the request is tried again, as it is where no connection
 * could be made, for at most FORWARD_WAIT_MS: during a takeover nobody serves. A request that was sent and not answered
 * is never repeated. Its client gets a 503, and decides, as it would have to if its own connection had broken. So does
 * one whose node has gone silent, or has not answered after a minute, which is longer than any long poll.
 *
 * Each namespace has an owner of its own, and a request goes to that of its namespace, whoever that is by then.
 *
 * Requests are copied, because one may have to be sent again to another node; the copies count as memory of replies.
 * One thread: the loop's. */
#ifndef TALLY_SERVER_FORWARD_H
#define TALLY_SERVER_FORWARD_H

#include "api/front.h"
#include "server/peer.h"
#include "server/pending_request.h"

#include <uv.h>

#define FORWARD_WAIT_MS 2000u
#define FORWARD_NODE_MAX 63u /* bytes of a node's name */

/* Who serves. */
enum forward_owner {
    FORWARD_TO_ADDRESS, /* a node with an address; it may be this one by now */
    FORWARD_LATER,      /* nobody, as far as is known */
    FORWARD_TO_NOBODY,  /* a node that has no address */
};

struct forward_target {
    char address[PEER_ADDRESS_SIZE];                     /* "10.0.0.2:9324", as peer_address_parse() takes it */
    char said[PEER_ADDRESS_SIZE + FORWARD_NODE_MAX + 4]; /* the node, for people: "two (10.0.0.2:9324)" */
    char trouble[160]; /* why it may be that nobody serves, as a sentence for clients; empty: nothing is known */
};

struct forward_options {
    const char *node;    /* this node's name; borrowed, as all of this */
    struct bytes secret; /* the cluster's; not empty */
    struct front *front; /* forms refusals, and takes what is finished */
    struct reply_budget *replies;
    const struct tls_context *tls; /* of TLS_FOR_NODES; NULL: nodes speak plain HTTP to each other */
    /* Who serves the namespace; into zeroed memory. The name is that of front_absent(). */
    enum forward_owner (*find_owner)(void *context, struct bytes name, struct forward_target *target);
    void (*report)(void *context, const char *text); /* something that an operator should read */
    void *context;
};

struct forwarder *forwarder_create(uv_loop_t *loop, const struct forward_options *options);

/* No request is with it any more; then the loop must run until it is empty, and behind that, forwarder_destroy(). */
void forwarder_close(struct forwarder *forwarder);
void forwarder_destroy(struct forwarder *forwarder);

/* Takes a request about a namespace that this node does not serve (front_absent()). It comes back through
 * front_take_finished(); until then it is PENDING_FORWARDED. False: it was not taken, because the owner has no address,
 * or because a node that this one does not trust has passed it on. */
bool forwarder_take(struct forwarder *forwarder, struct pending_request *pending, struct bytes name);

/* At the end of a turn of the loop: what was taken is written to the other nodes, those of a namespace at once. */
void forwarder_flush(struct forwarder *forwarder);

/* A namespace is served here from now on: requests that wait for it need not wait for the next look. */
void forwarder_note_served(struct forwarder *forwarder);

/* May the owner let a request that it has wait for what is not there yet? */
bool forwarder_may_wait(const struct pending_request *pending);

/* The client of a request that it has is gone. */
void forwarder_abandon(struct pending_request *pending);

/* Did a node of this cluster pass the request on? Then *is_https is that of the client's connection to it. */
bool forwarder_trusts(struct forwarder *forwarder, const struct request *request, bool *is_https);

/* A request has the header line of one that was passed on, and its proof is wrong: says so, once a minute. */
void forwarder_note_forged(struct forwarder *forwarder);

/* What /metrics says of it. */
void forwarder_write_metrics(const struct forwarder *forwarder, struct buffer *text);

#endif
