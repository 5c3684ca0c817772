/* Message attributes as the log has them, and the digest of them that SQS clients compare.
 *
 * Encoded, sorted by name: u16 count; each: sized name, sized data type, u8 1 (text) or 2 (binary), sized value.
 * Source: SQS developer guide, "Amazon SQS message metadata". */
#ifndef TALLY_CORE_MESSAGES_ATTRIBUTE_H
#define TALLY_CORE_MESSAGES_ATTRIBUTE_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "core/digest.h"

struct attribute {
    struct bytes name;
    struct bytes type;  /* with its label */
    struct bytes value; /* binary values decoded */
    bool is_binary;
};

/* A text, like Tally's own attributes. */
struct attribute attribute_text(struct bytes name, struct bytes value);

/* `items` are sorted by name, here and below. */
void attribute_encode_all(const struct attribute *items, uint32_t count, struct buffer *out);

/* Reads the next one, after the count. The cursor fails if there is none. */
struct attribute attribute_decode(struct cursor *cursor);

/* The value of the one with that name among them, from count to end; empty: there is none. */
struct bytes attribute_find(struct bytes encoded, struct bytes name);

/* Appends what SQS hashes of one attribute. */
void attribute_append_hashed(const struct attribute *attribute, struct buffer *out);

/* MD5OfMessageAttributes; zeros if there are none. `scratch` is overwritten. */
void attribute_md5(const struct attribute *items, uint32_t count, struct digest *digest, struct buffer *scratch,
                   uint8_t md5[DIGEST_MD5_SIZE]);

#endif
