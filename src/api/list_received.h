/* ListMessages in the form of a receive: GET or POST /_aws/sqs/messages, as programs ask LocalStack for what is in a
 * queue. Nothing is received. Private to src/api.
 *
 *     /_aws/sqs/messages?QueueUrl=URL                  or the same fields as a form
 *     /_aws/sqs/messages/REGION/NAMESPACE/NAME         whatever the region is
 *     an SDK's ReceiveMessage to the endpoint …/_aws/sqs/messages
 *
 * The reply is that of ReceiveMessage, in XML, or in JSON as LocalStack makes it of the XML. It has the messages that
 * could be received, with ShowInvisible those that somebody has, with ShowDelayed those that have to wait. What a
 * pause, a hold or a dependency keeps back is shown too: LocalStack has no such things. MaxResults, NextToken, and what
 * one page may cost are those of ListMessages. Source: LocalStack's documentation of SQS,
 * "Developer endpoints". */
#ifndef TALLY_API_LIST_RECEIVED_H
#define TALLY_API_LIST_RECEIVED_H

#include "api/received_view.h"

/* ShowInvisible and ShowDelayed: true, false, 1, 0, in any case. ERROR_INVALID_PARAMETER_VALUE. */
enum error list_received_read(struct call *call, struct received_look *look);

/* Is the message one to show? Notes in `look` how it is. O(1). */
bool list_received_takes(const struct call *call, const struct queue *queue, uint32_t slot, struct received_look *look);

void list_received_write(struct call *call, const struct queue *queue, uint32_t slot, const struct received_look *look);

#endif
