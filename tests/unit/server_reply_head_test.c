#include "server/reply_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static const char request_id[] = "01234567-89ab-4cde-8f01-23456789abcd";
static const char date[] = "Sun, 06 Nov 1994 08:49:37 GMT";

static struct reply_head head_of(int status, enum error error)
{
    return (struct reply_head){
        .status = status,
        .error = error,
        .content_type = "application/x-amz-json-1.0",
        .request_id = request_id,
        .date = date,
        .body_size = 17,
    };
}

static const char *written(const struct reply_head *head)
{
    static char text[REPLY_HEAD_SIZE_MAX + 1];
    text[reply_head_write(head, (uint8_t *)text)] = '\0';
    return text;
}

static void a_good_reply_has_exactly_these_lines(void **state)
{
    (void)state;
    struct reply_head head = head_of(200, OK);
    assert_string_equal(written(&head), "HTTP/1.1 200 OK\r\n"
                                        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                                        "Content-Type: application/x-amz-json-1.0\r\n"
                                        "Content-Length: 17\r\n"
                                        "x-amzn-RequestId: 01234567-89ab-4cde-8f01-23456789abcd\r\n"
                                        "\r\n");
}

static void an_error_names_its_query_code_and_whose_fault_it_is(void **state)
{
    (void)state;
    struct reply_head head = head_of(400, ERROR_QUEUE_DOES_NOT_EXIST);
    assert_non_null(strstr(written(&head), "HTTP/1.1 400 Bad Request\r\n"));
    assert_non_null(
        strstr(written(&head), "\r\nx-amzn-query-error: AWS.SimpleQueueService.NonExistentQueue;Sender\r\n"));
    head = head_of(500, ERROR_INTERNAL_FAILURE);
    assert_non_null(strstr(written(&head), "\r\nx-amzn-query-error: InternalFailure;Receiver\r\n"));
}

static void the_head_of_every_error_fits(void **state)
{
    (void)state;
    for (int error = OK + 1; error < ERROR_COUNT; error++) {
        struct reply_head head = head_of(error_row((enum error)error)->status, (enum error)error);
        head.is_last = true;
        head.body_size = UINT64_MAX;
        const char *text = written(&head);
        assert_null(strstr(text, " Status\r\n")); /* each status has its own phrase */
        assert_string_equal(text + strlen(text) - 4, "\r\n\r\n");
    }
}

static void the_client_is_told_whether_the_connection_stays(void **state)
{
    (void)state;
    struct reply_head head = head_of(200, OK);
    head.is_http_1_0 = true;
    assert_non_null(strstr(written(&head), "\r\nConnection: keep-alive\r\n"));
    head.is_last = true;
    assert_non_null(strstr(written(&head), "\r\nConnection: close\r\n"));
    assert_null(strstr(written(&head), "keep-alive"));
}

#define ID_COUNT 20000

static int id_compare(const void *a, const void *b)
{
    return memcmp(a, b, REQUEST_ID_SIZE);
}

static void request_ids_look_like_uuids_and_never_repeat(void **state)
{
    (void)state;
    static char ids[ID_COUNT][REQUEST_ID_SIZE];
    struct request_ids source;
    request_ids_init(&source, (uint64_t[2]){UINT64_C(0xfedcba9876543210), UINT64_C(0x0123456789abcdef)});
    for (size_t i = 0; i < ID_COUNT; i++) {
        request_ids_next(&source, ids[i]);
        for (size_t j = 0; j < REQUEST_ID_SIZE; j++) {
            bool is_hyphen = j == 8 || j == 13 || j == 18 || j == 23;
            assert_true(is_hyphen ? ids[i][j] == '-' : strchr("0123456789abcdef", ids[i][j]) != NULL);
        }
        assert_int_equal(ids[i][14], '4');
        assert_true(strchr("89ab", ids[i][19]) != NULL);
    }
    qsort(ids, ID_COUNT, REQUEST_ID_SIZE, id_compare);
    for (size_t i = 1; i < ID_COUNT; i++)
        assert_true(memcmp(ids[i - 1], ids[i], REQUEST_ID_SIZE) < 0);
}

static void dates_agree_with_the_c_library(void **state)
{
    (void)state;
    static const uint64_t times[] = {0, 784111777, 951782399, 951782400, 951868800, 1709164800, 4107542399, 4107542400};
    for (uint64_t step = 0; step < 3000; step++) {
        uint64_t time_s = step < 8 ? times[step] : step * UINT64_C(2012345);
        time_t time = (time_t)time_s;
        struct tm parts;
        char expected[64], actual[HTTP_DATE_SIZE + 1] = {0};
        strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&time, &parts));
        http_date_format(time_s, actual);
        assert_string_equal(actual, expected);
    }
}

static void more_fields_stand_behind_the_others(void **state)
{
    (void)state;
    struct reply_head head = head_of(200, OK);
    head.fields = "ETag: \"1\"\r\nVary: Accept-Encoding\r\n";
    head.is_last = true;
    const char *text = written(&head);
    const char *fields = strstr(text, "\r\nETag: \"1\"\r\nVary: Accept-Encoding\r\nConnection: close\r\n\r\n");
    assert_non_null(fields);
    assert_int_equal(strlen(fields), strlen("\r\nETag: \"1\"\r\nVary: Accept-Encoding\r\nConnection: close\r\n\r\n"));
}

/* RFC 9110, 15.4.5 and 8.6: a length would have to be that of the whole file. */
static void not_modified_says_no_length(void **state)
{
    (void)state;
    struct reply_head head = head_of(304, OK);
    head.content_type = NULL;
    const char *text = written(&head);
    assert_non_null(strstr(text, "HTTP/1.1 304 Not Modified\r\nDate: "));
    assert_null(strstr(text, "Content-Length"));
    assert_null(strstr(text, "Content-Type"));
    assert_string_equal(text + strlen(text) - 4, "\r\n\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_reply_has_exactly_these_lines),
        cmocka_unit_test(an_error_names_its_query_code_and_whose_fault_it_is),
        cmocka_unit_test(the_head_of_every_error_fits),
        cmocka_unit_test(the_client_is_told_whether_the_connection_stays),
        cmocka_unit_test(more_fields_stand_behind_the_others),
        cmocka_unit_test(not_modified_says_no_length),
        cmocka_unit_test(request_ids_look_like_uuids_and_never_repeat),
        cmocka_unit_test(dates_agree_with_the_c_library),
    };
    return cmocka_run_group_tests_name("reply_head", tests, NULL, NULL);
}
