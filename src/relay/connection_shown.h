/* A PostgreSQL connection string as it may be shown to people: without passwords. */
#ifndef TALLY_RELAY_CONNECTION_SHOWN_H
#define TALLY_RELAY_CONNECTION_SHOWN_H

#include "base/buffer.h"

/* Appends what libpq reads out of the connection string, or URI, as keywords: "host=db user=app". What libpq calls a secret is left
 * out. One that libpq can't read is not shown at all, for nobody knows what part of it is one. */
void connection_show(const char *connection, struct buffer *text);

#endif
