/* A log that is copied from disk to disk: whole, or none, wherever the copy breaks off. */
#include "log/disk_copy.h"
#include "log/log.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SEGMENT_SIZE 8192u
#define FRAMES 40u /* several segments */

static const struct log_options options = {.segment_size = SEGMENT_SIZE, .frame_size_max = 1024};

static struct log *open_log(struct disk *disk, enum error *error)
{
    struct failure failure;
    failure_init(&failure);
    struct buffer snapshot;
    buffer_init(&snapshot);
    bool is_new;
    struct log *log = NULL;
    *error = log_open(disk, &options, &log, &snapshot, &is_new, &failure);
    buffer_deinit(&snapshot);
    return log;
}

/* How many frames a log has; *error: it is refused. */
static unsigned count_frames(struct disk *disk, enum error *error)
{
    struct log *log = open_log(disk, error);
    unsigned count = 0;
    bool is_end = false;
    struct failure failure;
    failure_init(&failure);
    while (*error == OK && !is_end) {
        struct frame_view frame;
        *error = log_replay_next(log, &frame, &is_end, &failure);
        count += *error == OK && !is_end;
    }
    if (log != NULL)
        log_close(log);
    return count;
}

/* A disk with a log, and files that are none of its. */
static struct disk *make_source(void)
{
    struct disk *disk = memory_disk_create(1);
    enum error error;
    assert_int_equal(count_frames(disk, &error), 0);
    struct log *log = open_log(disk, &error);
    assert_int_equal(error, OK);
    struct failure failure;
    failure_init(&failure);
    struct frame_view frame;
    bool is_end = false;
    assert_int_equal(log_replay_next(log, &frame, &is_end, &failure), OK);
    assert_true(is_end);
    for (unsigned i = 0; i < FRAMES; i++) {
        const struct log_point point = log_next_point(log);
        struct buffer sealed;
        buffer_init(&sealed);
        frame_begin(&sealed);
        buffer_append_u32(&sealed, i);
        frame_seal(&sealed, FRAME_EVENTS, log_epoch(log), point.sequence, point.position, 1000 + i);
        log_point_taken(log, sealed.size);
        assert_int_equal(log_write(log, buffer_bytes(&sealed), &failure), OK);
        buffer_deinit(&sealed);
    }
    log_close(log);
    memory_disk_kill(disk);
    memory_disk_put(disk, "0000000000000000.spare", BYTES("nothing"));
    return disk;
}

/* The position behind each frame, as a copy may end there. */
static unsigned list_ends(struct disk *disk, uint64_t ends[FRAMES])
{
    enum error error;
    struct log *log = open_log(disk, &error);
    struct frame_view frame;
    struct failure failure;
    bool is_end = false;
    unsigned count = 0;
    failure_init(&failure);
    while (log_replay_next(log, &frame, &is_end, &failure) == OK && !is_end)
        ends[count++] = frame.position + frame_size(frame.payload.size);
    log_close(log);
    return count;
}

static void a_copy_up_to_a_frame_is_a_log_that_ended_there(void **state)
{
    (void)state;
    struct disk *from = make_source();
    uint64_t ends[FRAMES];
    assert_int_equal(list_ends(from, ends), FRAMES);
    for (unsigned i = 0; i < FRAMES; i++) {
        struct disk *to = memory_disk_create(2);
        const struct disk_copy_end end = {.position = ends[i], .segment_size = SEGMENT_SIZE};
        struct disk_copied copied;
        struct failure failure;
        enum error error;
        failure_init(&failure);
        memory_disk_kill(from);
        assert_int_equal(disk_copy_until(from, to, &end, &copied, &failure), OK);
        assert_int_equal(copied.files, ends[i] / SEGMENT_SIZE + 1);
        memory_disk_kill(to);
        assert_int_equal(count_frames(to, &error), i + 1);
        assert_int_equal(error, OK);
        memory_disk_destroy(to);
    }
    memory_disk_destroy(from);
}

static void a_copy_is_the_same_log(void **state)
{
    (void)state;
    struct disk *from = make_source(), *to = memory_disk_create(2);
    struct failure failure;
    failure_init(&failure);
    struct disk_copied copied;
    assert_int_equal(disk_copy(from, to, &copied, &failure), OK);
    assert_true(copied.files >= 3);
    assert_int_equal(copied.bytes, copied.files * SEGMENT_SIZE);
    assert_false(memory_disk_has(to, "0000000000000000.spare"));
    memory_disk_kill(from);
    memory_disk_crash(to); /* it is durable */
    enum error error;
    assert_int_equal(count_frames(to, &error), FRAMES);
    assert_int_equal(error, OK);
    assert_int_equal(count_frames(from, &error), FRAMES);
    memory_disk_destroy(from);
    memory_disk_destroy(to);
}

static void a_log_is_not_copied_over_another_one(void **state)
{
    (void)state;
    struct disk *from = make_source(), *to = memory_disk_create(2);
    struct failure failure;
    failure_init(&failure);
    struct disk_copied copied;
    memory_disk_put(to, "0000000000000000.segment", BYTES("another log"));
    assert_int_equal(disk_copy(from, to, &copied, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "holds a log already"));
    assert_true(bytes_equal(memory_disk_content(to, "0000000000000000.segment"), BYTES("another log")));
    memory_disk_destroy(from);
    memory_disk_destroy(to);
}

static void a_log_that_somebody_has_is_not_copied(void **state)
{
    (void)state;
    struct disk *from = make_source(), *to = memory_disk_create(2);
    struct failure failure;
    failure_init(&failure);
    struct disk_copied copied;
    memory_disk_lock_elsewhere(from, true);
    assert_int_equal(disk_copy(from, to, &copied, &failure), ERROR_LOG_LOCKED);
    memory_disk_lock_elsewhere(from, false);
    memory_disk_lock_elsewhere(to, true);
    assert_int_equal(disk_copy(from, to, &copied, &failure), ERROR_LOG_LOCKED);
    memory_disk_destroy(from);
    memory_disk_destroy(to);
}

/* It has all frames, or it has none and is new, or it is refused. */
static void a_copy_that_breaks_off_never_lacks_its_end(void **state)
{
    (void)state;
    struct disk *from = make_source();
    bool is_over = false;
    for (uint64_t step = 0; !is_over; step++) {
        struct disk *to = memory_disk_create(step);
        struct failure failure;
        failure_init(&failure);
        struct disk_copied copied;
        memory_disk_fail_after(to, step, MEMORY_DISK_STOP);
        is_over = disk_copy(from, to, &copied, &failure) == OK;
        memory_disk_kill(from);
        memory_disk_crash(to);
        enum error error;
        const unsigned count = count_frames(to, &error);
        if (error == OK && count != FRAMES && count != 0)
            fail_msg("after %llu steps the copy has %u frames", (unsigned long long)step, count);
        if (is_over)
            assert_int_equal(count, FRAMES);
        memory_disk_destroy(to);
    }
    memory_disk_destroy(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_up_to_a_frame_is_a_log_that_ended_there),
        cmocka_unit_test(a_copy_is_the_same_log),
        cmocka_unit_test(a_log_is_not_copied_over_another_one),
        cmocka_unit_test(a_log_that_somebody_has_is_not_copied),
        cmocka_unit_test(a_copy_that_breaks_off_never_lacks_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
