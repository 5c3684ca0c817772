/* What the guard of the disk says, and when a snapshot that failed may be tried again. What it does to files is in
 * api_disk_test.c, on a disk that fills up. */
#include "engine/disk_guard.h"

#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void the_disk_is_told_what_to_keep(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    for (unsigned keeps = 0; keeps < 2; keeps++) {
        const struct namespace_options options = {.keeps_reserve = keeps == 1};
        struct disk_guard guard;
        memset(&guard, 0xee, sizeof(guard));
        disk_guard_init(&guard, disk, &options);
        assert_int_equal(disk->spare_segments, keeps == 1 ? GUARD_SEGMENTS : 0);
        assert_int_equal(disk->spare_snapshots, keeps == 1 ? GUARD_SNAPSHOTS : 0);
        assert_true(guard.is_stale && !guard.is_short && !guard.is_reported && !guard.is_checked);
        assert_true(guard.disk == disk && guard.options == &options && guard.checked_ms == 0);
    }
    memory_disk_destroy(disk);
}

static void a_guard_without_a_reserve_only_notes_when_it_looked(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    const struct namespace_options options = {.disk_min_free = UINT64_MAX};
    const struct guard_view view = {.segments = 5};
    struct disk_guard guard;
    disk_guard_init(&guard, disk, &options);
    disk_guard_check(&guard, &view, 77);
    assert_true(guard.checked_ms == 77 && !guard.is_short && guard.missing_bytes == 0);
    guard.snapshot_room = 1000;
    assert_int_equal(disk_guard_bytes(&guard), 0);
    memory_disk_destroy(disk);
}

static void each_change_is_told_once_with_what_the_disk_has(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    const struct namespace_options options = {.keeps_reserve = true};
    struct disk_guard guard;
    struct failure failure;
    char expected[400];
    disk_guard_init(&guard, disk, &options);
    failure_init(&failure);
    assert_false(disk_guard_news(&guard, &failure));
    static const char *const whys[] = {"", "no room for a segment"};
    for (unsigned i = 0; i < 2; i++) {
        guard.is_short = true;
        guard.room.free = 5;
        guard.min_free = 9;
        failure_init(&guard.missing);
        if (i == 1)
            (void)failure_set(&guard.missing, ERROR_DISK_FULL, "%s", whys[i]);
        assert_true(disk_guard_news(&guard, &failure));
        snprintf(expected, sizeof(expected),
                 "%s is short of room, requests that need more are refused: 5 bytes are free, disk-min-free is 9%s%s",
                 disk->folder, i == 0 ? "" : "; the reserve is not complete: ", whys[i]);
        assert_string_equal(failure.text, expected);
        assert_false(disk_guard_news(&guard, &failure));
        guard.is_short = false;
        guard.room.free = 10;
        failure_init(&failure);
        assert_true(disk_guard_news(&guard, &failure));
        snprintf(expected, sizeof(expected), "%s has room again: 10 bytes are free, disk-min-free is 9", disk->folder);
        assert_string_equal(failure.text, expected);
        assert_int_equal(failure.error, ERROR_DISK_FULL);
        assert_false(disk_guard_news(&guard, &failure));
        failure_init(&failure);
    }
    memory_disk_destroy(disk);
}

static void a_snapshot_that_failed_is_tried_again_after_a_second(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    const struct namespace_options options = {.keeps_reserve = true};
    struct disk_guard guard;
    disk_guard_init(&guard, disk, &options);
    assert_true(disk_guard_may_try(&guard));
    guard.is_stale = false;
    guard.snapshot_room = 5;
    guard.checked_ms = 7000;
    disk_guard_note_snapshot(&guard, false);
    assert_true(guard.is_stale && guard.snapshot_room == 0 && guard.checked_ms == 0);
    static const struct {
        uint64_t checked_ms;
        bool may_try;
    } rows[] = {{0, false}, {7000, false}, {7999, false}, {8000, true}, {8001, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        guard.checked_ms = rows[i].checked_ms;
        assert_int_equal(disk_guard_may_try(&guard), rows[i].may_try);
    }
    guard.is_stale = false;
    guard.checked_ms = 7000;
    disk_guard_note_snapshot(&guard, true);
    assert_true(disk_guard_may_try(&guard) && guard.is_stale && guard.checked_ms == 0);
    memory_disk_destroy(disk);
}

/* On the disk of a log that has just begun; what is free is what the test says. */
struct fixture {
    struct disk *disk;
    struct log_rig rig;
    struct disk_guard guard;
};

static void fixture_init(struct fixture *fixture, const struct namespace_options *options)
{
    fixture->disk = memory_disk_create(1);
    log_rig_init(&fixture->rig, fixture->disk);
    disk_guard_init(&fixture->guard, fixture->disk, options);
    assert_int_equal(log_rig_open(&fixture->rig), OK);
    assert_int_equal(log_rig_write(&fixture->rig, 100), OK);
    fixture->guard.log = fixture->rig.log;
}

static void fixture_deinit(struct fixture *fixture)
{
    log_rig_deinit(&fixture->rig);
    memory_disk_destroy(fixture->disk);
}

static void what_must_stay_free_is_a_share_of_the_file_system_or_as_told(void **state)
{
    (void)state;
    const uint64_t gib = UINT64_C(1) << 30;
    const struct {
        uint64_t told, total, min_free;
    } rows[] = {
        {NAMESPACE_MIN_FREE_AUTO, 20 * gib - 20, gib - 1},
        {NAMESPACE_MIN_FREE_AUTO, 20 * gib, gib},
        {NAMESPACE_MIN_FREE_AUTO, 40 * gib, gib},
        {NAMESPACE_MIN_FREE_AUTO, 20000000, 1000000},
        {5, 20000000, 5},
        {0, 20000000, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct namespace_options options = {.keeps_reserve = true, .disk_min_free = rows[i].told};
        const struct guard_view view = {.segments = 1};
        struct fixture fixture;
        fixture_init(&fixture, &options);
        memory_disk_set_capacity(fixture.disk, rows[i].total);
        disk_guard_check(&fixture.guard, &view, 1);
        assert_int_equal(fixture.guard.min_free, rows[i].min_free);
        assert_false(fixture.guard.is_short);
        assert_int_equal(fixture.guard.missing_bytes, 0);
        fixture_deinit(&fixture);
    }
}

/* A disk that was short has room again when there is a little more than what must stay free. */
static void a_disk_is_short_below_its_limit_and_ample_a_little_above(void **state)
{
    (void)state;
    const struct namespace_options options = {.keeps_reserve = true, .disk_min_free = 100000};
    const struct guard_view view = {.segments = 1};
    struct fixture fixture;
    fixture_init(&fixture, &options);
    disk_guard_check(&fixture.guard, &view, 1);
    const uint64_t used = memory_disk_used(fixture.disk);
    enum { FREE_AGAIN = 100000 + 100000 / 16 };
    static const struct {
        uint64_t free;
        bool is_short;
    } rows[] = {{100000, false}, {99999, true}, {100000, true}, {FREE_AGAIN - 1, true}, {FREE_AGAIN, false}, {0, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        memory_disk_set_capacity(fixture.disk, used + rows[i].free);
        disk_guard_check(&fixture.guard, &view, 2 + i);
        assert_int_equal(fixture.guard.room.free, rows[i].free);
        assert_int_equal(fixture.guard.is_short, rows[i].is_short);
        assert_int_equal(fixture.guard.checked_ms, 2 + i);
        assert_int_equal(memory_disk_used(fixture.disk), used); /* the reserve is as it was */
    }
    fixture_deinit(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_disk_is_told_what_to_keep),
        cmocka_unit_test(a_guard_without_a_reserve_only_notes_when_it_looked),
        cmocka_unit_test(each_change_is_told_once_with_what_the_disk_has),
        cmocka_unit_test(a_snapshot_that_failed_is_tried_again_after_a_second),
        cmocka_unit_test(what_must_stay_free_is_a_share_of_the_file_system_or_as_told),
        cmocka_unit_test(a_disk_is_short_below_its_limit_and_ample_a_little_above),
    };
    return cmocka_run_group_tests_name("the guard of the disk", tests, NULL, NULL);
}
