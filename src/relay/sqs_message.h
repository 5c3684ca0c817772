/* The answer of a ReceiveMessage by the SQS protocol, message by message. Pure. */
#ifndef TALLY_RELAY_SQS_MESSAGE_H
#define TALLY_RELAY_SQS_MESSAGE_H

#include "relay/row.h"
#include <yyjson.h>

/* Reads a message as a row: without an id, its uid the MessageId, borrowed from the answer but for its attributes,
 * which are made in the arena. False: this can be no message, or it did not arrive whole; `reason` says why, and it
 * stays where it is. */
bool sqs_message_read(yyjson_val *message, struct arena *arena, struct row *row, char reason[ROW_REASON_SIZE]);

#endif
