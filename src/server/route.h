/* Where a complete request goes: to one of the server's own pages, to the api, or nowhere if the guard refuses
 * it. */
#ifndef TALLY_SERVER_ROUTE_H
#define TALLY_SERVER_ROUTE_H

#include "server/hub.h"

/* Answers the pending request, which came from that address through a listener of that kind, or hands it to the api.
 * Afterwards the request is PENDING_READY, or with the api (PENDING_IN_API, PENDING_SCRAPING), or with
 * another node (PENDING_FORWARDED). */
void route_request(struct hub *hub, struct pending_request *pending, const struct http *http, enum listener_kind kind,
                   struct bytes address);

/* In which line does the request wait while memory is scarce? /health, /live, /ready and /metrics, which operators
 * need to see it, have their own line. */
enum admission_line route_line(const struct hub *hub, const struct request *request, const struct http *http);

#endif
