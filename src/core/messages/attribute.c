#include "core/messages/attribute.h"

#define VALUE_TEXT 1u
#define VALUE_BINARY 2u

struct attribute attribute_text(struct bytes name, struct bytes value)
{
    return (struct attribute){.name = name, .type = BYTES("String"), .value = value};
}

void attribute_encode_all(const struct attribute *items, uint32_t count, struct buffer *out)
{
    buffer_append_u16(out, (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        buffer_append_sized(out, items[i].name);
        buffer_append_sized(out, items[i].type);
        buffer_append_u8(out, items[i].is_binary ? VALUE_BINARY : VALUE_TEXT);
        buffer_append_sized(out, items[i].value);
    }
}

struct attribute attribute_decode(struct cursor *cursor)
{
    struct attribute attribute = {.name = cursor_sized(cursor)};
    attribute.type = cursor_sized(cursor);
    attribute.is_binary = cursor_u8(cursor) == VALUE_BINARY;
    attribute.value = cursor_sized(cursor);
    return attribute;
}

struct bytes attribute_find(struct bytes encoded, struct bytes name)
{
    struct cursor cursor = cursor_make(encoded);
    const uint16_t count = encoded.size == 0 ? 0 : cursor_u16(&cursor);
    for (uint16_t i = 0; i < count; i++) {
        const struct attribute attribute = attribute_decode(&cursor);
        if (!cursor.is_failed && bytes_equal(attribute.name, name))
            return attribute.value;
    }
    return bytes_make(NULL, 0);
}

static void append_big_endian_sized(struct buffer *out, struct bytes value)
{
    uint8_t *size = buffer_extend(out, 4);
    for (unsigned i = 0; i < 4; i++)
        size[i] = (uint8_t)(value.size >> (24 - 8 * i));
    buffer_append_bytes(out, value);
}

void attribute_append_hashed(const struct attribute *attribute, struct buffer *out)
{
    append_big_endian_sized(out, attribute->name);
    append_big_endian_sized(out, attribute->type);
    buffer_append_u8(out, attribute->is_binary ? VALUE_BINARY : VALUE_TEXT);
    append_big_endian_sized(out, attribute->value);
}

void attribute_md5(const struct attribute *items, uint32_t count, struct digest *digest, struct buffer *scratch,
                   uint8_t md5[DIGEST_MD5_SIZE])
{
    memset(md5, 0, DIGEST_MD5_SIZE);
    if (count == 0)
        return;
    buffer_truncate(scratch, 0);
    for (uint32_t i = 0; i < count; i++)
        attribute_append_hashed(&items[i], scratch);
    digest_md5(digest, buffer_bytes(scratch), md5);
}
