/* Checks on texts that clients send. */
#ifndef TALLY_API_TEXT_H
#define TALLY_API_TEXT_H

#include "base/arena.h"

/* Only characters that SQS allows in a body: #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD, #x10000 to #x10FFFF.
 * `text` is valid UTF-8. */
bool text_is_allowed(struct bytes text);

/* 1 to size_max ASCII letters, digits or punctuation, no space: group ids, batch ids, tokens. */
bool text_is_identifier(struct bytes text, size_t size_max);

/* ASCII letters, digits, punctuation and spaces only. */
bool text_is_printable(struct bytes text);

/* The part of a client's text that a message may repeat: its first 80 bytes, or nothing if it is not printable. */
struct bytes text_shown(struct bytes text);

/* How many characters (code points) a valid UTF-8 text has. */
size_t text_length(struct bytes text);

/* Only characters that a tag may hold: letters and digits of any language, spaces and _ . : / = + - @. */
bool text_is_tag(struct bytes text);

/* Only characters that the name of a message attribute may hold: A-Z a-z 0-9 _ - and . */
bool text_is_attribute_name(struct bytes text);

/* 1 to size_max of A-Z a-z 0-9 _ - : queue names, ids of batch entries. */
bool text_is_word(struct bytes text, size_t size_max);

/* The decoded bytes of base64, with or without its padding, in the arena; false if it is not base64. */
bool text_from_base64(struct bytes text, struct arena *arena, struct bytes *value);

#endif
