/* What the daemon says, with a reader that reads, one that does not, and one that has gone. */
#include "base/assert.h"
#include "tallyd/message_log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_MS 20000u

static int ends[2];

static int setup(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    return pipe(ends);
}

static int teardown(void **state)
{
    (void)state;
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* Reads until `words` came; what came, with a NUL. */
static void read_until(const char *words, char *text, size_t size)
{
    size_t length = 0;
    text[0] = '\0';
    while (strstr(text, words) == NULL) {
        struct pollfd input = {.fd = ends[0], .events = POLLIN};
        assert_int_equal(poll(&input, 1, (int)PATIENCE_MS), 1);
        assert_true(length + 1 < size);
        const ssize_t count = read(ends[0], text + length, size - 1 - length);
        assert_true(count > 0);
        length += (size_t)count;
        text[length] = '\0';
    }
}

static void lines_arrive_in_the_order_in_which_they_were_said(void **state)
{
    (void)state;
    struct message_log *log = message_log_create(ends[1], "standard error");
    message_log_say(log, "number %d", 1);
    message_log_say(log, "two\nlines are one");
    assert_true(message_log_flush(log, PATIENCE_MS));
    message_log_destroy(log, PATIENCE_MS);
    char text[100];
    read_until("one\n", text, sizeof(text));
    assert_string_equal(text, "number 1\ntwo lines are one\n");
}

static void a_line_that_is_too_long_is_cut_and_the_next_one_is_whole(void **state)
{
    (void)state;
    static char name[2 * MESSAGE_LOG_LINE_SIZE], text[4 * MESSAGE_LOG_LINE_SIZE];
    memset(name, 'x', sizeof(name) - 1);
    struct message_log *log = message_log_create(ends[1], "standard error");
    message_log_say(log, "%s", name);
    message_log_say(log, "end");
    message_log_destroy(log, PATIENCE_MS);
    read_until("end\n", text, sizeof(text));
    assert_int_equal(strlen(text), MESSAGE_LOG_LINE_SIZE + strlen("end\n"));
}

static void nobody_waits_for_a_reader_and_what_was_dropped_is_said_later(void **state)
{
    (void)state;
    static char text[1 << 20];
    struct message_log *log = message_log_create(ends[1], "standard error");
    char line[1000];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (unsigned i = 0; i < 1000; i++) /* a pipe holds 64 KiB, and the queue as much: the rest has no place */
        message_log_say(log, "%s", line);
    const uint64_t dropped = message_log_dropped_count(log);
    assert_true(dropped > 500 && dropped < 1000);
    assert_false(message_log_flush(log, 1));
    char notice[100];
    (void)snprintf(notice, sizeof(notice), "tallyd: %llu lines are missing here", (unsigned long long)dropped);
    read_until(notice, text, sizeof(text));
    assert_non_null(strstr(text, "standard error was not read"));
    message_log_say(log, "as before");
    read_until("as before\n", text, sizeof(text));
    assert_null(strstr(text, "missing"));
    message_log_destroy(log, PATIENCE_MS);
}

static void a_reader_that_has_gone_costs_the_lines_and_nothing_else(void **state)
{
    (void)state;
    close(ends[0]);
    struct message_log *log = message_log_create(ends[1], "standard error");
    for (unsigned i = 0; i < 10; i++)
        message_log_say(log, "number %u", i);
    assert_true(message_log_flush(log, PATIENCE_MS));
    assert_int_equal(message_log_dropped_count(log), 10);
    message_log_destroy(log, PATIENCE_MS);
    ends[0] = open("/dev/null", O_RDONLY); /* for the teardown */
}

static void a_descriptor_that_does_not_block_is_waited_for_too(void **state)
{
    (void)state;
    static char text[1 << 20];
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    struct message_log *log = message_log_create(ends[1], "standard error");
    char line[1000];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (unsigned i = 0; i < 100; i++) { /* more than the pipe holds, less than pipe and queue */
        message_log_say(log, "%s", line);
        (void)message_log_flush(log, 1);
    }
    message_log_say(log, "end");
    read_until("end\n", text, sizeof(text));
    assert_int_equal(strlen(text), 100 * sizeof(line) + strlen("end\n"));
    assert_int_equal(message_log_dropped_count(log), 0);
    message_log_destroy(log, PATIENCE_MS);
}

static void *say_many(void *log)
{
    for (unsigned i = 0; i < 1000; i++)
        message_log_say(log, "a line");
    return NULL;
}

static void several_threads_may_speak(void **state)
{
    (void)state;
    static char text[1 << 20];
    struct message_log *log = message_log_create(ends[1], "standard error");
    pthread_t threads[4];
    for (unsigned i = 0; i < ARRAY_LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say_many, log), 0);
    for (unsigned i = 0; i < ARRAY_LENGTH(threads); i++)
        (void)pthread_join(threads[i], NULL);
    message_log_say(log, "end");
    read_until("end\n", text, sizeof(text));
    assert_int_equal(strlen(text), 4 * 1000 * strlen("a line\n") + strlen("end\n"));
    message_log_destroy(log, PATIENCE_MS);
}

/* --- what the lines look like ------------------------------------------------------------------------------------- */

#define AT_MS UINT64_C(1764431261042) /* 2025-11-29T15:47:41.042Z */

static void expect_line(enum message_form form, bool is_for_journal, enum message_level level, const char *text,
                        const char *expected)
{
    const struct message_format format = {.form = form, .is_for_journal = is_for_journal};
    char line[MESSAGE_LINE_SIZE + 1];
    line[message_format_line(&format, level, AT_MS, text, line)] = '\0';
    assert_string_equal(line, expected);
}

static void a_line_has_the_form_that_is_asked_for(void **state)
{
    (void)state;
    const char *said = "tallyd: the \"disk\" is\nfull\x1b[2J";
    expect_line(MESSAGE_PLAIN, false, MESSAGE_WARNING, said, "tallyd: the \"disk\" is full [2J\n");
    expect_line(MESSAGE_PLAIN, true, MESSAGE_ERROR, said, "<3>tallyd: the \"disk\" is full [2J\n");
    expect_line(MESSAGE_TEXT, false, MESSAGE_NOTICE, said,
                "2025-11-29T15:47:41.042Z notice the \"disk\" is full [2J\n");
    expect_line(MESSAGE_TEXT, true, MESSAGE_INFO, "tallyd ready on x",
                "<6>2025-11-29T15:47:41.042Z info tallyd ready on x\n");
    expect_line(MESSAGE_JSON, true, MESSAGE_WARNING, said,
                "{\"time\":\"2025-11-29T15:47:41.042Z\",\"level\":\"warning\",\"message\":\"the \\\"disk\\\" is "
                "full [2J\"}\n");
    expect_line(MESSAGE_JSON, false, MESSAGE_INFO, "\xc3\xa9\xff",
                "{\"time\":\"2025-11-29T15:47:41.042Z\",\"level\":\"info\",\"message\":\"\xc3\xa9?\"}\n");
}

static void a_json_line_that_is_too_long_is_cut_inside_its_quotes(void **state)
{
    (void)state;
    static char text[3 * MESSAGE_LINE_SIZE];
    const struct message_format format = {.form = MESSAGE_JSON};
    for (size_t lead = 0; lead < 8; lead++) {
        memset(text, 'x', lead);
        for (size_t i = lead; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xc3\xa9\"", 3);
        char line[MESSAGE_LINE_SIZE];
        const size_t size = message_format_line(&format, MESSAGE_INFO, AT_MS, text, line);
        assert_true(size <= MESSAGE_LINE_SIZE && size > MESSAGE_LINE_SIZE - 4);
        assert_memory_equal(line + size - 3, "\"}\n", 3);
        assert_true(line[size - 4] == '"' ? line[size - 5] == '\\' : line[size - 4] == '\xa9');
    }
}

static void a_form_is_found_by_its_name(void **state)
{
    (void)state;
    enum message_form form = MESSAGE_PLAIN;
    assert_true(message_form_find("json", &form) && form == MESSAGE_JSON);
    assert_false(message_form_find("xml", &form));
    assert_int_equal(form, MESSAGE_JSON);
}

static void only_the_stream_to_journald_has_prefixes(void **state)
{
    (void)state;
    struct stat status;
    char stream[64];
    assert_int_equal(fstat(ends[1], &status), 0);
    (void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)status.st_dev,
                   (unsigned long long)status.st_ino);
    assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
    assert_false(message_is_for_journal(ends[1]));
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    assert_true(message_is_for_journal(ends[1]));
    assert_false(message_is_for_journal(STDIN_FILENO));
    assert_int_equal(setenv("JOURNAL_STREAM", "nonsense", 1), 0);
    assert_false(message_is_for_journal(ends[1]));
    assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
}

static void notices_leave_half_of_the_queue_to_what_goes_wrong(void **state)
{
    (void)state;
    static char text[1 << 20], line[1000];
    memset(line, 'x', sizeof(line) - 1);
    struct message_log *log = message_log_create(ends[1], "standard error");
    for (unsigned i = 0; i < 300; i++)
        message_log_tell(log, MESSAGE_NOTICE, "%s", line);
    const uint64_t dropped = message_log_dropped_count(log);
    assert_true(dropped > 150);
    for (unsigned i = 0; i < 30; i++)
        message_log_tell(log, MESSAGE_ERROR, "%s", line);
    assert_int_equal(message_log_dropped_count(log), dropped);
    read_until("are missing here", text, sizeof(text));
    message_log_destroy(log, PATIENCE_MS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(lines_arrive_in_the_order_in_which_they_were_said),
        TEST(a_line_that_is_too_long_is_cut_and_the_next_one_is_whole),
        TEST(nobody_waits_for_a_reader_and_what_was_dropped_is_said_later),
        TEST(a_reader_that_has_gone_costs_the_lines_and_nothing_else),
        TEST(a_descriptor_that_does_not_block_is_waited_for_too),
        TEST(several_threads_may_speak),
        TEST(a_line_has_the_form_that_is_asked_for),
        TEST(a_json_line_that_is_too_long_is_cut_inside_its_quotes),
        TEST(a_form_is_found_by_its_name),
        TEST(only_the_stream_to_journald_has_prefixes),
        TEST(notices_leave_half_of_the_queue_to_what_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
