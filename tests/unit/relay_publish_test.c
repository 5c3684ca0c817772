/* The body of a Publish, and the rows that are held back from it. */
#include "relay/blocked_rows.h"
#include "relay/publish_body.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <yyjson.h>

#define UID_1 "00000000-0000-4000-8000-000000000001"

static struct row row_of(uint64_t id, const char *queue, const char *group, const char *body)
{
    struct row row = {.id = id, .queue = bytes_from_string(queue), .body = bytes_from_string(body)};
    if (group != NULL)
        row.group = bytes_from_string(group);
    assert_true(uid_from_text(BYTES(UID_1), &row.uid));
    return row;
}

/* The rows of a body with these rows; the caller frees the document. */
static yyjson_doc *write_rows(const struct row *rows, size_t count, const char *queue)
{
    struct term term = {.epoch = 7};
    const struct publish_head head = {.term = &term, .batch = 3, .confirmed_batch = 2, .is_strict = true};
    struct buffer body;
    char reason[ROW_REASON_SIZE];
    buffer_init(&body);
    publish_body_begin(&body, &head);
    for (size_t i = 0; i < count; i++)
        assert_true(publish_body_add(&body, &rows[i], queue, reason));
    publish_body_end(&body);
    yyjson_doc *doc = yyjson_read((const char *)body.data_owned, body.size, 0);
    assert_non_null(doc);
    buffer_deinit(&body);
    return doc;
}

static const char *text_of(yyjson_doc *doc, const char *pointer)
{
    return yyjson_get_str(yyjson_doc_ptr_get(doc, pointer));
}

static void a_body_says_who_publishes_and_what(void **state)
{
    struct row rows[] = {row_of(4, "q", "g", "a\"b\\c\n\t\x01 \xc3\xa4"), row_of(5, "", NULL, "b"),
                         row_of(6, "", NULL, "h")};
    (void)state;
    rows[0].delay_s = 9;
    rows[0].deduplication_id = BYTES("d");
    rows[0].attributes = BYTES("{\"n\":5}");
    rows[2].kind = ROW_ACK;
    yyjson_doc *doc = write_rows(rows, 3, "own.fifo");
    yyjson_val *root = yyjson_doc_get_root(doc);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "Epoch")), 7);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "Batch")), 3);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "ConfirmedBatch")), 2);
    assert_string_equal(text_of(doc, "/Order"), "strict");
    assert_string_equal(text_of(doc, "/Refused"), "park");
    assert_string_equal(text_of(doc, "/Rows/0/MessageBody"), "a\"b\\c\n\t\x01 \xc3\xa4");
    assert_string_equal(text_of(doc, "/Rows/0/MessageGroupId"), "g");
    assert_string_equal(text_of(doc, "/Rows/0/MessageDeduplicationId"), "d");
    assert_string_equal(text_of(doc, "/Rows/0/MessageAttributes/n/DataType"), "Number");
    assert_string_equal(text_of(doc, "/Rows/0/MessageAttributes/" ROW_UID_ATTRIBUTE "/StringValue"), UID_1);
    assert_int_equal(yyjson_get_uint(yyjson_doc_ptr_get(doc, "/Rows/0/DelaySeconds")), 9);
    assert_string_equal(text_of(doc, "/Rows/1/QueueUrl"), "own.fifo");
    assert_string_equal(text_of(doc, "/Rows/1/MessageGroupId"), UID_1); /* alone in its group */
    assert_null(yyjson_doc_ptr_get(doc, "/Rows/1/MessageAttributes"));  /* the queue adds the uid */
    assert_string_equal(text_of(doc, "/Rows/2/ReceiptHandle"), "h");
    assert_null(yyjson_doc_ptr_get(doc, "/Rows/2/QueueUrl"));
    yyjson_doc_free(doc);
}

/* R43: one bad row must not spoil the request of a thousand. */
static void R43_what_can_not_be_a_message_leaves_no_trace(void **state)
{
    static const char *const bad[] = {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80", "a\x80"};
    struct term term = {.epoch = 1};
    const struct publish_head head = {.term = &term, .batch = 1};
    struct buffer body;
    char reason[ROW_REASON_SIZE];
    (void)state;
    buffer_init(&body);
    publish_body_begin(&body, &head);
    size_t size = body.size;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct row row = row_of(1, "q", NULL, bad[i]);
        assert_false(publish_body_add(&body, &row, NULL, reason));
        assert_non_null(strstr(reason, "MessageBody is no UTF-8"));
        assert_int_equal(body.size, size);
    }
    struct row row = row_of(1, "q", NULL, "b");
    row.attributes = BYTES("[1]");
    assert_false(publish_body_add(&body, &row, NULL, reason));
    assert_non_null(strstr(reason, "JSON object"));
    row = row_of(1, "", NULL, "b");
    assert_false(publish_body_add(&body, &row, NULL, reason));
    assert_non_null(strstr(reason, "names no queue"));
    assert_int_equal(body.size, size);
    buffer_deinit(&body);
}

static bool takes(struct blocked_rows *blocked, uint64_t id, const char *queue, const char *group)
{
    struct row row = row_of(id, queue, group, "b");
    return blocked_rows_take(blocked, &row);
}

static void a_row_that_waits_holds_its_group_and_nothing_else(void **state)
{
    struct blocked_rows blocked;
    struct row row = row_of(1, "q", "g", "b");
    (void)state;
    blocked_rows_init(&blocked, false);
    assert_false(takes(&blocked, 2, "q", "g"));
    blocked_rows_add(&blocked, &row, false);
    assert_true(takes(&blocked, 2, "q", "g"));
    assert_true(takes(&blocked, 3, "other", "g"));
    assert_false(takes(&blocked, 4, "q", "h"));
    assert_false(takes(&blocked, 5, "q", NULL));
    assert_int_equal(blocked.count, 3);
    blocked_rows_clear(&blocked);
    assert_false(takes(&blocked, 2, "q", "g"));
    blocked_rows_deinit(&blocked);
}

/* A row that waits for a queue makes its own group wait, also on its way to other queues. */
static void R52_a_blocked_queue_holds_all_that_goes_there(void **state)
{
    struct blocked_rows blocked;
    struct row row = row_of(1, "gone", NULL, "b");
    (void)state;
    blocked_rows_init(&blocked, false);
    blocked_rows_add(&blocked, &row, true);
    assert_false(takes(&blocked, 2, "q", "g"));
    assert_true(takes(&blocked, 3, "gone", "g"));
    assert_true(takes(&blocked, 4, "q", "g"));
    assert_false(takes(&blocked, 5, "q", NULL));
    blocked_rows_deinit(&blocked);
}

static void in_strict_order_everything_waits(void **state)
{
    struct blocked_rows blocked;
    struct row row = row_of(1, "q", "g", "b");
    (void)state;
    blocked_rows_init(&blocked, true);
    assert_false(blocked_rows_are_full(&blocked));
    blocked_rows_add(&blocked, &row, false);
    assert_true(takes(&blocked, 2, "other", NULL));
    assert_true(blocked_rows_are_full(&blocked));
    blocked_rows_deinit(&blocked);
}

static void many_groups_can_be_held(void **state)
{
    struct blocked_rows blocked;
    char group[20];
    (void)state;
    blocked_rows_init(&blocked, false);
    for (unsigned i = 0; i < BLOCKED_ROWS_MAX; i++) {
        snprintf(group, sizeof group, "g%u", i);
        struct row row = row_of(i + 1, "q", group, "b");
        assert_false(blocked_rows_are_full(&blocked));
        blocked_rows_add(&blocked, &row, false);
    }
    assert_true(blocked_rows_are_full(&blocked));
    assert_true(takes(&blocked, 1, "q", "g0"));
    assert_true(takes(&blocked, 1, "q", "g99999"));
    assert_false(takes(&blocked, 1, "q", "g100000"));
    blocked_rows_deinit(&blocked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_says_who_publishes_and_what),
        cmocka_unit_test(R43_what_can_not_be_a_message_leaves_no_trace),
        cmocka_unit_test(a_row_that_waits_holds_its_group_and_nothing_else),
        cmocka_unit_test(R52_a_blocked_queue_holds_all_that_goes_there),
        cmocka_unit_test(in_strict_order_everything_waits),
        cmocka_unit_test(many_groups_can_be_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
