/* The child process that writes a snapshot, and what it shares with its owner: signals, and the moment when both
 * end. */
#include "core/messages/decide_receive.h"
#include "core/messages/decide_send.h"
#include "core/publishers/decide_relay.h"
#include "core/queues/decide_queue.h"
#include "engine/namespace.h"
#include "log/segment.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_S 60

/* One namespace on the real disk, except that `on_snapshot` is called in the child before it makes its file. */
struct fixture {
    char root[64];
    struct disk *disk;
    struct disk_operations operations;
    struct namespace *ns;
};

static struct disk_operations real;
static void (*on_snapshot)(void);

/* What goes wrong; a child has the value of its owner at the fork. */
static bool refuses_segments, refuses_snapshots, dies_at_segments, has_no_room;

static enum error create_noticed(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    const bool is_snapshot = strstr(name, ".snapshot.tmp") != NULL;
    if (is_snapshot)
        on_snapshot();
    if (is_snapshot && has_no_room)
        return failure_set(failure, ERROR_DISK_FULL, "%s: there is no room on purpose.", name);
    return real.create(disk, name, file, failure);
}

static enum error remove_refused(struct disk *disk, const char *name, struct failure *failure)
{
    uint64_t position;
    const bool is_segment = segment_name_decode(name, &position);
    if (dies_at_segments && is_segment)
        (void)raise(SIGKILL);
    if (is_segment ? refuses_segments : refuses_snapshots && strstr(name, ".tmp") == NULL)
        return failure_set(failure, ERROR_DISK_FAILED, "refused on purpose");
    return real.remove(disk, name, failure);
}

static void namespace_start(struct fixture *fixture)
{
    const struct namespace_options options = {
        .name = "000000000000", .segment_size = 65536, .frame_size_max = 8192, .snapshot_bytes = 1, .in_flight_max = 1};
    static const uint8_t key[CORE_KEY_SIZE] = {1};
    struct failure failure = {0};
    if (namespace_open(fixture->disk, &options, 1700000000000, key, &fixture->ns, &failure) != OK)
        fail_msg("%s", failure.text);
}

static int fixture_setup(void **state)
{
    refuses_segments = refuses_snapshots = dies_at_segments = has_no_room = false;
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    (void)snprintf(fixture->root, sizeof(fixture->root), "%.40s/tally-child-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(fixture->root));
    fixture->disk = disk_posix_create(fixture->root);
    real = *fixture->disk->operations;
    fixture->operations = real;
    fixture->operations.create = create_noticed;
    fixture->operations.remove = remove_refused;
    fixture->disk->operations = &fixture->operations;
    namespace_start(fixture);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    disk_posix_destroy(fixture->disk);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

/* Takes one, whole, with what is removed after it; what the last step said. */
static enum error snapshot_take(const struct fixture *fixture, struct failure *failure)
{
    siginfo_t ended;
    (void)alarm(PATIENCE_S);
    enum error error = namespace_snapshot_step(fixture->ns, false, failure);
    for (uint64_t now_ms = 1700000001000; error == OK && waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
         now_ms++) {
        error = namespace_disk_step(fixture->ns, now_ms, failure); /* unmaps what the child waits for */
        if (error == OK)
            error = namespace_snapshot_step(fixture->ns, false, failure);
        (void)usleep(100);
    }
    (void)alarm(0);
    return error;
}

static int noted[2]; /* a pipe that both processes have, as the loop's for signals is */

static void on_terminate(int number)
{
    (void)number;
    (void)!write(noted[1], "x", 1);
}

static void terminate_self(void)
{
    (void)raise(SIGTERM);
}

/* Ctrl-C, and a stop by systemd, go to all processes of the daemon at once. libuv's handler, which the child inherits,
 * writes to a pipe that it shares with its owner: the owner would take that for a second order to stop and cut off its
 * clients. */
static void a_signal_to_the_child_is_not_taken_for_one_to_its_owner(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(pipe2(noted, O_NONBLOCK), 0);
    struct sigaction before, action = {.sa_handler = on_terminate};
    assert_int_equal(sigaction(SIGTERM, &action, &before), 0);
    on_snapshot = terminate_self;
    assert_int_equal(snapshot_take(fixture, NULL), OK); /* the child did not die of it */
    char byte;
    assert_int_equal(read(noted[0], &byte, 1), -1);

    (void)raise(SIGTERM); /* the owner itself still hears it */
    assert_int_equal(read(noted[0], &byte, 1), 1);
    assert_int_equal(sigaction(SIGTERM, &before, NULL), 0);
    (void)close(noted[0]);
    (void)close(noted[1]);
    namespace_close(fixture->ns);
}

static void go_on(void)
{
}

static void kill_self(void)
{
    (void)raise(SIGKILL);
}

static bool has_snapshot(const struct fixture *fixture)
{
    char command[160];
    (void)snprintf(command, sizeof(command), "ls '%s' | grep -q 'snapshot$'", fixture->root);
    return system(command) == 0;
}

static bool has_written(const struct fixture *fixture)
{
    char command[160];
    (void)snprintf(command, sizeof(command), "find '%s' -name '*.snapshot.tmp' -size +0 | grep -q .", fixture->root);
    return system(command) == 0;
}

/* Otherwise the log could end before the state that the snapshot holds. */
static void a_snapshot_gets_its_name_when_its_last_frame_is_durable(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = go_on;
    struct core *core = namespace_begin(fixture->ns, 1700000000001);
    const struct relay_record *record;
    assert_int_equal(decide_put_relay(core, BYTES("relay"), BYTES("{}"), &record), OK);
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    (void)alarm(PATIENCE_S);
    while (!has_written(fixture))
        assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* it waits */
    assert_false(has_snapshot(fixture));

    assert_int_equal(namespace_flush(fixture->ns, NULL), OK);
    while (!has_snapshot(fixture))
        assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    (void)alarm(0);
    namespace_close(fixture->ns);
}

/* 160 frames of 7,000 bytes in segments of 64 KiB, with nothing that lives. */
static void log_fill(const struct fixture *fixture)
{
    struct buffer spec;
    buffer_init(&spec);
    memset(buffer_extend(&spec, 7000), 'x', 7000);
    for (unsigned i = 0; i < 160; i++) {
        struct core *core = namespace_begin(fixture->ns, 1700000000001 + i);
        const struct relay_record *record;
        assert_int_equal(decide_put_relay(core, BYTES("relay"), buffer_bytes(&spec), &record), OK);
        decide_delete_relay(core, record);
        assert_int_equal(namespace_flush(fixture->ns, NULL), OK);
    }
    buffer_deinit(&spec);
}

/* What the daemon counts must be what there is: segments that could not be removed would otherwise be forgotten for
 * ever. */
static void segments_that_could_not_be_removed_go_with_the_next_snapshot(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = go_on;
    log_fill(fixture);
    const size_t before = namespace_usage(fixture->ns).segments;
    assert_true(before > 15);
    refuses_segments = true;
    struct failure failure = {0};
    assert_int_equal(snapshot_take(fixture, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "could not be removed: refused on purpose; the next snapshot tries again"));
    assert_true(namespace_snapshot(fixture->ns).taken == 1 && namespace_snapshot(fixture->ns).is_failing);
    assert_int_equal(namespace_snapshot(fixture->ns).failed_count, 1);
    assert_true(has_snapshot(fixture));
    assert_int_equal(namespace_usage(fixture->ns).segments, before);

    /* What stays would be reason enough for another one, which could do no better. */
    siginfo_t child;
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    assert_int_equal(waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT), -1);

    refuses_segments = false;
    log_fill(fixture);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    assert_in_range(namespace_usage(fixture->ns).segments, 1, 3);
    namespace_close(fixture->ns);
}

static unsigned count_snapshots(const struct fixture *fixture)
{
    char command[160], text[16] = {0};
    (void)snprintf(command, sizeof(command), "ls '%s' | grep -c 'snapshot$'", fixture->root);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_non_null(fgets(text, sizeof(text), output));
    (void)pclose(output);
    return (unsigned)strtoul(text, NULL, 10);
}

/* The newest counts, and what it makes superfluous may go, whatever becomes of the one before it. */
static void an_old_snapshot_that_could_not_be_removed_keeps_no_segments(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = go_on;
    log_fill(fixture);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    refuses_snapshots = true;
    for (unsigned taken = 1; taken < 3; taken++) {
        log_fill(fixture);
        struct failure failure = {0};
        assert_int_equal(snapshot_take(fixture, &failure), ERROR_DISK_FAILED);
        assert_non_null(strstr(failure.text, "removed: refused on purpose; the next snapshot tries again"));
        assert_in_range(namespace_usage(fixture->ns).segments, 1, 3);
        assert_int_equal(count_snapshots(fixture), taken + 1);
    }

    namespace_close(fixture->ns);
    namespace_start(fixture); /* nor does it keep the daemon from starting */
    refuses_snapshots = false;
    log_fill(fixture);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    assert_int_equal(count_snapshots(fixture), 1);
    namespace_close(fixture->ns);
}

/* The system may end it for want of memory. Its snapshot counts if it has its name, or its size, and where the next one
 * is due, would not be known. */
static void a_snapshot_whose_child_was_killed_while_it_removed_counts(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = go_on;
    log_fill(fixture);
    const struct namespace_usage before = namespace_usage(fixture->ns);
    dies_at_segments = true;
    struct failure failure = {0};
    assert_int_equal(snapshot_take(fixture, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "the next snapshot tries again"));
    assert_true(has_snapshot(fixture));
    const struct namespace_usage after = namespace_usage(fixture->ns);
    assert_int_equal(after.segments, before.segments); /* which of them have gone is not known */
    assert_true(after.live_bytes > before.live_bytes); /* by the snapshot */

    dies_at_segments = false;
    log_fill(fixture);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    assert_in_range(namespace_usage(fixture->ns).segments, 1, 3);
    namespace_close(fixture->ns);
}

/* Before it has its name, nothing stands. */
static void a_snapshot_whose_child_was_killed_while_it_wrote_does_not_count(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = kill_self;
    log_fill(fixture);
    struct failure failure = {0};
    assert_int_equal(snapshot_take(fixture, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "no snapshot was taken"));
    assert_non_null(strstr(failure.text, "the process that writes it was ended by signal 9; it keeps growing"));
    assert_false(has_snapshot(fixture));
    namespace_close(fixture->ns);
}

static void a_child_that_fails_says_why(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = go_on;
    has_no_room = true;
    log_fill(fixture);
    struct failure failure = {0};
    assert_int_equal(snapshot_take(fixture, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "no snapshot was taken, the log goes on: "));
    assert_non_null(strstr(failure.text, "there is no room on purpose; it keeps growing"));
    has_no_room = false;
    log_fill(fixture);
    assert_int_equal(snapshot_take(fixture, &failure), OK);
    namespace_close(fixture->ns);
}

/* A child gives way to the log's syncs while there is room, and hurries when there is none. */
static void a_disk_that_presses_makes_the_child_hurry(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = go_on;
    assert_int_equal(namespace_disk_step(fixture->ns, 1700000000001, NULL), OK);
    assert_false(*fixture->disk->is_hurried);
    log_fill(fixture);
    assert_int_equal(namespace_disk_step(fixture->ns, 1700000000200, NULL), OK);
    assert_true(*fixture->disk->is_hurried);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    assert_int_equal(namespace_disk_step(fixture->ns, 1700000090000, NULL), OK);
    assert_false(*fixture->disk->is_hurried);
    namespace_close(fixture->ns);
    assert_null(fixture->disk->is_hurried);
}

static struct namespace_recovery told[16];
static size_t told_count;

static void note_progress(void *context, const struct namespace_recovery *recovery)
{
    (void)context;
    assert_true(told_count < 16);
    told[told_count++] = *recovery;
}

static void a_recovery_tells_how_far_it_is(void **state)
{
    struct fixture *fixture = *state;
    log_fill(fixture);
    namespace_close(fixture->ns);
    const struct namespace_options options = {.name = "000000000000",
                                              .segment_size = 65536,
                                              .frame_size_max = 8192,
                                              .in_flight_max = 1,
                                              .progress = note_progress};
    static const uint8_t key[CORE_KEY_SIZE] = {1};
    told_count = 0;
    assert_int_equal(namespace_open(fixture->disk, &options, 1800000000000, key, &fixture->ns, NULL), OK);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0].replayed, 0);
    assert_in_range(told[1].replayed, 1 << 20, (1 << 20) + 8192);
    assert_in_range(told[1].log_size, 160 * 7000, 160 * 8192 + 65536);
    namespace_close(fixture->ns);
}

static void wait_forever(void)
{
    for (;;)
        (void)pause();
}

#define BODY_SIZE 6000u
#define SENT_COUNT 60u

/* An at-most-once queue, and so many messages in it, a frame each, in some six segments. */
static void messages_send(const struct fixture *fixture)
{
    struct queue_settings settings = queue_settings_plain();
    settings.message_size_max = 1048576;
    settings.retention_s = 345600;
    settings.visibility_timeout_s = 30;
    settings.is_at_most_once = true;
    uint8_t body[BODY_SIZE];
    for (unsigned i = 0; i < SENT_COUNT; i++) {
        struct core *core = namespace_begin(fixture->ns, 1700000000001 + i);
        struct queue *queue = core_find_queue(core, BYTES("q"));
        if (queue == NULL)
            queue = decide_create_queue(core, BYTES("q"), &settings);
        memset(body, (int)i + 1, sizeof(body));
        const struct send_command command = {
            .queue = queue,
            .content = {.body = bytes_make(body, sizeof(body)), .sender = core_name(core)},
            .priority = PRIORITY_DEFAULT};
        struct send_result result;
        assert_int_equal(decide_send(core, &command, &result), OK);
        assert_int_equal(namespace_flush(fixture->ns, NULL), OK);
    }
}

/* Ends the oldest `count`, and checks that each has its body; `first`: which that is. */
static void messages_end(const struct fixture *fixture, unsigned first, unsigned count)
{
    struct core *core = namespace_begin(fixture->ns, 1700000000500);
    for (unsigned ended = 0; ended < count;) {
        struct received_message messages[RECEIVE_MAX];
        unsigned received, wanted = count - ended < RECEIVE_MAX ? count - ended : RECEIVE_MAX;
        assert_int_equal(
            decide_receive(core, core_find_queue(core, BYTES("q")), wanted, 30000, 100, messages, &received), OK);
        assert_true(received > 0);
        for (unsigned i = 0; i < received; i++, ended++) {
            struct content content;
            const uint8_t *bytes = namespace_read(fixture->ns, messages[i].position, messages[i].content_size);
            assert_non_null(bytes);
            assert_true(content_decode(bytes_make(bytes, messages[i].content_size), &content));
            assert_int_equal(content.body.size, BODY_SIZE);
            assert_int_equal(((const uint8_t *)content.body.ptr)[BODY_SIZE - 1], first + ended + 1);
        }
    }
    assert_int_equal(namespace_flush(fixture->ns, NULL), OK);
}

static int go[2]; /* a pipe */

static void await_go(void)
{
    char byte;
    (void)!read(go[0], &byte, 1);
}

/* What is settled after the fork, the child has to learn. */
static void what_ended_after_the_fork_goes_and_what_is_left_stays(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = await_go;
    assert_int_equal(pipe(go), 0);
    messages_send(fixture);
    const size_t before = namespace_usage(fixture->ns).segments;
    assert_true(before >= 6);
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    messages_end(fixture, 0, SENT_COUNT - 15); /* the rest stands in the last two or three */
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    assert_true(has_snapshot(fixture));
    const size_t after = namespace_usage(fixture->ns).segments;
    assert_in_range(after, 2, before - 3);

    namespace_close(fixture->ns);
    namespace_start(fixture);
    assert_int_equal(namespace_usage(fixture->ns).segments, after);
    messages_end(fixture, SENT_COUNT - 15, 15);
    namespace_close(fixture->ns);
    for (unsigned end = 0; end < 2; end++)
        (void)close(go[end]);
}

#define STILL_MS 600000 /* a child that has not moved for so long is ended */
#define CHECK_MS 10000

static void stop_self(void)
{
    (void)raise(SIGSTOP);
}

/* By then no snapshot would be taken ever again, and nothing removed. A debugger may have stopped it, or the disk does
 * not answer. */
static void a_child_that_hangs_is_ended_and_the_next_snapshot_works(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = stop_self;
    log_fill(fixture);
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    (void)alarm(PATIENCE_S);
    siginfo_t stopped;
    assert_int_equal(waitid(P_ALL, 0, &stopped, WSTOPPED | WNOWAIT), 0);
    struct failure failure = {0};
    uint64_t now_ms = 1700000001000, begun_ms = now_ms;
    while (namespace_snapshot_step(fixture->ns, false, &failure) == OK)
        assert_int_equal(namespace_disk_step(fixture->ns, now_ms += CHECK_MS, NULL), OK);
    assert_non_null(strstr(failure.text, "has not moved for 10 minutes"));
    assert_true(namespace_snapshot(fixture->ns).is_failing);
    assert_in_range(now_ms - begun_ms, STILL_MS, STILL_MS + 3 * CHECK_MS);
    assert_int_equal(waitid(P_ALL, 0, &stopped, WEXITED | WNOWAIT), 0);
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, &failure), OK); /* said once */
    (void)alarm(0);
    assert_false(has_snapshot(fixture));

    on_snapshot = go_on;
    log_fill(fixture);
    assert_int_equal(snapshot_take(fixture, NULL), OK);
    assert_in_range(namespace_usage(fixture->ns).segments, 1, 3);
    namespace_close(fixture->ns);
}

static int asked[2], answered[2]; /* pipes */

static void answer_forever(void)
{
    char byte;
    while (read(asked[0], &byte, 1) == 1)
        (void)!write(answered[1], &byte, 1);
}

/* As on a disk that takes a minute for each piece; and time during which nobody looked, because the whole machine stood
 * still, counts little. */
static void a_child_that_moves_now_and_then_is_let_alone(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = answer_forever;
    assert_int_equal(pipe(asked), 0);
    assert_int_equal(pipe(answered), 0);
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    (void)alarm(PATIENCE_S);
    uint64_t now_ms = 1700000001000;
    for (unsigned minute = 0; minute < 30; minute++) {
        char byte = 'x';
        assert_int_equal(write(asked[1], &byte, 1), 1);
        assert_int_equal(read(answered[0], &byte, 1), 1);
        for (unsigned look = 0; look < 6; look++) {
            assert_int_equal(namespace_disk_step(fixture->ns, now_ms += CHECK_MS, NULL), OK);
            assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
        }
    }
    assert_int_equal(namespace_disk_step(fixture->ns, now_ms + (uint64_t)10 * STILL_MS, NULL), OK);
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), 0); /* it lives */
    namespace_close(fixture->ns);
    (void)alarm(0);
    for (unsigned end = 0; end < 2; end++) {
        (void)close(asked[end]);
        (void)close(answered[end]);
    }
}

static void closing_does_not_wait_for_a_snapshot_that_would_be_thrown_away(void **state)
{
    struct fixture *fixture = *state;
    on_snapshot = wait_forever;
    assert_int_equal(namespace_snapshot_step(fixture->ns, false, NULL), OK);
    (void)alarm(PATIENCE_S);
    namespace_close(fixture->ns);
    (void)alarm(0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_signal_to_the_child_is_not_taken_for_one_to_its_owner, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_gets_its_name_when_its_last_frame_is_durable, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(segments_that_could_not_be_removed_go_with_the_next_snapshot, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(an_old_snapshot_that_could_not_be_removed_keeps_no_segments, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_whose_child_was_killed_while_it_removed_counts, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_whose_child_was_killed_while_it_wrote_does_not_count, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_child_that_fails_says_why, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_ended_after_the_fork_goes_and_what_is_left_stays, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_disk_that_presses_makes_the_child_hurry, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_recovery_tells_how_far_it_is, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_child_that_hangs_is_ended_and_the_next_snapshot_works, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_child_that_moves_now_and_then_is_let_alone, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(closing_does_not_wait_for_a_snapshot_that_would_be_thrown_away, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests_name("the child that writes a snapshot", tests, NULL, NULL);
}
