/* A line of an import, and the ids that an export has twice. */
#include "base/assert.h"
#include "tally/import_message.h"
#include "tally/repeated_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW_MS 1000000u

/* The members of the send that the line describes; or NULL, and the fault. The caller frees it. */
static char *send_of(const char *line, char fault[IMPORT_FAULT_SIZE])
{
    struct import_message message;
    struct json_body body;
    char *text = NULL;
    if (!import_message_init(&message, bytes_from_string(line), fault))
        return NULL;
    json_body_init(&body);
    if (message.queue == NULL)
        message.queue = "q";
    if (import_message_add(&message, true, NOW_MS, &body, body.root, fault))
        text = json_write(body.doc_owned, YYJSON_WRITE_NOFLAG, NULL);
    yyjson_mut_doc_free(body.doc_owned);
    import_message_deinit(&message);
    return text;
}

static void assert_send(const char *line, const char *expected)
{
    char fault[IMPORT_FAULT_SIZE] = "";
    char *text = send_of(line, fault);
    if (text == NULL)
        fail_msg("%s", fault);
    assert_string_equal(text, expected);
    free(text);
}

static void a_line_becomes_the_members_of_a_send(void **state)
{
    (void)state;
    assert_send("{\"body\": \"a\\u0000\\n\"}", "{\"MessageBody\":\"a\\u0000\\n\"}");
    assert_send("{\"body\": \"a\", \"group\": \"g\", \"deduplicationId\": \"d\", \"traceHeader\": \"t\"}",
                "{\"MessageBody\":\"a\",\"MessageGroupId\":\"g\",\"MessageDeduplicationId\":\"d\","
                "\"MessageSystemAttributes\":{\"AWSTraceHeader\":{\"DataType\":\"String\",\"StringValue\":\"t\"}}}");
    assert_send("{\"body\": \"a\", \"attributes\": {\"s\": \"x\", \"n\": {\"type\": \"Number\", \"value\": \"1\"},"
                "\"b\": {\"type\": \"Binary.z\", \"value\": \"AA==\"}}, \"sentAt\": 5}",
                "{\"MessageBody\":\"a\",\"MessageAttributes\":{\"s\":{\"DataType\":\"String\",\"StringValue\":\"x\"},"
                "\"n\":{\"DataType\":\"Number\",\"StringValue\":\"1\"},"
                "\"b\":{\"DataType\":\"Binary.z\",\"BinaryValue\":\"AA==\"}}}");
}

static void what_is_left_of_a_delay_is_rounded_up_and_a_fifo_queue_has_its_own(void **state)
{
    (void)state;
    assert_send("{\"body\": \"a\", \"delayedUntil\": 1000.001}", "{\"MessageBody\":\"a\",\"DelaySeconds\":1}");
    assert_send("{\"body\": \"a\", \"delayedUntil\": 1900}", "{\"MessageBody\":\"a\",\"DelaySeconds\":900}");
    assert_send("{\"body\": \"a\", \"delayedUntil\": 1000}", "{\"MessageBody\":\"a\"}");
    assert_send("{\"body\": \"a\", \"delayedUntil\": -1e300}", "{\"MessageBody\":\"a\"}");
    assert_send("{\"queue\": \"q.fifo\", \"body\": \"a\", \"delayedUntil\": 1500}", "{\"MessageBody\":\"a\"}");
    char fault[IMPORT_FAULT_SIZE] = "";
    assert_null(send_of("{\"body\": \"a\", \"delayedUntil\": 1900.001}", fault));
    assert_non_null(strstr(fault, "900 s"));
}

/* A script that makes lines says what it means; the ids of an export mean nothing elsewhere. */
static void what_connects_messages_is_left_out_of_a_line_of_an_export_only(void **state)
{
    static const char *const names[] = {"Tally.Batch", "Tally.After", "Tally.AfterFailure", "Tally.Producer",
                                        "Tally.Sequence"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        char line[256], expected[256];
        snprintf(line, sizeof line,
                 "{\"export\": \"e\", \"number\": 1, \"body\": \"a\", \"attributes\": {\"%s\": \"x\"}}", names[i]);
        assert_send(line, "{\"MessageBody\":\"a\"}");
        snprintf(line, sizeof line, "{\"body\": \"a\", \"attributes\": {\"%s\": \"x\"}}", names[i]);
        snprintf(
            expected, sizeof expected,
            "{\"MessageBody\":\"a\",\"MessageAttributes\":{\"%s\":{\"DataType\":\"String\",\"StringValue\":\"x\"}}}",
            names[i]);
        assert_send(line, expected);
    }
}

static void a_row_is_called_by_its_old_message_id_or_by_its_number(void **state)
{
    struct import_message message;
    char fault[IMPORT_FAULT_SIZE], uid[3][UUID_TEXT_SIZE + 1];
    static const char *const lines[] = {
        "{\"export\": \"e\", \"number\": 1, \"body\": \"a\", \"messageId\": \"00000000-0000-8015-a585-62923cea5c13\"}",
        "{\"export\": \"e\", \"number\": 1, \"body\": \"a\", \"messageId\": \"none\"}",
        "{\"export\": \"e\", \"number\": 2, \"body\": \"a\"}",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        assert_true(import_message_init(&message, bytes_from_string(lines[i]), fault));
        import_message_uid(&message, uid[i]);
        import_message_deinit(&message);
    }
    assert_string_equal(uid[0], "00000000-0000-8015-a585-62923cea5c13");
    assert_string_not_equal(uid[1], uid[2]);
    assert_int_equal(strlen(uid[1]), UUID_TEXT_SIZE);
}

/* A filter may take an id for a repeated one. It must miss none: that message would be dropped as a duplicate. */
static void no_repeated_id_is_missed_and_few_others_are_taken_for_one(void **state)
{
    enum { COUNT = 200000 };
    struct repeated_ids ids = {NULL};
    unsigned wrong = 0;
    char id[32];
    (void)state;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < COUNT; i++) {
            snprintf(id, sizeof id, "order-%u", i);
            const bool is_repeated = repeated_ids_note(&ids, "q", id);
            wrong += round == 0 && is_repeated;
            assert_true(round == 0 || is_repeated);
        }
    assert_in_range(wrong, 0, 2);
    wrong = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(id, sizeof id, "order-%u", i);
        wrong += repeated_ids_note(&ids, "another", id);
    }
    assert_in_range(wrong, 0, 2);
    repeated_ids_deinit(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_becomes_the_members_of_a_send),
        cmocka_unit_test(what_is_left_of_a_delay_is_rounded_up_and_a_fifo_queue_has_its_own),
        cmocka_unit_test(what_connects_messages_is_left_out_of_a_line_of_an_export_only),
        cmocka_unit_test(a_row_is_called_by_its_old_message_id_or_by_its_number),
        cmocka_unit_test(no_repeated_id_is_missed_and_few_others_are_taken_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
