/* A message to be sent, as JSON: shared by the calls that send. */
#ifndef TALLY_CLIENT_OUTGOING_H
#define TALLY_CLIENT_OUTGOING_H

#include "client/json.h"

/* Adds the members of a message (which has a body) to the object of a request. Borrows its strings. */
void outgoing_add(struct json_body *body, yyjson_mut_val *object, const struct tally_outgoing *message);

/* Reads what the server says of a message that was sent, or that was there. */
void outgoing_read_sent(yyjson_val *object, struct tally_sent *sent);

/* Can the server tell a repeat of this message from a second one? `object` is it in a request. */
bool outgoing_is_recognised(yyjson_val *object);

#endif
