#include "base/cursor.h"

struct bytes cursor_bytes(struct cursor *cursor, size_t size)
{
    const uint8_t *at = cursor_take(cursor, size);
    return at == NULL ? bytes_make(NULL, 0) : bytes_make(at, size);
}

struct bytes cursor_sized(struct cursor *cursor)
{
    uint32_t size = cursor_u32(cursor);
    return cursor_bytes(cursor, size);
}

void cursor_copy(struct cursor *cursor, void *out, size_t size)
{
    if (size == 0)
        return;
    const uint8_t *at = cursor_take(cursor, size);
    if (at == NULL)
        memset(out, 0, size);
    else
        memcpy(out, at, size);
}
