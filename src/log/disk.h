/* The disk as the log sees it: a handful of operations on one folder, so that the simulator can put a disk of its own
 * under the same log code, one that loses, tears and refuses on purpose.
 *
 * Names are file names inside the folder, without a slash. Every function returns OK or ERROR_DISK_FULL /
 * ERROR_DISK_FAILED with `failure` naming operation, path and reason. Thread: a file handle is used by one thread at a
 * time; disk_posix() may be shared. */
#ifndef TALLY_LOG_DISK_H
#define TALLY_LOG_DISK_H

#include "base/bytes.h"
#include "base/error.h"
#include <stdatomic.h>

struct disk;
struct disk_file; /* an open file; freed by close */

/* Of the file system that the folder is on, in bytes. */
struct disk_room {
    uint64_t total;
    uint64_t free; /* that we may take */
};

struct disk_operations {
    /* Takes the folder for this process alone, creating it and its parents when they are missing; it is durable then,
     * and the folder that it is in. ERROR_LOG_LOCKED when another has it. OK when this disk has it already. Comes
     * before everything else. */
    enum error (*lock)(struct disk *disk, struct failure *failure);

    /* Calls `visit` with the name of each regular file, in no order. */
    enum error (*list)(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                       struct failure *failure);

    /* Opens an existing file / creates one that must not exist. */
    enum error (*open)(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure);
    enum error (*create)(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure);
    void (*close)(struct disk_file *file);

    enum error (*size)(struct disk_file *file, uint64_t *size, struct failure *failure);

    /* Lets later reads come from the disk itself, not from memory of the system: after a failed sync that memory may
     * hold what never reached the disk, and a later sync would not carry it there. What was written but not synced
     * stays. */
    void (*drop_cache)(struct disk_file *file);

    /* Sets the file's size; bytes that come into being are zero. The first `room` bytes have room on the disk, the rest
     * gets some when it is written. */
    enum error (*allocate)(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure);

    /* Gets room on the disk for the first `size` bytes, whatever the file's own size, which stays. What has room keeps
     * it until the file is cut short or removed. OK, too, where the file system knows no such promise. */
    enum error (*reserve)(struct disk_file *file, uint64_t size, struct failure *failure);

    /* Of the file system, also while there is no folder yet, or it is not locked: a start that finds no room says how
     * much is missing. */
    enum error (*room)(struct disk *disk, struct disk_room *room, struct failure *failure);

    /* Reads exactly `size` bytes; a short file is ERROR_LOG_DAMAGED. */
    enum error (*read)(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure);
    enum error (*write)(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure);

    /* What write does, for a large file that can wait: in small pieces, each carried to the disk before the next, with
     * the disk left to others for as long as each took, unless it `is_hurried`. Durable only after a sync. */
    enum error (*write_aside)(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure);
    enum error (*sync)(struct disk_file *file, struct failure *failure); /* fdatasync: data and size */

    /* NULL, or what write and sync do, in one; disk_write_synced() takes it where it is there. */
    enum error (*write_synced)(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure);

    /* NULL, or: do the names of folder, lock file and `file` still lead to those that are open? ERROR_DISK_FAILED:
     * somebody removed, renamed or replaced one. Then nobody may find what is written, or another process may have
     * taken the folder. Takes some microseconds, so a look that is at most `age_ms` old will do. One thread at a time.
     * disk_confirm() calls it where it is there. */
    enum error (*confirm)(struct disk *disk, const struct disk_file *file, uint64_t age_ms, struct failure *failure);
    enum error (*sync_folder)(struct disk *disk, struct failure *failure); /* makes create, rename, remove durable */

    /* Begins to carry written bytes to the disk without waiting for them, so that a later sync finds little to do. A
     * hint: promises nothing, never fails. */
    void (*start_sync)(struct disk_file *file, uint64_t offset, uint64_t size);

    enum error (*rename)(struct disk *disk, const char *from, const char *to, struct failure *failure);
    /* OK, too, where there is no such file. The name goes at once, durably; where it went and that could not be synced,
     * which is an error, a power cut may bring the file back whole. A large file's room comes back in portions, which
     * takes some seconds a gigabyte unless it `is_hurried`. Nobody may have the file mapped. */
    enum error (*remove)(struct disk *disk, const char *name, struct failure *failure);

    /* The file's first `size` bytes as read-only memory that shows later writes too; until unmap. The file may be
     * closed and removed before that. A file shorter than `size` is ERROR_LOG_DAMAGED. */
    enum error (*map)(struct disk_file *file, uint64_t size, const uint8_t **memory, struct failure *failure);
    void (*unmap)(struct disk *disk, const uint8_t *memory, uint64_t size);

    /* Are these bytes of a map in memory, so that looking at them waits for no disk? If not, they and some behind them
     * are asked for, and whoever comes later finds them. A hint: never waits, never fails. */
    bool (*is_at_hand)(struct disk *disk, const uint8_t *memory, uint64_t size);

    /* Will the disk give these bytes of a map? Looking at one that it does not give would end the process. Waits for
     * the disk where they are not in memory; then, and for a second, they can be looked at. On the thread that maps and
     * unmaps. */
    bool (*is_readable)(struct disk *disk, const uint8_t *memory, uint64_t size);
};

struct disk {
    const struct disk_operations *operations;
    const char *folder; /* for messages */

    /* While it is true, write_aside and remove have no regard for the syncs of others. NULL: it never is. Borrowed; who
     * sets it is engine/checkpoint.c, in memory that a forked child shares. */
    const atomic_bool *is_hurried;

    /* How many files of each kind are kept when their use is over, instead of being
     * removed (log/reserve.h). 0: none. */
    unsigned spare_segments;
    unsigned spare_snapshots;

    /* While it is true, nothing gives back room that a full disk could need. NULL: it never is. As is_hurried. */
    const atomic_bool *is_short;
};

static inline bool disk_is_short(const struct disk *disk)
{
    return disk->is_short != NULL && atomic_load_explicit(disk->is_short, memory_order_relaxed);
}

/* Writes, and returns when it is durable. What others wrote to the file before need not be. */
static inline enum error disk_write_synced(const struct disk *disk, struct disk_file *file, uint64_t offset,
                                           struct bytes data, struct failure *failure)
{
    const struct disk_operations *operations = disk->operations;
    if (operations->write_synced != NULL)
        return operations->write_synced(file, offset, data, failure);
    const enum error error = operations->write(file, offset, data, failure);
    return error == OK ? operations->sync(file, failure) : error;
}

static inline enum error disk_confirm(struct disk *disk, const struct disk_file *file, uint64_t age_ms,
                                      struct failure *failure)
{
    return disk->operations->confirm == NULL ? OK : disk->operations->confirm(disk, file, age_ms, failure);
}

/* The real disk: `folder` is borrowed for the disk's life. Freed by disk_posix_destroy(), which drops the lock. */
struct disk *disk_posix_create(const char *folder);

/* The same, for reading alone: files are opened to be read, and lock() makes nothing: it keeps daemons out while the
 * disk lives, and is ERROR_LOG_LOCKED where one has the folder. Nothing that changes a file may be called (disk_view.h
 * swallows it). */
struct disk *disk_posix_create_to_read(const char *folder);
void disk_posix_destroy(struct disk *disk);

#endif
