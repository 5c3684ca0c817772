/* The archive on a real file system: a file has its second name before the first one goes, and stays where it can't get
 * one. */
#include "log/archive.h"
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

#define ONE "0000000000000000.segment"
#define TWO "0000000000010000.segment"
#define SPARE_0 "0000000000000000.spare"
#define PATH_SIZE 160u

struct fixture {
    char root[64];
    char folder[96];
    char archive[96]; /* root/archive/log: neither is there yet */
    struct disk *disk;
    struct failure failure;
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    (void)snprintf(fixture->root, sizeof(fixture->root), "%.40s/tally-archive-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(fixture->root));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "%s/log", fixture->root);
    (void)snprintf(fixture->archive, sizeof(fixture->archive), "%s/archive/log", fixture->root);
    failure_init(&fixture->failure);
    fixture->disk = disk_posix_create(fixture->folder);
    fixture->disk->archive = fixture->archive;
    fixture->disk->spare_segments = 2;
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, &fixture->failure), OK);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    char command[128];
    disk_posix_destroy(fixture->disk);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* "" where there is no such file. */
static const char *read_file(const char *folder, const char *name)
{
    static char text[64];
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return text;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    return text;
}

static enum error retire(struct fixture *fixture, const char *name)
{
    failure_init(&fixture->failure);
    return reserve_retire(fixture->disk, RESERVE_SEGMENT, name, &fixture->failure);
}

static void a_file_goes_when_the_archive_has_it_and_never_becomes_a_spare(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture->folder, ONE, "one");
    write_file(fixture->folder, TWO, "two");
    assert_int_equal(retire(fixture, ONE), OK);
    assert_int_equal(retire(fixture, TWO), OK);
    assert_string_equal(read_file(fixture->archive, ONE), "one");
    assert_string_equal(read_file(fixture->archive, TWO), "two");
    assert_string_equal(read_file(fixture->folder, ONE), "");
    assert_string_equal(read_file(fixture->folder, SPARE_0), "");
    assert_int_equal(retire(fixture, ONE), OK); /* has gone already */
    assert_false(fixture->disk->is_unarchived);
}

static void a_process_that_ended_between_link_and_removal_is_followed_up(void **state)
{
    struct fixture *fixture = *state;
    const int folder = open(fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    write_file(fixture->folder, ONE, "one");
    assert_int_equal(archive_keep(folder, ONE, fixture->archive, &fixture->failure), OK);
    assert_string_equal(read_file(fixture->folder, ONE), "one");
    assert_int_equal(retire(fixture, ONE), OK);
    assert_string_equal(read_file(fixture->folder, ONE), "");
    assert_string_equal(read_file(fixture->archive, ONE), "one");
    assert_int_equal(close(folder), 0);
}

static void what_cannot_be_archived_stays_and_says_why(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture->folder, ONE, "one");
    write_file(fixture->root, "archive", "no folder");
    assert_int_equal(retire(fixture, ONE), ERROR_DISK_FAILED);
    assert_non_null(strstr(fixture->failure.text, "Not a directory"));
    assert_true(fixture->disk->is_unarchived);
    assert_string_equal(read_file(fixture->folder, ONE), "one");
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/archive", fixture->root);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(retire(fixture, ONE), OK);
    assert_string_equal(read_file(fixture->archive, ONE), "one");
}

static void a_foreign_file_of_that_name_is_left_and_so_is_ours(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture->folder, ONE, "one");
    assert_int_equal(retire(fixture, ONE), OK);
    write_file(fixture->folder, ONE, "of another log");
    assert_int_equal(retire(fixture, ONE), ERROR_DISK_FAILED);
    assert_non_null(strstr(fixture->failure.text, "needs an archive of its own"));
    assert_string_equal(read_file(fixture->archive, ONE), "one");
    assert_string_equal(read_file(fixture->folder, ONE), "of another log");
}

static void the_folder_of_the_log_is_no_archive(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture->folder, ONE, "one");
    fixture->disk->archive = fixture->folder;
    assert_int_equal(retire(fixture, ONE), ERROR_DISK_FAILED);
    assert_string_equal(read_file(fixture->folder, ONE), "one");
}

static void without_an_archive_a_file_becomes_a_spare(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture->folder, ONE, "one");
    fixture->disk->archive = NULL;
    assert_int_equal(retire(fixture, ONE), OK);
    assert_string_equal(read_file(fixture->folder, SPARE_0), "one");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_goes_when_the_archive_has_it_and_never_becomes_a_spare),
        TEST(a_process_that_ended_between_link_and_removal_is_followed_up),
        TEST(what_cannot_be_archived_stays_and_says_why),
        TEST(a_foreign_file_of_that_name_is_left_and_so_is_ours),
        TEST(the_folder_of_the_log_is_no_archive),
        TEST(without_an_archive_a_file_becomes_a_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
