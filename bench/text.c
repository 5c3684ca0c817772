#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void *allocate(size_t size)
{
    void *ptr = calloc(1, size > 0 ? size : 1);
    if (ptr == NULL)
        fatal("no memory for %zu bytes", size);
    return ptr;
}

uint64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void text_init(struct text *text)
{
    *text = (struct text){0};
    text_reserve(text, 256);
}

void text_deinit(struct text *text)
{
    free(text->ptr_owned);
    *text = (struct text){0};
}

void text_reserve(struct text *text, size_t extra)
{
    if (text->capacity - text->size >= extra)
        return;
    size_t capacity = 2 * text->capacity > text->size + extra ? 2 * text->capacity : text->size + extra;
    char *ptr = realloc(text->ptr_owned, capacity);
    if (ptr == NULL)
        fatal("no memory for %zu bytes", capacity);
    text->ptr_owned = ptr;
    text->capacity = capacity;
}

void text_append_format(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    text_reserve(text, (size_t)size + 1);
    va_start(arguments, format);
    vsnprintf(text->ptr_owned + text->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    text->size += (size_t)size;
}

bool view_text_next(struct view *rest, struct view key, struct view *value)
{
    const char *at = view_find(*rest, key);
    if (at == NULL)
        return false;
    struct view from = view_from(*rest, at + key.size);
    const char *end = memchr(from.ptr, '"', from.size);
    if (end == NULL)
        fatal("no end of the text behind %.*s", (int)key.size, key.ptr);
    *value = (struct view){from.ptr, (size_t)(end - from.ptr)};
    *rest = view_from(*rest, end);
    return true;
}

unsigned view_count(struct view view, struct view needle)
{
    unsigned count = 0;
    for (const char *at = view_find(view, needle); at != NULL; at = view_find(view, needle)) {
        count++;
        view = view_from(view, at + needle.size);
    }
    return count;
}
