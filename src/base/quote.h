/* Texts as JSON strings. */
#ifndef TALLY_BASE_QUOTE_H
#define TALLY_BASE_QUOTE_H

#include "base/buffer.h"

/* Appends `text` in quotes, with quotes, backslashes and control characters escaped. Other bytes are copied; nobody
 * checks here that they are UTF-8. */
void quote_append(struct buffer *out, struct bytes text);

/* How many bytes quote_append() appends between the quotes. */
size_t quote_size(struct bytes text);

/* Source: RFC 3629, section 4. */
bool quote_is_utf8(struct bytes text);

/* The size of the character that begins at `at`, of `left` bytes, at least one; 0 if it is no UTF-8. */
size_t quote_utf8_size(const uint8_t *at, size_t left);

#endif
