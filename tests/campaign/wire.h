/* The SQS protocol as far as a campaign speaks it: requests, sockets, and what is looked for in replies. */
#ifndef TALLY_CAMPAIGN_WIRE_H
#define TALLY_CAMPAIGN_WIRE_H

#include "http.h"
#include "text.h"

/* Of the monotonic clock. */
uint64_t clock_now_ms(void);

/* Makes *request the whole request; `target` with its prefix. */
void wire_request_write(struct text *request, const char *target, struct view body);

/* A connected socket, or -1 while nobody listens. */
int wire_connect(uint16_t port);

/* Writes all; false when the connection is over. */
bool wire_write(int fd, struct view bytes);

/* Adds what has come to `in`; false when the connection is over. */
bool wire_read(int fd, struct text *in);

/* One request on a connection of its own; waits for the daemon, at most 120 s, and for its answer. Returns the status;
 * the reply's body is in *reply. */
int wire_call(uint16_t port, const char *target, struct view body, struct text *reply);

/* The text value of the next `key` (with its quotes and colon) in *rest, which moves behind it; false where there is
 * none. */
bool wire_value_next(struct view *rest, struct view key, struct view *value);

/* A digest of a MessageId; never 0. */
uint32_t wire_digest(struct view text);

/* The decimal number that the text begins with; 0 where it doesn't. */
uint32_t wire_number(struct view text);

/* What follows `key` in a reply to a request of many entries, up to the other one. */
struct view wire_part(struct view body, struct view key, struct view other);

extern const struct view WIRE_SUCCESSFUL;
extern const struct view WIRE_FAILED;

#endif
