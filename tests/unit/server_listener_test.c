/* Listeners, and a child process that has copies of their sockets, as one that writes a snapshot has. */
#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 20

struct fixture {
    uv_loop_t loop;
    struct listener listener;
    pid_t child;
    char path[64]; /* for a Unix socket */
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    (void)snprintf(fixture->path, sizeof(fixture->path), "/tmp/tally-listener-%ld", (long)getpid());
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(kill(fixture->child, SIGKILL), 0);
    assert_int_equal(waitpid(fixture->child, NULL, 0), fixture->child);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    free(fixture);
    return 0;
}

static void on_connection(uv_stream_t *stream, int status)
{
    (void)stream;
    (void)status;
}

/* Listens, and forks a child that lives on. */
static void listen_and_fork(struct fixture *fixture, enum listener_kind kind, const char *address)
{
    const struct listener_options options = {.address = address};
    struct failure failure = {0};
    if (listener_open(&fixture->listener, &fixture->loop, kind, &options, on_connection, NULL, &failure) != OK)
        fail_msg("%s", failure.text);
    fixture->child = fork();
    assert_true(fixture->child >= 0);
    if (fixture->child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
}

static void close_listener(struct fixture *fixture)
{
    listener_close(&fixture->listener);
    assert_int_equal(uv_run(&fixture->loop, UV_RUN_DEFAULT), 0);
}

static int connect_to(const struct sockaddr *address, socklen_t size)
{
    const int client = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(client >= 0);
    if (connect(client, address, size) == 0)
        return client;
    (void)close(client);
    return -1;
}

/* A client that is not served must be told so: it would wait for as long as the child lives. */
static void assert_is_cut_off(int client)
{
    char byte;
    (void)alarm(PATIENCE_S);
    const ssize_t size = recv(client, &byte, 1, 0);
    (void)alarm(0);
    assert_true(size == 0 || (size < 0 && errno == ECONNRESET));
    (void)close(client);
}

static void a_closed_port_takes_nobody_though_a_child_has_its_socket(void **state)
{
    struct fixture *fixture = *state;
    listen_and_fork(fixture, LISTENER_PLAIN, "127.0.0.1");
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(fixture->listener.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int early = connect_to((const struct sockaddr *)&address, sizeof(address));
    assert_true(early >= 0);
    close_listener(fixture);
    assert_int_equal(connect_to((const struct sockaddr *)&address, sizeof(address)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_is_cut_off(early);
}

static void a_closed_unix_socket_takes_nobody_though_a_child_has_it(void **state)
{
    struct fixture *fixture = *state;
    listen_and_fork(fixture, LISTENER_UNIX, fixture->path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, fixture->path, sizeof(fixture->path));
    const int early = connect_to((const struct sockaddr *)&address, sizeof(address));
    assert_true(early >= 0);
    close_listener(fixture);
    assert_int_equal(connect_to((const struct sockaddr *)&address, sizeof(address)), -1);
    assert_is_cut_off(early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_closed_port_takes_nobody_though_a_child_has_its_socket, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_closed_unix_socket_takes_nobody_though_a_child_has_it, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests_name("listeners", tests, NULL, NULL);
}
