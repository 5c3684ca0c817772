/* Copies a log from one disk to another, as from a folder into PostgreSQL and back. */
#ifndef TALLY_LOG_DISK_COPY_H
#define TALLY_LOG_DISK_COPY_H

#include "log/disk.h"

struct disk_copied {
    uint64_t files;
    uint64_t bytes; /* of their sizes */
};

/* Copies segments and snapshots; spare files are left out. Both disks are locked, so that nobody writes meanwhile.
 * ERROR_LOG_LOCKED: a daemon has one of them. ERROR_DISK_FAILED: `to` holds a log already. A copy that breaks off
 * leaves files that are no log, or one that is refused at the start; it never leaves a log that lacks its end. */
enum error disk_copy(struct disk *from, struct disk *to, struct disk_copied *copied, struct failure *failure);

#endif
