#include "api/text.h"

#include "base/base64.h"

/* Checks eight bytes at once: is none of them a control character, or 0xEF, the first byte of a forbidden code point? A
 * byte's top bit is set in (x - n) & ~x if the byte is below n, for n up to 0x80. A borrow can only cause a false
 * "perhaps". */
static bool are_surely_allowed(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t starts = word ^ ones * 0xef;
    uint64_t found = ((word - ones * 0x20) & ~word) | ((starts - ones) & ~starts);
    return (found & ones << 7) == 0;
}

bool text_is_allowed(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        while (i + 8 <= text.size && are_surely_allowed(text.ptr + i))
            i += 8;
        if (i == text.size)
            break;
        uint8_t byte = text.ptr[i];
        if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')
            return false;
        /* U+FFFE and U+FFFF are EF BF BE and EF BF BF. */
        if (byte == 0xef && i + 2 < text.size && text.ptr[i + 1] == 0xbf && text.ptr[i + 2] >= 0xbe)
            return false;
    }
    return true;
}

bool text_is_identifier(struct bytes text, size_t size_max)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.ptr[i] <= ' ' || text.ptr[i] >= 0x7f)
            return false;
    return text.size >= 1 && text.size <= size_max;
}

bool text_is_printable(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.ptr[i] < ' ' || text.ptr[i] >= 0x7f)
            return false;
    return true;
}

#define SHOWN_SIZE_MAX 80u

struct bytes text_shown(struct bytes text)
{
    if (!text_is_printable(text))
        return BYTES("");
    return bytes_make(text.ptr, text.size < SHOWN_SIZE_MAX ? text.size : SHOWN_SIZE_MAX);
}

static bool is_word_character(uint8_t byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           byte == '_' || byte == '-';
}

bool text_is_word(struct bytes text, size_t size_max)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_word_character(text.ptr[i]))
            return false;
    return text.size >= 1 && text.size <= size_max;
}

/* --- letters of any language -------------------------------------------------------------------------------------- */

/* Ranges in which Unicode has no letters and no digits: controls, punctuation, symbols, private use. The ranges are
 * blocks: other characters in a block of letters pass. Ascending. */
static const struct {
    uint32_t first;
    uint32_t last;
} without_letters[] = {
    {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},       {0xbb, 0xbf},       {0xd7, 0xd7},        {0xf7, 0xf7},
    {0x2000, 0x206f}, {0x20a0, 0x20cf}, {0x2190, 0x245f},   {0x2500, 0x2bff},   {0x2e00, 0x2e7f},    {0x3000, 0x3004},
    {0x3008, 0x3020}, {0xd800, 0xf8ff}, {0xfe10, 0xfe6f},   {0xff00, 0xff0f},   {0xff1a, 0xff20},    {0xff3b, 0xff40},
    {0xff5b, 0xff65}, {0xffe0, 0xffff}, {0x1d000, 0x1d24f}, {0x1f000, 0x1faff}, {0xe0000, 0x10ffff},
};

static bool is_letter(uint32_t code_point)
{
    if (code_point < 0x80)
        return is_word_character((uint8_t)code_point) && code_point != '_' && code_point != '-';
    for (size_t i = 0; i < sizeof(without_letters) / sizeof(without_letters[0]); i++)
        if (code_point >= without_letters[i].first && code_point <= without_letters[i].last)
            return false;
    return true;
}

/* Takes a code point off the front of valid UTF-8 text that is not empty. */
static uint32_t take_code_point(struct bytes *text)
{
    uint8_t first = text->ptr[0];
    size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t code_point = size == 1 ? first : first & (0x7fu >> size);
    for (size_t i = 1; i < size && i < text->size; i++)
        code_point = code_point << 6 | (text->ptr[i] & 0x3fu);
    *text = bytes_skip(*text, size < text->size ? size : text->size);
    return code_point;
}

/* Only letters, digits and these ASCII characters? */
static bool is_made_of_letters_and(struct bytes text, const char *others)
{
    while (text.size > 0) {
        uint32_t code_point = take_code_point(&text);
        if (!is_letter(code_point) &&
            (code_point >= 0x80 || code_point == 0 || strchr(others, (int)code_point) == NULL))
            return false;
    }
    return true;
}

size_t text_length(struct bytes text)
{
    size_t length = 0;
    for (; text.size > 0; length++)
        take_code_point(&text);
    return length;
}

bool text_is_tag(struct bytes text)
{
    return is_made_of_letters_and(text, " _.:/=+-@");
}

bool text_is_attribute_name(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_word_character(text.ptr[i]) && text.ptr[i] != '.')
            return false;
    return true;
}

/* --- base64 ------------------------------------------------------------------------------------------------------- */

bool text_from_base64(struct bytes text, struct arena *arena, struct bytes *value)
{
    while (text.size > 0 && text.ptr[text.size - 1] == '=' && text.size % 4 != 1)
        text.size--;
    size_t size = BASE64_DATA_SIZE(text.size);
    uint8_t *decoded = arena_allocate(arena, size);
    unsigned spare_bits; /* passed over */
    if (!base64_decode(BASE64_STANDARD, text, decoded, &spare_bits))
        return false;
    *value = bytes_make(decoded, size);
    return true;
}
