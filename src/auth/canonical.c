#include "auth/canonical.h"

/* --- the path ----------------------------------------------------------------------------------------------------- */

/* Takes the last segment off what was written since `start`. */
static void drop_segment(struct buffer *out, size_t start)
{
    size_t size = out->size;
    while (size > start && out->data_owned[size - 1] != '/')
        size--;
    buffer_truncate(out, size > start ? size - 1 : start);
}

static void add_segments(struct bytes path, struct buffer *out)
{
    size_t start = out->size;
    size_t end = 0;
    while (end < path.size) {
        size_t begin = end + 1; /* behind a slash */
        for (end = begin; end < path.size && path.ptr[end] != '/';)
            end++;
        struct bytes segment = bytes_make(path.ptr + begin, end - begin);
        if (bytes_equal(segment, BYTES(".."))) {
            drop_segment(out, start);
        } else if (segment.size > 0 && !bytes_equal(segment, BYTES("."))) {
            buffer_append_u8(out, '/');
            url_query_append_encoded(out, segment);
        }
    }
    if (out->size == start || path.ptr[path.size - 1] == '/')
        buffer_append_u8(out, '/');
}

void canonical_path(struct bytes path, struct buffer *out)
{
    if (path.size == 0)
        buffer_append_u8(out, '/');
    else if (path.ptr[0] == '/')
        add_segments(path, out);
    else
        url_query_append_encoded(out, path); /* the * of OPTIONS, or no path at all */
}

/* --- the headers -------------------------------------------------------------------------------------------------- */

/* Appends a value with each run of spaces in it made one. */
static void add_value(struct bytes value, struct buffer *out)
{
    uint8_t *at = buffer_reserve(out, value.size);
    uint8_t *start = at;
    for (size_t i = 0; i < value.size; i++)
        if (value.ptr[i] != ' ' || i == 0 || value.ptr[i - 1] != ' ')
            *at++ = value.ptr[i];
    out->size += (size_t)(at - start);
}

/* Appends "name:value,value…"; false if the request has none of that name. */
static bool add_header(const struct head *head, struct bytes name, struct buffer *out)
{
    size_t at = head_find(head, 0, name);
    if (at == head->count)
        return false;
    buffer_append_bytes(out, name);
    for (char separator = ':'; at < head->count; at = head_find(head, at + 1, name), separator = ',') {
        buffer_append_u8(out, (uint8_t)separator);
        add_value(head->fields_owned[at].value, out);
    }
    buffer_append_u8(out, '\n');
    return true;
}

static struct bytes take_name(struct bytes *list)
{
    const uint8_t *end = memchr(list->ptr, ';', list->size);
    struct bytes name = bytes_make(list->ptr, end == NULL ? list->size : (size_t)(end - list->ptr));
    *list = bytes_skip(*list, name.size + (end != NULL));
    return name;
}

/* What must be signed, because it says to whom the request goes and what it asks for. */
static enum error check_needed(const struct head *head, bool has_host, bool has_target, struct failure *failure)
{
    if (!has_host)
        return failure_set(failure, ERROR_INCOMPLETE_SIGNATURE, "'Host' must be a 'SignedHeader' in the signature.");
    if (!has_target && head_find(head, 0, BYTES("x-amz-target")) < head->count)
        return failure_set(failure, ERROR_INCOMPLETE_SIGNATURE,
                           "'X-Amz-Target' must be a 'SignedHeader' in the signature.");
    return OK;
}

enum error canonical_headers(const struct head *head, struct bytes signed_headers, struct buffer *out,
                             struct failure *failure)
{
    bool has_host = false, has_target = false;
    for (unsigned count = 0; signed_headers.size > 0; count++) {
        struct bytes name = take_name(&signed_headers);
        if (count == SIGNED_HEADERS_MAX)
            return failure_set(failure, ERROR_INCOMPLETE_SIGNATURE, "There are more than %u signed headers.",
                               SIGNED_HEADERS_MAX);
        if (!add_header(head, name, out))
            return failure_set(failure, ERROR_INVALID_SIGNATURE,
                               "The signature covers the header '%.*s', which the request does not have.",
                               (int)(name.size < 60 ? name.size : 60), (const char *)name.ptr);
        has_host = has_host || bytes_equal(name, BYTES("host"));
        has_target = has_target || bytes_equal(name, BYTES("x-amz-target"));
    }
    return check_needed(head, has_host, has_target, failure);
}
