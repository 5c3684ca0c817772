#include "postgres/disk_postgres.h"

#include "base/assert.h"
#include "base/memory.h"
#include "postgres/log_state.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BEAT_SHARE 4u              /* an idle owner proves itself so many times in a lease; */
#define BEAT_SHARE_BESIDE_PULSE 2u /* where the pulse (pulse.h) should have done so before, this */
#define INIT_PATIENCE_MS 30000u
#define STATE_LOCK_NOT_AVAILABLE "55P03"
#define STATE_DUPLICATE_SCHEMA "42P06"

struct disk_postgres {
    struct disk disk;
    struct disk *folder_owned; /* of the cache */
    atomic_bool is_hurried;    /* of the folder: what is in it can be had again */
    pid_t process;
    pthread_mutex_t mutex; /* of the log */
    struct pg_log log;
    struct failure unasked; /* of a caller who gave none */
};

struct disk_file {
    struct disk_postgres *disk;
    struct pg_file *file; /* NULL: not known, so it can only be read */
    struct disk_file *copy_owned;
};

static struct disk_postgres *disk_postgres_of(struct disk *disk)
{
    return CONTAINER_OF(disk, struct disk_postgres, disk);
}

/* --- a call ------------------------------------------------------------------------------------------------------- */

/* In a forked child the parent's other threads are not there. */
static void adopt_process(struct disk_postgres *disk)
{
    if (disk->process == getpid())
        return;
    disk->process = getpid();
    (void)pthread_mutex_init(&disk->mutex, NULL);
    pg_log_become_child(&disk->log);
}

/* Who does not want to know why a call failed gives NULL (base/error.h). What is called here must be able to ask. */
static void want_failure(struct disk_postgres *disk, struct failure **failure)
{
    if (*failure != NULL)
        return;
    failure_init(&disk->unasked);
    *failure = &disk->unasked;
}

/* The log is this thread's until leave(), and the failure is one that can be asked. */
static struct pg_log *enter(struct disk_postgres *disk, struct failure **failure)
{
    adopt_process(disk);
    (void)pthread_mutex_lock(&disk->mutex);
    want_failure(disk, failure);
    return &disk->log;
}

/* NULL: another thread has it. */
static struct pg_log *try_to_enter(struct disk_postgres *disk, struct failure **failure)
{
    adopt_process(disk);
    if (pthread_mutex_trylock(&disk->mutex) != 0)
        return NULL;
    want_failure(disk, failure);
    return &disk->log;
}

static enum error leave(struct disk_postgres *disk, enum error error)
{
    (void)pthread_mutex_unlock(&disk->mutex);
    return error;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static enum error put(struct disk_file *file, uint64_t offset, struct bytes data, bool is_aside,
                      struct failure *failure)
{
    struct pg_log *log = enter(file->disk, &failure);
    enum error error;
    if (file->file == NULL)
        error = failure_set(failure, ERROR_DISK_FAILED, "%s: a file that is not known can't be written.",
                            file->disk->disk.folder);
    else /* a child's connection need not wait for each of its writes; a sync does */
        error = pg_log_put(log, file->file, file->copy_owned, offset, data, is_aside && log->is_child, failure);
    return leave(file->disk, error);
}

static enum error disk_postgres_write(struct disk_file *file, uint64_t offset, struct bytes data,
                                      struct failure *failure)
{
    return put(file, offset, data, false, failure);
}

static enum error disk_postgres_write_aside(struct disk_file *file, uint64_t offset, struct bytes data,
                                            struct failure *failure)
{
    return put(file, offset, data, true, failure);
}

/* The file's size, in a statement that is waited for: what was written before is then durable too. */
static enum error disk_postgres_sync(struct disk_file *file, struct failure *failure)
{
    struct pg_log *log = enter(file->disk, &failure);
    uint64_t size;
    enum error error = file->disk->folder_owned->operations->size(file->copy_owned, &size, failure);
    const bool has_file = file->file != NULL && !pg_log_follows(log);
    if (error == OK && has_file && (size != file->file->size || log->session.link.is_relaxed))
        error = pg_log_resize_file(log, file->file, size, failure);
    return leave(file->disk, error);
}

static enum error disk_postgres_allocate(struct disk_file *file, uint64_t size, uint64_t room, struct failure *failure)
{
    (void)room; /* PostgreSQL has it, or says so */
    struct pg_log *log = enter(file->disk, &failure);
    enum error error = OK;
    if (file->file != NULL && file->file->size != size && !pg_log_follows(log))
        error = pg_log_resize_file(log, file->file, size, failure);
    if (error == OK)
        error = file->disk->folder_owned->operations->allocate(file->copy_owned, size, 0, failure);
    return leave(file->disk, error);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static struct disk_file *make_handle(struct disk_postgres *disk, struct pg_file *file, struct disk_file *copy)
{
    struct disk_file *handle = memory_allocate_zeroed(sizeof(*handle));
    *handle = (struct disk_file){.disk = disk, .file = file, .copy_owned = copy};
    if (file != NULL)
        pg_file_hold(file);
    return handle;
}

static enum error open_copy(struct disk_postgres *disk, const char *name, struct pg_file *known,
                            struct disk_file **file, struct failure *failure)
{
    struct disk_file *copy = NULL;
    const enum error error = disk->folder_owned->operations->open(disk->folder_owned, name, &copy, failure);
    if (error == OK)
        *file = make_handle(disk, known, copy);
    return error;
}

/* Only the loop opens files while another thread has the log, to map segments. It must not wait for PostgreSQL. Each of
 * them was compared with PostgreSQL before this node served, or written by it, so the copy is all it takes. */
static enum error disk_postgres_open(struct disk *disk, const char *name, struct disk_file **file,
                                     struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = try_to_enter(own, &failure);
    if (log == NULL)
        return open_copy(own, name, NULL, file, failure);
    struct pg_file *known = pg_cache_find(&log->cache, name);
    enum error error = OK;
    if (known != NULL)
        error = pg_cache_complete(&log->cache, &log->session, known, log->options.lease_ms, failure);
    if (error == OK)
        error = open_copy(own, name, known, file, failure);
    return leave(own, error);
}

static enum error disk_postgres_create_file(struct disk *disk, const char *name, struct disk_file **file,
                                            struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct disk *folder = own->folder_owned;
    struct pg_log *log = enter(own, &failure);
    struct pg_file *made = NULL;
    struct disk_file *copy = NULL;
    struct failure ignored;
    failure_init(&ignored);
    enum error error = pg_log_create_file(log, name, &made, failure);
    if (error == OK)
        error = folder->operations->remove(folder, name, failure); /* what an earlier owner left in the cache */
    if (error == OK)
        error = folder->operations->create(folder, name, &copy, failure);
    if (error == OK)
        *file = make_handle(own, made, copy);
    else if (made != NULL) /* its name must be free when this is tried again */
        (void)pg_log_remove_file(log, name, &ignored);
    return leave(own, error);
}

/* Does not wait for the thread that has the log: the loop closes what it opened when nobody had it. */
static void disk_postgres_close(struct disk_file *file)
{
    file->disk->folder_owned->operations->close(file->copy_owned);
    if (file->file != NULL)
        pg_file_let_go(file->file);
    free(file);
}

static enum error disk_postgres_rename(struct disk *disk, const char *from, const char *to, struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = enter(own, &failure);
    enum error error = OK;
    if (!pg_log_follows(log))
        error = pg_log_rename_file(log, from, to, failure);
    if (error == OK && !pg_log_follows(log))
        error = own->folder_owned->operations->rename(own->folder_owned, from, to, failure);
    return leave(own, error);
}

static enum error disk_postgres_remove(struct disk *disk, const char *name, struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = enter(own, &failure);
    enum error error = OK;
    if (!pg_log_follows(log))
        error = pg_log_remove_file(log, name, failure);
    if (error == OK && !pg_log_follows(log))
        error = own->folder_owned->operations->remove(own->folder_owned, name, failure);
    return leave(own, error);
}

static enum error disk_postgres_list(struct disk *disk, void (*visit)(void *context, const char *name), void *context,
                                     struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = enter(own, &failure);
    const enum error error = log->is_child ? pg_log_connect(log, pg_log_deadline(log), failure) : OK;
    for (size_t i = 0; error == OK && i < log->cache.count; i++)
        if (!pg_log_is_rest(log->cache.files_owned[i]->name))
            visit(context, log->cache.files_owned[i]->name);
    return leave(own, error);
}

/* --- owning ------------------------------------------------------------------------------------------------------- */

static enum error disk_postgres_lock(struct disk *disk, struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = enter(own, &failure);
    enum error error = own->folder_owned->operations->lock(own->folder_owned, failure);
    if (error == OK && !log->is_owner)
        error = pg_log_join(log, failure);
    pg_log_note_owner(log);
    return leave(own, error);
}

static enum error disk_postgres_await(struct disk *disk, bool *is_owner, struct failure *failure)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = enter(own, &failure);
    const enum error error = pg_log_await(log, is_owner, failure);
    pg_log_note_owner(log);
    return leave(own, error);
}

/* Is a sign of life late, or has the connection broken while nothing was to be done? That is made anew at once: until
 * then nobody is answered. What has just failed had a lease to become certain, and a beat would only take another. */
static bool must_beat(struct pg_log *log, uint64_t age_ms)
{
    const bool has_just_failed = log->has_just_failed;
    const uint32_t share = log->has_pulse ? BEAT_SHARE_BESIDE_PULSE : BEAT_SHARE;
    log->has_just_failed = false;
    if (has_just_failed)
        return false;
    if (pg_now_ms() - atomic_load(&log->proved_ms) >= log->options.lease_ms / share)
        return true;
    struct failure ignored;
    return age_ms == 0 && !(pg_link_is_open(&log->session.link) && pg_link_check(&log->session.link, &ignored));
}

/* Right behind a write, of which age_ms > 0 tells, the connection was whole. */
static enum error disk_postgres_confirm(struct disk *disk, const struct disk_file *file, uint64_t age_ms,
                                        struct failure *failure)
{
    (void)file;
    struct disk_postgres *own = disk_postgres_of(disk);
    struct pg_log *log = enter(own, &failure);
    const enum error error = must_beat(log, age_ms) ? pg_log_beat(log, failure) : OK;
    atomic_store(&log->seen_ms, pg_now_ms());
    return leave(own, error);
}

bool disk_postgres_is_whole(struct disk *disk)
{
    return pg_log_is_whole(&disk_postgres_of(disk)->log);
}

uint64_t disk_postgres_position(struct disk *disk)
{
    return atomic_load(&disk_postgres_of(disk)->log.position);
}

uint64_t disk_postgres_proved_ms(struct disk *disk)
{
    return atomic_load_explicit(&disk_postgres_of(disk)->log.proved_ms, memory_order_acquire);
}

uint64_t disk_postgres_now_ms(struct disk *disk)
{
    const struct pg_head *head = &disk_postgres_of(disk)->log.session.head;
    return head->now_ms + (pg_now_ms() - head->read_ms);
}

struct pg_node disk_postgres_owner(struct disk *disk)
{
    struct pg_log *log = &disk_postgres_of(disk)->log;
    (void)pthread_mutex_lock(&log->owner_mutex);
    const struct pg_node owner = log->owner;
    (void)pthread_mutex_unlock(&log->owner_mutex);
    return owner;
}

uint64_t disk_postgres_epoch(struct disk *disk)
{
    struct pg_log *log = &disk_postgres_of(disk)->log;
    (void)pthread_mutex_lock(&log->owner_mutex);
    const uint64_t epoch = log->epoch;
    (void)pthread_mutex_unlock(&log->owner_mutex);
    return epoch;
}

void disk_postgres_explain(struct disk *disk, char *text, size_t size)
{
    struct pg_log *log = &disk_postgres_of(disk)->log;
    (void)pthread_mutex_lock(&log->owner_mutex);
    (void)snprintf(text, size, "%s", log->trouble);
    (void)pthread_mutex_unlock(&log->owner_mutex);
}

bool disk_postgres_is_caught_up(struct disk *disk)
{
    return atomic_load(&disk_postgres_of(disk)->log.is_caught_up);
}

bool disk_postgres_lacks_replica(struct disk *disk)
{
    return atomic_load(&disk_postgres_of(disk)->log.lacks_replica);
}

bool disk_postgres_rest(struct disk *disk)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    struct failure *unasked = NULL;
    const bool is_done = pg_log_rest(enter(own, &unasked));
    (void)leave(own, OK);
    return is_done;
}

void disk_postgres_stop(struct disk *disk)
{
    atomic_store(&disk_postgres_of(disk)->log.is_stopped, true);
}

void disk_postgres_bear_silence(struct disk *disk, bool bears)
{
    atomic_store(&disk_postgres_of(disk)->log.bears_silence, bears);
}

/* --- what the cache answers --------------------------------------------------------------------------------------- */

static enum error disk_postgres_size(struct disk_file *file, uint64_t *size, struct failure *failure)
{
    return file->disk->folder_owned->operations->size(file->copy_owned, size, failure);
}

static enum error disk_postgres_read(struct disk_file *file, uint64_t offset, void *data, size_t size,
                                     struct failure *failure)
{
    return file->disk->folder_owned->operations->read(file->copy_owned, offset, data, size, failure);
}

static enum error disk_postgres_map(struct disk_file *file, uint64_t size, const uint8_t **memory,
                                    struct failure *failure)
{
    return file->disk->folder_owned->operations->map(file->copy_owned, size, memory, failure);
}

static void disk_postgres_unmap(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    struct disk *folder = disk_postgres_of(disk)->folder_owned;
    folder->operations->unmap(folder, memory, size);
}

static bool disk_postgres_is_resident(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    struct disk *folder = disk_postgres_of(disk)->folder_owned;
    return folder->operations->is_resident(folder, memory, size);
}

static bool disk_postgres_is_readable(struct disk *disk, const uint8_t *memory, uint64_t size)
{
    struct disk *folder = disk_postgres_of(disk)->folder_owned;
    return folder->operations->is_readable(folder, memory, size);
}

static enum error disk_postgres_room(struct disk *disk, struct disk_room *room, struct failure *failure)
{
    struct disk *folder = disk_postgres_of(disk)->folder_owned;
    return folder->operations->room(folder, room, failure);
}

static void disk_postgres_drop_cache(struct disk_file *file)
{
    (void)file; /* the copy is compared with PostgreSQL anyhow */
}

static enum error disk_postgres_reserve(struct disk_file *file, uint64_t size, struct failure *failure)
{
    (void)file;
    (void)size;
    (void)failure;
    return OK;
}

static enum error disk_postgres_sync_folder(struct disk *disk, struct failure *failure)
{
    (void)disk; /* each change of a name is a transaction */
    (void)failure;
    return OK;
}

static void disk_postgres_start_sync(struct disk_file *file, uint64_t offset, uint64_t size)
{
    (void)file;
    (void)offset;
    (void)size;
}

static const struct disk_operations operations = {
    .destroy = disk_postgres_destroy,
    .lock = disk_postgres_lock,
    .await = disk_postgres_await,
    .list = disk_postgres_list,
    .open = disk_postgres_open,
    .create = disk_postgres_create_file,
    .close = disk_postgres_close,
    .size = disk_postgres_size,
    .drop_cache = disk_postgres_drop_cache,
    .allocate = disk_postgres_allocate,
    .reserve = disk_postgres_reserve,
    .room = disk_postgres_room,
    .read = disk_postgres_read,
    .write = disk_postgres_write,
    .write_aside = disk_postgres_write_aside,
    .sync = disk_postgres_sync,
    .write_synced = disk_postgres_write,
    .confirm = disk_postgres_confirm,
    .sync_folder = disk_postgres_sync_folder,
    .start_sync = disk_postgres_start_sync,
    .rename = disk_postgres_rename,
    .remove = disk_postgres_remove,
    .map = disk_postgres_map,
    .unmap = disk_postgres_unmap,
    .is_resident = disk_postgres_is_resident,
    .is_readable = disk_postgres_is_readable,
};

/* --- life --------------------------------------------------------------------------------------------------------- */

struct disk *disk_postgres_create(const struct pg_options *options, const char *folder)
{
    struct disk_postgres *disk = memory_allocate_zeroed(sizeof(*disk));
    disk->disk = (struct disk){.operations = &operations, .folder = folder};
    disk->folder_owned = disk_posix_create(folder);
    disk->folder_owned->is_hurried = &disk->is_hurried;
    atomic_init(&disk->is_hurried, true);
    disk->process = getpid();
    (void)pthread_mutex_init(&disk->mutex, NULL);
    pg_log_init(&disk->log, options, disk->folder_owned);
    return &disk->disk;
}

void disk_postgres_destroy(struct disk *disk)
{
    struct disk_postgres *own = disk_postgres_of(disk);
    pg_log_deinit(&own->log);
    (void)pthread_mutex_destroy(&own->mutex);
    disk_posix_destroy(own->folder_owned);
    free(own);
}

/* Makes the tables. Where they are there, `failure` goes on saying why they can't be used. */
static enum error make_schema(struct pg_session *session, enum error why_not, uint64_t until_ms,
                              struct failure *failure)
{
    struct failure cause;
    failure_init(&cause);
    if (pg_link_exec(&session->link, PG_SCHEMA, until_ms, NULL, &cause) == PG_DONE)
        return OK;
    if (strcmp(session->link.state, STATE_DUPLICATE_SCHEMA) != 0 ||
        pg_link_exec(&session->link, "ROLLBACK", until_ms, NULL, &cause) != PG_DONE)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "The tables could not be made: %s", cause.text);
    const enum pg_outcome upgraded = pg_link_exec(&session->link, PG_UPGRADE, until_ms, NULL, &cause);
    if (upgraded == PG_REFUSED && strcmp(session->link.state, STATE_LOCK_NOT_AVAILABLE) == 0)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                           "The tables stay as they were: an open transaction (a dump, a forgotten psql) has "
                           "them, and nodes that serve must not wait for it. Try again when it has ended.");
    if (upgraded == PG_REFUSED)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "The tables stay as they were: %s", cause.text);
    if (upgraded != PG_DONE)
        return why_not;
    pg_link_close(&session->link);
    return pg_session_open(session, until_ms, failure) == OK ? OK : why_not;
}

enum error disk_postgres_init_schema(const struct pg_options *options, bool *is_there, struct failure *failure)
{
    struct pg_session session;
    pg_session_init(&session, options, "init");
    const uint64_t until_ms = pg_now_ms() + INIT_PATIENCE_MS;
    const enum error opened = pg_session_open(&session, until_ms, failure);
    *is_there = opened == OK;
    enum error error = OK;
    if (!*is_there)
        error = pg_link_open(&session.link, until_ms, failure);
    if (!*is_there && error == OK)
        error = make_schema(&session, opened, until_ms, failure);
    pg_session_deinit(&session);
    return error;
}
