#include "backup/take.h"

#include "backup/files.h"
#include "backup/make.h"
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/memory.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_MODE 0700
#define FILE_MODE 0600
#define PIECE_SIZE ((size_t)256 * 1024)

static const uint8_t zeros[PIECE_SIZE];

/* --- where it goes ------------------------------------------------------------------------------------------------ */

/* One file at a time: begin() says that it comes, and put() takes its bytes. */
struct sink {
    enum error (*begin)(struct sink *sink, const char *inner, const char *name, uint64_t size, struct failure *failure);
    enum error (*put)(struct sink *sink, uint64_t offset, struct bytes bytes, struct failure *failure);
    enum error (*end)(struct sink *sink, uint64_t size, struct failure *failure);
    const char *folder; /* in which a tar or a new folder has it */
    int descriptor;
    char path[PATH_MAX]; /* of the file */
};

static enum error pass(struct sink *sink, int descriptor, const char *path, const struct backup_file *file,
                       uint8_t *piece, struct failure *failure)
{
    uint32_t checksum = 0;
    uint64_t at = 0;
    for (ssize_t count; (count = read(descriptor, piece, PIECE_SIZE)) != 0;) {
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return files_failed(failure, "reading", path);
        const struct bytes bytes = bytes_make(piece, (size_t)count);
        if (at + bytes.size > file->size)
            break;
        checksum = crc32c(checksum, bytes);
        const enum error error = sink->put(sink, at, bytes, failure);
        if (error != OK)
            return error;
        at += bytes.size;
    }
    if (at == file->size && checksum == file->checksum)
        return OK;
    return failure_set(failure, ERROR_LOG_DAMAGED, "%s is not what the manifest says: it was changed.", path);
}

static enum error pass_file(struct sink *sink, const char *folder, const char *inner, const struct backup_file *file,
                            struct failure *failure)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s/%s/%s", folder, inner, file->name);
    if (length < 0 || (size_t)length >= sizeof(path))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", folder);
    const int descriptor = files_open(path, failure);
    if (descriptor < 0)
        return ERROR_DISK_FAILED;
    uint8_t *piece = memory_allocate(PIECE_SIZE);
    enum error error = sink->begin(sink, inner, file->name, file->size, failure);
    if (error == OK) {
        error = pass(sink, descriptor, path, file, piece, failure);
        const enum error end = sink->end(sink, file->size, error == OK ? failure : NULL);
        error = error == OK ? end : error;
    }
    free(piece);
    (void)close(descriptor);
    return error;
}

/* The manifest last: what lacks it is no backup. */
static enum error pass_all(struct sink *sink, const struct manifest *manifest, const char *folder,
                           struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; error == OK && i < manifest->namespace_count; i++) {
        const struct backup_namespace *ns = &manifest->namespaces_owned[i];
        for (size_t j = 0; error == OK && j < ns->file_count; j++)
            error = pass_file(sink, folder, ns->name, &ns->files_owned[j], failure);
    }
    if (error != OK)
        return error;
    struct buffer text;
    buffer_init(&text);
    manifest_write(manifest, &text);
    error = sink->begin(sink, "", MANIFEST_NAME, text.size, failure);
    if (error == OK)
        error = sink->put(sink, 0, buffer_bytes(&text), failure);
    if (error == OK)
        error = sink->end(sink, text.size, failure);
    buffer_deinit(&text);
    return error;
}

/* --- a folder ----------------------------------------------------------------------------------------------------- */

static enum error folder_begin(struct sink *sink, const char *inner, const char *name, uint64_t size,
                               struct failure *failure)
{
    (void)size;
    if (snprintf(sink->path, sizeof(sink->path), "%s/%s", sink->folder, inner) >= (int)sizeof(sink->path))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", sink->folder);
    if (inner[0] != '\0' && mkdir(sink->path, FOLDER_MODE) != 0 && errno != EEXIST)
        return files_failed(failure, "making", sink->path);
    if (snprintf(sink->path, sizeof(sink->path), "%s/%s%s%s", sink->folder, inner, inner[0] == '\0' ? "" : "/", name) >=
        (int)sizeof(sink->path))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", sink->folder);
    sink->descriptor = open(sink->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    return sink->descriptor >= 0 ? OK : files_failed(failure, "making", sink->path);
}

/* What is not written is a hole, and reads as zeros. */
static enum error folder_put(struct sink *sink, uint64_t offset, struct bytes bytes, struct failure *failure)
{
    if (memcmp(bytes.ptr, zeros, bytes.size < PIECE_SIZE ? bytes.size : PIECE_SIZE) == 0 && bytes.size <= PIECE_SIZE)
        return OK;
    for (size_t done = 0; done < bytes.size;) {
        const ssize_t count = pwrite(sink->descriptor, bytes.ptr + done, bytes.size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return files_failed(failure, "writing", sink->path);
        done += (size_t)count;
    }
    return OK;
}

static enum error folder_end(struct sink *sink, uint64_t size, struct failure *failure)
{
    const bool is_good = ftruncate(sink->descriptor, (off_t)size) == 0 && fsync(sink->descriptor) == 0;
    const enum error error = is_good ? OK : files_failed(failure, "writing", sink->path);
    (void)close(sink->descriptor);
    return error;
}

static enum error sync_inner(const struct manifest *manifest, const char *folder, struct failure *failure)
{
    char path[PATH_MAX + BACKUP_NAMESPACE_SIZE];
    enum error error = OK;
    for (size_t i = 0; error == OK && i < manifest->namespace_count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, manifest->namespaces_owned[i].name);
        error = files_sync_folder(path, failure);
    }
    return error == OK ? files_sync_folder(folder, failure) : error;
}

/* The folder in which `path` stands. */
static enum error sync_parent(const char *path, struct failure *failure)
{
    char parent[PATH_MAX];
    if (path_parent(path, parent))
        return files_sync_folder(parent, failure);
    errno = ENAMETOOLONG;
    return files_failed(failure, "syncing the parent of", path);
}

static enum error copy(const struct manifest *manifest, const char *folder, const char *to, struct failure *failure)
{
    char unfinished[PATH_MAX];
    int length = (int)strnlen(to, PATH_MAX);
    while (length > 1 && to[length - 1] == '/')
        length--;
    if (snprintf(unfinished, sizeof(unfinished), "%.*s" FILES_UNFINISHED, length, to) >= (int)sizeof(unfinished))
        return failure_set(failure, ERROR_DISK_FAILED, "%s: the path is too long.", to);
    const bool is_made = mkdir(unfinished, FOLDER_MODE) == 0;
    if (!is_made && errno == EEXIST)
        return failure_set(failure, ERROR_DISK_FAILED,
                           "%s is there: a tally backup is at work there, or was killed. Remove it if none is.",
                           unfinished);
    if (!is_made)
        return files_failed(failure, "making", unfinished);
    struct sink sink = {.begin = folder_begin, .put = folder_put, .end = folder_end, .folder = unfinished};
    enum error error = pass_all(&sink, manifest, folder, failure);
    if (error == OK)
        error = sync_inner(manifest, unfinished, failure);
    if (error == OK && rename(unfinished, to) != 0)
        error = files_failed(failure, "renaming", unfinished);
    if (error != OK)
        (void)backup_remove(unfinished, NULL, NULL);
    return error;
}

enum error backup_take(const struct manifest *manifest, const char *folder, const char *to, struct failure *failure)
{
    struct stat status;
    enum error error = OK;
    if (lstat(to, &status) == 0)
        return failure_set(failure, ERROR_DISK_FAILED, "%s exists already: name a folder that does not.", to);
    if (rename(folder, to) != 0) {
        if (errno != EXDEV && errno != EACCES && errno != EPERM)
            return files_failed(failure, "moving the backup to", to);
        error = copy(manifest, folder, to, failure);
    }
    return error == OK ? sync_parent(to, failure) : error;
}

/* --- a tar -------------------------------------------------------------------------------------------------------- */

#define TAR_BLOCK 512u
#define TAR_NAME_SIZE 100u
#define TAR_OCTAL_MAX UINT64_C(077777777777)

static enum error tar_write(struct sink *sink, struct bytes bytes, struct failure *failure)
{
    for (size_t done = 0; done < bytes.size;) {
        const ssize_t count = write(sink->descriptor, bytes.ptr + done, bytes.size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return files_failed(failure, "writing", "the tar");
        done += (size_t)count;
    }
    return OK;
}

/* Up to 8 GiB as octal digits; above, in the form of GNU and star: a set bit, then the number with the highest byte
 * first. */
static void tar_put_size(uint64_t size, uint8_t field[12])
{
    char digits[13];
    if (size <= TAR_OCTAL_MAX) {
        (void)snprintf(digits, sizeof(digits), "%011" PRIo64, size);
        memcpy(field, digits, 12);
        return;
    }
    memset(field, 0, 12);
    field[0] = 0x80;
    for (unsigned i = 0; i < 8; i++)
        field[11 - i] = (uint8_t)(size >> (8 * i));
}

/* Source: POSIX.1-2017, pax, "ustar Interchange Format". */
static void tar_header(const char *name, uint64_t size, uint8_t header[TAR_BLOCK])
{
    unsigned sum = 0;
    char digits[8];
    memset(header, 0, TAR_BLOCK);
    ASSERT(strlen(name) < TAR_NAME_SIZE);
    memcpy(header, name, strlen(name));
    memcpy(header + 100, "0000600", 8);
    memcpy(header + 108, "0000000", 8);
    memcpy(header + 116, "0000000", 8);
    tar_put_size(size, header + 124);
    memcpy(header + 136, "00000000000", 12);
    memset(header + 148, ' ', 8);
    header[156] = '0';
    memcpy(header + 257, "ustar\00000", 8);
    for (unsigned i = 0; i < TAR_BLOCK; i++)
        sum += header[i];
    (void)snprintf(digits, sizeof(digits), "%06o", sum);
    memcpy(header + 148, digits, 7);
}

static enum error tar_begin(struct sink *sink, const char *inner, const char *name, uint64_t size,
                            struct failure *failure)
{
    uint8_t header[TAR_BLOCK];
    char path[TAR_NAME_SIZE];
    (void)snprintf(path, sizeof(path), "%s/%s%s%s", sink->folder, inner, inner[0] == '\0' ? "" : "/", name);
    tar_header(path, size, header);
    return tar_write(sink, bytes_make(header, sizeof(header)), failure);
}

static enum error tar_put(struct sink *sink, uint64_t offset, struct bytes bytes, struct failure *failure)
{
    (void)offset;
    return tar_write(sink, bytes, failure);
}

static enum error tar_end(struct sink *sink, uint64_t size, struct failure *failure)
{
    const size_t rest = (size_t)(size % TAR_BLOCK);
    return rest == 0 ? OK : tar_write(sink, bytes_make(zeros, TAR_BLOCK - rest), failure);
}

enum error backup_write_tar(const struct manifest *manifest, const char *folder, int descriptor,
                            struct failure *failure)
{
    struct sink sink = {
        .begin = tar_begin, .put = tar_put, .end = tar_end, .folder = manifest->id, .descriptor = descriptor};
    const enum error error = pass_all(&sink, manifest, folder, failure);
    return error == OK ? tar_write(&sink, bytes_make(zeros, 2 * TAR_BLOCK), failure) : error;
}
