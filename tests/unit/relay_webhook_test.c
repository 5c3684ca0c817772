/* Web hooks: the signature, the headers that a row travels with, and what an answer means. The vector is that of the
 * library for Python of Standard Webhooks. */
#include "relay/webhook_answer.h"
#include "relay/webhook_headers.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <curl/curl.h>

#define KEY "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static void sign(const char *secret, struct buffer *signature)
{
    struct webhook_keys keys;
    struct fault fault;
    assert_true(webhook_keys_read(&keys, bytes_from_string(secret), &fault));
    webhook_sign(&keys, BYTES("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330, BYTES("{\"test\": 2432232314}"), signature);
    buffer_append_u8(signature, 0);
    webhook_keys_deinit(&keys);
}

static void a_body_is_signed_as_standard_webhooks_says(void **state)
{
    struct buffer signature;
    (void)state;
    buffer_init(&signature);
    sign(KEY, &signature);
    assert_string_equal((char *)signature.data_owned, SIGNATURE);
    buffer_truncate(&signature, 0);
    sign("\n  " KEY "=\r\n\nanother key as it is\n", &signature);
    assert_memory_equal(signature.data_owned, SIGNATURE " v1,", sizeof(SIGNATURE " v1,") - 1);
    buffer_deinit(&signature);
}

static void a_secret_that_is_no_key_is_refused_without_being_told(void **state)
{
    static const char *const secrets[] = {"",
                                          " \n",
                                          "short",
                                          "whsec_MfKQ!r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                          "whsec_",
                                          KEY "\nshort",
                                          KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(secrets); i++) {
        struct webhook_keys keys;
        struct fault fault = {.text = ""};
        assert_false(webhook_keys_read(&keys, bytes_from_string(secrets[i]), &fault));
        assert_non_null(strstr(fault.text, "secret"));
        assert_null(strstr(fault.text, "MfKQ"));
        webhook_keys_deinit(&keys);
    }
}

/* --- headers ------------------------------------------------------------------------------------------------------ */

static struct row example_row(void)
{
    struct row row = {.id = 1, .body = BYTES("{\"a\": 1}"), .group = BYTES("customer 7"), .queue = BYTES("orders")};
    assert_true(uid_from_text(BYTES("0f0e0d0c-0b0a-4909-8807-060504030201"), &row.uid));
    return row;
}

static bool has(const struct curl_slist *list, const char *line)
{
    for (; list != NULL; list = list->next)
        if (strcmp(list->data, line) == 0)
            return true;
    return false;
}

static size_t count(const struct curl_slist *list, const char *prefix)
{
    size_t found = 0;
    for (; list != NULL; list = list->next)
        found += strncmp(list->data, prefix, strlen(prefix)) == 0;
    return found;
}

static struct curl_slist *headers_of(const struct row *row)
{
    struct webhook_attempt attempt = {.number = 3, .is_maybe_duplicate = true, .time_s = 1614265330};
    struct webhook_keys keys = {.count = 0};
    return webhook_headers(row, &attempt, &keys);
}

static void a_row_travels_with_its_uid_its_attempt_and_its_group(void **state)
{
    struct row row = example_row();
    struct curl_slist *list = headers_of(&row);
    (void)state;
    assert_true(has(list, "Idempotency-Key: 0f0e0d0c-0b0a-4909-8807-060504030201"));
    assert_true(has(list, "Tally-Attempt: 3"));
    assert_true(has(list, "Tally-Maybe-Duplicate: 1"));
    assert_true(has(list, "Tally-Group: customer 7"));
    assert_true(has(list, "Tally-Queue: orders"));
    assert_true(has(list, "Content-Type: application/json"));
    assert_int_equal(count(list, "webhook-"), 0);
    curl_slist_free_all(list);
}

static void attributes_that_fit_into_headers_travel_too(void **state)
{
    struct row row = example_row();
    (void)state;
    row.body = BYTES("no JSON");
    row.attributes = BYTES(
        "{\"plain\": \"yes\", \"number\": 4.50, \"sqs.one\": {\"DataType\": \"String\", \"StringValue\": \"x y\"}, "
        "\"empty\": \"\", \"binary\": {\"DataType\": \"Binary\", \"BinaryValue\": \"AAAA\"}, "
        "\"evil\": \"a\\r\\nHost: b\", \"foreign\": \"\\u00fc\", \"a:b\": \"c\", \" \": \"d\"}");
    struct curl_slist *list = headers_of(&row);
    assert_true(has(list, "Tally-Attribute-plain: yes"));
    assert_true(has(list, "Tally-Attribute-number: 4.5"));
    assert_true(has(list, "Tally-Attribute-sqs.one: x y"));
    assert_true(has(list, "Tally-Attribute-empty;"));
    assert_int_equal(count(list, "Tally-Attribute-"), 4);
    assert_true(has(list, "Content-Type: text/plain; charset=utf-8"));
    curl_slist_free_all(list);
}

static void an_attribute_may_say_what_the_body_is(void **state)
{
    struct row row = example_row();
    (void)state;
    row.attributes = BYTES("{\"content-type\": \"application/xml\"}");
    struct curl_slist *list = headers_of(&row);
    assert_true(has(list, "Content-Type: application/xml"));
    assert_int_equal(count(list, "Content-Type"), 1);
    curl_slist_free_all(list);
    row.attributes = BYTES("{\"Content-Type\": \"a\\nb\"}");
    list = headers_of(&row);
    assert_true(has(list, "Content-Type: application/json"));
    assert_int_equal(count(list, "Content-Type"), 1);
    curl_slist_free_all(list);
}

static void a_trace_travels_in_the_headers_where_its_tools_look(void **state)
{
    struct row row = example_row();
    (void)state;
    row.attributes = BYTES("{\"traceparent\": \"00-1-2-01\", \"baggage\": \"user=7,a=b\", "
                           "\"tracestate\": {\"DataType\": \"String\", \"StringValue\": \"rojo=1\"}}");
    struct curl_slist *list = headers_of(&row);
    assert_true(has(list, "traceparent: 00-1-2-01"));
    assert_true(has(list, "tracestate: rojo=1"));
    assert_true(has(list, "baggage: user=7,a=b"));
    assert_int_equal(count(list, "Tally-Attribute-"), 0);
    curl_slist_free_all(list);
    row.attributes = BYTES("{\"traceparent\": \"00-1\\r\\nHost: b\", \"Baggage\": \"a=b\"}");
    list = headers_of(&row);
    assert_int_equal(count(list, "traceparent"), 0);
    assert_true(has(list, "Tally-Attribute-Baggage: a=b"));
    curl_slist_free_all(list);
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

static void an_end_means_what_the_mode_makes_of_it(void **state)
{
    static const struct {
        int status;
        bool was_sent;
        enum verdict at_least_once, at_most_once;
        /* in which of them no other row is sent for a while: "": none, "m": at-most-once, "lm": both */
        const char *pauses;
    } rows[] = {
        {200, true, VERDICT_DELIVERED, VERDICT_DELIVERED, ""}, {204, true, VERDICT_DELIVERED, VERDICT_DELIVERED, ""},
        {400, true, VERDICT_REFUSED, VERDICT_REFUSED, ""},     {413, true, VERDICT_REFUSED, VERDICT_REFUSED, ""},
        {415, true, VERDICT_REFUSED, VERDICT_REFUSED, ""},     {422, true, VERDICT_REFUSED, VERDICT_REFUSED, ""},
        {431, true, VERDICT_REFUSED, VERDICT_REFUSED, ""},     {301, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},
        {302, true, VERDICT_RETRY, VERDICT_REFUSED, "lm"},     {303, true, VERDICT_RETRY, VERDICT_REFUSED, "lm"},
        {308, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},       {401, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},
        {403, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},       {404, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},
        {405, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},       {410, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},
        {418, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},       {429, true, VERDICT_RETRY, VERDICT_RETRY, "lm"},
        {408, true, VERDICT_RETRY, VERDICT_REFUSED, ""},       {409, true, VERDICT_RETRY, VERDICT_REFUSED, ""},
        {425, true, VERDICT_RETRY, VERDICT_REFUSED, ""},       {500, true, VERDICT_RETRY, VERDICT_REFUSED, "m"},
        {502, true, VERDICT_RETRY, VERDICT_REFUSED, "m"},      {503, true, VERDICT_RETRY, VERDICT_REFUSED, "lm"},
        {0, true, VERDICT_RETRY, VERDICT_DOUBTED, ""},         {0, false, VERDICT_RETRY, VERDICT_RETRY, "lm"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct webhook_end end = {.status = rows[i].status, .was_sent = rows[i].was_sent, .fault = "it broke"};
        struct attempt attempt = {.row = NULL};
        bool pauses = webhook_judge(&end, false, &attempt);
        assert_int_equal(attempt.verdict, rows[i].at_least_once);
        assert_int_equal(pauses, strchr(rows[i].pauses, 'l') != NULL);
        pauses = webhook_judge(&end, true, &attempt);
        assert_int_equal(attempt.verdict, rows[i].at_most_once);
        assert_int_equal(pauses, strchr(rows[i].pauses, 'm') != NULL);
        assert_true(attempt.verdict == VERDICT_DELIVERED || attempt.reason[0] != '\0');
        /* What is sent again at most once has not been done. */
        assert_false(attempt.verdict == VERDICT_RETRY && attempt.may_have_arrived);
    }
}

static void a_retry_after_is_honoured_up_to_a_bound(void **state)
{
    struct webhook_end end = {.status = 429, .was_sent = true, .retry_after_s = 7};
    struct attempt attempt = {.row = NULL};
    (void)state;
    webhook_judge(&end, false, &attempt);
    assert_int_equal(attempt.retry_ms, 7000);
    assert_false(attempt.may_have_arrived);
    end.retry_after_s = UINT64_MAX / 10;
    webhook_judge(&end, false, &attempt);
    assert_int_equal(attempt.retry_ms, WEBHOOK_RETRY_MAX_MS);
}

static void what_a_receiver_says_is_told_in_plain_characters(void **state)
{
    struct webhook_end end = {.status = 500, .was_sent = true, .text = BYTES("a\x1b[31m\nb\xff")};
    struct attempt attempt = {.row = NULL};
    (void)state;
    webhook_judge(&end, false, &attempt);
    assert_string_equal(attempt.reason, "the receiver answered 500: a [31m b?");
    assert_true(attempt.may_have_arrived);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_signed_as_standard_webhooks_says),
        cmocka_unit_test(a_secret_that_is_no_key_is_refused_without_being_told),
        cmocka_unit_test(a_row_travels_with_its_uid_its_attempt_and_its_group),
        cmocka_unit_test(attributes_that_fit_into_headers_travel_too),
        cmocka_unit_test(an_attribute_may_say_what_the_body_is),
        cmocka_unit_test(a_trace_travels_in_the_headers_where_its_tools_look),
        cmocka_unit_test(an_end_means_what_the_mode_makes_of_it),
        cmocka_unit_test(a_retry_after_is_honoured_up_to_a_bound),
        cmocka_unit_test(what_a_receiver_says_is_told_in_plain_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
