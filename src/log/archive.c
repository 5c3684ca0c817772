/* The archive. See archive.h. */
#include "log/archive.h"

#include "base/assert.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_MODE 0700
#define TRIES 3u

/* Leaves errno as it is. */
static enum error failed(const char *what, const char *folder, const char *name, struct failure *failure)
{
    const int number = errno;
    const enum error error = number == ENOSPC || number == EDQUOT ? ERROR_DISK_FULL : ERROR_DISK_FAILED;
    const char *advice = number == EXDEV ? ". The archive must be on the file system of the data folder" : "";
    (void)failure_set(failure, error, "%s %s%s%s for the archive failed: %s%s.", what, folder,
                      name[0] == '\0' ? "" : "/", name, strerror(number), advice);
    errno = number;
    return error;
}

/* Makes what was put into the folder durable. Some file systems don't sync folders and say so. */
static enum error sync_open_folder(int descriptor, const char *path, struct failure *failure)
{
    return fsync(descriptor) == 0 || errno == EINVAL ? OK : failed("syncing", path, "", failure);
}

static enum error sync_folder(const char *path, struct failure *failure)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return failed("opening", path, "", failure);
    const enum error error = sync_open_folder(descriptor, path, failure);
    (void)close(descriptor);
    return error;
}

/* Makes the folder, if it is missing, in a folder that is there. It is synced into that each time, because the process
 * that made it may have been killed before its sync. What others made may lie where we have no rights. */
static enum error make_in(const char *path, const char *parent, struct failure *failure)
{
    const bool is_made = mkdir(path, FOLDER_MODE) == 0;
    const int number = errno;
    const bool is_there = is_made || number == EEXIST || access(path, F_OK) == 0;
    errno = number;
    if (!is_there)
        return failed("making", path, "", failure);
    return is_made || access(parent, R_OK) == 0 ? sync_folder(parent, failure) : OK;
}

static enum error open_archive(const char *path, int *descriptor, struct failure *failure)
{
    char parent[PATH_MAX], above[PATH_MAX];
    if (!path_parent(path, parent) || !path_parent(parent, above)) {
        errno = ENAMETOOLONG;
        return failed("opening", path, "", failure);
    }
    enum error error = make_in(parent, above, failure);
    if (error == OK)
        error = make_in(path, parent, failure);
    if (error != OK)
        return error;
    *descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *descriptor >= 0 ? OK : failed("opening", path, "", failure);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The name is taken in the archive: by this file, which a killed process had linked, or by another one. */
static enum error check_taken(int to, const char *name, const char *archive, const struct stat *ours,
                              struct failure *failure)
{
    struct stat theirs;
    if (fstatat(to, name, &theirs, AT_SYMLINK_NOFOLLOW) == 0 && is_same(ours, &theirs))
        return OK;
    return failure_set(
        failure, ERROR_DISK_FAILED,
        "%s/%s is there already, and is another file. Each data folder, and a restored one too, needs an "
        "archive of its own.",
        archive, name);
}

static enum error link_into(int folder, int to, const char *name, const char *archive, struct failure *failure)
{
    struct stat ours, from_folder, to_folder;
    if (fstat(folder, &from_folder) != 0 || fstat(to, &to_folder) != 0)
        return failed("asking for", archive, "", failure);
    if (is_same(&from_folder, &to_folder))
        return failure_set(failure, ERROR_DISK_FAILED, "%s is the folder of the log itself, and can't be its archive.",
                           archive);
    if (fstatat(folder, name, &ours, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? OK : failed("asking for", archive, name, failure);
    if (linkat(folder, name, to, name, 0) == 0)
        return OK;
    return errno == EEXIST ? check_taken(to, name, archive, &ours, failure) : failed("linking", archive, name, failure);
}

static enum error keep(int folder, const char *name, const char *archive, struct failure *failure)
{
    int to;
    enum error error = open_archive(archive, &to, failure);
    if (error != OK)
        return error;
    error = link_into(folder, to, name, archive, failure);
    if (error == OK)
        error = sync_open_folder(to, archive, failure);
    const int number = errno;
    (void)close(to);
    errno = number;
    return error;
}

enum error archive_keep(int folder, const char *name, const char *archive, struct failure *failure)
{
    ASSERT(folder >= 0 && strchr(name, '/') == NULL);
    enum error error = keep(folder, name, archive, failure);
    /* Somebody may remove a folder right behind the call that has made it. */
    for (unsigned tries = 1; tries < TRIES && error != OK && errno == ENOENT; tries++) {
        if (failure != NULL)
            failure_init(failure);
        error = keep(folder, name, archive, failure);
    }
    return error;
}
