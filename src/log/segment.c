/* Segment files: names, header sector and the text for damage. See segment.h. */
#include "log/segment.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include <inttypes.h>
#include <stdio.h>

#define SEGMENT_MAGIC 0x53594c54u /* "TLYS" */

enum {
    OFFSET_CHECKSUM = 508,
    POSITION_DIGITS = 16,
};
static_assert(OFFSET_CHECKSUM + 4 == SEGMENT_HEADER_SIZE, "the checksum closes the header");

static const char suffix[] = ".segment";
static_assert(POSITION_DIGITS + sizeof(suffix) == SEGMENT_NAME_SIZE, "a name has room");

void segment_name(uint64_t start_position, char name[SEGMENT_NAME_SIZE])
{
    const int length = snprintf(name, SEGMENT_NAME_SIZE, "%016" PRIx64 "%s", start_position, suffix);
    ASSERT(length == (int)SEGMENT_NAME_SIZE - 1);
}

bool segment_name_decode(const char *name, uint64_t *start_position)
{
    uint8_t digits[POSITION_DIGITS / 2];
    if (strlen(name) != SEGMENT_NAME_SIZE - 1 || strcmp(name + POSITION_DIGITS, suffix) != 0)
        return false;
    if (!bytes_from_hex(bytes_make(name, POSITION_DIGITS), digits, sizeof(digits)))
        return false;
    uint64_t start = 0;
    for (size_t i = 0; i < sizeof(digits); i++)
        start = start << 8 | digits[i];

    /* Upper-case digits would be a second name for the same segment. */
    char canonical[SEGMENT_NAME_SIZE];
    segment_name(start, canonical);
    if (strcmp(name, canonical) != 0)
        return false;
    *start_position = start;
    return true;
}

void segment_header_encode(const struct segment_header *header, uint8_t sector[SEGMENT_HEADER_SIZE])
{
    ASSERT(header->version == SEGMENT_VERSION);
    ASSERT(header->segment_size >= SEGMENT_SIZE_MIN && header->segment_size <= SEGMENT_SIZE_MAX);
    memset(sector, 0, SEGMENT_HEADER_SIZE);
    bytes_put_u32(sector, SEGMENT_MAGIC);
    bytes_put_u32(sector + 4, header->version);
    bytes_put_u64(sector + 8, header->ordinal);
    bytes_put_u64(sector + 16, header->segment_size);
    bytes_put_u64(sector + 24, header->sequence);
    bytes_put_u64(sector + 32, header->epoch);
    bytes_put_u32(sector + 40, header->link);
    bytes_put_u32(sector + OFFSET_CHECKSUM, crc32c(0, bytes_make(sector, OFFSET_CHECKSUM)));
}

bool segment_header_decode(struct bytes sector, struct segment_header *header)
{
    ASSERT(sector.size >= SEGMENT_HEADER_SIZE);
    struct cursor cursor = cursor_make(bytes_make(sector.ptr, SEGMENT_HEADER_SIZE));
    if (cursor_u32(&cursor) != SEGMENT_MAGIC)
        return false;
    struct segment_header read = {0};
    read.version = cursor_u32(&cursor);
    read.ordinal = cursor_u64(&cursor);
    read.segment_size = cursor_u64(&cursor);
    read.sequence = cursor_u64(&cursor);
    read.epoch = cursor_u64(&cursor);
    read.link = cursor_u32(&cursor);
    (void)cursor_bytes(&cursor, OFFSET_CHECKSUM - 44);
    const uint32_t checksum = cursor_u32(&cursor);
    if (!cursor_is_done(&cursor))
        return false;
    if (checksum != crc32c(0, bytes_make(sector.ptr, OFFSET_CHECKSUM)))
        return false;
    *header = read;
    return true;
}

enum error segment_damaged_list(struct failure *failure, const struct disk *disk, const char *name, uint64_t offset,
                                const char *format, va_list arguments)
{
    ASSERT(name != NULL && format != NULL);
    char what[256];
    (void)vsnprintf(what, sizeof(what), format, arguments);
    return failure_set(failure, ERROR_LOG_DAMAGED, "%s/%s is damaged at offset %" PRIu64 ": %s. " SEGMENT_ADVICE,
                       disk->folder, name, offset, what, disk->folder, disk->folder);
}

enum error segment_damaged(struct failure *failure, const struct disk *disk, const char *name, uint64_t offset,
                           const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const enum error error = segment_damaged_list(failure, disk, name, offset, format, arguments);
    va_end(arguments);
    return error;
}
