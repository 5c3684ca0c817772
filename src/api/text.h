/* Checks on texts that clients send. */
#ifndef TALLY_API_TEXT_H
#define TALLY_API_TEXT_H

#include "base/bytes.h"

/* Only characters that SQS allows in a body: #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD, #x10000 to #x10FFFF.
 * `text` is valid UTF-8. */
bool text_is_allowed(struct bytes text);

/* 1 to size_max ASCII letters, digits or punctuation, no space: group ids, batch ids, tokens. */
bool text_is_identifier(struct bytes text, size_t size_max);

/* ASCII letters, digits, punctuation and spaces only. */
bool text_is_printable(struct bytes text);

/* 1 to size_max of A-Z a-z 0-9 _ - : queue names, ids of batch entries. */
bool text_is_word(struct bytes text, size_t size_max);

#endif
