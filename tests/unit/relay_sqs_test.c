/* What an SQS endpoint says, and what it is told. */
#include "base/assert.h"
#include "relay/sqs_answer.h"
#include "relay/sqs_batch.h"
#include "relay/sqs_message.h"
#include "relay/sqs_queues.h"
#include "relay/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static enum sqs_meaning meaning(int status, const char *text, const char *query_error)
{
    struct sqs_outcome outcome;
    sqs_read_error(status, bytes_from_string(text), query_error, &outcome);
    assert_true(outcome.reason[0] != '\0');
    return outcome.meaning;
}

static void errors_are_told_apart_by_code_then_by_status(void **state)
{
    (void)state;
    assert_int_equal(meaning(400, "{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\"}", ""), SQS_CLOSED);
    assert_int_equal(meaning(400, "{\"__type\":\"AWS.SimpleQueueService.NonExistentQueue\"}", ""), SQS_CLOSED);
    assert_int_equal(meaning(400, "{\"__type\":\"new#Name\"}", "AWS.SimpleQueueService.NonExistentQueue;Sender"),
                     SQS_CLOSED);
    assert_int_equal(meaning(400, "{\"__type\":\"com.amazon.coral.service#AccessDeniedException\"}", ""), SQS_CLOSED);
    assert_int_equal(meaning(400, "{\"__type\":\"KMS.DisabledException\"}", ""), SQS_CLOSED);
    assert_int_equal(meaning(400, "{\"__type\":\"KMS.ThrottlingException\"}", ""), SQS_BUSY);
    assert_int_equal(meaning(400, "{\"__type\":\"ThrottlingException\"}", ""), SQS_BUSY);
    assert_int_equal(meaning(403, "{\"__type\":\"com.amazonaws.sqs#RequestThrottled\"}", ""), SQS_BUSY);
    assert_int_equal(meaning(429, "", ""), SQS_BUSY);
    assert_int_equal(meaning(400, "{\"__type\":\"com.amazonaws.sqs#InvalidMessageContents\"}", ""), SQS_REFUSED);
    assert_int_equal(meaning(400, "{\"__type\":\"com.amazonaws.sqs#BatchRequestTooLong\"}", ""), SQS_REFUSED);
    assert_int_equal(meaning(413, "<html>", ""), SQS_REFUSED);
    assert_int_equal(meaning(500, "{\"__type\":\"InternalFailure\"}", ""), SQS_FAILED);
    assert_int_equal(meaning(502, "<html>", ""), SQS_FAILED);
    assert_int_equal(meaning(400, "{\"__type\":\"nobody knows#ThisOne\"}", ""), SQS_CLOSED);
    assert_int_equal(meaning(404, "not here", ""), SQS_CLOSED);
    assert_int_equal(meaning(400, "[1,{\"__type\":3}]", ";"), SQS_CLOSED);
}

static void batch_answers_are_read_for_each_entry(void **state)
{
    (void)state;
    struct sqs_outcome outcomes[SQS_BATCH_MAX];
    const char *text =
        "{\"Successful\":[{\"Id\":\"0\",\"MessageId\":\"m\"},{\"Id\":\"17\"},{\"Id\":7}],"
        "\"Failed\":[{\"Id\":\"1\",\"SenderFault\":true,\"Code\":\"Strange\",\"Message\":\"so\"},"
        "{\"Id\":\"2\",\"SenderFault\":false,\"Code\":\"Strange\"},{\"Id\":\"3\",\"SenderFault\":true,\"Code\":"
        "\"ThrottlingException\"},"
        "{\"Id\":\"5\",\"SenderFault\":true,\"Code\":\"AWS.SimpleQueueService.UnsupportedOperation\"},{\"Id\":\"9\"}]}";
    sqs_read_batch(bytes_from_string(text), outcomes, 6);
    assert_int_equal(outcomes[0].meaning, SQS_TAKEN);
    assert_int_equal(outcomes[1].meaning, SQS_REFUSED);
    assert_string_equal(outcomes[1].reason, "Strange: so");
    assert_int_equal(outcomes[2].meaning, SQS_FAILED);
    assert_int_equal(outcomes[3].meaning, SQS_BUSY);
    assert_int_equal(outcomes[4].meaning, SQS_FAILED); /* not named */
    assert_int_equal(outcomes[5].meaning, SQS_REFUSED);
    sqs_read_batch(BYTES("no JSON"), outcomes, SQS_BATCH_MAX);
    assert_int_equal(outcomes[9].meaning, SQS_FAILED);
}

static struct row row_of(const char *body)
{
    return (struct row){.id = 3, .uid = {.bytes = {0xab}}, .body = bytes_from_string(body)};
}

#define UID_TEXT "ab000000-0000-0000-0000-000000000000"
#define OWN_ATTRIBUTE "\"Tally.OutboxId\":{\"DataType\":\"String\",\"StringValue\":\"" UID_TEXT "\"}"

static void rows_become_entries(void **state)
{
    (void)state;
    struct sqs_batch batch;
    struct buffer body;
    char reason[ROW_REASON_SIZE];
    struct row row = row_of("one");
    sqs_batch_init(&batch, "http://h/q.fifo");
    buffer_init(&body);
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){.is_fifo = true}, 1 << 20, reason), SQS_ADDED);
    row.group = BYTES("g");
    row.deduplication_id = BYTES("d");
    row.delay_s = 4;
    struct sqs_form marked = {.is_fifo = true, .is_strict = true, .is_marked = true};
    assert_int_equal(sqs_batch_add(&batch, &row, marked, 1 << 20, reason), SQS_ADDED);
    assert_true(sqs_batch_write(&batch, &body));
    buffer_append_u8(&body, 0);
    assert_string_equal((const char *)body.data_owned,
                        "{\"QueueUrl\":\"http://h/q.fifo\",\"Entries\":["
                        "{\"Id\":\"0\",\"MessageBody\":\"one\",\"MessageAttributes\":{" OWN_ATTRIBUTE "},"
                        "\"MessageGroupId\":\"" UID_TEXT "\",\"MessageDeduplicationId\":\"" UID_TEXT "\"},"
                        "{\"Id\":\"1\",\"MessageBody\":\"one\",\"MessageAttributes\":{" OWN_ATTRIBUTE
                        ",\"maybe-duplicate\":{\"DataType\":\"String\",\"StringValue\":\"1\"}},"
                        "\"MessageGroupId\":\"g\",\"MessageDeduplicationId\":\"d\",\"DelaySeconds\":4}]}");
    buffer_deinit(&body);
    sqs_batch_deinit(&batch);
}

static void batch_is_full_before_it_is_too_large(void **state)
{
    (void)state;
    struct sqs_batch batch;
    char reason[ROW_REASON_SIZE];
    char text[1001] = {0};
    memset(text, 'x', 1000);
    struct row row = row_of(text);
    sqs_batch_init(&batch, "q");
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){0}, 500, reason), SQS_ADDED); /* whatever its size */
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){0}, 2000, reason), SQS_FULL);
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){0}, 3000, reason), SQS_ADDED);
    assert_int_equal(batch.count, 2);
    sqs_batch_deinit(&batch);
}

static void row_that_can_be_no_message_says_why(void **state)
{
    (void)state;
    struct sqs_batch batch;
    char reason[ROW_REASON_SIZE] = "";
    struct row row = row_of("x");
    sqs_batch_init(&batch, "q");
    row.attributes = BYTES("{\"a\":[]}");
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){0}, 2000, reason), SQS_UNUSABLE);
    assert_non_null(strstr(reason, "attribute a"));
    row.attributes = BYTES("{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1}");
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){0}, 2000, reason), SQS_ADDED);
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){.is_marked = true}, 2000, reason), SQS_UNUSABLE);
    assert_non_null(strstr(reason, "maybe-duplicate"));
    sqs_batch_deinit(&batch);
}

/* The message as it goes out with these attributes. */
static void add_with(const char *attributes, bool is_marked, struct buffer *body)
{
    struct sqs_batch batch;
    char reason[ROW_REASON_SIZE];
    struct row row = row_of("x");
    row.attributes = bytes_from_string(attributes);
    sqs_batch_init(&batch, "q");
    buffer_truncate(body, 0);
    assert_int_equal(sqs_batch_add(&batch, &row, (struct sqs_form){.is_marked = is_marked}, 2000, reason), SQS_ADDED);
    assert_true(sqs_batch_write(&batch, body));
    buffer_append_u8(body, 0);
    sqs_batch_deinit(&batch);
}

/* SQS counts it, and would refuse the message. */
static void a_trace_gives_way_where_a_message_has_no_room_for_it(void **state)
{
    static const char trace[] = "\"traceparent\":\"p\",\"tracestate\":\"s\",\"baggage\":\"b\"";
    static const char *const names[] = {"\"traceparent\"", "\"tracestate\"", "\"baggage\""};
    struct buffer body;
    (void)state;
    buffer_init(&body);
    for (unsigned marked = 0; marked < 2; marked++)
        for (unsigned count = 0; count + marked < 10; count++) {
            char attributes[500];
            size_t size = (size_t)snprintf(attributes, sizeof(attributes), "{%s", trace);
            for (unsigned i = 0; i < count; i++)
                size += (size_t)snprintf(attributes + size, sizeof(attributes) - size, ",\"a%u\":1", i);
            snprintf(attributes + size, sizeof(attributes) - size, "}");
            add_with(attributes, marked == 1, &body);
            unsigned room = 9 - marked - count; /* the uid is the tenth */
            for (unsigned i = 0; i < 3; i++)
                assert_int_equal(strstr((const char *)body.data_owned, names[i]) != NULL, i < room);
            assert_non_null(strstr((const char *)body.data_owned, UID_TEXT));
            if (count > 0)
                assert_non_null(strstr((const char *)body.data_owned, "\"a0\""));
            assert_int_equal(strstr((const char *)body.data_owned, "maybe-duplicate") != NULL, marked == 1);
        }
    buffer_deinit(&body);
}

static void urls_have_an_endpoint_and_a_name(void **state)
{
    (void)state;
    const char *url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo";
    assert_int_equal(sqs_endpoint_size(url), strlen("https://sqs.eu-west-1.amazonaws.com"));
    assert_true(bytes_equal(sqs_queue_name(url), BYTES("orders.fifo")));
    assert_true(sqs_is_fifo(sqs_queue_name(url)));
    assert_int_equal(sqs_endpoint_size("http://127.0.0.1:4566"), strlen("http://127.0.0.1:4566"));
    assert_int_equal(sqs_queue_name("http://127.0.0.1:4566").size, 0);
    assert_int_equal(sqs_queue_name("http://127.0.0.1:4566/").size, 0);
    assert_false(sqs_is_fifo(BYTES("fifo")));
}

static void what_a_stranger_says_becomes_one_line_of_text(void **state)
{
    static const struct {
        const char *said, *kept;
    } rows[] = {
        {"", ""},
        {"plain ~", "plain ~"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\nb\r\tc", "a b  c"},
        {"\x1b[31m\x01\x7f", "?[31m??"},
        {"\xc2\x85\xc2\x9b", "????"},           /* controls in two bytes */
        {"\xc0\x80\xe0\x80\x80\xff", "??????"}, /* too long for what they are */
        {"\xed\xa0\x80\xef\xbf\xbf", "??????"}, /* half of a pair; no character */
        {"cut \xe2\x82", "cut ??"},
        {"\xf5\x80\x80\x80\xf4\x90\x80\x80", "????????"}, /* beyond the last */
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char text[40];
        snprintf(text, sizeof(text), "%s", rows[i].said);
        text_make_plain(text);
        assert_string_equal(text, rows[i].kept);
    }
    struct fault fault;
    char large[FAULT_TEXT_SIZE + 10];
    for (size_t i = 0; i < sizeof(large); i++)
        large[i] = "\xe2\x82\xac"[i % 3];
    large[sizeof(large) - 1] = '\0';
    assert_int_equal(fault_set(&fault, STEP_UNFIT, "%s", large), STEP_UNFIT);
    assert_int_equal(strlen(fault.text), FAULT_TEXT_SIZE - 1);
    assert_memory_equal(fault.text + FAULT_TEXT_SIZE - 3, "\xac?", 2); /* 170 whole ones, and a piece of the next */
}

#define MESSAGE_ID "\"MessageId\":\"" UID_TEXT "\","
#define HANDLE "\"ReceiptHandle\":\"h\","

/* Reads one message of a ReceiveMessage. False: `said` is why. */
static bool read_message(const char *text, struct arena *arena, struct row *row, char said[ROW_REASON_SIZE])
{
    yyjson_doc *doc = yyjson_read(text, strlen(text), 0);
    struct row borrowed;
    assert_non_null(doc);
    bool is_read = sqs_message_read(yyjson_doc_get_root(doc), arena, &borrowed, said);
    if (is_read)
        *row = row_copy(arena, &borrowed);
    yyjson_doc_free(doc);
    return is_read;
}

static void a_received_message_becomes_a_row(void **state)
{
    struct arena arena;
    struct row row;
    char reason[ROW_REASON_SIZE];
    (void)state;
    arena_init(&arena);
    assert_true(read_message("{" MESSAGE_ID HANDLE
                             "\"Body\":\"one\",\"MD5OfBody\":\"f97c5d29941bfb1b2fdab0874906ab82\",\"Attributes\":{"
                             "\"ApproximateReceiveCount\":\"3\",\"SentTimestamp\":\"1000\",\"MessageGroupId\":\"g\","
                             "\"MessageDeduplicationId\":\"d\",\"AWSTraceHeader\":\"Root=1\"},\"MessageAttributes\":{"
                             "\"n\":{\"DataType\":\"Number.int\",\"StringValue\":\"4\",\"StringListValues\":[]},"
                             "\"Tally.FencingToken\":{\"DataType\":\"Number\",\"StringValue\":\"9\"},"
                             "\"b\":{\"DataType\":\"Binary\",\"StringValue\":\"\",\"BinaryValue\":\"AAE=\"}}}",
                             &arena, &row, reason));
    assert_int_equal(row.uid.bytes[0], 0xab);
    assert_true(bytes_equal(row.body, BYTES("one")) && bytes_equal(row.handle, BYTES("h")));
    assert_true(bytes_equal(row.group, BYTES("g")) && bytes_equal(row.deduplication_id, BYTES("d")));
    assert_true(bytes_equal(row.trace_header, BYTES("Root=1")));
    assert_int_equal(row.receive_count, 3);
    assert_true(row.age_ms > 1000);
    assert_true(bytes_equal(row.attributes, BYTES("{\"n\":{\"DataType\":\"Number.int\",\"StringValue\":\"4\"},"
                                                  "\"b\":{\"DataType\":\"Binary\",\"BinaryValue\":\"AAE=\"}}")));
    assert_true(read_message("{" MESSAGE_ID HANDLE "\"Body\":\"one\",\"Attributes\":{\"MessageGroupId\":\"\"}}", &arena,
                             &row, reason));
    assert_null(row.group.ptr);
    assert_null(row.attributes.ptr);
    assert_int_equal(row.receive_count, 1);
    arena_deinit(&arena);
}

static void what_can_be_no_message_is_left_with_a_word(void **state)
{
    static const struct {
        const char *message, *reason;
    } rows[] = {
        {"[]", "its MessageId is no UUID"},
        {"{" HANDLE "\"Body\":\"b\"}", "its MessageId is no UUID, by which Tally knows it once: none"},
        {"{\"MessageId\":\"m-17\"," HANDLE "\"Body\":\"b\"}",
         "its MessageId is no UUID, by which Tally knows it once: m-17"},
        {"{" MESSAGE_ID "\"Body\":\"b\"}", "it has no ReceiptHandle"},
        {"{" MESSAGE_ID "\"ReceiptHandle\":\"a\\u0000b\",\"Body\":\"b\"}", "it has no ReceiptHandle"},
        {"{" MESSAGE_ID HANDLE "\"Body\":7}", "its body is empty"},
        {"{" MESSAGE_ID HANDLE "\"Body\":\"\"}", "its body is empty"},
        {"{" MESSAGE_ID HANDLE "\"Body\":\"a\\u0007\"}", "or has characters that no message may have: " UID_TEXT},
        {"{" MESSAGE_ID HANDLE "\"Body\":\"\\uffff\"}", "or has characters that no message may have"},
        {"{" MESSAGE_ID HANDLE "\"Body\":\"on\",\"MD5OfBody\":\"f97c5d29941bfb1b2fdab0874906ab82\"}",
         "its body is not what its MD5OfBody says"},
        {"{" MESSAGE_ID HANDLE "\"Body\":\"b\",\"MessageAttributes\":{\"n\":{\"DataType\":\"Number\"}}}",
         "it has an attribute without type or value, or with a NUL in its name: n"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct arena arena;
        struct row row;
        char reason[ROW_REASON_SIZE] = "";
        arena_init(&arena);
        assert_false(read_message(rows[i].message, &arena, &row, reason));
        if (strstr(reason, rows[i].reason) == NULL)
            fail_msg("%s: \"%s\", not \"%s\"", rows[i].message, reason, rows[i].reason);
        arena_deinit(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_told_apart_by_code_then_by_status),
        cmocka_unit_test(batch_answers_are_read_for_each_entry),
        cmocka_unit_test(rows_become_entries),
        cmocka_unit_test(batch_is_full_before_it_is_too_large),
        cmocka_unit_test(row_that_can_be_no_message_says_why),
        cmocka_unit_test(a_trace_gives_way_where_a_message_has_no_room_for_it),
        cmocka_unit_test(urls_have_an_endpoint_and_a_name),
        cmocka_unit_test(what_a_stranger_says_becomes_one_line_of_text),
        cmocka_unit_test(a_received_message_becomes_a_row),
        cmocka_unit_test(what_can_be_no_message_is_left_with_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
