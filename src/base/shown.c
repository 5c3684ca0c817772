#include "base/shown.h"

#include "base/assert.h"
#include "base/quote.h"

/* Beyond ASCII. Source: Unicode, chapter 23.1 (control codes), 23.2 (line separators, U+200E and U+200F) and UAX 9,
 * section 2 (bidirectional formatting characters). */
static const struct {
    uint32_t first;
    uint32_t last;
} hidden[] = {{0x80, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

/* The character is of UTF-8, and has more than a byte. */
static uint32_t code_point_of(const uint8_t *at, size_t size)
{
    uint32_t code_point = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++)
        code_point = code_point << 6 | (at[i] & 0x3fu);
    return code_point;
}

static bool is_hidden(const uint8_t *at, size_t size)
{
    if (size == 1)
        return at[0] < ' ' || at[0] == 0x7f;
    const uint32_t code_point = code_point_of(at, size);
    for (size_t i = 0; i < ARRAY_LENGTH(hidden); i++)
        if (code_point >= hidden[i].first && code_point <= hidden[i].last)
            return true;
    return false;
}

struct bytes shown_take(struct bytes *text)
{
    ASSERT(text->size > 0);
    const uint8_t *at = text->ptr;
    const size_t size = quote_utf8_size(at, text->size);
    *text = bytes_skip(*text, size == 0 ? 1 : size);
    if (size == 0)
        return BYTES("?");
    return is_hidden(at, size) ? BYTES(" ") : bytes_make(at, size);
}

struct bytes shown_take_of_lines(struct bytes *text)
{
    const struct bytes first = bytes_make(text->ptr, 1);
    const struct bytes shown = shown_take(text);
    return first.ptr[0] == '\n' || first.ptr[0] == '\t' ? first : shown;
}

void shown_clean_lines(char *text)
{
    char *at = text;
    for (struct bytes rest = bytes_from_string(text); rest.size > 0;) {
        const struct bytes shown = shown_take_of_lines(&rest);
        memmove(at, shown.ptr, shown.size);
        at += shown.size;
    }
    *at = '\0';
}
