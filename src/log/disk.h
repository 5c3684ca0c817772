/* The disk as the log sees it: a few operations on one folder. The simulator puts a disk of its own under the same log
 * code, one that loses, tears and refuses on purpose.
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
    void (*destroy)(struct disk *disk); /* frees it, and drops its lock */

    /* Takes the folder for this process alone. Creates it and its parents when they are missing, and makes it durable
     * in its parent. ERROR_LOG_LOCKED when another process has it. OK when this disk has it already. Must be called
     * first. */
    enum error (*lock)(struct disk *disk, struct failure *failure);

    /* NULL, or: another process may own the folder, and lock() then made this one follow it. Returns when the owner has
     * written more, or when this process has become the owner, *is_owner: nobody else writes from then on, and the
     * files are as the last one left them. As long as this process follows, changes are left out without an error. */
    enum error (*await)(struct disk *disk, bool *is_owner, struct failure *failure);

    /* Calls `visit` with the name of each regular file, in no order. */
    enum error (*list)(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                       struct failure *failure);

    /* Opens an existing file / creates one that must not exist. *file stays as it is if that fails. */
    enum error (*open)(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure);
    enum error (*create)(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure);
    void (*close)(struct disk_file *file);

    enum error (*size)(struct disk_file *file, uint64_t *size, struct failure *failure);

    /* Makes later reads come from the disk itself, not from the system's cache: after a failed sync the cache may hold
     * bytes that never reached the disk, and that a later sync would not write. Bytes that were written but not synced
     * stay. */
    void (*drop_cache)(struct disk_file *file);

    /* Sets the file's size; new bytes are zero. Reserves room on the disk for the first `room` bytes; the rest gets
     * room when it is written. */
    enum error (*allocate)(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure);

    /* Reserves room on the disk for the first `size` bytes and does not change the file's size. The room stays until
     * the file is cut short or removed. OK, too, where the file system can't reserve room. */
    enum error (*reserve)(struct disk_file *file, uint64_t size, struct failure *failure);

    /* The room of the file system. Works without a lock and before the folder exists, so that a start on a full disk
     * can say how much is missing. */
    enum error (*room)(struct disk *disk, struct disk_room *room, struct failure *failure);

    /* Reads exactly `size` bytes; a short file is ERROR_LOG_DAMAGED. */
    enum error (*read)(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure);

    /* NULL, or: where the file may have data next, from `offset` on, or ends. What lies before that is a hole, and
     * reads as zeros. */
    uint64_t (*next_data)(struct disk_file *file, uint64_t offset);
    enum error (*write)(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure);

    /* Like write, for a large file that can wait. Writes small pieces and carries each to the disk before the next.
     * Pauses after each piece for as long as it took, so that others get the disk, unless the disk `is_hurried`.
     * Durable only after a sync. */
    enum error (*write_aside)(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure);
    enum error (*sync)(struct disk_file *file, struct failure *failure); /* fdatasync: data and size */

    /* NULL, or write and sync in one call; disk_write_synced() uses it where it is not NULL. */
    enum error (*write_synced)(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure);

    /* NULL, or: do the names of folder, lock file and `file` still lead to those that are open? ERROR_DISK_FAILED:
     * somebody removed, renamed or replaced one. Then nobody may find what is written, or another process may have
     * taken the folder. Takes some microseconds, so an answer that is at most `age_ms` old is good enough. One thread
     * at a time. disk_confirm() uses it where it is not NULL. */
    enum error (*confirm)(struct disk *disk, const struct disk_file *file, uint64_t age_ms, struct failure *failure);
    enum error (*sync_folder)(struct disk *disk, struct failure *failure); /* makes create, rename, remove durable */

    /* Starts to write dirty bytes to the disk without waiting, so that a later sync has little to do. A hint: promises
     * nothing, never fails. */
    void (*start_sync)(struct disk_file *file, uint64_t offset, uint64_t size);

    enum error (*rename)(struct disk *disk, const char *from, const char *to, struct failure *failure);
    /* OK, too, where there is no such file. The name is removed at once, durably. If it was removed but that could not
     * be synced, this is an error, and a power cut may bring the whole file back. A large file's room is freed in
     * portions, which takes some seconds a gigabyte unless the disk `is_hurried`. Nobody may have the file mapped. */
    enum error (*remove)(struct disk *disk, const char *name, struct failure *failure);

    /* NULL, or: has the file another name, too? Then somebody else has it as well, such as a backup, and what it holds
     * must stay. False where that can't be asked. */
    bool (*is_shared)(struct disk *disk, const char *name);

    /* NULL, or: gives the file a second name in the folder `archive` of the disk, durably. OK, too, where there is no
     * such file, and where it has that name already. An error: it has none there, and must stay. */
    enum error (*archive)(struct disk *disk, const char *name, struct failure *failure);

    /* The file's first `size` bytes as read-only memory that shows later writes too; until unmap. The file may be
     * closed and removed before that. A file shorter than `size` is ERROR_LOG_DAMAGED. */
    enum error (*map)(struct disk_file *file, uint64_t size, const uint8_t **memory, struct failure *failure);
    void (*unmap)(struct disk *disk, const uint8_t *memory, uint64_t size);

    /* Are these bytes of a map in memory, so that reading them does not wait for the disk? If not, starts to load them
     * and some behind them. A hint: never waits, never fails. */
    bool (*is_resident)(struct disk *disk, const uint8_t *memory, uint64_t size);

    /* Can these bytes of a map be read? Touching a page that the disk can't read would end the process. Waits for the
     * disk where they are not in memory; after that they can be read for a second. On the thread that maps and
     * unmaps. */
    bool (*is_readable)(struct disk *disk, const uint8_t *memory, uint64_t size);
};

struct disk {
    const struct disk_operations *operations;
    const char *folder; /* for messages */

    /* While it is true, write_aside and remove do not pause for the syncs of others. NULL: never true. Borrowed;
     * engine/checkpoint.c sets it, in memory that a forked child shares. */
    const atomic_bool *is_hurried;

    /* How many unused files of each kind are kept instead of removed (log/reserve.h). 0: none. */
    unsigned spare_segments;
    unsigned spare_snapshots;

    /* While it is true, nothing gives back room that a full disk could need. NULL: never true. Borrowed and set like
     * is_hurried. */
    const atomic_bool *is_short;

    /* Segments and snapshots get a second name in this folder before they are removed (reserve_retire()). NULL: they do
     * not. Borrowed. A disk with one has the operation `archive`. */
    const char *archive;
    bool is_unarchived; /* one could not get it, and stays; whoever wants to know resets it before */
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

/* The same, read-only. Files are opened for reading, and lock() creates nothing: it keeps daemons out while the disk
 * lives, and returns ERROR_LOG_LOCKED if one has the folder. No operation that changes a file may be called
 * (disk_view.h ignores those). */
struct disk *disk_posix_create_to_read(const char *folder);
void disk_posix_destroy(struct disk *disk);

#endif
