#include "base/error.h"

#include "base/assert.h"

#include <stdio.h>

/* The name is computed by the compiler; the builtin, unlike strchr(), is a constant expression. */
static const struct error_row rows[ERROR_COUNT] = {
#define ERROR_ROW(name, type, query, status, text)                                                                     \
    [ERROR_##name] = {__builtin_strchr(type, '#') + 1, type, query, status, text},
    ERROR_LIST(ERROR_ROW)
#undef ERROR_ROW
};

const struct error_row *error_row(enum error error)
{
    ASSERT(error > OK && error < ERROR_COUNT);
    return &rows[error];
}

/* Bytes of the UTF-8 character that begins at `text`, as its first byte says; 0 if it lacks one or begins in the middle. */
static size_t character_size(const char *text)
{
    const uint8_t lead = (uint8_t)text[0];
    const size_t size = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < size; i++)
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

/* Takes out what is left of characters that were cut, by the end of the text or by a precision (%.80s) in the middle of it:
 * an answer stays valid UTF-8. */
static void text_drop_partial_characters(char *text)
{
    char *end = text;
    while (*text != '\0') {
        const size_t size = character_size(text);
        memmove(end, text, size);
        end += size;
        text += size == 0 ? 1 : size;
    }
    *end = '\0';
}

enum error failure_set(struct failure *failure, enum error error, const char *format, ...)
{
    ASSERT(error > OK && error < ERROR_COUNT);
    if (failure == NULL)
        return error;
    failure->error = error;
    failure->text[0] = '\0';
    if (format == NULL)
        return error;
    va_list arguments;
    va_start(arguments, format);
    failure_set_list(failure, error, format, arguments);
    va_end(arguments);
    return error;
}

enum error failure_set_list(struct failure *failure, enum error error, const char *format, va_list arguments)
{
    ASSERT(error > OK && error < ERROR_COUNT);
    failure->error = error;
    int length = vsnprintf(failure->text, sizeof(failure->text), format, arguments);
    ASSERT(length >= 0);
    text_drop_partial_characters(failure->text);
    return error;
}
