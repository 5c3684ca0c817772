/* The content of a message: everything for its receiver that never changes. It lies in the log, inside the `sent`
 * event; the index keeps its position and size.
 *
 * Encoded: u32 CRC-32C of the rest, id, MD5 of the body, MD5 of the attributes, then six texts (u32 size + bytes; the
 * sixth is absent in what the first version wrote). It has a checksum of its own because a receive reads the content
 * long after the frame around it was checked. */
#ifndef TALLY_CORE_MESSAGES_CONTENT_H
#define TALLY_CORE_MESSAGES_CONTENT_H

#include "base/buffer.h"
#include "core/digest.h"
#include "core/event.h"

struct content {
    uint8_t id[MESSAGE_ID_SIZE];             /* the MessageId, a UUID */
    uint8_t body_md5[DIGEST_MD5_SIZE];       /* as SQS shows it */
    uint8_t attributes_md5[DIGEST_MD5_SIZE]; /* of all attributes; zeros if there are none */
    struct bytes body;
    struct bytes attributes;    /* encoded by the api; the core never looks inside */
    struct bytes group;         /* MessageGroupId, or empty */
    struct bytes sender;        /* SenderId */
    struct bytes trace;         /* AWSTraceHeader, or empty */
    struct bytes deduplication; /* MessageDeduplicationId, or empty */
};

void content_encode(const struct content *content, struct buffer *out);

/* The views of *content point into `encoded`. False, with *content untouched, when the checksum or a size does not
 * fit. */
bool content_decode(struct bytes encoded, struct content *content);

/* The MessageId of message `number` with that content. One that is renamed (message.h) has an id of its number; but an
 * id that is not made of a number, like that of a match, stays the same wherever its message goes. */
void content_id(const struct content *content, uint64_t number, bool is_renamed, struct digest *digest,
                uint8_t id[MESSAGE_ID_SIZE]);

#endif
