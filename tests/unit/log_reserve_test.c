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

/* A disk that refuses one operation, always. */
static struct disk_operations sound, operations;
static enum { NOTHING, LIST, RENAME, RESERVE, SYNC_FOLDER } refused;

static enum error refusal(bool is_refused, struct failure *failure)
{
    return is_refused ? failure_set(failure, ERROR_DISK_FAILED, "refused") : OK;
}

static enum error list_refuse(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                              struct failure *failure)
{
    const enum error error = refusal(refused == LIST, failure);
    return error == OK ? sound.list(disk, visit, context, failure) : error;
}

static enum error rename_refuse(struct disk *disk, const char *from, const char *to, struct failure *failure)
{
    const enum error error = refusal(refused == RENAME, failure);
    return error == OK ? sound.rename(disk, from, to, failure) : error;
}

static enum error reserve_refuse(struct disk_file *file, uint64_t size, struct failure *failure)
{
    const enum error error = refusal(refused == RESERVE, failure);
    return error == OK ? sound.reserve(file, size, failure) : error;
}

static enum error sync_folder_refuse(struct disk *disk, struct failure *failure)
{
    const enum error error = refusal(refused == SYNC_FOLDER, failure);
    return error == OK ? sound.sync_folder(disk, failure) : error;
}

static struct disk *refusing_make(const atomic_bool *is_short)
{
    struct disk *disk = memory_disk_create(8);
    keep(disk, is_short);
    sound = *disk->operations;
    operations = sound;
    operations.list = list_refuse;
    operations.rename = rename_refuse;
    operations.reserve = reserve_refuse;
    operations.sync_folder = sync_folder_refuse;
    disk->operations = &operations;
    refused = NOTHING;
    return disk;
}

#define TAKEN "0000000000002000.segment.tmp"

static void what_the_disk_refuses_leaves_the_reserve_as_it_was(void **state)
{
    (void)state;
    const atomic_bool is_short = false;
    static const struct {
        int refused;
        enum error put, put_or_remove, take, make, fill, restore, count;
        bool is_kept; /* by reserve_put() */
        bool is_taken;
        unsigned made; /* spares, of one before */
    } rows[] = {
        {NOTHING, OK, OK, OK, OK, OK, OK, OK, true, true, 2},
        {LIST, ERROR_DISK_FAILED, OK, ERROR_DISK_FAILED, ERROR_DISK_FAILED, ERROR_DISK_FAILED, ERROR_DISK_FAILED,
         ERROR_DISK_FAILED, false, false, 1},
        {RENAME, ERROR_DISK_FAILED, OK, ERROR_DISK_FAILED, OK, OK, OK, OK, false, false, 2},
        {RESERVE, OK, OK, OK, ERROR_DISK_FAILED, ERROR_DISK_FAILED, OK, OK, true, true, 1},
        {SYNC_FOLDER, ERROR_DISK_FAILED, ERROR_DISK_FAILED, ERROR_DISK_FAILED, OK, OK, ERROR_DISK_FAILED, OK, true,
         true, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (unsigned operation = 0; operation < 7; operation++) {
            struct disk *disk = refusing_make(&is_short);
            struct failure failure = {.error = OK};
            enum error error = OK, expected = OK;
            bool is_done = false;
            unsigned count = 0;
            assert_int_equal(reserve_make(disk, RESERVE_SEGMENT, SEGMENT, NULL), OK);
            memory_disk_put(disk, TAKEN, BYTES("content"));
            refused = rows[i].refused;
            switch (operation) {
            case 0:
                error = reserve_put(disk, RESERVE_SEGMENT, TAKEN, &is_done, &failure);
                expected = rows[i].put;
                assert_int_equal(is_done, rows[i].is_kept);
                assert_int_equal(memory_disk_has(disk, TAKEN), !rows[i].is_kept);
                break;
            case 1:
                error = reserve_put_or_remove(disk, RESERVE_SEGMENT, TAKEN, &failure);
                expected = rows[i].put_or_remove;
                assert_false(memory_disk_has(disk, TAKEN));
                break;
            case 2:
                error = reserve_take(disk, RESERVE_SEGMENT, "taken", &is_done, &failure);
                expected = rows[i].take;
                assert_int_equal(is_done, rows[i].is_taken);
                assert_int_equal(memory_disk_has(disk, "taken"), rows[i].is_taken);
                break;
            case 3:
                error = reserve_make(disk, RESERVE_SEGMENT, SEGMENT, &failure);
                expected = rows[i].make;
                assert_int_equal(memory_disk_has(disk, SPARE_1), rows[i].made == 2);
                break;
            case 4:
                error = reserve_fill(disk, RESERVE_SEGMENT, SEGMENT, false, &failure);
                expected = rows[i].fill;
                assert_true(memory_disk_has(disk, SPARE_0));
                break;
            case 5:
                error = reserve_restore(disk, &failure);
                expected = rows[i].restore;
                assert_int_equal(memory_disk_has(disk, TAKEN), rows[i].refused == LIST);
                break;
            default:
                error = reserve_count(disk, RESERVE_SEGMENT, &count, &failure);
                expected = rows[i].count;
                assert_int_equal(count, rows[i].count == OK ? 1 : 0);
            }
            if (error != expected)
                fail_msg("row %zu, operation %u: %s", i, operation, failure.text);
            if (error != OK)
                assert_string_equal(failure.text, "refused");
            disk->operations = &sound;
            memory_disk_destroy(disk);
        }
    }
}

static void what_is_taken_and_put_back_is_counted(void **state)
{
    (void)state;
    const atomic_bool is_short = false;
    struct disk *disk = refusing_make(&is_short);
    struct reserve reserve;
    bool is_done = true;
    reserve_init(&reserve, disk);
    assert_int_equal(reserve_take_segment(&reserve, "a", &is_done, NULL), OK);
    assert_false(is_done);
    assert_int_equal(reserve_segments(&reserve), 0);
    static const char *const names[] = {"a", "b", "c"};
    for (unsigned i = 0; i < 3; i++) {
        memory_disk_put(disk, names[i], BYTES("content"));
        assert_int_equal(reserve_put_segment(&reserve, names[i], &is_done, NULL), OK);
        assert_int_equal(is_done, i < 2); /* more are not kept */
        assert_int_equal(memory_disk_has(disk, names[i]), i == 2);
        assert_int_equal(reserve_segments(&reserve), i < 2 ? i + 1 : 2);
    }
    assert_true(memory_disk_has(disk, SPARE_0) && memory_disk_has(disk, SPARE_1));
    assert_int_equal(reserve_take_segment(&reserve, "d", &is_done, NULL), OK);
    assert_true(is_done);
    assert_int_equal(reserve_segments(&reserve), 1);
    assert_false(memory_disk_has(disk, SPARE_0)); /* the lowest first */

    refused = SYNC_FOLDER; /* renamed all the same */
    assert_int_equal(reserve_put_segment(&reserve, "d", &is_done, NULL), ERROR_DISK_FAILED);
    assert_true(is_done && memory_disk_has(disk, SPARE_0));
    assert_int_equal(reserve_segments(&reserve), 2);
    refused = NOTHING;

    memory_disk_remove(disk, SPARE_0);
    assert_int_equal(reserve_segments(&reserve), 2);
    refused = LIST;
    assert_false(reserve_recount(&reserve));
    assert_int_equal(reserve_segments(&reserve), 2);
    refused = NOTHING;
    (void)pthread_mutex_lock(&reserve.mutex); /* the other thread uses it */
    assert_false(reserve_recount(&reserve));
    assert_int_equal(reserve_make_segment(&reserve, SEGMENT, &is_done, NULL), OK);
    assert_false(is_done);
    (void)pthread_mutex_unlock(&reserve.mutex);
    assert_true(reserve_recount(&reserve));
    assert_int_equal(reserve_segments(&reserve), 1);
    refused = RESERVE;
    assert_int_equal(reserve_make_segment(&reserve, SEGMENT, &is_done, NULL), ERROR_DISK_FAILED);
    assert_false(is_done);
    assert_int_equal(reserve_segments(&reserve), 1);
    refused = NOTHING;
    assert_int_equal(reserve_make_segment(&reserve, SEGMENT, &is_done, NULL), OK);
    assert_true(is_done && memory_disk_has(disk, SPARE_0));
    assert_int_equal(reserve_segments(&reserve), 2);
    reserve_deinit(&reserve);
    disk->operations = &sound;
    memory_disk_destroy(disk);
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
        cmocka_unit_test(what_the_disk_refuses_leaves_the_reserve_as_it_was),
        cmocka_unit_test(what_is_taken_and_put_back_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
