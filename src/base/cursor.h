/* The one way to read bytes that come from outside (disk or wire): bounds-checked, little-endian, and sticky on error.
 *
 * A read past the end yields zeros and sets is_failed; the caller reads a whole record and asks once at its end. */
#ifndef TALLY_BASE_CURSOR_H
#define TALLY_BASE_CURSOR_H

#include "base/bytes.h"

struct cursor {
    struct bytes rest; /* borrowed from the caller of cursor_make */
    bool is_failed;
    void (*release)(void *context, const uint8_t *end); /* NULL: nobody asks, see cursor_release() */
    void *context;
};

static inline struct cursor cursor_make(struct bytes view)
{
    return (struct cursor){.rest = view, .is_failed = false};
}

/* Marks the cursor failed; for a decoder that finds a value out of its range. Nothing can be read after it. */
static inline void cursor_fail(struct cursor *cursor)
{
    cursor->rest.size = 0;
    cursor->is_failed = true;
}

/* Steps over `size` bytes and returns where they are; NULL, with the cursor failed, if fewer are left (and NULL without
 * failure for no bytes of a view that is NULL). The readers below are built on it. */
static inline const uint8_t *cursor_take(struct cursor *cursor, size_t size)
{
    if (cursor->rest.size < size) {
        cursor_fail(cursor);
        return NULL;
    }
    const uint8_t *at = cursor->rest.ptr;
    cursor->rest = bytes_skip(cursor->rest, size);
    return at;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
    const uint8_t *at = cursor_take(cursor, 1);
    return at == NULL ? 0 : *at;
}

static inline uint16_t cursor_u16(struct cursor *cursor)
{
    const uint8_t *at = cursor_take(cursor, 2);
    return at == NULL ? 0 : bytes_get_u16(at);
}

static inline uint32_t cursor_u32(struct cursor *cursor)
{
    const uint8_t *at = cursor_take(cursor, 4);
    return at == NULL ? 0 : bytes_get_u32(at);
}

static inline uint64_t cursor_u64(struct cursor *cursor)
{
    const uint8_t *at = cursor_take(cursor, 8);
    return at == NULL ? 0 : bytes_get_u64(at);
}

/* The next `size` bytes as a view into the source (empty on failure). */
struct bytes cursor_bytes(struct cursor *cursor, size_t size);

/* u32 size, then that many bytes: what buffer_append_sized() writes. */
struct bytes cursor_sized(struct cursor *cursor);

/* Copies the next `size` bytes to `out`; zeros on failure. */
void cursor_copy(struct cursor *cursor, void *out, size_t size);

/* Call it between records: from here on nobody reads the bytes before this position, not even through a view. Who lent
 * the bytes may give back the memory of those before `end`. */
static inline void cursor_release(const struct cursor *cursor)
{
    if (cursor->release != NULL)
        cursor->release(cursor->context, cursor->rest.ptr);
}

/* True when nothing failed and nothing is left: a record must end exactly where its length says. */
static inline bool cursor_is_done(const struct cursor *cursor)
{
    return !cursor->is_failed && cursor->rest.size == 0;
}

#endif
