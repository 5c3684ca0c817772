/* The real disk: what struct disk promises, on a file system of this machine. */
#include "base/assert.h"
#include "log/disk.h"
#include "log/segment_draft.h"
#include "support/log_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Stands before the C library's: 0, or the errno with which whoever waits is told that something has not arrived. */
static int refused_with;

int sync_file_range(int descriptor, off64_t offset, off64_t size, unsigned flags)
{
    if (refused_with != 0 && (flags & SYNC_FILE_RANGE_WAIT_BEFORE) != 0) {
        errno = refused_with;
        return -1;
    }
    return (int)syscall(SYS_sync_file_range, descriptor, offset, size, flags);
}

/* Likewise: a system that does not know MADV_POPULATE_READ. */
static bool knows_no_populate;

int madvise(void *memory, size_t size, int advice)
{
    if (knows_no_populate && advice == MADV_POPULATE_READ) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, memory, size, advice);
}

/* Likewise: an allocation that finds no room, and what is synced meanwhile. */
static bool has_no_room;
static unsigned syncs;

int posix_fallocate(int descriptor, off_t offset, off_t size)
{
    return has_no_room ? ENOSPC : fallocate(descriptor, 0, offset, size) == 0 ? 0 : errno;
}

int fdatasync(int descriptor)
{
    syncs++;
    return (int)syscall(SYS_fdatasync, descriptor);
}

/* And which folders are synced; those of that inode fail, if it is not 0. */
static ino_t synced_inodes[16];
static unsigned synced_count;
static ino_t fails_to_sync;

int fsync(int descriptor)
{
    struct stat status;
    assert_int_equal(fstat(descriptor, &status), 0);
    if (synced_count < sizeof(synced_inodes) / sizeof(synced_inodes[0]))
        synced_inodes[synced_count++] = status.st_ino;
    if (status.st_ino == fails_to_sync) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, descriptor);
}

static ino_t inode_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return status.st_ino;
}

static bool was_synced(ino_t inode)
{
    for (unsigned i = 0; i < synced_count; i++)
        if (synced_inodes[i] == inode)
            return true;
    return false;
}

struct fixture {
    char root[64];
    char folder[96]; /* inside root, does not exist yet */
    struct disk *disk;
};

static int fixture_setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    fails_to_sync = 0;
    (void)snprintf(fixture->root, sizeof(fixture->root), "%.40s/tally-disk-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(fixture->root));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "%s/new/deeper", fixture->root);
    fixture->disk = disk_posix_create(fixture->folder);
    *state = fixture;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *fixture = *state;
    disk_posix_destroy(fixture->disk);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fixture->root);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

/* Of the first segment, which is the only one here. */
static void segment_path(const struct fixture *fixture, char path[128])
{
    (void)snprintf(path, 128, "%s/0000000000000000.segment", fixture->folder);
}

static int truncate_segment(const struct fixture *fixture, off_t size)
{
    char path[128];
    segment_path(fixture, path);
    return truncate(path, size);
}

static void a_missing_folder_is_made_with_its_parents(void **state)
{
    struct fixture *fixture = *state;
    struct stat status;
    assert_int_not_equal(stat(fixture->folder, &status), 0);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
    assert_int_equal(stat(fixture->folder, &status), 0);
    assert_true(S_ISDIR(status.st_mode));
    assert_int_equal(status.st_mode & 0007, 0); /* what is in the log is nobody else's business */
}

/* A first start on a full disk has no folder yet, and says how much room is missing. */
static void the_room_is_told_before_there_is_a_folder(void **state)
{
    struct fixture *fixture = *state;
    struct disk_room before = {0}, after = {0};
    assert_int_equal(fixture->disk->operations->room(fixture->disk, &before, NULL), OK);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
    assert_int_equal(fixture->disk->operations->room(fixture->disk, &after, NULL), OK);
    assert_true(before.total > 0 && before.total == after.total);
}

/* Whoever made it may have been killed before it was durable. */
static void a_folder_that_is_there_is_made_durable_with_its_parent(void **state)
{
    struct fixture *fixture = *state;
    char parent[96];
    (void)snprintf(parent, sizeof(parent), "%s/new", fixture->root);
    assert_int_equal(mkdir(parent, 0700), 0);
    assert_int_equal(mkdir(fixture->folder, 0700), 0);
    synced_count = 0;
    fails_to_sync = inode_of(parent);
    struct failure failure = {.error = OK};
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "syncing the parent of"));
    assert_int_equal(access(fixture->folder, F_OK), 0); /* what others made stays */
    fails_to_sync = 0;
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, &failure), OK);
    assert_true(was_synced(inode_of(fixture->root)));
    assert_true(was_synced(inode_of(parent)));
    assert_false(was_synced(inode_of("/")));
    synced_count = 0;
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, &failure), OK);
    assert_int_equal(synced_count, 0);
}

static void a_folder_that_is_a_file_is_reported(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/new", fixture->root);
    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
    struct failure failure = {.error = OK};
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, fixture->folder));
}

/* As somebody who may do nothing that the modes forbid: root could. */
static enum error lock_as_nobody(const struct fixture *fixture, struct failure *failure)
{
    const uid_t us = geteuid();
    assert_int_equal(chmod(fixture->root, 0555), 0);
    assert_true(us != 0 || seteuid(65534) == 0);
    enum error error = fixture->disk->operations->lock(fixture->disk, failure);
    assert_true(us != 0 || seteuid(us) == 0);
    assert_int_equal(chmod(fixture->root, 0755), 0);
    return error;
}

static void a_folder_where_nothing_may_be_written_is_reported_with_the_reason(void **state)
{
    struct fixture *fixture = *state;
    char path[96], said[256];
    struct failure failure = {.error = OK};
    (void)snprintf(path, sizeof(path), "%s/new", fixture->root);
    assert_int_equal(lock_as_nobody(fixture, &failure), ERROR_DISK_FAILED); /* of two that are missing the first */
    (void)snprintf(said, sizeof(said), "creating %s for %s failed: Permission denied.", path, fixture->folder);
    assert_string_equal(failure.text, said);

    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0555), 0);
    assert_int_equal(lock_as_nobody(fixture, &failure), ERROR_DISK_FAILED);
    (void)snprintf(said, sizeof(said), "creating %s failed: Permission denied.", fixture->folder);
    assert_string_equal(failure.text, said);

    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(mkdir(fixture->folder, 0555), 0);
    assert_int_equal(lock_as_nobody(fixture, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "/lock failed: Permission denied."));
}

static void a_folder_has_one_owner(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);

    struct failure failure = {.error = OK};
    struct disk *second = disk_posix_create(fixture->folder);
    assert_int_equal(second->operations->lock(second, &failure), ERROR_LOG_LOCKED);
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
    assert_non_null(strstr(failure.text, fixture->folder));
    assert_non_null(strstr(failure.text, pid));
    disk_posix_destroy(second);

    /* Another process gets the same answer, and its end leaves the lock alone. */
    const pid_t child = fork();
    if (child == 0) {
        struct disk *other = disk_posix_create(fixture->folder);
        const enum error error = other->operations->lock(other, NULL);
        disk_posix_destroy(other);
        _exit(error == ERROR_LOG_LOCKED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    disk_posix_destroy(fixture->disk);
    fixture->disk = disk_posix_create(fixture->folder);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
}

static void path_in(const struct fixture *fixture, const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", fixture->folder, name);
}

static void a_folder_may_be_named_from_where_the_process_is(void **state)
{
    struct fixture *fixture = *state;
    const int before = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(before >= 0 && chdir(fixture->root) == 0);
    struct disk *disk = disk_posix_create("plain");
    assert_int_equal(disk->operations->lock(disk, NULL), OK);
    disk_posix_destroy(disk);
    assert_int_equal(access("plain", F_OK), 0);
    assert_true(fchdir(before) == 0 && close(before) == 0);
}

static void a_removed_lock_file_lets_nobody_in(void **state)
{
    struct fixture *fixture = *state;
    char path[128];
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
    path_in(fixture, "lock", path);
    assert_int_equal(unlink(path), 0);
    struct failure failure = {.error = OK};
    struct disk *second = disk_posix_create(fixture->folder);
    assert_int_equal(second->operations->lock(second, &failure), ERROR_LOG_LOCKED);
    assert_non_null(strstr(failure.text, "pid unknown"));
    assert_int_not_equal(access(path, F_OK), 0); /* who is refused leaves nothing behind */
    disk_posix_destroy(second);

    /* Who has gone lets the next one in. */
    disk_posix_destroy(fixture->disk);
    fixture->disk = disk_posix_create(fixture->folder);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
}

/* An earlier version locks the file only. */
static void an_owner_who_has_the_lock_file_alone_keeps_others_out(void **state)
{
    struct fixture *fixture = *state;
    char path[128];
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
    disk_posix_destroy(fixture->disk);
    path_in(fixture, "lock", path);
    const int earlier = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(earlier, LOCK_EX | LOCK_NB), 0);
    fixture->disk = disk_posix_create(fixture->folder);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), ERROR_LOG_LOCKED);
    (void)close(earlier);
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
}

/* What `spoil` does to the folder is noticed, and the text says where it was done. */
static void assert_noticed(struct fixture *fixture, void (*spoil)(const struct fixture *), const char *words)
{
    struct disk *disk = fixture->disk;
    struct disk_file *file;
    struct failure failure = {.error = OK};
    assert_int_equal(disk->operations->lock(disk, NULL), OK);
    assert_int_equal(disk->operations->create(disk, "a", &file, NULL), OK);
    assert_int_equal(disk->operations->confirm(disk, file, 0, &failure), OK);
    spoil(fixture);
    assert_int_equal(disk->operations->confirm(disk, file, 60000, &failure), OK); /* as it was a moment ago */
    assert_int_equal(disk->operations->confirm(disk, file, 0, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, fixture->folder));
    assert_non_null(strstr(failure.text, words));
    disk->operations->close(file);
}

static void remove_one(const struct fixture *fixture, const char *name)
{
    char path[128];
    path_in(fixture, name, path);
    assert_int_equal(unlink(path), 0);
}

static void remove_lock(const struct fixture *fixture)
{
    remove_one(fixture, "lock");
}

static void replace_lock(const struct fixture *fixture)
{
    char path[128];
    path_in(fixture, "lock", path);
    remove_lock(fixture);
    (void)close(open(path, O_CREAT | O_WRONLY, 0600));
}

static void remove_file(const struct fixture *fixture)
{
    remove_one(fixture, "a");
}

static void rename_folder(const struct fixture *fixture)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s.old", fixture->folder);
    assert_int_equal(rename(fixture->folder, path), 0);
}

static void remove_folder(const struct fixture *fixture)
{
    remove_lock(fixture);
    remove_file(fixture);
    assert_int_equal(rmdir(fixture->folder), 0);
}

static void replace_folder(const struct fixture *fixture)
{
    rename_folder(fixture);
    assert_int_equal(mkdir(fixture->folder, 0700), 0);
}

static void a_lock_file_that_is_removed_is_noticed(void **state)
{
    assert_noticed(*state, remove_lock, "/lock was removed or replaced");
}

static void a_lock_file_that_is_replaced_is_noticed(void **state)
{
    assert_noticed(*state, replace_lock, "/lock was removed or replaced");
}

static void a_file_that_is_removed_is_noticed(void **state)
{
    assert_noticed(*state, remove_file, "/a was removed");
}

static void a_folder_that_is_renamed_is_noticed(void **state)
{
    assert_noticed(*state, rename_folder, "was removed or renamed");
}

static void a_folder_that_is_removed_is_noticed(void **state)
{
    assert_noticed(*state, remove_folder, "was removed or renamed");
}

static void a_folder_that_is_replaced_is_noticed(void **state)
{
    assert_noticed(*state, replace_folder, "was removed or renamed");
}

static void count_file(void *context, const char *name)
{
    assert_true(name[0] != '\0');
    (*(unsigned *)context)++;
}

/* Takes all descriptors that are left; how many. */
static size_t take_all(int *taken, size_t max)
{
    size_t count = 0;
    while (count < max && (taken[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    assert_true(count < max);
    assert_int_equal(errno, EMFILE);
    return count;
}

/* valgrind counts descriptors by itself: where the limit is reached, a file is made and then not handed out. */
static bool is_under_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
}

/* What a log does for each segment, and a snapshot for its file, where the process can open nothing else any more. */
static void the_log_opens_its_files_though_no_descriptor_is_left(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    const struct disk_operations *operations = disk->operations;
    struct disk_file *current, *next, *snapshot;
    struct rlimit before, low;
    int taken[100];
    if (is_under_valgrind())
        skip();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = (struct rlimit){.rlim_cur = ARRAY_LENGTH(taken) - 1, .rlim_max = before.rlim_max};
    assert_int_equal(operations->lock(disk, NULL), OK);
    assert_int_equal(operations->create(disk, "0", &current, NULL), OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    const size_t count = take_all(taken, ARRAY_LENGTH(taken));
    for (unsigned i = 1; i <= 100; i++) {
        char name[16], old[16];
        struct failure failure = {.error = OK};
        (void)snprintf(name, sizeof(name), "%u", i);
        (void)snprintf(old, sizeof(old), "%u", i - 1);
        assert_int_equal(operations->create(disk, name, &next, &failure), OK);
        assert_int_equal(operations->create(disk, "snapshot", &snapshot, &failure), OK);
        assert_int_equal(operations->list(disk, count_file, &(unsigned){0}, &failure), OK);
        operations->close(current);
        operations->close(snapshot);
        assert_int_equal(operations->remove(disk, old, &failure), OK);
        assert_int_equal(operations->remove(disk, "snapshot", &failure), OK);
        current = next;
        assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), -1); /* the places stay the log's */
    }
    operations->close(current);
    for (size_t i = 0; i < count; i++)
        (void)close(taken[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The system tells an error once, to whoever waits first: that is not the sync at the end. */
static void a_write_aside_tells_what_has_not_arrived(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    const struct disk_operations *operations = disk->operations;
    assert_int_equal(operations->lock(disk, NULL), OK);
    struct disk_file *file;
    assert_int_equal(operations->create(disk, "a", &file, NULL), OK);
    for (unsigned turn = 0; turn < 2; turn++) {
        const atomic_bool is_hurried = turn == 1;
        disk->is_hurried = &is_hurried;
        struct failure failure = {.error = OK};
        refused_with = EIO;
        assert_int_equal(operations->write_aside(file, 4096, BYTES("lost"), &failure), ERROR_DISK_FAILED);
        assert_non_null(strstr(failure.text, "/new/deeper/a"));
        refused_with = ENOSPC;
        assert_int_equal(operations->write_aside(file, 4096, BYTES("lost"), &failure), ERROR_DISK_FULL);
        refused_with = ENOSYS; /* then it is synced as anything else */
        assert_int_equal(operations->write_aside(file, 4096, BYTES("kept"), &failure), OK);
        refused_with = 0;
        disk->is_hurried = NULL;
    }
    operations->close(file);
}

/* Large files, which several pieces make: written aside, and removed in portions, with regard for others and
 * without. */
static void large_files_give_way_or_hurry(void **state)
{
    enum { SIZE = 600000, REMOVED_SIZE = 40 << 20 };
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    const struct disk_operations *operations = disk->operations;
    assert_int_equal(operations->lock(disk, NULL), OK);
    uint8_t *written_owned = malloc(SIZE), *read_owned = malloc(SIZE);
    atomic_bool is_hurried = false;
    disk->is_hurried = &is_hurried;
    for (unsigned turn = 0; turn < 2; turn++) {
        is_hurried = turn == 1;
        struct disk_file *file;
        assert_int_equal(operations->create(disk, "a", &file, NULL), OK);
        for (unsigned at = 0; at < SIZE; at++)
            written_owned[at] = (uint8_t)(at / 1000 + turn);
        assert_int_equal(operations->write_aside(file, 100, bytes_make(written_owned, SIZE), NULL), OK);
        assert_int_equal(operations->read(file, 100, read_owned, SIZE, NULL), OK);
        assert_memory_equal(written_owned, read_owned, SIZE);
        uint64_t size;
        assert_int_equal(operations->size(file, &size, NULL), OK);
        assert_int_equal(size, 100 + SIZE);
        assert_int_equal(operations->allocate(file, REMOVED_SIZE, REMOVED_SIZE, NULL), OK);
        assert_int_equal(operations->remove(disk, "a", NULL), OK);
        /* The name has gone; the room, but for what is left of the portions, too. */
        assert_int_equal(operations->size(file, &size, NULL), OK);
        assert_int_equal(size, turn == 0 ? 1 << 20 : REMOVED_SIZE - (32 << 20));
        operations->close(file);
    }
    free(written_owned);
    free(read_owned);
    disk->is_hurried = NULL;
}

static void a_removal_that_may_not_be_durable_is_told(void **state)
{
    struct fixture *fixture = *state;
    const struct disk_operations *operations = fixture->disk->operations;
    assert_int_equal(operations->lock(fixture->disk, NULL), OK);
    struct disk_file *file;
    assert_int_equal(operations->create(fixture->disk, "a", &file, NULL), OK);
    assert_int_equal(operations->allocate(file, 4 << 20, 0, NULL), OK);
    fails_to_sync = inode_of(fixture->folder);
    struct failure failure = {.error = OK};
    assert_int_equal(operations->remove(fixture->disk, "a", &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "syncing the folder"));
    fails_to_sync = 0;
    uint64_t size;
    assert_int_equal(operations->size(file, &size, NULL), OK);
    assert_int_equal(size, 4 << 20); /* under its name, if that comes back, it is whole */
    operations->close(file);
    assert_int_equal(operations->remove(fixture->disk, "a", NULL), OK);
}

static void name_count(void *context, const char *name)
{
    assert_true(strcmp(name, "lock") == 0 || strcmp(name, "a") == 0);
    (*(int *)context)++;
}

static void files_do_what_the_log_expects_of_them(void **state)
{
    struct fixture *fixture = *state;
    struct disk *disk = fixture->disk;
    const struct disk_operations *operations = disk->operations;
    struct failure failure = {.error = OK};
    assert_int_equal(operations->lock(disk, &failure), OK);
    struct disk_file *file, *again;
    assert_int_equal(operations->open(disk, "a", &file, &failure), ERROR_DISK_FAILED);
    assert_int_equal(operations->create(disk, "a", &file, &failure), OK);
    assert_int_equal(operations->create(disk, "a", &again, &failure), ERROR_DISK_FAILED);
    assert_non_null(strstr(failure.text, "/new/deeper/a"));
    assert_int_equal(operations->allocate(file, 10000, 6000, &failure), OK);
    uint64_t size = 0;
    assert_int_equal(operations->size(file, &size, &failure), OK);
    assert_int_equal(size, 10000);

    const uint8_t *memory;
    assert_int_equal(operations->map(file, 10001, &memory, &failure), ERROR_LOG_DAMAGED);
    assert_int_equal(operations->map(file, 10000, &memory, &failure), OK);
    assert_int_equal(memory[5000], 0);
    for (unsigned tries = 0; tries < 1000000 && !operations->is_resident(disk, memory, 10000); tries++)
        sched_yield(); /* it has asked for them */
    assert_true(operations->is_resident(disk, memory + 4000, 200));
    assert_int_equal(operations->write(file, 5000, BYTES("hello"), &failure), OK);
    assert_int_equal(disk_write_synced(disk, file, 7000, BYTES("synced"), &failure), OK);
    char synced[6];
    assert_int_equal(operations->read(file, 7000, synced, sizeof(synced), &failure), OK);
    assert_memory_equal(synced, "synced", 6);
    operations->start_sync(file, 5000, 5);
    assert_int_equal(operations->sync(file, &failure), OK);
    assert_int_equal(operations->sync_folder(disk, &failure), OK);
    operations->drop_cache(file);
    assert_memory_equal(memory + 5000, "hello", 5);
    char read[5];
    assert_int_equal(operations->read(file, 5000, read, sizeof(read), &failure), OK);
    assert_memory_equal(read, "hello", 5);
    assert_int_equal(operations->read(file, 9996, read, sizeof(read), &failure), ERROR_LOG_DAMAGED);
    assert_non_null(strstr(failure.text, "truncated"));

    operations->close(file);
    assert_int_equal(operations->rename(disk, "a", "b", &failure), OK);
    assert_int_equal(operations->rename(disk, "a", "b", &failure), ERROR_DISK_FAILED);
    assert_int_equal(operations->remove(disk, "b", &failure), OK);
    assert_int_equal(operations->remove(disk, "b", &failure), OK); /* there is none any more */
    assert_memory_equal(memory + 5000, "hello", 5);                /* a map outlives its file and its name */
    operations->unmap(disk, memory, 10000);

    assert_int_equal(operations->create(disk, "a", &file, &failure), OK);
    operations->close(file);
    char folder[128];
    (void)snprintf(folder, sizeof(folder), "%s/subfolder", fixture->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    int count = 0;
    assert_int_equal(operations->list(disk, name_count, &count, &failure), OK);
    assert_int_equal(count, 2);
}

static void a_log_on_a_real_disk_survives_a_restart(void **state)
{
    struct fixture *fixture = *state;
    struct log_rig rig;
    log_rig_init(&rig, fixture->disk);
    for (int life = 1; life <= 3; life++) {
        assert_int_equal(log_rig_open(&rig), OK);
        assert_int_equal(rig.is_new, life == 1);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(log_rig_write(&rig, 1000), OK);
            while (log_prepare(rig.log)) {
            }
            uint8_t expected[1000];
            log_rig_payload(rig.sequence, sizeof(expected), expected);
            assert_memory_equal(log_read(rig.log, rig.position + FRAME_HEADER_SIZE, 1000), expected, 1000);
        }
        if (life == 2)
            assert_int_equal(log_rig_snapshot(&rig, BYTES("state")), OK);
        log_rig_close(&rig);
    }
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.sequence, 60);
    assert_int_equal(rig.replayed, 20);
    log_rig_deinit(&rig);
}

/* All that the log waits for meanwhile. A file of this size in portions would be eight syncs and as many pauses. */
static void a_segment_that_finds_no_room_is_gone_at_once(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fixture->disk->operations->lock(fixture->disk, NULL), OK);
    struct segment_draft draft;
    segment_draft_init(&draft, fixture->disk, NULL);
    struct failure failure = {.error = OK};
    has_no_room = true;
    syncs = 0;
    assert_int_equal(segment_draft_begin(&draft, 0, 9 << 20, 8 << 20, &failure), ERROR_DISK_FULL);
    has_no_room = false;
    assert_int_equal(syncs, 0);
    assert_null(draft.file);
    struct disk_file *file;
    assert_int_equal(fixture->disk->operations->open(fixture->disk, "0000000000000000.segment", &file, NULL),
                     ERROR_DISK_FAILED);
    assert_int_equal(segment_draft_begin(&draft, 0, 9 << 20, 8 << 20, &failure), OK);
    segment_draft_deinit(&draft);
}

/* A file that became shorter behind its map is as one whose sectors can't be read: whoever touches that page is
 * killed. */
static void what_the_disk_does_not_give_is_not_handed_out(void **state)
{
    struct fixture *fixture = *state;
    for (unsigned turn = 0; turn < 2; turn++) {
        knows_no_populate = turn == 1;
        struct log_rig rig;
        log_rig_init(&rig, fixture->disk);
        rig.options.segment_size = 1 << 20;
        assert_int_equal(log_rig_open(&rig), OK);
        for (int i = 0; i < 20; i++)
            assert_int_equal(log_rig_write(&rig, 2900), OK);
        const uint64_t position = rig.position + FRAME_HEADER_SIZE;
        (void)log_is_resident(rig.log, position, 2900);
        assert_int_equal(truncate_segment(fixture, 8192), 0);
        assert_null(log_read(rig.log, position, 2900));
        assert_null(log_read(rig.log, 8000, 1000));
        const uint8_t *given = log_read(rig.log, 7000, 1000);
        assert_non_null(given);
        assert_int_not_equal(given[999], 0);
        assert_ptr_equal(log_read(rig.log, 7500, 100), given + 500);
        log_rig_deinit(&rig);
        assert_int_equal(fixture->disk->operations->remove(fixture->disk, "0000000000000000.segment", NULL), OK);
    }
    knows_no_populate = false;
}

/* A frame of which little arrived, over room that it never got: cutting it must not ask for that, for there may be
 * none. */
static void cutting_a_torn_frame_needs_no_room(void **state)
{
    enum { TORN_AT = 2048, HOLE_AT = 16384, TORN_SIZE = 40448 };
    struct fixture *fixture = *state;
    struct log_rig rig;
    log_rig_init(&rig, fixture->disk);
    rig.options = (struct log_options){.segment_size = 131072, .frame_size_max = 61440};
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(log_rig_write(&rig, 1400), OK);
    assert_int_equal(log_rig_write(&rig, 40000), OK);
    assert_int_equal(rig.position, TORN_AT);
    assert_int_equal(rig.frame.size, TORN_SIZE);
    log_rig_close(&rig);
    char path[128];
    segment_path(fixture, path);
    const int descriptor = open(path, O_RDWR);
    assert_int_equal(fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOLE_AT, 131072 - HOLE_AT), 0);
    struct stat before, after;
    assert_int_equal(fsync(descriptor), 0);
    assert_int_equal(fstat(descriptor, &before), 0);
    assert_int_equal(log_rig_open(&rig), OK);
    assert_int_equal(rig.replayed, 1);
    assert_int_equal(fsync(descriptor), 0);
    assert_int_equal(fstat(descriptor, &after), 0);
    assert_int_equal(after.st_blocks, before.st_blocks);
    uint8_t *torn_owned = malloc(TORN_SIZE);
    assert_int_equal(pread(descriptor, torn_owned, TORN_SIZE, TORN_AT), TORN_SIZE);
    assert_true(frame_bytes_are_zero(bytes_make(torn_owned, TORN_SIZE)));
    free(torn_owned);
    (void)close(descriptor);
    assert_int_equal(log_rig_write(&rig, 1400), OK);
    log_rig_deinit(&rig);
}

/* In a child with a mount namespace of its own; where that is not allowed, nothing can be said. */
static int full_file_system_try(const char *root)
{
    enum { PASSED = 0, FAILED = 1, SKIPPED = 2 };
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") != 0 ||
        mount("tmpfs", root, "tmpfs", 0, "size=24k") != 0)
        return SKIPPED;
    struct disk *disk = disk_posix_create(root);
    struct log_rig rig;
    log_rig_init(&rig, disk);
    if (log_rig_open(&rig) != OK)
        return FAILED;
    uint64_t durable = 0;
    enum error error;
    while ((error = log_rig_write(&rig, 1900)) == OK)
        durable++;
    if (error != ERROR_DISK_FULL || durable == 0 || strstr(rig.failure.text, "No space left on device") == NULL ||
        strstr(rig.failure.text, "Make room") == NULL)
        return FAILED;
    log_rig_close(&rig);
    if (log_rig_open(&rig) != OK || rig.sequence != durable)
        return FAILED;
    log_rig_deinit(&rig);
    disk_posix_destroy(disk);
    return PASSED;
}

static void a_full_file_system_loses_nothing(void **state)
{
    struct fixture *fixture = *state;
    const pid_t child = fork();
    if (child == 0)
        _exit(full_file_system_try(fixture->root));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define WITH_DISK(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        WITH_DISK(a_write_aside_tells_what_has_not_arrived),
        WITH_DISK(large_files_give_way_or_hurry),
        WITH_DISK(a_missing_folder_is_made_with_its_parents),
        WITH_DISK(the_room_is_told_before_there_is_a_folder),
        WITH_DISK(a_folder_that_is_there_is_made_durable_with_its_parent),
        WITH_DISK(a_folder_that_is_a_file_is_reported),
        WITH_DISK(a_folder_where_nothing_may_be_written_is_reported_with_the_reason),
        WITH_DISK(a_folder_has_one_owner),
        WITH_DISK(a_folder_may_be_named_from_where_the_process_is),
        WITH_DISK(the_log_opens_its_files_though_no_descriptor_is_left),
        WITH_DISK(a_removed_lock_file_lets_nobody_in),
        WITH_DISK(an_owner_who_has_the_lock_file_alone_keeps_others_out),
        WITH_DISK(a_lock_file_that_is_removed_is_noticed),
        WITH_DISK(a_lock_file_that_is_replaced_is_noticed),
        WITH_DISK(a_file_that_is_removed_is_noticed),
        WITH_DISK(a_folder_that_is_renamed_is_noticed),
        WITH_DISK(a_folder_that_is_removed_is_noticed),
        WITH_DISK(a_folder_that_is_replaced_is_noticed),
        WITH_DISK(a_removal_that_may_not_be_durable_is_told),
        WITH_DISK(files_do_what_the_log_expects_of_them),
        WITH_DISK(a_log_on_a_real_disk_survives_a_restart),
        WITH_DISK(a_segment_that_finds_no_room_is_gone_at_once),
        WITH_DISK(what_the_disk_does_not_give_is_not_handed_out),
        WITH_DISK(cutting_a_torn_frame_needs_no_room),
        WITH_DISK(a_full_file_system_loses_nothing),
    };
    return cmocka_run_group_tests_name("log disk", tests, NULL, NULL);
}
