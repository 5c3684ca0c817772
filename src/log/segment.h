/* Segment files: their names, their header sector, and how damage to them is reported. docs/internals/formats/log.md
 * has the bytes.
 *
 * A segment of size S with ordinal k holds the log's positions k*S up to (k+1)*S; its file is named after the first of
 * them. Its first sector is the header, frames follow. Nothing here knows what a frame means. */
#ifndef TALLY_LOG_SEGMENT_H
#define TALLY_LOG_SEGMENT_H

#include "log/disk.h"
#include "log/frame.h"
#include <stdarg.h>

#define SEGMENT_NAME_SIZE 25u                 /* 16 digits, ".segment", NUL */
#define SEGMENT_HEADER_SIZE FRAME_SECTOR_SIZE /* bytes: the whole first sector */
#define SEGMENT_SIZE_MIN 4096u
#define SEGMENT_SIZE_MAX (UINT64_C(1) << 40)

struct segment_header {
    uint32_t version;
    uint32_t link; /* checksum of the header of the frame that ended the segment before; 0 in the first one */
    uint64_t ordinal;
    uint64_t segment_size;
    uint64_t sequence; /* of the first frame */
    uint64_t epoch;    /* of the owner that began the segment */
};

#define SEGMENT_VERSION 1u

/* How many of a segment's bytes get room on the disk, and zeros, ahead of time. Frames begin in all but the last
 * frame_size_max and a sector of a segment, and most are far smaller, so the rest stays a hole that costs nothing; the
 * frame that reaches into it makes its own room. */
#define SEGMENT_ROOM_SPARE (UINT64_C(256) * 1024)
static inline uint64_t segment_room(uint64_t segment_size, uint64_t frame_size_max)
{
    const uint64_t room = segment_size - frame_size_max - FRAME_SECTOR_SIZE + SEGMENT_ROOM_SPARE;
    return room < segment_size ? room / SEGMENT_SIZE_MIN * SEGMENT_SIZE_MIN : segment_size;
}

void segment_name(uint64_t start_position, char name[SEGMENT_NAME_SIZE]);

/* False if `name` is not the name of a segment. */
bool segment_name_decode(const char *name, uint64_t *start_position);

void segment_header_encode(const struct segment_header *header, uint8_t sector[SEGMENT_HEADER_SIZE]);

/* False, with *header untouched, if magic or checksum is wrong. Any version: the caller compares it. */
bool segment_header_decode(struct bytes sector, struct segment_header *header);

/* What a person can do about damage: a printf format that takes the folder twice. */
#define SEGMENT_ADVICE                                                                                                 \
    "Restore the whole folder from a backup or a replica. Without one: \"tallyd --verify %s\" says what is affected, " \
    "and \"tallyd --salvage %s --to NEW\" saves what can be read into a new data folder."

/* Fills `failure` with ERROR_LOG_DAMAGED: file, offset, what is wrong and what a person can do. */
enum error segment_damaged(struct failure *failure, const struct disk *disk, const char *name, uint64_t offset,
                           const char *format, ...) __attribute__((format(printf, 5, 6)));
enum error segment_damaged_list(struct failure *failure, const struct disk *disk, const char *name, uint64_t offset,
                                const char *format, va_list arguments) __attribute__((format(printf, 5, 0)));

#endif
