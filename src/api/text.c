#include "api/text.h"

/* Eight bytes at once: is none of them a control character, or 0xEF, with which a forbidden code point would begin? A byte's
 * top bit is set in (x - n) & ~x where the byte is below n, for n up to 0x80; a borrow errs towards "perhaps". */
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
