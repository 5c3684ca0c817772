#include "core/event.h"

#include "base/assert.h"
#include "base/cursor.h"

#define ENCODE_U8(name) buffer_append_u8(out, fields->name);
#define ENCODE_U32(name) buffer_append_u32(out, fields->name);
#define ENCODE_U64(name) buffer_append_u64(out, fields->name);
#define ENCODE_RAW(name, size) buffer_append(out, fields->name, size);
#define ENCODE_TEXT(name) buffer_append_sized(out, fields->name);
#define ENCODE(KIND, kind, number)                                                                                     \
    static void encode_##kind(const struct event_##kind *fields, struct buffer *out)                                   \
    {                                                                                                                  \
        EVENT_FIELDS_##kind(ENCODE_U8, ENCODE_U32, ENCODE_U64, ENCODE_RAW, ENCODE_TEXT)                                \
    }
EVENT_LIST(ENCODE)

#define DECODE_U8(name) fields->name = cursor_u8(cursor);
#define DECODE_U32(name) fields->name = cursor_u32(cursor);
#define DECODE_U64(name) fields->name = cursor_u64(cursor);
#define DECODE_RAW(name, size) cursor_copy(cursor, fields->name, size);
#define DECODE_TEXT(name) fields->name = cursor_sized(cursor);
#define DECODE(KIND, kind, number)                                                                                     \
    static void decode_##kind(struct event_##kind *fields, struct cursor *cursor)                                      \
    {                                                                                                                  \
        EVENT_FIELDS_##kind(DECODE_U8, DECODE_U32, DECODE_U64, DECODE_RAW, DECODE_TEXT)                                \
    }
EVENT_LIST(DECODE)

void event_encode(const struct event *event, struct buffer *out)
{
    size_t start = out->size;
    buffer_append_u8(out, (uint8_t)event->kind);
    buffer_append_u32(out, 0);
    switch (event->kind) {
#define ENCODE_CASE(KIND, kind, number)                                                                                \
    case EVENT_##KIND:                                                                                                 \
        encode_##kind(&event->kind, out);                                                                              \
        break;
        EVENT_LIST(ENCODE_CASE)
    }
    size_t size = out->size - start - EVENT_HEADER_SIZE;
    ASSERT(size <= UINT32_MAX);
    bytes_put_u32(out->data_owned + start + 1, (uint32_t)size);
}

bool event_decode(struct bytes *source, struct event *event)
{
    struct cursor header = cursor_make(*source);
    unsigned kind = cursor_u8(&header);
    struct cursor body = cursor_make(cursor_sized(&header));
    if (header.is_failed)
        return false;
    struct event decoded;
    switch (kind) {
#define DECODE_CASE(KIND, kind, number)                                                                                \
    case EVENT_##KIND:                                                                                                 \
        decode_##kind(&decoded.kind, &body);                                                                           \
        break;
        EVENT_LIST(DECODE_CASE)
    default:
        return false;
    }
    if (!cursor_is_done(&body))
        return false;
    decoded.kind = (enum event_kind)kind;
    *event = decoded;
    *source = header.rest;
    return true;
}

const char *event_kind_name(unsigned kind)
{
    switch (kind) {
#define NAME_CASE(KIND, kind, number)                                                                                  \
    case EVENT_##KIND:                                                                                                 \
        return #kind;
        EVENT_LIST(NAME_CASE)
    default:
        return NULL;
    }
}
