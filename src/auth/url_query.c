#include "auth/url_query.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

/* Characters that stand for themselves (RFC 3986, unreserved). */
static const bool is_unreserved[256] = {
    ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['0' ... '9'] = true, ['-'] = true,
    ['.'] = true,         ['_'] = true,         ['~'] = true,
};

#define ENCODED_SIZE_MAX 3u /* of one byte */

void url_query_init(struct url_query *query)
{
    *query = (struct url_query){.params_owned = NULL};
    buffer_init(&query->text);
}

void url_query_deinit(struct url_query *query)
{
    free(query->params_owned);
    buffer_deinit(&query->text);
}

static uint8_t *put_encoded(uint8_t *at, uint8_t byte)
{
    static const char digits[] = "0123456789ABCDEF";
    if (is_unreserved[byte]) {
        *at++ = byte;
        return at;
    }
    *at++ = '%';
    *at++ = (uint8_t)digits[byte >> 4];
    *at++ = (uint8_t)digits[byte & 15];
    return at;
}

void url_query_append_encoded(struct buffer *out, struct bytes text)
{
    uint8_t *at = buffer_reserve(out, ENCODED_SIZE_MAX * text.size);
    uint8_t *start = at;
    for (size_t i = 0; i < text.size; i++)
        at = put_encoded(at, text.ptr[i]);
    out->size += (size_t)(at - start);
}

/* Takes the next byte off a text in which %XX and + stand for others; a % that begins no escape stands for itself. */
static uint8_t take_decoded(struct bytes *text)
{
    uint8_t byte = text->ptr[0];
    if (byte == '%' && text->size >= 3 && bytes_from_hex(bytes_make(text->ptr + 1, 2), &byte, 1))
        *text = bytes_skip(*text, 3);
    else {
        byte = text->ptr[0] == '+' ? ' ' : text->ptr[0];
        *text = bytes_skip(*text, 1);
    }
    return byte;
}

/* Puts a text of the wire behind the others, in the form of signatures or as it is meant. There is room:
 * url_query_read() has seen to it, so that the views stay where they are. */
static struct bytes add_text(struct url_query *query, struct bytes wire, bool is_encoded)
{
    uint8_t *start = query->text.data_owned + query->text.size;
    uint8_t *at = start;
    while (wire.size > 0) {
        uint8_t byte = take_decoded(&wire);
        if (is_encoded)
            at = put_encoded(at, byte);
        else
            *at++ = byte;
    }
    query->text.size += (size_t)(at - start);
    ASSERT(query->text.size <= query->text.capacity);
    return bytes_make(start, (size_t)(at - start));
}

static void add_param(struct url_query *query, struct bytes wire)
{
    const uint8_t *equals = memchr(wire.ptr, '=', wire.size);
    size_t name_size = equals == NULL ? wire.size : (size_t)(equals - wire.ptr);
    ARRAY_GROW(query->params_owned, query->count, query->capacity);
    struct url_param *param = &query->params_owned[query->count++];
    struct bytes value = bytes_skip(wire, name_size + (equals != NULL));
    param->name = add_text(query, bytes_make(wire.ptr, name_size), true);
    param->value = add_text(query, value, true);
    param->plain = add_text(query, value, false);
}

static int compare_params(const void *left, const void *right)
{
    const struct url_param *a = left, *b = right;
    int order = bytes_compare(a->name, b->name);
    return order != 0 ? order : bytes_compare(a->value, b->value);
}

void url_query_read(struct url_query *query, struct bytes wire)
{
    query->count = 0;
    buffer_truncate(&query->text, 0);
    if (wire.size == 0)
        return;
    buffer_reserve(&query->text, (ENCODED_SIZE_MAX + 1) * wire.size); /* each value twice */
    while (wire.size > 0) {
        const uint8_t *ampersand = memchr(wire.ptr, '&', wire.size);
        size_t size = ampersand == NULL ? wire.size : (size_t)(ampersand - wire.ptr);
        if (size > 0)
            add_param(query, bytes_make(wire.ptr, size));
        wire = bytes_skip(wire, size + (ampersand != NULL));
    }
    if (query->count > 1)
        qsort(query->params_owned, query->count, sizeof(*query->params_owned), compare_params);
}

/* The first parameter that is not before `name`. */
static size_t lower_bound(const struct url_query *query, struct bytes name)
{
    size_t from = 0, to = query->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (bytes_compare(query->params_owned[middle].name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

size_t url_query_find(const struct url_query *query, struct bytes name, struct bytes *plain)
{
    size_t first = lower_bound(query, name), end = first;
    while (end < query->count && bytes_equal(query->params_owned[end].name, name))
        end++;
    *plain = first == end ? bytes_make(NULL, 0) : query->params_owned[first].plain;
    return end - first;
}

void url_query_append(const struct url_query *query, struct bytes but, struct buffer *out)
{
    bool is_first = true;
    for (size_t i = 0; i < query->count; i++) {
        const struct url_param *param = &query->params_owned[i];
        if (bytes_equal(param->name, but))
            continue;
        if (!is_first)
            buffer_append_u8(out, '&');
        is_first = false;
        buffer_append_bytes(out, param->name);
        buffer_append_u8(out, '=');
        buffer_append_bytes(out, param->value);
    }
}
