/* A ticket as files have it, on a line of JSON: {"key", "attrs", "need", "n", "prio", "ttl", "xid", "body"}, as `tally
 * pool simulate` reads it too (what else stands there, like the t of a recording, is passed over), or with the names of
 * OfferTickets. */
#ifndef TALLY_TALLY_TICKET_LINE_H
#define TALLY_TALLY_TICKET_LINE_H

#include "client/json.h"

/* Appends it to a list of OfferTickets. What is wrong with the line, or NULL; then nothing was appended. */
const char *ticket_line_add(const char *line, size_t size, struct json_body *body, yyjson_mut_val *list);

#endif
