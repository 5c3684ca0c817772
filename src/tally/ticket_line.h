/* A ticket as a line of JSON in a file: {"key", "attrs", "need", "n", "prio", "ttl", "xid", "body"}, or with the names
 * of OfferTickets. `tally pool simulate` reads the same lines. Other members, like the t of a recording, are
 * ignored. */
#ifndef TALLY_TALLY_TICKET_LINE_H
#define TALLY_TALLY_TICKET_LINE_H

#include "client/json.h"

/* Appends it to a list of OfferTickets. Returns what is wrong with the line, or NULL; on an error nothing was
 * appended. */
const char *ticket_line_add(const char *line, size_t size, struct json_body *body, yyjson_mut_val *list);

#endif
