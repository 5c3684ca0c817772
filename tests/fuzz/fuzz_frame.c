/* Recovery of a folder whose segment files come from outside.
 *
 * The input is a list of changes to a folder that is whole, because bytes that pass no checksum reach little of the
 * code: first byte: which files there are; then pieces (segment u8, offset u16 in sectors or bytes, size u8, bytes),
 * each put into the image and, if bit 7 of the segment is set, followed by new checksums of the frame header and
 * segment header there. Whatever comes out, recovery must end with OK or a clear error, and if OK the log must take
 * another frame and keep it. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "log/segment.h"
#include "support/history.h"
#include "support/log_rig.h"
#include "support/memory_disk.h"

#include <stdlib.h>

#define SEGMENT_SIZE 8192u
#define SEGMENT_COUNT 3u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
    uint8_t segments[SEGMENT_COUNT][SEGMENT_SIZE];
};

/* Seven frames over three segments, made once. */
static void image_make(struct image *image)
{
    struct disk *disk = memory_disk_create(1);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    const enum error error = log_rig_open(&rig);
    ASSERT(error == OK);
    static const size_t sizes[] = {1900, 100, 2900, 2000, 3000, 700, 1200};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        const enum error written = log_rig_write(&rig, sizes[i]);
        ASSERT(written == OK);
    }
    for (uint64_t i = 0; i < SEGMENT_COUNT; i++) {
        char name[SEGMENT_NAME_SIZE];
        segment_name(i * SEGMENT_SIZE, name);
        memcpy(image->segments[i], memory_disk_content(disk, name).ptr, SEGMENT_SIZE);
    }
    log_rig_deinit(&rig);
    memory_disk_destroy(disk);
}

/* Makes the checksums right that cover this offset, so that what they guard is reached. */
static void checksums_renew(uint8_t *segment, size_t offset)
{
    uint8_t *sector = segment + offset / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE;
    if (sector == segment) {
        bytes_put_u32(sector + 508, crc32c(0, bytes_make(sector, 508)));
        return;
    }
    const uint64_t frame_bytes = frame_size(bytes_get_u32(sector + 8) & 0xffff);
    const size_t left = SEGMENT_SIZE - (size_t)(sector - segment);
    if (frame_bytes <= left)
        bytes_put_u32(sector + 12,
                      crc32c(0, bytes_make(sector + FRAME_HEADER_SIZE, (size_t)frame_bytes - FRAME_HEADER_SIZE)));
    bytes_put_u32(sector + 60, crc32c(0, bytes_make(sector, 60)));
}

static void image_change(struct image *image, struct cursor *cursor)
{
    const uint8_t which = cursor_u8(cursor);
    const size_t offset = cursor_u16(cursor) % SEGMENT_SIZE;
    const size_t room = SEGMENT_SIZE - offset;
    size_t size = cursor_u8(cursor);
    if (size > cursor->rest.size)
        size = cursor->rest.size;
    uint8_t *segment = image->segments[(which & 0x0f) % SEGMENT_COUNT];
    const struct bytes bytes = cursor_bytes(cursor, size);
    if (bytes.size > 0 && bytes.size <= room)
        memcpy(segment + offset, bytes.ptr, bytes.size);
    if ((which & 0x40) != 0) /* a sector that a crash took */
        memset(segment + offset / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE, 0, FRAME_SECTOR_SIZE);
    if ((which & 0x80) != 0)
        checksums_renew(segment, offset);
}

/* A header may ask for segments of up to 4 GiB: the next one then finds the disk full. */
#define DISK_CAPACITY (UINT64_C(64) << 20)

static bool is_expected(enum error error)
{
    return error == ERROR_LOG_DAMAGED || error == ERROR_DISK_FULL;
}

/* Reads a log to its end; the payloads may be anything here. False if it is refused. */
static bool replay(struct disk *disk, struct log **log)
{
    const struct log_options options = {.segment_size = SEGMENT_SIZE, .frame_size_max = 3072};
    struct failure failure = {.error = OK};
    struct buffer snapshot;
    buffer_init(&snapshot);
    bool is_new;
    enum error error = log_open(disk, &options, log, &snapshot, &is_new, &failure);
    buffer_deinit(&snapshot);
    history_note(bytes_from_string(failure.text));
    if (error != OK) {
        ASSERT(is_expected(error) && failure.text[0] != '\0');
        return false;
    }
    uint64_t sequence = 0;
    for (;;) {
        struct frame_view frame;
        bool is_end;
        error = log_replay_next(*log, &frame, &is_end, &failure);
        history_note(bytes_from_string(failure.text));
        if (error != OK) {
            ASSERT(is_expected(error));
            ASSERT(error == ERROR_DISK_FULL || strstr(failure.text, ".segment") != NULL);
            log_close(*log);
            return false;
        }
        if (is_end)
            return true;
        ASSERT(frame.sequence == ++sequence);
        (void)crc32c(0, frame.payload); /* the view is readable to its end */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image whole;
    static bool is_made;
    if (!is_made)
        image_make(&whole);
    is_made = true;

    struct image image = whole;
    struct cursor cursor = cursor_make(bytes_make(data, size));
    const uint8_t files = cursor_u8(&cursor);
    while (cursor.rest.size > 0)
        image_change(&image, &cursor);
    struct disk *disk = memory_disk_create(size);
    memory_disk_set_capacity(disk, DISK_CAPACITY);
    for (uint64_t i = 0; i < SEGMENT_COUNT; i++) {
        char name[SEGMENT_NAME_SIZE];
        segment_name(i * SEGMENT_SIZE, name);
        if ((files & 1u << i) == 0)
            memory_disk_put(disk, name, bytes_make(image.segments[i], (files & 16u << i) == 0 ? SEGMENT_SIZE : 700));
    }
    struct log *log;
    if (replay(disk, &log)) {
        const struct log_point point = log_next_point(log);
        struct buffer frame;
        buffer_init(&frame);
        frame_begin(&frame);
        buffer_append(&frame, "after", 5);
        frame_seal(&frame, FRAME_EVENTS, log_epoch(log), point.sequence, point.position, UINT64_MAX);
        log_point_taken(log, frame.size);
        const enum error error = log_write(log, buffer_bytes(&frame), NULL);
        ASSERT(error == OK || error == ERROR_DISK_FULL);
        log_close(log);
        buffer_deinit(&frame);
        memory_disk_crash(disk);
        if (error == OK) {
            const bool is_good = replay(disk, &log);
            ASSERT(is_good && log_next_point(log).sequence == point.sequence + 1);
            log_close(log);
        }
    }
    memory_disk_destroy(disk);
    return 0;
}
