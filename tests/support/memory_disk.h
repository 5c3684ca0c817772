/* A disk in memory that behaves like a bad day: what was not synced may be lost or torn at a crash, directory entries
 * too; it fills up, and it fails when told to. Everything is drawn from one seed, so a run can be repeated exactly.
 *
 * What it models:
 * - A sector of 512 bytes is written whole or not at all. At a crash each sector that was written but not synced is
 *   kept or lost, in any combination. Sectors that were synced stay as they are.
 * - A file's new size is durable with its data (sync) and may get lost before.
 * - create, rename and remove are durable after sync_folder. At a crash any of the pending ones may be lost, also
 *   earlier ones while later ones are kept; each one is atomic.
 * - After a failed sync nobody knows what is durable, and a second sync makes nothing more durable (as on Linux).
 * - A process that is killed loses nothing that it wrote: the system's cache outlives it (memory_disk_kill).
 *
 * Every function may be called from any thread. */
#ifndef TALLY_TESTS_SUPPORT_MEMORY_DISK_H
#define TALLY_TESTS_SUPPORT_MEMORY_DISK_H

#include "log/disk.h"

enum memory_disk_fault {
    MEMORY_DISK_FAULT_NONE,
    MEMORY_DISK_FAIL_READ,  /* read, map: ERROR_DISK_FAILED; once */
    MEMORY_DISK_FAIL_WRITE, /* create, allocate, write: ERROR_DISK_FAILED, perhaps half done; once */
    MEMORY_DISK_FAIL_SYNC,  /* sync, sync_folder: ERROR_DISK_FAILED, perhaps half done; once */
    MEMORY_DISK_FULL,       /* create, allocate, write: ERROR_DISK_FULL, perhaps half done; once */
    MEMORY_DISK_STOP,       /* any change: half done, and from then on everything fails until memory_disk_crash() */
};

/* An empty folder. */
struct disk *memory_disk_create(uint64_t seed);
void memory_disk_destroy(struct disk *disk);

/* A disk with the same files, all durable, unlocked, without faults; its own draws. */
struct disk *memory_disk_clone(struct disk *disk, uint64_t seed);

/* The power goes: keeps, drops or tears what was not synced, and releases the lock. Files that are still open or mapped
 * may only be closed and unmapped then. */
void memory_disk_crash(struct disk *disk);

/* The owner is killed: nothing is lost, the lock is released, and what was not synced still is not. */
void memory_disk_kill(struct disk *disk);

/* Lets another process hold the folder's lock, or stop holding it. */
void memory_disk_lock_elsewhere(struct disk *disk, bool is_locked);

/* The operation that comes after `operations` more of those which the fault can hit fails. Replaces a fault that has
 * not struck yet. */
void memory_disk_fail_after(struct disk *disk, uint64_t operations, enum memory_disk_fault fault);

/* From now on reads are neither faults' prey nor part of the history: somebody reads more, and nothing else may come of
 * it. */
void memory_disk_leave_reads_alone(struct disk *disk);

/* Has the fault that was set last struck? */
bool memory_disk_has_failed(struct disk *disk);

/* Changes (create, allocate, write, sync, sync_folder, rename, remove) asked for since the beginning. */
uint64_t memory_disk_operations(struct disk *disk);

/* What all files together take up may not grow beyond this: what is there, less what others use. UINT64_MAX: no limit.
 * A hole takes up nothing, and what was reserved for a file is its own. */
void memory_disk_set_capacity(struct disk *disk, uint64_t bytes);

/* What they take up now. */
uint64_t memory_disk_used(struct disk *disk);

/* Damage, durable at once. The file must exist; the bit must lie inside it. */
void memory_disk_flip_bit(struct disk *disk, const char *name, uint64_t offset_bits);
void memory_disk_make_unreadable(struct disk *disk, const char *name,
                                 uint64_t offset); /* through a map, one byte of each file */
void memory_disk_truncate(struct disk *disk, const char *name, uint64_t size);
void memory_disk_remove(struct disk *disk, const char *name);

/* Makes or replaces a file, durable at once. */
void memory_disk_put(struct disk *disk, const char *name, struct bytes content);

bool memory_disk_has(struct disk *disk, const char *name);

/* The content as a reader sees it now; borrowed until the file is changed. The file must exist. */
struct bytes memory_disk_content(struct disk *disk, const char *name);

#endif
