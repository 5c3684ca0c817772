/* Replies in XML: lists and maps lie flat beside their neighbours, texts are escaped, and the envelope of a reply and
 * of an error. Source: reference, SQS, 4.3. */
#include "api/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- the writer --------------------------------------------------------------------------------------------------- */

struct page {
    struct buffer out;
    struct writer_xml xml;
    struct writer writer;
};

static void page_open(struct page *page, const char *action)
{
    buffer_init(&page->out);
    page->writer = writer_xml_make(&page->xml, &page->out, action);
}

static void page_close(struct page *page, const char *expected)
{
    if (!bytes_equal(buffer_bytes(&page->out), bytes_from_string(expected)))
        fail_msg("%.*s\n  not %s", BYTES_FORMAT(buffer_bytes(&page->out)), expected);
    buffer_deinit(&page->out);
}

static void members_are_elements(void **state)
{
    (void)state;
    struct page page;
    page_open(&page, "SendMessage");
    writer_string(&page.writer, "MessageId", "a");
    writer_number(&page.writer, "Count", 18446744073709551615u);
    writer_integer(&page.writer, "Balance", -7);
    writer_boolean(&page.writer, "Duplicate", true);
    writer_time(&page.writer, "At", 1700000000007u);
    writer_hex(&page.writer, "MD5OfBody", BYTES("\x0f\xa0"));
    writer_base64(&page.writer, "BinaryValue", BYTES("\x01\x02\x03"));
    page_close(&page, "<MessageId>a</MessageId><Count>18446744073709551615</Count><Balance>-7</Balance><Duplicate>true"
                      "</Duplicate><At>1700000000.007</At><MD5OfBody>0fa0</MD5OfBody><BinaryValue>AQID</BinaryValue>");
}

static void lists_of_texts_lie_flat(void **state)
{
    (void)state;
    static const char *const members[] = {"QueueUrls", "queueUrls"};
    for (size_t i = 0; i < ARRAY_LENGTH(members); i++) {
        struct page page;
        page_open(&page, "ListQueues");
        writer_list_begin(&page.writer, members[i]);
        writer_string(&page.writer, NULL, "u");
        writer_string(&page.writer, NULL, "v");
        writer_list_end(&page.writer);
        writer_string(&page.writer, "NextToken", "t");
        page_close(&page, "<QueueUrl>u</QueueUrl><QueueUrl>v</QueueUrl><NextToken>t</NextToken>");
    }
}

static void lists_of_objects_repeat_their_element(void **state)
{
    (void)state;
    static const struct {
        const char *action, *member, *element;
    } rows[] = {
        {"ReceiveMessage", "Messages", "Message"},
        {"SendMessageBatch", "Successful", "SendMessageBatchResultEntry"},
        {"DeleteMessageBatch", "Successful", "DeleteMessageBatchResultEntry"},
        {"ChangeMessageVisibilityBatch", "Successful", "ChangeMessageVisibilityBatchResultEntry"},
        {"SendMessageBatch", "Failed", "BatchResultErrorEntry"},
        {"ListMessageMoveTasks", "Results", "ListMessageMoveTasksResultEntry"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct page page;
        char expected[200];
        const char *e = rows[i].element;
        page_open(&page, rows[i].action);
        writer_list_begin(&page.writer, rows[i].member);
        for (unsigned k = 0; k < 2; k++) {
            writer_object_begin(&page.writer, NULL);
            writer_number(&page.writer, "Id", k);
            writer_object_end(&page.writer);
        }
        writer_list_end(&page.writer);
        snprintf(expected, sizeof(expected), "<%s><Id>0</Id></%s><%s><Id>1</Id></%s>", e, e, e, e);
        page_close(&page, expected);
    }
}

static void maps_are_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *member, *element, *key;
    } rows[] = {{"Attributes", "Attribute", "Name"}, {"Tags", "Tag", "Key"}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct page page;
        char expected[200];
        const char *e = rows[i].element, *k = rows[i].key;
        page_open(&page, "ListQueueTags");
        writer_object_begin(&page.writer, rows[i].member);
        writer_string(&page.writer, "a", "1");   /* a name of our own */
        writer_name(&page.writer, BYTES("<&>")); /* and one from outside */
        writer_string(&page.writer, NULL, "2");
        writer_object_end(&page.writer);
        snprintf(expected, sizeof(expected),
                 "<%s><%s>a</%s><Value>1</Value></%s><%s><%s>&lt;&amp;&gt;</%s><Value>2</Value></%s>", e, k, k, e, e, k,
                 k, e);
        page_close(&page, expected);
    }
}

static void a_message_has_maps_beside_its_members(void **state)
{
    (void)state;
    struct page page;
    page_open(&page, "ReceiveMessage");
    writer_list_begin(&page.writer, "Messages");
    writer_object_begin(&page.writer, NULL);
    writer_string(&page.writer, "Body", "b");
    writer_object_begin(&page.writer, "Attributes");
    writer_string(&page.writer, "SenderId", "me");
    writer_object_end(&page.writer);
    writer_object_begin(&page.writer, "MessageAttributes");
    writer_name(&page.writer, BYTES("color"));
    writer_object_begin(&page.writer, NULL);
    writer_string(&page.writer, "StringValue", "blue");
    writer_string(&page.writer, "DataType", "String");
    writer_object_end(&page.writer);
    writer_object_end(&page.writer);
    writer_string(&page.writer, "MD5OfMessageAttributes", "d");
    writer_object_end(&page.writer);
    writer_list_end(&page.writer);
    page_close(&page,
               "<Message><Body>b</Body><Attribute><Name>SenderId</Name><Value>me</Value></Attribute>"
               "<MessageAttribute><Name>color</Name><Value><StringValue>blue</StringValue><DataType>String"
               "</DataType></Value></MessageAttribute><MD5OfMessageAttributes>d</MD5OfMessageAttributes></Message>");
}

static void what_was_written_can_be_taken_back(void **state)
{
    (void)state;
    struct page page;
    page_open(&page, "SendMessageBatch");
    writer_list_begin(&page.writer, "Successful");
    for (unsigned i = 0; i < 3; i++) {
        struct writer_mark mark = writer_mark(&page.writer);
        writer_object_begin(&page.writer, NULL);
        writer_number(&page.writer, "Id", i);
        if (i == 1)
            writer_take_back(&page.writer, mark);
        else
            writer_object_end(&page.writer);
    }
    writer_list_end(&page.writer);
    struct writer_mark mark = writer_mark(&page.writer);
    writer_object_begin(&page.writer, "Attributes");
    writer_take_back(&page.writer, mark);
    writer_string(&page.writer, "NextToken", "t");
    page_close(&page,
               "<SendMessageBatchResultEntry><Id>0</Id></SendMessageBatchResultEntry><SendMessageBatchResultEntry>"
               "<Id>2</Id></SendMessageBatchResultEntry><NextToken>t</NextToken>");
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static void texts_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"<a href=\"x\">&amp;'</a>", "&lt;a href=&quot;x&quot;&gt;&amp;amp;'&lt;/a&gt;"},
        {"]]>", "]]&gt;"},
        {"\t\n\r\r\n", "\t\n&#xD;&#xD;\n"},
        {"gr\xc3\xbc\xc3\x9f \xf0\x9f\x8e\x89 \xed\x9f\xbf\xee\x80\x80",
         "gr\xc3\xbc\xc3\x9f \xf0\x9f\x8e\x89 \xed\x9f\xbf\xee\x80\x80"},
        /* The last that XML can carry, and what it can't. */
        {"\xef\xbf\xbd\xef\xbe\xbe\xef\xbb\xbf", "\xef\xbf\xbd\xef\xbe\xbe\xef\xbb\xbf"},
        {"a\xef\xbf\xbe\xef\xbf\xbf"
         "b",
         "a&#xFFFD;&#xFFFD;b"},
        {"\x01\x08\x0b\x0c\x0e\x1f", "&#xFFFD;&#xFFFD;&#xFFFD;&#xFFFD;&#xFFFD;&#xFFFD;"},
        {"\x7f", "\x7f"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct page page;
        page_open(&page, "SendMessage");
        writer_xml_append(&page.out, bytes_from_string(rows[i].text));
        page_close(&page, rows[i].expected);
    }
}

static void each_byte_below_blank_is_let_through_or_replaced(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 0x20; byte++) {
        struct page page;
        uint8_t text[3] = {'a', (uint8_t)byte, 'b'};
        const char *expected = byte == '\t' ? "a\tb" : byte == '\n' ? "a\nb" : byte == '\r' ? "a&#xD;b" : "a&#xFFFD;b";
        page_open(&page, "SendMessage");
        writer_xml_append(&page.out, bytes_make(text, sizeof(text)));
        page_close(&page, expected);
    }
}

/* --- the envelope ------------------------------------------------------------------------------------------------- */

#define ID "01234567-89ab-4cde-8f01-23456789abcd"

static void exchange_open(struct exchange *exchange, enum wire_form form, const char *action)
{
    exchange_init(exchange);
    exchange->form = form;
    exchange->action = action;
    memcpy(exchange->request_id, ID, REQUEST_ID_SIZE);
}

static void exchange_close(struct exchange *exchange, int status, const char *content_type, const char *expected)
{
    assert_int_equal(exchange->reply.status, status);
    assert_string_equal(exchange->reply.content_type, content_type);
    struct bytes body = buffer_bytes(&exchange->reply.body);
    if (!bytes_equal(body, bytes_from_string(expected)))
        fail_msg("%.*s\n  not %s", BYTES_FORMAT(body), expected);
    exchange_deinit(exchange);
}

#define BEGIN "<?xml version=\"1.0\"?>\n"
#define NAMESPACE " xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">"
#define METADATA "<ResponseMetadata><RequestId>" ID "</RequestId></ResponseMetadata>"

static void a_reply_has_an_envelope(void **state)
{
    (void)state;
    struct exchange exchange;
    struct reply_draft draft;
    exchange_open(&exchange, WIRE_QUERY, "CreateQueue");
    reply_begin(&exchange, &draft);
    writer_string(&draft.writer, "QueueUrl", "u");
    reply_end(&exchange, &draft, false);
    exchange_close(&exchange, 200, "text/xml",
                   BEGIN "<CreateQueueResponse" NAMESPACE
                         "<CreateQueueResult><QueueUrl>u</QueueUrl></CreateQueueResult>" METADATA
                         "</CreateQueueResponse>\n");
    exchange_open(&exchange, WIRE_JSON, "CreateQueue");
    reply_begin(&exchange, &draft);
    writer_string(&draft.writer, "QueueUrl", "u");
    reply_end(&exchange, &draft, false);
    exchange_close(&exchange, 200, "application/x-amz-json-1.0", "{\"QueueUrl\":\"u\"}");
}

static void an_action_without_fields_has_no_result(void **state)
{
    (void)state;
    struct exchange exchange;
    struct reply_draft draft;
    exchange_open(&exchange, WIRE_QUERY, "DeleteMessage");
    reply_begin(&exchange, &draft);
    reply_end(&exchange, &draft, true);
    exchange_close(&exchange, 200, "text/xml",
                   BEGIN "<DeleteMessageResponse" NAMESPACE METADATA "</DeleteMessageResponse>\n");
    exchange_open(&exchange, WIRE_JSON, "DeleteMessage");
    reply_begin(&exchange, &draft);
    reply_end(&exchange, &draft, true);
    exchange_close(&exchange, 200, "application/x-amz-json-1.0", "");
}

static void an_action_whose_fields_are_absent_has_an_empty_result(void **state)
{
    (void)state;
    struct exchange exchange;
    struct reply_draft draft;
    exchange_open(&exchange, WIRE_QUERY, "ReceiveMessage");
    reply_begin(&exchange, &draft);
    reply_end(&exchange, &draft, false);
    exchange_close(&exchange, 200, "text/xml",
                   BEGIN "<ReceiveMessageResponse" NAMESPACE "<ReceiveMessageResult/>" METADATA
                         "</ReceiveMessageResponse>\n");
}

static void an_error_replaces_what_was_written(void **state)
{
    (void)state;
    struct exchange exchange;
    struct reply_draft draft;
    struct failure failure;
    exchange_open(&exchange, WIRE_QUERY, "SendMessage");
    reply_begin(&exchange, &draft);
    writer_string(&draft.writer, "MessageId", "never shown");
    failure_set(&failure, ERROR_INVALID_PARAMETER_VALUE, "Value <\x01&> is \"bad\".");
    reply_fail(&exchange, ERROR_INVALID_PARAMETER_VALUE, &failure);
    assert_int_equal(exchange.reply.error, ERROR_INVALID_PARAMETER_VALUE);
    exchange_close(&exchange, 400, "text/xml",
                   BEGIN "<ErrorResponse" NAMESPACE
                         "<Error><Type>Sender</Type><Code>InvalidParameterValue</Code><Message>"
                         "Value &lt;&#xFFFD;&amp;&gt; is &quot;bad&quot;.</Message><Detail/></Error><RequestId>" ID
                         "</RequestId></ErrorResponse>\n");
}

static void an_error_of_the_server_says_so(void **state)
{
    (void)state;
    struct exchange exchange;
    exchange_open(&exchange, WIRE_QUERY, NULL);
    reply_fail(&exchange, ERROR_SERVICE_UNAVAILABLE, NULL);
    exchange_close(&exchange, 503, "text/xml",
                   BEGIN "<ErrorResponse" NAMESPACE
                         "<Error><Type>Receiver</Type><Code>ServiceUnavailable</Code><Message>"
                         "The server can't take this request now; try again.</Message><Detail/></Error><RequestId>" ID
                         "</RequestId></ErrorResponse>\n");
}

/* SQS says it in two ways, and clients look for either. */
static void a_queue_that_does_not_exist_is_named_by_the_form(void **state)
{
    (void)state;
    struct exchange exchange;
    exchange_open(&exchange, WIRE_QUERY, "PurgeQueue");
    reply_fail(&exchange, ERROR_QUEUE_DOES_NOT_EXIST, NULL);
    struct bytes body = buffer_bytes(&exchange.reply.body);
    assert_non_null(memmem(body.ptr, body.size, "for this wsdl version.<", 23));
    exchange_deinit(&exchange);
    exchange_open(&exchange, WIRE_JSON, "PurgeQueue");
    reply_fail(&exchange, ERROR_QUEUE_DOES_NOT_EXIST, NULL);
    exchange_close(
        &exchange, 400, "application/x-amz-json-1.0",
        "{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\",\"message\":\"The specified queue does not exist.\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_elements),
        cmocka_unit_test(lists_of_texts_lie_flat),
        cmocka_unit_test(lists_of_objects_repeat_their_element),
        cmocka_unit_test(maps_are_pairs),
        cmocka_unit_test(a_message_has_maps_beside_its_members),
        cmocka_unit_test(what_was_written_can_be_taken_back),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(each_byte_below_blank_is_let_through_or_replaced),
        cmocka_unit_test(a_reply_has_an_envelope),
        cmocka_unit_test(an_action_without_fields_has_no_result),
        cmocka_unit_test(an_action_whose_fields_are_absent_has_an_empty_result),
        cmocka_unit_test(an_error_replaces_what_was_written),
        cmocka_unit_test(an_error_of_the_server_says_so),
        cmocka_unit_test(a_queue_that_does_not_exist_is_named_by_the_form),
    };
    return cmocka_run_group_tests_name("api writer xml", tests, NULL, NULL);
}
