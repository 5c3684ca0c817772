/* The writing end of a log: puts sealed frames where they belong and makes each durable before it returns.
 *
 * Belongs to one thread, the one that calls log_write(); shares only the disk with the reading end. */
#ifndef TALLY_LOG_LOG_WRITER_H
#define TALLY_LOG_LOG_WRITER_H

#include "log/disk.h"
#include "log/frame.h"
#include "log/segment_draft.h"

struct log_writer {
    struct disk *disk;
    struct disk_file *file; /* owned: the segment that is being written; NULL before the first one is made */
    uint64_t segment_size;
    uint64_t room;     /* that a segment gets ahead of time (segment_room()) */
    uint64_t ordinal;  /* of that segment */
    uint64_t offset;   /* inside it: behind the last frame */
    uint64_t epoch;    /* of this owner */
    uint64_t sequence; /* of the last frame; likewise its time */
    uint64_t time_ms;
    uint64_t prepare_begin;     /* offset from which on the next segment is prepared */
    struct segment_draft draft; /* the next segment */
    atomic_uint_least64_t made; /* ordinal of the newest segment that has its room; read by other threads */
    bool is_draft_refused;      /* making it ahead of time failed: not tried again before it is needed */
    struct failure failure;     /* the first one, final; error OK: none */
};

/* Where the log ends when writing begins. `file` goes over to the writer; NULL makes the first segment, durably. */
struct log_writer_start {
    struct disk_file *file;
    struct reserve *reserve; /* borrowed; NULL: none */
    uint64_t segment_size;
    uint64_t frame_size_max;
    uint64_t ordinal;
    uint64_t offset;
    uint64_t epoch;
    uint64_t sequence;
    uint64_t time_ms;
};

enum error log_writer_init(struct log_writer *writer, struct disk *disk, const struct log_writer_start *start,
                           struct failure *failure);
void log_writer_deinit(struct log_writer *writer);

/* See log_write(), log_prepare() and log_confirm() in log.h. */
enum error log_writer_write(struct log_writer *writer, struct bytes frame, struct failure *failure);
bool log_writer_prepare(struct log_writer *writer);
enum error log_writer_confirm(struct log_writer *writer, uint64_t age_ms, struct failure *failure);

#endif
