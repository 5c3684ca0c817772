/* Metrics in Prometheus text format: lines, and what a namespace says of itself. If there are several namespaces, each
 * has its own values, with a label. */
#include "api/metrics.h"

#include "api/state.h"
#include "base/accounted.h"
#include "core/pools/ticket_pool.h"

/* --- lines -------------------------------------------------------------------------------------------------------- */

void metric_write_head(struct buffer *text, const char *name, const char *kind, const char *help)
{
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

struct bytes metric_account(const struct api *api)
{
    return front_count(api->front) > 1 ? core_name(namespace_core(api->ns)) : bytes_make(NULL, 0);
}

/* A metric's name with its labels. */
static void write_name(struct buffer *text, struct bytes account, const char *name, struct bytes labels)
{
    buffer_append_format(text, "%s", name);
    if (account.size > 0)
        buffer_append_format(text, "{namespace=\"%.*s\"", BYTES_FORMAT(account));
    if (labels.size > 0)
        buffer_append_format(text, "%c%.*s", account.size > 0 ? ',' : '{', BYTES_FORMAT(labels));
    if (account.size > 0 || labels.size > 0)
        buffer_append_u8(text, '}');
}

void metric_write_number(struct buffer *text, struct bytes account, const char *name, struct bytes labels,
                         uint64_t value)
{
    write_name(text, account, name, labels);
    buffer_append_format(text, " %llu\n", (unsigned long long)value);
}

void metric_write_value(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                        uint64_t value)
{
    metric_write_number(text, metric_account(api), name, labels, value);
}

void metric_write_seconds(struct buffer *text, struct bytes account, const char *name, struct bytes labels,
                          uint64_t time_ms)
{
    write_name(text, account, name, labels);
    buffer_append_format(text, " %llu.%03u\n", (unsigned long long)(time_ms / 1000), (unsigned)(time_ms % 1000));
}

void metric_write_time(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                       uint64_t time_ms)
{
    metric_write_seconds(text, metric_account(api), name, labels, time_ms);
}

void metric_write_histogram(struct buffer *text, struct bytes account, const char *name,
                            const struct histogram *histogram_ms)
{
    char series[96], labels[48];
    uint64_t count = 0;
    (void)snprintf(series, sizeof(series), "%s_bucket", name);
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        const uint64_t bound_ms = (uint64_t)1 << i;
        count += histogram_ms->counts[i];
        (void)snprintf(labels, sizeof(labels), "le=\"%llu.%03u\"", (unsigned long long)(bound_ms / 1000),
                       (unsigned)(bound_ms % 1000));
        metric_write_number(text, account, series, bytes_from_string(labels), count);
    }
    count = histogram_count(histogram_ms);
    metric_write_number(text, account, series, BYTES("le=\"+Inf\""), count);
    (void)snprintf(series, sizeof(series), "%s_sum", name);
    metric_write_seconds(text, account, series, bytes_make(NULL, 0), histogram_ms->sum);
    (void)snprintf(series, sizeof(series), "%s_count", name);
    metric_write_number(text, account, series, bytes_make(NULL, 0), count);
}

void metric_write_durations(struct buffer *text, const char *name, struct bytes labels,
                            const struct histogram *histogram_us)
{
    uint64_t count = 0;
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        count += histogram_us->counts[i];
        if (i % 2 == 0)
            buffer_append_format(text, "%s_bucket{%.*s,le=\"%.6f\"} %llu\n", name, BYTES_FORMAT(labels),
                                 (double)((uint64_t)1 << i) / 1e6, (unsigned long long)count);
    }
    count = histogram_count(histogram_us);
    buffer_append_format(text, "%s_bucket{%.*s,le=\"+Inf\"} %llu\n", name, BYTES_FORMAT(labels),
                         (unsigned long long)count);
    buffer_append_format(text, "%s_sum{%.*s} %.6f\n%s_count{%.*s} %llu\n", name, BYTES_FORMAT(labels),
                         (double)histogram_us->sum / 1e6, name, BYTES_FORMAT(labels), (unsigned long long)count);
}

/* --- a namespace -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *kind;
    const char *help;
} metrics[METRIC_COUNT] = {
#define METRIC_ROW(METRIC, name, kind, help) {name, kind, help},
    METRIC_LIST(METRIC_ROW)
#undef METRIC_ROW
};

static void read_values(const struct api *api, uint64_t values[METRIC_COUNT])
{
    const struct core *core = namespace_core(api->ns);
    struct core_metrics now = core_metrics(core);
    values[METRIC_QUEUES] = core_queue_count(core);
    values[METRIC_MESSAGES] = now.messages;
    values[METRIC_IN_FLIGHT] = now.in_flight;
    values[METRIC_DELAYED] = now.delayed;
    values[METRIC_DEDUPLICATION_IDS] = now.deduplication_ids;
    values[METRIC_PRODUCERS] = now.producers;
    values[METRIC_PUBLISHERS] = now.publishers;
    values[METRIC_PUBLISHED_ROWS] = now.published_rows;
    values[METRIC_REUSED_IDS] = now.reused_ids;
    values[METRIC_WAITING] = api->receives_waiting;
    values[METRIC_POOLS] = ticket_pool_count(core);
    values[METRIC_FEEDS] = api->feeds_waiting;
    values[METRIC_SENT] = now.sent;
    values[METRIC_DELIVERED] = now.delivered;
    values[METRIC_DURABLE] = namespace_durable(api->ns);
    const struct namespace_usage usage = namespace_usage(api->ns);
    values[METRIC_DISK_BYTES] = usage.disk_bytes;
    values[METRIC_DISK_LIVE_BYTES] = usage.live_bytes;
    values[METRIC_DISK_BOUND_BYTES] = usage.bound_bytes;
    values[METRIC_DISK_RESERVE_BYTES] = usage.reserve_bytes;
    values[METRIC_DISK_RESERVE_MISSING] = usage.missing_bytes;
    values[METRIC_DISK_FREE_BYTES] = usage.free_bytes;
    values[METRIC_DISK_MIN_FREE_BYTES] = usage.min_free_bytes;
    values[METRIC_DISK_LEVEL] = (uint64_t)namespace_disk_level(api->ns);
    const struct namespace_snapshot snapshot = namespace_snapshot(api->ns);
    values[METRIC_SNAPSHOT_AT] = snapshot.succeeded_ms / 1000;
    values[METRIC_SNAPSHOTS_FAILED] = snapshot.failed_count;
    values[METRIC_SNAPSHOT_FAILING] = snapshot.is_failing;
    values[METRIC_SEGMENTS] = usage.segments;
    values[METRIC_CLEANING_ROUNDS] = usage.cleaning_rounds;
    values[METRIC_MOVED_BYTES] = usage.moved_bytes;
    values[METRIC_SCHEDULES] = schedule_count(core);
    values[METRIC_SCHEDULES_WAITING] = firings_count_waiting(api);
    values[METRIC_DAMAGED] = api->damaged_count;
    values[METRIC_STALE_RECEIPTS] = api->stale_count;
    values[METRIC_DELETED] = core_counted(core, COUNTER_DELETED);
    values[METRIC_FAILED] = core_counted(core, COUNTER_FAILED);
    values[METRIC_DEAD_LETTERED] = core_counted(core, COUNTER_DEAD_LETTERED);
    values[METRIC_DROPPED] = core_counted(core, COUNTER_DROPPED);
    values[METRIC_EXPIRED] = core_counted(core, COUNTER_EXPIRED);
    values[METRIC_REDRIVEN] = core_counted(core, COUNTER_REDRIVEN);
    values[METRIC_QUEUES_PAUSED] = values[METRIC_GROUPS_HELD] = 0; /* queue_figures_sum() */
}

static void read_batches(const struct core *core, uint64_t now_ms, struct namespace_figures *figures)
{
    const struct batch *oldest = core_oldest_batch(core);
    for (enum batch_state state = BATCH_OPEN; state <= BATCH_COMPLETED; state++)
        figures->batches[state] = core_batch_count(core, state);
    if (oldest != NULL && now_ms > oldest->created_at_ms)
        figures->batch_age_ms = now_ms - oldest->created_at_ms;
}

void namespace_figures_read(const struct api *api, uint64_t now_ms, struct arena *arena,
                            struct namespace_figures *figures)
{
    const struct core *core = namespace_core(api->ns);
    const struct bytes account = metric_account(api);
    *figures = (struct namespace_figures){.account_size = account.size,
                                          .wait_ms = *core_wait_ms(core),
                                          .processing_ms = *core_processing_ms(core),
                                          .recovery_ms = api->recovery_ms,
                                          .call_counts = arena_allocate(arena, 2 * action_count * sizeof(uint64_t))};
    ASSERT(account.size <= sizeof(figures->account));
    if (account.size > 0)
        memcpy(figures->account, account.ptr, account.size);
    memcpy(figures->call_counts, api->call_counts_owned, 2 * action_count * sizeof(uint64_t));
    read_values(api, figures->values);
    read_batches(core, now_ms > core_now_ms(core) ? now_ms : core_now_ms(core), figures);
}

static struct bytes account_of(const struct namespace_figures *figures)
{
    return bytes_make(figures->account, figures->account_size);
}

void namespace_figures_write(const struct namespace_figures *figures, size_t count, enum metric metric,
                             struct buffer *text)
{
    metric_write_head(text, metrics[metric].name, metrics[metric].kind, metrics[metric].help);
    for (size_t i = 0; i < count; i++)
        metric_write_number(text, account_of(&figures[i]), metrics[metric].name, bytes_make(NULL, 0),
                            figures[i].values[metric]);
}

void namespace_ages_write(const struct namespace_figures *figures, size_t count, struct arena *arena,
                          struct buffer *text)
{
    static const char *const states[METRIC_AGE_COUNT] = {"any", "deliverable"};
    const char *name = "tally_oldest_message_age_seconds";
    metric_write_head(text, name, "gauge",
                      "Age of the oldest message of all queues; and of those that a receive could have now.");
    for (size_t i = 0; i < count; i++)
        for (unsigned age = 0; age < METRIC_AGE_COUNT; age++)
            metric_write_seconds(text, account_of(&figures[i]), name, arena_format(arena, "state=\"%s\"", states[age]),
                                 figures[i].ages_ms[age]);
}

void namespace_batches_write(const struct namespace_figures *figures, size_t count, struct arena *arena,
                             struct buffer *text)
{
    const char *name = "tally_batches";
    metric_write_head(text, name, "gauge", "Batches remembered, by state.");
    for (size_t i = 0; i < count; i++)
        for (enum batch_state state = BATCH_OPEN; state <= BATCH_COMPLETED; state++)
            metric_write_number(text, account_of(&figures[i]), name,
                                arena_format(arena, "state=\"%s\"", batch_state_name(state)),
                                figures[i].batches[state]);
    name = "tally_batch_oldest_age_seconds";
    metric_write_head(text, name, "gauge", "Age of the oldest batch that has not completed; 0: there is none.");
    for (size_t i = 0; i < count; i++)
        metric_write_seconds(text, account_of(&figures[i]), name, bytes_make(NULL, 0), figures[i].batch_age_ms);
}

void namespace_recovery_write(const struct namespace_figures *figures, size_t count, struct buffer *text)
{
    const char *name = "tally_recovery_seconds";
    metric_write_head(text, name, "gauge", "How long it took to read the log, at the start or at the takeover.");
    for (size_t i = 0; i < count; i++)
        metric_write_seconds(text, account_of(&figures[i]), name, bytes_make(NULL, 0), figures[i].recovery_ms);
}

void namespace_calls_write(const struct namespace_figures *figures, struct arena *arena, struct buffer *text)
{
    for (size_t i = 0; i < action_count; i++)
        for (unsigned k = 0; k < 2; k++)
            metric_write_number(
                text, account_of(figures), "tally_calls_total",
                arena_format(arena, "action=\"%s\",result=\"%s\"", actions[i].target, k == 0 ? "ok" : "error"),
                figures->call_counts[2 * i + k]);
}

/* --- the server --------------------------------------------------------------------------------------------------- */

void server_metrics_write(const struct front *front, struct buffer *text)
{
    metric_write_head(text, "tally_build_info", "gauge", "The version that runs: always 1.");
    buffer_append_format(text, "tally_build_info{version=\"%s\"} 1\n", TALLY_VERSION);
    metric_write_head(text, "tally_memory_bytes", "gauge", "Memory that the state takes, of all namespaces together.");
    buffer_append_format(text, "tally_memory_bytes %zu\n", accounted_in_use());
    metric_write_head(text, "tally_memory_limit_bytes", "gauge", "What it may take (memory-max); 0: no limit.");
    buffer_append_format(text, "tally_memory_limit_bytes %llu\n", (unsigned long long)front->options.memory_max);
    /* Their namespace was not known. */
    metric_write_head(text, "tally_requests_refused_total", "counter", "Requests refused before an action saw them.");
    buffer_append_format(text, "tally_requests_refused_total %llu\n", (unsigned long long)front->refused_count);
}
