/* The disk in memory. See memory_disk.h.
 *
 * A file's bytes exist twice: `live` is what a reader sees, `durable` what is on the platter. Per sector a state says
 * how they relate. The folder exists twice likewise, with the list of changes between the two. */
#include "support/memory_disk.h"

#include "base/assert.h"
#include "base/memory.h"
#include "support/history.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SECTOR_SIZE 512u
#define NAME_SIZE 64u

enum sector_state {
    SECTOR_CLEAN = 0, /* live equals durable */
    SECTOR_DIRTY,     /* written, not synced: a crash decides */
    SECTOR_LOST,      /* a sync failed: live until the cache is dropped or the disk crashes, then gone */
};

struct inode {
    uint8_t *live_owned; /* `capacity` bytes; never moves while mapped */
    uint8_t *durable_owned;
    uint8_t *states_owned;  /* one for each sector */
    uint64_t unclean_first; /* sectors from here up to unclean_end may be other than clean, no others */
    uint64_t unclean_end;
    uint64_t capacity; /* a multiple of SECTOR_SIZE */
    uint64_t size_live;
    uint64_t size_durable;

    /* Bytes from the first on that have room on the disk, durably: at least size_live but for a hole at the end. */
    uint64_t room;
    uint32_t references; /* names in both folders and in pending changes, open files, maps */
    uint32_t maps;
    uint64_t unreadable; /* offset of a byte that can't be looked at; 0: none */
    struct inode *next;  /* all inodes of the disk */
};

struct entry {
    char name[NAME_SIZE];
    struct inode *inode;
};

struct folder {
    struct entry *entries_owned;
    size_t count;
};

enum change_kind { CHANGE_CREATE, CHANGE_RENAME, CHANGE_REMOVE };

struct change {
    enum change_kind kind;
    char name[NAME_SIZE];
    char to[NAME_SIZE];
    struct inode *inode; /* CHANGE_CREATE, CHANGE_RENAME */
};

struct memory_disk {
    struct disk disk;
    pthread_mutex_t mutex;
    uint64_t random;
    struct inode *inodes;
    struct folder live;
    struct folder durable;
    struct change *changes_owned; /* of live, not yet of durable */
    size_t change_count;
    uint64_t capacity;
    uint64_t operations;
    enum memory_disk_fault fault;
    uint64_t fault_countdown;
    bool has_failed;
    bool is_stopped;
    bool is_locked_elsewhere;
    bool leaves_reads_alone;
};

struct disk_file {
    struct memory_disk *owner;
    struct inode *inode;
    char name[NAME_SIZE];
};

static struct memory_disk *memory_disk_of(struct disk *disk)
{
    ASSERT(disk != NULL);
    return CONTAINER_OF(disk, struct memory_disk, disk);
}

static struct memory_disk *lock_mutex(struct disk *disk)
{
    struct memory_disk *memory = memory_disk_of(disk);
    (void)pthread_mutex_lock(&memory->mutex);
    return memory;
}

static void unlock_mutex(struct memory_disk *memory)
{
    (void)pthread_mutex_unlock(&memory->mutex);
}

/* SplitMix64. */
static uint64_t draw(struct memory_disk *memory)
{
    uint64_t z = memory->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool draw_bool(struct memory_disk *memory)
{
    return (draw(memory) & 1) != 0;
}

/* --- Inodes ------------------------------------------------------------------------------------------------------- */

static struct inode *inode_create(struct memory_disk *memory)
{
    struct inode *inode = memory_allocate_zeroed(sizeof(*inode));
    inode->next = memory->inodes;
    memory->inodes = inode;
    return inode;
}

static void inode_release(struct memory_disk *memory, struct inode *inode)
{
    ASSERT(inode->references > 0);
    if (--inode->references > 0)
        return;
    struct inode **at = &memory->inodes;
    while (*at != inode)
        at = &(*at)->next;
    *at = inode->next;
    free(inode->live_owned);
    free(inode->durable_owned);
    free(inode->states_owned);
    free(inode);
}

/* Zeros behind what there is. Of a new one the system may have them without a touch: most of a segment is never
 * written. */
static uint8_t *grow_zeroed(uint8_t *owned, uint64_t before, uint64_t capacity)
{
    if (before == 0)
        return memory_allocate_zeroed(capacity);
    owned = memory_resize(owned, capacity);
    memset(owned + before, 0, capacity - before);
    return owned;
}

static void inode_grow(struct inode *inode, uint64_t size)
{
    if (size <= inode->capacity)
        return;
    ASSERT(inode->maps == 0);
    uint64_t capacity = inode->capacity * 2 > size ? inode->capacity * 2 : size;
    capacity = (capacity + SECTOR_SIZE - 1) / SECTOR_SIZE * SECTOR_SIZE;
    const uint64_t before = inode->capacity;
    inode->live_owned = grow_zeroed(inode->live_owned, before, capacity);
    inode->durable_owned = grow_zeroed(inode->durable_owned, before, capacity);
    inode->states_owned = memory_resize(inode->states_owned, capacity / SECTOR_SIZE);
    memset(inode->states_owned + before / SECTOR_SIZE, SECTOR_CLEAN, (capacity - before) / SECTOR_SIZE);
    inode->capacity = capacity;
}

static void sectors_dirty(struct inode *inode, uint64_t first, uint64_t end)
{
    if (first >= end)
        return;
    memset(inode->states_owned + first, SECTOR_DIRTY, end - first);
    const bool is_first = inode->unclean_first == inode->unclean_end;
    if (is_first || first < inode->unclean_first)
        inode->unclean_first = first;
    if (is_first || end > inode->unclean_end)
        inode->unclean_end = end;
}

static uint64_t sectors_of(uint64_t size)
{
    return (size + SECTOR_SIZE - 1) / SECTOR_SIZE;
}

/* Sets the size a reader sees; what lies behind it is zero, in case the file grows again. */
static void inode_resize(struct inode *inode, uint64_t size)
{
    inode_grow(inode, size);
    if (size < inode->size_live) {
        memset(inode->live_owned + size, 0, inode->size_live - size);
        sectors_dirty(inode, size / SECTOR_SIZE, sectors_of(inode->size_live));
    }
    inode->size_live = size;
}

static void inode_write(struct inode *inode, uint64_t offset, struct bytes data)
{
    if (data.size == 0)
        return;
    if (offset + data.size > inode->size_live)
        inode_resize(inode, offset + data.size);
    memcpy(inode->live_owned + offset, data.ptr, data.size);
    sectors_dirty(inode, offset / SECTOR_SIZE, sectors_of(offset + data.size));
}

static void sector_settle(struct inode *inode, uint64_t sector, bool is_kept)
{
    uint8_t *live = inode->live_owned + sector * SECTOR_SIZE, *durable = inode->durable_owned + sector * SECTOR_SIZE;
    memcpy(is_kept ? durable : live, is_kept ? live : durable, SECTOR_SIZE);
    inode->states_owned[sector] = SECTOR_CLEAN;
}

/* Everything dirty becomes durable. */
static void inode_sync(struct inode *inode)
{
    bool is_clean = true;
    for (uint64_t sector = inode->unclean_first; sector < inode->unclean_end; sector++) {
        if (inode->states_owned[sector] == SECTOR_DIRTY)
            sector_settle(inode, sector, true);
        is_clean = is_clean && inode->states_owned[sector] == SECTOR_CLEAN;
    }
    if (is_clean)
        inode->unclean_first = inode->unclean_end = 0;
    inode->size_durable = inode->size_live;
}

/* Only these sectors become durable, and the size with them. */
static void inode_sync_sectors(struct inode *inode, uint64_t first, uint64_t end)
{
    for (uint64_t sector = first; sector < end; sector++)
        if (inode->states_owned[sector] == SECTOR_DIRTY)
            sector_settle(inode, sector, true);
    if (first <= inode->unclean_first && end >= inode->unclean_end)
        inode->unclean_first = inode->unclean_end = 0;
    inode->size_durable = inode->size_live;
}

/* Some of what is dirty becomes durable, the rest never will. */
static void inode_sync_badly(struct memory_disk *memory, struct inode *inode)
{
    for (uint64_t sector = inode->unclean_first; sector < inode->unclean_end; sector++) {
        if (inode->states_owned[sector] != SECTOR_DIRTY)
            continue;
        if (draw_bool(memory))
            sector_settle(inode, sector, true);
        else
            inode->states_owned[sector] = SECTOR_LOST;
    }
    if (draw_bool(memory) && inode->size_live > inode->size_durable)
        inode->size_durable = inode->size_live;
}

/* After a crash, what is readable is what is durable. Four tempers, since pure chance rarely keeps or drops
 * everything. */
static void inode_crash(struct memory_disk *memory, struct inode *inode)
{
    enum { KEEP_ALL, DROP_ALL, KEEP_FIRST, KEEP_SOME } temper = draw(memory) % 4;
    if (inode->size_live != inode->size_durable) {
        const bool is_kept = temper == KEEP_ALL || (temper != DROP_ALL && draw_bool(memory));
        if (!is_kept)
            inode_resize(inode, inode->size_durable);
        inode->size_durable = inode->size_live;
    }
    bool is_first = true;
    for (uint64_t sector = inode->unclean_first; sector < inode->unclean_end; sector++) {
        if (inode->states_owned[sector] == SECTOR_CLEAN)
            continue;
        is_first = is_first && draw(memory) % 4 != 0;
        const bool is_kept =
            temper == KEEP_ALL || (temper == KEEP_FIRST && is_first) || (temper == KEEP_SOME && draw_bool(memory));
        sector_settle(inode, sector, is_kept && inode->states_owned[sector] == SECTOR_DIRTY);
    }
    inode->unclean_first = inode->unclean_end = 0;
    /* A sector may have come back from before the file was cut short. */
    if (inode->capacity > inode->size_live) {
        memset(inode->live_owned + inode->size_live, 0, inode->capacity - inode->size_live);
        memset(inode->durable_owned + inode->size_live, 0, inode->capacity - inode->size_live);
    }
}

/* --- Folders ------------------------------------------------------------------------------------------------------ */

static struct entry *folder_find(const struct folder *folder, const char *name)
{
    for (size_t i = 0; i < folder->count; i++)
        if (strcmp(folder->entries_owned[i].name, name) == 0)
            return &folder->entries_owned[i];
    return NULL;
}

static void name_copy(char to[NAME_SIZE], const char *name)
{
    ASSERT(strlen(name) < NAME_SIZE);
    memcpy(to, name, strlen(name) + 1);
}

static void folder_add(struct folder *folder, const char *name, struct inode *inode)
{
    ASSERT(folder_find(folder, name) == NULL);
    folder->entries_owned = memory_resize(folder->entries_owned, (folder->count + 1) * sizeof(*folder->entries_owned));
    struct entry *entry = &folder->entries_owned[folder->count++];
    name_copy(entry->name, name);
    entry->inode = inode;
    inode->references++;
}

static void folder_remove(struct memory_disk *memory, struct folder *folder, const char *name)
{
    struct entry *entry = folder_find(folder, name);
    ASSERT(entry != NULL);
    struct inode *inode = entry->inode;
    *entry = folder->entries_owned[--folder->count];
    inode_release(memory, inode);
}

/* Applies a change where that is still possible: what it builds on may have been lost. */
static void change_apply(struct memory_disk *memory, struct folder *folder, const struct change *change)
{
    struct entry *entry = folder_find(folder, change->name);
    switch (change->kind) {
    case CHANGE_CREATE:
        if (entry == NULL)
            folder_add(folder, change->name, change->inode);
        break;
    case CHANGE_RENAME:
        /* A rename moves its own file: never one of the same name that was removed or made before. */
        if (entry == NULL || entry->inode != change->inode)
            break;
        if (folder_find(folder, change->to) != NULL)
            folder_remove(memory, folder, change->to);
        name_copy(folder_find(folder, change->name)->name, change->to);
        break;
    case CHANGE_REMOVE:
        if (entry != NULL)
            folder_remove(memory, folder, change->name);
        break;
    }
}

static void change_add(struct memory_disk *memory, enum change_kind kind, const char *name, const char *to,
                       struct inode *inode)
{
    struct change change = {.kind = kind, .inode = inode};
    name_copy(change.name, name);
    if (to != NULL)
        name_copy(change.to, to);
    if (inode != NULL)
        inode->references++;
    memory->changes_owned =
        memory_resize(memory->changes_owned, (memory->change_count + 1) * sizeof(*memory->changes_owned));
    memory->changes_owned[memory->change_count++] = change;
    change_apply(memory, &memory->live, &change);
}

static void changes_clear(struct memory_disk *memory)
{
    for (size_t i = 0; i < memory->change_count; i++)
        if (memory->changes_owned[i].inode != NULL)
            inode_release(memory, memory->changes_owned[i].inode);
    memory->change_count = 0;
}

/* Makes pending changes durable: all, or each as chance will have it. */
static void changes_settle(struct memory_disk *memory, bool is_all)
{
    for (size_t i = 0; i < memory->change_count; i++)
        if (is_all || draw_bool(memory))
            change_apply(memory, &memory->durable, &memory->changes_owned[i]);
    changes_clear(memory);
}

static void folder_clear(struct memory_disk *memory, struct folder *folder)
{
    while (folder->count > 0)
        folder_remove(memory, folder, folder->entries_owned[0].name);
}

/* --- Faults ------------------------------------------------------------------------------------------------------- */

enum operation_class { OPERATION_READ, OPERATION_GROW, OPERATION_SYNC, OPERATION_NAME };

static bool fault_hits(enum memory_disk_fault fault, enum operation_class class)
{
    switch (fault) {
    case MEMORY_DISK_FAULT_NONE:
        return false;
    case MEMORY_DISK_FAIL_READ:
        return class == OPERATION_READ;
    case MEMORY_DISK_FAIL_WRITE:
    case MEMORY_DISK_FULL:
        return class == OPERATION_GROW;
    case MEMORY_DISK_FAIL_SYNC:
        return class == OPERATION_SYNC;
    case MEMORY_DISK_STOP:
        return class != OPERATION_READ;
    }
    return false;
}

/* What becomes of an operation. */
struct attempt {
    enum error error; /* OK: it proceeds */
    bool is_half;     /* it fails, but part of it happens */
};

/* Of what is read, or done with it afterwards. */
static void note_reading(const struct memory_disk *memory, struct bytes seen)
{
    if (!memory->leaves_reads_alone)
        history_note(seen);
}

static struct attempt operation_begin(struct memory_disk *memory, enum operation_class class, const char *what,
                                      const char *name, struct failure *failure)
{
    if (class == OPERATION_READ && memory->leaves_reads_alone && !memory->is_stopped)
        return (struct attempt){.error = OK};
    history_note(bytes_from_string(what));
    history_note(bytes_from_string(name));
    if (class != OPERATION_READ)
        memory->operations++;
    const bool was_stopped = memory->is_stopped;
    if (!was_stopped && (!fault_hits(memory->fault, class) || memory->fault_countdown-- > 0))
        return (struct attempt){.error = OK};
    const bool is_full = memory->fault == MEMORY_DISK_FULL;
    if (!was_stopped) {
        memory->has_failed = true;
        memory->is_stopped = memory->fault == MEMORY_DISK_STOP;
        memory->fault = MEMORY_DISK_FAULT_NONE;
    }
    return (struct attempt){
        .error = failure_set(failure, is_full ? ERROR_DISK_FULL : ERROR_DISK_FAILED, "%s %s/%s failed: %s.", what,
                             memory->disk.folder, name, is_full ? "no space left (injected)" : "I/O error (injected)"),
        .is_half = !was_stopped,
    };
}

static uint64_t used_bytes(const struct memory_disk *memory)
{
    uint64_t used = 0;
    for (const struct inode *inode = memory->inodes; inode != NULL; inode = inode->next)
        used += inode->room;
    return used;
}

/* Gets room for the file's first `size` bytes. */
static enum error room_take(struct memory_disk *memory, const struct disk_file *file, uint64_t size,
                            struct failure *failure)
{
    if (size <= file->inode->room)
        return OK;
    if (memory->capacity != UINT64_MAX && used_bytes(memory) - file->inode->room + size > memory->capacity)
        return failure_set(failure, ERROR_DISK_FULL, "growing %s/%s to %" PRIu64 " bytes failed: no space left.",
                           memory->disk.folder, file->name, size);
    file->inode->room = size;
    return OK;
}

/* --- The operations ----------------------------------------------------------------------------------------------- */

static enum error memory_lock(struct disk *disk, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(disk);
    enum error error = OK;
    if (memory->is_locked_elsewhere)
        error =
            failure_set(failure, ERROR_LOG_LOCKED, "The folder %s belongs to another process (pid 0).", disk->folder);
    unlock_mutex(memory);
    return error;
}

static enum error memory_list(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                              struct failure *failure)
{
    (void)failure;
    struct memory_disk *memory = lock_mutex(disk);
    const size_t count = memory->live.count;
    struct entry *entries = memory_allocate(count * sizeof(*entries));
    if (count > 0)
        memcpy(entries, memory->live.entries_owned, count * sizeof(*entries));
    unlock_mutex(memory);
    for (size_t i = 0; i < count; i++)
        visit(context, entries[i].name);
    free(entries);
    return OK;
}

static struct disk_file *file_make(struct memory_disk *memory, const char *name, struct inode *inode)
{
    struct disk_file *file = memory_allocate_zeroed(sizeof(*file));
    file->owner = memory;
    file->inode = inode;
    inode->references++;
    name_copy(file->name, name);
    return file;
}

static enum error memory_open(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(disk);
    const struct entry *entry = folder_find(&memory->live, name);
    enum error error = OK;
    if (memory->is_stopped || entry == NULL)
        error = failure_set(failure, ERROR_DISK_FAILED, "opening %s/%s failed: no such file.", disk->folder, name);
    else
        *file = file_make(memory, name, entry->inode);
    unlock_mutex(memory);
    return error;
}

static enum error memory_create(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(disk);
    struct attempt attempt = operation_begin(memory, OPERATION_GROW, "creating", name, failure);
    if (attempt.error == OK && folder_find(&memory->live, name) != NULL)
        attempt.error =
            failure_set(failure, ERROR_DISK_FAILED, "creating %s/%s failed: file exists.", disk->folder, name);
    if (attempt.error == OK) {
        struct inode *inode = inode_create(memory);
        change_add(memory, CHANGE_CREATE, name, NULL, inode);
        *file = file_make(memory, name, inode);
    }
    unlock_mutex(memory);
    return attempt.error;
}

static void memory_close(struct disk_file *file)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    note_reading(memory, bytes_from_string("closing"));
    note_reading(memory, bytes_from_string(file->name));
    inode_release(memory, file->inode);
    free(file);
    unlock_mutex(memory);
}

static enum error memory_size(struct disk_file *file, uint64_t *size, struct failure *failure)
{
    (void)failure;
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    *size = file->inode->size_live;
    unlock_mutex(memory);
    return OK;
}

/* What a failed sync did not bring to the disk is gone from here on. */
static void memory_drop_cache(struct disk_file *file)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    struct inode *inode = file->inode;
    for (uint64_t sector = inode->unclean_first; sector < inode->unclean_end; sector++)
        if (inode->states_owned[sector] == SECTOR_LOST)
            sector_settle(inode, sector, false);
    unlock_mutex(memory);
}

static enum error memory_allocate_file(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure)
{
    ASSERT(room <= size);
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    struct attempt attempt = operation_begin(memory, OPERATION_GROW, "allocating", file->name, failure);
    history_note_number(size);
    history_note_number(room);
    if (attempt.error == OK)
        attempt.error = room_take(memory, file, room, failure);
    if (attempt.error == OK && size < file->inode->size_live && size < file->inode->room)
        file->inode->room = size;
    if (attempt.error == OK)
        inode_resize(file->inode, size);
    unlock_mutex(memory);
    return attempt.error;
}

static enum error memory_reserve(struct disk_file *file, uint64_t size, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    struct attempt attempt = operation_begin(memory, OPERATION_GROW, "reserving", file->name, failure);
    history_note_number(size);
    if (attempt.error == OK)
        attempt.error = room_take(memory, file, size, failure);
    unlock_mutex(memory);
    return attempt.error;
}

static enum error memory_room(struct disk *disk, struct disk_room *room, struct failure *failure)
{
    (void)failure;
    struct memory_disk *memory = lock_mutex(disk);
    const uint64_t used = used_bytes(memory);
    *room =
        (struct disk_room){.total = memory->capacity, .free = memory->capacity > used ? memory->capacity - used : 0};
    unlock_mutex(memory);
    return OK;
}

static enum error memory_read(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    struct attempt attempt = operation_begin(memory, OPERATION_READ, "reading", file->name, failure);
    note_reading(memory, bytes_make(&offset, sizeof(offset)));
    note_reading(memory, bytes_make(&size, sizeof(size)));
    const struct inode *inode = file->inode;
    if (attempt.error == OK && (offset > inode->size_live || size > inode->size_live - offset))
        attempt.error = failure_set(failure, ERROR_LOG_DAMAGED, "%s/%s is truncated at offset %" PRIu64 ".",
                                    memory->disk.folder, file->name, inode->size_live);
    if (attempt.error == OK && size > 0)
        memcpy(data, inode->live_owned + offset, size);
    unlock_mutex(memory);
    return attempt.error;
}

static enum error memory_write(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    struct attempt attempt = operation_begin(memory, OPERATION_GROW, "writing", file->name, failure);
    history_note_number(offset);
    history_note(data);
    if (attempt.error == OK)
        attempt.error = room_take(memory, file, offset + data.size, failure);
    if (attempt.error == OK) {
        inode_write(file->inode, offset, data);
    } else if (attempt.is_half && offset % SECTOR_SIZE == 0 && offset + data.size <= file->inode->size_live) {
        const uint64_t sectors = draw(memory) % (data.size / SECTOR_SIZE + 1);
        inode_write(file->inode, offset, bytes_make(data.ptr, (size_t)sectors * SECTOR_SIZE));
    }
    unlock_mutex(memory);
    return attempt.error;
}

static enum error memory_sync(struct disk_file *file, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    const struct attempt attempt = operation_begin(memory, OPERATION_SYNC, "syncing", file->name, failure);
    if (attempt.error == OK)
        inode_sync(file->inode);
    else if (attempt.is_half)
        inode_sync_badly(memory, file->inode);
    unlock_mutex(memory);
    return attempt.error;
}

/* Two operations, so that a disk may fail between them; what was written before to other places stays as it is. */
static enum error memory_write_synced(struct disk_file *file, uint64_t offset, struct bytes data,
                                      struct failure *failure)
{
    const enum error error = memory_write(file, offset, data, failure);
    if (error != OK)
        return error;
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    const struct attempt attempt = operation_begin(memory, OPERATION_SYNC, "syncing", file->name, failure);
    if (attempt.error == OK)
        inode_sync_sectors(file->inode, offset / SECTOR_SIZE, sectors_of(offset + data.size));
    else if (attempt.is_half)
        inode_sync_badly(memory, file->inode);
    unlock_mutex(memory);
    return attempt.error;
}

/* Hints: what is dirty stays dirty, and a crash decides as before. */
static void memory_start_sync(struct disk_file *file, uint64_t offset, uint64_t size)
{
    ASSERT(file != NULL);
    history_note_number(offset);
    history_note_number(size);
}

static enum error memory_sync_folder(struct disk *disk, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(disk);
    const struct attempt attempt = operation_begin(memory, OPERATION_SYNC, "syncing the folder", "", failure);
    if (attempt.error == OK)
        changes_settle(memory, true);
    unlock_mutex(memory);
    return attempt.error;
}

/* rename and remove happen whole or not at all, also when the disk stops in the middle. */
static enum error name_change(struct disk *disk, enum change_kind kind, const char *what, const char *name,
                              const char *to, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(disk);
    struct attempt attempt = operation_begin(memory, OPERATION_NAME, what, name, failure);
    const struct entry *entry = folder_find(&memory->live, name);
    const bool exists = entry != NULL;
    if (attempt.error == OK && !exists && kind == CHANGE_RENAME)
        attempt.error =
            failure_set(failure, ERROR_DISK_FAILED, "%s %s/%s failed: no such file.", what, disk->folder, name);
    if (exists && (attempt.error == OK || (attempt.is_half && draw_bool(memory))))
        change_add(memory, kind, name, to, kind == CHANGE_RENAME ? entry->inode : NULL);
    unlock_mutex(memory);
    return attempt.error;
}

static enum error memory_rename(struct disk *disk, const char *from, const char *to, struct failure *failure)
{
    return name_change(disk, CHANGE_RENAME, "renaming", from, to, failure);
}

static enum error memory_remove(struct disk *disk, const char *name, struct failure *failure)
{
    return name_change(disk, CHANGE_REMOVE, "removing", name, NULL, failure);
}

static enum error memory_map(struct disk_file *file, uint64_t size, const uint8_t **mapped, struct failure *failure)
{
    struct memory_disk *memory = lock_mutex(&file->owner->disk);
    struct attempt attempt = operation_begin(memory, OPERATION_READ, "mapping", file->name, failure);
    note_reading(memory, bytes_make(&size, sizeof(size)));
    struct inode *inode = file->inode;
    if (attempt.error == OK && inode->size_live < size)
        attempt.error = failure_set(failure, ERROR_LOG_DAMAGED, "%s/%s is truncated at offset %" PRIu64 ".",
                                    memory->disk.folder, file->name, inode->size_live);
    if (attempt.error == OK) {
        inode->references++;
        inode->maps++;
        *mapped = inode->live_owned;
    }
    unlock_mutex(memory);
    return attempt.error;
}

static void memory_unmap(struct disk *disk, const uint8_t *mapped, uint64_t size)
{
    struct memory_disk *memory = lock_mutex(disk);
    struct inode *inode = memory->inodes;
    note_reading(memory, bytes_make(&size, sizeof(size)));
    while (inode != NULL && inode->live_owned != mapped)
        inode = inode->next;
    ASSERT(inode != NULL && inode->maps > 0);
    inode->maps--;
    inode_release(memory, inode);
    unlock_mutex(memory);
}

static bool memory_is_resident(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    (void)disk, (void)memory, (void)size;
    return true;
}

static bool memory_is_readable(struct disk *disk, const uint8_t *mapped, uint64_t size)
{
    struct memory_disk *memory = lock_mutex(disk);
    bool is_readable = true;
    for (const struct inode *inode = memory->inodes; inode != NULL; inode = inode->next)
        if (inode->unreadable != 0 && mapped <= inode->live_owned + inode->unreadable &&
            inode->live_owned + inode->unreadable < mapped + size)
            is_readable = false;
    unlock_mutex(memory);
    return is_readable;
}

static const struct disk_operations memory_operations = {
    .lock = memory_lock,
    .list = memory_list,
    .open = memory_open,
    .create = memory_create,
    .close = memory_close,
    .size = memory_size,
    .drop_cache = memory_drop_cache,
    .allocate = memory_allocate_file,
    .reserve = memory_reserve,
    .room = memory_room,
    .read = memory_read,
    .write = memory_write,
    .sync = memory_sync,
    .write_synced = memory_write_synced,
    .start_sync = memory_start_sync,
    .write_aside = memory_write,
    .sync_folder = memory_sync_folder,
    .rename = memory_rename,
    .remove = memory_remove,
    .map = memory_map,
    .unmap = memory_unmap,
    .is_resident = memory_is_resident,
    .is_readable = memory_is_readable,
};

/* --- For tests ---------------------------------------------------------------------------------------------------- */

struct disk *memory_disk_create(uint64_t seed)
{
    struct memory_disk *memory = memory_allocate_zeroed(sizeof(*memory));
    memory->disk = (struct disk){.operations = &memory_operations, .folder = "memory"};
    memory->random = seed;
    memory->capacity = UINT64_MAX;
    const int result = pthread_mutex_init(&memory->mutex, NULL);
    ASSERT(result == 0);
    return &memory->disk;
}

void memory_disk_destroy(struct disk *disk)
{
    struct memory_disk *memory = memory_disk_of(disk);
    changes_clear(memory);
    folder_clear(memory, &memory->live);
    folder_clear(memory, &memory->durable);
    ASSERT(memory->inodes == NULL); /* else a file is still open or mapped */
    free(memory->changes_owned);
    free(memory->live.entries_owned);
    free(memory->durable.entries_owned);
    (void)pthread_mutex_destroy(&memory->mutex);
    free(memory);
}

struct disk *memory_disk_clone(struct disk *disk, uint64_t seed)
{
    struct disk *clone = memory_disk_create(seed);
    struct memory_disk *memory = lock_mutex(disk);
    for (size_t i = 0; i < memory->live.count; i++) {
        const struct entry *entry = &memory->live.entries_owned[i];
        memory_disk_put(clone, entry->name, bytes_make(entry->inode->live_owned, (size_t)entry->inode->size_live));
    }
    memory_disk_of(clone)->capacity = memory->capacity;
    unlock_mutex(memory);
    return clone;
}

static void restart(struct memory_disk *memory)
{
    memory->is_locked_elsewhere = false;
    memory->is_stopped = false;
    memory->fault = MEMORY_DISK_FAULT_NONE;
}

void memory_disk_crash(struct disk *disk)
{
    struct memory_disk *memory = lock_mutex(disk);
    changes_settle(memory, draw(memory) % 4 == 0);
    folder_clear(memory, &memory->live);
    for (size_t i = 0; i < memory->durable.count; i++)
        folder_add(&memory->live, memory->durable.entries_owned[i].name, memory->durable.entries_owned[i].inode);
    for (struct inode *inode = memory->inodes; inode != NULL; inode = inode->next)
        inode_crash(memory, inode);
    restart(memory);
    unlock_mutex(memory);
}

void memory_disk_kill(struct disk *disk)
{
    struct memory_disk *memory = lock_mutex(disk);
    restart(memory);
    unlock_mutex(memory);
}

void memory_disk_lock_elsewhere(struct disk *disk, bool is_locked)
{
    struct memory_disk *memory = lock_mutex(disk);
    memory->is_locked_elsewhere = is_locked;
    unlock_mutex(memory);
}

void memory_disk_fail_after(struct disk *disk, uint64_t operations, enum memory_disk_fault fault)
{
    struct memory_disk *memory = lock_mutex(disk);
    memory->fault = fault;
    memory->fault_countdown = operations;
    memory->has_failed = false;
    unlock_mutex(memory);
}

void memory_disk_leave_reads_alone(struct disk *disk)
{
    struct memory_disk *memory = lock_mutex(disk);
    memory->leaves_reads_alone = true;
    unlock_mutex(memory);
}

bool memory_disk_has_failed(struct disk *disk)
{
    struct memory_disk *memory = lock_mutex(disk);
    const bool has_failed = memory->has_failed;
    unlock_mutex(memory);
    return has_failed;
}

uint64_t memory_disk_operations(struct disk *disk)
{
    struct memory_disk *memory = lock_mutex(disk);
    const uint64_t operations = memory->operations;
    unlock_mutex(memory);
    return operations;
}

void memory_disk_set_capacity(struct disk *disk, uint64_t bytes)
{
    struct memory_disk *memory = lock_mutex(disk);
    memory->capacity = bytes;
    unlock_mutex(memory);
}

uint64_t memory_disk_used(struct disk *disk)
{
    struct memory_disk *memory = lock_mutex(disk);
    const uint64_t used = used_bytes(memory);
    unlock_mutex(memory);
    return used;
}

static struct inode *inode_of(struct memory_disk *memory, const char *name)
{
    const struct entry *entry = folder_find(&memory->live, name);
    ASSERT(entry != NULL);
    return entry->inode;
}

void memory_disk_flip_bit(struct disk *disk, const char *name, uint64_t offset_bits)
{
    struct memory_disk *memory = lock_mutex(disk);
    struct inode *inode = inode_of(memory, name);
    ASSERT(offset_bits / 8 < inode->size_live);
    inode->live_owned[offset_bits / 8] ^= (uint8_t)(1u << offset_bits % 8);
    sector_settle(inode, offset_bits / 8 / SECTOR_SIZE, true);
    unlock_mutex(memory);
}

void memory_disk_make_unreadable(struct disk *disk, const char *name, uint64_t offset)
{
    struct memory_disk *memory = lock_mutex(disk);
    struct inode *inode = inode_of(memory, name);
    ASSERT(offset > 0 && offset < inode->size_live);
    inode->unreadable = offset;
    unlock_mutex(memory);
}

void memory_disk_truncate(struct disk *disk, const char *name, uint64_t size)
{
    struct memory_disk *memory = lock_mutex(disk);
    struct inode *inode = inode_of(memory, name);
    ASSERT(size <= inode->size_live);
    inode_resize(inode, size);
    inode->room = size < inode->room ? size : inode->room;
    inode_sync(inode);
    unlock_mutex(memory);
}

void memory_disk_remove(struct disk *disk, const char *name)
{
    struct memory_disk *memory = lock_mutex(disk);
    changes_settle(memory, true);
    folder_remove(memory, &memory->live, name);
    folder_remove(memory, &memory->durable, name);
    unlock_mutex(memory);
}

void memory_disk_put(struct disk *disk, const char *name, struct bytes content)
{
    struct memory_disk *memory = lock_mutex(disk);
    changes_settle(memory, true);
    /* First the new file: the content may be that of the one which it replaces. */
    struct inode *inode = inode_create(memory);
    inode_write(inode, 0, content);
    inode->room = content.size;
    inode_sync(inode);
    if (folder_find(&memory->live, name) != NULL) {
        folder_remove(memory, &memory->live, name);
        folder_remove(memory, &memory->durable, name);
    }
    folder_add(&memory->live, name, inode);
    folder_add(&memory->durable, name, inode);
    unlock_mutex(memory);
}

bool memory_disk_has(struct disk *disk, const char *name)
{
    struct memory_disk *memory = lock_mutex(disk);
    const bool has = folder_find(&memory->live, name) != NULL;
    unlock_mutex(memory);
    return has;
}

struct bytes memory_disk_content(struct disk *disk, const char *name)
{
    struct memory_disk *memory = lock_mutex(disk);
    const struct inode *inode = inode_of(memory, name);
    const struct bytes content = bytes_make(inode->live_owned, (size_t)inode->size_live);
    unlock_mutex(memory);
    return content;
}
