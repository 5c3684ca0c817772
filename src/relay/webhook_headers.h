/* The headers that a row travels with to a web hook:
 *
 * - Idempotency-Key: the row's uid, the same at each attempt, for ever.
 * - Content-Type: the row's attribute of that name; else application/json if the body parses as JSON, else text/plain.
 * - Tally-Attempt: the number of this attempt, from 1, as far as this relay and a queue as the source know.
 * - Tally-Maybe-Duplicate: 1, where a request before this one may have arrived.
 * - Tally-Group, Tally-Queue: what the row says, where it does.
 * - Tally-Attribute-<Name>: each attribute of type String or Number, if its value is printable ASCII of at most 1,000
 *   characters. So are traceparent, tracestate and baggage, without the prefix.
 * - webhook-id, webhook-timestamp, webhook-signature: with a secret (webhook.h). */
#ifndef TALLY_RELAY_WEBHOOK_HEADERS_H
#define TALLY_RELAY_WEBHOOK_HEADERS_H

#include "relay/row.h"
#include "relay/webhook.h"

struct curl_slist;

struct webhook_attempt {
    unsigned number;         /* from 1 */
    bool is_maybe_duplicate; /* an earlier one may have arrived */
    uint64_t time_s;         /* of this attempt, since the epoch */
};

/* The caller frees the list with curl_slist_free_all(). `keys` of count 0: not signed. */
struct curl_slist *webhook_headers(const struct row *row, const struct webhook_attempt *attempt,
                                   const struct webhook_keys *keys);

#endif
