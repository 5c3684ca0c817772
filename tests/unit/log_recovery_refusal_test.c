/* What a restart says about a folder that it refuses, word for word: the file, the offset and the numbers send a person
 * to the right place. */
#include "log/segment.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SIZE 8192u
#define FIRST "0000000000000000.segment"
#define SECOND "0000000000002000.segment"
#define THIRD "0000000000004000.segment"

/* Three frames fill a segment: they stand at 512, 2560 and 4608, and the frame that ends it at 6656. */
static struct disk *folder_make(unsigned frames)
{
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    for (unsigned i = 0; i < frames; i++)
        assert_int_equal(log_rig_write(&rig, 1900), OK);
    log_rig_deinit(&rig);
    return disk;
}

static void assert_said(struct disk *disk, const char *name, uint64_t offset, const char *what)
{
    char whole[1024];
    (void)snprintf(whole, sizeof(whole),
                   "memory/%s is damaged at offset %llu: %s. Restore the whole folder from a backup or a replica. "
                   "Without one: \"tallyd --verify memory\" says what is affected, and \"tallyd --salvage memory --to "
                   "NEW\" saves what can be read into a new data folder.",
                   name, (unsigned long long)offset, what);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), ERROR_LOG_DAMAGED);
    assert_string_equal(rig.failure.text, whole);
    log_rig_deinit(&rig);
}

/* Of the segments of a folder with eight frames, each with one header that is another. */
static void a_header_that_can_not_be_is_named_with_what_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct segment_header change; /* added to what it says */
        uint64_t offset;
        const char *what;
    } rows[] = {
        {FIRST, {.version = 1}, 4, "expected format version 1, found 2 (a newer program wrote it?)"},
        {FIRST, {.segment_size = -(uint64_t)SIZE}, 16, "a segment size of 0 is impossible"},
        {FIRST, {.segment_size = -(uint64_t)SIZE + 4095}, 16, "a segment size of 4095 is impossible"},
        {FIRST, {.segment_size = -(uint64_t)4096}, 8192, "the segment is too long: expected 4096 bytes, found 8192"},
        {FIRST, {.segment_size = 512}, 16, "a segment size of 8704 is impossible"},
        {FIRST,
         {.segment_size = (UINT64_C(1) << 40) - SIZE + 4096},
         16,
         "a segment size of 1099511631872 is impossible"},
        {FIRST, {.segment_size = SIZE}, 8192, "the segment is truncated: expected 16384 bytes, found 8192"},
        {FIRST,
         {.ordinal = 3},
         0,
         "expected the header of segment 0 with 8192 bytes, found segment 3 with 8192: a file of another folder?"},
        {SECOND, {.version = 1}, 4, "expected format version 1, found 2 (a newer program wrote it?)"},
        {SECOND,
         {.segment_size = 4096},
         0,
         "expected the header of segment 1 with 8192 bytes, found segment 1 with 12288: a file of another folder?"},
        {THIRD,
         {.ordinal = 5},
         0,
         "expected the header of segment 2 with 8192 bytes, found segment 7 with 8192: a file of another folder?"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct disk *disk = folder_make(8);
        log_rig_change_header(disk, rows[i].name, &rows[i].change);
        /* What does not fit its name may have been taken for the folder's size. */
        if (rows[i].offset == SIZE) {
            memory_disk_remove(disk, SECOND);
            memory_disk_remove(disk, THIRD);
        }
        assert_said(disk, rows[i].name, rows[i].offset, rows[i].what);
        memory_disk_destroy(disk);
    }

    /* A segment that continues another log: its link, or its number, is not the one before's. */
    for (unsigned row = 0; row < 2; row++) {
        struct disk *disk = folder_make(8);
        struct segment_header header;
        char what[256];
        assert_true(segment_header_decode(bytes_make(memory_disk_content(disk, SECOND).ptr, 512), &header));
        log_rig_change_header(disk, SECOND, &(struct segment_header){.link = row, .sequence = 1 - row});
        (void)snprintf(what, sizeof(what),
                       "it does not continue the segment before it: expected frame 4 and link %08x, found %u and %08x",
                       header.link, 5 - row, header.link + row);
        assert_said(disk, SECOND, 0, what);
        memory_disk_destroy(disk);
    }
}

/* A snapshot at this position, whatever stands there. */
static void snapshot_put(struct disk *disk, uint64_t position)
{
    const struct snapshot_point point = {.epoch = 1, .sequence = 4, .position = position, .time_ms = 1004};
    struct snapshot_writer *writer;
    assert_int_equal(snapshot_begin(disk, &point, &writer, NULL), OK);
    assert_int_equal(snapshot_append(writer, BYTES("state"), NULL), OK);
    assert_int_equal(snapshot_finish(writer, NULL), OK);
    assert_int_equal(snapshot_publish(disk, &point, NULL), OK);
}

static void a_folder_that_can_not_be_is_named_with_its_file(void **state)
{
    (void)state;
    const uint8_t zeros[SIZE + 1] = {0};
    struct disk *disk = folder_make(8);
    memory_disk_put(disk, "0000000000000800.segment", bytes_make(zeros, SIZE));
    assert_said(disk, "0000000000000800.segment", 0, "its name is no multiple of the segment size 8192");
    memory_disk_remove(disk, "0000000000000800.segment");
    memory_disk_remove(disk, SECOND);
    assert_said(disk, SECOND, 0, "this segment is missing");
    memory_disk_destroy(disk);

    disk = folder_make(8);
    snapshot_put(disk, SIZE);
    assert_said(disk, SECOND, 0, "the snapshot's position 8192 lies inside a header");
    memory_disk_destroy(disk);
    disk = folder_make(8);
    snapshot_put(disk, (uint64_t)3 * SIZE + 512);
    assert_said(disk, "0000000000006000.segment", 0, "this segment is missing");
    memory_disk_destroy(disk);

    disk = folder_make(2);
    memory_disk_put(disk, SECOND, bytes_make(zeros, SIZE + 1));
    assert_said(disk, SECOND, SIZE + 1, "the segment is too long: expected 8192");
    memory_disk_put(disk, SECOND, bytes_make(zeros, SIZE));
    log_rig_overwrite(disk, SECOND, 0, "x", 1);
    static const char written[] = "expected an unused segment, because the one before it has not ended after frame 2; "
                                  "found something written";
    assert_said(disk, SECOND, 0, written);
    log_rig_overwrite(disk, SECOND, 0, NULL, 1);
    log_rig_overwrite(disk, SECOND, 512, "x", 1);
    assert_said(disk, SECOND, 512, written);
    memory_disk_put(disk, SECOND, bytes_make(zeros, SIZE));
    memory_disk_put(disk, THIRD, bytes_make(zeros, SIZE));
    assert_said(disk, SECOND, 0, "expected no segment behind it, because frame 2 is the last; found one");
    memory_disk_destroy(disk);
}

static void a_frame_that_can_not_be_is_named_with_its_place(void **state)
{
    (void)state;
    struct disk *whole = folder_make(3); /* of which no end of the segment is written */
    uint8_t content[SIZE];
    memcpy(content, memory_disk_content(whole, FIRST).ptr, SIZE);
    static const struct {
        uint64_t zero_from, zero_size; /* bytes of the segment that are lost */
        uint64_t written_at;           /* and one that is written; 0: none */
        uint64_t offset;
        const char *what;
    } rows[] = {
        {512, 2048, 0, 512, "expected frame 1, found none, though frame 2 stands behind it at offset 2560"},
        {512, 4096, 0, 512, "expected frame 1, found none, though frame 3 stands behind it at offset 4608"},
        {1024, 1, 0, 512,
         "frame 1, 2048 bytes, has a wrong checksum though it was written whole: something changed it"},
        {3072, 512, 0, 2560, "expected frame 2, found none, though frame 3 stands behind it at offset 4608"},
        {5120, 512, 7000, 4608, "frame 3 has lost sectors, and behind it at offset 6656 something is written"},
        {2560, 2048, 0, 2560, "expected frame 2, found none, though frame 3 stands behind it at offset 4608"},
        {0, 0, 6656, 6656, "expected a frame, found bytes that are none"},
        {512, 7680, 4608, 512, "more is written behind the last frame than one torn frame explains"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t copy[SIZE];
        memcpy(copy, content, SIZE);
        memset(copy + rows[i].zero_from, 0, rows[i].zero_size);
        if (rows[i].written_at > 0)
            copy[rows[i].written_at] = 1;
        memory_disk_put(whole, FIRST, bytes_make(copy, SIZE));
        assert_said(whole, FIRST, rows[i].offset, rows[i].what);
    }

    /* Frames that are whole in themselves, in the place of the second. */
    static const struct {
        uint64_t epoch, sequence, position, time_ms;
        size_t size;
        const char *what;
    } frames[] = {
        {1, 2, 3072, 1002, 100, "expected a frame for position 2560, found one for 3072"},
        {1, 3, 2560, 1002, 100, "expected frame 2, found frame 3"},
        {0, 2, 2560, 1002, 100, "expected epoch 1 and time 1001 or later, found 0 and 1002"},
        {1, 2, 2560, 1000, 100, "expected epoch 1 and time 1001 or later, found 1 and 1000"},
        {1, 2, 2560, 1002, 5100, "frame 2 of 5632 bytes does not fit into the segment"},
        {1, 2, 2560, 1002, 5000, NULL}, /* and behind it the one that ends the segment */
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct buffer frame;
        buffer_init(&frame);
        frame_begin(&frame);
        log_rig_payload(frames[i].sequence, frames[i].size, buffer_extend(&frame, frames[i].size));
        frame_seal(&frame, FRAME_EVENTS, frames[i].epoch, frames[i].sequence, frames[i].position, frames[i].time_ms);
        memory_disk_put(whole, FIRST, bytes_make(content, SIZE));
        log_rig_overwrite(whole, FIRST, 2560, NULL, SIZE - 2560);
        log_rig_overwrite(whole, FIRST, 2560, frame.data_owned, frame.size);
        buffer_deinit(&frame);
        if (frames[i].what != NULL) {
            assert_said(whole, FIRST, 2560, frames[i].what);
            continue;
        }
        struct log_rig rig;
        log_rig_init(&rig, whole);
        assert_int_equal(log_rig_open(&rig), OK);
        assert_int_equal(rig.replayed, 2);
        log_rig_deinit(&rig);
    }
    memory_disk_destroy(whole);
}

/* --- following ---------------------------------------------------------------------------------------------------- */

/* An owner that is followed: each time it is waited for, one more file is as it left it, and then it is gone. */
static struct disk_operations operations;
static struct disk *owner;
static const char *const *shown; /* files that it shows yet, one a time; NULL ends */
static unsigned awaits;
static enum error awaits_with;
static void (*on_owner)(struct disk *disk);

static enum error owner_await(struct disk *disk, bool *is_owner, struct failure *failure)
{
    awaits++;
    if (awaits_with != OK)
        return failure_set(failure, awaits_with, "the owner is gone for good");
    if (*shown != NULL) {
        memory_disk_put(disk, *shown, memory_disk_content(owner, *shown));
        shown++;
        return OK;
    }
    *is_owner = true;
    if (on_owner != NULL)
        on_owner(disk);
    return OK;
}

static void follow(struct disk *disk, const char *const *files)
{
    operations = *disk->operations;
    operations.await = owner_await;
    disk->operations = &operations;
    shown = files;
    awaits = 0;
    awaits_with = OK;
    on_owner = NULL;
}

static void leave_unused(struct disk *disk)
{
    const uint8_t zeros[SIZE] = {0};
    memory_disk_put(disk, "0000000000006000.segment", bytes_make(zeros, SIZE));
}

static void remove_first(struct disk *disk)
{
    memory_disk_remove(disk, FIRST);
    leave_unused(disk);
}

static void who_follows_waits_for_what_comes_and_goes_on_in_its_place(void **state)
{
    (void)state;
    const uint8_t zeros[SIZE] = {0};
    owner = folder_make(8);
    static const struct {
        const char *files[4];   /* that come later */
        const char *lost[4];    /* those that are not there yet */
        const char *unfinished; /* one that is there, and all zeros */
        size_t unfinished_size; /* bytes */
        void (*on_owner)(struct disk *disk);
        unsigned awaits;
    } rows[] = {
        {{NULL}, {NULL}, NULL, 0, NULL, 1},
        {{NULL}, {NULL}, NULL, 0, leave_unused, 1},
        {{THIRD, NULL}, {THIRD}, NULL, 0, NULL, 2},
        {{SECOND, THIRD, NULL}, {SECOND, THIRD}, NULL, 0, leave_unused, 3},
        {{FIRST, SECOND, THIRD, NULL}, {SECOND, THIRD}, FIRST, 100, NULL, 4},
        {{FIRST, SECOND, THIRD, NULL}, {SECOND, THIRD}, FIRST, SIZE, NULL, 4},
        {{SECOND, NULL}, {NULL}, SECOND, SIZE, NULL, 2},
        {{THIRD, NULL}, {NULL}, THIRD, 1000, leave_unused, 2},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct disk *disk = memory_disk_clone(owner, 1);
        for (const char *const *name = rows[i].lost; *name != NULL; name++)
            memory_disk_remove(disk, *name);
        if (rows[i].unfinished != NULL)
            memory_disk_put(disk, rows[i].unfinished, bytes_make(zeros, rows[i].unfinished_size));
        follow(disk, rows[i].files);
        on_owner = rows[i].on_owner;
        struct log_rig rig;
        log_rig_init(&rig, disk);
        if (log_rig_open(&rig) != OK)
            fail_msg("%zu: %s", i, rig.failure.text);
        assert_int_equal(rig.replayed, 8);
        assert_int_equal(awaits, rows[i].awaits);
        assert_int_equal(log_usage(rig.log).segment_count, 3);
        assert_false(memory_disk_has(disk, "0000000000006000.segment"));
        for (unsigned more = 0; more < 6; more++)
            assert_int_equal(log_rig_write(&rig, 1900), OK);
        assert_int_equal(log_usage(rig.log).segment_count, 5);
        log_rig_deinit(&rig);
        memory_disk_destroy(disk);
    }

    /* The end of the wait may be an error, wherever it began. */
    static const char *const missing[] = {NULL, THIRD, SECOND};
    for (size_t i = 0; i < 3; i++) {
        struct disk *disk = memory_disk_clone(owner, 1);
        if (missing[i] != NULL)
            memory_disk_remove(disk, missing[i]);
        if (i == 2)
            memory_disk_remove(disk, THIRD);
        follow(disk, (const char *const[]){NULL});
        awaits_with = ERROR_DISK_FAILED;
        struct log_rig rig;
        log_rig_init(&rig, disk);
        assert_int_equal(log_rig_open(&rig), ERROR_DISK_FAILED);
        assert_string_equal(rig.failure.text, "the owner is gone for good");
        assert_int_equal(awaits, 1);
        log_rig_deinit(&rig);
        memory_disk_destroy(disk);
    }

    /* What nobody left is missing then. */
    struct disk *disk = memory_disk_clone(owner, 1);
    memory_disk_remove(disk, SECOND);
    memory_disk_remove(disk, THIRD);
    follow(disk, (const char *const[]){NULL});
    assert_said(disk, SECOND, 0, "this segment is missing");
    memory_disk_destroy(disk);
    memory_disk_destroy(owner);
}

/* While it was followed, the owner took a snapshot and removed what that made superfluous. */
static void what_an_owner_has_removed_is_forgotten(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    for (unsigned i = 1; i <= 8; i++) {
        assert_int_equal(log_rig_write(&rig, 1900), OK);
        if (i == 7)
            assert_int_equal(log_rig_snapshot(&rig, BYTES("state")), OK);
    }
    log_rig_close(&rig);
    follow(disk, (const char *const[]){NULL});
    on_owner = remove_first;
    if (log_rig_open(&rig) != OK)
        fail_msg("%s", rig.failure.text);
    assert_int_equal(rig.replayed, 1);
    assert_false(log_has_segment(rig.log, 0));
    assert_true(log_has_segment(rig.log, SIZE));
    assert_true(log_has_segment(rig.log, (uint64_t)2 * SIZE));
    assert_false(log_has_segment(rig.log, (uint64_t)3 * SIZE));
    assert_int_equal(log_usage(rig.log).segment_count, 2);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_that_can_not_be_is_named_with_what_it_says),
        cmocka_unit_test(a_folder_that_can_not_be_is_named_with_its_file),
        cmocka_unit_test(a_frame_that_can_not_be_is_named_with_its_place),
        cmocka_unit_test(who_follows_waits_for_what_comes_and_goes_on_in_its_place),
        cmocka_unit_test(what_an_owner_has_removed_is_forgotten),
    };
    return cmocka_run_group_tests_name("log recovery's refusals", tests, NULL, NULL);
}
