/* From a message of a Tally queue to a row, and back. */
#ifndef TALLY_RELAY_QUEUE_ROW_H
#define TALLY_RELAY_QUEUE_ROW_H

#include "client/json.h"
#include "relay/row.h"
#include "tally/tally.h"

/* What stands with a message that was parked, besides its own attributes. */
#define PARKED_ERROR_ATTRIBUTE "Relay.Error"
#define PARKED_SOURCE_ATTRIBUTE "Relay.Source"
#define PARKED_DOUBT_ATTRIBUTE "Relay.Doubt"
/* Its own attributes as one JSON object, where there are too many for all. */
#define PARKED_PACKED_ATTRIBUTE "Relay.Attributes"

/* The message as a row, borrowed from it but for its attributes, which are made in the arena. The id is the number of
 * the delivery (Tally.FencingToken), which rises with each in the namespace; the uid is Tally.OutboxId, or the
 * MessageId. False: it is no message of a Tally. */
bool queue_row_read(const struct tally_message *message, struct arena *arena, struct row *row, struct uid *message_id);

/* Copies the MessageAttributes of a received message, as they stand in the answer, into row.attributes, but for those
 * that the receive itself adds. False: one has no type, no value, or a NUL in its name; *name is its name, borrowed. */
bool queue_row_copy_attributes(yyjson_val *map, struct arena *arena, struct bytes *attributes, const char **name);

/* How old a message is that was sent then, on the wall clock; 0: nobody says when. */
uint64_t queue_row_age_ms(uint64_t sent_at_ms);

/* Adds a send of the row to a request: QueueUrl, MessageBody, MessageGroupId, AWSTraceHeader, and the row's
 * attributes but for those that would do something again: count a unit, number a producer, wait. Returns its
 * MessageAttributes, to which the caller may add. */
yyjson_mut_val *queue_row_add(struct json_body *body, yyjson_mut_val *send, const char *queue, const struct row *row);

/* Adds an attribute of type String; in place of one of the same name. The text is copied. */
void queue_row_add_attribute(struct json_body *body, yyjson_mut_val *attributes, const char *name, const char *text);

#endif
