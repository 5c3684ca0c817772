/* Small helpers over yyjson that the files of the client share: building request bodies, reading answers. */
#ifndef TALLY_CLIENT_JSON_H
#define TALLY_CLIENT_JSON_H

#include "tally/tally.h"
#include <yyjson.h>

/* yyjson's functions on memory of base/memory.h, which is never refused. A text is freed with free(), a document with
 * yyjson_mut_doc_free() or yyjson_doc_free(). */

/* A new document. */
yyjson_mut_doc *json_document(void);

/* NULL: the text is not JSON. */
yyjson_doc *json_read(const void *text, size_t size);

/* The text of a document or value, closed by a NUL; *size, unless NULL, is its length without that. NULL: a string in
 * it is not UTF-8, or a number not finite, and the flags don't allow it. */
char *json_write(const yyjson_mut_doc *doc, yyjson_write_flag flags, size_t *size);
char *json_write_value(yyjson_val *value, size_t *size);

/* A body being built: an object, and the members added to it. Strings are borrowed until json_body_call(). */
struct json_body {
    yyjson_mut_doc *doc_owned;
    yyjson_mut_val *root;
};

void json_body_init(struct json_body *body);

/* Adds a string member; NULL adds nothing. */
void json_add_text(struct json_body *body, yyjson_mut_val *object, const char *name, const char *text);
void json_add_number(struct json_body *body, yyjson_mut_val *object, const char *name, uint64_t number);
yyjson_mut_val *json_add_object(struct json_body *body, yyjson_mut_val *object, const char *name);
yyjson_mut_val *json_add_array(struct json_body *body, yyjson_mut_val *object, const char *name);

/* Adds an object to an array. */
yyjson_mut_val *json_append_object(struct json_body *body, yyjson_mut_val *array);

/* Calls `target` with the body and ends the body, whatever comes. TALLY_INVALID if a text in it is not UTF-8. */
enum tally_status json_body_call(struct json_body *body, struct tally_client *client, const char *target,
                                 struct tally_reply *reply);

/* Members of an answer; NULL, 0 or false where they are absent or of another type. Numbers may come as text. */
yyjson_val *json_root(const struct tally_reply *reply);
const char *json_text(yyjson_val *object, const char *name);
uint64_t json_number(yyjson_val *object, const char *name);
double json_real(yyjson_val *object, const char *name);
bool json_is_true(yyjson_val *object, const char *name);

/* Copies a text member into a field of `size` characters, "" where it is absent. */
void json_copy(yyjson_val *object, const char *name, char *field, size_t size);

#endif
