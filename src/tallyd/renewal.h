/* The credentials in force, and how newer ones take their place while the daemon serves. The namespaces that they name
 * come and go with them:
 *
 *   logs in folders      new credentials are in force once all their namespaces are served; those that they name no
 *                        more leave then (arrival.h, departure.h). One renewal at a time
 *   logs in PostgreSQL   they are in force at once, for a namespace may be another node's; it is followed from now on
 *                        (ownership.h)
 *
 * What can't be read or used changes nothing. One thread: the loop's. */
#ifndef TALLY_TALLYD_RENEWAL_H
#define TALLY_TALLYD_RENEWAL_H

#include "tallyd/arrival.h"
#include "tallyd/departure.h"
#include "tallyd/ownership.h"

/* The namespace that is served if no credentials name any. */
#define NAMESPACE_DEFAULT "000000000000"

struct renewal {
    const struct config *config; /* all borrowed */
    struct message_log *errors;
    struct front *front;
    struct server *server;
    struct relays *relays;
    struct descriptors *descriptors;
    struct namespaces *namespaces;
    struct ownership *ownership; /* of logs in PostgreSQL; NULL: they are in folders */

    struct credentials *credentials_owned; /* NULL: none are configured */
    struct credentials *new_owned;         /* read, but not in force until their namespaces are served; NULL: none */
    struct arrival arrival;                /* of those namespaces */
    struct departure departure;            /* of those that the credentials name no more */
    bool wants_renewal;                    /* one was asked for that has to wait for one of the two */
    bool is_ending;                        /* the daemon: nothing is renewed any more */
};

/* Reads the file of credentials, if one is configured, into credentials_owned. ERROR_INVALID_PARAMETER_VALUE. */
enum error renewal_read(struct renewal *renewal, struct failure *failure);

/* The namespaces that are to be served: what the credentials in force name, or the one that is served without any. For
 * the caller to free; its names are the credentials'. */
struct bytes *renewal_namespaces(const struct renewal *renewal, size_t *count);

/* For logs in folders: the server serves them, on this loop. */
void renewal_begin(struct renewal *renewal, uv_loop_t *loop);

/* The server runs no more. Waits for an arrival; behind relays_close(), the second closes what has left. */
void renewal_end(struct renewal *renewal, uv_loop_t *loop);
void renewal_close(struct renewal *renewal);

/* Reads the credentials again, now or as soon as the last renewal is over. */
void renewal_ask(struct renewal *renewal);

/* So many namespaces that the credentials name no more have gone, and their folders are closed. */
void renewal_note_departure(struct renewal *renewal, size_t count);

#endif
