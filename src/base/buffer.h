/* A growing run of bytes: what replies, frames and snapshots are written into. Little-endian throughout.
 *
 * Owns its memory. Pointers into it are borrowed until the next append; truncated bytes must not be read (poison.h). */
#ifndef TALLY_BASE_BUFFER_H
#define TALLY_BASE_BUFFER_H

#include "base/bytes.h"

struct buffer {
    uint8_t *data_owned;
    size_t size;
    size_t capacity;
};

/* An empty buffer; allocates nothing until the first append. */
void buffer_init(struct buffer *buffer);
void buffer_deinit(struct buffer *buffer);

/* Forgets the content from `size` on; `size` is at most buffer->size. Keeps the memory. */
void buffer_truncate(struct buffer *buffer, size_t size);

/* Gives back the memory behind the content, but for the spare byte of buffer_reserve(). Pointers into it are dead. */
void buffer_fit(struct buffer *buffer);

/* The slow half of buffer_reserve(): makes room for `size` bytes and the spare one. */
void buffer_grow(struct buffer *buffer, size_t size);

/* Room for `size` more bytes at the end: returns where they go, not yet counted in buffer->size. Amortised O(1). */
static inline uint8_t *buffer_reserve(struct buffer *buffer, size_t size)
{
    /* One byte stays spare: the place returned is never NULL, even for no bytes in an empty buffer. */
    if (buffer->capacity - buffer->size <= size)
        buffer_grow(buffer, size);
    poison_lift(buffer->data_owned + buffer->size, size + 1);
    return buffer->data_owned + buffer->size;
}

/* `size` more bytes at the end, counted, content undefined: the caller fills them. */
static inline uint8_t *buffer_extend(struct buffer *buffer, size_t size)
{
    uint8_t *at = buffer_reserve(buffer, size);
    buffer->size += size;
    return at;
}

void buffer_append(struct buffer *buffer, const void *data, size_t size);
void buffer_append_bytes(struct buffer *buffer, struct bytes view);

static inline void buffer_append_u8(struct buffer *buffer, uint8_t value)
{
    *buffer_extend(buffer, 1) = value;
}

static inline void buffer_append_u16(struct buffer *buffer, uint16_t value)
{
    bytes_put_u16(buffer_extend(buffer, 2), value);
}

static inline void buffer_append_u32(struct buffer *buffer, uint32_t value)
{
    bytes_put_u32(buffer_extend(buffer, 4), value);
}

static inline void buffer_append_u64(struct buffer *buffer, uint64_t value)
{
    bytes_put_u64(buffer_extend(buffer, 8), value);
}

/* u32 size, then the bytes; the counterpart of cursor_sized(). */
void buffer_append_sized(struct buffer *buffer, struct bytes view);

/* Decimal digits of `value`, and printf-formatted text; for messages and JSON, not for formats. */
void buffer_append_decimal(struct buffer *buffer, uint64_t value);
void buffer_append_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct bytes buffer_bytes(const struct buffer *buffer)
{
    return bytes_make(buffer->data_owned, buffer->size);
}

#endif
