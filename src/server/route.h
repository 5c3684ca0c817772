/* Where a whole request goes: the server's own two pages, the api, or nowhere. */
#ifndef TALLY_SERVER_ROUTE_H
#define TALLY_SERVER_ROUTE_H

#include "server/hub.h"

/* Answers the turn's request or hands it to the api. Afterwards the turn is TURN_READY, or with the api (TURN_IN_API). */
void route_request(struct hub *hub, struct turn *turn, const struct http *http);

/* Is the reply to it short? Such requests go on while memory for others' replies is scarce: what sends and what ends messages (where a header
 * says so; a Query says it in its body, which has not been read), /health, and /metrics, by which an operator sees it. */
bool route_is_brief(const struct request *request, const struct http *http);

#endif
