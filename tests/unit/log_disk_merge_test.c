/* A log and its archive, read as one: which file counts where both have it, and what is shown. */
#include "log/disk_merge.h"
#include "log/segment.h"
#include "log/snapshot.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 4096u

static void put_segment(struct disk *disk, unsigned ordinal, char content)
{
    static uint8_t bytes[SIZE];
    char name[SEGMENT_NAME_SIZE];
    memset(bytes, content, SIZE);
    segment_name(ordinal * SIZE, name);
    memory_disk_put(disk, name, bytes_make(bytes, SIZE));
}

static void put_snapshot(struct disk *disk, uint64_t position)
{
    char name[SNAPSHOT_NAME_SIZE];
    snapshot_name(position, name);
    memory_disk_put(disk, name, BYTES("snapshot"));
}

/* "0n 1o S1000": segment 0 of the newer folder, 1 of the older, and the snapshot at position 1000. */
struct shown {
    struct disk *merge;
    char text[160];
};

static void note(void *context, const char *name)
{
    struct shown *shown = context;
    char entry[32];
    uint64_t position;
    struct disk_file *file;
    uint8_t content = '?';
    if (segment_name_decode(name, &position)) {
        assert_int_equal(shown->merge->operations->open(shown->merge, name, &file, NULL), OK);
        assert_int_equal(shown->merge->operations->read(file, 0, &content, 1, NULL), OK);
        shown->merge->operations->close(file);
        (void)snprintf(entry, sizeof(entry), "%u%c ", (unsigned)(position / SIZE), content);
    } else {
        assert_true(snapshot_name_decode(name, &position));
        (void)snprintf(entry, sizeof(entry), "S%u ", (unsigned)position);
    }
    strcat(shown->text, entry);
}

static void check(struct disk *merge, const char *expected)
{
    struct shown shown = {.merge = merge};
    assert_int_equal(merge->operations->list(merge, note, &shown, NULL), OK);
    assert_string_equal(shown.text, expected);
}

static struct disk *begin(struct disk *newer, struct disk *older)
{
    struct failure failure;
    failure_init(&failure);
    struct disk *merge = disk_merge_create(newer, older);
    assert_int_equal(disk_merge_begin(merge, &failure), OK);
    return merge;
}

static void both_folders_are_one_log_from_a_snapshot_on(void **state)
{
    (void)state;
    struct disk *newer = memory_disk_create(1), *older = memory_disk_create(2);
    put_segment(older, 0, 'o');
    put_segment(older, 2, 'o');
    put_segment(newer, 1, 'n');
    put_segment(newer, 3, 'n');
    put_segment(newer, 4, 'n');
    put_snapshot(older, SIZE + 512);
    put_snapshot(older, 2 * SIZE + 512);
    put_snapshot(newer, 3 * SIZE + 512);
    memory_disk_put(older, "notes.txt", BYTES("of a person"));
    struct disk *merge = begin(newer, older);
    check(merge, "");
    assert_int_equal(disk_merge_snapshot_count(merge), 3);
    assert_int_equal(disk_merge_snapshot_at(merge, 0), 3 * SIZE + 512);
    assert_int_equal(disk_merge_snapshot_at(merge, 2), SIZE + 512);
    assert_int_equal(disk_merge_select(merge, SIZE + 512), 5 * SIZE);
    check(merge, "0o 1n 2o 3n 4n S4608 ");
    assert_int_equal(disk_merge_select(merge, 3 * SIZE + 512), 5 * SIZE);
    check(merge, "0o 1n 2o 3n 4n S12800 ");
    assert_int_equal(disk_merge_select(merge, 0), 5 * SIZE);
    check(merge, "0o 1n 2o 3n 4n ");
    disk_merge_destroy(merge);
    memory_disk_destroy(newer);
    memory_disk_destroy(older);
}

static void what_is_behind_a_gap_is_not_shown(void **state)
{
    (void)state;
    struct disk *newer = memory_disk_create(1), *older = memory_disk_create(2);
    put_segment(older, 0, 'o');
    put_segment(older, 1, 'o');
    put_segment(older, 3, 'o');
    put_segment(newer, 4, 'n');
    struct disk *merge = begin(newer, older);
    assert_int_equal(disk_merge_select(merge, 512), 2 * SIZE);
    check(merge, "0o 1o ");
    assert_int_equal(disk_merge_select(merge, 2 * SIZE + 512), 2 * SIZE); /* not even its own */
    check(merge, "0o 1o ");
    assert_int_equal(disk_merge_select(merge, 3 * SIZE + 512), 5 * SIZE);
    check(merge, "0o 1o 3o 4n ");
    disk_merge_destroy(merge);
    memory_disk_destroy(newer);
    memory_disk_destroy(older);
}

/* A backup has the beginning of its newest segment, and the archive may have all of it. */
static void the_whole_of_the_newest_segment_counts_and_nothing_follows_a_beginning(void **state)
{
    (void)state;
    struct disk *newer = memory_disk_create(1), *older = memory_disk_create(2);
    put_segment(newer, 0, 'n');
    put_segment(newer, 1, 'n');
    put_segment(older, 0, 'o');
    put_segment(older, 2, 'o');
    struct disk *merge = begin(newer, older);
    assert_int_equal(disk_merge_select(merge, 0), 2 * SIZE);
    check(merge, "0n 1n ");
    disk_merge_destroy(merge);
    put_segment(older, 1, 'o');
    merge = begin(newer, older);
    assert_int_equal(disk_merge_select(merge, 0), 3 * SIZE);
    check(merge, "0n 1o 2o ");
    disk_merge_destroy(merge);
    memory_disk_destroy(newer);
    memory_disk_destroy(older);
}

static bool is_first(void *context, uint64_t start)
{
    (void)context;
    return start == 0;
}

static void what_nothing_needs_before_the_snapshot_can_be_left_out(void **state)
{
    (void)state;
    struct disk *older = memory_disk_create(2);
    for (unsigned ordinal = 0; ordinal < 4; ordinal++)
        put_segment(older, ordinal, 'o');
    put_snapshot(older, 2 * SIZE + 512);
    struct disk *merge = begin(NULL, older);
    (void)disk_merge_select(merge, 2 * SIZE + 512);
    disk_merge_keep(merge, is_first, NULL);
    check(merge, "0o 2o 3o S8704 ");
    disk_merge_destroy(merge);
    memory_disk_destroy(older);
}

static void a_log_without_files_has_no_segment(void **state)
{
    (void)state;
    struct disk *newer = memory_disk_create(1), *older = memory_disk_create(2);
    struct disk *merge = begin(newer, older);
    assert_int_equal(disk_merge_select(merge, 0), UINT64_MAX);
    assert_int_equal(disk_merge_snapshot_count(merge), 0);
    check(merge, "");
    disk_merge_destroy(merge);
    put_segment(older, 2, 'o');
    merge = begin(newer, older);
    assert_int_equal(disk_merge_select(merge, 0), 0);
    check(merge, "");
    disk_merge_destroy(merge);
    memory_disk_destroy(newer);
    memory_disk_destroy(older);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_folders_are_one_log_from_a_snapshot_on),
        cmocka_unit_test(what_is_behind_a_gap_is_not_shown),
        cmocka_unit_test(the_whole_of_the_newest_segment_counts_and_nothing_follows_a_beginning),
        cmocka_unit_test(what_nothing_needs_before_the_snapshot_can_be_left_out),
        cmocka_unit_test(a_log_without_files_has_no_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
