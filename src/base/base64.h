/* Base64 without padding, in either alphabet. Source: RFC 4648, sections 4 and 5. */
#ifndef TALLY_BASE_BASE64_H
#define TALLY_BASE_BASE64_H

#include "base/bytes.h"

enum base64_alphabet { BASE64_STANDARD, BASE64_URL };

/* How many digits encode `size` bytes, and how many bytes `size` digits give. */
#define BASE64_TEXT_SIZE(size) (((size)*8 + 5) / 6)
#define BASE64_DATA_SIZE(text_size) ((text_size)*6 / 8)

/* Writes BASE64_TEXT_SIZE(data.size) digits. */
void base64_encode(enum base64_alphabet alphabet, struct bytes data, char *text);

/* Writes BASE64_DATA_SIZE(text.size) bytes. *spare_bits: the bits of the last digit behind the data; base64_encode()
 * writes 0 there. False if the text has other characters, or a size that no data gives. */
bool base64_decode(enum base64_alphabet alphabet, struct bytes text, uint8_t *data, unsigned *spare_bits);

#endif
