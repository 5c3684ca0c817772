#include "backup/files.h"

#include "base/memory.h"
#include "platform/aside.h"
#include "platform/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FOLDER_MODE 0700
#define PIECE_SIZE ((size_t)256 * 1024)

char *files_join(const char *folder, const char *name, const char *ending)
{
    const size_t size = strlen(folder) + 1 + strlen(name) + strlen(ending) + 1;
    char *path = memory_allocate(size);
    (void)snprintf(path, size, "%s/%s%s", folder, name, ending);
    return path;
}

enum error files_failed(struct failure *failure, const char *operation, const char *path)
{
    const enum error error = errno == ENOSPC || errno == EDQUOT ? ERROR_DISK_FULL : ERROR_DISK_FAILED;
    return failure_set(failure, error, "%s %s failed: %s.", operation, path, strerror(errno));
}

enum error files_make_folder(const char *path, struct failure *failure)
{
    return mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST ? OK : files_failed(failure, "making", path);
}

enum error files_sync_folder(const char *path, struct failure *failure)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems don't sync folders and say so. */
    const bool is_synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    const enum error error = is_synced ? OK : files_failed(failure, "syncing", path);
    if (descriptor >= 0)
        (void)close(descriptor);
    return error;
}

enum error files_check_room(const char *path, uint64_t wanted, uint64_t min_free, struct failure *failure)
{
    struct statvfs status;
    if (statvfs(path, &status) != 0)
        return files_failed(failure, "asking for the room of", path);
    const uint64_t free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    if (free_bytes >= wanted && free_bytes - wanted >= min_free)
        return OK;
    return failure_set(failure, ERROR_DISK_FULL,
                       "%" PRIu64 " bytes are needed for a copy, %" PRIu64 " are free, and disk-min-free is %" PRIu64
                       ".",
                       wanted, free_bytes, min_free);
}

enum error files_link(const char *folder, const char *inner, const char *name, const char *second,
                      struct failure *failure)
{
    char *from = files_join(folder, name, ""), *to = files_join(inner, second, "");
    enum error error = OK;
    if (link(from, to) != 0) {
        if (errno == EXDEV || errno == EPERM || errno == EOPNOTSUPP || errno == EMLINK)
            error = failure_set(failure, ERROR_DISK_FAILED,
                                "%s can't get a second name in %s: %s. That takes a file system with hard links, and "
                                "one for the whole data folder.",
                                from, inner, strerror(errno));
        else
            error = files_failed(failure, "linking", from);
    }
    free(from);
    free(to);
    return error;
}

static enum error check_cancel(const atomic_bool *is_cancelled, struct failure *failure)
{
    if (is_cancelled == NULL || !atomic_load(is_cancelled))
        return OK;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "the backup was cancelled.");
}

static enum error read_aside(struct disk *disk, struct disk_file *from, uint64_t at, uint8_t *piece, size_t size,
                             struct failure *failure)
{
    enum error error = OK;
    for (size_t done = 0, count; error == OK && done < size; done += count) {
        count = size - done < ASIDE_CALL_SIZE ? size - done : ASIDE_CALL_SIZE;
        error = disk->operations->read(from, at + done, piece + done, count, failure);
    }
    return error;
}

static enum error copy_bytes(struct disk *disk, struct disk_file *from, struct disk_file *to, uint64_t used,
                             const atomic_bool *is_cancelled, struct failure *failure)
{
    uint8_t *piece = memory_allocate(PIECE_SIZE);
    enum error error = OK;
    for (uint64_t at = 0; at < used && error == OK; at += PIECE_SIZE) {
        const size_t count = used - at < PIECE_SIZE ? (size_t)(used - at) : PIECE_SIZE;
        error = read_aside(disk, from, at, piece, count, failure);
        if (error == OK)
            error = disk->operations->write_aside(to, at, bytes_make(piece, count), failure);
        if (error == OK)
            error = check_cancel(is_cancelled, failure);
    }
    free(piece);
    return error == OK ? disk->operations->sync(to, failure) : error;
}

enum error files_copy_live(struct disk *disk, const char *name, uint64_t size, uint64_t used,
                           const atomic_bool *is_cancelled, struct failure *failure)
{
    struct disk_file *from, *to;
    enum error error = disk->operations->open(disk, FILES_LIVE_NAME, &from, failure);
    if (error != OK)
        return error;
    error = disk->operations->create(disk, name, &to, failure);
    if (error == OK) {
        error = disk->operations->allocate(to, size, 0, failure);
        if (error == OK)
            error = copy_bytes(disk, from, to, used, is_cancelled, failure);
        disk->operations->close(to);
    }
    disk->operations->close(from);
    return error == OK ? disk->operations->remove(disk, FILES_LIVE_NAME, failure) : error;
}

enum error files_write_text(const char *path, struct bytes text, struct failure *failure)
{
    FILE *file = fopen(path, "wx");
    if (file == NULL)
        return files_failed(failure, "making", path);
    const bool is_written =
        fwrite(text.ptr, 1, text.size, file) == text.size && fflush(file) == 0 && fsync(fileno(file)) == 0;
    const enum error error = is_written ? OK : files_failed(failure, "writing", path);
    return fclose(file) == 0 || error != OK ? error : files_failed(failure, "writing", path);
}

int files_open(const char *path, struct failure *failure)
{
    const char *why;
    const int descriptor = regular_file_open(path, &why);
    if (descriptor < 0)
        (void)failure_set(failure, ERROR_DISK_FAILED, "%s can't be read: %s.", path, why);
    return descriptor;
}

enum error files_replace_text(const char *folder, const char *name, struct bytes text, struct failure *failure)
{
    char *path = files_join(folder, name, ""), *unfinished = files_join(folder, name, FILES_UNFINISHED);
    (void)unlink(unfinished); /* a killed process left it */
    enum error error = files_write_text(unfinished, text, failure);
    if (error == OK && rename(unfinished, path) != 0)
        error = files_failed(failure, "renaming", unfinished);
    if (error == OK)
        error = files_sync_folder(folder, failure);
    free(unfinished);
    free(path);
    return error;
}
