#include "base/error.h"

#include "base/assert.h"

#include <stdarg.h>
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

/* Takes away the beginning of a UTF-8 character that has lost its end: an answer stays valid UTF-8 when it is cut. */
static void text_trim_partial_character(char *text, size_t size)
{
    size_t start = size;
    while (start > 0 && size - start < 3 && ((uint8_t)text[start - 1] & 0xc0) == 0x80) {
        start--;
    }
    if (start == 0) {
        return;
    }
    uint8_t lead = (uint8_t)text[start - 1];
    size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (size - (start - 1) < wanted) {
        text[start - 1] = '\0';
    }
}

enum error failure_set(struct failure *failure, enum error error, const char *format, ...)
{
    ASSERT(error > OK && error < ERROR_COUNT);
    if (failure == NULL) {
        return error;
    }
    failure->error = error;
    failure->text[0] = '\0';
    if (format == NULL) {
        return error;
    }
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(failure->text, sizeof(failure->text), format, arguments);
    va_end(arguments);
    ASSERT(length >= 0);
    if ((size_t)length >= sizeof(failure->text)) {
        text_trim_partial_character(failure->text, sizeof(failure->text) - 1);
    }
    return error;
}
