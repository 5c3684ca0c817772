#include "base/error.h"

#include "base/assert.h"
#include "base/quote.h"

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

/* Removes bytes that are no UTF-8, so that a reply stays valid. Such bytes are the rest of a character that was cut, by
 * the end of the text or by a precision (%.80s), or come from the request that the text quotes. */
static void text_drop_invalid(char *text)
{
    size_t left = strlen(text);
    char *end = text;
    while (left > 0) {
        const size_t size = quote_utf8_size((const uint8_t *)text, left);
        const size_t taken = size == 0 ? 1 : size;
        memmove(end, text, size);
        end += size;
        text += taken;
        left -= taken;
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
    text_drop_invalid(failure->text);
    return error;
}
