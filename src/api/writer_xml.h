/* The XML form of a writer: the content of the result element of an AWS Query reply.
 *
 * An object's members are elements. A list is flat: each item is an element of the same name, side by side with the
 * other members. A map is a flat list too, of pairs. One table (writer_xml.c) names the element of each item or pair.
 * Source: AWS's service model of SQS of 2023, protocol "query". */
#ifndef TALLY_API_WRITER_XML_H
#define TALLY_API_WRITER_XML_H

#include "api/writer.h"

#define WRITER_XML_DEPTH_MAX 8u

enum writer_xml_kind { WRITER_XML_OBJECT, WRITER_XML_LIST, WRITER_XML_MAP };

/* An object, list or map that has begun. */
struct writer_xml_level {
    enum writer_xml_kind kind;
    const char *element; /* list: of an item; map: of a pair */
    const char *suffix;  /* of an item's element, behind the action's name instead; or NULL */
    const char *key;     /* map: of a pair's name */
    const char *open;    /* object: the member whose value is being written */
};

/* Lives as long as its writer. */
struct writer_xml {
    const char *action; /* like "SendMessageBatch"; static */
    size_t depth;
    struct writer_xml_level levels[WRITER_XML_DEPTH_MAX];
};

/* A writer of members of the action's result. `xml` is initialised and borrowed. */
struct writer writer_xml_make(struct writer_xml *xml, struct buffer *out, const char *action);

/* Text as content of an element. What XML has no form for, like most control characters, becomes U+FFFD. */
void writer_xml_append(struct buffer *out, struct bytes text);

/* What stands before and behind a value, and before and behind those of an object or list. Called by writer.c. */
void writer_xml_begin_value(struct writer *writer, const char *name);
void writer_xml_end_value(struct writer *writer);
void writer_xml_begin_nested(struct writer *writer, const char *name, bool is_list);
void writer_xml_end_nested(struct writer *writer);

/* The name of a pair of a map, whose value is written next. */
void writer_xml_name(struct writer *writer, struct bytes name);

#endif
