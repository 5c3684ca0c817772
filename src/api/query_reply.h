/* The replies of AWS Query in JSON, for a client whose Accept says application/json: what XML says, in the shape
 * that AWS gives it.
 *
 * {"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":[…]},"ResponseMetadata":{"RequestId":"…"}}}: lists
 * of queues and of messages have names in lower case, maps are lists of pairs, and what is absent is null where
 * SQS's model has it.
 * Source: replies of SQS to such requests, as programs in public repositories show and read them. */
#ifndef TALLY_API_QUERY_REPLY_H
#define TALLY_API_QUERY_REPLY_H

#include "api/exchange.h"

/* The body of the reply, which is an object of AWS JSON, becomes the whole reply. `is_empty`: its action has no
 * fields. */
void query_reply_wrap(struct exchange *exchange, bool is_empty);

/* Writes an error over the body. */
void query_reply_fail(struct exchange *exchange, const struct error_row *row, const char *text);

#endif
