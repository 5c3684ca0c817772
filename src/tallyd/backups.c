#include "tallyd/backups.h"

#include "backup/files.h"
#include "backup/make.h"
#include "base/assert.h"
#include "base/memory.h"
#include "log/log.h"
#include "platform/aside.h"
#include "platform/thread.h"
#include "tallyd/upgrade.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK_MS 5u
#define DAY_MS (UINT64_C(24) * 60 * 60 * 1000)
#define FIRST_DAY_MS 5000u /* when a start has its hands free */

/* How long files may be pinned before the instant: the removal behind a snapshot must come to its end first. */
#define PIN_MAX_MS 60000u

static_assert(BACKUP_REPORT_ID_SIZE == BACKUP_ID_SIZE, "both name a backup");

enum stage {
    STAGE_IDLE,
    STAGE_PINNING,  /* until no namespace removes files */
    STAGE_SETTLING, /* until the newest frame of each is durable */
    STAGE_LINKING,  /* the thread gives each file its second name */
    STAGE_MAKING,   /* the thread does the rest */
    STAGE_REMOVING, /* the thread removes one, or what was left of one */
};

struct backups {
    const struct namespaces *namespaces;
    uv_timer_t timer;
    uv_timer_t day; /* what is kept of an earlier tallyd goes after some of them */
    void (*report)(void *context, const char *text);
    void *context;
    enum stage stage;
    uint64_t begun_ms; /* of the loop */
    size_t durable;    /* so many of the namespaces are */
    struct backup_make make;
    struct backup_report newest; /* id "": there is none */
    char *folder_owned;          /* of the newest, if it is finished */
    bool is_removed;             /* the newest is to be removed when its thread has ended */

    /* shared with the thread */
    pthread_t thread;
    char *target_owned; /* what it removes; NULL: all that is unfinished, or kept for long enough */
    uint64_t now_ms;    /* when it began */
    atomic_bool is_linked;
    atomic_bool is_done;
    atomic_bool is_ending; /* the daemon stops: hurry, and leave what is left to the next start */
    enum error error;
    struct failure failure;
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

struct leftovers {
    const struct backups *backups;
    bool is_all; /* also the finished ones, but for the one that was just made */
};

static struct bytes without_ending(const char *name, bool *is_unfinished)
{
    struct bytes id = bytes_from_string(name);
    *is_unfinished = bytes_ends_with(id, BYTES(FILES_UNFINISHED));
    id.size -= *is_unfinished ? strlen(FILES_UNFINISHED) : 0;
    return id;
}

/* What has another name than those that are made here is somebody's own, such as a backup that was moved there. */
static void remove_left(void *context, const char *name)
{
    const struct leftovers *left = context;
    const struct backup_make *make = &left->backups->make;
    bool is_unfinished;
    if (!backup_is_id(without_ending(name, &is_unfinished)) || strcmp(name, make->manifest.id) == 0 ||
        (!is_unfinished && !left->is_all))
        return;
    struct failure ignored;
    failure_init(&ignored);
    char *path = backup_path(make->folder_owned, name, true);
    (void)backup_remove(path, &left->backups->is_ending, &ignored);
    free(path);
}

static void remove_others(const struct backups *backups, bool is_all)
{
    struct leftovers left = {.backups = backups, .is_all = is_all};
    (void)backup_visit(backups->make.folder_owned, remove_left, &left);
}

static void remove_old(struct backups *backups)
{
    const struct namespaces *namespaces = backups->namespaces;
    remove_others(backups, false);
    upgrade_forget(config_data(namespaces->config), backups->now_ms, &backups->is_ending);
}

static void make(struct backups *backups)
{
    struct backup_make *make = &backups->make;
    backups->error = backup_make_link(make, &backups->failure);
    atomic_store(&backups->is_linked, true);
    if (backups->error == OK)
        backups->error = backup_make_finish(make, &backups->failure);
    if (backups->error == OK) {
        remove_others(backups, true);
    } else if (!atomic_load(&backups->is_ending)) {
        struct failure ignored;
        failure_init(&ignored);
        char *path = backup_path(make->folder_owned, make->manifest.id, false);
        (void)backup_remove(path, &backups->is_ending, &ignored);
        free(path);
    }
}

static void *run(void *context)
{
    struct backups *backups = context;
    aside_begin();
    if (backups->stage == STAGE_LINKING)
        make(backups);
    else if (backups->target_owned != NULL)
        backups->error = backup_remove(backups->target_owned, &backups->is_ending, &backups->failure);
    else
        remove_old(backups);
    atomic_store(&backups->is_done, true);
    return NULL;
}

/* False: there is no thread. */
static bool begin_thread(struct backups *backups, enum stage stage)
{
    backups->stage = stage;
    backups->now_ms = clock_now_ms(backups->namespaces->clock);
    backups->error = OK;
    failure_init(&backups->failure);
    atomic_store(&backups->is_linked, false);
    atomic_store(&backups->is_done, false);
    const int result = thread_start(&backups->thread, run, backups);
    if (result == 0)
        return true;
    backups->error = failure_set(&backups->failure, ERROR_SERVICE_UNAVAILABLE,
                                 "there is no thread to make a backup with: %s.", strerror(result));
    return false;
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void unpin_all(const struct backups *backups)
{
    for (size_t i = 0; i < front_count(backups->namespaces->front); i++)
        namespace_unpin(namespaces_at(backups->namespaces, i)->ns);
}

static void become_idle(struct backups *backups)
{
    backups->stage = STAGE_IDLE;
    uv_timer_stop(&backups->timer);
}

static void note_failed(struct backups *backups)
{
    char text[BACKUP_REPORT_TEXT_SIZE + 64];
    struct backup_report *newest = &backups->newest;
    newest->state = BACKUP_FAILED;
    newest->finished_ms = clock_now_ms(backups->namespaces->clock);
    (void)snprintf(newest->failure, sizeof(newest->failure), "%.*s", (int)sizeof(newest->failure) - 1,
                   backups->failure.text);
    (void)snprintf(text, sizeof(text), "backup %s failed: %s", newest->id, newest->failure);
    backups->report(backups->context, text);
    server_notice(backups->namespaces->server, "BackupFailed", text);
}

/* The newest is there, and this is its manifest. */
static void keep_newest(struct backups *backups, const struct manifest *manifest)
{
    struct backup_report *newest = &backups->newest;
    const struct manifest_sum sum = manifest_sum(manifest);
    char *path = backup_path(backups->make.folder_owned, newest->id, true);
    free(backups->folder_owned);
    backups->folder_owned = realpath(path, NULL);
    if (backups->folder_owned == NULL)
        backups->folder_owned = path;
    else
        free(path);
    newest->state = BACKUP_FINISHED;
    newest->finished_ms = clock_now_ms(backups->namespaces->clock);
    newest->folder = backups->folder_owned;
    newest->files = sum.files;
    newest->bytes = sum.bytes;
}

static void note_finished(struct backups *backups)
{
    char text[256];
    const struct backup_report *newest = &backups->newest;
    keep_newest(backups, &backups->make.manifest);
    (void)snprintf(text, sizeof(text), "Backup %s is finished: %llu files, %llu bytes.", newest->id,
                   (unsigned long long)newest->files, (unsigned long long)newest->bytes);
    server_notice(backups->namespaces->server, "BackupFinished", text);
}

static void on_tick(uv_timer_t *timer);

static void begin_ticks(struct backups *backups)
{
    uv_timer_start(&backups->timer, on_tick, 0, TICK_MS);
}

static void begin_removal(struct backups *backups);

static void end_make(struct backups *backups)
{
    unpin_all(backups);
    if (backups->error == OK)
        note_finished(backups);
    else
        note_failed(backups);
    backup_make_deinit(&backups->make);
    become_idle(backups);
    if (backups->is_removed && backups->error == OK)
        begin_removal(backups);
    backups->is_removed = false;
}

static void fail(struct backups *backups, enum error error, const char *text)
{
    backups->error = failure_set(&backups->failure, error, "%s", text);
    end_make(backups);
}

/* NULL: all that is unfinished, or kept for long enough. There is no thread. */
static void set_target(struct backups *backups, char *path_owned)
{
    free(backups->target_owned);
    backups->target_owned = path_owned;
}

static void begin_removal(struct backups *backups)
{
    set_target(backups, backups->folder_owned);
    backups->folder_owned = NULL;
    backups->newest = (struct backup_report){0};
    if (begin_thread(backups, STAGE_REMOVING)) {
        begin_ticks(backups);
        return;
    }
    backups->report(backups->context, backups->failure.text);
    backups->stage = STAGE_IDLE;
}

/* Begins the one that `newest` names. */
static void begin_make(struct backups *backups)
{
    const struct namespaces *namespaces = backups->namespaces;
    backup_make_init(&backups->make, config_data(namespaces->config), clock_now_ms(namespaces->clock));
    memcpy(backups->make.manifest.id, backups->newest.id, BACKUP_ID_SIZE);
    backups->stage = STAGE_PINNING;
    backups->begun_ms = uv_now(backups->timer.loop);
    failure_init(&backups->failure);
    begin_ticks(backups);
}

static bool is_running(const struct backups *backups)
{
    return backups->newest.id[0] != '\0' && backups->newest.state == BACKUP_RUNNING;
}

static void end_removal(struct backups *backups)
{
    if (backups->error != OK)
        backups->report(backups->context, backups->failure.text);
    if (backups->make.folder_owned != NULL)
        backup_make_deinit(&backups->make);
    become_idle(backups);
    if (backups->is_removed)
        begin_removal(backups);
    else if (is_running(backups))
        begin_make(backups);
    backups->is_removed = false;
}

/* --- the instant -------------------------------------------------------------------------------------------------- */

static void add_ordinal(void *context, uint64_t ordinal)
{
    backup_source_add(context, ordinal);
}

static void settle(struct backups *backups, struct opened_namespace *opened)
{
    struct backup_namespace *ns;
    struct backup_source *source;
    const struct namespace_instant instant = namespace_settle(opened->ns);
    const struct namespace_usage usage = namespace_usage(opened->ns);
    backup_make_add(&backups->make, opened->name_owned, opened->folder_owned, &ns, &source);
    ns->segment_size = instant.segment_size;
    ns->epoch = instant.epoch;
    ns->sequence = instant.sequence;
    ns->position = instant.position;
    ns->time_ms = instant.time_ms;
    ns->queues = core_queue_count(namespace_core(opened->ns));
    ns->messages = core_metrics(namespace_core(opened->ns)).messages;
    source->snapshot_position = instant.snapshot_position;
    log_visit_segments(namespace_log(opened->ns), add_ordinal, source);
    backups->make.min_free =
        usage.min_free_bytes > backups->make.min_free ? usage.min_free_bytes : backups->make.min_free;
}

/* Everything that was acknowledged is in the log up to here, and nothing that comes later. */
static void settle_all(struct backups *backups)
{
    const uint64_t now_ms = clock_now_ms(backups->namespaces->clock);
    for (size_t i = 0; i < front_count(backups->namespaces->front); i++)
        settle(backups, namespaces_at(backups->namespaces, i));
    backups->newest.instant_ms = backups->make.manifest.instant_ms = now_ms;
    backups->durable = 0;
    backups->stage = STAGE_SETTLING;
}

/* Is one short of room? Then nothing may be pinned. */
static bool is_short(const struct backups *backups)
{
    for (size_t i = 0; i < front_count(backups->namespaces->front); i++)
        if (namespace_disk_level(namespaces_at(backups->namespaces, i)->ns) != DISK_AMPLE)
            return true;
    return false;
}

static void step_pinning(struct backups *backups)
{
    bool are_pinned = true;
    for (size_t i = 0; i < front_count(backups->namespaces->front); i++)
        are_pinned = namespace_pin(namespaces_at(backups->namespaces, i)->ns) && are_pinned;
    if (are_pinned)
        settle_all(backups);
    else if (uv_now(backups->timer.loop) - backups->begun_ms >= PIN_MAX_MS)
        fail(backups, ERROR_SERVICE_UNAVAILABLE,
             "old files of the log were being removed for a minute: try again later.");
}

static void step_settling(struct backups *backups)
{
    const struct manifest *manifest = &backups->make.manifest;
    for (; backups->durable < manifest->namespace_count; backups->durable++) {
        const struct backup_namespace *ns = &manifest->namespaces_owned[backups->durable];
        const struct opened_namespace *opened = namespaces_find(backups->namespaces, bytes_from_string(ns->name));
        if (opened == NULL) {
            fail(backups, ERROR_SERVICE_UNAVAILABLE, "a namespace was closed meanwhile: try again.");
            return;
        }
        if (namespace_durable(opened->ns) < ns->sequence)
            return;
    }
    if (!begin_thread(backups, STAGE_LINKING))
        end_make(backups);
}

static void on_tick(uv_timer_t *timer)
{
    struct backups *backups = timer->data;
    const bool is_before_thread = backups->stage == STAGE_PINNING || backups->stage == STAGE_SETTLING;
    if (is_before_thread && is_short(backups))
        fail(backups, ERROR_DISK_FULL, "the disk is short of room.");
    else if (backups->stage == STAGE_PINNING)
        step_pinning(backups);
    else if (backups->stage == STAGE_SETTLING)
        step_settling(backups);
    if (backups->stage == STAGE_LINKING && atomic_load(&backups->is_linked)) {
        unpin_all(backups);
        backups->stage = STAGE_MAKING;
    }
    if (backups->stage < STAGE_LINKING || !atomic_load(&backups->is_done))
        return;
    (void)pthread_join(backups->thread, NULL);
    if (backups->stage == STAGE_REMOVING)
        end_removal(backups);
    else
        end_make(backups);
}

/* --- what the api asks for ---------------------------------------------------------------------------------------- */

/* What a killed tool left may be all that the log has removed since. Whether one still copies it is not known here. */
static enum error refuse_short(const struct backups *backups, struct failure *failure)
{
    if (backups->folder_owned == NULL)
        return failure_set(failure, ERROR_DISK_IS_FULL, "The disk is short of room: make room before a backup.");
    return failure_set(failure, ERROR_DISK_IS_FULL,
                       "The disk is short of room: make room before a backup. An earlier one takes some: remove %s if "
                       "no tally backup copies it.",
                       backups->folder_owned);
}

static enum error control_start(void *context, struct backup_report *report, struct failure *failure)
{
    struct backups *backups = context;
    if (backups == NULL)
        return failure_set(failure, ERROR_UNSUPPORTED_OPERATION,
                           "The logs of this server are in PostgreSQL: back that up, with pg_basebackup and its WAL "
                           "archive (PITR). docs/how-to/run-a-cluster.md says how.");
    if (is_running(backups) || backups->is_removed)
        return failure_set(failure, ERROR_BACKUP_IN_PROGRESS, "Backup %s is being made.", backups->newest.id);
    if (is_short(backups))
        return refuse_short(backups, failure);
    const uint64_t now_ms = clock_now_ms(backups->namespaces->clock);
    backups->newest = (struct backup_report){.state = BACKUP_RUNNING, .started_ms = now_ms};
    backup_make_id(now_ms, backups->newest.id);
    if (backups->stage == STAGE_IDLE)
        begin_make(backups); /* else when what is being removed has gone */
    *report = backups->newest;
    return OK;
}

static bool is_newest(const struct backups *backups, struct bytes id)
{
    return backups != NULL && backups->newest.id[0] != '\0' &&
           (id.size == 0 || bytes_equal(id, bytes_from_string(backups->newest.id)));
}

static bool control_describe(void *context, struct bytes id, struct backup_report *report)
{
    const struct backups *backups = context;
    if (!is_newest(backups, id))
        return false;
    *report = backups->newest;
    return true;
}

static bool control_remove(void *context, struct bytes id)
{
    struct backups *backups = context;
    if (id.size == 0 || !is_newest(backups, id))
        return false;
    const bool is_finished = backups->newest.state == BACKUP_FINISHED;
    if (backups->stage == STAGE_PINNING || backups->stage == STAGE_SETTLING) {
        fail(backups, ERROR_SERVICE_UNAVAILABLE, "the backup was cancelled.");
    } else if (backups->stage == STAGE_LINKING || backups->stage == STAGE_MAKING ||
               (backups->stage == STAGE_REMOVING && is_finished)) {
        backups->is_removed = true;
        atomic_store(&backups->make.is_cancelled, true);
    } else if (is_finished) {
        begin_removal(backups);
    } else {
        backups->newest = (struct backup_report){0};
    }
    return true;
}

struct backup_control backups_control(struct backups *backups)
{
    return (struct backup_control){
        .context = backups, .start = control_start, .describe = control_describe, .remove = control_remove};
}

/* --- life --------------------------------------------------------------------------------------------------------- */

struct backups *backups_create(const struct namespaces *namespaces, uv_loop_t *loop,
                               void (*report)(void *context, const char *text), void *context)
{
    struct backups *backups = memory_allocate_zeroed(sizeof(*backups));
    backups->namespaces = namespaces;
    backups->report = report;
    backups->context = context;
    uv_timer_init(loop, &backups->timer);
    backups->timer.data = backups;
    uv_unref((uv_handle_t *)&backups->timer); /* a stop does not wait for a backup */
    uv_timer_init(loop, &backups->day);
    backups->day.data = backups;
    uv_unref((uv_handle_t *)&backups->day);
    return backups;
}

struct found {
    char id[BACKUP_ID_SIZE];
    bool has_unfinished;
};

static void note_found(void *context, const char *name)
{
    struct found *found = context;
    bool is_unfinished;
    if (!backup_is_id(without_ending(name, &is_unfinished)))
        return;
    if (is_unfinished)
        found->has_unfinished = true;
    else if (strcmp(name, found->id) > 0)
        memcpy(found->id, name, strlen(name) + 1);
}

/* The one that was finished before the daemon ended, and that nobody has taken yet. */
static void know_found(struct backups *backups, const char *id)
{
    struct failure ignored;
    struct manifest manifest;
    failure_init(&ignored);
    char *path = backup_path(backups->make.folder_owned, id, true);
    if (manifest_read(path, &manifest, &ignored) == OK) {
        (void)snprintf(backups->newest.id, sizeof(backups->newest.id), "%s", id);
        backups->newest.started_ms = backups->newest.instant_ms = manifest.instant_ms;
        keep_newest(backups, &manifest);
        manifest_deinit(&manifest);
    }
    free(path);
}

/* Has the thread remove what is unfinished, and what was kept for long enough. */
static void on_day(uv_timer_t *timer)
{
    struct backups *backups = timer->data;
    if (backups->stage != STAGE_IDLE)
        return; /* tomorrow, then */
    set_target(backups, NULL);
    backup_make_init(&backups->make, config_data(backups->namespaces->config), 0);
    backups->make.manifest.id[0] = '\0';
    if (begin_thread(backups, STAGE_REMOVING)) {
        begin_ticks(backups);
    } else {
        backups->stage = STAGE_IDLE;
        backup_make_deinit(&backups->make);
    }
}

void backups_begin(struct backups *backups)
{
    struct found found = {.id = ""};
    backup_make_init(&backups->make, config_data(backups->namespaces->config), 0);
    (void)backup_visit(backups->make.folder_owned, note_found, &found);
    if (found.id[0] != '\0')
        know_found(backups, found.id);
    backup_make_deinit(&backups->make);
    if (found.has_unfinished)
        on_day(&backups->day);
    uv_timer_start(&backups->day, on_day, FIRST_DAY_MS, DAY_MS);
}

void backups_end(struct backups *backups)
{
    atomic_store(&backups->is_ending, true);
    atomic_store(&backups->make.is_cancelled, true);
    if (backups->stage >= STAGE_LINKING)
        (void)pthread_join(backups->thread, NULL);
    if (backups->make.folder_owned != NULL)
        backup_make_deinit(&backups->make);
    backups->stage = STAGE_IDLE;
    uv_close((uv_handle_t *)&backups->timer, NULL);
    uv_close((uv_handle_t *)&backups->day, NULL);
}

void backups_destroy(struct backups *backups)
{
    free(backups->folder_owned);
    free(backups->target_owned);
    free(backups);
}

bool backups_refuse(const char *data_folder, struct failure *failure)
{
    if (!manifest_is_in(data_folder))
        return false;
    (void)failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                      "%s is a backup, and nobody may serve from it: numbers would be given out twice. Make a data "
                      "folder of it: tallyd --restore %s --to NEW",
                      data_folder, data_folder);
    return true;
}
