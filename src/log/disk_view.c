/* A view of a disk. See disk_view.h. */
#include "log/disk_view.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

struct disk_view {
    struct disk disk;
    struct disk *under;
    char **hidden_owned; /* names of files that were removed, or have another name */
    size_t hidden_count;
};

struct disk_file {
    const struct disk_operations *operations; /* of the disk below */
    struct disk_file *under;                  /* NULL: created through the view, so there is none */
};

static struct disk_view *view_of(struct disk *disk)
{
    return CONTAINER_OF(disk, struct disk_view, disk);
}

static struct disk *under_of(struct disk *disk)
{
    return view_of(disk)->under;
}

static struct disk_file *file_make(const struct disk *under, struct disk_file *file)
{
    struct disk_file *made = memory_allocate(sizeof(*made));
    *made = (struct disk_file){.operations = under->operations, .under = file};
    return made;
}

/* --- what is passed on -------------------------------------------------------------------------------------------- */

static enum error view_lock(struct disk *disk, struct failure *failure)
{
    return under_of(disk)->operations->lock(under_of(disk), failure);
}

struct listing {
    const struct disk_view *view;
    void (*visit)(void *context, const char *name);
    void *context;
};

static void name_visit(void *context, const char *name)
{
    const struct listing *listing = context;
    for (size_t i = 0; i < listing->view->hidden_count; i++)
        if (strcmp(listing->view->hidden_owned[i], name) == 0)
            return;
    listing->visit(listing->context, name);
}

static enum error view_list(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                            struct failure *failure)
{
    struct listing listing = {.view = view_of(disk), .visit = visit, .context = context};
    return under_of(disk)->operations->list(under_of(disk), name_visit, &listing, failure);
}

static enum error view_open(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    struct disk_file *opened;
    const enum error error = under_of(disk)->operations->open(under_of(disk), name, &opened, failure);
    if (error == OK)
        *file = file_make(under_of(disk), opened);
    return error;
}

static void view_close(struct disk_file *file)
{
    if (file->under != NULL)
        file->operations->close(file->under);
    free(file);
}

static enum error view_size(struct disk_file *file, uint64_t *size, struct failure *failure)
{
    *size = 0;
    return file->under == NULL ? OK : file->operations->size(file->under, size, failure);
}

static enum error view_read(struct disk_file *file, uint64_t offset, void *data, size_t size, struct failure *failure)
{
    ASSERT(file->under != NULL);
    return file->operations->read(file->under, offset, data, size, failure);
}

static enum error view_map(struct disk_file *file, uint64_t size, const uint8_t **memory, struct failure *failure)
{
    ASSERT(file->under != NULL);
    return file->operations->map(file->under, size, memory, failure);
}

static void view_unmap(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    under_of(disk)->operations->unmap(under_of(disk), memory, size);
}

static bool view_is_resident(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    return under_of(disk)->operations->is_resident(under_of(disk), memory, size);
}

static bool view_is_readable(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    return under_of(disk)->operations->is_readable(under_of(disk), memory, size);
}

static enum error view_room(struct disk *disk, struct disk_room *room, struct failure *failure)
{
    return under_of(disk)->operations->room(under_of(disk), room, failure);
}

/* --- what is swallowed -------------------------------------------------------------------------------------------- */

static enum error view_create(struct disk *disk, const char *name, struct disk_file **file, struct failure *failure)
{
    (void)name, (void)failure;
    *file = file_make(under_of(disk), NULL);
    return OK;
}

static void view_drop_cache(struct disk_file *file)
{
    (void)file;
}

static enum error view_allocate(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure)
{
    (void)file, (void)size, (void)room, (void)failure;
    return OK;
}

static enum error view_write(struct disk_file *file, uint64_t offset, struct bytes data, struct failure *failure)
{
    (void)file, (void)offset, (void)data, (void)failure;
    return OK;
}

static enum error view_sync(struct disk_file *file, struct failure *failure)
{
    (void)file, (void)failure;
    return OK;
}

static enum error view_sync_folder(struct disk *disk, struct failure *failure)
{
    (void)disk, (void)failure;
    return OK;
}

static void view_start_sync(struct disk_file *file, uint64_t offset, uint64_t size)
{
    (void)file, (void)offset, (void)size;
}

static enum error view_reserve(struct disk_file *file, uint64_t size, struct failure *failure)
{
    (void)file, (void)size, (void)failure;
    return OK;
}

/* A caller that removes a file checks that it has gone. */
static enum error view_remove(struct disk *disk, const char *name, struct failure *failure)
{
    (void)failure;
    struct disk_view *view = view_of(disk);
    view->hidden_owned = memory_resize(view->hidden_owned, (view->hidden_count + 1) * sizeof(*view->hidden_owned));
    char *copy = memory_allocate(strlen(name) + 1);
    memcpy(copy, name, strlen(name) + 1);
    view->hidden_owned[view->hidden_count++] = copy;
    return OK;
}

static enum error view_rename(struct disk *disk, const char *from, const char *to, struct failure *failure)
{
    (void)to;
    return view_remove(disk, from, failure);
}

static const struct disk_operations view_operations = {
    .lock = view_lock,
    .list = view_list,
    .open = view_open,
    .create = view_create,
    .close = view_close,
    .size = view_size,
    .drop_cache = view_drop_cache,
    .allocate = view_allocate,
    .read = view_read,
    .write = view_write,
    .write_aside = view_write,
    .sync = view_sync,
    .sync_folder = view_sync_folder,
    .start_sync = view_start_sync,
    .reserve = view_reserve,
    .room = view_room,
    .rename = view_rename,
    .remove = view_remove,
    .map = view_map,
    .unmap = view_unmap,
    .is_resident = view_is_resident,
    .is_readable = view_is_readable,
};

struct disk *disk_view_create(struct disk *under)
{
    struct disk_view *view = memory_allocate_zeroed(sizeof(*view));
    view->disk = (struct disk){.operations = &view_operations, .folder = under->folder};
    view->under = under;
    return &view->disk;
}

void disk_view_destroy(struct disk *view)
{
    for (size_t i = 0; i < view_of(view)->hidden_count; i++)
        free(view_of(view)->hidden_owned[i]);
    free(view_of(view)->hidden_owned);
    free(view_of(view));
}
