#include "relay/webhook_headers.h"

#include "base/trace_context.h"
#include "client/json.h"
#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>

#define NAME_SIZE_MAX 100u
#define VALUE_SIZE_MAX 1000u

/* A list that grows; what is written between is put together in `line`. */
struct headers {
    struct curl_slist *list;
    struct buffer line;
    bool has_content_type;
};

/* Nothing in a value may end the header, and nothing may be lost on the way: proxies take blanks off the ends. */
static bool is_printable(struct bytes value)
{
    if (value.size > VALUE_SIZE_MAX || (value.size > 0 && (value.ptr[0] == ' ' || value.ptr[value.size - 1] == ' ')))
        return false;
    for (size_t i = 0; i < value.size; i++)
        if (value.ptr[i] < 0x20 || value.ptr[i] > 0x7e)
            return false;
    return true;
}

/* Letters, digits, hyphens, underscores and full stops, as SQS has them in names of attributes: all may stand in the
 * name of a header. */
static bool is_name(struct bytes name)
{
    if (name.size == 0 || name.size > NAME_SIZE_MAX)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t at = name.ptr[i];
        bool is_word = (at >= 'a' && at <= 'z') || (at >= 'A' && at <= 'Z') || (at >= '0' && at <= '9');
        if (!is_word && at != '-' && at != '_' && at != '.')
            return false;
    }
    return true;
}

/* Adds the line that stands in `line`. */
static void add_line(struct headers *headers)
{
    buffer_append_u8(&headers->line, 0);
    struct curl_slist *list = curl_slist_append(headers->list, (const char *)headers->line.data_owned);
    if (list == NULL)
        abort(); /* out of memory; see base/memory.h */
    headers->list = list;
    buffer_truncate(&headers->line, 0);
}

static void add(struct headers *headers, const char *prefix, struct bytes name, struct bytes value)
{
    if (!is_printable(value))
        return;
    /* What ends with a colon is taken away by libcurl; a semicolon makes an empty header. */
    buffer_append_format(&headers->line, "%s%.*s%s%.*s", prefix, BYTES_FORMAT(name), value.size == 0 ? ";" : ": ",
                         BYTES_FORMAT(value));
    add_line(headers);
}

static void add_text(struct headers *headers, const char *name, const char *value)
{
    add(headers, name, BYTES(""), bytes_from_string(value));
}

/* --- attributes --------------------------------------------------------------------------------------------------- */

static bool is_content_type(struct bytes name)
{
    static const char wanted[] = "content-type";
    if (name.size != sizeof(wanted) - 1)
        return false;
    for (size_t i = 0; i < name.size; i++)
        if ((name.ptr[i] | 0x20) != wanted[i])
            return false;
    return true;
}

static void add_attribute(struct headers *headers, struct bytes name, struct bytes value)
{
    if (!is_name(name))
        return;
    /* So that the receiver's tools find it where they look for it. */
    if (trace_context_is_name(name)) {
        add(headers, "", name, value);
        return;
    }
    bool is_type = is_content_type(name) && value.size > 0 && is_printable(value);
    headers->has_content_type = headers->has_content_type || is_type;
    add(headers, is_type ? "" : "Tally-Attribute-", is_type ? BYTES("Content-Type") : name, value);
}

/* A string, a number, or what SQS itself takes; see row.h. */
static void add_attributes(struct headers *headers, struct bytes text)
{
    yyjson_doc *doc = text.size == 0 ? NULL : json_read(text.ptr, text.size);
    yyjson_obj_iter iter = yyjson_obj_iter_with(yyjson_doc_get_root(doc));
    for (yyjson_val *name; (name = yyjson_obj_iter_next(&iter)) != NULL;) {
        yyjson_val *value = yyjson_obj_iter_get_val(name);
        if (yyjson_is_obj(value))
            value = yyjson_obj_get(value, "StringValue"); /* a binary one has none */
        char *number = yyjson_is_num(value) ? json_write_value(value, NULL) : NULL;
        if (number != NULL)
            add_attribute(headers, bytes_make(yyjson_get_str(name), yyjson_get_len(name)), bytes_from_string(number));
        else if (yyjson_is_str(value))
            add_attribute(headers, bytes_make(yyjson_get_str(name), yyjson_get_len(name)),
                          bytes_make(yyjson_get_str(value), yyjson_get_len(value)));
        free(number);
    }
    yyjson_doc_free(doc);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static bool is_json(struct bytes body)
{
    yyjson_doc *doc = json_read(body.ptr, body.size);
    yyjson_doc_free(doc);
    return doc != NULL;
}

static void add_signature(struct headers *headers, const char *id, uint64_t time_s, struct bytes body,
                          const struct webhook_keys *keys)
{
    add_text(headers, "webhook-id", id);
    buffer_append_format(&headers->line, "webhook-timestamp: %" PRIu64, time_s);
    add_line(headers);
    buffer_append_format(&headers->line, "webhook-signature: ");
    webhook_sign(keys, bytes_from_string(id), time_s, body, &headers->line);
    add_line(headers);
}

struct curl_slist *webhook_headers(const struct row *row, const struct webhook_attempt *attempt,
                                   const struct webhook_keys *keys)
{
    struct headers headers = {.list = NULL};
    char uid[UID_TEXT_SIZE];
    uid_to_text(&row->uid, uid);
    buffer_init(&headers.line);
    add_text(&headers, "Idempotency-Key", uid);
    buffer_append_format(&headers.line, "Tally-Attempt: %u", attempt->number);
    add_line(&headers);
    if (attempt->is_maybe_duplicate)
        add_text(&headers, "Tally-Maybe-Duplicate", "1");
    if (row->group.size > 0)
        add(&headers, "Tally-Group", BYTES(""), row->group);
    if (row->queue.size > 0)
        add(&headers, "Tally-Queue", BYTES(""), row->queue);
    add_attributes(&headers, row->attributes);
    if (!headers.has_content_type)
        add_text(&headers, "Content-Type", is_json(row->body) ? "application/json" : "text/plain; charset=utf-8");
    if (keys->count > 0)
        add_signature(&headers, uid, attempt->time_s, row->body, keys);
    /* libcurl would ask before a large body whether it may come; a receiver that does not answer that costs a
     * second. */
    buffer_append_format(&headers.line, "Expect:");
    add_line(&headers);
    buffer_deinit(&headers.line);
    return headers.list;
}
