/* Another disk with one fault: it passes everything on to a real disk, except that one operation fails when told to.
 * For what the disk in memory can't stand in for: threads, forks and files of the real system. */
#ifndef TALLY_TESTS_SUPPORT_FAULT_DISK_H
#define TALLY_TESTS_SUPPORT_FAULT_DISK_H

#include "log/disk.h"

enum fault_operation {
    FAULT_CREATE,
    FAULT_ALLOCATE,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_SYNC_FOLDER,
    FAULT_RENAME,
    FAULT_REMOVE,
    FAULT_OPERATION_COUNT
};

/* `inner` is borrowed for the disk's life. */
struct disk *fault_disk_create(struct disk *inner);
void fault_disk_destroy(struct disk *disk);

/* After `count` more of this operation went well, one fails with `error` and does nothing. From any thread. */
void fault_disk_fail_after(struct disk *disk, enum fault_operation operation, uint64_t count, enum error error);

/* How often this operation was asked for. */
uint64_t fault_disk_count(struct disk *disk, enum fault_operation operation);

#endif
