/* The real disk when the system refuses something: which error, and what exactly the text says. */
#include "base/assert.h"
#include "log/disk.h"
#include "log/segment.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum call {
    NO_CALL,
    FSTAT,
    FTRUNCATE,
    POSIX_FALLOCATE,
    FALLOCATE,
    FSTATVFS,
    PREAD,
    PWRITE,
    PWRITEV,
    FDATASYNC,
    FSYNC,
    SYNC_RANGE,
    FDOPENDIR,
    READDIR,
    FLOCK,
    STATX,
    MINCORE,
    CALL_COUNT
};

/* What stands before the C library's. The call of that kind fails with `number` after `after` of them went well, once
 * or `always`; and reads and writes move at most `piece` bytes. */
static enum call failing;
static int number;
static unsigned after;
static bool always;
static size_t piece = SIZE_MAX;
static unsigned calls[CALL_COUNT];

static bool fails(enum call call)
{
    calls[call]++;
    if (call != failing || after-- > 0)
        return false;
    after = 0;
    if (!always)
        failing = NO_CALL;
    errno = number;
    return true;
}

static void fail_next(enum call call, int with, unsigned after_count)
{
    failing = call;
    number = with;
    after = after_count;
    always = false;
    for (unsigned i = 0; i < CALL_COUNT; i++)
        calls[i] = 0;
}

int fstat(int descriptor, struct stat *status)
{
    return fails(FSTAT) ? -1 : (int)syscall(SYS_fstat, descriptor, status);
}

int ftruncate(int descriptor, off_t size)
{
    return fails(FTRUNCATE) ? -1 : (int)syscall(SYS_ftruncate, descriptor, size);
}

int posix_fallocate(int descriptor, off_t offset, off_t size)
{
    if (fails(POSIX_FALLOCATE))
        return number;
    return syscall(SYS_fallocate, descriptor, 0, offset, size) == 0 ? 0 : errno;
}

int fallocate(int descriptor, int mode, off_t offset, off_t size)
{
    return fails(FALLOCATE) ? -1 : (int)syscall(SYS_fallocate, descriptor, mode, offset, size);
}

static const struct statvfs volume = {
    .f_blocks = 1000, .f_bfree = 300, .f_bavail = 200, .f_frsize = 4096, .f_bsize = 1};

int fstatvfs(int descriptor, struct statvfs *status)
{
    assert_true(descriptor >= 0);
    if (fails(FSTATVFS))
        return -1;
    *status = volume;
    return 0;
}

ssize_t pread(int descriptor, void *data, size_t size, off_t offset)
{
    return fails(PREAD) ? -1 : (ssize_t)syscall(SYS_pread64, descriptor, data, size < piece ? size : piece, offset);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t offset)
{
    if (fails(PWRITE))
        return number == 0 ? 0 : -1;
    return (ssize_t)syscall(SYS_pwrite64, descriptor, data, size < piece ? size : piece, offset);
}

ssize_t pwritev2(int descriptor, const struct iovec *pieces, int count, off_t offset, int flags)
{
    assert_int_equal(count, 1);
    assert_int_equal(flags, RWF_DSYNC);
    if (fails(PWRITEV))
        return -1;
    const size_t size = pieces->iov_len < piece ? pieces->iov_len : piece;
    return (ssize_t)syscall(SYS_pwrite64, descriptor, pieces->iov_base, size, offset);
}

int fdatasync(int descriptor)
{
    return fails(FDATASYNC) ? -1 : (int)syscall(SYS_fdatasync, descriptor);
}

int fsync(int descriptor)
{
    return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int sync_file_range(int descriptor, off64_t offset, off64_t size, unsigned flags)
{
    return fails(SYNC_RANGE) ? -1 : (int)syscall(SYS_sync_file_range, descriptor, offset, size, flags);
}

DIR *fdopendir(int descriptor)
{
    DIR *(*real)(int) = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");
    return fails(FDOPENDIR) ? NULL : real(descriptor);
}

static bool types_are_unknown; /* a file system that does not tell what an entry is */

struct dirent *readdir(DIR *folder)
{
    struct dirent *(*real)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir64");
    if (fails(READDIR))
        return NULL;
    struct dirent *entry = real(folder);
    if (entry != NULL && types_are_unknown)
        entry->d_type = DT_UNKNOWN;
    return entry;
}

int flock(int descriptor, int operation)
{
    return fails(FLOCK) ? -1 : (int)syscall(SYS_flock, descriptor, operation);
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *status)
{
    return fails(STATX) ? -1 : (int)syscall(SYS_statx, folder, path, flags, mask, status);
}

/* The page that is not in memory, and what is asked of it. */
static uintptr_t missing_page, advised_at;
static size_t advised_size;

int mincore(void *memory, size_t size, unsigned char *pages)
{
    if (fails(MINCORE))
        return -1;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)memory;
    for (uintptr_t i = 0; i < (size + page - 1) / page; i++)
        pages[i] = at + i * page != missing_page;
    return 0;
}

int madvise(void *memory, size_t size, int advice)
{
    if (advice != MADV_WILLNEED)
        return (int)syscall(SYS_madvise, memory, size, advice);
    advised_at = (uintptr_t)memory;
    advised_size = size;
    return 0;
}

/* The whole file, however long it is. */
static unsigned dropped;

int posix_fadvise(int descriptor, off_t offset, off_t size, int advice)
{
    dropped += offset == 0 && size == 0 && advice == POSIX_FADV_DONTNEED;
    return (int)syscall(SYS_fadvise64, descriptor, offset, size, advice);
}

/* What a clock that is asked for it says, one answer after the other; and how long somebody paused then. */
static const struct timespec *times;
static int64_t paused_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (times == NULL || clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, now);
    *now = *times++;
    return 0;
}

int nanosleep(const struct timespec *pause, struct timespec *rest)
{
    paused_ns = (int64_t)pause->tv_sec * 1000000000 + pause->tv_nsec;
    return times != NULL ? 0 : (int)syscall(SYS_nanosleep, pause, rest);
}

struct fixture {
    char root[64];
    char folder[96]; /* inside root, does not exist yet */
    struct disk *disk;
    struct failure failure;
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    failing = NO_CALL;
    piece = SIZE_MAX;
    types_are_unknown = false;
    (void)snprintf(fixture->root, sizeof(fixture->root), "%.40s/tally-fault-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(fixture->root));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "%s/data", fixture->root);
    fixture->disk = disk_posix_create(fixture->folder);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    failing = NO_CALL;
    disk_posix_destroy(fixture->disk);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

/* The error, and the whole text; each # in `text` is the folder. */
static void assert_said(const struct fixture *fixture, enum error found, enum error expected, const char *text)
{
    char whole[1024];
    size_t size = 0;
    for (; *text != '\0'; text++) {
        if (*text == '#')
            size += (size_t)snprintf(whole + size, sizeof(whole) - size, "%s", fixture->folder);
        else
            whole[size++] = *text;
        assert_true(size < sizeof(whole));
    }
    whole[size] = '\0';
    assert_string_equal(found == OK ? "" : fixture->failure.text, whole);
    assert_int_equal(found, expected);
}

static int descriptor_next(void)
{
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    (void)close(next);
    return next;
}

#define FILE_SIZE 10000u

/* A file that is written, which the tests read and write. */
static struct disk_file *file_make(struct fixture *fixture)
{
    struct disk *disk = fixture->disk;
    struct disk_file *file;
    uint8_t content[FILE_SIZE];
    for (unsigned i = 0; i < FILE_SIZE; i++)
        content[i] = (uint8_t)(i / 100);
    assert_int_equal(disk->operations->lock(disk, NULL), OK);
    assert_int_equal(disk->operations->create(disk, "a", &file, NULL), OK);
    assert_int_equal(disk->operations->write(file, 0, bytes_make(content, sizeof(content)), NULL), OK);
    return file;
}

enum operation {
    SIZE,
    MAP,
    ALLOCATE,
    RESERVE,
    ROOM,
    READ,
    READ_TOO_FAR,
    WRITE,
    WRITE_ASIDE,
    WRITE_SYNCED,
    SYNC,
    SYNC_FOLDER,
    LIST,
    RENAME_MISSING,
    REMOVE_FOLDER,
    CREATE_AGAIN,
    OPEN_MISSING,
    MAP_TOO_LARGE
};

static void name_visit(void *context, const char *name)
{
    assert_true(strcmp(name, "lock") == 0 || strcmp(name, "a") == 0);
    (*(unsigned *)context)++;
}

static enum error operate(struct fixture *fixture, struct disk_file *file, enum operation operation)
{
    const struct disk_operations *operations = fixture->disk->operations;
    struct failure *failure = &fixture->failure;
    uint8_t content[FILE_SIZE];
    uint64_t size;
    const uint8_t *memory;
    struct disk_room room;
    memset(content, 7, sizeof(content));
    switch (operation) {
    case SIZE:
        return operations->size(file, &size, failure);
    case MAP:
        return operations->map(file, FILE_SIZE, &memory, failure);
    case MAP_TOO_LARGE:
        return operations->map(file, FILE_SIZE + 1, &memory, failure);
    case ALLOCATE:
        return operations->allocate(file, FILE_SIZE, 6000, failure);
    case RESERVE:
        return operations->reserve(file, 8192, failure);
    case ROOM:
        return operations->room(fixture->disk, &room, failure);
    case READ:
        return operations->read(file, 500, content, 9000, failure);
    case READ_TOO_FAR:
        return operations->read(file, 9000, content, 1500, failure);
    case WRITE:
        return operations->write(file, 500, bytes_make(content, 9000), failure);
    case WRITE_ASIDE:
        return operations->write_aside(file, 500, bytes_make(content, 9000), failure);
    case WRITE_SYNCED:
        return operations->write_synced(file, 500, bytes_make(content, 9000), failure);
    case SYNC:
        return operations->sync(file, failure);
    case SYNC_FOLDER:
        return operations->sync_folder(fixture->disk, failure);
    case LIST:
        return operations->list(fixture->disk, name_visit, &(unsigned){0}, failure);
    case RENAME_MISSING:
        return operations->rename(fixture->disk, "x", "y", failure);
    case REMOVE_FOLDER:
        return operations->remove(fixture->disk, "d", failure);
    case CREATE_AGAIN:
        return operations->create(fixture->disk, "a", &file, failure);
    case OPEN_MISSING:
        return operations->open(fixture->disk, "x", &file, failure);
    }
    return ERROR_DISK_FAILED;
}

#define ROOM_ADVICE " Make room on this file system."
#define DAMAGE_ADVICE                                                                                                  \
    " Restore the whole folder from a backup or a replica. Without one: \"tallyd --verify #\" says what is affected, " \
    "and \"tallyd --salvage # --to NEW\" saves what can be read into a new data folder."

/* `piece`: 0 is no limit. `text`: NULL is OK. */
static const struct refusal {
    enum operation operation;
    enum call call;
    int number;
    unsigned after;
    size_t piece;
    enum error error;
    const char *text;
} refusals[] = {
    {SIZE, FSTAT, EIO, 0, 0, ERROR_DISK_FAILED, "asking for the size of #/a failed: Input/output error."},
    {MAP, FSTAT, EIO, 0, 0, ERROR_DISK_FAILED, "asking for the size of #/a failed: Input/output error."},
    {MAP_TOO_LARGE, NO_CALL, 0, 0, 0, ERROR_LOG_DAMAGED,
     "#/a is truncated: it has 10000 of 10001 bytes." DAMAGE_ADVICE},
    {ALLOCATE, FTRUNCATE, EFBIG, 0, 0, ERROR_DISK_FAILED,
     "allocating 10000 bytes at offset 0 of #/a failed: File too large."},
    {ALLOCATE, POSIX_FALLOCATE, ENOSPC, 0, 0, ERROR_DISK_FULL,
     "allocating 6000 bytes at offset 0 of #/a failed: No space left on device." ROOM_ADVICE},
    {ALLOCATE, POSIX_FALLOCATE, EDQUOT, 0, 0, ERROR_DISK_FULL,
     "allocating 6000 bytes at offset 0 of #/a failed: Disk quota exceeded." ROOM_ADVICE},
    {ALLOCATE, POSIX_FALLOCATE, EINTR, 0, 0, OK, NULL},
    {RESERVE, FALLOCATE, ENOSPC, 0, 0, ERROR_DISK_FULL,
     "reserving 8192 bytes at offset 0 of #/a failed: No space left on device." ROOM_ADVICE},
    {RESERVE, FALLOCATE, EIO, 0, 0, ERROR_DISK_FAILED,
     "reserving 8192 bytes at offset 0 of #/a failed: Input/output error."},
    {RESERVE, FALLOCATE, EOPNOTSUPP, 0, 0, OK, NULL},
    {RESERVE, FALLOCATE, EINTR, 0, 0, OK, NULL},
    {ROOM, FSTATVFS, EIO, 0, 0, ERROR_DISK_FAILED,
     "asking for the room on the file system of # failed: Input/output error."},
    {READ, PREAD, EIO, 2, 3000, ERROR_DISK_FAILED,
     "reading 3000 bytes at offset 6500 of #/a failed: Input/output error."},
    {READ, PREAD, EINTR, 1, 3000, OK, NULL},
    {READ_TOO_FAR, NO_CALL, 0, 0, 600, ERROR_LOG_DAMAGED,
     "#/a is truncated: it ends at offset 10000 where 500 more bytes were expected." DAMAGE_ADVICE},
    {WRITE, PWRITE, EIO, 2, 3000, ERROR_DISK_FAILED,
     "writing 3000 bytes at offset 6500 of #/a failed: Input/output error."},
    {WRITE, PWRITE, ENOSPC, 1, 3000, ERROR_DISK_FULL,
     "writing 6000 bytes at offset 3500 of #/a failed: No space left on device." ROOM_ADVICE},
    {WRITE, PWRITE, 0, 1, 3000, ERROR_DISK_FAILED,
     "writing 6000 bytes at offset 3500 of #/a failed: Input/output error."},
    {WRITE, PWRITE, EINTR, 1, 3000, OK, NULL},
    {WRITE_ASIDE, PWRITE, EIO, 0, 0, ERROR_DISK_FAILED,
     "writing 9000 bytes at offset 500 of #/a failed: Input/output error."},
    {WRITE_ASIDE, SYNC_RANGE, EIO, 0, 0, ERROR_DISK_FAILED,
     "writing 9000 bytes at offset 500 of #/a failed: Input/output error."},
    {WRITE_ASIDE, SYNC_RANGE, EIO, 1, 0, ERROR_DISK_FAILED,
     "writing 9000 bytes at offset 500 of #/a failed: Input/output error."},
    {WRITE_ASIDE, SYNC_RANGE, EINTR, 0, 0, OK, NULL},
    {WRITE_SYNCED, PWRITEV, EIO, 0, 0, ERROR_DISK_FAILED,
     "writing 9000 bytes at offset 500 of #/a failed: Input/output error."},
    {WRITE_SYNCED, PWRITEV, EINTR, 0, 0, OK, NULL},
    {WRITE_SYNCED, PWRITE, EIO, 1, 3000, ERROR_DISK_FAILED,
     "writing 3000 bytes at offset 6500 of #/a failed: Input/output error."},
    {WRITE_SYNCED, FDATASYNC, EIO, 0, 3000, ERROR_DISK_FAILED, "syncing #/a failed: Input/output error."},
    {SYNC, FDATASYNC, EIO, 0, 0, ERROR_DISK_FAILED, "syncing #/a failed: Input/output error."},
    {SYNC_FOLDER, FSYNC, EIO, 0, 0, ERROR_DISK_FAILED, "syncing the folder # failed: Input/output error."},
    {SYNC_FOLDER, FSYNC, EINVAL, 0, 0, OK, NULL},
    {LIST, FDOPENDIR, ENOMEM, 0, 0, ERROR_DISK_FAILED, "listing # failed: Cannot allocate memory."},
    {LIST, READDIR, EIO, 1, 0, ERROR_DISK_FAILED, "listing # failed: Input/output error."},
    {RENAME_MISSING, NO_CALL, 0, 0, 0, ERROR_DISK_FAILED, "renaming #/x failed: No such file or directory."},
    {REMOVE_FOLDER, NO_CALL, 0, 0, 0, ERROR_DISK_FAILED, "removing #/d failed: Is a directory."},
    {CREATE_AGAIN, NO_CALL, 0, 0, 0, ERROR_DISK_FAILED, "creating #/a failed: File exists."},
    {OPEN_MISSING, NO_CALL, 0, 0, 0, ERROR_DISK_FAILED, "opening #/x failed: No such file or directory."},
};

static void each_refusal_is_told_with_its_place_and_reason(void **state)
{
    struct fixture *fixture = *state;
    struct disk_file *file = file_make(fixture);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/d", fixture->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    const int next = descriptor_next();
    for (size_t i = 0; i < ARRAY_LENGTH(refusals); i++) {
        const struct refusal *row = &refusals[i];
        piece = row->piece == 0 ? SIZE_MAX : row->piece;
        fail_next(row->call, row->number, row->after);
        const enum error error = operate(fixture, file, row->operation);
        assert_int_equal(failing, NO_CALL);
        piece = SIZE_MAX;
        assert_said(fixture, error, row->error, row->text == NULL ? "" : row->text);
        assert_int_equal(descriptor_next(), next); /* none is lost */
    }
    fixture->disk->operations->close(file);
}

/* File systems of old systems, and some over a network. */
static void what_a_file_system_can_not_do_is_done_otherwise(void **state)
{
    struct fixture *fixture = *state;
    const struct disk_operations *operations = fixture->disk->operations;
    struct disk_file *file = file_make(fixture);
    uint8_t content[9000], found[9000];
    memset(content, 1, sizeof(content));
    static const struct {
        enum operation operation;
        enum call call;
        int number;
        unsigned syncs;
    } rows[] = {
        {WRITE_ASIDE, SYNC_RANGE, ENOSYS, 2}, {WRITE_ASIDE, SYNC_RANGE, EOPNOTSUPP, 2},
        {WRITE_ASIDE, SYNC_RANGE, EINVAL, 2}, {WRITE_ASIDE, SYNC_RANGE, ESPIPE, 2},
        {WRITE_SYNCED, PWRITEV, ENOSYS, 1},   {WRITE_SYNCED, PWRITEV, EOPNOTSUPP, 1},
        {WRITE_SYNCED, NO_CALL, 0, 0},        {WRITE_ASIDE, NO_CALL, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        assert_int_equal(operations->write(file, 500, bytes_make(content, sizeof(content)), NULL), OK);
        fail_next(rows[i].call, rows[i].number, 0);
        always = true;
        assert_int_equal(operate(fixture, file, rows[i].operation), OK);
        assert_int_equal(calls[FDATASYNC], rows[i].syncs);
        failing = NO_CALL;
        assert_int_equal(operations->read(file, 500, found, sizeof(found), NULL), OK);
        for (size_t at = 0; at < sizeof(found); at++)
            assert_int_equal(found[at], 7);
    }

    /* A write that was cut short: the rest is written behind it. */
    for (size_t at = 0; at < sizeof(content); at++)
        content[at] = (uint8_t)(at / 90);
    piece = 4000;
    fail_next(NO_CALL, 0, 0);
    assert_int_equal(operations->write_synced(file, 500, bytes_make(content, sizeof(content)), NULL), OK);
    assert_int_equal(calls[PWRITEV], 1);
    assert_int_equal(calls[PWRITE], 2);
    assert_int_equal(calls[FDATASYNC], 1);
    assert_int_equal(operations->read(file, 500, found, sizeof(found), NULL), OK);
    assert_memory_equal(content, found, sizeof(found));
    piece = SIZE_MAX;

    struct disk_room room;
    assert_int_equal(operations->room(fixture->disk, &room, NULL), OK);
    assert_int_equal(room.total, 1000 * 4096);
    assert_int_equal(room.free, 200 * 4096); /* and not what is root's */

    /* The kinds of a folder's entries. */
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/d", fixture->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/s", fixture->folder);
    assert_int_equal(symlink("a", path), 0);
    for (unsigned turn = 0; turn < 2; turn++) {
        types_are_unknown = turn == 1;
        unsigned count = 0;
        assert_int_equal(operations->list(fixture->disk, name_visit, &count, NULL), OK);
        assert_int_equal(count, 2);
    }
    operations->close(file);
}

static void a_removed_file_that_has_another_name_keeps_its_bytes(void **state)
{
    struct fixture *fixture = *state;
    const struct disk_operations *operations = fixture->disk->operations;
    char path[2][128];
    (void)snprintf(path[0], sizeof(path[0]), "%s/a", fixture->folder);
    (void)snprintf(path[1], sizeof(path[1]), "%s/b", fixture->folder);
    /* Of a file that is ours alone all portions but the last go at once, until one is refused. */
    static const struct {
        bool is_linked;
        enum call call;
        unsigned after;
        uint64_t left;
    } rows[] = {
        {true, NO_CALL, 0, 4 << 20},    {false, NO_CALL, 0, 1 << 20},   {false, FSTAT, 0, 4 << 20},
        {false, FTRUNCATE, 1, 3 << 20}, {false, FDATASYNC, 1, 2 << 20},
    };
    assert_int_equal(operations->lock(fixture->disk, NULL), OK);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct disk_file *file;
        assert_int_equal(operations->create(fixture->disk, "a", &file, NULL), OK);
        assert_int_equal(operations->allocate(file, 4 << 20, 0, NULL), OK);
        if (rows[i].is_linked)
            assert_int_equal(link(path[0], path[1]), 0);
        const int next = descriptor_next();
        fail_next(rows[i].call, EIO, rows[i].after);
        assert_int_equal(operations->remove(fixture->disk, "a", &fixture->failure), OK);
        assert_int_equal(failing, NO_CALL);
        assert_int_equal(descriptor_next(), next);
        uint64_t size;
        assert_int_equal(operations->size(file, &size, NULL), OK);
        assert_int_equal(size, rows[i].left);
        operations->close(file);
        if (rows[i].is_linked)
            assert_int_equal(unlink(path[1]), 0);
    }
}

static void pages_that_are_not_in_memory_are_asked_for(void **state)
{
    struct fixture *fixture = *state;
    const struct disk_operations *operations = fixture->disk->operations;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size = 130 * page;
    struct disk_file *file = file_make(fixture);
    const uint8_t *memory;
    assert_int_equal(operations->allocate(file, size, 0, NULL), OK);
    assert_int_equal(operations->map(file, size, &memory, NULL), OK);
    static const struct {
        unsigned missing;     /* page */
        unsigned from, to;    /* bytes behind the beginning of page 2, and before the end of the map */
        unsigned answered_at; /* page; 0: all is there */
    } rows[] = {
        {129, 0, 4096, 0}, {128, 0, 4096, 66}, {1, 0, 0, 0},    {2, 100, 0, 2}, {65, 0, 0, 2},
        {66, 0, 0, 66},    {129, 0, 1, 66},    {3, 4096, 0, 3}, {200, 0, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        const uint8_t *begin = memory + 2 * page + rows[i].from, *end = memory + size - rows[i].to;
        missing_page = (uintptr_t)memory + rows[i].missing * page;
        advised_at = 0;
        assert_int_equal(operations->is_resident(fixture->disk, begin, (uint64_t)(end - begin)),
                         rows[i].answered_at == 0);
        if (rows[i].answered_at == 0) {
            assert_int_equal(advised_at, 0);
            continue;
        }
        assert_int_equal(advised_at, (uintptr_t)memory + rows[i].answered_at * page);
        assert_int_equal(advised_size, (uintptr_t)end - advised_at + 262144);
    }
    missing_page = (uintptr_t)memory;
    assert_true(operations->is_resident(fixture->disk, memory + page, 1));
    assert_false(operations->is_resident(fixture->disk, memory + page - 1, 1));
    fail_next(MINCORE, ENOMEM, 0); /* who can't be asked says nothing against it */
    assert_true(operations->is_resident(fixture->disk, memory, 1));
    operations->unmap(fixture->disk, memory, size);
    operations->close(file);
}

/* A write aside gives others half of the time, and no more than is good for it. */
static void a_pause_is_as_long_as_the_piece_before_and_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct disk_file *file = file_make(fixture);
    static const struct {
        struct timespec times[2]; /* at the begin and at the end of the piece */
        int64_t paused_ns;
    } rows[] = {
        {{{5, 100}, {5, 4000100}}, 4000000},  {{{5, 999000000}, {6, 1000000}}, 2000000},
        {{{5, 0}, {5, 49999999}}, 49999999},  {{{5, 0}, {5, 50000001}}, 50000000},
        {{{5, 900000000}, {7, 0}}, 50000000},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        times = rows[i].times;
        const enum error error = operate(fixture, file, WRITE_ASIDE);
        times = NULL;
        assert_int_equal(error, OK);
        assert_int_equal(paused_ns, rows[i].paused_ns);
    }
    const atomic_bool is_hurried = true;
    fixture->disk->is_hurried = &is_hurried;
    paused_ns = -1;
    fail_next(NO_CALL, 0, 0);
    assert_int_equal(operate(fixture, file, WRITE_ASIDE), OK);
    assert_int_equal(paused_ns, -1);
    assert_int_equal(calls[SYNC_RANGE], 2);
    fixture->disk->is_hurried = NULL;
    dropped = 0;
    fixture->disk->operations->drop_cache(file);
    assert_int_equal(dropped, 1);
    fixture->disk->operations->close(file);
}

/* --- the lock ----------------------------------------------------------------------------------------------------- */

static void lock_again(struct fixture *fixture)
{
    disk_posix_destroy(fixture->disk);
    fixture->disk = disk_posix_create(fixture->folder);
}

static enum error lock(struct fixture *fixture)
{
    return fixture->disk->operations->lock(fixture->disk, &fixture->failure);
}

static void a_lock_that_is_refused_is_told_and_leaves_nothing_open(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        enum call call;
        int number;
        unsigned after;
        enum error error;
        const char *text;
    } rows[] = {
        {FSYNC, EIO, 0, ERROR_DISK_FAILED, "syncing the parent of # failed: Input/output error."},
        {FSYNC, EIO, 1, ERROR_DISK_FAILED, "syncing the parent of # failed: Input/output error."},
        {FSYNC, EINVAL, 0, OK, ""},
        {FSYNC, EROFS, 0, OK, ""}, /* of the parent, which is there */
        {FSYNC, EROFS, 1, ERROR_DISK_FAILED, "syncing the parent of # failed: Read-only file system."},
        {FLOCK, ENOLCK, 0, OK, ""}, /* the folder; then the file must do */
        {FLOCK, ENOLCK, 1, ERROR_DISK_FAILED, "locking #/lock failed: No locks available."},
        {PWRITE, EIO, 0, ERROR_DISK_FAILED, "writing #/lock failed: Input/output error."},
        {PWRITE, ENOSPC, 0, ERROR_DISK_FULL, "writing #/lock failed: No space left on device." ROOM_ADVICE},
        {FTRUNCATE, EIO, 0, ERROR_DISK_FAILED, "writing #/lock failed: Input/output error."},
    };
    const int next = descriptor_next();
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char command[128];
        (void)snprintf(command, sizeof(command), "rm -rf '%s'", fixture->folder);
        assert_int_equal(system(command), 0);
        fail_next(rows[i].call, rows[i].number, rows[i].after);
        const enum error error = lock(fixture);
        assert_int_equal(failing, NO_CALL);
        assert_said(fixture, error, rows[i].error, rows[i].text);
        if (rows[i].error != OK)
            assert_int_equal(descriptor_next(), next);
        if (rows[i].call == FSYNC) /* as if this start had not been */
            assert_int_equal(access(fixture->folder, F_OK), rows[i].error == OK ? 0 : -1);
        assert_int_equal(lock(fixture), OK);
        lock_again(fixture);
    }
}

static void a_folder_that_can_not_be_made_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = disk_posix_create("");
    assert_int_equal(disk->operations->lock(disk, &fixture->failure), ERROR_DISK_FAILED);
    assert_string_equal(fixture->failure.text, "creating  failed: No such file or directory.");
    struct disk_room room;
    assert_int_equal(disk->operations->room(disk, &room, NULL), OK); /* of where we are */
    disk_posix_destroy(disk);
    disk = disk_posix_create("/proc/self"); /* whose parents are there */
    assert_int_equal(disk->operations->lock(disk, &fixture->failure), ERROR_DISK_FAILED);
    assert_int_equal(strncmp(fixture->failure.text, "opening /proc/self/lock failed: ", 32), 0);
    disk_posix_destroy(disk);
    char path[PATH_MAX + 1];
    for (size_t size = PATH_MAX - 1; size <= PATH_MAX; size++) {
        memset(path, 'x', size);
        path[0] = '/';
        path[size] = '\0';
        disk = disk_posix_create(path);
        assert_int_equal(disk->operations->lock(disk, &fixture->failure), ERROR_DISK_FAILED);
        assert_int_equal(strncmp(fixture->failure.text, "creating /xxx", 13), 0);
        assert_int_equal(disk->operations->room(disk, &room, &fixture->failure), ERROR_DISK_FAILED);
        assert_int_equal(strncmp(fixture->failure.text, "asking for the room on the file system of /xxx", 45), 0);
        disk_posix_destroy(disk);
    }

    /* A file where a folder should be. */
    (void)snprintf(path, sizeof(path), "%s/file", fixture->root);
    (void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "%s/file/data", fixture->root);
    assert_said(fixture, fixture->disk->operations->room(fixture->disk, &room, &fixture->failure), ERROR_DISK_FAILED,
                "asking for the room on the file system of # failed: Not a directory.");
    assert_said(fixture, lock(fixture), ERROR_DISK_FAILED, "creating # failed: Not a directory.");
}

/* Where others may not read, but make folders. */
static enum error lock_as_nobody(struct fixture *fixture)
{
    const uid_t us = geteuid();
    assert_int_equal(chmod(fixture->root, us == 0 ? 0333 : 0300), 0);
    assert_true(us != 0 || seteuid(65534) == 0);
    const enum error error = lock(fixture);
    assert_true(us != 0 || seteuid(us) == 0);
    assert_int_equal(chmod(fixture->root, 0755), 0);
    return error;
}

static void a_parent_that_may_not_be_read_matters_to_whoever_makes_the_folder(void **state)
{
    struct fixture *fixture = *state;
    assert_said(fixture, lock_as_nobody(fixture), ERROR_DISK_FAILED,
                "opening the parent of # failed: Permission denied.");
    assert_int_equal(access(fixture->folder, F_OK), -1);
    assert_int_equal(mkdir(fixture->folder, 0700), 0);
    assert_true(geteuid() != 0 || chown(fixture->folder, 65534, 65534) == 0);
    assert_int_equal(lock_as_nobody(fixture), OK);
}

static void a_relative_folder_has_a_parent(void **state)
{
    struct fixture *fixture = *state;
    struct disk_room before, after_lock;
    const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(fixture->root), 0);
    struct disk *disk = disk_posix_create("d");
    assert_int_equal(disk->operations->room(disk, &before, NULL), OK);
    fail_next(FSYNC, EIO, 0);
    assert_int_equal(disk->operations->lock(disk, &fixture->failure), ERROR_DISK_FAILED);
    assert_string_equal(fixture->failure.text, "syncing the parent of d failed: Input/output error.");
    fail_next(NO_CALL, 0, 0);
    assert_int_equal(disk->operations->lock(disk, NULL), OK);
    assert_int_equal(calls[FSYNC], 1); /* that of the parent */
    assert_int_equal(disk->operations->room(disk, &after_lock, NULL), OK);
    assert_int_equal(after_lock.total, 1000 * 4096);
    assert_true(before.total > 0);
    assert_int_equal(access("d/lock", F_OK), 0);
    disk_posix_destroy(disk);
    assert_int_equal(fchdir(here), 0);
    (void)close(here);
}

/* Then its names are not watched, which is better than to stop for nothing. */
static void what_the_system_does_not_tell_is_no_proof(void **state)
{
    struct fixture *fixture = *state;
    const struct disk_operations *operations = fixture->disk->operations;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/lock", fixture->folder);
    fail_next(STATX, EIO, 0);
    always = true;
    struct disk_file *file = file_make(fixture);
    failing = NO_CALL;
    assert_int_equal(unlink(path), 0);
    (void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(operations->confirm(fixture->disk, file, 0, &fixture->failure), OK);
    operations->close(file);
    lock_again(fixture);

    (void)snprintf(path, sizeof(path), "%s/a", fixture->folder);
    assert_int_equal(unlink(path), 0);
    file = file_make(fixture);
    assert_int_equal(unlink(path), 0);
    static const struct {
        int number;
        unsigned after;
        enum error error;
        const char *text;
    } rows[] = {
        {EIO, 2, OK, ""}, /* of the file itself */
        {EIO, 0, ERROR_DISK_FAILED,
         "#/a was removed while it was in use: nothing more is acknowledged. Restore the whole folder from a backup or "
         "a replica before you start again."},
        {ENOENT, 0, ERROR_DISK_FAILED,
         "The folder # was removed or renamed while it was in use: nothing more is acknowledged. Put it back to where "
         "it was, or restore a backup there, before you start again."},
        {ENOTDIR, 0, ERROR_DISK_FAILED,
         "The folder # was removed or renamed while it was in use: nothing more is acknowledged. Put it back to where "
         "it was, or restore a backup there, before you start again."},
        {ESTALE, 1, ERROR_DISK_FAILED,
         "#/lock was removed or replaced while it was in use: another process may have taken the folder, so nothing "
         "more is acknowledged. Start again, and leave that file alone."},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        fail_next(STATX, rows[i].number, rows[i].after);
        assert_said(fixture, operations->confirm(fixture->disk, file, 0, &fixture->failure), rows[i].error,
                    rows[i].text);
        assert_int_equal(failing, NO_CALL);
    }
    operations->close(file);
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

static void readers_share_a_folder_and_keep_its_owner_out(void **state)
{
    struct fixture *fixture = *state;
    char held[256], path[128];
    (void)snprintf(held, sizeof(held),
                   "The folder # belongs to another process (pid %ld). Stop that one, or use another folder.",
                   (long)getpid());
    struct disk *owner = disk_posix_create(fixture->folder), *reader = disk_posix_create_to_read(fixture->folder);
    const struct disk_operations *operations = reader->operations;
    const int next = descriptor_next();
    assert_said(fixture, operations->lock(reader, &fixture->failure), ERROR_DISK_FAILED,
                "opening # failed: No such file or directory.");
    assert_int_equal(access(fixture->folder, F_OK), -1);
    assert_int_equal(descriptor_next(), next);

    struct disk_file *file = file_make(fixture);
    fixture->disk->operations->close(file);
    assert_said(fixture, operations->lock(reader, &fixture->failure), ERROR_LOG_LOCKED, held);
    lock_again(fixture);

    /* Nobody has it any more. */
    struct disk *second = disk_posix_create_to_read(fixture->folder);
    assert_int_equal(operations->lock(reader, &fixture->failure), OK);
    assert_int_equal(operations->lock(second, &fixture->failure), OK);
    assert_int_equal(operations->open(reader, "a", &file, &fixture->failure), OK);
    uint8_t byte = 1;
    assert_int_equal(operations->read(file, 9999, &byte, 1, NULL), OK);
    assert_int_equal(byte, 99);
    assert_said(fixture, operations->write(file, 3, BYTES("x"), &fixture->failure), ERROR_DISK_FAILED,
                "writing 1 bytes at offset 3 of #/a failed: Bad file descriptor.");
    operations->close(file);
    assert_said(fixture, owner->operations->lock(owner, &fixture->failure), ERROR_LOG_LOCKED, held);
    disk_posix_destroy(reader);
    assert_said(fixture, owner->operations->lock(owner, &fixture->failure), ERROR_LOG_LOCKED, held);
    disk_posix_destroy(second);
    assert_int_equal(owner->operations->lock(owner, &fixture->failure), OK);
    disk_posix_destroy(owner);

    /* An earlier version has the file alone. */
    (void)snprintf(path, sizeof(path), "%s/lock", fixture->folder);
    const int earlier = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(earlier, LOCK_EX | LOCK_NB), 0);
    reader = disk_posix_create_to_read(fixture->folder);
    assert_said(fixture, operations->lock(reader, &fixture->failure), ERROR_LOG_LOCKED, held);
    (void)close(earlier);
    assert_int_equal(operations->lock(reader, &fixture->failure), OK);
    disk_posix_destroy(reader);

    /* File systems that can't lock. */
    reader = disk_posix_create_to_read(fixture->folder);
    fail_next(FLOCK, ENOLCK, 0);
    always = true;
    assert_int_equal(operations->lock(reader, &fixture->failure), OK);
    failing = NO_CALL;
    disk_posix_destroy(reader);

    /* Without a lock file, which is not made. */
    assert_int_equal(unlink(path), 0);
    reader = disk_posix_create_to_read(fixture->folder);
    assert_int_equal(operations->lock(reader, &fixture->failure), OK);
    assert_int_equal(access(path, F_OK), -1);
    disk_posix_destroy(reader);
    assert_int_equal(symlink("elsewhere", path), 0);
    reader = disk_posix_create_to_read(fixture->folder);
    assert_said(fixture, operations->lock(reader, &fixture->failure), ERROR_DISK_FAILED,
                "opening #/lock failed: Too many levels of symbolic links.");
    disk_posix_destroy(reader);
    assert_int_equal(descriptor_next(), next);
}

/* Whoever starts the daemon may have closed its standard input. */
static void the_descriptor_zero_is_one_as_any_other(void **state)
{
    struct fixture *fixture = *state;
    const struct disk_operations *operations = fixture->disk->operations;
    const int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
    (void)close(0);
    fail_next(PWRITE, EIO, 0); /* the folder has it */
    assert_int_equal(lock(fixture), ERROR_DISK_FAILED);
    assert_int_equal(descriptor_next(), 0);
    assert_int_equal(lock(fixture), OK); /* again */
    lock_again(fixture);
    assert_int_equal(descriptor_next(), 0);

    const int held = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct disk_file *file;
    assert_int_equal(lock(fixture), OK);
    (void)close(held);
    assert_int_equal(operations->list(fixture->disk, name_visit, &(unsigned){0}, NULL), OK);
    assert_int_equal(descriptor_next(), 0);
    assert_int_equal(operations->create(fixture->disk, "a", &file, NULL), OK); /* a file has it */
    assert_int_not_equal(descriptor_next(), 0);
    assert_int_equal(operations->write(file, 0, BYTES("x"), NULL), OK);
    operations->close(file);
    assert_int_equal(descriptor_next(), 0);
    assert_int_equal(operations->remove(fixture->disk, "a", NULL), OK);
    assert_int_equal(descriptor_next(), 0);
    lock_again(fixture);

    /* The lock of an earlier version, which a reader opens with it. */
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/lock", fixture->folder);
    assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    const int earlier = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(earlier, LOCK_EX | LOCK_NB), 0);
    struct disk *reader = disk_posix_create_to_read(fixture->folder);
    assert_int_equal(operations->lock(reader, NULL), ERROR_LOG_LOCKED);
    (void)close(0);
    assert_int_equal(operations->lock(reader, NULL), ERROR_LOG_LOCKED);
    assert_int_equal(descriptor_next(), 0);
    (void)close(earlier);
    assert_int_equal(operations->lock(reader, NULL), OK);
    disk_posix_destroy(reader);
    assert_int_equal(descriptor_next(), 0);
    assert_int_equal(dup2(input, 0), 0);
    (void)close(input);
}

int main(void)
{
#define WITH_DISK(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DISK(each_refusal_is_told_with_its_place_and_reason),
        WITH_DISK(what_a_file_system_can_not_do_is_done_otherwise),
        WITH_DISK(a_removed_file_that_has_another_name_keeps_its_bytes),
        WITH_DISK(pages_that_are_not_in_memory_are_asked_for),
        WITH_DISK(a_pause_is_as_long_as_the_piece_before_and_bounded),
        WITH_DISK(the_descriptor_zero_is_one_as_any_other),
        WITH_DISK(a_lock_that_is_refused_is_told_and_leaves_nothing_open),
        WITH_DISK(a_folder_that_can_not_be_made_is_told),
        WITH_DISK(a_parent_that_may_not_be_read_matters_to_whoever_makes_the_folder),
        WITH_DISK(a_relative_folder_has_a_parent),
        WITH_DISK(what_the_system_does_not_tell_is_no_proof),
        WITH_DISK(readers_share_a_folder_and_keep_its_owner_out),
    };
    return cmocka_run_group_tests_name("log disk failures", tests, NULL, NULL);
}
