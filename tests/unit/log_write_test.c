/* Writing: places, rollover, reading back, trimming, one owner, and what happens when the disk refuses. */
#include "support/fault_disk.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct disk *disk;
    struct log_rig rig;
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fixture->disk = memory_disk_create(1);
    log_rig_init(&fixture->rig, fixture->disk);
    assert_int_equal(log_rig_open(&fixture->rig), OK);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    log_rig_deinit(&fixture->rig);
    memory_disk_destroy(fixture->disk);
    free(fixture);
    return 0;
}

/* Restarts after a crash and says up to which frame the log goes. */
static uint64_t recover(struct fixture *fixture)
{
    log_rig_close(&fixture->rig);
    memory_disk_crash(fixture->disk);
    if (log_rig_open(&fixture->rig) != OK)
        fail_msg("%s", fixture->rig.failure.text);
    return fixture->rig.sequence;
}

static void a_frame_never_spans_two_segments(void **state)
{
    struct fixture *fixture = *state;
    uint64_t end = 512;
    for (int i = 0; i < 60; i++) {
        assert_int_equal(log_rig_write(&fixture->rig, (size_t)i * 50), OK);
        const uint64_t position = fixture->rig.position, size = fixture->rig.frame.size;
        if (position != end) {
            /* Only if the largest frame and the one that ends the segment had no room any more. */
            assert_int_equal(position % 8192, 512);
            assert_int_equal(position / 8192, end / 8192 + 1);
            assert_true(8192 - end % 8192 < 3072 + 512);
        }
        end = position + size;
        assert_int_equal(position / 8192, (end - 1) / 8192);
    }
    assert_int_equal(recover(fixture), 60);
}

static void the_next_place_changes_only_when_one_is_taken(void **state)
{
    struct fixture *fixture = *state;
    const struct log_point point = log_next_point(fixture->rig.log);
    assert_int_equal(point.sequence, 1);
    assert_int_equal(point.position, 512);
    assert_int_equal(log_next_point(fixture->rig.log).sequence, 1);
    log_point_taken(fixture->rig.log, 1024);
    assert_int_equal(log_next_point(fixture->rig.log).sequence, 2);
    assert_int_equal(log_next_point(fixture->rig.log).position, 512 + 1024);
}

static void what_was_written_can_be_read_and_stays_where_it_is(void **state)
{
    struct fixture *fixture = *state;
    const uint8_t *reads[30];
    uint64_t positions[30];
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(log_rig_write(&fixture->rig, 1000), OK);
        positions[i] = fixture->rig.position + FRAME_HEADER_SIZE;
        reads[i] = log_read(fixture->rig.log, positions[i], 1000);
        assert_non_null(reads[i]);
    }
    for (unsigned i = 0; i < 30; i++) {
        uint8_t expected[1000];
        log_rig_payload(i + 1, sizeof(expected), expected);
        assert_memory_equal(reads[i], expected, sizeof(expected));
        assert_ptr_equal(log_read(fixture->rig.log, positions[i], 1000), reads[i]);
        assert_true(log_has_segment(fixture->rig.log, positions[i]));
    }
    assert_false(log_has_segment(fixture->rig.log, 100 * 8192 + 512));
    assert_null(log_read(fixture->rig.log, 100 * 8192 + 512, 1));
}

static bool is_needed(void *context, uint64_t ordinal)
{
    return ordinal == *(const uint64_t *)context;
}

static void trim_removes_what_nobody_needs_before_the_snapshot(void **state)
{
    struct fixture *fixture = *state;
    struct log_rig *rig = &fixture->rig;
    for (int i = 0; i < 14; i++) /* three in a segment */
        assert_int_equal(log_rig_write(rig, 1900), OK);
    assert_int_equal(log_rig_snapshot(rig, BYTES("fourteen")), OK);
    uint64_t needed = 1;
    const struct log_cut cut = {.replay_position = rig->point.position, .is_needed = is_needed, .context = &needed};
    assert_int_equal(log_trim(rig->log, &cut, &rig->failure), OK);
    assert_false(memory_disk_has(fixture->disk, "0000000000000000.segment"));
    assert_true(memory_disk_has(fixture->disk, "0000000000002000.segment"));
    assert_false(memory_disk_has(fixture->disk, "0000000000004000.segment"));
    assert_false(memory_disk_has(fixture->disk, "0000000000006000.segment"));
    assert_true(memory_disk_has(fixture->disk, "0000000000008000.segment"));
    assert_null(log_read(rig->log, 512, 1));
    assert_non_null(log_read(rig->log, 8192 + 512, 1));
    assert_false(log_has_segment(rig->log, 512));

    assert_int_equal(log_rig_write(rig, 1900), OK);
    assert_int_equal(recover(fixture), 15);
    assert_int_equal(rig->replayed, 1);
    assert_true(log_has_segment(rig->log, 8192));
    needed = 99;
    assert_int_equal(log_trim(rig->log, &cut, &rig->failure), OK);
    assert_false(log_has_segment(rig->log, 8192));
    assert_int_equal(recover(fixture), 15);
}

/* As a child removes them and its owner forgets them. */
static void what_may_go_is_unmapped_one_by_one_and_forgotten(void **state)
{
    struct fixture *fixture = *state;
    struct log_rig *rig = &fixture->rig;
    for (int i = 0; i < 14; i++) /* three in a segment */
        assert_int_equal(log_rig_write(rig, 1900), OK);
    assert_int_equal(log_rig_snapshot(rig, BYTES("fourteen")), OK);
    for (uint64_t position = 512; position < rig->point.position; position += 8192)
        assert_non_null(log_read(rig->log, position, 1));
    uint64_t needed = 1;
    const struct log_cut cut = {.replay_position = rig->point.position, .is_needed = is_needed, .context = &needed};
    assert_true(log_release(rig->log, &cut) && log_release(rig->log, &cut) && log_release(rig->log, &cut));
    assert_false(log_release(rig->log, &cut));
    assert_true(log_has_segment(rig->log, 512));
    log_forget(rig->log, &cut);
    assert_false(log_has_segment(rig->log, 512));
    assert_true(log_has_segment(rig->log, 8192 + 512));
    assert_true(memory_disk_has(fixture->disk, "0000000000000000.segment"));
    assert_non_null(log_read(rig->log, 8192 + 512, 1));
    assert_int_equal(log_rig_write(rig, 1900), OK);
    assert_int_equal(recover(fixture), 15);
}

static void a_position_has_a_name(void **state)
{
    struct fixture *fixture = *state;
    struct buffer text;
    buffer_init(&text);
    log_name_position(fixture->rig.log, 3 * 8192 + 1000, &text);
    assert_true(bytes_equal(buffer_bytes(&text), BYTES("0000000000006000.segment, offset 1000")));
    buffer_deinit(&text);
}

static void preparing_ahead_leaves_nothing_to_do_at_the_border(void **state)
{
    struct fixture *fixture = *state;
    struct log_rig *rig = &fixture->rig;
    uint64_t ahead = 0;
    for (int i = 0; i < 30; i++) {
        const uint64_t before = memory_disk_operations(fixture->disk);
        assert_int_equal(log_rig_write(rig, 900), OK);
        const uint64_t operations = memory_disk_operations(fixture->disk) - before;
        /* Frame: write and sync. At a border also header and end, each written and synced. */
        assert_true(operations == 2 || operations == 6);
        for (;;) {
            const uint64_t piece = memory_disk_operations(fixture->disk);
            const bool has_more = log_prepare(rig->log);
            /* One piece: create and allocate, or one write, or the two syncs. */
            assert_true(memory_disk_operations(fixture->disk) - piece <= 2);
            ahead += memory_disk_operations(fixture->disk) - piece;
            if (!has_more)
                break;
        }
    }
    assert_true(ahead > 0);
    assert_int_equal(recover(fixture), 30);
}

static void an_owner_elsewhere_is_reported(void **state)
{
    struct fixture *fixture = *state;
    log_rig_close(&fixture->rig);
    memory_disk_lock_elsewhere(fixture->disk, true);
    assert_int_equal(log_rig_open(&fixture->rig), ERROR_LOG_LOCKED);
    assert_non_null(strstr(fixture->rig.failure.text, "memory"));
    memory_disk_lock_elsewhere(fixture->disk, false);
    assert_int_equal(log_rig_open(&fixture->rig), OK);
}

/* After one failure the log takes nothing more, whatever the disk would say now. */
static void assert_final(struct fixture *fixture, enum error error)
{
    struct failure first = fixture->rig.failure, again = {.error = OK};
    assert_int_equal(first.error, error);
    const uint64_t operations = memory_disk_operations(fixture->disk);
    assert_int_equal(log_write(fixture->rig.log, buffer_bytes(&fixture->rig.frame), &again), error);
    assert_string_equal(again.text, first.text);
    assert_false(log_prepare(fixture->rig.log));
    assert_int_equal(memory_disk_operations(fixture->disk), operations);
    assert_non_null(strstr(first.text, "Nothing that was acknowledged is lost"));
}

static void a_failed_write_or_sync_is_final_and_loses_nothing(void **state)
{
    (void)state;
    const enum memory_disk_fault faults[] = {MEMORY_DISK_FAIL_WRITE, MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FULL};
    for (size_t i = 0; i < 3; i++) {
        const enum error expected = faults[i] == MEMORY_DISK_FULL ? ERROR_DISK_FULL : ERROR_DISK_FAILED;
        for (uint64_t after = 0; after < 30; after++) {
            struct fixture *fixture;
            assert_int_equal(fixture_setup((void **)&fixture), 0);
            memory_disk_fail_after(fixture->disk, after, faults[i]);
            uint64_t durable = 0;
            enum error error;
            while ((error = log_rig_write(&fixture->rig, 1900)) == OK)
                durable++;
            assert_int_equal(error, expected);
            char frame[64];
            (void)snprintf(frame, sizeof(frame), "Frame %u could not", (unsigned)durable + 1);
            assert_non_null(strstr(fixture->rig.failure.text, frame));
            assert_non_null(strstr(fixture->rig.failure.text, ".segment"));
            assert_final(fixture, expected);
            const uint64_t recovered = recover(fixture);
            assert_true(recovered == durable || recovered == durable + 1);
            assert_int_equal(log_rig_write(&fixture->rig, 100), OK);
            assert_int_equal(fixture_teardown((void **)&fixture), 0);
        }
    }
}

static void a_full_disk_stops_at_the_next_segment_and_goes_on_when_there_is_room(void **state)
{
    struct fixture *fixture = *state;
    memory_disk_set_capacity(fixture->disk, 8192 + 100);
    uint64_t durable = 0;
    while (log_rig_write(&fixture->rig, 1900) == OK) {
        durable++;
        while (log_prepare(fixture->rig.log)) {
        }
    }
    assert_int_equal(durable, 3); /* all that fits into the first segment: preparing the next failed silently */
    assert_final(fixture, ERROR_DISK_FULL);
    assert_non_null(strstr(fixture->rig.failure.text, "no space left"));
    assert_int_equal(recover(fixture), 3);
    assert_int_equal(log_rig_write(&fixture->rig, 1900), ERROR_DISK_FULL);
    memory_disk_set_capacity(fixture->disk, UINT64_MAX);
    assert_int_equal(recover(fixture), 3);
    assert_int_equal(log_rig_write(&fixture->rig, 1900), OK);
    assert_int_equal(recover(fixture), 4);
}

static void a_folder_that_can_not_be_made_is_reported(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    memory_disk_set_capacity(disk, 1000);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), ERROR_DISK_FULL);
    assert_non_null(strstr(rig.failure.text, "0000000000000000.segment"));
    memory_disk_set_capacity(disk, UINT64_MAX);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_true(rig.is_new);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

/* Preparing ahead may fail and be forgotten, as long as the segment can be made when it is needed. */
static void a_failure_while_preparing_is_no_failure_of_the_log(void **state)
{
    (void)state;
    struct disk *memory = memory_disk_create(1);
    struct disk *disk = fault_disk_create(memory);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    fault_disk_fail_after(disk, FAULT_ALLOCATE, 0, ERROR_DISK_FULL);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(log_rig_write(&rig, 1900), OK);
        if (i == 4) /* in the second segment: the first refusal ended the tries in the first */
            fault_disk_fail_after(disk, FAULT_SYNC_FOLDER, 0, ERROR_DISK_FAILED);
        while (log_prepare(rig.log)) {
        }
    }
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.replayed, 12);
    log_rig_deinit(&rig);
    fault_disk_destroy(disk);
    memory_disk_destroy(memory);
}

int main(void)
{
#define WITH_LOG(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        WITH_LOG(a_frame_never_spans_two_segments),
        WITH_LOG(the_next_place_changes_only_when_one_is_taken),
        WITH_LOG(what_was_written_can_be_read_and_stays_where_it_is),
        WITH_LOG(trim_removes_what_nobody_needs_before_the_snapshot),
        WITH_LOG(what_may_go_is_unmapped_one_by_one_and_forgotten),
        WITH_LOG(a_position_has_a_name),
        WITH_LOG(preparing_ahead_leaves_nothing_to_do_at_the_border),
        WITH_LOG(an_owner_elsewhere_is_reported),
        cmocka_unit_test(a_failed_write_or_sync_is_final_and_loses_nothing),
        WITH_LOG(a_full_disk_stops_at_the_next_segment_and_goes_on_when_there_is_room),
        cmocka_unit_test(a_folder_that_can_not_be_made_is_reported),
        cmocka_unit_test(a_failure_while_preparing_is_no_failure_of_the_log),
    };
    return cmocka_run_group_tests_name("log write", tests, NULL, NULL);
}
