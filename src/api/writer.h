/* Writes a reply: named values in an object, lists of objects. An action calls this and never writes the wire form
 * itself: AWS JSON or, for a Query request, XML (writer_xml.h). Names are our own literals and are not escaped; values
 * are. */
#ifndef TALLY_API_WRITER_H
#define TALLY_API_WRITER_H

#include "base/buffer.h"

struct writer_xml;

struct writer {
    struct buffer *out;     /* borrowed */
    struct writer_xml *xml; /* borrowed; NULL: JSON */
    bool needs_comma;
};

struct writer writer_make(struct buffer *out);

/* The position of a writer, outside a map. What was written after it can be taken back. */
struct writer_mark {
    size_t size;
    size_t depth;
    bool needs_comma;
};
struct writer_mark writer_mark(const struct writer *writer);
void writer_take_back(struct writer *writer, struct writer_mark mark);

/* An object: the reply itself (name NULL), a member, or an item of a list (name NULL). */
void writer_object_begin(struct writer *writer, const char *name);
void writer_object_end(struct writer *writer);
void writer_list_begin(struct writer *writer, const char *name);
void writer_list_end(struct writer *writer);

/* Members. With name NULL, items of a list. */
void writer_text(struct writer *writer, const char *name, struct bytes value);
void writer_string(struct writer *writer, const char *name, const char *value);
void writer_number(struct writer *writer, const char *name, uint64_t value);
void writer_integer(struct writer *writer, const char *name, int64_t value);
void writer_boolean(struct writer *writer, const char *name, bool value);
void writer_real(struct writer *writer, const char *name, double value); /* finite */

/* A value that is JSON already. For values that only JSON has. */
void writer_json(struct writer *writer, const char *name, struct bytes json);

/* Seconds since the epoch, with milliseconds. */
void writer_time(struct writer *writer, const char *name, uint64_t time_ms);

/* Lower-case hexadecimal, and base64, of bytes. */
void writer_hex(struct writer *writer, const char *name, struct bytes value);
void writer_base64(struct writer *writer, const char *name, struct bytes value);

/* A member whose name comes from outside. Write its value with the functions above and the name NULL. */
void writer_name(struct writer *writer, struct bytes name);

#endif
