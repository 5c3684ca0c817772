/* One log in two folders. See disk_merge.h. */
#include "log/disk_merge.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/segment.h"
#include "log/snapshot.h"
#include <stdlib.h>

#define NAME_SIZE 32u

static_assert(NAME_SIZE >= SEGMENT_NAME_SIZE && NAME_SIZE >= SNAPSHOT_NAME_SIZE, "both fit");

struct entry {
    struct disk *disk;
    uint64_t position; /* where the segment starts, or that of the snapshot */
    bool is_snapshot;
    bool is_hidden;
};

struct disk_merge {
    struct disk disk;
    struct disk_operations operations;
    struct disk *newer, *older;
    struct entry *entries_owned; /* segments before snapshots; segments rising, snapshots falling */
    size_t count;
    size_t capacity;
    size_t segment_count;
    uint64_t segment_size;
    uint64_t selected; /* position of the snapshot that is shown */
};

static struct disk_merge *merge_of(struct disk *disk)
{
    return CONTAINER_OF(disk, struct disk_merge, disk);
}

static const struct disk_merge *merge_of_const(const struct disk *disk)
{
    return CONTAINER_OF(disk, const struct disk_merge, disk);
}

static void entry_name(const struct entry *entry, char name[NAME_SIZE])
{
    if (entry->is_snapshot)
        snapshot_name(entry->position, name);
    else
        segment_name(entry->position, name);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static enum error merge_lock(struct disk *disk, struct failure *failure)
{
    struct disk *both[] = {merge_of(disk)->newer, merge_of(disk)->older};
    enum error error = OK;
    for (size_t i = 0; i < ARRAY_LENGTH(both) && error == OK; i++)
        error = both[i] == NULL ? OK : both[i]->operations->lock(both[i], failure);
    return error;
}

static enum error merge_list(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                             struct failure *failure)
{
    (void)failure;
    const struct disk_merge *merge = merge_of(disk);
    for (size_t i = 0; i < merge->count; i++) {
        char name[NAME_SIZE];
        entry_name(&merge->entries_owned[i], name);
        if (!merge->entries_owned[i].is_hidden)
            visit(context, name);
    }
    return OK;
}

static enum error merge_open(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    const struct disk_merge *merge = merge_of(disk);
    uint64_t position;
    const bool is_snapshot = snapshot_name_decode(name, &position);
    const bool is_of_log = is_snapshot || segment_name_decode(name, &position);
    for (size_t i = 0; is_of_log && i < merge->count; i++) {
        const struct entry *entry = &merge->entries_owned[i];
        if (!entry->is_hidden && entry->position == position && entry->is_snapshot == is_snapshot)
            return entry->disk->operations->open(entry->disk, name, file, failure);
    }
    return failure_set(failure, ERROR_DISK_FAILED, "%s/%s is in neither folder.", disk->folder, name);
}

struct disk *disk_merge_create(struct disk *newer, struct disk *older)
{
    struct disk_merge *merge = memory_allocate_zeroed(sizeof(*merge));
    const struct disk *one = newer != NULL ? newer : older;
    ASSERT(one != NULL && (older == NULL || one->operations == older->operations));
    merge->operations = *one->operations;
    merge->operations.lock = merge_lock;
    merge->operations.list = merge_list;
    merge->operations.open = merge_open;
    /* Files belong to their own disks, so all that is done to a file is done there. The rest would ask the folder. */
    merge->operations.create = NULL;
    merge->operations.room = NULL;
    merge->operations.confirm = NULL;
    merge->operations.sync_folder = NULL;
    merge->operations.rename = NULL;
    merge->operations.remove = NULL;
    merge->operations.is_shared = NULL;
    merge->operations.archive = NULL;
    merge->operations.map = NULL;
    merge->operations.unmap = NULL;
    merge->operations.is_resident = NULL;
    merge->operations.is_readable = NULL;
    merge->disk = (struct disk){.operations = &merge->operations, .folder = one->folder};
    merge->newer = newer;
    merge->older = older;
    return &merge->disk;
}

void disk_merge_destroy(struct disk *merge)
{
    free(merge_of(merge)->entries_owned);
    free(merge_of(merge));
}

/* --- which files there are ---------------------------------------------------------------------------------------- */

struct listing {
    struct disk_merge *merge;
    struct disk *disk;
};

static void add(void *context, const char *name)
{
    const struct listing *listing = context;
    struct disk_merge *merge = listing->merge;
    uint64_t position;
    const bool is_snapshot = snapshot_name_decode(name, &position);
    if (!is_snapshot && !segment_name_decode(name, &position))
        return;
    ARRAY_GROW(merge->entries_owned, merge->count, merge->capacity);
    merge->entries_owned[merge->count++] =
        (struct entry){.disk = listing->disk, .position = position, .is_snapshot = is_snapshot, .is_hidden = true};
    merge->segment_count += !is_snapshot;
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->is_snapshot != y->is_snapshot)
        return x->is_snapshot ? 1 : -1;
    const int order = (x->position > y->position) - (x->position < y->position);
    return x->is_snapshot ? -order : order;
}

/* Where the newest segment of the newer folder starts; UINT64_MAX: it has none. */
static uint64_t newest_start(const struct disk_merge *merge)
{
    uint64_t newest = UINT64_MAX;
    for (size_t i = 0; i < merge->segment_count; i++)
        if (merge->entries_owned[i].disk == merge->newer)
            newest = merge->entries_owned[i].position;
    return newest;
}

/* Of two files with one name, one is left. The newest segment of the newer folder may be the beginning of one, as a
 * backup has it. The archive has whole ones only, so there its file counts. Nothing can follow a beginning. */
static void leave_one_of_each(struct disk_merge *merge)
{
    const uint64_t newest = newest_start(merge);
    struct entry *entries = merge->entries_owned;
    bool is_beginning = false;
    size_t kept = 0, segments = 0;
    for (size_t i = 0; i < merge->count; i++) {
        const bool is_twice = i + 1 < merge->count && compare(&entries[i], &entries[i + 1]) == 0;
        const bool is_newest = !entries[i].is_snapshot && entries[i].position == newest;
        if (!entries[i].is_snapshot && is_beginning)
            continue;
        struct entry entry = entries[i];
        if (is_twice)
            entry.disk = is_newest ? merge->older : merge->newer;
        is_beginning = is_beginning || (is_newest && !is_twice);
        i += is_twice;
        segments += !entry.is_snapshot;
        entries[kept++] = entry;
    }
    merge->count = kept;
    merge->segment_count = segments;
}

static enum error entry_size(const struct entry *entry, uint64_t *size, struct failure *failure)
{
    struct disk_file *file;
    char name[NAME_SIZE];
    entry_name(entry, name);
    enum error error = entry->disk->operations->open(entry->disk, name, &file, failure);
    if (error != OK)
        return error;
    error = entry->disk->operations->size(file, size, failure);
    entry->disk->operations->close(file);
    return error;
}

/* All segments of a log have one size. A copy that was cut off is smaller. */
static enum error learn_segment_size(struct disk_merge *merge, struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; i < merge->segment_count && error == OK; i++) {
        uint64_t size = 0;
        error = entry_size(&merge->entries_owned[i], &size, failure);
        merge->segment_size = size > merge->segment_size ? size : merge->segment_size;
    }
    if (error != OK || merge->segment_count == 0 || merge->segment_size >= SEGMENT_SIZE_MIN)
        return error;
    const struct entry *first = &merge->entries_owned[0];
    char name[NAME_SIZE];
    entry_name(first, name);
    return segment_damaged(failure, first->disk, name, merge->segment_size, "the segment is truncated");
}

enum error disk_merge_begin(struct disk *disk, struct failure *failure)
{
    struct disk_merge *merge = merge_of(disk);
    ASSERT(merge->count == 0);
    struct disk *both[] = {merge->newer, merge->older};
    enum error error = merge_lock(disk, failure);
    for (size_t i = 0; i < ARRAY_LENGTH(both) && error == OK; i++) {
        struct listing listing = {.merge = merge, .disk = both[i]};
        error = both[i] == NULL ? OK : both[i]->operations->list(both[i], add, &listing, failure);
    }
    if (merge->count > 1)
        qsort(merge->entries_owned, merge->count, sizeof(*merge->entries_owned), compare);
    leave_one_of_each(merge);
    return error == OK ? learn_segment_size(merge, failure) : error;
}

/* --- which are shown ---------------------------------------------------------------------------------------------- */

size_t disk_merge_snapshot_count(const struct disk *disk)
{
    return merge_of_const(disk)->count - merge_of_const(disk)->segment_count;
}

uint64_t disk_merge_snapshot_at(const struct disk *disk, size_t index)
{
    const struct disk_merge *merge = merge_of_const(disk);
    ASSERT(index < disk_merge_snapshot_count(disk));
    return merge->entries_owned[merge->segment_count + index].position;
}

uint64_t disk_merge_select(struct disk *disk, uint64_t position)
{
    struct disk_merge *merge = merge_of(disk);
    if (merge->segment_count == 0)
        return UINT64_MAX;
    uint64_t next = position / merge->segment_size * merge->segment_size;
    merge->selected = position;
    for (size_t i = 0; i < merge->segment_count; i++) {
        struct entry *entry = &merge->entries_owned[i];
        const bool follows = entry->position == next;
        next += follows ? merge->segment_size : 0;
        entry->is_hidden = !follows && entry->position > position / merge->segment_size * merge->segment_size;
    }
    for (size_t i = merge->segment_count; i < merge->count; i++)
        merge->entries_owned[i].is_hidden = position == 0 || merge->entries_owned[i].position != position;
    return next;
}

void disk_merge_keep(struct disk *disk, bool (*is_needed)(void *context, uint64_t start), void *context)
{
    struct disk_merge *merge = merge_of(disk);
    for (size_t i = 0; i < merge->segment_count; i++) {
        struct entry *entry = &merge->entries_owned[i];
        if (entry->position + merge->segment_size <= merge->selected && !is_needed(context, entry->position))
            entry->is_hidden = true;
    }
}
