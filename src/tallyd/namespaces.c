#include "tallyd/namespaces.h"

#include "base/memory.h"
#include "core/made_match.h"
#include "log/log.h"
#include "tallyd/config_value.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <uv.h>

/* A frame has room for what a busy moment gathers, and then for the events of one decision as large as can be: a
 * request's body and as much again for its framing, or the body and the completion messages of a whole chain of nested
 * batches (32 levels, three targets of 64 KiB each). A segment must hold two frames, or its end would go to waste. */
#define FRAME_GATHERED_SIZE (UINT64_C(2) * 1024 * 1024)
#define FRAME_CHAIN_SIZE (UINT64_C(7) * 1024 * 1024)
#define FRAMES_PER_SEGMENT 2
#define SEGMENT_OVERHEAD_SIZE 4096
#define SEGMENT_UNIT UINT64_C(4096)

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
    message_log_say(progress->output, "tallyd recovering %s: snapshot of %llu MiB read, log %llu of at most %llu MiB",
                    progress->folder, (unsigned long long)(recovery->snapshot_size / MIB),
                    (unsigned long long)(recovery->replayed / MIB), (unsigned long long)(recovery->log_size / MIB));
}

/* --- life --------------------------------------------------------------------------------------------------------- */

/* A folder keeps the segment size it was made with, whatever the configuration says by now. */
static enum error check_folder(const struct served_namespace *served, const struct config *config,
                               struct failure *failure)
{
    const struct log *log = namespace_log(served->ns);
    if (log_frame_size_max(log) >= frame_size_least(config))
        return OK;
    return failure_set(
        failure, ERROR_INVALID_PARAMETER_VALUE,
        "%s was made with segments of %llu bytes, too small for a body-max of %s: lower body-max, or start with a "
        "new data folder.",
        served->folder_owned, (unsigned long long)log_segment_size(log), config_text(config, CONFIG_BODY_MAX));
}

/* The disk makes the folder, and the data folder, durably. */
static void name_folder(struct served_namespace *served, const struct config *config, struct bytes name)
{
    const char *data = config_text(config, CONFIG_DATA);
    size_t size = strlen(data) + 1 + name.size + 1;
    served->name_owned = memory_allocate(name.size + 1);
    served->folder_owned = memory_allocate(size);
    (void)snprintf(served->name_owned, name.size + 1, "%.*s", BYTES_FORMAT(name));
    (void)snprintf(served->folder_owned, size, "%s/%s", data, served->name_owned);
}

static enum error recover_one(struct served_namespace *served, const struct config *config, struct server *server,
                              struct message_log *output, struct failure *failure)
{
    struct progress progress = {.output = output, .folder = served->folder_owned, .told_ns = uv_hrtime()};
    struct namespace_options options = {
        .name = served->name_owned,
        .segment_size = segment_size(config),
        .frame_size_max = frame_size_max(config),
        .snapshot_bytes = config_number(config, CONFIG_SNAPSHOT_BYTES),
        .snapshot_worth = (uint32_t)config_number(config, CONFIG_SNAPSHOT_GROWTH),
        .keeps_reserve = true,
        .disk_min_free = config_number(config, CONFIG_DISK_MIN_FREE),
        .in_flight_max = (uint32_t)config_number(config, CONFIG_IN_FLIGHT_MAX),
        .backlog = server_backlog(server),
        .has_flusher = true,
        .wake = server_wake,
        .wake_context = server,
        .progress = on_progress,
        .progress_context = &progress,
    };
    served->disk = disk_posix_create(served->folder_owned);
    enum error error = namespace_recover(served->disk, &options, &served->ns, failure);
    return error == OK ? check_folder(served, config, failure) : error;
}

static enum error take_over_one(struct served_namespace *served, const struct clock *clock, struct failure *failure)
{
    uint8_t key[CORE_KEY_SIZE];
    if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return failure_set(failure, ERROR_INTERNAL_FAILURE, "the system gave no random bytes: %s.", strerror(errno));
    return namespace_take_over(served->ns, clock_now_ms(clock), key, failure);
}

/* All are recovered before the first is taken over: leases get their grace from then on, and it must not run out, nor
 * the clock jump, while the others are being read. */
static enum error open_all(struct namespaces *namespaces, const struct config *config, struct clock *clock,
                           struct server *server, struct message_log *output, struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; i < namespaces->count && error == OK; i++)
        error = recover_one(&namespaces->items_owned[i], config, server, output, failure);
    for (size_t i = 0; i < namespaces->count && error == OK; i++)
        clock_raise(clock, namespace_time(namespaces->items_owned[i].ns));
    for (size_t i = 0; i < namespaces->count && error == OK; i++)
        error = take_over_one(&namespaces->items_owned[i], clock, failure);
    return error;
}

enum error namespaces_open(struct namespaces *namespaces, const struct config *config, const struct bytes *names,
                           size_t count, const struct api_options *options, struct clock *clock, struct server *server,
                           struct message_log *output, struct failure *failure)
{
    ASSERT(count >= 1 && count <= NAMESPACES_MAX);
    *namespaces = (struct namespaces){
        .items_owned = memory_allocate_zeroed(count * sizeof(*namespaces->items_owned)),
        .apis_owned = memory_allocate_zeroed(count * sizeof(struct api *)),
        .count = count,
    };
    for (size_t i = 0; i < count; i++)
        name_folder(&namespaces->items_owned[i], config, names[i]);
    enum error error = open_all(namespaces, config, clock, server, output, failure);
    for (size_t i = 0; i < count && error == OK; i++) {
        namespaces->apis_owned[i] = api_create(namespaces->items_owned[i].ns, options);
        api_set_family(namespaces->apis_owned[i], namespaces->apis_owned, count);
    }
    if (error != OK)
        namespaces_close(namespaces);
    return error;
}

void namespaces_close(struct namespaces *namespaces)
{
    for (size_t i = 0; i < namespaces->count; i++) {
        struct served_namespace *served = &namespaces->items_owned[i];
        if (namespaces->apis_owned[i] != NULL)
            api_destroy(namespaces->apis_owned[i]);
        if (served->ns != NULL)
            namespace_close(served->ns);
        if (served->disk != NULL)
            disk_posix_destroy(served->disk);
        free(served->folder_owned);
        free(served->name_owned);
    }
    free(namespaces->items_owned);
    free(namespaces->apis_owned);
    *namespaces = (struct namespaces){0};
}

bool namespaces_have(const struct namespaces *namespaces, struct bytes name)
{
    for (size_t i = 0; i < namespaces->count; i++)
        if (bytes_equal(name, bytes_from_string(namespaces->items_owned[i].name_owned)))
            return true;
    return false;
}

size_t namespaces_queue_count(const struct namespaces *namespaces)
{
    size_t count = 0;
    for (size_t i = 0; i < namespaces->count; i++)
        count += core_queue_count(namespace_core(namespaces->items_owned[i].ns));
    return count;
}

uint64_t namespaces_message_count(const struct namespaces *namespaces)
{
    uint64_t count = 0;
    for (size_t i = 0; i < namespaces->count; i++)
        count += core_metrics(namespace_core(namespaces->items_owned[i].ns)).messages;
    return count;
}
