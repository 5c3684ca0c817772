/* A survey finds every whole frame behind damage, says where the damage is, and takes nothing for a frame that is
 * none. */
#include "log/segment.h"
#include "log/survey.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

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
#define FRAMES_MAX 64u

/* Frames of 1,536 bytes: three in each segment of 8,192, because the fourth might be as large as one can be. */
#define PAYLOAD 1400u
#define FRAME 1536u

struct found {
    uint64_t sequences[FRAMES_MAX];
    unsigned frames;
    char damages[FRAMES_MAX][320];
    uint64_t offsets[FRAMES_MAX];
    uint64_t sizes[FRAMES_MAX];
    unsigned damage_count;
    uint64_t broken; /* the newest frame whose body alone is wrong */
    struct survey survey;
};

static void on_frame(void *context, const struct frame_view *frame)
{
    struct found *found = context;
    uint8_t expected[PAYLOAD * 4];
    assert_true(frame->payload.size <= sizeof(expected));
    log_rig_payload(frame->sequence, frame->payload.size, expected);
    assert_memory_equal(frame->payload.ptr, expected, frame->payload.size);
    found->sequences[found->frames++] = frame->sequence;
}

static void on_damage(void *context, const struct survey_damage *damage)
{
    struct found *found = context;
    (void)snprintf(found->damages[found->damage_count], sizeof(found->damages[0]), "%s: %s", damage->file,
                   damage->text);
    found->offsets[found->damage_count] = damage->offset;
    found->sizes[found->damage_count++] = damage->size;
    found->broken = damage->sequence != 0 ? damage->sequence : found->broken;
}

static struct found look_from(struct disk *disk, uint64_t begin)
{
    struct found found = {0};
    const struct survey_visitor visitor = {.context = &found, .frame = on_frame, .damage = on_damage};
    struct failure failure = {.error = OK};
    if (survey_run(disk, begin, &visitor, &found.survey, &failure) != OK)
        fail_msg("%s", failure.text);
    return found;
}

static struct found look(struct disk *disk)
{
    return look_from(disk, 0);
}

static struct disk *folder_make(unsigned count)
{
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    assert_int_equal(log_rig_open(&rig), OK);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(log_rig_write(&rig, PAYLOAD), OK);
    log_rig_deinit(&rig);
    return disk;
}

static void overwrite(struct disk *disk, const char *name, uint64_t offset, uint64_t size, uint8_t byte)
{
    const struct bytes content = memory_disk_content(disk, name);
    uint8_t *copy = malloc(content.size);
    assert_non_null(copy);
    memcpy(copy, content.ptr, content.size);
    memset(copy + offset, byte, size);
    memory_disk_put(disk, name, bytes_make(copy, content.size));
    free(copy);
}

/* All frames from 1 to `count` but those from `first` to `last`. */
static void assert_frames(const struct found *found, unsigned count, unsigned first, unsigned last)
{
    unsigned at = 0;
    for (unsigned sequence = 1; sequence <= count; sequence++) {
        if (sequence >= first && sequence <= last)
            continue;
        assert_true(at < found->frames && found->sequences[at] == sequence);
        at++;
    }
    assert_int_equal(at, found->frames);
}

static void assert_damaged(const struct found *found, const char *words)
{
    for (unsigned i = 0; i < found->damage_count; i++)
        if (strstr(found->damages[i], words) != NULL)
            return;
    fail_msg("no damage says \"%s\"; the first of %u: %s", words, found->damage_count, found->damages[0]);
}

static void a_sound_folder_has_all_frames_and_no_damage(void **state)
{
    (void)state;
    for (unsigned count = 0; count <= 12; count++) {
        struct disk *disk = folder_make(count);
        const struct found found = look(disk);
        assert_frames(&found, count, 0, 0);
        assert_int_equal(found.damage_count, 0);
        assert_int_equal(found.survey.sequence, count);
        memory_disk_destroy(disk);
    }
}

static void a_body_costs_its_frame_and_a_header_no_more(void **state)
{
    (void)state;
    for (unsigned frame = 1; frame <= 3; frame++) {
        const uint64_t offset = 512 + (frame - 1) * FRAME;
        struct disk *disk = folder_make(10);
        overwrite(disk, FIRST, offset + 700, 64, 0x5a);
        struct found found = look(disk);
        assert_frames(&found, 10, frame, frame);
        assert_int_equal(found.broken, frame);
        assert_int_equal(found.offsets[0], offset);
        assert_int_equal(found.sizes[0], FRAME);

        overwrite(disk, FIRST, offset, 64, 0x5a);
        found = look(disk);
        assert_frames(&found, 10, frame, frame);
        assert_damaged(&found, "expected a frame, found bytes that are none");
        memory_disk_destroy(disk);
    }
}

static void a_lost_segment_costs_its_frames_alone(void **state)
{
    (void)state;
    struct disk *disk = folder_make(10);
    overwrite(disk, SECOND, 0, 8192, 0);
    struct found found = look(disk);
    assert_frames(&found, 10, 4, 6);
    assert_damaged(&found, "the segment's header has a wrong checksum");
    memory_disk_remove(disk, SECOND);
    found = look(disk);
    assert_frames(&found, 10, 4, 6);
    assert_damaged(&found, SECOND ": this segment is missing");
    memory_disk_destroy(disk);

    disk = folder_make(10);
    memory_disk_remove(disk, FIRST);
    found = look(disk);
    assert_frames(&found, 10, 1, 3);
    assert_damaged(&found, FIRST ": this segment is missing");
    memory_disk_destroy(disk);

    disk = folder_make(10);
    memory_disk_truncate(disk, FIRST, 512 + FRAME + 100);
    found = look(disk);
    assert_frames(&found, 10, 2, 3);
    assert_damaged(&found, "the segment is truncated");
    memory_disk_destroy(disk);
}

/* What nothing needed was removed, also in the middle. */
static void a_segment_before_the_snapshot_may_be_missing(void **state)
{
    (void)state;
    struct disk *disk = folder_make(10);
    memory_disk_remove(disk, SECOND);
    struct found found = look_from(disk, 0x4000 + 512);
    assert_frames(&found, 10, 4, 6);
    assert_int_equal(found.damage_count, 0);
    found = look_from(disk, 0x2000 + 512);
    assert_damaged(&found, SECOND ": this segment is missing");
    memory_disk_remove(disk, FIRST);
    assert_int_equal(look_from(disk, 0x4000 + 512).damage_count, 0);
    memory_disk_remove(disk, THIRD);
    found = look_from(disk, 0x4000 + 512);
    assert_damaged(&found, THIRD ": this segment is missing");
    memory_disk_destroy(disk);
}

static void the_end_that_ended_a_segment_may_be_lost(void **state)
{
    (void)state;
    struct disk *disk = folder_make(6);
    overwrite(disk, FIRST, 512 + 3 * FRAME, 512, 0);
    struct found found = look(disk);
    assert_frames(&found, 6, 0, 0);
    assert_damaged(&found, "expected a frame, or that which ends the segment, found zeros");
    memory_disk_destroy(disk);

    /* The newest segment is gone: how much it held is not known. */
    disk = folder_make(6);
    memory_disk_remove(disk, SECOND);
    if (memory_disk_has(disk, THIRD))
        memory_disk_remove(disk, THIRD);
    found = look(disk);
    assert_frames(&found, 6, 4, 6);
    assert_damaged(&found, SECOND ": this segment is missing");
    memory_disk_destroy(disk);
}

static void a_torn_end_is_no_damage(void **state)
{
    (void)state;
    struct disk *disk = folder_make(3);
    overwrite(disk, FIRST, 512 + 2 * FRAME + 512, 512, 0);
    struct found found = look(disk);
    assert_frames(&found, 3, 3, 3);
    assert_int_equal(found.damage_count, 0);
    overwrite(disk, FIRST, 512 + 2 * FRAME, 512, 0);
    found = look(disk);
    assert_frames(&found, 3, 3, 3);
    assert_int_equal(found.damage_count, 0);
    memory_disk_destroy(disk);
}

/* Whoever knows from a snapshot that there was more must not take the hole for all that is lost. */
static void of_a_truncated_segment_everything_behind_the_last_frame_is_lost(void **state)
{
    (void)state;
    struct disk *disk = folder_make(3);
    memory_disk_truncate(disk, FIRST, 512 + FRAME + 700); /* in the second one */
    const struct found found = look(disk);
    assert_frames(&found, 3, 2, 3);
    assert_damaged(&found, "expected a frame, found bytes that are none, and no frame behind it");
    assert_int_equal(found.offsets[1], 512 + FRAME);
    assert_int_equal(found.sizes[1], 8192 - 512 - FRAME);
    memory_disk_destroy(disk);
}

/* A start that never came to its first frame leaves zeros of any length, and nothing else. */
static void a_first_segment_with_a_few_bytes_is_not_unused(void **state)
{
    (void)state;
    struct disk *disk = folder_make(3);
    memory_disk_truncate(disk, FIRST, 185);
    struct found found = look(disk);
    assert_damaged(&found, "the segment is truncated");
    assert_damaged(&found, "the file ends here, behind the last frame that could be read");
    overwrite(disk, FIRST, 0, 185, 0);
    found = look(disk);
    assert_int_equal(found.damage_count, 0);
    memory_disk_destroy(disk);
}

/* One frame is on its way at a time: the header of the last one proves that the one before it was durable. */
static void a_frame_behind_the_hole_is_no_torn_end(void **state)
{
    (void)state;
    struct disk *disk = folder_make(3);
    overwrite(disk, FIRST, 512 + FRAME, 512, 0);               /* the header of the second */
    overwrite(disk, FIRST, 512 + 2 * FRAME + 512, 1024, 0x5a); /* the body of the third */
    const struct found found = look(disk);
    assert_frames(&found, 3, 2, 3);
    assert_damaged(&found, "expected a frame, found zeros, and no frame behind it");
    memory_disk_destroy(disk);
}

/* A client chooses what a body says. */
static void a_frame_inside_a_body_is_none(void **state)
{
    (void)state;
    struct disk *disk = folder_make(3);
    struct buffer forged;
    buffer_init(&forged);
    frame_begin(&forged);
    memset(buffer_extend(&forged, 100), 'x', 100);
    frame_seal(&forged, FRAME_EVENTS, 1, 1000000, 512 + FRAME + 512, 5);
    const struct bytes content = memory_disk_content(disk, FIRST);
    uint8_t *copy = malloc(content.size);
    assert_non_null(copy);
    memcpy(copy, content.ptr, content.size);
    memcpy(copy + 512 + FRAME + 512, forged.data_owned, forged.size);
    memory_disk_put(disk, FIRST, bytes_make(copy, content.size));
    struct found found = look(disk); /* the header around it is right, so nothing inside is looked at */
    assert_frames(&found, 3, 2, 2);
    memset(copy + 512 + FRAME, 0x5a, 64);
    memory_disk_put(disk, FIRST, bytes_make(copy, content.size));
    found = look(disk); /* no frame of that number can stand there */
    assert_frames(&found, 3, 2, 2);
    free(copy);
    buffer_deinit(&forged);
    memory_disk_destroy(disk);
}

static void the_size_of_segments_is_learnt_without_headers(void **state)
{
    (void)state;
    struct disk *disk = folder_make(10);
    overwrite(disk, FIRST, 0, 512, 0x5a);
    overwrite(disk, SECOND, 0, 512, 0x5a);
    if (memory_disk_has(disk, THIRD))
        overwrite(disk, THIRD, 0, 512, 0x5a);
    const struct found found = look(disk);
    assert_int_equal(found.survey.segment_size, 8192);
    assert_frames(&found, 10, 0, 0);
    memory_disk_destroy(disk);
}

/* Half a segment is the most that one torn frame explains. */
static void remains_count_as_torn_up_to_half_a_segment(void **state)
{
    (void)state;
    for (unsigned sector = 0; sector < 2; sector++) {
        struct disk *disk = folder_make(1); /* which ends at offset 2048 */
        overwrite(disk, FIRST, 2048 + 4096 - 1 + sector, 1, 0x5a);
        const struct found found = look(disk);
        assert_frames(&found, 1, 0, 0);
        assert_int_equal(found.damage_count, sector);
        if (sector == 1) {
            assert_string_equal(found.damages[0], FIRST ": expected a frame, found zeros, and no frame behind it");
            assert_int_equal(found.offsets[0], 2048);
            assert_int_equal(found.sizes[0], 8192 - 2048);
        }
        memory_disk_destroy(disk);
    }
}

static void a_header_that_lies_is_told_with_what_it_says(void **state)
{
    (void)state;
    static const struct {
        struct segment_header change; /* of the second segment */
        const char *text;
    } rows[] = {
        {{.ordinal = 4}, SECOND ": the header is that of segment 5 with 8192 bytes: another folder's?"},
        {{.segment_size = 4096}, SECOND ": the header is that of segment 1 with 12288 bytes: another folder's?"},
        {{.link = 1}, SECOND ": it does not continue the segment before it: expected link "},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct disk *disk = folder_make(10);
        log_rig_change_header(disk, SECOND, &rows[i].change);
        const struct found found = look(disk);
        assert_true(found.damage_count >= 1);
        assert_int_equal(strncmp(found.damages[0], rows[i].text, strlen(rows[i].text)), 0);
        assert_int_equal(found.offsets[0], 0);
        memory_disk_destroy(disk);
    }
    struct disk *disk = folder_make(10);
    memory_disk_truncate(disk, SECOND, 512 + FRAME);
    struct found found = look(disk);
    assert_string_equal(found.damages[0], SECOND ": the segment is truncated: expected 8192 bytes, found 2048");
    assert_int_equal(found.offsets[0], 512 + FRAME);
    memory_disk_destroy(disk);
    disk = folder_make(10);
    uint8_t longer[8193] = {0};
    memcpy(longer, memory_disk_content(disk, SECOND).ptr, 8192);
    memory_disk_put(disk, SECOND, bytes_make(longer, sizeof(longer)));
    found = look(disk);
    assert_frames(&found, 10, 0, 0);
    assert_int_equal(found.damage_count, 1);
    assert_string_equal(found.damages[0], SECOND ": the segment is too long: expected 8192 bytes, found 8193");
    assert_int_equal(found.offsets[0], 8192);

    /* The first header alone decides of the version. */
    const struct survey_visitor visitor = {.context = &found, .frame = on_frame, .damage = on_damage};
    struct failure failure = {.error = OK};
    log_rig_change_header(disk, FIRST, &(struct segment_header){.version = 1});
    assert_int_equal(survey_run(disk, 0, &visitor, &found.survey, &failure), ERROR_LOG_DAMAGED);
    assert_string_equal(failure.text, "memory was written by a newer tallyd (format version 2); use that version.");
    memory_disk_destroy(disk);
}

/* What each of these files can be, without a header that could be read. 0: nobody knows. */
static void the_size_of_segments_is_guessed_from_files_and_names(void **state)
{
    (void)state;
    static const struct {
        uint64_t starts[3], sizes[3];
        unsigned count;
        uint64_t expected;
    } rows[] = {
        {{0}, {8192}, 1, 8192},
        {{0}, {100}, 1, 4096},
        {{0}, {4097}, 1, 8192},
        {{0}, {12288}, 1, 12288},
        {{0, 8192}, {100, 8192}, 2, 8192},
        {{0, 8192}, {8000, 100}, 2, 8192},       /* by the name */
        {{0, 8192}, {16384, 100}, 2, 0},         /* no name fits, and the common one is too small */
        {{16384, 40960}, {100, 8192 + 1}, 2, 0}, /* the common one is smaller than a file */
        {{16384, 40960}, {100, 8191}, 2, 8192},
        {{16384, 40960, 57344}, {100, 200, 300}, 3, 8192},
        {{8192, 12288}, {8192, 100}, 2, 0},
        {{4096, 6144}, {100, 100}, 2, 0}, /* 2048 is none */
        {{4096, 8192}, {0, 0}, 2, 4096},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static const uint8_t content[16384] = {1};
        struct disk *disk = memory_disk_create(1);
        for (unsigned file = 0; file < rows[i].count; file++) {
            char name[SEGMENT_NAME_SIZE];
            segment_name(rows[i].starts[file], name);
            memory_disk_put(disk, name, bytes_make(content, rows[i].sizes[file]));
        }
        struct found found = {0};
        const struct survey_visitor visitor = {.context = &found, .frame = on_frame, .damage = on_damage};
        struct failure failure = {.error = OK};
        const enum error error = survey_run(disk, 0, &visitor, &found.survey, &failure);
        if (error != (rows[i].expected == 0 ? ERROR_LOG_DAMAGED : OK))
            fail_msg("row %zu: size %llu, %s", i, (unsigned long long)found.survey.segment_size, failure.text);
        if (error == OK)
            assert_int_equal(found.survey.segment_size, rows[i].expected);
        else
            assert_string_equal(failure.text, "memory: no segment says how large segments are, and no file's size fits "
                                              "the files' names: nothing can be read.");
        memory_disk_destroy(disk);
    }
}

/* A disk with a bad place: who reads any byte of it gets nothing. Or with a file that does not open, or has no size. */
static struct disk_operations sound, operations;
static uint64_t bad_from, bad_to;
static const char *refused;
static bool has_no_size;

static enum error bad_read(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure)
{
    if (offset < bad_to && offset + size > bad_from)
        return failure_set(failure, ERROR_DISK_FAILED, "a bad place");
    return sound.read(file, offset, data, size, failure);
}

static enum error refuse_open(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    if (refused != NULL && strcmp(name, refused) == 0)
        return failure_set(failure, ERROR_DISK_FAILED, "refused");
    return sound.open(disk, name, file, failure);
}

static enum error refuse_size(struct disk_file *file, uint64_t *size, struct failure *failure)
{
    const enum error error = sound.size(file, size, failure);
    return has_no_size ? failure_set(failure, ERROR_DISK_FAILED, "refused") : error;
}

static struct disk *bad_make(unsigned count)
{
    struct disk *disk = folder_make(count);
    sound = *disk->operations;
    operations = sound;
    operations.read = bad_read;
    operations.open = refuse_open;
    operations.size = refuse_size;
    disk->operations = &operations;
    bad_from = bad_to = 0;
    refused = NULL;
    has_no_size = false;
    return disk;
}

static void what_the_disk_does_not_give_costs_its_sectors_alone(void **state)
{
    (void)state;
    static const struct {
        uint64_t from, to;
        unsigned first, last; /* frames that are lost */
        uint64_t offset, size;
        const char *text;
    } rows[] = {
        {2560, 2561, 2, 2, 2048, FRAME, FIRST ": frame 2 of 1536 bytes has a wrong checksum"},
        {3583, 3584, 2, 2, 2048, FRAME, FIRST ": frame 2 of 1536 bytes has a wrong checksum"},
        {2047, 2049, 1, 2, 512, FRAME, FIRST ": frame 1 of 1536 bytes has a wrong checksum"},
        {2048, 2049, 2, 2, 2048, FRAME,
         FIRST ": expected a frame, found bytes that are none; the next frame stands at offset 3584"},
        {512, 2048, 1, 1, 512, FRAME,
         FIRST ": expected a frame, found bytes that are none; the next frame stands at offset 2048"},
    };
    struct disk *disk = bad_make(3);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bad_from = rows[i].from;
        bad_to = rows[i].to;
        const struct found found = look(disk);
        assert_frames(&found, 3, rows[i].first, rows[i].last);
        assert_string_equal(found.damages[0], rows[i].text);
        assert_int_equal(found.offsets[0], rows[i].offset);
        assert_int_equal(found.sizes[0], rows[i].size);
    }
    disk->operations = &sound;
    memory_disk_destroy(disk);

    disk = bad_make(10);
    refused = SECOND;
    struct found found = look(disk);
    assert_frames(&found, 10, 4, 6);
    assert_damaged(&found, SECOND ": ");
    refused = NULL;
    has_no_size = true;
    const struct survey_visitor visitor = {.context = &found, .frame = on_frame, .damage = on_damage};
    assert_int_equal(survey_run(disk, 0, &visitor, &found.survey, NULL), OK);
    assert_int_equal(found.survey.segment_size, 8192); /* by their names */
    assert_int_equal(found.survey.frame_count, 0);
    disk->operations = &sound;
    memory_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_folder_has_all_frames_and_no_damage),
        cmocka_unit_test(a_body_costs_its_frame_and_a_header_no_more),
        cmocka_unit_test(a_lost_segment_costs_its_frames_alone),
        cmocka_unit_test(a_segment_before_the_snapshot_may_be_missing),
        cmocka_unit_test(the_end_that_ended_a_segment_may_be_lost),
        cmocka_unit_test(a_torn_end_is_no_damage),
        cmocka_unit_test(of_a_truncated_segment_everything_behind_the_last_frame_is_lost),
        cmocka_unit_test(a_first_segment_with_a_few_bytes_is_not_unused),
        cmocka_unit_test(a_frame_behind_the_hole_is_no_torn_end),
        cmocka_unit_test(a_frame_inside_a_body_is_none),
        cmocka_unit_test(the_size_of_segments_is_learnt_without_headers),
        cmocka_unit_test(remains_count_as_torn_up_to_half_a_segment),
        cmocka_unit_test(a_header_that_lies_is_told_with_what_it_says),
        cmocka_unit_test(the_size_of_segments_is_guessed_from_files_and_names),
        cmocka_unit_test(what_the_disk_does_not_give_costs_its_sectors_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
