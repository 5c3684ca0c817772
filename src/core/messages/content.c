#include "core/messages/content.h"

#include "base/crc32c.h"
#include "base/cursor.h"
#include "core/identity.h"

#define CHECKSUM_SIZE 4u

void content_encode(const struct content *content, struct buffer *out)
{
    size_t start = out->size;
    buffer_append_u32(out, 0);
    buffer_append(out, content->id, sizeof(content->id));
    buffer_append(out, content->body_md5, sizeof(content->body_md5));
    buffer_append(out, content->attributes_md5, sizeof(content->attributes_md5));
    buffer_append_sized(out, content->body);
    buffer_append_sized(out, content->attributes);
    buffer_append_sized(out, content->group);
    buffer_append_sized(out, content->sender);
    buffer_append_sized(out, content->trace);
    buffer_append_sized(out, content->deduplication);
    struct bytes rest = bytes_skip(buffer_bytes(out), start + CHECKSUM_SIZE);
    bytes_put_u32(out->data_owned + start, crc32c(0, rest));
}

bool content_decode(struct bytes encoded, struct content *content)
{
    struct cursor cursor = cursor_make(encoded);
    uint32_t checksum = cursor_u32(&cursor);
    if (cursor.is_failed || checksum != crc32c(0, cursor.rest))
        return false;
    struct content decoded;
    cursor_copy(&cursor, decoded.id, sizeof(decoded.id));
    cursor_copy(&cursor, decoded.body_md5, sizeof(decoded.body_md5));
    cursor_copy(&cursor, decoded.attributes_md5, sizeof(decoded.attributes_md5));
    decoded.body = cursor_sized(&cursor);
    decoded.attributes = cursor_sized(&cursor);
    decoded.group = cursor_sized(&cursor);
    decoded.sender = cursor_sized(&cursor);
    decoded.trace = cursor_sized(&cursor);
    decoded.deduplication = cursor.rest.size > 0 ? cursor_sized(&cursor) : bytes_make(NULL, 0);
    if (!cursor_is_done(&cursor))
        return false;
    *content = decoded;
    return true;
}

void content_id(const struct content *content, uint64_t number, bool is_renamed, struct digest *digest,
                uint8_t id[MESSAGE_ID_SIZE])
{
    if (is_renamed && identity_message_number(digest, content->id) != 0)
        identity_message(digest, number, id);
    else
        memcpy(id, content->id, MESSAGE_ID_SIZE);
}
