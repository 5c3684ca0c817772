#include "api/writer_xml.h"

#include "base/assert.h"

#define REPLACEMENT "&#xFFFD;"

/* Lists and maps by the name of their member. */
static const struct row {
    const char *member;
    enum writer_xml_kind kind;
    const char *element; /* of each item or pair; NULL: the action's name, followed by `suffix` */
    const char *suffix;
    const char *key; /* of a pair's name; its value is always "Value" */
} rows[] = {
    {"Attributes", WRITER_XML_MAP, "Attribute", NULL, "Name"},
    {"MessageAttributes", WRITER_XML_MAP, "MessageAttribute", NULL, "Name"},
    {"Tags", WRITER_XML_MAP, "Tag", NULL, "Key"},
    {"Messages", WRITER_XML_LIST, "Message", NULL, NULL},
    {"QueueUrls", WRITER_XML_LIST, "QueueUrl", NULL, NULL},
    {"queueUrls", WRITER_XML_LIST, "QueueUrl", NULL, NULL},
    {"Successful", WRITER_XML_LIST, NULL, "ResultEntry", NULL},
    {"Failed", WRITER_XML_LIST, "BatchResultErrorEntry", NULL, NULL},
    {"Results", WRITER_XML_LIST, NULL, "ResultEntry", NULL},
    {"Queues", WRITER_XML_LIST, "Queue", NULL, NULL},
    {"Refusals", WRITER_XML_LIST, "Refusal", NULL, NULL},
};

static const struct row *find_row(const char *member)
{
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        if (member != NULL && strcmp(rows[i].member, member) == 0)
            return &rows[i];
    return NULL;
}

struct writer writer_xml_make(struct writer_xml *xml, struct buffer *out, const char *action)
{
    xml->action = action;
    xml->depth = 1;
    xml->levels[0] = (struct writer_xml_level){.kind = WRITER_XML_OBJECT};
    return (struct writer){.out = out, .xml = xml};
}

static struct writer_xml_level *top(const struct writer *writer)
{
    struct writer_xml *xml = writer->xml;
    ASSERT(xml->depth > 0 && xml->depth <= WRITER_XML_DEPTH_MAX);
    return &xml->levels[xml->depth - 1];
}

static void append_tag(struct buffer *out, const char *opening, const char *name, const char *suffix)
{
    buffer_append_bytes(out, bytes_from_string(opening));
    buffer_append_bytes(out, bytes_from_string(name));
    if (suffix != NULL)
        buffer_append_bytes(out, bytes_from_string(suffix));
    buffer_append_u8(out, '>');
}

/* The escape of the character that begins at text.ptr[at]; NULL: it stands for itself. *size: its number of bytes.
 * Control characters and the last two code points of the plane are not allowed in XML at all. No message has them, but
 * names and errors may repeat them. */
static const char *escape_of(struct bytes text, size_t at, size_t *size)
{
    uint8_t byte = text.ptr[at];
    *size = 1;
    switch (byte) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\r': /* a parser turns a bare one into a line feed, and the digest would no longer fit */
        return "&#xD;";
    case 0xef: /* U+FFFE and U+FFFF */
        *size = 3;
        return text.size - at >= 3 && text.ptr[at + 1] == 0xbf && text.ptr[at + 2] >= 0xbe ? REPLACEMENT : NULL;
    default:
        return byte < 0x20 && byte != '\t' && byte != '\n' ? REPLACEMENT : NULL;
    }
}

void writer_xml_append(struct buffer *out, struct bytes text)
{
    size_t start = 0, size;
    for (size_t i = 0; i < text.size; i++) {
        const char *escape = escape_of(text, i, &size);
        if (escape == NULL)
            continue;
        buffer_append(out, text.ptr + start, i - start);
        buffer_append_bytes(out, bytes_from_string(escape));
        start = i + size;
        i = start - 1;
    }
    buffer_append(out, text.ptr + start, text.size - start);
}

/* The element of a list's item or a map's pair if it is named after the action: <SendMessageBatchResultEntry>. */
static void append_item_tag(const struct writer *writer, const struct writer_xml_level *level, const char *opening)
{
    if (level->suffix != NULL)
        append_tag(writer->out, opening, writer->xml->action, level->suffix);
    else
        append_tag(writer->out, opening, level->element, NULL);
}

void writer_xml_name(struct writer *writer, struct bytes name)
{
    const struct writer_xml_level *level = top(writer);
    ASSERT(level->kind == WRITER_XML_MAP);
    append_item_tag(writer, level, "<");
    append_tag(writer->out, "<", level->key, NULL);
    writer_xml_append(writer->out, name);
    append_tag(writer->out, "</", level->key, NULL);
    append_tag(writer->out, "<", "Value", NULL);
}

void writer_xml_begin_value(struct writer *writer, const char *name)
{
    struct writer_xml_level *level = top(writer);
    switch (level->kind) {
    case WRITER_XML_OBJECT:
        ASSERT(name != NULL);
        level->open = name;
        append_tag(writer->out, "<", name, NULL);
        break;
    case WRITER_XML_LIST:
        append_item_tag(writer, level, "<");
        break;
    case WRITER_XML_MAP:
        if (name != NULL)
            writer_xml_name(writer, bytes_from_string(name));
        break;
    }
}

void writer_xml_end_value(struct writer *writer)
{
    const struct writer_xml_level *level = top(writer);
    switch (level->kind) {
    case WRITER_XML_OBJECT:
        append_tag(writer->out, "</", level->open, NULL);
        break;
    case WRITER_XML_LIST:
        append_item_tag(writer, level, "</");
        break;
    case WRITER_XML_MAP:
        append_tag(writer->out, "</", "Value", NULL);
        append_item_tag(writer, level, "</");
        break;
    }
}

void writer_xml_begin_nested(struct writer *writer, const char *name, bool is_list)
{
    const struct row *row = find_row(name);
    bool is_flat = is_list || (row != NULL && row->kind == WRITER_XML_MAP);
    if (!is_flat)
        writer_xml_begin_value(writer, name);
    struct writer_xml *xml = writer->xml;
    ASSERT(xml->depth < WRITER_XML_DEPTH_MAX);
    struct writer_xml_level *level = &xml->levels[xml->depth++];
    *level = (struct writer_xml_level){.kind = is_list ? WRITER_XML_LIST : WRITER_XML_OBJECT};
    if (!is_flat)
        return;
    ASSERT(row != NULL); /* SQS has no other list or map than those of the table */
    level->kind = row->kind;
    level->element = row->element;
    level->suffix = row->suffix;
    level->key = row->key;
}

void writer_xml_end_nested(struct writer *writer)
{
    bool is_flat = top(writer)->kind != WRITER_XML_OBJECT;
    writer->xml->depth--;
    if (!is_flat)
        writer_xml_end_value(writer);
}
