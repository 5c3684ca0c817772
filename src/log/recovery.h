/* Recovery: reads the frames of a folder in order, checks each against the one before it, and decides what the end
 * means.
 *
 * At the end of a log a crash may leave a torn frame: some of its sectors written, others not. Recovery cuts that, and
 * only that. Anything else that is wrong is damage: recovery refuses it and names file, offset, what was expected and
 * what was found. Nothing acknowledged disappears silently. docs/internals/formats/log.md has the rules. */
#ifndef TALLY_LOG_RECOVERY_H
#define TALLY_LOG_RECOVERY_H

#include "base/buffer.h"
#include "log/disk.h"
#include "log/frame.h"
#include "log/segment_table.h"
#include "log/snapshot.h"

struct recovery {
    struct disk *disk;
    struct segment_table *table; /* borrowed; a segment that turns out to be unused is taken out and removed */
    uint64_t segment_size;
    struct disk_file *file; /* owned: the segment that is being read; NULL before the first */
    uint64_t ordinal;       /* of that segment */
    uint64_t offset;        /* inside it: the next frame */
    uint64_t epoch;         /* of the newest frame or snapshot; likewise the next two */
    uint64_t sequence;
    uint64_t time_ms;
    bool is_following; /* another process may write behind what was read */
    bool is_done;
    struct buffer window; /* bytes of the segment from window_offset on */
    uint64_t window_offset;
};

/* Lists the folder's segments, learns their size (or takes `segment_size` where there is none), fills `table` and
 * checks everything that can be told without reading frames. `point` is the snapshot's, all zeros where there is none.
 * Errors: ERROR_LOG_DAMAGED, ERROR_DISK_FAILED. Nothing is owned after an error. */
enum error recovery_init(struct recovery *recovery, struct disk *disk, struct segment_table *table,
                         const struct snapshot_point *point, uint64_t segment_size, struct failure *failure);
void recovery_deinit(struct recovery *recovery);

/* The next frame with events; borrowed until the next call. *is_end is true behind the last: the torn rest has been
 * cut, everything read is synced, and segments that were never used are gone. recovery->file is then the segment to go
 * on in, at recovery->offset; NULL where there is none yet. */
enum error recovery_next(struct recovery *recovery, struct frame_view *frame, bool *is_end, struct failure *failure);

#endif
