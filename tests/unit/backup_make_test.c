/* Backups on a real file system: made of second names and one copy, checked, taken, written as a tar, restored and
 * removed; and what the log does with files that a backup has, too. */
#include "backup/make.h"
#include "backup/take.h"
#include "core/decide_namespace.h"
#include "engine/namespace.h"
#include "engine/restore.h"
#include "log/log.h"
#include "log/reserve.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SEGMENT 65536u
#define NAME "000000000000"

static const struct namespace_options options = {
    .name = NAME, .segment_size = SEGMENT, .frame_size_max = 16384, .snapshot_bytes = 100000, .in_flight_max = 10};

struct fixture {
    char root[64];
    char folder[96];
    struct disk *disk;
    struct namespace *ns;
    uint64_t now_ms;
    struct backup_make make;
    struct failure failure;
};

static int fixture_setup(void **state)
{
    static const uint8_t key[CORE_KEY_SIZE] = "sixteen bytes...";
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    (void)snprintf(fixture->root, sizeof(fixture->root), "%.40s/tally-backup-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(fixture->root));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "%s/" NAME, fixture->root);
    failure_init(&fixture->failure);
    fixture->now_ms = 1000000;
    fixture->disk = disk_posix_create(fixture->folder);
    assert_int_equal(namespace_open(fixture->disk, &options, fixture->now_ms, key, &fixture->ns, &fixture->failure),
                     OK);
    fixture->disk->spare_segments = 2;
    backup_make_init(&fixture->make, fixture->root, 1795999638083);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    char command[128];
    namespace_close(fixture->ns);
    disk_posix_destroy(fixture->disk);
    backup_make_deinit(&fixture->make);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

/* Frames with an event each, a millisecond apart; snapshots are taken, and what they replace goes. */
static void live(struct fixture *fixture, unsigned frames)
{
    for (unsigned i = 0; i < frames; i++) {
        struct core *core = namespace_begin(fixture->ns, ++fixture->now_ms);
        decide_pass_time(core, fixture->now_ms);
        assert_int_equal(namespace_flush(fixture->ns, &fixture->failure), OK);
        (void)namespace_snapshot_step(fixture->ns, true, &fixture->failure);
        (void)namespace_snapshot_step(fixture->ns, true, &fixture->failure);
    }
}

static void add_ordinal(void *context, uint64_t ordinal)
{
    backup_source_add(context, ordinal);
}

static struct backup_namespace *settle(struct fixture *fixture)
{
    struct backup_namespace *ns;
    struct backup_source *source;
    assert_true(namespace_pin(fixture->ns));
    const struct namespace_instant instant = namespace_settle(fixture->ns);
    backup_make_add(&fixture->make, NAME, fixture->folder, &ns, &source);
    ns->segment_size = instant.segment_size;
    ns->sequence = instant.sequence;
    ns->position = instant.position;
    source->snapshot_position = instant.snapshot_position;
    log_visit_segments(namespace_log(fixture->ns), add_ordinal, source);
    return ns;
}

/* A backup of what is there; the namespace lives on behind it. Returns its path, for the caller to free. */
static char *back_up(struct fixture *fixture)
{
    settle(fixture);
    if (backup_make_link(&fixture->make, &fixture->failure) != OK)
        fail_msg("%s", fixture->failure.text);
    namespace_unpin(fixture->ns);
    live(fixture, 300);
    if (backup_make_finish(&fixture->make, &fixture->failure) != OK)
        fail_msg("%s", fixture->failure.text);
    return backup_path(fixture->make.folder_owned, fixture->make.manifest.id, true);
}

static void check(struct fixture *fixture, const char *path, enum error expected)
{
    struct manifest manifest;
    failure_init(&fixture->failure);
    assert_int_equal(manifest_read(path, &manifest, &fixture->failure), OK);
    assert_int_equal(manifest_check(&manifest, path, &fixture->failure), expected);
    manifest_deinit(&manifest);
}

static struct restore_end find_end(struct fixture *fixture, const char *path, uint64_t until_ms, enum error expected)
{
    char inner[160];
    struct restore_end end;
    failure_init(&fixture->failure);
    (void)snprintf(inner, sizeof(inner), "%s/" NAME, path);
    struct disk *disk = disk_posix_create_to_read(inner);
    assert_int_equal(disk->operations->lock(disk, &fixture->failure), OK);
    assert_int_equal(restore_find_end(disk, until_ms, &end, &fixture->failure), expected);
    disk_posix_destroy(disk);
    return end;
}

static bool is_there(const char *folder, const char *name)
{
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static void it_holds_the_log_up_to_the_instant_and_nothing_behind(void **state)
{
    struct fixture *fixture = *state;
    live(fixture, 300);
    const uint64_t time_ms = fixture->now_ms;
    char *path = back_up(fixture);
    assert_true(fixture->now_ms > time_ms);
    check(fixture, path, OK);
    const struct restore_end end = find_end(fixture, path, UINT64_MAX, OK);
    assert_int_equal(end.time_ms, time_ms);
    assert_int_equal(end.position, fixture->make.manifest.namespaces_owned[0].position);
    assert_true(fixture->make.manifest.namespaces_owned[0].file_count > 1);
    assert_false(is_there(path, NAME "/lock"));
    assert_false(is_there(path, NAME "/live.open"));
    free(path);
}

/* Segments of the backup go from the log's folder meanwhile. While the disk is short, spares are used first. */
static void a_file_of_a_backup_becomes_no_spare(void **state)
{
    static const atomic_bool is_short = true;
    struct fixture *fixture = *state;
    fixture->disk->is_short = &is_short;
    live(fixture, 300);
    char *path = back_up(fixture);
    live(fixture, 1500);
    check(fixture, path, OK);
    (void)find_end(fixture, path, UINT64_MAX, OK);
    unsigned count = 0;
    assert_int_equal(reserve_count(fixture->disk, RESERVE_SEGMENT, &count, &fixture->failure), OK);
    assert_true(count > 0); /* later segments have become spares */
    free(path);
}

static void a_pinned_log_removes_nothing(void **state)
{
    struct fixture *fixture = *state;
    live(fixture, 200);
    const uint64_t taken = namespace_snapshot(fixture->ns).taken;
    assert_true(taken > 0);
    assert_true(namespace_pin(fixture->ns));
    live(fixture, 600);
    assert_int_equal(namespace_snapshot(fixture->ns).taken, taken);
    assert_true(namespace_usage(fixture->ns).segments > 5);
    namespace_unpin(fixture->ns);
    live(fixture, 10);
    assert_true(namespace_snapshot(fixture->ns).taken > taken);
    assert_true(namespace_usage(fixture->ns).segments < 5);
}

static void a_disk_without_room_is_told(void **state)
{
    struct fixture *fixture = *state;
    live(fixture, 20);
    settle(fixture);
    fixture->make.min_free = UINT64_MAX / 2;
    assert_int_equal(backup_make_link(&fixture->make, &fixture->failure), OK);
    assert_int_equal(backup_make_finish(&fixture->make, &fixture->failure), ERROR_DISK_FULL);
    assert_non_null(strstr(fixture->failure.text, "disk-min-free"));
    char *path = backup_path(fixture->make.folder_owned, fixture->make.manifest.id, false);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(backup_remove(path, NULL, &fixture->failure), OK);
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);
}

static void one_that_is_cancelled_ends_soon(void **state)
{
    struct fixture *fixture = *state;
    live(fixture, 20);
    settle(fixture);
    assert_int_equal(backup_make_link(&fixture->make, &fixture->failure), OK);
    atomic_store(&fixture->make.is_cancelled, true);
    assert_int_equal(backup_make_finish(&fixture->make, &fixture->failure), ERROR_SERVICE_UNAVAILABLE);
    char *path = backup_path(fixture->make.folder_owned, fixture->make.manifest.id, true);
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static void change(const char *path, off_t offset)
{
    uint8_t byte;
    const int descriptor = open(path, O_RDWR);
    assert_true(descriptor >= 0 && pread(descriptor, &byte, 1, offset) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(descriptor, &byte, 1, offset), 1);
    (void)close(descriptor);
}

static void each_changed_missing_or_strange_file_is_found(void **state)
{
    struct fixture *fixture = *state;
    live(fixture, 100);
    char *path = back_up(fixture);
    const struct backup_namespace *ns = &fixture->make.manifest.namespaces_owned[0];
    for (size_t i = 0; i < ns->file_count; i++) {
        char file[200], other[220];
        (void)snprintf(file, sizeof(file), "%s/" NAME "/%s", path, ns->files_owned[i].name);
        (void)snprintf(other, sizeof(other), "%s.away", file);
        change(file, (off_t)ns->files_owned[i].size - 1);
        check(fixture, path, ERROR_LOG_DAMAGED);
        assert_non_null(strstr(fixture->failure.text, "it was changed"));
        change(file, (off_t)ns->files_owned[i].size - 1);
        assert_int_equal(rename(file, other), 0);
        check(fixture, path, ERROR_LOG_DAMAGED);
        assert_non_null(strstr(fixture->failure.text, "is missing"));
        assert_int_equal(rename(other, file), 0);
        check(fixture, path, OK);
    }
    char strange[200];
    (void)snprintf(strange, sizeof(strange), "%s/" NAME "/00000000ffff0000.segment", path);
    (void)close(open(strange, O_CREAT | O_WRONLY, 0600));
    check(fixture, path, ERROR_LOG_DAMAGED);
    assert_non_null(strstr(fixture->failure.text, "does not belong to the backup"));
    free(path);
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

static void it_is_moved_where_nothing_is(void **state)
{
    struct fixture *fixture = *state;
    char to[100];
    live(fixture, 100);
    char *path = back_up(fixture);
    assert_int_equal(backup_take(&fixture->make.manifest, path, fixture->root, &fixture->failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(fixture->failure.text, "exists already"));
    (void)snprintf(to, sizeof(to), "%s/taken/", fixture->root);
    assert_int_equal(backup_take(&fixture->make.manifest, path, to, &fixture->failure), OK);
    check(fixture, to, OK);
    assert_int_not_equal(access(path, F_OK), 0);
    failure_init(&fixture->failure);
    assert_int_equal(backup_remove(path, NULL, &fixture->failure), OK); /* it has gone */
    free(path);
}

static void a_tar_is_one_that_tar_reads(void **state)
{
    struct fixture *fixture = *state;
    char file[100], command[400], out[200];
    live(fixture, 100);
    char *path = back_up(fixture);
    (void)snprintf(file, sizeof(file), "%s/tar", fixture->root);
    const int descriptor = open(file, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(backup_write_tar(&fixture->make.manifest, path, descriptor, &fixture->failure), OK);
    (void)close(descriptor);
    (void)snprintf(command, sizeof(command), "cd '%s' && mkdir out && tar -xf tar -C out && diff -r out/* '%s'",
                   fixture->root, path);
    assert_int_equal(system(command), 0);
    (void)snprintf(out, sizeof(out), "%s/out/%s", fixture->root, fixture->make.manifest.id);
    check(fixture, out, OK);
    /* What was changed since is not passed on. */
    char changed[200];
    (void)snprintf(changed, sizeof(changed), "%s/" NAME "/%s", path,
                   fixture->make.manifest.namespaces_owned[0].files_owned[0].name);
    change(changed, 700);
    const int null = open("/dev/null", O_WRONLY);
    assert_int_equal(backup_write_tar(&fixture->make.manifest, path, null, &fixture->failure), ERROR_LOG_DAMAGED);
    (void)close(null);
    free(path);
}

/* --- restoring ---------------------------------------------------------------------------------------------------- */

static void it_is_restored_up_to_a_time_and_says_so(void **state)
{
    struct fixture *fixture = *state;
    char inner[160], to[100];
    live(fixture, 300);
    const uint64_t time_ms = fixture->now_ms;
    char *path = back_up(fixture);
    (void)snprintf(inner, sizeof(inner), "%s/" NAME, path);
    (void)snprintf(to, sizeof(to), "%s/restored", fixture->root);
    const struct restore_end end = find_end(fixture, path, time_ms - 3, OK);
    assert_int_equal(end.time_ms, time_ms - 3);
    struct disk *from = disk_posix_create_to_read(inner), *disk = disk_posix_create(to);
    struct restore_result result;
    assert_int_equal(from->operations->lock(from, &fixture->failure), OK);
    assert_int_equal(restore_write(from, disk, &end, time_ms + 5000, &result, &fixture->failure), OK);
    disk_posix_destroy(disk);
    disk_posix_destroy(from);
    check(fixture, path, OK); /* nothing was changed in it */
    disk = disk_posix_create(to);
    struct namespace *ns;
    assert_int_equal(namespace_recover(disk, &options, &ns, &fixture->failure), OK);
    const struct core_restore restore = core_restore(namespace_core(ns));
    assert_int_equal(restore.until_ms, time_ms - 3);
    assert_int_equal(restore.restored_at_ms, time_ms + 5000);
    namespace_close(ns);
    disk_posix_destroy(disk);
    free(path);
}

static void a_time_before_its_snapshot_is_refused(void **state)
{
    struct fixture *fixture = *state;
    live(fixture, 300);
    char *path = back_up(fixture);
    (void)find_end(fixture, path, 1000000, ERROR_INVALID_PARAMETER_VALUE);
    assert_non_null(strstr(fixture->failure.text, "reaches back to 1970-01-01T00:16:40."));
    free(path);
}

static void before_its_founding_there_was_no_namespace(void **state)
{
    struct fixture *fixture = *state;
    char *path = back_up(fixture); /* no snapshot yet */
    assert_int_equal(find_end(fixture, path, 999999, OK).position, 0);
    assert_true(find_end(fixture, path, 1000000, OK).position > 0);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(it_holds_the_log_up_to_the_instant_and_nothing_behind),
        TEST(a_file_of_a_backup_becomes_no_spare),
        TEST(a_pinned_log_removes_nothing),
        TEST(a_disk_without_room_is_told),
        TEST(one_that_is_cancelled_ends_soon),
        TEST(each_changed_missing_or_strange_file_is_found),
        TEST(it_is_moved_where_nothing_is),
        TEST(a_tar_is_one_that_tar_reads),
        TEST(it_is_restored_up_to_a_time_and_says_so),
        TEST(a_time_before_its_snapshot_is_refused),
        TEST(before_its_founding_there_was_no_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
