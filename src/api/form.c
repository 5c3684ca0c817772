#include "api/form.h"

#include "base/assert.h"

/* Takes the text up to the next `end`, or all of it, off the front of *source. */
static struct bytes take_until(struct bytes *source, uint8_t end)
{
    const uint8_t *found = source->size == 0 ? NULL : memchr(source->ptr, end, source->size);
    size_t size = found == NULL ? source->size : (size_t)(found - source->ptr);
    struct bytes taken = bytes_make(source->ptr, size);
    *source = bytes_skip(*source, found == NULL ? size : size + 1);
    return taken;
}

/* A name or value with its escapes decoded. False if a percent sign is not followed by two hexadecimal digits. */
static bool decode(struct bytes text, struct arena *arena, struct bytes *decoded)
{
    if (memchr(text.ptr, '%', text.size) == NULL && memchr(text.ptr, '+', text.size) == NULL) {
        *decoded = text;
        return true;
    }
    uint8_t *start = arena_allocate(arena, text.size);
    uint8_t *at = start;
    for (size_t i = 0; i < text.size; i++) {
        if (text.ptr[i] != '%') {
            *at++ = text.ptr[i] == '+' ? ' ' : text.ptr[i];
            continue;
        }
        if (text.size - i < 3 || !bytes_from_hex(bytes_make(text.ptr + i + 1, 2), at, 1))
            return false;
        at++;
        i += 2;
    }
    *decoded = bytes_make(start, (size_t)(at - start));
    return true;
}

static enum error parse_fields(struct bytes text, struct arena *arena, struct failure *failure, struct form *form)
{
    while (text.size > 0) {
        struct bytes value = take_until(&text, '&');
        struct bytes name = take_until(&value, '=');
        if (name.size == 0)
            continue;
        if (form->count == FORM_FIELDS_MAX)
            return failure_set(failure, ERROR_SERIALIZATION, "The request has more than %u fields.", FORM_FIELDS_MAX);
        struct form_field *field = &form->fields[form->count];
        if (!decode(name, arena, &field->name) || (value.size > 0 && !decode(value, arena, &field->value)))
            return failure_set(failure, ERROR_SERIALIZATION,
                               "Field %zu of the request has a percent sign that is not followed by two hexadecimal "
                               "digits.",
                               form->count + 1);
        if (value.size == 0)
            field->value = BYTES("");
        form->count++;
    }
    return OK;
}

static size_t count_separators(struct bytes text)
{
    size_t count = 0;
    const uint8_t *at;
    while (text.size > 0 && (at = memchr(text.ptr, '&', text.size)) != NULL) {
        text = bytes_skip(text, (size_t)(at - text.ptr) + 1);
        count++;
    }
    return count;
}

enum error form_parse(struct bytes query, struct bytes body, struct arena *arena, struct failure *failure,
                      struct form *form)
{
    /* Each field has a separator before it, except the first field of each text. */
    size_t most = 2 + count_separators(query) + count_separators(body);
    if (most > FORM_FIELDS_MAX)
        most = FORM_FIELDS_MAX;
    *form = (struct form){.fields = arena_allocate(arena, most * sizeof(*form->fields))};
    enum error error = parse_fields(query, arena, failure, form);
    return error == OK ? parse_fields(body, arena, failure, form) : error;
}

struct bytes form_find(const struct form *form, struct bytes name)
{
    for (size_t i = 0; i < form->count; i++)
        if (bytes_equal(form->fields[i].name, name))
            return form->fields[i].value;
    return bytes_make(NULL, 0);
}
