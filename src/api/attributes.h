/* Message attributes: reads them from a request, and writes those that a receive asked for. core/messages/attribute.h
 * defines their form in the log and their digest. Source: SQS developer guide, "Amazon SQS message metadata". */
#ifndef TALLY_API_ATTRIBUTES_H
#define TALLY_API_ATTRIBUTES_H

#include "api/params.h"
#include "api/writer.h"
#include "base/trace_context.h"
#include "core/messages/attribute.h"

/* Of those that count. The context of a trace (base/trace_context.h) does not: tracing tools add it to the attributes
 * of the application, and a message with ten would be refused because of it. */
#define ATTRIBUTES_MAX 10u

/* The uid of the outbox row from which the message was made. A relay adds it to the attributes of the application, so
 * it does not count among the ten. */
#define ATTRIBUTE_OUTBOX_ID "Tally.OutboxId"

struct attributes {
    struct attribute items[ATTRIBUTES_MAX + TRACE_NAMES + 3]; /* a target's own two are extra, and so is a row's uid */
    uint32_t count;
    size_t size; /* how much they add to the size of the message, in bytes */
};

/* Reads and checks the map `name` of an object. Errors: ERROR_SERIALIZATION, ERROR_INVALID_PARAMETER_VALUE,
 * ERROR_UNSUPPORTED_OPERATION. Values are views into the request or the arena. */
enum error attributes_parse(const struct params *params, const char *name, struct arena *arena,
                            struct attributes *attributes);

/* How much the map `name` of an object adds to the size of its message, in bytes of names, types and values. The
 * attributes need not be valid. */
size_t attributes_measure(const struct params *params, const char *name);

/* How many of them count among ATTRIBUTES_MAX: a row's uid and what belongs to a trace do not. */
unsigned attributes_count_limited(const struct attributes *attributes);

/* The attribute of that name, or NULL. */
const struct attribute *attributes_find(const struct attributes *attributes, struct bytes name);

/* Adds one of our own. */
void attributes_add(struct attributes *attributes, struct bytes name, struct bytes value);

/* Sorts by name, as encoding and digest need. */
void attributes_sort(struct attributes *attributes);

void attributes_encode(const struct attributes *attributes, struct buffer *out);

/* MD5OfMessageAttributes; `scratch` is overwritten. */
void attributes_md5(const struct attributes *attributes, struct digest *digest, struct buffer *scratch,
                    uint8_t md5[DIGEST_MD5_SIZE]);

/* Does a receive's list ask for an attribute that the receive itself adds? Only its name and "Tally.*" do. "All" and
 * ".*" ask for the sender's attributes, so that a message can be sent on unchanged. */
bool attributes_ask_for_own(yyjson_val *names, const char *name);

/* Writes MessageAttributes and MD5OfMessageAttributes: the attributes in `encoded` (empty: none) for which `names` (a
 * list of texts, or NULL) asks, and all of `own`. Writes nothing if there is none. `own` are the attributes that the
 * receive adds, sorted; each replaces a sent one of the same name. `all_md5` is the digest of all sent attributes; the
 * digest in the reply covers those in the reply. */
void attributes_write(struct bytes encoded, const uint8_t all_md5[DIGEST_MD5_SIZE], const struct attributes *own,
                      yyjson_val *names, struct digest *digest, struct buffer *scratch, struct writer *writer);

/* The same for every attribute that was sent, and for no other. */
void attributes_write_all(struct bytes encoded, const uint8_t all_md5[DIGEST_MD5_SIZE], struct writer *writer);

#endif
