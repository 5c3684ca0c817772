/* What the daemon tells systemd, with a socket that plays systemd. */
#include "base/assert.h"
#include "tallyd/notifier.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_MS 20000

static char name[64]; /* of the socket, as systemd writes it */
static int systemd = -1;

/* A name of its own that begins with '/' or '@'. */
static void listen_as(char first)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int size = snprintf(name, sizeof(name), "%ctmp/tally-notifier-%d", first, (int)getpid());
    memcpy(address.sun_path, name, (size_t)size);
    if (first == '@')
        address.sun_path[0] = '\0';
    systemd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(systemd >= 0);
    const socklen_t address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size);
    assert_int_equal(bind(systemd, (struct sockaddr *)&address, address_size), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    listen_as('@');
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (systemd >= 0)
        close(systemd);
    systemd = -1;
    if (name[0] == '/')
        unlink(name);
    return 0;
}

/* The next message, with a NUL; "" if none came in time. */
static const char *hear(int patience_ms)
{
    static char text[1024];
    struct pollfd input = {.fd = systemd, .events = POLLIN};
    text[0] = '\0';
    if (poll(&input, 1, patience_ms) == 1) {
        const ssize_t size = recv(systemd, text, sizeof(text) - 1, 0);
        assert_true(size > 0);
        text[size] = '\0';
    }
    return text;
}

static void describe(void *context, struct buffer *status)
{
    int *count = context;
    buffer_append_format(status, "call %d", ++*count);
}

static void it_is_ready_only_when_that_is_said(void **state)
{
    (void)state;
    struct notifier notifier;
    uv_loop_t loop;
    int count = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    assert_string_equal(hear(0), "");
    notifier_tell(&notifier, "starting");
    assert_string_equal(hear(PATIENCE_MS), "STATUS=starting\n");
    assert_int_equal(notifier_begin(&notifier, &loop, describe, &count, NULL), OK);
    assert_string_equal(hear(PATIENCE_MS), "READY=1\nSTATUS=call 1\n");
    assert_int_equal(notifier_begin(&notifier, &loop, describe, &count, NULL), OK);
    assert_string_equal(hear(PATIENCE_MS), "STATUS=call 2\n");
    notifier_tell_stopping(&notifier, "stopping");
    assert_string_equal(hear(PATIENCE_MS), "STOPPING=1\nSTATUS=stopping\n");
    notifier_end(&notifier);
    uv_run(&loop, UV_RUN_DEFAULT);
    notifier_deinit(&notifier);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_socket_may_have_a_path(void **state)
{
    struct notifier notifier;
    teardown(state);
    listen_as('/');
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    notifier_tell(&notifier, "starting");
    assert_string_equal(hear(PATIENCE_MS), "STATUS=starting\n");
    notifier_deinit(&notifier);
}

static void stop_loop(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Turns the loop for so long. */
static void turn(uv_loop_t *loop, uint64_t ms)
{
    uv_timer_t timer;
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, stop_loop, ms, 0);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

/* How many messages came while the loop turned for 100 ms, with these in the environment; NULL: absent. */
static int watchdog_count(const char *usec, const char *pid)
{
    struct notifier notifier;
    uv_loop_t loop;
    int calls = 0, count = 0;
    if (usec != NULL)
        setenv("WATCHDOG_USEC", usec, 1);
    if (pid != NULL)
        setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    assert_int_equal(notifier_begin(&notifier, &loop, describe, &calls, NULL), OK);
    assert_string_equal(hear(PATIENCE_MS), "READY=1\nSTATUS=call 1\n");
    turn(&loop, 100);
    while (strncmp(hear(0), "WATCHDOG=1\nSTATUS=call ", 23) == 0)
        count++;
    notifier_end(&notifier);
    uv_run(&loop, UV_RUN_DEFAULT);
    notifier_deinit(&notifier);
    assert_int_equal(uv_loop_close(&loop), 0);
    return count;
}

static void the_watchdog_hears_of_a_loop_that_turns(void **state)
{
    char pid[16];
    (void)state;
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_in_range(watchdog_count("20000", pid), 1, 10);
    assert_in_range(watchdog_count("20000", NULL), 1, 10);
    assert_int_equal(watchdog_count("20000", "1"), 0);
    assert_int_equal(watchdog_count("3600000000", pid), 0);
}

static void without_a_watchdog_none_is_sent(void **state)
{
    (void)state;
    assert_int_equal(watchdog_count(NULL, NULL), 0);
}

static void a_loop_that_stands_still_says_nothing(void **state)
{
    (void)state;
    struct notifier notifier;
    uv_loop_t loop;
    int calls = 0;
    setenv("WATCHDOG_USEC", "2000", 1);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    assert_int_equal(notifier_begin(&notifier, &loop, describe, &calls, NULL), OK);
    assert_string_equal(hear(PATIENCE_MS), "READY=1\nSTATUS=call 1\n");
    assert_string_equal(hear(50), "");
    turn(&loop, 20);
    assert_string_not_equal(hear(PATIENCE_MS), "");
    notifier_end(&notifier);
    uv_run(&loop, UV_RUN_DEFAULT);
    notifier_deinit(&notifier);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void nobody_who_listens_is_no_error(void **state)
{
    (void)state;
    struct notifier notifier;
    uv_loop_t loop;
    int calls = 0;
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    notifier_tell(&notifier, "starting");
    assert_int_equal(notifier_begin(&notifier, &loop, describe, &calls, NULL), OK);
    notifier_tell_stopping(&notifier, "stopping");
    notifier_end(&notifier);
    assert_string_equal(hear(0), "");
    assert_int_equal(calls, 0);
    notifier_deinit(&notifier);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Whoever should hear it has gone: its status is lost, and that it is ready is worth an error. */
static void a_socket_that_has_gone_is_told_of(void **state)
{
    struct notifier notifier;
    struct failure failure;
    uv_loop_t loop;
    int calls = 0;
    failure_init(&failure);
    teardown(state);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    notifier_tell(&notifier, "starting");
    assert_int_equal(notifier_begin(&notifier, &loop, describe, &calls, &failure), ERROR_SERVICE_UNAVAILABLE);
    assert_string_equal(failure.text, "systemd could not be told that tallyd is ready: Connection refused.");
    notifier_end(&notifier);
    uv_run(&loop, UV_RUN_DEFAULT);
    notifier_deinit(&notifier);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* systemd has stopped reading: only READY=1 is waited for, and the loop goes on. */
static void a_socket_that_nobody_reads_holds_nothing_up(void **state)
{
    (void)state;
    struct notifier notifier;
    assert_int_equal(notifier_init(&notifier, NULL), OK);
    for (int i = 0; i < 100000; i++)
        notifier_tell(&notifier, "starting");
    assert_string_equal(hear(0), "STATUS=starting\n");
    notifier_deinit(&notifier);
}

static void what_cannot_be_understood_is_an_error_in_words(void **state)
{
    (void)state;
    struct notifier notifier;
    struct failure failure;
    char longest[128];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    const char *sockets[] = {"vsock:2:1234", "/", "@", "run/systemd/notify", longest};
    for (size_t i = 0; i < ARRAY_LENGTH(sockets); i++) {
        failure_init(&failure);
        setenv("NOTIFY_SOCKET", sockets[i], 1);
        assert_int_equal(notifier_init(&notifier, &failure), ERROR_INVALID_PARAMETER_VALUE);
        assert_non_null(strstr(failure.text, "it must be the path of a socket, or a name that begins with @."));
        notifier_tell(&notifier, "starting");
        notifier_deinit(&notifier);
    }
    const char *times[] = {"", "0", "-1", "+5", " 5", "5s", "99999999999999999999"};
    setenv("NOTIFY_SOCKET", name, 1);
    for (size_t i = 0; i < ARRAY_LENGTH(times); i++) {
        failure_init(&failure);
        setenv("WATCHDOG_USEC", times[i], 1);
        assert_int_equal(notifier_init(&notifier, &failure), ERROR_INVALID_PARAMETER_VALUE);
        assert_non_null(strstr(failure.text, "it must be a number of microseconds above 0."));
        notifier_deinit(&notifier);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_ready_only_when_that_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(a_socket_may_have_a_path, setup, teardown),
        cmocka_unit_test_setup_teardown(the_watchdog_hears_of_a_loop_that_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_watchdog_none_is_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loop_that_stands_still_says_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_who_listens_is_no_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_socket_that_has_gone_is_told_of, setup, teardown),
        cmocka_unit_test_setup_teardown(a_socket_that_nobody_reads_holds_nothing_up, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_understood_is_an_error_in_words, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
