#include "backup/make.h"

#include "backup/files.h"
#include "base/assert.h"
#include "base/memory.h"
#include "log/disk.h"
#include "log/segment.h"
#include "log/snapshot.h"
#include "platform/random.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- paths -------------------------------------------------------------------------------------------------------- */

char *backup_path(const char *backups_folder, const char *id, bool is_finished)
{
    return files_join(backups_folder, id, is_finished ? "" : FILES_UNFINISHED);
}

/* The folder of a namespace in the unfinished backup. */
static char *inner_path(const struct backup_make *make, const struct backup_namespace *ns)
{
    char *folder = backup_path(make->folder_owned, make->manifest.id, false);
    char *path = files_join(folder, ns->name, "");
    free(folder);
    return path;
}

/* --- what is to be backed up -------------------------------------------------------------------------------------- */

void backup_make_id(uint64_t now_ms, char id[BACKUP_ID_SIZE])
{
    const time_t seconds = (time_t)(now_ms / 1000);
    struct tm parts;
    char day[24];
    uint8_t chance[4];
    random_fill(chance, sizeof(chance));
    (void)gmtime_r(&seconds, &parts);
    (void)strftime(day, sizeof(day), "%Y%m%dT%H%M%SZ", &parts);
    (void)snprintf(id, BACKUP_ID_SIZE, "%.20s-%02x%02x%02x%02x", day, chance[0], chance[1], chance[2], chance[3]);
}

static bool has_form(char form, uint8_t byte)
{
    const bool is_digit = byte >= '0' && byte <= '9';
    switch (form) {
    case 'd':
        return is_digit;
    case 'x':
        return is_digit || (byte >= 'a' && byte <= 'f');
    default:
        return byte == (uint8_t)form;
    }
}

bool backup_is_id(struct bytes name)
{
    static const char form[] = "ddddddddTddddddZ-xxxxxxxx";
    bool is_id = name.size == sizeof(form) - 1;
    for (size_t i = 0; is_id && i < name.size; i++)
        is_id = has_form(form[i], name.ptr[i]);
    return is_id;
}

void backup_make_init(struct backup_make *make, const char *data_folder, uint64_t now_ms)
{
    *make = (struct backup_make){.folder_owned = files_join(data_folder, BACKUPS_FOLDER, "")};
    backup_make_id(now_ms, make->manifest.id);
    (void)snprintf(make->manifest.version, sizeof(make->manifest.version), "%s", TALLY_VERSION);
    make->manifest.data_format = DATA_FORMAT;
    make->manifest.instant_ms = now_ms;
}

void backup_make_deinit(struct backup_make *make)
{
    for (size_t i = 0; i < make->manifest.namespace_count; i++) {
        free(make->sources_owned[i].folder_owned);
        free(make->sources_owned[i].ordinals_owned);
    }
    free(make->sources_owned);
    free(make->folder_owned);
    manifest_deinit(&make->manifest);
    make->sources_owned = NULL;
    make->folder_owned = NULL;
}

void backup_make_add(struct backup_make *make, const char *name, const char *folder, struct backup_namespace **ns,
                     struct backup_source **source)
{
    *ns = manifest_add_namespace(&make->manifest);
    make->sources_owned =
        memory_resize(make->sources_owned, make->manifest.namespace_count * sizeof(*make->sources_owned));
    *source = &make->sources_owned[make->manifest.namespace_count - 1];
    **source = (struct backup_source){0};
    (*source)->folder_owned = memory_duplicate_string(folder);
    ASSERT(strlen(name) < sizeof((*ns)->name));
    memcpy((*ns)->name, name, strlen(name) + 1);
}

void backup_source_add(struct backup_source *source, uint64_t ordinal)
{
    ARRAY_GROW(source->ordinals_owned, source->ordinal_count, source->ordinal_capacity);
    source->ordinals_owned[source->ordinal_count++] = ordinal;
}

/* --- second names ------------------------------------------------------------------------------------------------- */

static enum error link_listed(struct backup_namespace *ns, const char *folder, const char *inner, const char *name,
                              struct failure *failure)
{
    const enum error error = files_link(folder, inner, name, name, failure);
    if (error == OK)
        (void)snprintf(backup_namespace_add_file(ns)->name, BACKUP_FILE_NAME_SIZE, "%s", name);
    return error;
}

static enum error link_namespace(struct backup_namespace *ns, const struct backup_source *source, const char *inner,
                                 struct failure *failure)
{
    const uint64_t newest = ns->position / ns->segment_size;
    char name[SEGMENT_NAME_SIZE], snapshot[SNAPSHOT_NAME_SIZE];
    enum error error = files_make_folder(inner, failure);
    for (size_t i = 0; error == OK && i < source->ordinal_count && source->ordinals_owned[i] < newest; i++) {
        segment_name(source->ordinals_owned[i] * ns->segment_size, name);
        error = link_listed(ns, source->folder_owned, inner, name, failure);
    }
    if (error == OK && source->snapshot_position != 0) {
        snapshot_name(source->snapshot_position, snapshot);
        error = link_listed(ns, source->folder_owned, inner, snapshot, failure);
    }
    segment_name(newest * ns->segment_size, name);
    return error == OK ? files_link(source->folder_owned, inner, name, FILES_LIVE_NAME, failure) : error;
}

enum error backup_make_link(struct backup_make *make, struct failure *failure)
{
    char *folder = backup_path(make->folder_owned, make->manifest.id, false);
    enum error error = files_make_folder(make->folder_owned, failure);
    if (error == OK)
        error = files_make_folder(folder, failure);
    for (size_t i = 0; error == OK && i < make->manifest.namespace_count; i++) {
        struct backup_namespace *ns = &make->manifest.namespaces_owned[i];
        char *inner = inner_path(make, ns);
        error = link_namespace(ns, &make->sources_owned[i], inner, failure);
        free(inner);
    }
    free(folder);
    return error;
}

/* --- the copy of the segment in use ------------------------------------------------------------------------------- */

static enum error copy_live(const struct backup_make *make, struct backup_namespace *ns, struct disk *disk,
                            struct failure *failure)
{
    const uint64_t used = ns->position % ns->segment_size;
    struct backup_file *file = backup_namespace_add_file(ns);
    char name[SEGMENT_NAME_SIZE];
    segment_name(ns->position - used, name);
    (void)snprintf(file->name, sizeof(file->name), "%s", name);
    return files_copy_live(disk, name, ns->segment_size, used, &make->is_cancelled, failure);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static enum error sum_files(const struct backup_make *make, struct backup_namespace *ns, const char *inner,
                            struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; error == OK && i < ns->file_count; i++) {
        char *path = files_join(inner, ns->files_owned[i].name, "");
        error = backup_file_sum(path, &make->is_cancelled, &ns->files_owned[i], failure);
        free(path);
    }
    return error;
}

static enum error finish_namespace(const struct backup_make *make, struct backup_namespace *ns, struct failure *failure)
{
    char *inner = inner_path(make, ns), *lock = files_join(inner, "lock", "");
    struct disk *disk = disk_posix_create(inner);
    enum error error = files_check_room(inner, ns->position % ns->segment_size, make->min_free, failure);
    if (error == OK)
        error = disk->operations->lock(disk, failure);
    if (error == OK)
        error = copy_live(make, ns, disk, failure);
    disk_posix_destroy(disk);
    (void)unlink(lock);
    if (error == OK)
        error = sum_files(make, ns, inner, failure);
    if (error == OK)
        error = files_sync_folder(inner, failure);
    free(lock);
    free(inner);
    return error;
}

/* What has a manifest and its name is a backup. */
static enum error name_finally(const struct backup_make *make, struct failure *failure)
{
    char *unfinished = backup_path(make->folder_owned, make->manifest.id, false);
    char *finished = backup_path(make->folder_owned, make->manifest.id, true);
    char *path = files_join(unfinished, MANIFEST_NAME, "");
    struct buffer text;
    buffer_init(&text);
    manifest_write(&make->manifest, &text);
    enum error error = files_write_text(path, buffer_bytes(&text), failure);
    if (error == OK)
        error = files_sync_folder(unfinished, failure);
    if (error == OK && rename(unfinished, finished) != 0)
        error = files_failed(failure, "renaming", unfinished);
    if (error == OK)
        error = files_sync_folder(make->folder_owned, failure);
    buffer_deinit(&text);
    free(path);
    free(finished);
    free(unfinished);
    return error;
}

enum error backup_make_finish(struct backup_make *make, struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; error == OK && i < make->manifest.namespace_count; i++)
        error = finish_namespace(make, &make->manifest.namespaces_owned[i], failure);
    return error == OK ? name_finally(make, failure) : error;
}

/* --- removing ----------------------------------------------------------------------------------------------------- */

bool backup_visit(const char *backups_folder, void (*visit)(void *context, const char *name), void *context)
{
    DIR *folder = opendir(backups_folder);
    if (folder == NULL)
        return errno == ENOENT;
    errno = 0; /* only this tells an error of readdir() from the end */
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL; errno = 0)
        if (entry->d_name[0] != '.')
            visit(context, entry->d_name);
    const int number = errno;
    (void)closedir(folder);
    errno = number;
    return number == 0;
}

struct removal {
    const char *path;
    const atomic_bool *is_hurried;
    struct disk *disk;
    enum error error; /* the first one */
    struct failure *failure;
};

static void remove_file(void *context, const char *name)
{
    struct removal *removal = context;
    const enum error error = removal->disk->operations->remove(removal->disk, name, removal->failure);
    removal->error = removal->error == OK ? error : removal->error;
}

/* A namespace's folder, or a file beside it. On a full disk there is no room for the lock's file; then the files go
 * without it, at once. */
static void remove_inner(void *context, const char *name)
{
    struct removal *outer = context;
    char *path = files_join(outer->path, name, "");
    struct stat status;
    if (lstat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
        if (unlink(path) != 0 && outer->error == OK)
            outer->error = files_failed(outer->failure, "removing", path);
        free(path);
        return;
    }
    struct removal inner = {.path = path, .disk = disk_posix_create(path), .failure = outer->failure};
    inner.disk->is_hurried = outer->is_hurried;
    inner.error = inner.disk->operations->lock(inner.disk, inner.failure);
    if (inner.error == OK)
        inner.error = inner.disk->operations->list(inner.disk, remove_file, &inner, inner.failure);
    disk_posix_destroy(inner.disk);
    if (inner.error == ERROR_DISK_FULL) {
        inner.error = OK;
        (void)backup_visit(path, remove_inner, &inner);
    }
    if (inner.error == OK && rmdir(path) != 0)
        inner.error = files_failed(outer->failure, "removing", path);
    outer->error = outer->error == OK ? inner.error : outer->error;
    free(path);
}

/* Its name first: what is removed half is no backup. */
static enum error unname(const char *path, char **unfinished, struct failure *failure)
{
    if (bytes_ends_with(bytes_from_string(path), BYTES(FILES_UNFINISHED))) {
        *unfinished = memory_duplicate_string(path);
        return OK;
    }
    const size_t size = strlen(path) + sizeof(FILES_UNFINISHED);
    *unfinished = memory_allocate(size);
    (void)snprintf(*unfinished, size, "%s" FILES_UNFINISHED, path);
    return rename(path, *unfinished) == 0 || errno == ENOENT ? OK : files_failed(failure, "renaming", path);
}

enum error backup_remove(const char *path, const atomic_bool *is_hurried, struct failure *failure)
{
    char *unfinished;
    struct removal removal = {.is_hurried = is_hurried, .failure = failure};
    enum error error = unname(path, &unfinished, failure);
    if (error == OK) {
        removal.path = unfinished;
        const bool is_read = backup_visit(unfinished, remove_inner, &removal);
        error = is_read || removal.error != OK ? removal.error : files_failed(failure, "reading", unfinished);
    }
    if (error == OK && rmdir(unfinished) != 0 && errno != ENOENT)
        error = files_failed(failure, "removing", unfinished);
    free(unfinished);
    return error;
}
