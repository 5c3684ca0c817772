/* Frames: encoding and decoding, without any disk. The layout is in docs/internals/formats/log.md; the constants here
 * are it.
 *
 * Promises that a sealed frame is a whole number of sectors, that any changed bit of it is found, and that a frame of
 * which a crash left only some sectors can be told from one that was changed later. Knows neither segments nor
 * events. */
#include "log/frame.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/cursor.h"

#define FRAME_MAGIC 0x46594c54u /* "TLYF" */
#define FRAME_VERSION 1u

enum {
    OFFSET_MAGIC = 0,
    OFFSET_VERSION = 4,
    OFFSET_KIND = 5,
    OFFSET_PAYLOAD_SIZE = 8,
    OFFSET_BODY_CHECKSUM = 12,
    OFFSET_EPOCH = 16,
    OFFSET_SEQUENCE = 24,
    OFFSET_POSITION = 32,
    OFFSET_TIME = 40,
    OFFSET_ZERO_SECTORS = 48,
    OFFSET_CHECKSUM = 60,
};
static_assert(OFFSET_CHECKSUM + 4 == FRAME_HEADER_SIZE, "the checksum closes the header");
static_assert(FRAME_SECTOR_SIZE % FRAME_HEADER_SIZE == 0, "a header never spans two sectors");

uint64_t frame_size(size_t payload_size)
{
    ASSERT(payload_size <= FRAME_PAYLOAD_SIZE_MAX);
    const uint64_t unpadded = FRAME_HEADER_SIZE + (uint64_t)payload_size;
    return (unpadded + FRAME_SECTOR_SIZE - 1) / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE;
}

bool frame_bytes_are_zero(struct bytes view)
{
    /* If the first byte is zero and each byte equals the one before it, all are zero. */
    return view.size == 0 || (view.ptr[0] == 0 && memcmp(view.ptr, view.ptr + 1, view.size - 1) == 0);
}

static uint32_t zero_sectors_count(struct bytes frame)
{
    ASSERT(frame.size % FRAME_SECTOR_SIZE == 0);
    uint32_t count = 0;
    for (size_t offset = 0; offset < frame.size; offset += FRAME_SECTOR_SIZE)
        count += frame_bytes_are_zero(bytes_make(frame.ptr + offset, FRAME_SECTOR_SIZE));
    return count;
}

void frame_begin(struct buffer *frame)
{
    ASSERT(frame->size == 0);
    memset(buffer_extend(frame, FRAME_HEADER_SIZE), 0, FRAME_HEADER_SIZE);
}

void frame_seal(struct buffer *frame, enum frame_kind kind, uint64_t epoch, uint64_t sequence, uint64_t position,
                uint64_t time_ms)
{
    ASSERT(frame->size >= FRAME_HEADER_SIZE);
    ASSERT(frame->size - FRAME_HEADER_SIZE <= FRAME_PAYLOAD_SIZE_MAX);
    ASSERT(position % FRAME_SECTOR_SIZE == 0);
    ASSERT(kind == FRAME_EVENTS || (kind == FRAME_SEGMENT_END && frame->size == FRAME_HEADER_SIZE));
    const size_t payload_size = frame->size - FRAME_HEADER_SIZE;
    const size_t padding = (size_t)frame_size(payload_size) - frame->size;
    memset(buffer_extend(frame, padding), 0, padding);

    uint8_t *header = frame->data_owned;
    memset(header, 0, FRAME_HEADER_SIZE);
    bytes_put_u32(header + OFFSET_MAGIC, FRAME_MAGIC);
    header[OFFSET_VERSION] = FRAME_VERSION;
    header[OFFSET_KIND] = (uint8_t)kind;
    bytes_put_u32(header + OFFSET_PAYLOAD_SIZE, (uint32_t)payload_size);
    bytes_put_u32(header + OFFSET_BODY_CHECKSUM, crc32c(0, bytes_skip(buffer_bytes(frame), FRAME_HEADER_SIZE)));
    bytes_put_u64(header + OFFSET_EPOCH, epoch);
    bytes_put_u64(header + OFFSET_SEQUENCE, sequence);
    bytes_put_u64(header + OFFSET_POSITION, position);
    bytes_put_u64(header + OFFSET_TIME, time_ms);
    bytes_put_u32(header + OFFSET_ZERO_SECTORS, zero_sectors_count(buffer_bytes(frame)));
    bytes_put_u32(header + OFFSET_CHECKSUM, crc32c(0, bytes_make(header, OFFSET_CHECKSUM)));
    ASSERT(frame->size % FRAME_SECTOR_SIZE == 0);
}

bool frame_header_decode(struct bytes sector, struct frame_header *header)
{
    ASSERT(sector.size >= FRAME_HEADER_SIZE);
    struct cursor cursor = cursor_make(bytes_make(sector.ptr, FRAME_HEADER_SIZE));
    struct frame_header read = {0};
    if (cursor_u32(&cursor) != FRAME_MAGIC)
        return false;
    if (cursor_u8(&cursor) != FRAME_VERSION)
        return false;
    const uint8_t kind = cursor_u8(&cursor);
    if (cursor_u16(&cursor) != 0)
        return false;
    read.payload_size = cursor_u32(&cursor);
    read.body_checksum = cursor_u32(&cursor);
    read.epoch = cursor_u64(&cursor);
    read.sequence = cursor_u64(&cursor);
    read.position = cursor_u64(&cursor);
    read.time_ms = cursor_u64(&cursor);
    read.zero_sectors = cursor_u32(&cursor);
    if (cursor_u64(&cursor) != 0)
        return false;
    read.checksum = cursor_u32(&cursor);
    if (!cursor_is_done(&cursor))
        return false;
    if (read.checksum != crc32c(0, bytes_make(sector.ptr, OFFSET_CHECKSUM)))
        return false;

    if (kind != FRAME_EVENTS && kind != FRAME_SEGMENT_END)
        return false;
    if (kind == FRAME_SEGMENT_END && read.payload_size != 0)
        return false;
    if (read.payload_size > FRAME_PAYLOAD_SIZE_MAX || read.position % FRAME_SECTOR_SIZE != 0)
        return false;
    read.kind = (enum frame_kind)kind;
    read.size = frame_size(read.payload_size);
    *header = read;
    return true;
}

bool frame_is_of_other_version(struct bytes sector, unsigned *version)
{
    ASSERT(sector.size >= FRAME_HEADER_SIZE);
    if (bytes_get_u32(sector.ptr + OFFSET_MAGIC) != FRAME_MAGIC || sector.ptr[OFFSET_VERSION] == FRAME_VERSION ||
        bytes_get_u32(sector.ptr + OFFSET_CHECKSUM) != crc32c(0, bytes_make(sector.ptr, OFFSET_CHECKSUM)))
        return false;
    *version = sector.ptr[OFFSET_VERSION];
    return true;
}

bool frame_is_whole(const struct frame_header *header, struct bytes frame)
{
    ASSERT(frame.size == header->size);
    ASSERT(frame.size >= FRAME_HEADER_SIZE);
    return crc32c(0, bytes_skip(frame, FRAME_HEADER_SIZE)) == header->body_checksum;
}

bool frame_is_torn(const struct frame_header *header, struct bytes frame)
{
    ASSERT(frame.size == header->size);
    ASSERT(!frame_is_whole(header, frame));
    return zero_sectors_count(frame) > header->zero_sectors;
}
