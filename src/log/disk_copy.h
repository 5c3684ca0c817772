/* Copies a log from one disk to another, as from a folder into PostgreSQL and back. */
#ifndef TALLY_LOG_DISK_COPY_H
#define TALLY_LOG_DISK_COPY_H

#include "log/disk.h"

struct disk_copied {
    uint64_t files;
    uint64_t bytes; /* of their sizes */
};

/* Where a copy ends: the log up to this position. */
struct disk_copy_end {
    uint64_t position;
    uint64_t segment_size;
};

/* Copies segments and snapshots; spare files are left out. Both disks are locked, so that nobody writes meanwhile.
 * ERROR_LOG_LOCKED: a daemon has one of them. ERROR_DISK_FAILED: `to` holds a log already. A copy that breaks off
 * leaves files that are no log, or one that is refused at the start; it never leaves a log that lacks its end. */
enum error disk_copy(struct disk *from, struct disk *to, struct disk_copied *copied, struct failure *failure);

/* The same, up to `end`, behind a whole frame: the copy is a log that ended there. What is behind it is left out, be it
 * a segment, a snapshot, or a part of a segment, which is zeros in the copy. */
enum error disk_copy_until(struct disk *from, struct disk *to, const struct disk_copy_end *end,
                           struct disk_copied *copied, struct failure *failure);

#endif
