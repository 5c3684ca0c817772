/* The reserve of the log: what takes the place of free room, and that no instant at which the
 * power goes makes it a danger. */
#include "log/reserve.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define SEGMENT 8192u
#define SPARE_0 "0000000000000000.spare"
#define SPARE_1 "0000000000000001.spare"
#define RESERVE_0 "0000000000000000.reserve"

struct fixture {
    struct disk *disk;
    struct log_rig rig;
    atomic_bool is_short;
};

static void keep(struct disk *disk, const atomic_bool *is_short)
{
    disk->spare_segments = 2;
    disk->spare_snapshots = 2;
    disk->is_short = is_short;
}

static void fixture_init(struct fixture *fixture, uint64_t seed)
{
    fixture->disk = memory_disk_create(seed);
    atomic_init(&fixture->is_short, false);
    keep(fixture->disk, &fixture->is_short);
    log_rig_init(&fixture->rig, fixture->disk);
}

static void fixture_deinit(struct fixture *fixture)
{
    log_rig_deinit(&fixture->rig);
    memory_disk_destroy(fixture->disk);
}

static bool is_never_needed(void *context, uint64_t ordinal)
{
    (void)context;
    (void)ordinal;
    return false;
}

static enum error trim(struct fixture *fixture)
{
    const struct log_cut cut = {.replay_position = fixture->rig.point.position, .is_needed = is_never_needed};
    const enum error error = log_trim(fixture->rig.log, &cut, &fixture->rig.failure);
    (void)log_recount_reserve(fixture->rig.log);
    return error;
}

/* Frames until the log is in the segment with this ordinal. */
static enum error write_to_segment(struct fixture *fixture, uint64_t ordinal)
{
    enum error error = OK;
    do
        error = log_rig_write(&fixture->rig, 1500);
    while (error == OK && fixture->rig.position / SEGMENT < ordinal);
    return error;
}

static void make_snapshots(struct fixture *fixture)
{
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(reserve_make(fixture->disk, RESERVE_SNAPSHOT, 4096, NULL), OK);
}

static void fill_disk(struct fixture *fixture)
{
    memory_disk_set_capacity(fixture->disk, memory_disk_used(fixture->disk));
}

static void a_dead_segment_is_kept_and_becomes_the_next_one_where_no_other_can_be_made(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 1);
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    assert_int_equal(write_to_segment(&fixture, 2), OK);
    make_snapshots(&fixture);
    assert_int_equal(log_rig_snapshot(&fixture.rig, BYTES("state")), OK);
    assert_int_equal(trim(&fixture), OK);
    assert_true(memory_disk_has(fixture.disk, SPARE_0) && memory_disk_has(fixture.disk, SPARE_1));
    assert_int_equal(log_reserve_segments(fixture.rig.log), 2);
    fill_disk(&fixture);
    /* Round and round without a free byte: what is behind a snapshot is what comes next. */
    for (uint64_t ordinal = 3; ordinal < 12; ordinal++) {
        assert_int_equal(write_to_segment(&fixture, ordinal), OK);
        atomic_store(&fixture.is_short, true);
        assert_int_equal(log_rig_snapshot(&fixture.rig, BYTES("state")), OK);
        assert_int_equal(trim(&fixture), OK);
    }
    log_rig_close(&fixture.rig);
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    fixture_deinit(&fixture);
}

static void without_a_reserve_a_full_disk_ends_the_log(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 2);
    fixture.disk->spare_segments = fixture.disk->spare_snapshots = 0;
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    assert_int_equal(write_to_segment(&fixture, 2), OK);
    assert_int_equal(log_rig_snapshot(&fixture.rig, BYTES("state")), OK);
    assert_int_equal(trim(&fixture), OK);
    assert_false(memory_disk_has(fixture.disk, SPARE_0));
    fill_disk(&fixture);
    assert_int_equal(write_to_segment(&fixture, 4), ERROR_DISK_FULL);
    fixture_deinit(&fixture);
}

static void more_segments_than_are_kept_are_removed(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 3);
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    assert_int_equal(write_to_segment(&fixture, 6), OK);
    assert_int_equal(log_rig_snapshot(&fixture.rig, BYTES("state")), OK);
    const uint64_t used = memory_disk_used(fixture.disk);
    assert_int_equal(trim(&fixture), OK);
    assert_int_equal(fixture.disk->operations->sync_folder(fixture.disk, NULL), OK);
    assert_int_equal(log_reserve_segments(fixture.rig.log), 2);
    assert_int_equal(used - memory_disk_used(fixture.disk), 4 * SEGMENT);
    fixture_deinit(&fixture);
}

static void a_snapshot_that_was_replaced_is_what_the_next_one_is_written_into(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 4);
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    assert_int_equal(log_rig_write(&fixture.rig, 100), OK);
    make_snapshots(&fixture);
    assert_int_equal(reserve_make(fixture.disk, RESERVE_SEGMENT, SEGMENT, NULL), OK);
    fill_disk(&fixture);
    atomic_store(&fixture.is_short, true);
    static const char *const payloads[] = {"a long state, longer than the next one", "short", "of middle length"};
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(log_rig_write(&fixture.rig, 100), OK);
        const uint64_t used = memory_disk_used(fixture.disk);
        if (log_rig_snapshot(&fixture.rig, bytes_from_string(payloads[i % 3])) != OK)
            fail_msg("snapshot %u: %s", i, fixture.rig.failure.text);
        assert_int_equal(memory_disk_used(fixture.disk), used);
        assert_true(memory_disk_has(fixture.disk, RESERVE_0) || i == 0);
        log_rig_close(&fixture.rig);
        assert_int_equal(log_rig_open(&fixture.rig), OK);
        assert_true(bytes_equal(buffer_bytes(&fixture.rig.snapshot), bytes_from_string(payloads[i % 3])));
    }
    uint64_t size;
    assert_int_equal(snapshot_size(fixture.disk, &fixture.rig.point, &size, NULL), OK);
    assert_int_equal(size, 64 + 20 + strlen(payloads[2]) + 32);
    /* With room again the next one is as long as it should be, and of the first version. */
    memory_disk_set_capacity(fixture.disk, UINT64_MAX);
    atomic_store(&fixture.is_short, false);
    assert_int_equal(log_rig_write(&fixture.rig, 100), OK);
    assert_int_equal(log_rig_snapshot(&fixture.rig, BYTES("s")), OK);
    char name[64];
    (void)snprintf(name, sizeof(name), "%016llx.snapshot", (unsigned long long)fixture.rig.point.position);
    assert_int_equal(memory_disk_content(fixture.disk, name).size, 64 + 20 + 1 + 32);
    assert_int_equal(memory_disk_content(fixture.disk, name).ptr[4], 1);
    fixture_deinit(&fixture);
}

static void a_snapshot_in_a_longer_file_that_is_cut_short_is_refused(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 5);
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    atomic_store(&fixture.is_short, true);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(log_rig_write(&fixture.rig, 100), OK);
        assert_int_equal(log_rig_snapshot(&fixture.rig, i < 2 ? BYTES("a state that is long") : BYTES("short")), OK);
    }
    log_rig_close(&fixture.rig);
    char name[64];
    (void)snprintf(name, sizeof(name), "%016llx.snapshot", (unsigned long long)fixture.rig.point.position);
    assert_int_equal(memory_disk_content(fixture.disk, name).ptr[4], 2);
    memory_disk_truncate(fixture.disk, name, 64 + 20 + 5 + 31);
    assert_int_equal(log_rig_open(&fixture.rig), ERROR_LOG_DAMAGED);
    assert_non_null(strstr(fixture.rig.failure.text, "is truncated: its header speaks of 121 bytes"));
    fixture_deinit(&fixture);
}

/* Two rounds through the reserve on a full disk; false when the disk stopped. */
static bool go_round(struct fixture *fixture)
{
    for (unsigned round = 0; round < 2; round++)
        if (write_to_segment(fixture, fixture->rig.position / SEGMENT + 1) != OK ||
            log_rig_snapshot(&fixture->rig, BYTES("state")) != OK || trim(fixture) != OK)
            return false;
    return true;
}

/* At each operation in turn the power goes, or the process is killed; the log comes back with all that was durable,
 * and goes on on the full disk. */
static void the_power_may_go_at_any_operation(void **state)
{
    (void)state;
    for (uint64_t stop = 0; stop < 160; stop++) {
        struct fixture fixture;
        fixture_init(&fixture, stop);
        assert_int_equal(log_rig_open(&fixture.rig), OK);
        assert_int_equal(write_to_segment(&fixture, 2), OK);
        make_snapshots(&fixture);
        assert_int_equal(log_rig_snapshot(&fixture.rig, BYTES("state")), OK);
        assert_int_equal(trim(&fixture), OK);
        fill_disk(&fixture);
        atomic_store(&fixture.is_short, true);
        memory_disk_fail_after(fixture.disk, stop, MEMORY_DISK_STOP);
        const bool is_done = go_round(&fixture);
        const uint64_t newest = fixture.rig.sequence;
        log_rig_close(&fixture.rig);
        if (stop % 2 == 0)
            memory_disk_crash(fixture.disk);
        else
            memory_disk_kill(fixture.disk);
        if (log_rig_open(&fixture.rig) != OK)
            fail_msg("stopped at operation %llu: %s", (unsigned long long)stop, fixture.rig.failure.text);
        assert_true(fixture.rig.sequence + 1 >= newest && fixture.rig.sequence <= newest);
        if (!go_round(&fixture))
            fail_msg("stopped at operation %llu, it does not go on: %s", (unsigned long long)stop,
                     fixture.rig.failure.text);
        fixture_deinit(&fixture);
        if (is_done)
            return;
    }
    fail_msg("the rounds take more operations than are tried");
}

static void a_log_that_keeps_no_reserve_lets_the_files_of_another_be(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 6);
    assert_int_equal(reserve_make(fixture.disk, RESERVE_SEGMENT, SEGMENT, NULL), OK);
    assert_int_equal(reserve_make(fixture.disk, RESERVE_SNAPSHOT, SEGMENT, NULL), OK);
    fixture.disk->spare_segments = fixture.disk->spare_snapshots = 0;
    assert_int_equal(log_rig_open(&fixture.rig), OK);
    assert_int_equal(write_to_segment(&fixture, 3), OK);
    assert_true(memory_disk_has(fixture.disk, SPARE_0) && memory_disk_has(fixture.disk, RESERVE_0));
    fixture_deinit(&fixture);
}

static void a_spare_that_can_t_have_its_room_is_removed_at_the_start(void **state)
{
    (void)state;
    struct fixture fixture;
    fixture_init(&fixture, 7);
    assert_int_equal(reserve_make(fixture.disk, RESERVE_SEGMENT, SEGMENT, NULL), OK);
    assert_int_equal(reserve_make(fixture.disk, RESERVE_SEGMENT, SEGMENT / 2, NULL), OK);
    fill_disk(&fixture);
    assert_int_equal(reserve_fill(fixture.disk, RESERVE_SEGMENT, SEGMENT, true, NULL), ERROR_DISK_FULL);
    assert_true(memory_disk_has(fixture.disk, SPARE_0));
    assert_false(memory_disk_has(fixture.disk, SPARE_1));
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dead_segment_is_kept_and_becomes_the_next_one_where_no_other_can_be_made),
        cmocka_unit_test(without_a_reserve_a_full_disk_ends_the_log),
        cmocka_unit_test(more_segments_than_are_kept_are_removed),
        cmocka_unit_test(a_snapshot_that_was_replaced_is_what_the_next_one_is_written_into),
        cmocka_unit_test(a_snapshot_in_a_longer_file_that_is_cut_short_is_refused),
        cmocka_unit_test(the_power_may_go_at_any_operation),
        cmocka_unit_test(a_log_that_keeps_no_reserve_lets_the_files_of_another_be),
        cmocka_unit_test(a_spare_that_can_t_have_its_room_is_removed_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
