#include "tallyd/namespaces.h"

#include "backup/files.h"
#include "base/memory.h"
#include "conninfo/conninfo.h"
#include "core/pools/made_match.h"
#include "log/log.h"
#include "platform/random.h"
#include "tallyd/config_value.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

/* A frame has room for what a busy moment gathers, and then for the events of one decision as large as can be: a
 * request's body and as much again for its framing, or the body and the completion messages of a whole chain of nested
 * batches (32 levels, three targets of 64 KiB each). A segment must hold two frames, or its end would go to waste. */
#define FRAME_GATHERED_SIZE (UINT64_C(2) * 1024 * 1024)
#define FRAME_CHAIN_SIZE (UINT64_C(7) * 1024 * 1024)
#define FRAMES_PER_SEGMENT 2
#define SEGMENT_OVERHEAD_SIZE 4096
#define SEGMENT_UNIT UINT64_C(4096)

#define CACHE_SUFFIX ".cache" /* of the folder that is the cache of a log in PostgreSQL */

static_assert(MATCH_EVENTS_SIZE_MAX < FRAME_GATHERED_SIZE - FRAME_GATHERED_SIZE / NAMESPACE_FULL_SHARE,
              "the least frame has room for the largest match");

/* --- sizes -------------------------------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static uint64_t segment_size(const struct config *config)
{
    return round_up(config_number(config, CONFIG_SEGMENT_SIZE), SEGMENT_UNIT);
}

/* What a frame must hold so that no request is too large for it. */
static uint64_t frame_size_least(const struct config *config)
{
    return round_up(FRAME_GATHERED_SIZE + 2 * config_number(config, CONFIG_BODY_MAX), SEGMENT_UNIT);
}

/* As much as a frame may need, as far as small segments leave room for it. */
static uint64_t frame_size_max(const struct config *config)
{
    uint64_t body_max = config_number(config, CONFIG_BODY_MAX);
    uint64_t wanted = round_up(FRAME_GATHERED_SIZE + FRAME_CHAIN_SIZE + body_max + body_max / 2, SEGMENT_UNIT);
    uint64_t possible =
        (segment_size(config) - SEGMENT_OVERHEAD_SIZE) / FRAMES_PER_SEGMENT / SEGMENT_UNIT * SEGMENT_UNIT;
    wanted = wanted > frame_size_least(config) ? wanted : frame_size_least(config);
    return wanted < possible ? wanted : possible;
}

enum error namespaces_check_sizes(const struct config *config, struct failure *failure)
{
    uint64_t least = FRAMES_PER_SEGMENT * frame_size_least(config) + SEGMENT_OVERHEAD_SIZE;
    if (segment_size(config) >= least)
        return OK;
    char described[256];
    config_describe(config, CONFIG_SEGMENT_SIZE, described, sizeof(described));
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "%s is %s: with a body-max of %s it must be at least %llu bytes. Raise it or lower body-max.",
                       described, config_text(config, CONFIG_SEGMENT_SIZE), config_text(config, CONFIG_BODY_MAX),
                       (unsigned long long)round_up(least, SEGMENT_UNIT));
}

/* --- progress ----------------------------------------------------------------------------------------------------- */

#define PROGRESS_PAUSE_NS UINT64_C(1000000000)

/* Says how far a recovery has come, once a second: one that is over sooner says nothing. */
struct progress {
    struct message_log *output;
    const struct notifier *notifier;
    const char *folder;
    uint64_t told_ns; /* monotonic; at first when it began */
};

static void on_progress(void *context, const struct namespace_recovery *recovery)
{
    struct progress *progress = context;
    const uint64_t now_ns = uv_hrtime();
    if (now_ns - progress->told_ns < PROGRESS_PAUSE_NS)
        return;
    progress->told_ns = now_ns;
    char text[512];
    (void)snprintf(text, sizeof(text), "recovering %s: snapshot of %llu MiB read, log %llu of at most %llu MiB",
                   progress->folder, (unsigned long long)(recovery->snapshot_size / MIB),
                   (unsigned long long)(recovery->replayed / MIB), (unsigned long long)(recovery->log_size / MIB));
    message_log_say(progress->output, "tallyd %s", text);
    notifier_tell(progress->notifier, text);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* A folder keeps the segment size it was made with, whatever the configuration says by now. */
static enum error check_folder(const struct opened_namespace *opened, const struct config *config,
                               struct failure *failure)
{
    const struct log *log = namespace_log(opened->ns);
    if (log_frame_size_max(log) >= frame_size_least(config))
        return OK;
    return failure_set(
        failure, ERROR_INVALID_PARAMETER_VALUE,
        "%s was made with segments of %llu bytes, too small for a body-max of %s: lower body-max, or start with a "
        "new data folder.",
        opened->folder_owned, (unsigned long long)log_segment_size(log), config_text(config, CONFIG_BODY_MAX));
}

/* The folder of the namespace's log, or of its cache, for the caller to free. They stand apart: what is in a cache is
 * removed when PostgreSQL does not have it, and a log in files must never be taken for one, nor be served from one. */
static char *make_folder_name(const struct config *config, const char *name, bool is_cache)
{
    return files_join(config_data(config), name, is_cache ? CACHE_SUFFIX : "");
}

/* The disk makes the folder, and the data folder, durably. */
static void name_folder(struct opened_namespace *opened, const struct config *config, struct bytes name)
{
    opened->name_owned = memory_allocate(name.size + 1);
    (void)snprintf(opened->name_owned, name.size + 1, "%.*s", BYTES_FORMAT(name));
    opened->folder_owned = make_folder_name(config, opened->name_owned, namespaces_are_in_postgres(config));
}

/* What the log removes goes there. */
static void name_archive(struct opened_namespace *opened, const struct config *config)
{
    const char *archive = config_text(config, CONFIG_ARCHIVE);
    if (archive[0] != '\0')
        opened->archive_owned = files_join(archive, opened->name_owned, "");
    opened->disk->archive = opened->archive_owned;
}

bool namespaces_are_in_postgres(const struct config *config)
{
    return conninfo_is_uri(config_text(config, CONFIG_LOG));
}

const char *namespaces_node_name(const struct config *config)
{
    static char host[HOST_NAME_MAX + 1];
    const char *configured = config_text(config, CONFIG_NODE);
    if (configured[0] != '\0')
        return configured;
    if (host[0] == '\0' && gethostname(host, HOST_NAME_MAX) != 0)
        (void)snprintf(host, sizeof(host), "?");
    return host;
}

struct pg_options namespaces_postgres(const struct config *config, const char *log)
{
    return (struct pg_options){.conninfo = config_text(config, CONFIG_LOG),
                               .log = log,
                               .node = namespaces_node_name(config),
                               .address = config_text(config, CONFIG_ADVERTISE),
                               .lease_ms = (uint32_t)config_number(config, CONFIG_LEASE),
                               .wants_replicas = config_number(config, CONFIG_LOG_REPLICAS) > 0};
}

static enum error recover_one(const struct namespaces *namespaces, struct opened_namespace *opened,
                              struct failure *failure)
{
    const struct config *config = namespaces->config;
    struct progress progress = {.output = namespaces->output,
                                .notifier = namespaces->notifier,
                                .folder = opened->folder_owned,
                                .told_ns = uv_hrtime()};
    struct namespace_options options = {
        .name = opened->name_owned,
        .segment_size = segment_size(config),
        .frame_size_max = frame_size_max(config),
        .snapshot_bytes = config_number(config, CONFIG_SNAPSHOT_BYTES),
        .snapshot_worth = (uint32_t)config_number(config, CONFIG_SNAPSHOT_GROWTH),
        .keeps_reserve = !namespaces_are_in_postgres(config),
        .disk_min_free = config_number(config, CONFIG_DISK_MIN_FREE),
        .in_flight_max = (uint32_t)config_number(config, CONFIG_IN_FLIGHT_MAX),
        .backlog = server_backlog(namespaces->server),
        .flushers = namespaces->flushers,
        .wake = server_wake,
        .wake_context = namespaces->server,
        .progress = on_progress,
        .progress_context = &progress,
    };
    enum error error = namespace_recover(opened->disk, &options, &opened->ns, failure);
    return error == OK ? check_folder(opened, config, failure) : error;
}

static enum error take_over_one(struct opened_namespace *opened, uint64_t now_ms, struct failure *failure)
{
    uint8_t key[CORE_KEY_SIZE];
    random_fill(key, sizeof(key));
    const enum error error = namespace_take_over(opened->ns, now_ms, key, failure);
    if (error != ERROR_LOG_LOCKED)
        return error;
    failure->error = ERROR_SERVICE_UNAVAILABLE; /* another node was faster, and this one goes on standing by */
    return failure->error;
}

/* --- opening, in folders ------------------------------------------------------------------------------------------ */

struct opening {
    struct namespaces *namespaces;
    struct opened_namespace **opened_owned;
    size_t count;
    enum error error; /* of their recovery */
    struct failure failure;
};

struct opening *opening_create(struct namespaces *namespaces, const struct bytes *names, size_t count)
{
    ASSERT(count >= 1);
    struct opening *opening = memory_allocate_zeroed(sizeof(*opening));
    opening->namespaces = namespaces;
    opening->opened_owned = memory_allocate(count * sizeof(struct opened_namespace *));
    opening->count = count;
    for (size_t i = 0; i < count; i++) {
        struct opened_namespace *opened = memory_allocate_zeroed(sizeof(*opened));
        opening->opened_owned[i] = opened;
        name_folder(opened, namespaces->config, names[i]);
        opened->disk = disk_posix_create(opened->folder_owned);
        name_archive(opened, namespaces->config);
    }
    return opening;
}

void opening_recover(struct opening *opening)
{
    for (size_t i = 0; i < opening->count && opening->error == OK; i++) {
        const uint64_t begun_ns = uv_hrtime();
        opening->error = recover_one(opening->namespaces, opening->opened_owned[i], &opening->failure);
        opening->opened_owned[i]->recovery_ms = (uv_hrtime() - begun_ns) / 1000000;
    }
}

/* From now on the server has it. */
static void serve(const struct namespaces *namespaces, struct opened_namespace *opened, bool is_taken_over)
{
    server_serve(namespaces->server, &opened->served, opened->ns);
    api_note_start(&opened->served.api, clock_now_ms(namespaces->clock), opened->recovery_ms, is_taken_over);
}

/* All are recovered before the first is taken over: leases get their grace from then on, and it must not run out, nor
 * the clock jump, while the others are being read. */
static enum error take_over_all(const struct opening *opening, struct failure *failure)
{
    struct clock *clock = opening->namespaces->clock;
    enum error error = OK;
    for (size_t i = 0; i < opening->count; i++)
        clock_raise(clock, namespace_time(opening->opened_owned[i]->ns));
    for (size_t i = 0; i < opening->count && error == OK; i++)
        error = take_over_one(opening->opened_owned[i], clock_now_ms(clock), failure);
    return error;
}

void opened_namespace_close(struct opened_namespace *opened)
{
    struct failure ignored;
    failure_init(&ignored);
    if (opened->ns != NULL) {
        opened->rests = opened->rests && namespace_failure(opened->ns, &ignored) == OK;
        namespace_close(opened->ns);
    }
    if (opened->disk != NULL) {
        opened->rests = opened->rests && disk_postgres_rest(opened->disk);
        opened->disk->operations->destroy(opened->disk);
    }
    opened->ns = NULL;
    opened->disk = NULL;
}

void opened_namespace_destroy(struct opened_namespace *opened)
{
    opened_namespace_close(opened);
    free(opened->archive_owned);
    free(opened->folder_owned);
    free(opened->name_owned);
    free(opened);
}

static void opening_destroy(struct opening *opening)
{
    free(opening->opened_owned);
    free(opening);
}

void opening_abandon(struct opening *opening)
{
    for (size_t i = 0; i < opening->count; i++)
        opened_namespace_destroy(opening->opened_owned[i]);
    opening_destroy(opening);
}

enum error opening_finish(struct opening *opening, struct failure *failure)
{
    enum error error = opening->error;
    if (error != OK)
        *failure = opening->failure;
    else
        error = take_over_all(opening, failure);
    if (error != OK) {
        opening_abandon(opening);
        return error;
    }
    for (size_t i = 0; i < opening->count; i++)
        serve(opening->namespaces, opening->opened_owned[i], false);
    opening_destroy(opening);
    return OK;
}

/* --- in PostgreSQL ------------------------------------------------------------------------------------------------ */

struct opened_namespace *namespaces_prepare(const struct namespaces *namespaces, const char *name,
                                            const struct pg_options *options)
{
    struct opened_namespace *opened = memory_allocate_zeroed(sizeof(*opened));
    name_folder(opened, namespaces->config, bytes_from_string(name));
    opened->postgres = *options;
    opened->postgres.log = opened->name_owned;
    opened->disk = disk_postgres_create(&opened->postgres, opened->folder_owned);
    return opened;
}

/* A log that other nodes want as well is taken over at once; its time is that of PostgreSQL's clock. */
enum error namespaces_follow(const struct namespaces *namespaces, struct opened_namespace *opened,
                             struct failure *failure)
{
    const enum error error = recover_one(namespaces, opened, failure);
    return error == OK ? take_over_one(opened, disk_postgres_now_ms(opened->disk), failure) : error;
}

void namespaces_serve(const struct namespaces *namespaces, struct opened_namespace *opened, bool is_alone)
{
    if (is_alone)
        clock_set(namespaces->clock, disk_postgres_now_ms(opened->disk));
    clock_raise(namespaces->clock, namespace_time(opened->ns));
    disk_postgres_bear_silence(opened->disk, true);
    serve(namespaces, opened, true);
}

void namespaces_resume(const struct namespaces *namespaces, struct opened_namespace *opened)
{
    namespace_resume(opened->ns, clock_now_ms(namespaces->clock));
    serve(namespaces, opened, true);
}

uint64_t opened_namespace_silence_ms(const struct opened_namespace *opened)
{
    const uint64_t now_ms = pg_now_ms(), proved_ms = disk_postgres_proved_ms(opened->disk);
    return now_ms > proved_ms ? now_ms - proved_ms : 0;
}

/* Each body has a checksum, and PostgreSQL has them all. Who opens the log anew compares its copies, and fetches those
 * that differ. */
static enum permission fail_damaged(const struct opened_namespace *opened, struct failure *failure)
{
    (void)failure_set(
        failure, ERROR_SERVICE_UNAVAILABLE,
        "namespace %s: a message could not be read from the copy of its log in %s, which is damaged. This "
        "node begins again with it, and fetches it from PostgreSQL.",
        opened->name_owned, opened->folder_owned);
    return PERMISSION_LOST;
}

static enum permission fail_silent(const struct opened_namespace *opened, uint64_t silence_ms, struct failure *failure)
{
    (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                      "namespace %s: its log in PostgreSQL took nothing for %llu ms, longer than the lease: another "
                      "node may serve it by now.",
                      opened->name_owned, (unsigned long long)silence_ms);
    return PERMISSION_SILENT;
}

/* Many are not looked at in each millisecond: each look is a system call. */
#define LOOKS_PER_MS 64u

enum permission namespaces_may_answer(const struct namespaces *namespaces, struct opened_namespace *opened,
                                      struct failure *failure)
{
    const uint64_t lease_ms = opened->postgres.lease_ms, now_ms = pg_now_ms();
    if (now_ms < opened->look_ms)
        return PERMISSION_GIVEN;
    const uint64_t silence_ms = opened_namespace_silence_ms(opened);
    if (api_damaged_count(&opened->served.api) > 0)
        return fail_damaged(opened, failure);
    if (namespace_failure(opened->ns, failure) != OK)
        return PERMISSION_LOST;
    if (silence_ms >= lease_ms)
        return fail_silent(opened, silence_ms, failure);
    if (!disk_postgres_is_whole(opened->disk))
        return PERMISSION_PENDING;
    const uint64_t pause_ms = 1 + front_count(namespaces->front) / LOOKS_PER_MS, left_ms = lease_ms - silence_ms;
    opened->look_ms = now_ms + (pause_ms < left_ms ? pause_ms : left_ms);
    return PERMISSION_GIVEN;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

bool namespaces_find_other_log(const struct namespaces *namespaces, const struct opened_namespace *opened, char *text,
                               size_t size)
{
    const bool is_in_postgres = namespaces_are_in_postgres(namespaces->config);
    char *other_owned = make_folder_name(namespaces->config, opened->name_owned, !is_in_postgres);
    const bool is_there = core_queue_count(namespace_core(opened->ns)) == 0 && access(other_owned, F_OK) == 0;
    if (is_there && is_in_postgres)
        (void)snprintf(text, size,
                       "the log of namespace %s in PostgreSQL has no queues, and there is one in %s, which is not "
                       "served. \"tally log copy\" brings it to PostgreSQL.",
                       opened->name_owned, other_owned);
    else if (is_there)
        (void)snprintf(text, size,
                       "the log of namespace %s in %s has no queues, and %s was made from one in PostgreSQL, which "
                       "is not served. Was --log forgotten?",
                       opened->name_owned, opened->folder_owned, other_owned);
    free(other_owned);
    return is_there;
}

enum error namespaces_open(struct namespaces *namespaces, const struct bytes *names, size_t count,
                           struct failure *failure)
{
    struct opening *opening = opening_create(namespaces, names, count);
    opening_recover(opening);
    return opening_finish(opening, failure);
}

void namespaces_close(const struct namespaces *namespaces)
{
    for (size_t left = front_count(namespaces->front); left > 0; left--) {
        struct opened_namespace *opened = namespaces_at(namespaces, left - 1);
        ASSERT(opened->namespace_relays_owned == NULL);
        served_deinit(&opened->served);
        opened_namespace_destroy(opened);
    }
}

struct opened_namespace *namespaces_at(const struct namespaces *namespaces, size_t index)
{
    return CONTAINER_OF(front_at(namespaces->front, index), struct opened_namespace, served.api);
}

struct opened_namespace *namespaces_find(const struct namespaces *namespaces, struct bytes name)
{
    struct api *api = front_find(namespaces->front, name);
    return api == NULL ? NULL : CONTAINER_OF(api, struct opened_namespace, served.api);
}

size_t namespaces_queue_count(const struct namespaces *namespaces)
{
    size_t count = 0;
    for (size_t i = 0; i < front_count(namespaces->front); i++)
        count += core_queue_count(namespace_core(namespaces_at(namespaces, i)->ns));
    return count;
}

uint64_t namespaces_message_count(const struct namespaces *namespaces)
{
    uint64_t count = 0;
    for (size_t i = 0; i < front_count(namespaces->front); i++)
        count += core_metrics(namespace_core(namespaces_at(namespaces, i)->ns)).messages;
    return count;
}
