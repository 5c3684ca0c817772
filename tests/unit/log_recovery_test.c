/* What a restart makes of a folder: torn tails are cut, everything else that is not as it must be is refused. */
#include "log/segment.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FIRST "0000000000000000.segment"
#define SECOND "0000000000002000.segment"
#define THIRD "0000000000004000.segment"
#define FOURTH "0000000000006000.segment"

/* A disk with `count` frames of this payload, closed. Segments have 8,192 bytes. */
static struct disk *folder_make(unsigned count, size_t payload_size)
{
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(log_rig_write(&rig, payload_size), OK);
    log_rig_deinit(&rig);
    return disk;
}

/* Every file of a folder in one sum, to see whether anything was changed. */
struct folder_sum {
    struct disk *disk;
    uint64_t sum;
};

static void file_sum(void *context, const char *name)
{
    struct folder_sum *sum = context;
    sum->sum += bytes_hash(memory_disk_content(sum->disk, name)) * (2 * bytes_hash(bytes_from_string(name)) + 1);
}

static uint64_t folder_sum_of(struct disk *disk)
{
    struct folder_sum sum = {.disk = disk};
    assert_int_equal(disk->operations->list(disk, file_sum, &sum, NULL), OK);
    return sum.sum;
}

/* The folder is refused, the text names the file and contains `text`, and nothing was changed. */
static void assert_refused(struct disk *disk, const char *name, const char *text)
{
    const uint64_t before = folder_sum_of(disk);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), ERROR_LOG_DAMAGED);
    if (strstr(rig.failure.text, name) == NULL || strstr(rig.failure.text, text) == NULL)
        fail_msg("expected \"%s\" and \"%s\" in: %s", name, text, rig.failure.text);
    log_rig_deinit(&rig);
    assert_true(before == folder_sum_of(disk));
}

/* The folder opens with this many frames, takes one more, and keeps it. */
static void assert_opens(struct disk *disk, uint64_t frames)
{
    struct log_rig rig;
    log_rig_init(&rig, disk);
    if (log_rig_open(&rig) != OK)
        fail_msg("%s", rig.failure.text);
    assert_int_equal(rig.replayed, frames);
    assert_int_equal(log_rig_write(&rig, 100), OK);
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.replayed, frames + 1);
    log_rig_deinit(&rig);
}

static void an_empty_folder_is_new_until_a_frame_is_durable(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_true(rig.is_new);
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_true(rig.is_new);
    assert_int_equal(log_rig_write(&rig, 10), OK);
    log_rig_close(&rig);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_false(rig.is_new);
    assert_int_equal(rig.replayed, 1);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

static void frames_come_back_in_order_over_many_segments(void **state)
{
    (void)state;
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    uint64_t written = 0;
    for (uint64_t epoch = 1; epoch <= 20; epoch++) {
        assert_int_equal(log_rig_open(&rig), OK);
        assert_int_equal(rig.replayed, written);
        /* An owner that wrote nothing leaves no trace, so it shares its epoch with the next one. */
        assert_int_equal(log_epoch(rig.log), epoch);
        for (int i = 0; i < 9; i++, written++)
            assert_int_equal(log_rig_write(&rig, (size_t)(written * 97 % 3000)), OK);
        log_rig_close(&rig);
    }
    assert_true(memory_disk_has(disk, "0000000000010000.segment"));
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

/* Zeroes the sectors of the last frame that are not in `kept`. */
static void frame_tear(struct disk *disk, const char *name, size_t offset, size_t size, uint64_t kept)
{
    const struct bytes content = memory_disk_content(disk, name);
    uint8_t *copy = malloc(content.size);
    memcpy(copy, content.ptr, content.size);
    for (size_t sector = 0; sector < size / FRAME_SECTOR_SIZE; sector++)
        if ((kept >> sector & 1) == 0)
            memset(copy + offset + sector * FRAME_SECTOR_SIZE, 0, FRAME_SECTOR_SIZE);
    memory_disk_put(disk, name, bytes_make(copy, content.size));
    free(copy);
}

static void a_torn_last_frame_is_cut_whichever_sectors_are_missing(void **state)
{
    (void)state;
    for (size_t sectors = 1; sectors <= 6; sectors++) {
        struct disk *whole = folder_make(2, 400);
        struct log_rig rig;
        log_rig_init(&rig, whole);
        assert_int_equal(log_rig_open(&rig), OK);
        assert_int_equal(log_rig_write(&rig, sectors * FRAME_SECTOR_SIZE - FRAME_HEADER_SIZE - 10), OK);
        assert_int_equal(rig.frame.size, sectors * FRAME_SECTOR_SIZE);
        const size_t offset = rig.position, size = rig.frame.size;
        log_rig_deinit(&rig);
        for (uint64_t kept = 0; kept < UINT64_C(1) << sectors; kept++) {
            struct disk *disk = memory_disk_clone(whole, kept);
            frame_tear(disk, FIRST, offset, size, kept);
            const bool is_whole = kept == (UINT64_C(1) << sectors) - 1;
            assert_opens(disk, is_whole ? 3 : 2);
            /* Nothing is left of it but what was written over it: the next frame has one sector. */
            if (!is_whole)
                assert_true(frame_bytes_are_zero(bytes_skip(memory_disk_content(disk, FIRST), offset + 512)));
            memory_disk_destroy(disk);
        }
        memory_disk_destroy(whole);
    }
}

static void a_torn_first_frame_leaves_the_folder_new(void **state)
{
    (void)state;
    for (uint64_t kept = 0; kept < 7; kept++) {
        struct disk *disk = folder_make(1, 1400);
        frame_tear(disk, FIRST, 512, 1536, kept);
        struct log_rig rig;
        log_rig_init(&rig, disk);
        assert_int_equal(log_rig_open(&rig), OK);
        assert_true(rig.is_new);
        log_rig_deinit(&rig);
        memory_disk_destroy(disk);
    }
}

static void a_torn_frame_behind_a_segments_end_is_cut(void **state)
{
    (void)state;
    struct disk *whole = folder_make(4, 1900); /* three in the first segment, one in the second */
    assert_true(memory_disk_has(whole, SECOND));
    for (uint64_t kept = 0; kept < 15; kept++) {
        struct disk *disk = memory_disk_clone(whole, kept);
        frame_tear(disk, SECOND, 512, 2048, kept);
        assert_opens(disk, 3);
        memory_disk_destroy(disk);
    }
    memory_disk_destroy(whole);
}

static void any_flipped_bit_of_the_last_whole_frame_is_refused(void **state)
{
    (void)state;
    struct disk *whole = folder_make(3, 700);
    const uint64_t offset = 512 + 2 * 1024;
    struct random random = {.state = 3};
    for (uint64_t bit = 0; bit < (uint64_t)1024 * 8; bit++) {
        if (bit >= FRAME_HEADER_SIZE * 8 && random_below(&random, 16) != 0)
            continue;
        memory_disk_flip_bit(whole, FIRST, offset * 8 + bit);
        assert_refused(whole, FIRST, "damaged at offset 2560");
        memory_disk_flip_bit(whole, FIRST, offset * 8 + bit);
    }
    assert_opens(whole, 3);
    memory_disk_destroy(whole);
}

static void any_flipped_bit_of_an_earlier_frame_is_refused(void **state)
{
    (void)state;
    struct disk *whole = folder_make(12, 700);
    struct random random = {.state = 4};
    for (int round = 0; round < 400; round++) {
        const uint64_t offset = 512 + random_below(&random, 5) * 1024u;
        const uint64_t bit = offset * 8 + random_below(&random, 1024 * 8);
        char text[64];
        (void)snprintf(text, sizeof(text), "damaged at offset %u", (unsigned)offset);
        memory_disk_flip_bit(whole, FIRST, bit);
        assert_refused(whole, FIRST, text);
        memory_disk_flip_bit(whole, FIRST, bit);
    }
    assert_opens(whole, 12);
    memory_disk_destroy(whole);
}

/* Zeros where an earlier frame stood are no torn tail: what follows proves that it was durable. */
static void an_earlier_frame_that_has_become_zeros_is_refused(void **state)
{
    (void)state;
    for (unsigned frame = 0; frame < 4; frame++) {
        struct disk *disk = folder_make(5, 700);
        frame_tear(disk, FIRST, 512 + frame * 1024, 1024, 0);
        assert_refused(disk, FIRST, "stands behind it");
        memory_disk_destroy(disk);
        disk = folder_make(5, 700);
        frame_tear(disk, FIRST, 512 + frame * 1024, 1024, 1);
        assert_refused(disk, FIRST, "damaged at offset");
        memory_disk_destroy(disk);
    }
}

static void any_flipped_bit_of_the_frame_that_ends_a_segment_is_refused(void **state)
{
    (void)state;
    struct disk *whole = folder_make(4, 1900);
    const uint64_t offset = 512 + 3 * 2048;
    for (uint64_t bit = 0; bit < (uint64_t)512 * 8; bit += 7) {
        memory_disk_flip_bit(whole, FIRST, offset * 8 + bit);
        assert_refused(whole, FIRST, "damaged at offset 6656");
        memory_disk_flip_bit(whole, FIRST, offset * 8 + bit);
    }
    /* Without it, the log would seem to end here, but the next segment has frames. */
    frame_tear(whole, FIRST, offset, 512, 0);
    assert_refused(whole, SECOND, "expected an unused segment");
    memory_disk_destroy(whole);
}

static void any_flipped_bit_of_a_segments_header_is_refused(void **state)
{
    (void)state;
    struct disk *whole = folder_make(8, 1900);
    const char *names[] = {FIRST, SECOND, THIRD};
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t bit = 0; bit < (uint64_t)512 * 8; bit += 5) {
            memory_disk_flip_bit(whole, names[i], bit);
            assert_refused(whole, names[i], "header has a wrong checksum");
            memory_disk_flip_bit(whole, names[i], bit);
        }
    }
    assert_opens(whole, 8);
    memory_disk_destroy(whole);

    /* Also when it is the only segment, and its size can't be learned from another. */
    whole = folder_make(1, 100);
    for (uint64_t bit = 0; bit < (uint64_t)512 * 8; bit += 5) {
        memory_disk_flip_bit(whole, FIRST, bit);
        assert_refused(whole, FIRST, "header has a wrong checksum");
        memory_disk_flip_bit(whole, FIRST, bit);
    }
    memory_disk_destroy(whole);
}

static void a_truncated_segment_is_refused(void **state)
{
    (void)state;
    const char *names[] = {FIRST, SECOND, THIRD};
    const uint64_t sizes[] = {0, 100, 512, 1000, 4096, 8191};
    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 6; j++) {
            struct disk *disk = folder_make(8, 1900);
            memory_disk_truncate(disk, names[i], sizes[j]);
            assert_refused(disk, names[i], "truncated");
            memory_disk_destroy(disk);
        }
    }
}

static void a_missing_segment_is_refused(void **state)
{
    (void)state;
    const char *names[] = {FIRST, SECOND, THIRD};
    for (size_t i = 0; i < 3; i++) {
        struct disk *disk = folder_make(8, 1900);
        memory_disk_remove(disk, names[i]);
        assert_refused(disk, names[i], "missing");
        memory_disk_destroy(disk);
    }
    struct disk *disk = folder_make(11, 1900);
    memory_disk_remove(disk, SECOND);
    memory_disk_remove(disk, THIRD);
    assert_refused(disk, SECOND, "missing");
    memory_disk_destroy(disk);
}

/* A folder of eight frames over three segments with a snapshot behind the frame `sequence`. */
static struct disk *folder_make_with_snapshot(unsigned sequence)
{
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    for (unsigned i = 1; i <= 8; i++) {
        assert_int_equal(log_rig_write(&rig, 1900), OK);
        if (i == sequence)
            assert_int_equal(log_rig_snapshot(&rig, BYTES("state")), OK);
    }
    log_rig_deinit(&rig);
    return disk;
}

static void replay_goes_on_behind_the_snapshot(void **state)
{
    (void)state;
    for (unsigned sequence = 1; sequence <= 8; sequence++) {
        struct disk *disk = folder_make_with_snapshot(sequence);
        struct log_rig rig;
        log_rig_init(&rig, disk);
        assert_int_equal(log_rig_open(&rig), OK);
        assert_false(rig.is_new);
        assert_true(bytes_equal(buffer_bytes(&rig.snapshot), BYTES("state")));
        assert_int_equal(rig.replayed, 8 - sequence);
        log_rig_deinit(&rig);
        assert_opens(disk, 8 - sequence);
        memory_disk_destroy(disk);
    }
}

static void segments_before_the_snapshot_may_be_missing_later_ones_not(void **state)
{
    (void)state;
    struct disk *disk = folder_make_with_snapshot(7); /* in the third segment */
    memory_disk_remove(disk, FIRST);
    assert_opens(disk, 1);
    memory_disk_remove(disk, SECOND);
    assert_opens(disk, 2);
    memory_disk_remove(disk, THIRD);
    assert_refused(disk, THIRD, "missing");
    memory_disk_destroy(disk);

    disk = folder_make_with_snapshot(4); /* in the second */
    memory_disk_remove(disk, FIRST);
    memory_disk_remove(disk, THIRD);
    assert_refused(disk, THIRD, "missing");
    memory_disk_destroy(disk);

    disk = folder_make_with_snapshot(2);
    memory_disk_remove(disk, FIRST);
    memory_disk_remove(disk, SECOND);
    memory_disk_remove(disk, THIRD);
    assert_refused(disk, FIRST, "missing");
    memory_disk_destroy(disk);
}

/* Segments that are kept for the bodies in them are checked too. */
static void an_older_segment_that_is_damaged_is_refused(void **state)
{
    (void)state;
    struct disk *disk = folder_make_with_snapshot(7);
    memory_disk_truncate(disk, FIRST, 4096);
    assert_refused(disk, FIRST, "truncated");
    memory_disk_destroy(disk);
    disk = folder_make_with_snapshot(7);
    memory_disk_flip_bit(disk, FIRST, 100);
    assert_refused(disk, FIRST, "header");
    memory_disk_destroy(disk);
}

/* The next segment is made ahead of time; whatever a crash leaves of it holds nothing and is made again. */
static void an_unused_next_segment_is_made_again(void **state)
{
    (void)state;
    const uint8_t zeros[8192] = {0};
    const size_t sizes[] = {0, 1, 512, 600, 4096, 8192};
    for (size_t i = 0; i < 6; i++) {
        struct disk *disk = folder_make(2, 1900);
        memory_disk_put(disk, SECOND, bytes_make(zeros, sizes[i]));
        assert_opens(disk, 2);
        memory_disk_destroy(disk);
    }
    /* With its header already written, but the one before not ended. */
    struct disk *disk = folder_make(2, 1900);
    uint8_t copy[8192] = {0};
    segment_header_encode(
        &(struct segment_header){
            .version = SEGMENT_VERSION, .ordinal = 1, .segment_size = 8192, .sequence = 3, .epoch = 1},
        copy);
    memory_disk_put(disk, SECOND, bytes_make(copy, sizeof(copy)));
    assert_opens(disk, 2);
    /* Something written in it is not explained by a crash. */
    memory_disk_destroy(disk);
    disk = folder_make(2, 1900);
    copy[5000] = 1;
    memory_disk_put(disk, SECOND, bytes_make(copy, sizeof(copy)));
    assert_refused(disk, SECOND, "expected an unused segment");
    memory_disk_destroy(disk);
    /* Nor is one behind the next. */
    disk = folder_make(2, 1900);
    memory_disk_put(disk, SECOND, bytes_make(zeros, sizeof(zeros)));
    memory_disk_put(disk, THIRD, bytes_make(zeros, sizeof(zeros)));
    assert_refused(disk, SECOND, "expected no segment behind it");
    memory_disk_destroy(disk);
}

static void remains_behind_the_end_are_cut_unless_they_are_too_far_or_a_frame(void **state)
{
    (void)state;
    struct disk *whole = folder_make(1, 100);
    uint8_t copy[8192];
    memcpy(copy, memory_disk_content(whole, FIRST).ptr, sizeof(copy));
    memset(copy + 2048, 0x55, 700);
    memory_disk_put(whole, FIRST, bytes_make(copy, sizeof(copy)));
    assert_opens(whole, 1);
    assert_true(frame_bytes_are_zero(bytes_skip(memory_disk_content(whole, FIRST), 1536)));

    memset(copy + 1536, 0, 6656);
    copy[8000] = 1;
    memory_disk_put(whole, FIRST, bytes_make(copy, sizeof(copy)));
    assert_refused(whole, FIRST, "more is written");
    memory_disk_destroy(whole);
}

/* Puts a frame that is whole in itself behind the one frame of `disk`, at offset 1024. */
static void frame_put(struct disk *disk, uint64_t epoch, uint64_t sequence, uint64_t position, uint64_t time_ms,
                      size_t payload_size)
{
    struct buffer frame;
    buffer_init(&frame);
    frame_begin(&frame);
    log_rig_payload(sequence, payload_size, buffer_extend(&frame, payload_size));
    frame_seal(&frame, FRAME_EVENTS, epoch, sequence, position, time_ms);
    uint8_t copy[8192] = {0};
    memcpy(copy, memory_disk_content(disk, FIRST).ptr, 1024);
    const size_t room = sizeof(copy) - 1024;
    memcpy(copy + 1024, frame.data_owned, frame.size < room ? frame.size : room);
    memory_disk_put(disk, FIRST, bytes_make(copy, sizeof(copy)));
    buffer_deinit(&frame);
}

static void a_whole_frame_that_does_not_continue_the_log_is_refused(void **state)
{
    (void)state;
    struct disk *disk = folder_make(1, 100);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    log_rig_close(&rig);
    frame_put(disk, 2, 3, 1024, 1003, 100);
    assert_refused(disk, FIRST, "expected frame 2, found frame 3");
    frame_put(disk, 2, 1, 1024, 1001, 100);
    assert_refused(disk, FIRST, "expected frame 2, found frame 1");
    frame_put(disk, 0, 2, 1024, 1002, 100);
    assert_refused(disk, FIRST, "expected epoch 1 and time 1001 or later, found 0 and 1002");
    frame_put(disk, 1, 2, 1024, 1000, 100);
    assert_refused(disk, FIRST, "expected epoch 1 and time 1001 or later, found 1 and 1000");
    frame_put(disk, 1, 2, 1536, 1002, 100);
    assert_refused(disk, FIRST, "expected a frame for position 1024, found one for 1536");
    frame_put(disk, 1, 2, 1024, 1002, 6700);
    assert_refused(disk, FIRST, "does not fit");
    frame_put(disk, 1, 2, 1024, 1002, 100);
    assert_opens(disk, 2);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

/* The extent of a torn frame is known from its header; a single frame can't have left anything behind it. */
static void remains_behind_a_torn_frame_are_refused(void **state)
{
    (void)state;
    struct disk *disk = folder_make(3, 1400);
    const size_t offset = 512 + 2 * 1536;
    frame_tear(disk, FIRST, offset, 1536, 5);
    struct disk *clean = memory_disk_clone(disk, 1);
    assert_opens(clean, 2);
    memory_disk_destroy(clean);
    memory_disk_flip_bit(disk, FIRST, (offset + 1536 + 600) * 8);
    assert_refused(disk, FIRST, "has lost sectors");
    memory_disk_destroy(disk);
}

static void a_segment_of_another_folder_is_refused(void **state)
{
    (void)state;
    struct disk *disk = folder_make(8, 1900);
    struct disk *other = folder_make(3, 1800); /* the same sizes, another content */
    struct log_rig rig;
    log_rig_init(&rig, other);
    assert_int_equal(log_rig_open(&rig), OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(log_rig_write(&rig, 1900), OK);
    log_rig_deinit(&rig);
    memory_disk_put(disk, SECOND, memory_disk_content(other, SECOND));
    assert_refused(disk, SECOND, "does not continue");
    memory_disk_put(disk, SECOND, memory_disk_content(disk, THIRD));
    assert_refused(disk, SECOND, "another folder");
    memory_disk_destroy(other);
    memory_disk_destroy(disk);
}

static void the_folders_segment_size_is_kept(void **state)
{
    (void)state;
    struct disk *disk = folder_make(8, 1900);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    rig.options = (struct log_options){.segment_size = 1 << 20, .frame_size_max = 1 << 18};
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.replayed, 8);
    assert_int_equal(log_segment_size(rig.log), 8192);
    assert_int_equal(log_frame_size_max(rig.log), 3072);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

static void unknown_files_are_left_alone_and_temporary_ones_removed(void **state)
{
    (void)state;
    struct disk *disk = folder_make(8, 1900);
    memory_disk_put(disk, "README", BYTES("mine"));
    memory_disk_put(disk, "0000000000008000.segment.bak", BYTES("mine"));
    memory_disk_put(disk, "000000000000A000.segment", BYTES("mine"));
    memory_disk_put(disk, "0000000000000800.snapshot.tmp", BYTES("half"));
    assert_opens(disk, 8);
    assert_true(memory_disk_has(disk, "README"));
    assert_true(memory_disk_has(disk, "0000000000008000.segment.bak"));
    assert_true(memory_disk_has(disk, "000000000000A000.segment"));
    assert_false(memory_disk_has(disk, "0000000000000800.snapshot.tmp"));
    memory_disk_destroy(disk);
}

static void a_read_that_fails_is_no_damage(void **state)
{
    (void)state;
    struct disk *disk = folder_make(8, 1900);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    for (uint64_t reads = 0;; reads++) {
        memory_disk_fail_after(disk, reads, MEMORY_DISK_FAIL_READ);
        const enum error error = log_rig_open(&rig);
        if (!memory_disk_has_failed(disk)) {
            assert_int_equal(error, OK);
            break;
        }
        assert_int_equal(error, ERROR_DISK_FAILED);
    }
    assert_int_equal(rig.replayed, 8);
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_folder_is_new_until_a_frame_is_durable),
        cmocka_unit_test(frames_come_back_in_order_over_many_segments),
        cmocka_unit_test(a_torn_last_frame_is_cut_whichever_sectors_are_missing),
        cmocka_unit_test(a_torn_first_frame_leaves_the_folder_new),
        cmocka_unit_test(a_torn_frame_behind_a_segments_end_is_cut),
        cmocka_unit_test(any_flipped_bit_of_the_last_whole_frame_is_refused),
        cmocka_unit_test(any_flipped_bit_of_an_earlier_frame_is_refused),
        cmocka_unit_test(an_earlier_frame_that_has_become_zeros_is_refused),
        cmocka_unit_test(any_flipped_bit_of_the_frame_that_ends_a_segment_is_refused),
        cmocka_unit_test(any_flipped_bit_of_a_segments_header_is_refused),
        cmocka_unit_test(a_truncated_segment_is_refused),
        cmocka_unit_test(a_missing_segment_is_refused),
        cmocka_unit_test(replay_goes_on_behind_the_snapshot),
        cmocka_unit_test(segments_before_the_snapshot_may_be_missing_later_ones_not),
        cmocka_unit_test(an_older_segment_that_is_damaged_is_refused),
        cmocka_unit_test(an_unused_next_segment_is_made_again),
        cmocka_unit_test(remains_behind_the_end_are_cut_unless_they_are_too_far_or_a_frame),
        cmocka_unit_test(a_whole_frame_that_does_not_continue_the_log_is_refused),
        cmocka_unit_test(remains_behind_a_torn_frame_are_refused),
        cmocka_unit_test(a_segment_of_another_folder_is_refused),
        cmocka_unit_test(the_folders_segment_size_is_kept),
        cmocka_unit_test(unknown_files_are_left_alone_and_temporary_ones_removed),
        cmocka_unit_test(a_read_that_fails_is_no_damage),
    };
    return cmocka_run_group_tests_name("log recovery", tests, NULL, NULL);
}
