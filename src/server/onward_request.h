/* A request as another node gets it: as it came, so that its signature holds, but without the lines about the client's
 * connection, and with two that say who passes it on, and for whom. Several of them stand one behind the other on a
 * connection: each is one request to whoever parses it as this server does (tests/fuzz/fuzz_http.c). */
#ifndef TALLY_SERVER_ONWARD_REQUEST_H
#define TALLY_SERVER_ONWARD_REQUEST_H

#include "api/exchange.h"
#include "base/buffer.h"

/* Appends it; its head is at most HTTP_NODE_ADDS_MAX bytes longer. `node`, of at most FORWARD_NODE_MAX bytes, passes it
 * on, and `proof` shows that it may. */
void onward_request_write(struct buffer *out, const struct request *request, const char *node, const char *proof);

#endif
