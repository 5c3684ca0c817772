#include "relay/sqs_message.h"

#include "base/assert.h"
#include "client/json.h"
#include "relay/queue_row.h"
#include <openssl/evp.h>
#include <stdio.h>

#define MD5_SIZE 16u

static bool refuse(char reason[ROW_REASON_SIZE], const char *what, const char *value)
{
    snprintf(reason, ROW_REASON_SIZE, "%s%.80s", what, value == NULL ? "" : value);
    return false;
}

/* No message of SQS has control characters but tab and line ends, nor U+FFFE and U+FFFF. */
static bool is_text(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        const uint8_t byte = text.ptr[i];
        if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')
            return false;
        if (byte == 0xef && i + 2 < text.size && text.ptr[i + 1] == 0xbf && text.ptr[i + 2] >= 0xbe)
            return false;
    }
    return text.size > 0;
}

/* True also where there is nothing to compare, or no MD5 in this OpenSSL. */
static bool fits_md5(struct bytes text, const char *expected)
{
    uint8_t md5[EVP_MAX_MD_SIZE];
    char hex[2 * MD5_SIZE + 1];
    if (expected == NULL || EVP_Digest(text.ptr, text.size, md5, NULL, EVP_md5(), NULL) != 1)
        return true;
    bytes_to_hex(bytes_make(md5, MD5_SIZE), hex);
    hex[2 * MD5_SIZE] = '\0';
    return strcmp(hex, expected) == 0;
}

static struct bytes text_member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);
    return yyjson_is_str(value) ? bytes_make(yyjson_get_str(value), yyjson_get_len(value)) : bytes_make(NULL, 0);
}

/* What the source counted when it gave the message out. An empty text is as good as none. */
static void read_system(yyjson_val *system, struct row *row)
{
    const struct bytes group = text_member(system, "MessageGroupId");
    const struct bytes deduplication_id = text_member(system, "MessageDeduplicationId");
    const struct bytes trace_header = text_member(system, "AWSTraceHeader");
    const uint64_t count = json_number(system, "ApproximateReceiveCount");
    row->group = group.size > 0 ? group : row->group;
    row->deduplication_id = deduplication_id.size > 0 ? deduplication_id : row->deduplication_id;
    row->trace_header = trace_header.size > 0 ? trace_header : row->trace_header;
    row->receive_count = count == 0 || count > UINT32_MAX ? 1 : (uint32_t)count;
    row->age_ms = queue_row_age_ms(json_number(system, "SentTimestamp"));
}

bool sqs_message_read(yyjson_val *message, struct arena *arena, struct row *row, char reason[ROW_REASON_SIZE])
{
    const char *id = json_text(message, "MessageId");
    const struct bytes body = text_member(message, "Body"), handle = text_member(message, "ReceiptHandle");
    *row = (struct row){.kind = ROW_SEND, .body = body, .handle = handle};
    if (id == NULL || !uid_from_text(bytes_from_string(id), &row->uid))
        return refuse(reason, "its MessageId is no UUID, by which Tally knows it once: ", id == NULL ? "none" : id);
    if (handle.size == 0 || strlen((const char *)handle.ptr) != handle.size)
        return refuse(reason, "it has no ReceiptHandle, so it could not be deleted: ", id);
    if (!is_text(body))
        return refuse(reason, "its body is empty, or has characters that no message may have: ", id);
    if (!fits_md5(body, json_text(message, "MD5OfBody")))
        return refuse(reason, "its body is not what its MD5OfBody says: ", id);
    read_system(yyjson_obj_get(message, "Attributes"), row);
    const char *name = "";
    yyjson_val *attributes = yyjson_obj_get(message, "MessageAttributes");
    if (attributes != NULL && !yyjson_is_null(attributes) && !yyjson_is_obj(attributes))
        return refuse(reason, "its MessageAttributes are no object: ", id);
    if (queue_row_copy_attributes(attributes, arena, &row->attributes, &name))
        return true;
    return refuse(reason, "it has an attribute without type or value, or with a NUL in its name: ", name);
}
