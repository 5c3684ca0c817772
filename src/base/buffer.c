#include "base/buffer.h"

#include "base/assert.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFER_CAPACITY_MIN 256
#define BUFFER_MOVED_MAX ((size_t)64 * 1024)

void buffer_init(struct buffer *buffer)
{
    *buffer = (struct buffer){0};
}

void buffer_deinit(struct buffer *buffer)
{
    free(buffer->data_owned);
    *buffer = (struct buffer){0};
}

void buffer_truncate(struct buffer *buffer, size_t size)
{
    ASSERT(size <= buffer->size);
    if (size < buffer->size)
        poison_put(buffer->data_owned + size, buffer->size - size + 1); /* with the spare byte */
    buffer->size = size;
}

void buffer_fit(struct buffer *buffer)
{
    if (buffer->capacity <= buffer->size + 1)
        return;
    if (buffer->size == 0) {
        buffer_deinit(buffer);
        return;
    }
    /* Small content moves: cut where it is, it would leave gaps behind it that are too small for what comes next. */
    struct buffer fitted = {.size = buffer->size, .capacity = buffer->size + 1};
    if (fitted.capacity > BUFFER_MOVED_MAX) {
        fitted.data_owned = memory_resize(buffer->data_owned, fitted.capacity);
    } else {
        fitted.data_owned = memory_allocate(fitted.capacity);
        memcpy(fitted.data_owned, buffer->data_owned, fitted.size);
        free(buffer->data_owned);
    }
    poison_put(fitted.data_owned + fitted.size, 1);
    *buffer = fitted;
}

void buffer_grow(struct buffer *buffer, size_t size)
{
    ASSERT(size < SIZE_MAX / 4 && buffer->size < SIZE_MAX / 4);
    size_t needed = buffer->size + size + 1; /* see buffer_reserve() for the one spare byte */
    size_t capacity = buffer->capacity == 0 ? BUFFER_CAPACITY_MIN : buffer->capacity * 2;
    if (capacity < needed)
        capacity = needed;
    buffer->data_owned = memory_resize(buffer->data_owned, capacity);
    buffer->capacity = capacity;
    poison_put(buffer->data_owned + buffer->size, capacity - buffer->size);
}

void buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    uint8_t *at = buffer_extend(buffer, size);
    if (size > 0)
        memcpy(at, data, size);
}

void buffer_append_bytes(struct buffer *buffer, struct bytes view)
{
    buffer_append(buffer, view.ptr, view.size);
}

void buffer_append_sized(struct buffer *buffer, struct bytes view)
{
    ASSERT(view.size <= UINT32_MAX);
    buffer_append_u32(buffer, (uint32_t)view.size);
    buffer_append(buffer, view.ptr, view.size);
}

void buffer_append_decimal(struct buffer *buffer, uint64_t value)
{
    char digits[20];
    size_t start = sizeof(digits);
    do {
        digits[--start] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buffer_append(buffer, digits + start, sizeof(digits) - start);
}

void buffer_append_format(struct buffer *buffer, const char *format, ...)
{
    uint8_t *at = buffer_reserve(buffer, 0);
    size_t room = buffer->capacity - buffer->size;
    poison_lift(at, room);

    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf((char *)at, room, format, arguments);
    va_end(arguments);
    ASSERT(length >= 0);

    if ((size_t)length >= room) {
        /* vsnprintf wants room for its NUL; the byte that buffer_reserve() keeps spare is that room. */
        at = buffer_reserve(buffer, (size_t)length);
        va_start(arguments, format);
        int again = vsnprintf((char *)at, (size_t)length + 1, format, arguments);
        va_end(arguments);
        ASSERT(again == length);
    }
    buffer->size += (size_t)length;
}
