#include "worker/text.h"

#include "base/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *text_format(struct arena *arena, const char *format, ...)
{
    va_list arguments;
    int length;
    char *text;

    va_start(arguments, format);
    length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text = arena_allocate(arena, (size_t)length + 1);
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

/* Source: RFC 3629, section 4; U+FFFE and U+FFFF are refused by SQS. */
size_t text_character_size(const char *text)
{
    static const struct {
        uint8_t mask, lead, size;
        uint32_t min;
    } forms[] = {{0x80, 0x00, 1, 0x20}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}};
    uint8_t first = (uint8_t)*text;

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        uint32_t code = first & (uint8_t)~forms[i].mask;
        if ((first & forms[i].mask) != forms[i].lead)
            continue;
        for (size_t j = 1; j < forms[i].size; j++) {
            if (((uint8_t)text[j] & 0xC0) != 0x80)
                return 0;
            code = code << 6 | ((uint8_t)text[j] & 0x3F);
        }
        if (code < forms[i].min || code == 0x7F || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF) ||
            code == 0xFFFE || code == 0xFFFF)
            return 0;
        return forms[i].size;
    }
    return 0;
}

char *text_escape(const char *raw)
{
    char *escaped = memory_allocate(strlen(raw) * 3 + 1);
    char *at = escaped;

    while (*raw != '\0') {
        size_t size = *raw == '%' ? 0 : text_character_size(raw);
        if (size == 0) {
            at += snprintf(at, 4, "%%%02X", (uint8_t)*raw++);
            continue;
        }
        memcpy(at, raw, size);
        at += size;
        raw += size;
    }
    *at = '\0';
    return escaped;
}

bool text_is_escaped(const char *text)
{
    size_t size;
    while (*text != '\0' && (size = text_character_size(text)) > 0)
        text += size;
    return *text == '\0';
}

char *text_unescape(struct arena *arena, const char *escaped)
{
    char *raw = arena_allocate(arena, strlen(escaped) + 1);
    char *at = raw;

    while (*escaped != '\0' && strncmp(escaped, "%*", 2) != 0) {
        uint8_t byte;
        if (*escaped == '%' && strlen(escaped) >= 3 && bytes_from_hex(bytes_make(escaped + 1, 2), &byte, 1)) {
            *at++ = (char)byte;
            escaped += 3;
        } else {
            *at++ = *escaped++;
        }
    }
    *at = '\0';
    return raw;
}
