/* Message attributes: reading them from a request, and writing those that a receive asked for. Their form in the log
 * and their digest are core/messages/attribute.h's. Source: SQS developer guide, "Amazon SQS message metadata". */
#ifndef TALLY_API_ATTRIBUTES_H
#define TALLY_API_ATTRIBUTES_H

#include "api/params.h"
#include "api/writer.h"
#include "core/messages/attribute.h"

#define ATTRIBUTES_MAX 10u

/* The uid of the row of an outbox that the message was. A relay adds it to what the application gave, so it is not one
 * of the ten. */
#define ATTRIBUTE_OUTBOX_ID "Tally.OutboxId"

struct attributes {
    struct attribute items[ATTRIBUTES_MAX + 3]; /* a target's own two come on top, and the uid of a row */
    uint32_t count;
    size_t size; /* what they count towards the size of the message, bytes */
};

/* Reads and checks the map `name` of an object. Errors: ERROR_SERIALIZATION, ERROR_INVALID_PARAMETER_VALUE,
 * ERROR_UNSUPPORTED_OPERATION. Values are views into the request or the arena. */
enum error attributes_parse(const struct params *params, const char *name, struct arena *arena,
                            struct attributes *attributes);

/* What the map `name` of an object counts towards the size of its message, whether its attributes are sound or not:
 * bytes of names, types and values. */
size_t attributes_measure(const struct params *params, const char *name);

/* The attribute of that name, or NULL. */
const struct attribute *attributes_find(const struct attributes *attributes, struct bytes name);

/* Adds one of our own. */
void attributes_add(struct attributes *attributes, struct bytes name, struct bytes value);

/* Sorts by name; encoding and digest need it. */
void attributes_sort(struct attributes *attributes);

void attributes_encode(const struct attributes *attributes, struct buffer *out);

/* MD5OfMessageAttributes; `scratch` is overwritten. */
void attributes_md5(const struct attributes *attributes, struct digest *digest, struct buffer *scratch,
                    uint8_t md5[DIGEST_MD5_SIZE]);

/* Does a receive's list ask for an attribute that the receive adds? Only its name and "Tally.*" do: "All" and ".*"
 * ask for what the sender gave, so that a message can be sent on as it came. */
bool attributes_ask_for_own(yyjson_val *names, const char *name);

/* Writes MessageAttributes and MD5OfMessageAttributes: of those among `encoded` (or empty: there are none) that
 * `names` (a list of texts, or NULL) asks for, and all of `own`; nothing if there is none. `own` are those that the
 * receive adds, sorted; they stand in place of what was sent under their names. `all_md5` is the digest of all that
 * were sent; that of the reply covers what it has. */
void attributes_write(struct bytes encoded, const uint8_t all_md5[DIGEST_MD5_SIZE], const struct attributes *own,
                      yyjson_val *names, struct digest *digest, struct buffer *scratch, struct writer *writer);

#endif
