/* The real disk: one folder of a Linux file system. See disk.h for what each operation promises.
 *
 * Owns the folder's descriptor and two locks: one on the folder itself, which moves with the folder, and one on the
 * file `lock` in it, the only one that earlier versions check. Every call is repeated after EINTR and after a short
 * count; a failed sync is never repeated, because the kernel may have dropped what it could not write. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fallocate, sync_file_range, the strerror_r that returns its text */
#endif
#include "base/assert.h"
#include "base/memory.h"
#include "base/path.h"
#include "log/archive.h"
#include "log/disk.h"
#include "log/page_check.h"
#include "log/segment.h"
#include "platform/aside.h"
#include "platform/holes.h"
#include "platform/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME "lock"
#define LOCK_PAUSE_MS 10
#define LOCK_PATIENCE_MS 500        /* for an owner that is ending now */
#define LOCK_PATIENCE_GONE_MS 30000 /* for what a killed owner left */
#define HOLDER_SIZE 24              /* bytes of a pid as text */
#define ASIDE_AT_ONCE (256u << 10)  /* bytes: what others' syncs may have to wait for */
#define ASIDE_PAUSE_MAX_NS INT64_C(50000000)
#define REMOVED_AT_ONCE ((off_t)1 << 20)
#define REMOVED_AT_ONCE_HURRIED ((off_t)16 << 20) /* keeps others waiting for some tens of milliseconds */
#define REMOVAL_PAUSE_MS 4u                       /* between two portions */
#define NS_PER_S INT64_C(1000000000)
#define FILE_MODE 0640
#define FOLDER_MODE 0700

/* Descriptors for the segment that is written, for the next one, and for any other file; see tallyd/descriptors.c. */
#define STOCK_SIZE 4u

/* What a file is, whatever its name. */
struct identity {
    uint64_t inode; /* 0: could not be found out */
    uint32_t device_major, device_minor;
};

struct disk_posix {
    struct disk disk;
    int folder; /* descriptor, locked where the file system can do that; -1 until lock() */
    int lock;   /* descriptor of the lock file, held; -1 */
    struct identity folder_identity, lock_identity;
    bool is_reading;       /* disk_posix_create_to_read() */
    uint64_t confirmed_ms; /* when the names were last looked up, by coarse_ms() */

    /* Duplicates of the folder's descriptor. They reserve descriptors for files: whatever else the process opens, the
     * log can open its files. -1: this one is in use, or about to be. */
    atomic_int stock[STOCK_SIZE];
    struct page_check check;
};

struct disk_file {
    struct disk_posix *owner;
    int descriptor;
    char name[NAME_MAX + 1];
};

static struct disk_posix *disk_posix_of(struct disk *disk)
{
    ASSERT(disk != NULL);
    return CONTAINER_OF(disk, struct disk_posix, disk);
}

static bool is_hurried(const struct disk *disk)
{
    return disk->is_hurried != NULL && atomic_load_explicit(disk->is_hurried, memory_order_relaxed);
}

/* --- descriptors -------------------------------------------------------------------------------------------------- */

/* Closes a reserved descriptor, so that a file can be opened. False: all are in use. errno stays. */
static bool stock_take(struct disk_posix *posix)
{
    for (size_t i = 0; i < STOCK_SIZE; i++) {
        const int held = atomic_exchange(&posix->stock[i], -1);
        if (held < 0)
            continue;
        const int number = errno;
        (void)close(held);
        errno = number;
        return true;
    }
    return false;
}

/* Puts a descriptor into an empty entry. False: no entry is empty. */
static bool stock_put(struct disk_posix *posix, int descriptor)
{
    for (size_t i = 0; i < STOCK_SIZE; i++) {
        int empty = -1;
        if (atomic_compare_exchange_strong(&posix->stock[i], &empty, descriptor))
            return true;
    }
    return false;
}

static bool stock_is_full(struct disk_posix *posix)
{
    for (size_t i = 0; i < STOCK_SIZE; i++)
        if (atomic_load(&posix->stock[i]) < 0)
            return false;
    return true;
}

/* Fills the stock as far as the process has descriptors. */
static void stock_fill(struct disk_posix *posix)
{
    while (!stock_is_full(posix)) {
        const int held = fcntl(posix->folder, F_DUPFD_CLOEXEC, 0);
        if (held < 0)
            return;
        if (!stock_put(posix, held))
            (void)close(held);
    }
}

/* openat(). If the process has no descriptor left, takes one from the stock. If another thread is faster, tries the
 * next. */
static int descriptor_open(struct disk_posix *posix, const char *name, int flags)
{
    int descriptor;
    do
        descriptor = openat(posix->folder, name, flags | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    while (descriptor < 0 && (errno == EINTR || (errno == EMFILE && stock_take(posix))));
    return descriptor;
}

/* close(). If the stock is not full it gets this descriptor, in one step, so that no other thread takes it. */
static void descriptor_close(struct disk_posix *posix, int descriptor)
{
    if (stock_is_full(posix) || dup3(posix->folder, descriptor, O_CLOEXEC) < 0 || !stock_put(posix, descriptor))
        (void)close(descriptor);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* Turns errno into an error: `what` was tried with `name` of the folder (NULL: with the folder itself). */
static enum error failed(const struct disk *disk, const char *name, struct failure *failure, const char *what)
{
    const int number = errno;
    char buffer[128];
    const char *reason = strerror_r(number, buffer, sizeof(buffer));
    const char *slash = name == NULL ? "" : "/";
    name = name == NULL ? "" : name;
    if (number == ENOSPC || number == EDQUOT)
        return failure_set(failure, ERROR_DISK_FULL, "%s %s%s%s failed: %s. Make room on this file system.", what,
                           disk->folder, slash, name, reason);
    return failure_set(failure, ERROR_DISK_FAILED, "%s %s%s%s failed: %s.", what, disk->folder, slash, name, reason);
}

/* The same for an operation on part of a file. */
static enum error failed_at(const struct disk_file *file, struct failure *failure, const char *what, uint64_t size,
                            uint64_t offset)
{
    char text[96];
    (void)snprintf(text, sizeof(text), "%s %" PRIu64 " bytes at offset %" PRIu64 " of", what, size, offset);
    return failed(&file->owner->disk, file->name, failure, text);
}

/* Makes the folder at `path` durable in its parent. If others made it, we may have no access to the parent. */
static enum error parent_sync(const struct disk *disk, const char *path, bool is_made, struct failure *failure)
{
    char parent[PATH_MAX];
    const bool is_named = path_parent(path, parent);
    ASSERT(is_named); /* the folder's path was not too long */
    const int descriptor = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0 && !is_made && (errno == EACCES || errno == EPERM))
        return OK;
    if (descriptor < 0)
        return failed(disk, NULL, failure, "opening the parent of");
    const int result = fsync(descriptor);
    const int number = errno;
    (void)close(descriptor);
    errno = number;
    /* Some file systems don't sync folders and say so. */
    if (result != 0 && number != EINVAL && (is_made || number != EROFS))
        return failed(disk, NULL, failure, "syncing the parent of");
    return OK;
}

/* Where the last two components of the path begin: the folder itself, and the parent that a start may have made for
 * it. */
static size_t own_part(const char *path)
{
    size_t at = strlen(path);
    for (unsigned component = 0; component < 2; component++) {
        while (at > 0 && path[at - 1] == '/')
            at--;
        while (at > 0 && path[at - 1] != '/')
            at--;
    }
    return at;
}

/* Makes a folder. True also if it is there: a file system may refuse to make anything before it looks. False: errno
 * says why. */
static bool component_make(const char *path, bool *is_made)
{
    struct stat status;
    *is_made = mkdir(path, FOLDER_MODE) == 0;
    const int number = errno;
    const bool is_there =
        *is_made || number == EEXIST || ((number == EACCES || number == EROFS) && stat(path, &status) == 0);
    errno = number;
    return is_there;
}

static enum error component_failed(const struct disk *disk, const char *path, struct failure *failure)
{
    char text[PATH_MAX + sizeof("creating  for")] = "creating";
    if (strcmp(path, disk->folder) != 0)
        (void)snprintf(text, sizeof(text), "creating %s for", path);
    return failed(disk, NULL, failure, text);
}

/* mkdir -p, durable. Syncs each new folder into its parent, and the last two at each start, because the process that
 * made them may have been killed before its sync. */
static enum error folder_make(const struct disk *disk, struct failure *failure)
{
    char path[PATH_MAX];
    const size_t length = strlen(disk->folder);
    if (length == 0 || length >= sizeof(path)) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return failed(disk, NULL, failure, "creating");
    }
    memcpy(path, disk->folder, length + 1);
    const size_t own_begin = own_part(path);
    for (size_t end = 1; end <= length; end++) {
        if (path[end] != '/' && path[end] != '\0')
            continue;
        const char closing = path[end];
        path[end] = '\0';
        bool is_made;
        if (!component_make(path, &is_made))
            return component_failed(disk, path, failure);
        if (is_made || end > own_begin) {
            const enum error error = parent_sync(disk, path, is_made, failure);
            if (error != OK) {
                if (is_made)
                    (void)rmdir(path); /* as if this start had not been */
                return error;
            }
        }
        path[end] = closing;
    }
    return OK;
}

/* The pid that the holder of the lock wrote, as text; empty if it has not yet. */
static void holder_read(int descriptor, char pid[HOLDER_SIZE])
{
    const ssize_t count = pread(descriptor, pid, HOLDER_SIZE - 1, 0);
    pid[count > 0 ? count : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
}

/* Has the process that took the lock ended? Then a child of it, which writes a snapshot and dies with it, still has a
 * copy. */
static bool holder_is_gone(int descriptor)
{
    char pid[HOLDER_SIZE];
    holder_read(descriptor, pid);
    return pid[0] != '\0' && kill((pid_t)strtol(pid, NULL, 10), 0) != 0 && errno == ESRCH;
}

/* flock(), but waits for a killed owner to end: a process that dies in the middle of a sync needs some time. `holder`
 * is the lock file, which has the owner's pid; -1: there is none. */
static int lock_take(int descriptor, int holder)
{
    for (unsigned waited_ms = 0;; waited_ms += LOCK_PAUSE_MS) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -1;
        if (waited_ms >= (holder >= 0 && holder_is_gone(holder) ? LOCK_PATIENCE_GONE_MS : LOCK_PATIENCE_MS)) {
            errno = EWOULDBLOCK;
            return -1;
        }
        sleep_for(LOCK_PAUSE_MS);
    }
}

/* Says who holds the lock, from the text that the holder wrote. */
static enum error locked(const struct disk *disk, int holder, struct failure *failure)
{
    char pid[HOLDER_SIZE] = "";
    if (holder >= 0)
        holder_read(holder, pid);
    return failure_set(failure, ERROR_LOG_LOCKED,
                       "The folder %s belongs to another process (pid %s). Stop that one, or use another folder.",
                       disk->folder, pid[0] == '\0' ? "unknown" : pid);
}

/* Keeps daemons out without changing anything: the locks of folder and file are shared among readers. */
static enum error lock_to_read(struct disk_posix *posix, struct failure *failure)
{
    struct disk *disk = &posix->disk;
    if (posix->folder < 0)
        posix->folder = open(disk->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (posix->folder < 0)
        return failed(disk, NULL, failure, "opening");
    const int descriptor = openat(posix->folder, LOCK_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0 && errno != ENOENT)
        return failed(disk, LOCK_NAME, failure, "opening");
    const bool is_taken = (flock(posix->folder, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
                          (descriptor >= 0 && flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    const enum error error = is_taken ? locked(disk, descriptor, failure) : OK;
    if (error == OK)
        posix->lock = descriptor; /* a folder without a lock file has no daemon */
    else if (descriptor >= 0)
        (void)close(descriptor);
    return error;
}

/* Locks the folder itself, so that a removed lock file lets nobody in. This comes before the lock file is made: a
 * process that is refused leaves no file. */
static enum error lock_folder(struct disk_posix *posix, struct failure *failure)
{
    const struct disk *disk = &posix->disk;
    posix->folder = open(disk->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (posix->folder < 0)
        return failed(disk, NULL, failure, "opening");
    const int holder = openat(posix->folder, LOCK_NAME, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    enum error error = OK;
    /* Any other errno means a file system that can't lock folders, such as NFS; there the lock file must do. */
    if (lock_take(posix->folder, holder) != 0 && errno == EWOULDBLOCK)
        error = locked(disk, holder, failure);
    if (holder >= 0)
        (void)close(holder);
    return error;
}

/* Not fstat(): it asks for times, and after that newer kernels give the next write a new time, which costs a journal
 * commit of the file system. A call that asks for no times avoids that. */
static bool ask_status(int descriptor, struct statx *status)
{
    return statx(descriptor, "", AT_EMPTY_PATH, STATX_INO | STATX_NLINK, status) == 0;
}

static struct identity identity_of(int descriptor)
{
    struct statx status;
    if (!ask_status(descriptor, &status))
        return (struct identity){.inode = 0};
    return (struct identity){status.stx_ino, status.stx_dev_major, status.stx_dev_minor};
}

/* Locks the file in it. */
static enum error lock_file(struct disk_posix *posix, struct failure *failure)
{
    const struct disk *disk = &posix->disk;
    enum error error = OK;
    const int descriptor = openat(posix->folder, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (descriptor < 0)
        return failed(disk, LOCK_NAME, failure, "opening");
    if (lock_take(descriptor, descriptor) != 0) {
        error = errno == EWOULDBLOCK ? locked(disk, descriptor, failure) : failed(disk, LOCK_NAME, failure, "locking");
        (void)close(descriptor);
        return error;
    }
    /* The pid only informs; the lock decides. It overwrites the old pid, because room that was given back could be
     * taken by others. */
    char pid[HOLDER_SIZE];
    const int length = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    if (pwrite(descriptor, pid, (size_t)length, 0) != length || ftruncate(descriptor, length) != 0) {
        error = failed(disk, LOCK_NAME, failure, "writing");
        (void)close(descriptor);
        return error;
    }
    posix->lock = descriptor;
    posix->folder_identity = identity_of(posix->folder);
    posix->lock_identity = identity_of(descriptor);
    stock_fill(posix);
    return OK;
}

static enum error posix_lock(struct disk *disk, struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    if (posix->lock >= 0)
        return OK;
    if (posix->is_reading)
        return lock_to_read(posix, failure);
    enum error error = folder_make(disk, failure);
    if (error == OK)
        error = lock_folder(posix, failure);
    if (error == OK)
        error = lock_file(posix, failure);
    if (error != OK && posix->folder >= 0) {
        (void)close(posix->folder);
        posix->folder = -1;
    }
    return error;
}

/* True if the name leads to another file than ours, or to none. False if that can't be found out. */
static bool is_elsewhere(int folder, const char *name, const struct identity *held)
{
    struct statx named;
    if (statx(folder, name, 0, STATX_INO, &named) != 0)
        return errno == ENOENT || errno == ENOTDIR || errno == ESTALE;
    return held->inode != 0 && (named.stx_ino != held->inode || named.stx_dev_major != held->device_major ||
                                named.stx_dev_minor != held->device_minor);
}

/* Milliseconds of a clock that is cheap to read and never goes back. */
static uint64_t coarse_ms(void)
{
    struct timespec now = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static enum error posix_confirm(struct disk *disk, const struct disk_file *file, uint64_t age_ms,
                                struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0 && posix->lock >= 0);
    const uint64_t now_ms = coarse_ms();
    if (now_ms < posix->confirmed_ms + age_ms)
        return OK;
    if (is_elsewhere(AT_FDCWD, disk->folder, &posix->folder_identity))
        return failure_set(
            failure, ERROR_DISK_FAILED,
            "The folder %s was removed or renamed while it was in use: nothing more is acknowledged. Put "
            "it back to where it was, or restore a backup there, before you start again.",
            disk->folder);
    if (is_elsewhere(posix->folder, LOCK_NAME, &posix->lock_identity))
        return failure_set(failure, ERROR_DISK_FAILED,
                           "%s/%s was removed or replaced while it was in use: another process may have taken the "
                           "folder, so nothing more is acknowledged. Start again, and leave that file alone.",
                           disk->folder, LOCK_NAME);
    struct statx status;
    if (ask_status(file->descriptor, &status) && status.stx_nlink == 0)
        return failure_set(failure, ERROR_DISK_FAILED,
                           "%s/%s was removed while it was in use: nothing more is acknowledged. Restore the whole "
                           "folder from a backup or a replica before you start again.",
                           disk->folder, file->name);
    posix->confirmed_ms = now_ms;
    return OK;
}

static bool entry_is_file(const struct disk_posix *posix, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_REG;
    struct stat status;
    return fstatat(posix->folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

static enum error posix_list(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                             struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0);
    const int descriptor = descriptor_open(posix, ".", O_RDONLY | O_DIRECTORY);
    if (descriptor < 0)
        return failed(disk, NULL, failure, "listing");
    DIR *folder = fdopendir(descriptor);
    if (folder == NULL) {
        const enum error error = failed(disk, NULL, failure, "listing");
        descriptor_close(posix, descriptor);
        return error;
    }
    enum error error = OK;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (entry == NULL) {
            if (errno != 0)
                error = failed(disk, NULL, failure, "listing");
            break;
        }
        if (entry_is_file(posix, entry))
            visit(context, entry->d_name);
    }
    (void)closedir(folder);
    stock_fill(posix); /* closedir() closes its descriptor itself */
    return error;
}

static enum error file_open(struct disk *disk, const char *name, int flags, struct disk_file **file,
                            struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0);
    ASSERT(strchr(name, '/') == NULL && strlen(name) <= NAME_MAX);
    const int descriptor = descriptor_open(posix, name, flags | (posix->is_reading ? O_RDONLY : O_RDWR));
    if (descriptor < 0)
        return failed(disk, name, failure, (flags & O_CREAT) != 0 ? "creating" : "opening");
    struct disk_file *opened = memory_allocate_zeroed(sizeof(*opened));
    opened->owner = posix;
    opened->descriptor = descriptor;
    memcpy(opened->name, name, strlen(name) + 1);
    *file = opened;
    return OK;
}

static enum error posix_open(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    return file_open(disk, name, 0, file, failure);
}

static enum error posix_create(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    return file_open(disk, name, O_CREAT | O_EXCL, file, failure);
}

static void posix_close(struct disk_file *file)
{
    ASSERT(file != NULL && file->descriptor >= 0);
    descriptor_close(file->owner, file->descriptor);
    free(file);
}

static enum error posix_size(struct disk_file *file, uint64_t *size, struct failure *failure)
{
    struct stat status;
    if (fstat(file->descriptor, &status) != 0)
        return failed(&file->owner->disk, file->name, failure, "asking for the size of");
    *size = (uint64_t)status.st_size;
    return OK;
}

static void posix_drop_cache(struct disk_file *file)
{
    ASSERT(file->descriptor >= 0);
    (void)posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

static enum error posix_allocate(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure)
{
    ASSERT(size <= INT64_MAX && room <= size);
    if (ftruncate(file->descriptor, (off_t)size) != 0)
        return failed_at(file, failure, "allocating", size, 0);
    int number;
    do
        number = room == 0 ? 0 : posix_fallocate(file->descriptor, 0, (off_t)room);
    while (number == EINTR);
    errno = number;
    return number == 0 ? OK : failed_at(file, failure, "allocating", room, 0);
}

static enum error posix_reserve(struct disk_file *file, uint64_t size, struct failure *failure)
{
    ASSERT(size > 0 && size <= INT64_MAX);
    int result;
    do
        result = fallocate(file->descriptor, FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
    while (result != 0 && errno == EINTR);
    /* A file system that can't reserve room (some over a network) works without a reserve. */
    return result == 0 || errno == EOPNOTSUPP ? OK : failed_at(file, failure, "reserving", size, 0);
}

/* For a folder that does not exist yet: asks its nearest existing parent. */
static int parent_room(const char *folder, struct statvfs *status)
{
    char path[PATH_MAX];
    const int size = snprintf(path, sizeof(path), "%s", folder);
    if (size < 0 || (size_t)size >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    while (statvfs(path, status) != 0) {
        char *slash = strrchr(path, '/');
        if (errno != ENOENT || strcmp(path, ".") == 0 || strcmp(path, "/") == 0)
            return -1;
        if (slash == NULL)
            memcpy(path, ".", sizeof("."));
        else
            slash[slash == path] = '\0';
    }
    return 0;
}

static enum error posix_room(struct disk *disk, struct disk_room *room, struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    struct statvfs status;
    const bool is_open = posix->folder >= 0;
    if ((is_open ? fstatvfs(posix->folder, &status) : parent_room(disk->folder, &status)) != 0)
        return failed(disk, NULL, failure, "asking for the room on the file system of");
    /* Blocks reserved for root count as used, even if the daemon runs as root. */
    *room = (struct disk_room){.total = (uint64_t)status.f_blocks * status.f_frsize,
                               .free = (uint64_t)status.f_bavail * status.f_frsize};
    return OK;
}

static enum error posix_read(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure)
{
    ASSERT(offset <= INT64_MAX - size);
    for (size_t done = 0; done < size;) {
        const ssize_t count = pread(file->descriptor, (char *)data + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return failed_at(file, failure, "reading", size - done, offset + done);
        if (count == 0)
            return failure_set(failure, ERROR_LOG_DAMAGED,
                               "%s/%s is truncated: it ends at offset %" PRIu64
                               " where %zu more bytes were expected. " SEGMENT_ADVICE,
                               file->owner->disk.folder, file->name, offset + done, size - done,
                               file->owner->disk.folder, file->owner->disk.folder);
        done += (size_t)count;
    }
    return OK;
}

static uint64_t posix_next_data(struct disk_file *file, uint64_t offset)
{
    return holes_next_data(file->descriptor, offset);
}

/* Writes all of it, with calls of `call_size` bytes at most. */
static enum error write_all(struct disk_file *file, uint64_t offset, struct bytes data, size_t call_size,
                            struct failure *failure)
{
    ASSERT(offset <= INT64_MAX - data.size);
    for (size_t done = 0; done < data.size;) {
        const size_t size = data.size - done < call_size ? data.size - done : call_size;
        const ssize_t count = pwrite(file->descriptor, data.ptr + done, size, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count == 0)
            errno = EIO;
        if (count <= 0)
            return failed_at(file, failure, "writing", data.size - done, offset + done);
        done += (size_t)count;
    }
    return OK;
}

static enum error posix_write(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    return write_all(file, offset, data, SIZE_MAX, failure);
}

static enum error posix_sync(struct disk_file *file, struct failure *failure)
{
    if (fdatasync(file->descriptor) != 0)
        return failed(&file->owner->disk, file->name, failure, "syncing");
    return OK;
}

/* sync_file_range(). It reports a failed write once, to its caller; no later call reports it again, not even fdatasync.
 * On a file system without it, syncs everything. */
static enum error range_carry(struct disk_file *file, uint64_t offset, uint64_t size, unsigned flags,
                              struct failure *failure)
{
    ASSERT(size > 0 && offset <= INT64_MAX - size);
    int result;
    do
        result = sync_file_range(file->descriptor, (off_t)offset, (off_t)size, flags);
    while (result != 0 && errno == EINTR);
    if (result != 0 && (errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL || errno == ESPIPE))
        return posix_sync(file, failure);
    return result == 0 ? OK : failed_at(file, failure, "writing", size, offset);
}

/* Pauses for as long as the last piece took, so that others get the disk. The pause is bounded: a disk that hung, or a
 * busy processor, is no reason for a long one. */
static void pause_like(const struct timespec *begin)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t took_ns = (now.tv_sec - begin->tv_sec) * NS_PER_S + now.tv_nsec - begin->tv_nsec;
    const struct timespec pause = {.tv_nsec = took_ns < ASIDE_PAUSE_MAX_NS ? took_ns : ASIDE_PAUSE_MAX_NS};
    (void)nanosleep(&pause, NULL);
}

/* Bytes of one file on their way to the disk delay the sync of another. So this writes one piece at a time, and only
 * for half of the time. In a hurry it writes everything and waits only for the piece before. */
static enum error posix_write_aside(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    enum error error = OK;
    while (error == OK && data.size > 0) {
        const bool gives_way = !is_hurried(&file->owner->disk);
        const struct bytes piece =
            bytes_make(data.ptr, gives_way && data.size > ASIDE_AT_ONCE ? ASIDE_AT_ONCE : data.size);
        struct timespec begin;
        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        error = write_all(file, offset, piece, gives_way ? ASIDE_CALL_SIZE : SIZE_MAX, failure);
        if (error == OK)
            error = range_carry(file, offset, piece.size, SYNC_FILE_RANGE_WRITE, failure);
        if (error == OK && gives_way)
            error = range_carry(file, offset, piece.size, SYNC_FILE_RANGE_WAIT_BEFORE, failure);
        else if (error == OK && offset > 0)
            error = range_carry(file, 0, offset, SYNC_FILE_RANGE_WAIT_BEFORE, failure);
        if (gives_way)
            pause_like(&begin);
        offset += piece.size;
        data = bytes_skip(data, piece.size);
    }
    return error;
}

/* One call instead of two, and it syncs only its own bytes. This saves a quarter of a flush's processor time. */
static enum error posix_write_synced(struct disk_file *file, uint64_t offset, struct bytes data,
                                     struct failure *failure)
{
    ASSERT(offset <= INT64_MAX - data.size);
    const struct iovec piece = {.iov_base = (void *)(uintptr_t)data.ptr, .iov_len = data.size};
    ssize_t count;
    do
        count = pwritev2(file->descriptor, &piece, 1, (off_t)offset, RWF_DSYNC);
    while (count < 0 && errno == EINTR);
    if (count < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return failed_at(file, failure, "writing", data.size, offset);
    if (count == (ssize_t)data.size)
        return OK;
    /* The file system does not support it, or the count was short: write and sync the rest in two steps. */
    const size_t done = count < 0 ? 0 : (size_t)count;
    const enum error error = posix_write(file, offset + done, bytes_skip(data, done), failure);
    return error == OK ? posix_sync(file, failure) : error;
}

static void posix_start_sync(struct disk_file *file, uint64_t offset, uint64_t size)
{
    ASSERT(offset <= INT64_MAX - size);
    (void)sync_file_range(file->descriptor, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

static enum error posix_sync_folder(struct disk *disk, struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0);
    if (fsync(posix->folder) != 0 && errno != EINVAL)
        return failed(disk, NULL, failure, "syncing the folder");
    return OK;
}

static enum error posix_rename(struct disk *disk, const char *from, const char *to, struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0);
    if (renameat(posix->folder, from, posix->folder, to) != 0)
        return failed(disk, from, failure, "renaming");
    return OK;
}

static off_t portion_of(const struct disk *disk)
{
    return is_hurried(disk) ? REMOVED_AT_ONCE_HURRIED : REMOVED_AT_ONCE;
}

/* Frees the room of an open file without a name piece by piece. With the mount option `discard`, freeing a gigabyte at
 * once would keep the disk busy for a tenth of a second, and every sync of the log would wait. */
static void room_give_back(const struct disk *disk, int descriptor)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0 || status.st_nlink > 0)
        return; /* it has another name and belongs to someone else, perhaps a backup */
    off_t portion;
    for (off_t size = status.st_size; size > (portion = portion_of(disk)); size -= portion) {
        if (ftruncate(descriptor, size - portion) != 0 || fdatasync(descriptor) != 0)
            return; /* closing it does the rest */
        if (!is_hurried(disk))
            sleep_for(REMOVAL_PAUSE_MS);
    }
}

static enum error posix_remove(struct disk *disk, const char *name, struct failure *failure)
{
    struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0);
    const int descriptor = descriptor_open(posix, name, O_RDWR);
    enum error error = OK;
    if (unlinkat(posix->folder, name, 0) == 0) {
        /* Remove the name first, durably: if a power cut brought back a shortened file, it would look damaged. */
        error = posix_sync_folder(disk, failure);
        if (error == OK && descriptor >= 0)
            room_give_back(disk, descriptor);
    } else if (errno != ENOENT) {
        error = failed(disk, name, failure, "removing");
    }
    if (descriptor >= 0)
        descriptor_close(posix, descriptor);
    return error;
}

static bool posix_is_shared(struct disk *disk, const char *name)
{
    struct disk_posix *posix = disk_posix_of(disk);
    struct stat status;
    ASSERT(posix->folder >= 0);
    return fstatat(posix->folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_nlink > 1;
}

static enum error posix_archive(struct disk *disk, const char *name, struct failure *failure)
{
    const struct disk_posix *posix = disk_posix_of(disk);
    ASSERT(posix->folder >= 0 && disk->archive != NULL);
    return archive_keep(posix->folder, name, disk->archive, failure);
}

static enum error posix_map(struct disk_file *file, uint64_t size, const uint8_t **memory, struct failure *failure)
{
    ASSERT(size > 0);
    uint64_t size_now;
    const enum error error = posix_size(file, &size_now, failure);
    if (error != OK)
        return error;
    /* Touching a mapping behind the end of its file would kill the process. */
    if (size_now < size)
        return failure_set(
            failure, ERROR_LOG_DAMAGED, "%s/%s is truncated: it has %" PRIu64 " of %" PRIu64 " bytes. " SEGMENT_ADVICE,
            file->owner->disk.folder, file->name, size_now, size, file->owner->disk.folder, file->owner->disk.folder);
    void *mapped = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file->descriptor, 0);
    if (mapped == MAP_FAILED)
        return failed(&file->owner->disk, file->name, failure, "mapping");
    page_check_forget(&file->owner->check);
    *memory = mapped;
    return OK;
}

static void posix_unmap(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    ASSERT(memory != NULL);
    page_check_forget(&disk_posix_of(disk)->check);
    (void)munmap((void *)(uintptr_t)memory, (size_t)size);
}

/* How far to read ahead behind bytes that are not in memory: their reader will probably read on. */
#define AHEAD_SIZE (UINT64_C(256) * 1024)

static bool posix_is_resident(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    (void)disk;
    ASSERT(memory != NULL && size > 0);
    const uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)memory / page_size * page_size;
    const uintptr_t end = (uintptr_t)memory + size;
    unsigned char pages[64];
    for (uintptr_t at = start; at < end; at += sizeof(pages) * page_size) {
        uintptr_t count = (end - at + page_size - 1) / page_size;
        count = count < sizeof(pages) ? count : sizeof(pages);
        if (mincore((void *)at, count * page_size, pages) != 0 || memchr(pages, 0, count) == NULL)
            continue; /* bit 0 alone is used by today's kernels */
        /* The kernel ignores what lies behind the end of the map. */
        (void)madvise((void *)at, (size_t)(end - at + AHEAD_SIZE), MADV_WILLNEED);
        return false;
    }
    return true;
}

static bool posix_is_readable(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    return page_check_is_readable(&disk_posix_of(disk)->check, memory, size);
}

static const struct disk_operations posix_operations = {
    .destroy = disk_posix_destroy,
    .lock = posix_lock,
    .list = posix_list,
    .open = posix_open,
    .create = posix_create,
    .close = posix_close,
    .size = posix_size,
    .drop_cache = posix_drop_cache,
    .allocate = posix_allocate,
    .reserve = posix_reserve,
    .room = posix_room,
    .read = posix_read,
    .next_data = posix_next_data,
    .write = posix_write,
    .sync = posix_sync,
    .write_aside = posix_write_aside,
    .write_synced = posix_write_synced,
    .start_sync = posix_start_sync,
    .confirm = posix_confirm,
    .sync_folder = posix_sync_folder,
    .rename = posix_rename,
    .remove = posix_remove,
    .is_shared = posix_is_shared,
    .archive = posix_archive,
    .map = posix_map,
    .unmap = posix_unmap,
    .is_resident = posix_is_resident,
    .is_readable = posix_is_readable,
};

struct disk *disk_posix_create(const char *folder)
{
    ASSERT(folder != NULL);
    struct disk_posix *posix = memory_allocate_zeroed(sizeof(*posix));
    posix->disk = (struct disk){.operations = &posix_operations, .folder = folder};
    posix->folder = -1;
    posix->lock = -1;
    for (size_t i = 0; i < STOCK_SIZE; i++)
        atomic_init(&posix->stock[i], -1);
    return &posix->disk;
}

struct disk *disk_posix_create_to_read(const char *folder)
{
    struct disk *disk = disk_posix_create(folder);
    disk_posix_of(disk)->is_reading = true;
    return disk;
}

void disk_posix_destroy(struct disk *disk)
{
    struct disk_posix *posix = disk_posix_of(disk);
    while (stock_take(posix))
        continue;
    /* A child that writes another folder's snapshot may have these descriptors, too: closing ours would leave the locks
     * to it. */
    if (posix->lock >= 0) {
        (void)flock(posix->lock, LOCK_UN);
        (void)close(posix->lock);
    }
    if (posix->folder >= 0) {
        (void)flock(posix->folder, LOCK_UN);
        (void)close(posix->folder);
    }
    free(posix);
}
