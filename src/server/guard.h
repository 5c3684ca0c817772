/* Keeps web pages away from a server that has no credentials.
 *
 * Everybody who can connect to such a server may do everything, and a browser on the same machine connects to whatever
 * a page names. So a request must name this server as its host (own_names.h), and must not come from a page of another
 * site. It checks:
 *
 *   Host             another name: DNS rebinding, where a page's own name points to this machine
 *   Origin           a form or a script of a page under another name
 *   Sec-Fetch-Site   what today's browsers add, also to images, frames and links
 *
 * A GET of an old browser has neither of the last two: what a GET may do is the api's business (api/access.h). */
#ifndef TALLY_SERVER_GUARD_H
#define TALLY_SERVER_GUARD_H

#include "api/exchange.h"
#include "server/own_names.h"

#define GUARD_HOST_SIZE 64u

struct guard {
    const struct own_names *names;
    uint8_t host[GUARD_HOST_SIZE]; /* the Host that passed last: most clients repeat it */
    size_t host_size;
};

/* `names` is borrowed for the guard's life. */
void guard_init(struct guard *guard, const struct own_names *names);

/* ERROR_ACCESS_DENIED, with a text for people. A request of HTTP/1.0 without Host passes, because no browser sends
 * one. */
enum error guard_check(struct guard *guard, const struct request *request, struct failure *failure);

/* The same for what says and does nothing, as the files of the dashboard: a link on a page may lead there, so only the
 * host counts. */
enum error guard_check_host(struct guard *guard, const struct request *request, struct failure *failure);

#endif
