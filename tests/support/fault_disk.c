/* A disk with one fault. See fault_disk.h. */
#include "support/fault_disk.h"

#include "base/assert.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>

struct fault {
    bool is_armed;
    uint64_t countdown;
    enum error error;
    uint64_t count;
};

struct fault_disk {
    struct disk disk;
    struct disk *inner;
    pthread_mutex_t mutex;
    struct fault faults[FAULT_OPERATION_COUNT];
};

struct disk_file {
    struct fault_disk *owner;
    struct disk_file *inner;
};

static struct fault_disk *fault_disk_of(struct disk *disk)
{
    ASSERT(disk != NULL);
    return CONTAINER_OF(disk, struct fault_disk, disk);
}

/* OK: the operation goes on to the inner disk. */
static enum error attempt(struct fault_disk *fault_disk, enum fault_operation operation, struct failure *failure)
{
    ASSERT(operation < FAULT_OPERATION_COUNT);
    (void)pthread_mutex_lock(&fault_disk->mutex);
    struct fault *fault = &fault_disk->faults[operation];
    fault->count++;
    enum error error = OK;
    if (fault->is_armed && fault->countdown-- == 0) {
        fault->is_armed = false;
        error = fault->error;
    }
    (void)pthread_mutex_unlock(&fault_disk->mutex);
    return error == OK ? OK
                       : failure_set(failure, error, "an operation on %s failed (injected).", fault_disk->disk.folder);
}

static enum error fault_lock(struct disk *disk, struct failure *failure)
{
    struct disk *inner = fault_disk_of(disk)->inner;
    return inner->operations->lock(inner, failure);
}

static enum error fault_list(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                             struct failure *failure)
{
    struct disk *inner = fault_disk_of(disk)->inner;
    return inner->operations->list(inner, visit, context, failure);
}

static struct disk_file *file_wrap(struct fault_disk *fault_disk, struct disk_file *inner)
{
    struct disk_file *file = memory_allocate(sizeof(*file));
    *file = (struct disk_file){.owner = fault_disk, .inner = inner};
    return file;
}

static enum error fault_open(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    struct fault_disk *fault_disk = fault_disk_of(disk);
    struct disk_file *inner;
    const enum error error = fault_disk->inner->operations->open(fault_disk->inner, name, &inner, failure);
    if (error == OK)
        *file = file_wrap(fault_disk, inner);
    return error;
}

static enum error fault_create(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    struct fault_disk *fault_disk = fault_disk_of(disk);
    struct disk_file *inner;
    enum error error = attempt(fault_disk, FAULT_CREATE, failure);
    if (error == OK)
        error = fault_disk->inner->operations->create(fault_disk->inner, name, &inner, failure);
    if (error == OK)
        *file = file_wrap(fault_disk, inner);
    return error;
}

static void fault_close(struct disk_file *file)
{
    file->owner->inner->operations->close(file->inner);
    free(file);
}

static enum error fault_size(struct disk_file *file, uint64_t *size, struct failure *failure)
{
    return file->owner->inner->operations->size(file->inner, size, failure);
}

static void fault_drop_cache(struct disk_file *file)
{
    file->owner->inner->operations->drop_cache(file->inner);
}

static enum error fault_allocate(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure)
{
    const enum error error = attempt(file->owner, FAULT_ALLOCATE, failure);
    return error != OK ? error : file->owner->inner->operations->allocate(file->inner, size, room, failure);
}

static enum error fault_reserve(struct disk_file *file, uint64_t size, struct failure *failure)
{
    const enum error error = attempt(file->owner, FAULT_ALLOCATE, failure);
    return error != OK ? error : file->owner->inner->operations->reserve(file->inner, size, failure);
}

static enum error fault_room(struct disk *disk, struct disk_room *room, struct failure *failure)
{
    struct disk *inner = fault_disk_of(disk)->inner;
    return inner->operations->room(inner, room, failure);
}

static enum error fault_read(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure)
{
    const enum error error = attempt(file->owner, FAULT_READ, failure);
    return error != OK ? error : file->owner->inner->operations->read(file->inner, offset, data, size, failure);
}

static enum error fault_write(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    const enum error error = attempt(file->owner, FAULT_WRITE, failure);
    return error != OK ? error : file->owner->inner->operations->write(file->inner, offset, data, failure);
}

static enum error fault_sync(struct disk_file *file, struct failure *failure)
{
    const enum error error = attempt(file->owner, FAULT_SYNC, failure);
    return error != OK ? error : file->owner->inner->operations->sync(file->inner, failure);
}

static enum error fault_write_synced(struct disk_file *file, uint64_t offset, struct bytes data,
                                     struct failure *failure)
{
    const struct disk *inner = file->owner->inner;
    enum error error = attempt(file->owner, FAULT_WRITE, failure);
    if (error != OK)
        return error;
    error = attempt(file->owner, FAULT_SYNC, failure);
    if (error == OK)
        return disk_write_synced(inner, file->inner, offset, data, failure);
    (void)inner->operations->write(file->inner, offset, data, NULL);
    return error;
}

static void fault_start_sync(struct disk_file *file, uint64_t offset, uint64_t size)
{
    file->owner->inner->operations->start_sync(file->inner, offset, size);
}

static enum error fault_sync_folder(struct disk *disk, struct failure *failure)
{
    struct fault_disk *fault_disk = fault_disk_of(disk);
    const enum error error = attempt(fault_disk, FAULT_SYNC_FOLDER, failure);
    return error != OK ? error : fault_disk->inner->operations->sync_folder(fault_disk->inner, failure);
}

static enum error fault_rename(struct disk *disk, const char *from, const char *to, struct failure *failure)
{
    struct fault_disk *fault_disk = fault_disk_of(disk);
    const enum error error = attempt(fault_disk, FAULT_RENAME, failure);
    return error != OK ? error : fault_disk->inner->operations->rename(fault_disk->inner, from, to, failure);
}

static enum error fault_remove(struct disk *disk, const char *name, struct failure *failure)
{
    struct fault_disk *fault_disk = fault_disk_of(disk);
    const enum error error = attempt(fault_disk, FAULT_REMOVE, failure);
    return error != OK ? error : fault_disk->inner->operations->remove(fault_disk->inner, name, failure);
}

static enum error fault_map(struct disk_file *file, uint64_t size, const uint8_t **memory, struct failure *failure)
{
    return file->owner->inner->operations->map(file->inner, size, memory, failure);
}

static void fault_unmap(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    struct disk *inner = fault_disk_of(disk)->inner;
    inner->operations->unmap(inner, memory, size);
}

static bool fault_is_at_hand(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    struct disk *inner = fault_disk_of(disk)->inner;
    return inner->operations->is_resident(inner, memory, size);
}

static bool fault_is_readable(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    struct disk *inner = fault_disk_of(disk)->inner;
    return inner->operations->is_readable(inner, memory, size);
}

static const struct disk_operations fault_operations = {
    .lock = fault_lock,
    .list = fault_list,
    .open = fault_open,
    .create = fault_create,
    .close = fault_close,
    .size = fault_size,
    .drop_cache = fault_drop_cache,
    .allocate = fault_allocate,
    .reserve = fault_reserve,
    .room = fault_room,
    .read = fault_read,
    .write = fault_write,
    .sync = fault_sync,
    .write_synced = fault_write_synced,
    .start_sync = fault_start_sync,
    .write_aside = fault_write,
    .sync_folder = fault_sync_folder,
    .rename = fault_rename,
    .remove = fault_remove,
    .map = fault_map,
    .unmap = fault_unmap,
    .is_resident = fault_is_at_hand,
    .is_readable = fault_is_readable,
};

struct disk *fault_disk_create(struct disk *inner)
{
    struct fault_disk *fault_disk = memory_allocate_zeroed(sizeof(*fault_disk));
    fault_disk->disk = (struct disk){.operations = &fault_operations, .folder = inner->folder};
    fault_disk->inner = inner;
    const int result = pthread_mutex_init(&fault_disk->mutex, NULL);
    ASSERT(result == 0);
    return &fault_disk->disk;
}

void fault_disk_destroy(struct disk *disk)
{
    struct fault_disk *fault_disk = fault_disk_of(disk);
    (void)pthread_mutex_destroy(&fault_disk->mutex);
    free(fault_disk);
}

void fault_disk_fail_after(struct disk *disk, enum fault_operation operation, uint64_t count, enum error error)
{
    ASSERT(operation < FAULT_OPERATION_COUNT && error != OK);
    struct fault_disk *fault_disk = fault_disk_of(disk);
    (void)pthread_mutex_lock(&fault_disk->mutex);
    struct fault *fault = &fault_disk->faults[operation];
    fault->is_armed = true;
    fault->countdown = count;
    fault->error = error;
    (void)pthread_mutex_unlock(&fault_disk->mutex);
}

uint64_t fault_disk_count(struct disk *disk, enum fault_operation operation)
{
    ASSERT(operation < FAULT_OPERATION_COUNT);
    struct fault_disk *fault_disk = fault_disk_of(disk);
    (void)pthread_mutex_lock(&fault_disk->mutex);
    const uint64_t count = fault_disk->faults[operation].count;
    (void)pthread_mutex_unlock(&fault_disk->mutex);
    return count;
}
