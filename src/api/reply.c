#include "api/reply.h"

#include "api/query_reply.h"
#include "base/assert.h"

#include <stdio.h>

#define CONTENT_TYPE_JSON "application/x-amz-json-1.0"
#define CONTENT_TYPE_QUERY_JSON "application/json"
#define CONTENT_TYPE_XML "text/xml"
#define XML_BEGIN "<?xml version=\"1.0\"?>\n"
#define XML_NAMESPACE "http://queue.amazonaws.com/doc/2012-11-05/"

static void append_string(struct buffer *out, const char *string)
{
    buffer_append_bytes(out, bytes_from_string(string));
}

static void append_request_id(struct buffer *out, const struct exchange *exchange)
{
    append_string(out, "<RequestId>");
    buffer_append(out, exchange->request_id, sizeof(exchange->request_id));
    append_string(out, "</RequestId>");
}

static void append_result_tag(struct buffer *out, const char *opening, const struct exchange *exchange)
{
    append_string(out, opening);
    append_string(out, exchange_shown_action(exchange));
    append_string(out, "Result>");
}

void reply_begin(struct exchange *exchange, struct reply_draft *draft)
{
    struct buffer *out = &exchange->reply.body;
    buffer_truncate(out, 0);
    if (exchange->form != WIRE_QUERY) {
        exchange->reply.content_type = exchange->form == WIRE_JSON ? CONTENT_TYPE_JSON : CONTENT_TYPE_QUERY_JSON;
        draft->writer = writer_make(out);
        writer_object_begin(&draft->writer, NULL);
        return;
    }
    exchange->reply.content_type = CONTENT_TYPE_XML;
    buffer_append_format(out, XML_BEGIN "<%sResponse xmlns=\"" XML_NAMESPACE "\">", exchange_shown_action(exchange));
    append_result_tag(out, "<", exchange);
    draft->begin = out->size;
    draft->writer = writer_xml_make(&draft->xml, out, exchange_shown_action(exchange));
}

/* Without fields there is no result. With fields that are all absent it is <…Result/>. */
static void end_xml(struct exchange *exchange, const struct reply_draft *draft, bool is_empty)
{
    struct buffer *out = &exchange->reply.body;
    if (is_empty) {
        buffer_truncate(out, out->size - strlen("<Result>") - strlen(exchange_shown_action(exchange)));
    } else if (out->size == draft->begin) {
        buffer_truncate(out, out->size - 1);
        append_string(out, "/>");
    } else {
        append_result_tag(out, "</", exchange);
    }
    append_string(out, "<ResponseMetadata>");
    append_request_id(out, exchange);
    buffer_append_format(out, "</ResponseMetadata></%sResponse>\n", exchange_shown_action(exchange));
}

void reply_end(struct exchange *exchange, struct reply_draft *draft, bool is_empty)
{
    if (exchange->form == WIRE_QUERY) {
        end_xml(exchange, draft, is_empty);
    } else if (exchange->form == WIRE_QUERY_JSON) {
        writer_object_end(&draft->writer);
        query_reply_wrap(exchange, is_empty);
    } else if (is_empty) {
        buffer_truncate(&exchange->reply.body, 0);
    } else {
        writer_object_end(&draft->writer);
    }
    exchange->reply.status = 200;
}

#define NO_QUEUE "The specified queue does not exist"

/* What to say. SQS begins this one in two ways; the other uses `scratch`. */
static const char *text_of(const struct exchange *exchange, enum error error, const struct failure *failure,
                           char scratch[sizeof(failure->text)])
{
    const char *text = failure != NULL && failure->text[0] != '\0' ? failure->text : error_row(error)->text;
    if (error != ERROR_QUEUE_DOES_NOT_EXIST || exchange->form == WIRE_JSON ||
        strncmp(text, NO_QUEUE, strlen(NO_QUEUE)) != 0)
        return text;
    (void)snprintf(scratch, sizeof(failure->text), NO_QUEUE " for this wsdl version%s", text + strlen(NO_QUEUE));
    return scratch;
}

/* SQS's answer to a request without an action, with a hint for people who use a browser. */
#define NO_ACTION                                                                                                      \
    "<UnknownOperationException/>\n<!-- Send a POST with the header X-Amz-Target or a field Action, as AWS SDKs do; "  \
    "GET "                                                                                                             \
    "/health and GET /metrics answer too. -->\n"

static void fail_xml(struct exchange *exchange, const struct error_row *row, const char *text)
{
    struct buffer *out = &exchange->reply.body;
    if (exchange->reply.error == ERROR_NOT_FOUND) {
        append_string(out, NO_ACTION);
        return;
    }
    buffer_append_format(
        out, XML_BEGIN "<ErrorResponse xmlns=\"" XML_NAMESPACE "\"><Error><Type>%s</Type><Code>%s</Code><Message>",
        row->status < 500 ? "Sender" : "Receiver", row->query);
    writer_xml_append(out, bytes_from_string(text));
    append_string(out, "</Message><Detail/></Error>");
    append_request_id(out, exchange);
    append_string(out, "</ErrorResponse>\n");
}

/* Tally's own actions answer 400, even if SQS has 403 or 404 for a wrong name. */
static int status_of(const struct exchange *exchange, enum error error)
{
    const int status = error_row(error)->status;
    return exchange->is_own && (status == 404 || error == ERROR_OVER_LIMIT) ? 400 : status;
}

/* All their errors are Tally's own, also those that share a name with SQS's. */
static void write_type(struct writer *writer, const struct exchange *exchange, const struct error_row *row)
{
    char own[64];
    if (!exchange->is_own) {
        writer_string(writer, "__type", row->type);
        return;
    }
    (void)snprintf(own, sizeof(own), "com.tally#%s", row->name);
    writer_string(writer, "__type", own);
}

void reply_fail(struct exchange *exchange, enum error error, const struct failure *failure)
{
    ASSERT(error != OK);
    const struct error_row *row = error_row(error);
    struct reply *reply = &exchange->reply;
    char scratch[sizeof(failure->text)];
    const char *text = text_of(exchange, error, failure, scratch);
    reply->status = status_of(exchange, error);
    reply->error = error;
    buffer_truncate(&reply->body, 0);
    if (exchange->form == WIRE_QUERY) {
        reply->content_type = CONTENT_TYPE_XML;
        fail_xml(exchange, row, text);
        return;
    }
    if (exchange->form == WIRE_QUERY_JSON) {
        reply->content_type = CONTENT_TYPE_QUERY_JSON;
        query_reply_fail(exchange, row, text);
        return;
    }
    reply->content_type = CONTENT_TYPE_JSON;
    struct writer writer = writer_make(&reply->body);
    writer_object_begin(&writer, NULL);
    write_type(&writer, exchange, row);
    writer_string(&writer, "message", text);
    writer_object_end(&writer);
}

/* --- of another node ---------------------------------------------------------------------------------------------- */

/* Content types are kept as static texts: all that a node answers with are these. */
static const char *content_type_of(struct bytes text)
{
    static const char *const known[] = {CONTENT_TYPE_JSON, CONTENT_TYPE_XML, CONTENT_TYPE_QUERY_JSON};
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        if (bytes_equal(text, bytes_from_string(known[i])))
            return known[i];
    return NULL;
}

/* "Code;Sender", as the server writes it. OK: there was none, or none that this version knows. */
static enum error error_of(struct bytes query_error)
{
    for (enum error error = OK + 1; error < ERROR_COUNT; error++) {
        const struct error_row *row = error_row(error);
        const struct bytes code = bytes_from_string(row->query);
        const struct bytes side = row->status >= 500 ? BYTES(";Receiver") : BYTES(";Sender");
        if (query_error.size == code.size + side.size && bytes_starts_with(query_error, code) &&
            bytes_ends_with(query_error, side))
            return error;
    }
    return OK;
}

void reply_take_foreign(struct exchange *exchange, const struct foreign_reply *foreign)
{
    struct reply *reply = &exchange->reply;
    reply->status = foreign->status;
    reply->content_type = content_type_of(foreign->content_type);
    reply->error = error_of(foreign->query_error);
    if (foreign->request_id.size == REQUEST_ID_SIZE)
        memcpy(exchange->request_id, foreign->request_id.ptr, REQUEST_ID_SIZE);
    buffer_deinit(&reply->body);
    reply->body = *foreign->body;
    buffer_init(foreign->body);
}
