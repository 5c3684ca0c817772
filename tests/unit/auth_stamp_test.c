/* Times of requests, against those of the C library. */
#include "auth/stamp.h"

#include "base/assert.h"
#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#define LAST_S UINT64_C(253402300799) /* the end of the year 9999 */

static void assert_is(int64_t s)
{
    time_t time = (time_t)s;
    struct tm civil;
    char text[32], http_date[40];
    gmtime_r(&time, &civil);
    strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &civil);
    strftime(http_date, sizeof(http_date), "%a, %d %b %Y %H:%M:%S GMT", &civil);
    struct stamp made = stamp_of(s), read, read_http_date;
    assert_true(bytes_equal(bytes_make(made.text, STAMP_SIZE), bytes_from_string(text)));
    assert_true(stamp_read(bytes_from_string(text), &read));
    assert_true(stamp_read_http_date(bytes_from_string(http_date), &read_http_date));
    assert_true(made.s == s && read.s == s && read_http_date.s == s);
    assert_memory_equal(read.text, made.text, STAMP_SIZE);
    assert_memory_equal(read_http_date.text, made.text, STAMP_SIZE);
}

static void every_time_reads_as_it_was_written(void **state)
{
    (void)state;
    static const int64_t corners[] = {0, 86399, 86400, 68169599, 68169600, 951782400, 951868799, 1709164800, LAST_S};
    for (size_t i = 0; i < ARRAY_LENGTH(corners); i++)
        assert_is(corners[i]);
    struct random random = {1};
    for (unsigned i = 0; i < 20000; i++)
        assert_is((int64_t)(random_u64(&random) % (LAST_S + 1)));
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "20150830T123600",
        "20150830T123600Zz",
        "20150830 123600Z",
        "20150830t123600Z",
        "20151330T123600Z",
        "20150001T123600Z",
        "20150832T123600Z",
        "20150229T123600Z",
        "21000229T123600Z",
        "20150830T243600Z",
        "20150830T126000Z",
        "20150830T123661Z",
        "19691231T235959Z",
        "2015-830T123600Z",
        "Sun, 30 Aug 2015 12:36:00 UTC",
        "Sun, 30 aug 2015 12:36:00 GMT",
        "Sun, 3  Aug 2015 12:36:00 GMT",
        "Sun, 29 Feb 2015 12:36:00 GMT",
        "Sunday, 30-Aug-15 12:36:00 GMT",
    };
    struct stamp stamp;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        if (stamp_read(bytes_from_string(texts[i]), &stamp) ||
            stamp_read_http_date(bytes_from_string(texts[i]), &stamp))
            fail_msg("%s", texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_time_reads_as_it_was_written),
        cmocka_unit_test(what_is_no_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
