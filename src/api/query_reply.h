/* The replies of AWS Query in JSON, for a client whose Accept says application/json: the content of the XML, in AWS's
 * shape.
 *
 * {"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":[…]},"ResponseMetadata":{"RequestId":"…"}}}: lists of
 * queues and of messages have lower-case names, and maps are lists of pairs. An absent member is null if SQS's model
 * has it. Source: replies of SQS to such requests, as programs in public repositories show and read them.
 *
 * ListMessages in the form of a receive (list_received.h) has the shape that LocalStack makes of the XML: a list of one
 * is its item, and what is absent stays so. */
#ifndef TALLY_API_QUERY_REPLY_H
#define TALLY_API_QUERY_REPLY_H

#include "api/exchange.h"

/* Turns the body of the reply, an object of AWS JSON, into the whole reply. `is_empty`: its action has no fields. */
void query_reply_wrap(struct exchange *exchange, bool is_empty);

/* Writes an error over the body. */
void query_reply_fail(struct exchange *exchange, const struct error_row *row, const char *text);

#endif
