/* Loading a snapshot file that comes from outside.
 *
 * First byte: bit 0 renews the checksums of header, blocks and trailer as far as the bytes have that shape, so that
 * what they guard is reached; bit 1 puts the rest into a whole file (offset u16, then the bytes) instead of taking it
 * as the file. Loading must end with OK or a clear error; if OK, the payload is what the blocks hold. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "log/snapshot.h"
#include "support/history.h"
#include "support/memory_disk.h"

#define NAME "0000000000001000.snapshot"
#define FILE_SIZE_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A whole snapshot of 1,000 bytes. */
static size_t file_make(uint8_t *file)
{
    struct disk *disk = memory_disk_create(1);
    const struct snapshot_point point = {.epoch = 1, .sequence = 2, .position = 4096, .time_ms = 3};
    const uint8_t payload[1000] = {1, 2, 3};
    struct snapshot_writer *writer;
    enum error error = snapshot_begin(disk, &point, &writer, NULL);
    ASSERT(error == OK);
    (void)snapshot_append(writer, bytes_make(payload, sizeof(payload)), NULL);
    error = snapshot_finish(writer, NULL);
    ASSERT(error == OK);
    error = snapshot_publish(disk, &point, NULL);
    ASSERT(error == OK);
    const struct bytes content = memory_disk_content(disk, NAME);
    memcpy(file, content.ptr, content.size);
    memory_disk_destroy(disk);
    return content.size;
}

static void checksums_renew(uint8_t *file, size_t size)
{
    if (size < 96)
        return;
    bytes_put_u32(file + 60, crc32c(0, bytes_make(file, 60)));
    size_t at = 64;
    while (at + 20 + 32 < size) {
        const uint32_t block = bytes_get_u32(file + at + 8);
        if (block > size - at - 20)
            break;
        bytes_put_u32(file + at + 12, crc32c(0, bytes_make(file + at + 20, block)));
        bytes_put_u32(file + at + 16, crc32c(0, bytes_make(file + at, 16)));
        at += 20 + (size_t)block;
    }
    bytes_put_u32(file + size - 4, crc32c(0, bytes_make(file + size - 32, 28)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[FILE_SIZE_MAX];
    size_t file_size = 0;
    struct cursor cursor = cursor_make(bytes_make(data, size));
    const uint8_t mode = cursor_u8(&cursor);
    if ((mode & 2) != 0) {
        file_size = file_make(file);
        const size_t offset = cursor_u16(&cursor);
        const struct bytes rest = cursor.rest;
        if (rest.size > 0 && offset + rest.size <= file_size)
            memcpy(file + offset, rest.ptr, rest.size);
    } else if (cursor.rest.size <= sizeof(file)) {
        file_size = cursor.rest.size;
        if (file_size > 0)
            memcpy(file, cursor.rest.ptr, file_size);
    }
    if ((mode & 1) != 0)
        checksums_renew(file, file_size);

    struct disk *disk = memory_disk_create(size);
    memory_disk_put(disk, NAME, bytes_make(file, file_size));
    struct snapshot_point point = {0};
    struct failure failure = {.error = OK};
    struct buffer payload;
    buffer_init(&payload);
    bool is_found = false;
    const enum error error = snapshot_load(disk, &point, &payload, &is_found, &failure);
    history_note(bytes_from_string(failure.text));
    history_note(buffer_bytes(&payload));
    if (error == OK)
        ASSERT(is_found && point.position == 4096 && payload.size < file_size);
    else
        ASSERT(error == ERROR_LOG_DAMAGED && strstr(failure.text, NAME) != NULL && payload.size == 0);
    buffer_deinit(&payload);
    memory_disk_destroy(disk);
    return 0;
}
