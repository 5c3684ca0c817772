/* A view of bytes that somebody else owns: text or binary, never relying on a closing NUL.
 *
 * Owns nothing. A function that takes a `struct bytes` borrows it for the call; a struct that keeps one says in its
 * comment for how long the bytes behind it live. */
#ifndef TALLY_BASE_BYTES_H
#define TALLY_BASE_BYTES_H

#include "base/poison.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const uint8_t *ptr;
    size_t size;
};

/* The bytes of a string literal, without its NUL. */
#define BYTES(literal) ((struct bytes){(const uint8_t *)("" literal), sizeof(literal) - 1})

/* For printf("%.*s"): both arguments at once. AddressSanitizer does not check what such a conversion reads, so this
 * does. */
#define BYTES_FORMAT(view) ((int)(view).size), ((const char *)poison_check((view).ptr, (view).size))

static inline struct bytes bytes_make(const void *ptr, size_t size)
{
    return (struct bytes){.ptr = ptr, .size = size};
}

static inline struct bytes bytes_from_string(const char *string)
{
    return bytes_make(string, strlen(string));
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.ptr, b.ptr, a.size) == 0);
}

static inline bool bytes_starts_with(struct bytes view, struct bytes prefix)
{
    return view.size >= prefix.size && (prefix.size == 0 || memcmp(view.ptr, prefix.ptr, prefix.size) == 0);
}

static inline bool bytes_ends_with(struct bytes view, struct bytes suffix)
{
    return view.size >= suffix.size &&
           (suffix.size == 0 || memcmp(view.ptr + view.size - suffix.size, suffix.ptr, suffix.size) == 0);
}

/* Only printable ASCII, and no blank. */
static inline bool bytes_is_graphic(struct bytes view)
{
    size_t i = 0;
    while (i < view.size && view.ptr[i] >= '!' && view.ptr[i] <= '~')
        i++;
    return i == view.size;
}

/* The view without its first `count` bytes; `count` is at most its size. */
static inline struct bytes bytes_skip(struct bytes view, size_t count)
{
    return count == 0 ? view : bytes_make(view.ptr + count, view.size - count);
}

/* The beginning of a text that is valid UTF-8: at most `size_max` bytes, without a part of a character at its end. */
static inline struct bytes bytes_cut_text(struct bytes text, size_t size_max)
{
    if (text.size <= size_max)
        return text;
    size_t size = size_max;
    while (size > 0 && (text.ptr[size] & 0xc0) == 0x80)
        size--;
    return bytes_make(text.ptr, size);
}

/* Unaligned little-endian access to bytes whose bounds the caller has already checked. Written byte by byte; compilers
 * make one move of each on a little-endian machine. */
static inline void bytes_put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void bytes_put_u32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
}

static inline void bytes_put_u64(uint8_t *at, uint64_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
    at[2] = (uint8_t)(value >> 16);
    at[3] = (uint8_t)(value >> 24);
    at[4] = (uint8_t)(value >> 32);
    at[5] = (uint8_t)(value >> 40);
    at[6] = (uint8_t)(value >> 48);
    at[7] = (uint8_t)(value >> 56);
}

static inline uint16_t bytes_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t bytes_get_u32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t bytes_get_u64(const uint8_t *at)
{
    return at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 |
           (uint64_t)at[5] << 40 | (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

/* Order by unsigned byte value, a prefix before what it begins: negative, zero or positive like memcmp. */
int bytes_compare(struct bytes a, struct bytes b);

/* Compares two views in a time that depends on their sizes only, not on their content; for signatures and checksums
 * that a client sends. Views of different sizes are unequal. */
bool bytes_equal_constant_time(struct bytes a, struct bytes b);

/* Reads a whole view as a canonical decimal number: digits only, no sign, no blank, no leading zero except "0" itself.
 * False, with *value untouched, if it is anything else or above UINT64_MAX. */
bool bytes_to_u64(struct bytes view, uint64_t *value);

/* Hash of the bytes for tables in memory (XXH3, 64 bits, fixed seed), but not of what clients choose: that is
 * digest_name() (core/digest.h). Never written to the log. */
uint64_t bytes_hash(struct bytes view);

/* Lower-case hexadecimal of `view` into `text`, which has room for 2 x view.size characters; writes no NUL. */
void bytes_to_hex(struct bytes view, char *text);

#define UUID_SIZE 16u
#define UUID_TEXT_SIZE 36u

/* "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", lower case, without a NUL; and back, false with `uuid` untouched if it is not
 * of that form. */
void uuid_to_text(const uint8_t uuid[UUID_SIZE], char text[UUID_TEXT_SIZE]);
bool uuid_from_text(struct bytes text, uint8_t uuid[UUID_SIZE]);

/* Reads 2 x `size` hexadecimal digits, of either case, the whole of `text`. False, with `out` undefined, if not. */
bool bytes_from_hex(struct bytes text, uint8_t *out, size_t size);

#endif
