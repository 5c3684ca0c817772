/* A log with frames whose content can be told from their sequence number: what the tests of the log write and check. */
#ifndef TALLY_TESTS_SUPPORT_LOG_RIG_H
#define TALLY_TESTS_SUPPORT_LOG_RIG_H

#include "log/log.h"
#include "log/segment.h"
#include "log/snapshot.h"

struct log_rig {
    struct disk *disk; /* borrowed */
    struct log_options options;
    struct log *log;             /* NULL: closed */
    struct buffer frame;         /* the one that was written last */
    struct buffer snapshot;      /* payload that the last open found */
    bool is_new;                 /* what the last open said */
    uint64_t sequence;           /* newest frame that was replayed or written */
    uint64_t replayed;           /* frames that the last open replayed */
    uint64_t position;           /* of the newest frame, header included */
    struct snapshot_point point; /* behind the newest frame */
    struct failure failure;      /* of the last call that failed */
};

/* Segments of 8,192 bytes and frames of up to 3,072: small enough to reach every border. */
void log_rig_init(struct log_rig *rig, struct disk *disk);
void log_rig_deinit(struct log_rig *rig);

/* Opens the log and replays it to its end; asserts that each frame holds what was written under its sequence number. */
enum error log_rig_open(struct log_rig *rig);
void log_rig_close(struct log_rig *rig);

/* Seals the next frame with `payload_size` bytes and writes it. */
enum error log_rig_write(struct log_rig *rig, size_t payload_size);

/* Seals the next frame into rig->frame and takes its place, without writing it. */
void log_rig_seal(struct log_rig *rig, size_t payload_size);

/* Writes and publishes a snapshot behind the newest frame whose payload is `payload`. */
enum error log_rig_snapshot(struct log_rig *rig, struct bytes payload);

/* Replaces `size` bytes at `offset` of a file on a disk in memory; `with` NULL: zeros. */
void log_rig_overwrite(struct disk *disk, const char *name, uint64_t offset, const void *with, size_t size);

/* Adds these to what a segment's header says, and gives it the right checksum; also what no program would write. */
void log_rig_change_header(struct disk *disk, const char *name, const struct segment_header *change);

/* The payload of a frame: `size` bytes that are never zero. */
void log_rig_payload(uint64_t sequence, size_t size, uint8_t *payload);

#endif
