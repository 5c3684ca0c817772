#include "relay/step.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* How many bytes the character at `at` has, if it is one in UTF-8 that can be shown; 0: it is none. Reads no further
 * than a NUL. */
static size_t character_size(const uint8_t *at)
{
    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7f ? 1 : 0;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    uint32_t character = at[0] & (0xffu >> (size + 1));
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        character = character << 6 | (at[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0xa0, 0x800, 0x10000}; /* below 0xa0 stand more controls */
    bool is_one = at[0] >= 0xc2 && at[0] <= 0xf4 && character >= least[size] && character <= 0x10ffff &&
                  (character < 0xd800 || character > 0xdfff) && (character & 0xfffe) != 0xfffe;
    return is_one ? size : 0;
}

void text_make_plain(char *text)
{
    uint8_t *at = (uint8_t *)text;
    while (*at != '\0') {
        size_t size = character_size(at);
        if (size == 0)
            *at = *at == '\n' || *at == '\r' || *at == '\t' ? ' ' : '?';
        at += size == 0 ? 1 : size;
    }
}

enum step fault_set(struct fault *fault, enum step step, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof(fault->text), format, arguments);
    va_end(arguments);
    text_make_plain(fault->text);
    return step;
}
