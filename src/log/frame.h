/* Frames: a header and the events of one group commit. Pure encoding and decoding; docs/internals/formats/log.md has
 * the bytes.
 *
 * A frame occupies a whole number of 512-byte sectors, the rest zeros, so that writing a frame never touches a sector
 * that an earlier frame made durable, and a sector that is all zeros was never written. */
#ifndef TALLY_LOG_FRAME_H
#define TALLY_LOG_FRAME_H

#include "base/buffer.h"

#define FRAME_HEADER_SIZE 64u
#define FRAME_SECTOR_SIZE 512u
#define FRAME_PAYLOAD_SIZE_MAX 0x7fffffffu /* what the format can carry; log_options sets the limit in force */

enum frame_kind {
    FRAME_EVENTS = 1,      /* payload: events of the core */
    FRAME_SEGMENT_END = 2, /* no payload: the next segment goes on */
};

struct frame_view {
    uint64_t epoch;
    uint64_t sequence;
    uint64_t position; /* of the frame's header */
    uint64_t time_ms;
    struct bytes payload;
};

/* A header whose checksum, magic and version were right; its values are not yet compared with anything. */
struct frame_header {
    enum frame_kind kind;
    uint64_t epoch;
    uint64_t sequence;
    uint64_t position;
    uint64_t time_ms;
    uint64_t size; /* of the whole frame on disk, padding included */
    uint32_t payload_size;
    uint32_t body_checksum; /* of everything behind the header, padding included */
    uint32_t zero_sectors;  /* sectors of the frame that are all zeros although they were written */
    uint32_t checksum;      /* of the header */
};

/* Begins a frame in an empty buffer: room for the header, zeroed. The events go behind it. */
void frame_begin(struct buffer *frame);

/* Fills the header, pads to whole sectors and computes the checksums. The payload is at most FRAME_PAYLOAD_SIZE_MAX. */
void frame_seal(struct buffer *frame, enum frame_kind kind, uint64_t epoch, uint64_t sequence, uint64_t position,
                uint64_t time_ms);

/* Bytes a frame takes on disk with `payload_size` bytes of events. */
uint64_t frame_size(size_t payload_size);

/* Reads a header from its first FRAME_HEADER_SIZE bytes or more. False, with *header untouched, if it is none. */
bool frame_header_decode(struct bytes sector, struct frame_header *header);

/* Is it the header of a frame of another version, which this program can't read? In all versions magic, version and
 * checksum stand at the same places. `sector` as above; *version is untouched where it is not. */
bool frame_is_of_other_version(struct bytes sector, unsigned *version);

/* Does the body of this frame match its header? `frame` has exactly header->size bytes. */
bool frame_is_whole(const struct frame_header *header, struct bytes frame);

/* For a frame that is not whole: does it lack a written sector, as after a crash in the middle of the write? (A sector
 * is written whole or not at all, and was zero before.) If not, something else changed the frame: it is damaged. */
bool frame_is_torn(const struct frame_header *header, struct bytes frame);

/* Is every byte zero? */
bool frame_bytes_are_zero(struct bytes view);

#endif
