#include "tallyd/temporary.h"

#include "base/assert.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PREFIX "tally-data-"
#define MARK "temporary-data" /* in the folder */
#define WALK_DESCRIPTORS 8    /* that nftw() may have open */

/* Between its making and its lock a folder looks as if its process were gone. */
#define LEFT_FOR_S 60

static const char *parent_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder == NULL || folder[0] == '\0' ? "/tmp" : folder;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    (void)remove(path); /* what can't be removed stays, and so does the folder around it */
    return 0;
}

static void remove_all(const char *path)
{
    (void)nftw(path, remove_one, WALK_DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* The folder, open and locked as flock() has it; -1: it can't be, or another process has it. */
static int lock_folder(const char *path, int operation)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    while (flock(descriptor, operation) != 0) {
        if (errno == EINTR)
            continue;
        close(descriptor);
        return -1;
    }
    return descriptor;
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Whoever finds the folder by its name may remove it only with the mark. The mark is the name, so that a copy of it
 * under another name has none. Where it can't be written, the folder stays if this process is killed. */
static void mark_folder(int folder, const char *path)
{
    const char *name = name_in(path);
    const int file = openat(folder, MARK, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0)
        return;
    const ssize_t size = write(file, name, strlen(name));
    (void)size;
    close(file);
}

static bool is_marked(int folder, const char *path)
{
    char text[NAME_MAX + 1] = "";
    const int file = openat(folder, MARK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t size = read(file, text, sizeof(text) - 1);
    close(file);
    return size > 0 && strcmp(text, name_in(path)) == 0;
}

/* Of this user, and not made just now? */
static bool may_be_left(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && status.st_uid == geteuid() && time(NULL) - status.st_mtime > LEFT_FOR_S;
}

static void remove_left(const char *parent)
{
    DIR *folder = opendir(parent);
    const struct dirent *entry;
    char path[PATH_MAX];
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const int size = snprintf(path, sizeof(path), "%s/%s", parent, entry->d_name);
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 || size < 0 || (size_t)size >= sizeof(path))
            continue;
        const int descriptor = lock_folder(path, LOCK_EX | LOCK_NB);
        if (descriptor < 0)
            continue;
        if (may_be_left(descriptor) && is_marked(descriptor, path))
            remove_all(path);
        close(descriptor);
    }
    if (folder != NULL)
        closedir(folder);
}

enum error temporary_make(struct temporary *temporary, struct failure *failure)
{
    const char *parent = parent_folder();
    ASSERT(temporary->path[0] == '\0');
    remove_left(parent);
    const int size = snprintf(temporary->path, sizeof(temporary->path), "%s/" PREFIX "XXXXXX", parent);
    if (size >= 0 && (size_t)size < sizeof(temporary->path) && mkdtemp(temporary->path) != NULL) {
        /* Another one's remove_left() may have it for a moment. Without the lock it would be removed in a minute. */
        temporary->lock = lock_folder(temporary->path, LOCK_EX);
        if (temporary->lock >= 0) /* else nobody can tell that it was left */
            mark_folder(temporary->lock, temporary->path);
        return OK;
    }
    temporary->path[0] = '\0';
    return failure_set(failure, ERROR_DISK_FAILED,
                       "can't make a folder for temporary-data in %s: %s. TMPDIR names another place.", parent,
                       strerror(size < 0 || (size_t)size >= sizeof(temporary->path) ? ENAMETOOLONG : errno));
}

void temporary_remove(struct temporary *temporary)
{
    if (temporary->path[0] == '\0')
        return;
    remove_all(temporary->path);
    if (temporary->lock >= 0)
        close(temporary->lock);
    temporary->path[0] = '\0';
}
