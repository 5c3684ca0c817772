/* What the end of a request to a web hook means for its row.
 *
 * | end | at-least-once | at-most-once |
 * |---|---|---|
 * | 2xx | delivered | delivered |
 * | 408, 409, 425, 429, 5xx | retry | refused |
 * | any other answer, redirects among them | refused | refused |
 * | no answer to a request that was sent | retry, may have arrived | in doubt |
 * | no connection: no byte was sent | retry | retry |
 *
 * The status line is the answer: what becomes of the text behind it changes nothing. 409 is what receivers answer that keep keys of
 * idempotency and are still at the first request with this key. A redirect is no answer to follow: the receiver could send the
 * message, and the signature, to anybody; the address is to be put right instead. */
#ifndef TALLY_RELAY_WEBHOOK_ANSWER_H
#define TALLY_RELAY_WEBHOOK_ANSWER_H

#include "relay/sink.h"

#define WEBHOOK_TEXT_MAX 200u

/* A Retry-After beyond this is taken for so much: a receiver can't put a relay to sleep for a day by mistake. The relay itself waits
 * for less where the request may have arrived. */
#define WEBHOOK_RETRY_MAX_MS (10u * 60 * 1000)

struct webhook_end {
    int status;             /* of the answer; 0: there is none */
    bool was_sent;          /* a byte of the request may have arrived */
    uint64_t retry_after_s; /* what the answer asks for; 0: nothing */
    struct bytes text;      /* the beginning of the answer's body */
    const char *fault;      /* why there is no answer */
};

/* Sets verdict, may_have_arrived, retry_ms (if the receiver asked for it) and reason. */
void webhook_judge(const struct webhook_end *end, bool is_at_most_once, struct attempt *attempt);

#endif
