/* A shim for LD_PRELOAD: from the n-th call on, one kind of operation fails, or waits, on files whose path ends so.
 *
 *   FAIL_CALL    pwrite | fdatasync | fsync | fallocate | renameat
 *   FAIL_SUFFIX  ending of the path, such as .segment; for renameat, of the old name
 *   FAIL_AFTER   calls that still succeed (0)
 *   FAIL_WHILE   a path: calls succeed, and are not counted, until there is such a file
 *   FAIL_ERRNO   what it fails with (EIO)
 *   FAIL_SLOW_MS N: none fails, but while there is the file of FAIL_WHILE each takes so long
 *   FAIL_HANGS   1: none fails, but while there is the file of FAIL_WHILE each waits, as on a disk that stands still.
 *                One of them goes on for each file of that name and ".one" that is made; it removes the file
 *   FAIL_SHORT   1: a pwrite that fails writes its first sector before, as a disk does that breaks in the middle
 *
 * For tests/system/disk.py, which compiles it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR_SIZE 512u

static atomic_long calls;

/* As on a disk that stands still: until it moves again, or for one call. */
static void hang(const char *file)
{
    char one[PATH_MAX];
    snprintf(one, sizeof(one), "%s.one", file);
    while (access(file, F_OK) == 0 && unlink(one) != 0)
        usleep(1000);
}

static int has_suffix(const char *path)
{
    const char *suffix = getenv("FAIL_SUFFIX");
    const size_t size = suffix == NULL ? 0 : strlen(suffix);
    return strlen(path) >= size && strcmp(path + strlen(path) - size, suffix == NULL ? "" : suffix) == 0;
}

/* Must this call fail? Counts it. */
static int falls_due(const char *call, const char *path)
{
    const char *wanted = getenv("FAIL_CALL");
    if (wanted == NULL || strcmp(wanted, call) != 0 || !has_suffix(path))
        return 0;
    const char *file = getenv("FAIL_WHILE");
    if (file != NULL && access(file, F_OK) != 0)
        return 0;
    if (getenv("FAIL_SLOW_MS") != NULL) {
        usleep((useconds_t)atoi(getenv("FAIL_SLOW_MS")) * 1000);
        return 0;
    }
    if (getenv("FAIL_HANGS") != NULL) {
        if (file != NULL)
            hang(file);
        return 0;
    }
    const char *after = getenv("FAIL_AFTER");
    if (atomic_fetch_add(&calls, 1) < (after == NULL ? 0 : atol(after)))
        return 0;
    const char *number = getenv("FAIL_ERRNO");
    errno = number == NULL ? EIO : atoi(number);
    return 1;
}

static int falls_due_on(const char *call, int descriptor)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    const int before = errno;
    const ssize_t size = readlink(link, path, sizeof(path) - 1);
    errno = before;
    if (size < 0)
        return 0;
    path[size] = '\0';
    return falls_due(call, path);
}

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t) = next("pwrite");
    if (falls_due_on("pwrite", descriptor)) {
        const int number = errno;
        if (getenv("FAIL_SHORT") != NULL && size > SECTOR_SIZE)
            (void)!real(descriptor, data, SECTOR_SIZE, offset);
        errno = number;
        return -1;
    }
    return real(descriptor, data, size, offset);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off_t offset)
{
    return pwrite(descriptor, data, size, offset);
}

int fdatasync(int descriptor)
{
    int (*real)(int) = next("fdatasync");
    return falls_due_on("fdatasync", descriptor) ? -1 : real(descriptor);
}

/* As the two calls that it stands for. */
ssize_t pwritev2(int descriptor, const struct iovec *pieces, int count, off_t offset, int flags)
{
    if (count != 1)
        abort();
    const ssize_t written = pwrite(descriptor, pieces[0].iov_base, pieces[0].iov_len, offset);
    return written >= 0 && (flags & RWF_DSYNC) != 0 && fdatasync(descriptor) != 0 ? -1 : written;
}

ssize_t pwritev64v2(int descriptor, const struct iovec *pieces, int count, off_t offset, int flags)
{
    return pwritev2(descriptor, pieces, count, offset, flags);
}

int fsync(int descriptor)
{
    int (*real)(int) = next("fsync");
    return falls_due_on("fsync", descriptor) ? -1 : real(descriptor);
}

int posix_fallocate(int descriptor, off_t offset, off_t size)
{
    int (*real)(int, off_t, off_t) = next("posix_fallocate");
    return falls_due_on("fallocate", descriptor) ? errno : real(descriptor, offset, size);
}

int posix_fallocate64(int descriptor, off_t offset, off_t size)
{
    return posix_fallocate(descriptor, offset, size);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    int (*real)(int, const char *, int, const char *) = next("renameat");
    return falls_due("renameat", from) ? -1 : real(from_folder, from, to_folder, to);
}
