#include "api/text.h"

bool text_is_allowed(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
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
