#include "base/quote.h"

#define ESCAPED_SIZE_MAX 6u

static const char hex_digits[] = "0123456789abcdef";

static bool needs_escape(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

/* Eight bytes at once: is none of them below 0x20, a quote or a backslash? (x - n) & ~x has a byte's top bit set where
 * the byte is below n, for n up to 0x80; a borrow can only make it err towards "perhaps", never towards "plain". */
static bool are_plain(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t quotes = word ^ ones * '"';
    uint64_t backslashes = word ^ ones * '\\';
    uint64_t found =
        ((word - ones * 0x20) & ~word) | ((quotes - ones) & ~quotes) | ((backslashes - ones) & ~backslashes);
    return (found & ones << 7) == 0;
}

static uint8_t *escape_byte(uint8_t *at, uint8_t byte)
{
    *at++ = '\\';
    switch (byte) {
    case '"':
    case '\\':
        *at++ = byte;
        return at;
    case '\n':
        *at++ = 'n';
        return at;
    case '\r':
        *at++ = 'r';
        return at;
    case '\t':
        *at++ = 't';
        return at;
    default:
        memcpy(at, "u00", 3);
        at[3] = (uint8_t)hex_digits[byte >> 4];
        at[4] = (uint8_t)hex_digits[byte & 15];
        return at + 5;
    }
}

/* How many bytes at the beginning need no escape. */
static size_t plain_size(struct bytes text)
{
    size_t plain = 0;
    while (plain + 8 <= text.size && are_plain(text.ptr + plain))
        plain += 8;
    while (plain < text.size && !needs_escape(text.ptr[plain]))
        plain++;
    return plain;
}

size_t quote_size(struct bytes text)
{
    uint8_t escaped[ESCAPED_SIZE_MAX];
    size_t size = 0;
    while (text.size > 0) {
        size_t plain = plain_size(text);
        size += plain;
        text = bytes_skip(text, plain);
        if (text.size == 0)
            break;
        size += (size_t)(escape_byte(escaped, text.ptr[0]) - escaped);
        text = bytes_skip(text, 1);
    }
    return size;
}

void quote_append(struct buffer *out, struct bytes text)
{
    buffer_append_u8(out, '"');
    while (text.size > 0) {
        size_t plain = plain_size(text);
        buffer_append(out, text.ptr, plain);
        text = bytes_skip(text, plain);
        if (text.size == 0)
            break;
        uint8_t *start = buffer_reserve(out, ESCAPED_SIZE_MAX);
        out->size += (size_t)(escape_byte(start, text.ptr[0]) - start);
        text = bytes_skip(text, 1);
    }
    buffer_append_u8(out, '"');
}

/* --- UTF-8 -------------------------------------------------------------------------------------------------------- */

static bool are_ascii(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

size_t quote_utf8_size(const uint8_t *at, size_t left)
{
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (size == 0 || size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool is_overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_surrogate = at[0] == 0xed && at[1] >= 0xa0;
    bool is_beyond = at[0] == 0xf4 && at[1] >= 0x90;
    return is_overlong || is_surrogate || is_beyond ? 0 : size;
}

bool quote_is_utf8(struct bytes text)
{
    for (size_t i = 0; i < text.size;) {
        while (i + 8 <= text.size && are_ascii(text.ptr + i))
            i += 8;
        if (i == text.size)
            break;
        size_t size = quote_utf8_size(text.ptr + i, text.size - i);
        if (size == 0)
            return false;
        i += size;
    }
    return true;
}
