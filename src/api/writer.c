#include "api/writer_xml.h"

#include "base/assert.h"
#include "base/base64.h"
#include "base/quote.h"
#include <stdio.h>
#include <stdlib.h>

struct writer writer_make(struct buffer *out)
{
    return (struct writer){.out = out};
}

struct writer_mark writer_mark(const struct writer *writer)
{
    return (struct writer_mark){.size = writer->out->size,
                                .depth = writer->xml == NULL ? 0 : writer->xml->depth,
                                .needs_comma = writer->needs_comma};
}

void writer_take_back(struct writer *writer, struct writer_mark mark)
{
    buffer_truncate(writer->out, mark.size);
    writer->needs_comma = mark.needs_comma;
    if (writer->xml != NULL)
        writer->xml->depth = mark.depth;
}

/* The text before every value: a comma unless it is the first, and its name if it has one. */
static void begin_value(struct writer *writer, const char *name)
{
    if (writer->xml != NULL) {
        writer_xml_begin_value(writer, name);
        return;
    }
    size_t name_size = name == NULL ? 0 : strlen(name);
    uint8_t *start = buffer_reserve(writer->out, name_size + 4);
    uint8_t *at = start;
    if (writer->needs_comma)
        *at++ = ',';
    writer->needs_comma = true;
    if (name != NULL) {
        *at++ = '"';
        memcpy(at, name, name_size);
        at += name_size;
        *at++ = '"';
        *at++ = ':';
    }
    writer->out->size += (size_t)(at - start);
}

static void end_value(struct writer *writer)
{
    if (writer->xml != NULL)
        writer_xml_end_value(writer);
}

/* JSON puts texts in quotes. */
static void append_quote(struct writer *writer)
{
    if (writer->xml == NULL)
        buffer_append_u8(writer->out, '"');
}

static void begin_nested(struct writer *writer, const char *name, uint8_t bracket)
{
    if (writer->xml != NULL) {
        writer_xml_begin_nested(writer, name, bracket == '[');
        return;
    }
    begin_value(writer, name);
    buffer_append_u8(writer->out, bracket);
    writer->needs_comma = false;
}

static void end_nested(struct writer *writer, uint8_t bracket)
{
    if (writer->xml != NULL) {
        writer_xml_end_nested(writer);
        return;
    }
    buffer_append_u8(writer->out, bracket);
    writer->needs_comma = true;
}

void writer_object_begin(struct writer *writer, const char *name)
{
    begin_nested(writer, name, '{');
}

void writer_object_end(struct writer *writer)
{
    end_nested(writer, '}');
}

void writer_list_begin(struct writer *writer, const char *name)
{
    begin_nested(writer, name, '[');
}

void writer_list_end(struct writer *writer)
{
    end_nested(writer, ']');
}

void writer_text(struct writer *writer, const char *name, struct bytes value)
{
    begin_value(writer, name);
    if (writer->xml != NULL)
        writer_xml_append(writer->out, value);
    else
        quote_append(writer->out, value);
    end_value(writer);
}

void writer_string(struct writer *writer, const char *name, const char *value)
{
    writer_text(writer, name, bytes_from_string(value));
}

void writer_number(struct writer *writer, const char *name, uint64_t value)
{
    begin_value(writer, name);
    buffer_append_decimal(writer->out, value);
    end_value(writer);
}

void writer_integer(struct writer *writer, const char *name, int64_t value)
{
    begin_value(writer, name);
    buffer_append_format(writer->out, "%lld", (long long)value);
    end_value(writer);
}

void writer_boolean(struct writer *writer, const char *name, bool value)
{
    begin_value(writer, name);
    buffer_append_bytes(writer->out, value ? BYTES("true") : BYTES("false"));
    end_value(writer);
}

void writer_real(struct writer *writer, const char *name, double value)
{
    char text[32];
    /* The shortest form that is read back as the same number. */
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    begin_value(writer, name);
    buffer_append_bytes(writer->out, bytes_from_string(text));
    end_value(writer);
}

void writer_json(struct writer *writer, const char *name, struct bytes json)
{
    ASSERT(writer->xml == NULL);
    begin_value(writer, name);
    buffer_append_bytes(writer->out, json);
    end_value(writer);
}

void writer_time(struct writer *writer, const char *name, uint64_t time_ms)
{
    begin_value(writer, name);
    buffer_append_format(writer->out, "%llu.%03u", (unsigned long long)(time_ms / 1000), (unsigned)(time_ms % 1000));
    end_value(writer);
}

void writer_hex(struct writer *writer, const char *name, struct bytes value)
{
    begin_value(writer, name);
    append_quote(writer);
    bytes_to_hex(value, (char *)buffer_extend(writer->out, value.size * 2));
    append_quote(writer);
    end_value(writer);
}

void writer_base64(struct writer *writer, const char *name, struct bytes value)
{
    begin_value(writer, name);
    append_quote(writer);
    size_t size = BASE64_TEXT_SIZE(value.size);
    base64_encode(BASE64_STANDARD, value, (char *)buffer_extend(writer->out, size));
    for (; size % 4 != 0; size++)
        buffer_append_u8(writer->out, '=');
    append_quote(writer);
    end_value(writer);
}

void writer_name(struct writer *writer, struct bytes name)
{
    if (writer->xml != NULL) {
        writer_xml_name(writer, name);
        return;
    }
    if (writer->needs_comma)
        buffer_append_u8(writer->out, ',');
    quote_append(writer->out, name);
    buffer_append_u8(writer->out, ':');
    writer->needs_comma = false;
}
