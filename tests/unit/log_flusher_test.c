/* The log thread: frames become durable in order while the loop goes on, and a failure is reported. */
#include "log/flusher.h"
#include "support/fault_disk.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

/* What uv_async_send() is to the server. */
struct loop {
    int wake; /* eventfd */
    atomic_int wakes;
};

static void loop_wake(void *context)
{
    struct loop *loop = context;
    const uint64_t one = 1;
    (void)atomic_fetch_add(&loop->wakes, 1);
    if (write(loop->wake, &one, sizeof(one)) != sizeof(one))
        abort();
}

static void loop_wait(struct loop *loop)
{
    uint64_t count;
    struct pollfd descriptor = {.fd = loop->wake, .events = POLLIN};
    assert_int_equal(poll(&descriptor, 1, 30000), 1);
    assert_int_equal(read(loop->wake, &count, sizeof(count)), sizeof(count));
}

/* A wake that came late may still be there, so the answer counts and not the wake. */
static void loop_wait_for_idle(struct loop *loop, struct flusher *flusher)
{
    while (!flusher_is_idle(flusher))
        loop_wait(loop);
}

/* Hands `count` frames over, each when the one before is durable, and reads back what became durable meanwhile. */
static void frames_flush(struct log_rig *rig, struct flusher *flusher, struct loop *loop, int count)
{
    for (int i = 0; i < count; i++) {
        assert_true(flusher_is_idle(flusher));
        log_rig_seal(rig, 1000);
        const uint64_t position = rig->position;
        flusher_submit(flusher, buffer_bytes(&rig->frame));
        while (!flusher_is_idle(flusher)) {
            /* The loop reads older bodies while the thread writes. */
            if (rig->sequence > 1)
                assert_non_null(log_read(rig->log, 512 + FRAME_HEADER_SIZE, 1000));
            loop_wait(loop);
        }
        assert_int_equal(flusher_failure(flusher, NULL), OK);
        assert_int_equal(flusher_durable(flusher), rig->sequence);
        uint8_t expected[1000];
        log_rig_payload(rig->sequence, sizeof(expected), expected);
        assert_memory_equal(log_read(rig->log, position + FRAME_HEADER_SIZE, 1000), expected, sizeof(expected));
    }
}

static void loop_init(struct loop *loop)
{
    loop->wake = eventfd(0, EFD_CLOEXEC);
    assert_true(loop->wake >= 0);
    atomic_init(&loop->wakes, 0);
}

static void frames_become_durable_in_order(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    struct loop loop;
    loop_init(&loop);
    struct flushers *flushers = flushers_create();
    struct flusher *flusher = flusher_create(flushers, rig.log, loop_wake, &loop);
    assert_int_equal(flusher_durable(flusher), 0);
    frames_flush(&rig, flusher, &loop, 100);
    flusher_destroy(flusher);
    flushers_destroy(flushers);
    assert_int_equal(atomic_load(&loop.wakes), 100);
    log_rig_close(&rig);
    memory_disk_crash(disk);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.replayed, 100);
    (void)close(loop.wake);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

static void a_log_that_was_given_up_is_written_to_no_more(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    struct loop loop;
    loop_init(&loop);
    struct flushers *flushers = flushers_create();
    struct flusher *flusher = flusher_create(flushers, rig.log, loop_wake, &loop);
    frames_flush(&rig, flusher, &loop, 3);
    flusher_abandon(flusher);
    log_rig_seal(&rig, 1000);
    flusher_submit(flusher, buffer_bytes(&rig.frame));
    loop_wait_for_idle(&loop, flusher);
    assert_int_equal(flusher_durable(flusher), 3);
    assert_int_equal(flusher_failure(flusher, NULL), ERROR_SERVICE_UNAVAILABLE);
    flusher_destroy(flusher);
    flushers_destroy(flushers);
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.replayed, 3);
    (void)close(loop.wake);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

static void the_end_waits_for_the_frame_in_work(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct disk *disk = memory_disk_create(1);
        struct log_rig rig;
        log_rig_init(&rig, disk);
        assert_int_equal(log_rig_open(&rig), OK);
        struct loop loop;
        loop_init(&loop);
        struct flushers *flushers = flushers_create();
        struct flusher *flusher = flusher_create(flushers, rig.log, loop_wake, &loop);
        frames_flush(&rig, flusher, &loop, round % 5);
        log_rig_seal(&rig, 1000);
        flusher_submit(flusher, buffer_bytes(&rig.frame));
        flusher_destroy(flusher);
        flushers_destroy(flushers);
        log_rig_close(&rig);
        memory_disk_crash(disk);
        assert_int_equal(log_rig_open(&rig), OK);
        assert_int_equal(rig.replayed, round % 5 + 1);
        (void)close(loop.wake);
        log_rig_deinit(&rig);
        memory_disk_destroy(disk);
    }
}

static void a_failure_is_reported_and_final(void **state)
{
    (void)state;
    const enum memory_disk_fault faults[] = {MEMORY_DISK_FAIL_WRITE, MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FULL};
    for (size_t i = 0; i < 3; i++) {
        struct disk *disk = memory_disk_create(1);
        struct log_rig rig;
        log_rig_init(&rig, disk);
        rig.options.segment_size = 1 << 20; /* no segment is prepared yet, so the fault hits a frame */
        assert_int_equal(log_rig_open(&rig), OK);
        struct loop loop;
        loop_init(&loop);
        struct flushers *flushers = flushers_create();
        struct flusher *flusher = flusher_create(flushers, rig.log, loop_wake, &loop);
        frames_flush(&rig, flusher, &loop, 1);
        memory_disk_fail_after(disk, 0, faults[i]);
        struct failure first = {.error = OK}, second = {.error = OK};
        for (int round = 0; round < 2; round++) {
            log_rig_seal(&rig, 1000);
            flusher_submit(flusher, buffer_bytes(&rig.frame));
            loop_wait_for_idle(&loop, flusher);
            assert_int_equal(flusher_failure(flusher, round == 0 ? &first : &second),
                             faults[i] == MEMORY_DISK_FULL ? ERROR_DISK_FULL : ERROR_DISK_FAILED);
            assert_int_equal(flusher_durable(flusher), 1);
        }
        assert_non_null(strstr(first.text, "Frame 2"));
        assert_string_equal(first.text, second.text);
        flusher_destroy(flusher);
        flushers_destroy(flushers);
        (void)close(loop.wake);
        log_rig_deinit(&rig);
        memory_disk_destroy(disk);
    }
}

/* The same on a real file system: the thread syncs, the loop reads through its maps. */
static void the_thread_and_the_loop_share_real_files(void **state)
{
    (void)state;
    char folder[64];
    (void)snprintf(folder, sizeof(folder), "%.40s/tally-flusher-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
    struct disk *posix = disk_posix_create(folder);
    struct disk *disk = fault_disk_create(posix);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    struct loop loop;
    loop_init(&loop);
    struct flushers *flushers = flushers_create();
    struct flusher *flusher = flusher_create(flushers, rig.log, loop_wake, &loop);
    frames_flush(&rig, flusher, &loop, 40);
    assert_true(fault_disk_count(disk, FAULT_CREATE) > 5);
    fault_disk_fail_after(disk, FAULT_WRITE, 0, ERROR_DISK_FULL);
    struct failure failure = {.error = OK};
    while (flusher_failure(flusher, &failure) == OK) {
        /* A piece of the next segment may take the fault first; then nothing happens, and the next one is a frame's. */
        log_rig_seal(&rig, 1000);
        flusher_submit(flusher, buffer_bytes(&rig.frame));
        loop_wait_for_idle(&loop, flusher);
        fault_disk_fail_after(disk, FAULT_WRITE, 0, ERROR_DISK_FULL);
    }
    assert_int_equal(failure.error, ERROR_DISK_FULL);
    const uint64_t durable = flusher_durable(flusher);
    flusher_destroy(flusher);
    flushers_destroy(flushers);
    log_rig_close(&rig);
    struct log_rig again; /* the fault that is still armed would hit the recovery */
    log_rig_init(&again, posix);
    assert_int_equal(log_rig_open(&again), OK);
    assert_int_equal(again.sequence, durable);
    log_rig_deinit(&again);
    log_rig_deinit(&rig);
    (void)close(loop.wake);
    fault_disk_destroy(disk);
    disk_posix_destroy(posix);
    char command[96];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

#define LOGS 20

/* A log thread is one log's while it has work for it. */
static void logs_share_their_threads(void **state)
{
    (void)state;
    struct disk *disks[LOGS];
    struct log_rig rigs[LOGS];
    struct flusher *flushers_of[LOGS];
    struct flushers *flushers = flushers_create();
    struct loop loop;
    loop_init(&loop);
    for (int i = 0; i < LOGS; i++) {
        disks[i] = memory_disk_create((uint64_t)i + 1);
        log_rig_init(&rigs[i], disks[i]);
        assert_int_equal(log_rig_open(&rigs[i]), OK);
        flushers_of[i] = flusher_create(flushers, rigs[i].log, loop_wake, &loop);
    }
    assert_int_equal(flushers_thread_count(flushers), 1);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < LOGS; i++) {
            log_rig_seal(&rigs[i], 1000);
            flusher_submit(flushers_of[i], buffer_bytes(&rigs[i].frame));
        }
        for (int i = 0; i < LOGS; i++) {
            loop_wait_for_idle(&loop, flushers_of[i]);
            assert_int_equal(flusher_durable(flushers_of[i]), rigs[i].sequence);
        }
    }
    assert_in_range(flushers_thread_count(flushers), 1, LOGS);
    for (int i = 0; i < LOGS; i++) {
        flusher_destroy(flushers_of[i]);
        log_rig_close(&rigs[i]);
        memory_disk_crash(disks[i]);
        assert_int_equal(log_rig_open(&rigs[i]), OK);
        assert_int_equal(rigs[i].replayed, 50);
        log_rig_deinit(&rigs[i]);
        memory_disk_destroy(disks[i]);
    }
    flushers_destroy(flushers);
    (void)close(loop.wake);
}

/* More frames than there may be threads: each has its turn. */
static void a_frame_waits_where_all_threads_are_busy(void **state)
{
    (void)state;
    enum { COUNT = FLUSHER_THREADS_MAX + 10 };
    static struct log_rig rigs[COUNT];
    static struct disk *disks[COUNT];
    static struct flusher *flushers_of[COUNT];
    struct flushers *flushers = flushers_create();
    struct loop loop;
    loop_init(&loop);
    for (int i = 0; i < COUNT; i++) {
        disks[i] = memory_disk_create((uint64_t)i + 1);
        log_rig_init(&rigs[i], disks[i]);
        assert_int_equal(log_rig_open(&rigs[i]), OK);
        flushers_of[i] = flusher_create(flushers, rigs[i].log, loop_wake, &loop);
        log_rig_seal(&rigs[i], 1000);
    }
    for (int i = 0; i < COUNT; i++)
        flusher_submit(flushers_of[i], buffer_bytes(&rigs[i].frame));
    for (int i = 0; i < COUNT; i++) {
        loop_wait_for_idle(&loop, flushers_of[i]);
        assert_int_equal(flusher_durable(flushers_of[i]), 1);
        flusher_destroy(flushers_of[i]);
        log_rig_deinit(&rigs[i]);
        memory_disk_destroy(disks[i]);
    }
    assert_in_range(flushers_thread_count(flushers), 1, FLUSHER_THREADS_MAX);
    flushers_destroy(flushers);
    (void)close(loop.wake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_become_durable_in_order),
        cmocka_unit_test(the_end_waits_for_the_frame_in_work),
        cmocka_unit_test(a_log_that_was_given_up_is_written_to_no_more),
        cmocka_unit_test(a_failure_is_reported_and_final),
        cmocka_unit_test(the_thread_and_the_loop_share_real_files),
        cmocka_unit_test(logs_share_their_threads),
        cmocka_unit_test(a_frame_waits_where_all_threads_are_busy),
    };
    return cmocka_run_group_tests_name("log flusher", tests, NULL, NULL);
}
