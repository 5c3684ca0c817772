/* Where a whole request goes: the server's own two pages, the api, or nowhere, where the guard lets it. */
#ifndef TALLY_SERVER_ROUTE_H
#define TALLY_SERVER_ROUTE_H

#include "server/hub.h"

/* Answers the request's request or hands it to the api. `is_from_network`: it came over TCP, as a browser's would.
 * Afterwards the request is PENDING_READY, or with the api (PENDING_IN_API). */
void route_request(struct hub *hub, struct pending_request *pending, const struct http *http, bool is_from_network);

/* In which line does the request wait where memory is scarce? /health and /metrics, by which an operator sees it, have
 * their own. */
enum admission_line route_line(const struct hub *hub, const struct request *request, const struct http *http);

#endif
