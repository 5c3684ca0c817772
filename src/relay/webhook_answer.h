/* What the end of a request to a web hook means for its row, and for all that would go there next.
 *
 * | end | at-least-once | at-most-once | the receiver is left alone |
 * |---|---|---|---|
 * | 2xx | delivered | delivered | |
 * | 400, 413, 415, 422, 431: this message | refused | refused | |
 * | 429: not now | retry | retry | yes |
 * | 301, 307, 308, 401, 403, 404, 405, 410, any other 4xx: not so | retry | retry | yes |
 * | any other 3xx: not so, and perhaps it was done | retry, may have arrived | refused | yes |
 * | 503 | retry, may have arrived | refused | yes |
 * | 408, 409, 425, any other 5xx | retry, may have arrived | refused | at-most-once, if 5xx |
 * | no answer to a request that was sent | retry, may have arrived | in doubt | |
 * | no connection: no byte was sent | retry | retry | yes |
 *
 * Only an answer that speaks of the message is held against it (P14). A wrong address or right is for an operator to
 * put right: all rows would meet it, so they wait, and the relay asks again and again, with one request. Standard
 * Webhooks 1.0.0, "Delivery success and failure", wants that of 410 (send no more), 429 and 3xx; a closed list of what
 * speaks of the message leaves every status that nobody thought of with those that lose nothing. At-most-once a row
 * that was turned away is sent again, since nothing was done; what may have been done is not. Each answer then costs a
 * row, so one that may come of an outage makes the relay pause all the same.
 *
 * The status line is the answer: what becomes of the text behind it changes nothing. 409 is what receivers answer that
 * keep keys of idempotency and are still at the first request with this key. A redirect is no answer to follow: the
 * receiver could send the message, and the signature, to anybody; and 302 and 303 are what forms answer that did what
 * was asked. */
#ifndef TALLY_RELAY_WEBHOOK_ANSWER_H
#define TALLY_RELAY_WEBHOOK_ANSWER_H

#include "relay/sink.h"

#define WEBHOOK_TEXT_MAX 200u

/* A Retry-After beyond this is taken for so much: a receiver can't put a relay to sleep for a day by mistake. The relay
 * itself waits for less where the request may have arrived. */
#define WEBHOOK_RETRY_MAX_MS (10u * 60 * 1000)

struct webhook_end {
    int status;             /* of the answer; 0: there is none */
    bool was_sent;          /* a byte of the request may have arrived */
    uint64_t retry_after_s; /* what the answer asks for; 0: nothing */
    struct bytes text;      /* the beginning of the answer's body */
    const char *fault;      /* why there is no answer */
};

/* Sets verdict, may_have_arrived, retry_ms (if the receiver asked for it) and reason. True: the receiver is to be left
 * alone, that is, no other row is to be sent for a while. */
bool webhook_judge(const struct webhook_end *end, bool is_at_most_once, struct attempt *attempt);

#endif
