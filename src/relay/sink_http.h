/* A web hook as the sink: a POST for each row, its body as it is, its headers as webhook_headers.h says, and what
 * its end means as webhook_answer.h says.
 *
 * At-least-once: until the receiver has answered with 2xx or refused the row. A receiver that remembers
 * Idempotency-Key has one effect. At-most-once: a row leaves in one request, ever. What may have arrived and was not
 * answered is in doubt, for a human to decide; so is a row of which the caller says that somebody may have tried it
 * before.
 *
 * Up to WEBHOOK_REQUESTS_MAX requests are under way at once, of one group one after the other: the next leaves when
 * the one before is delivered. Of all these, WEBHOOK_CONNECTING_MAX at most have no connection yet. At-least-once
 * deliver() does not wait for a receiver that is slow with one group: it says "again" of what is under way, takes
 * the others, and finds the request that it left, or what that came to, when the row comes again.
 *
 * Nothing is sent through proxies of the environment, to other protocols than HTTP and HTTPS, or after a redirect. A
 * certificate must be vouched for by the system's authorities. */
#ifndef TALLY_RELAY_SINK_HTTP_H
#define TALLY_RELAY_SINK_HTTP_H

#include "relay/sink.h"
#include "relay/spec.h"

#define WEBHOOK_REQUESTS_MAX 16u
#define WEBHOOK_CONNECTING_MAX 4u /* of these, look up the host or connect: both take several descriptors */
#define WEBHOOK_TIMEOUT_MS 10000u /* of a request, unless the spec says otherwise */

/* Never fails; a secret that can't be used is told by open(). The spec is copied as far as it is needed. */
struct sink *sink_http_create(const struct relay_spec *spec);

#endif
