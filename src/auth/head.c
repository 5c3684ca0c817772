#include "auth/head.h"

#include "base/memory.h"
#include <stdlib.h>

void head_init(struct head *head)
{
    *head = (struct head){.fields_owned = NULL};
}

void head_deinit(struct head *head)
{
    free(head->fields_owned);
}

static bool is_blank(uint8_t character)
{
    return character == ' ' || character == '\t' || character == '\r';
}

static struct bytes trim(struct bytes text)
{
    while (text.size > 0 && is_blank(text.ptr[text.size - 1]))
        text.size--;
    while (text.size > 0 && is_blank(text.ptr[0]))
        text = bytes_skip(text, 1);
    return text;
}

static void add_line(struct head *head, struct bytes line)
{
    const uint8_t *colon = memchr(line.ptr, ':', line.size);
    if (colon == NULL)
        return;
    ARRAY_GROW(head->fields_owned, head->count, head->capacity);
    size_t name_size = (size_t)(colon - line.ptr);
    head->fields_owned[head->count++] = (struct head_field){
        .name = bytes_make(line.ptr, name_size),
        .value = trim(bytes_skip(line, name_size + 1)),
    };
}

void head_read(struct head *head, struct bytes raw)
{
    head->count = 0;
    while (raw.size > 0) {
        const uint8_t *line_feed = memchr(raw.ptr, '\n', raw.size);
        size_t size = line_feed == NULL ? raw.size : (size_t)(line_feed - raw.ptr);
        if (size > 0)
            add_line(head, bytes_make(raw.ptr, size));
        raw = bytes_skip(raw, size + (line_feed != NULL));
    }
}

static uint8_t to_lower(uint8_t character)
{
    return character >= 'A' && character <= 'Z' ? character | 0x20 : character;
}

static bool name_equal(struct bytes a, struct bytes b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        if (to_lower(a.ptr[i]) != to_lower(b.ptr[i]))
            return false;
    return true;
}

size_t head_find(const struct head *head, size_t from, struct bytes name)
{
    while (from < head->count && !name_equal(head->fields_owned[from].name, name))
        from++;
    return from;
}
