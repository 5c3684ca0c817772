/* Metrics in Prometheus text format. The list has a row for each metric of a namespace. If there are several
 * namespaces, each has its own values, with a label. */
#include "api/metrics.h"
#include "core/messages/message_list.h"
#include "core/pools/ticket_pool.h"

#include "api/relay_view.h"
#include "api/state.h"
#include "base/accounted.h"

/* X(METRIC, name, kind, help) */
#define METRIC_LIST(X)                                                                                                 \
    X(QUEUES, "tally_queues", "gauge", "Queues.")                                                                      \
    X(MESSAGES, "tally_messages", "gauge", "Messages in all queues.")                                                  \
    X(IN_FLIGHT, "tally_messages_in_flight", "gauge", "Messages held by receivers.")                                   \
    X(DELAYED, "tally_messages_delayed", "gauge", "Messages not yet visible.")                                         \
    X(BATCHES, "tally_batches", "gauge", "Batches remembered.")                                                        \
    X(DEDUPLICATION_IDS, "tally_deduplication_ids", "gauge", "Deduplication ids remembered.")                          \
    X(PRODUCERS, "tally_producers", "gauge", "Numbered producers remembered.")                                         \
    X(PUBLISHERS, "tally_publishers", "gauge", "Publishers remembered.")                                               \
    X(PUBLISHED_ROWS, "tally_published_rows", "gauge", "Rows of publishers remembered.")                               \
    X(REUSED_IDS, "tally_published_ids_reused_total", "counter",                                                       \
      "Published rows whose id another row had, since the namespace was founded.")                                     \
    X(WAITING, "tally_receives_waiting", "gauge", "Long polls that wait for messages.")                                \
    X(POOLS, "tally_pools", "gauge", "Pools of tickets.")                                                              \
    X(FEEDS, "tally_feeds_waiting", "gauge", "Long polls that wait for the feed of a pool.")                           \
    X(SENT, "tally_messages_sent_total", "counter", "Messages accepted since the namespace was founded.")              \
    X(DELIVERED, "tally_deliveries_total", "counter", "Deliveries since the namespace was founded.")                   \
    X(DURABLE, "tally_frames_durable_total", "counter", "Frames made durable since the namespace was founded.")        \
    X(DISK_BYTES, "tally_disk_bytes", "gauge", "What the log's segments and snapshots take up on the disk.")           \
    X(DISK_LIVE_BYTES, "tally_disk_live_bytes", "gauge", "Content of live messages, and the newest snapshot.")         \
    X(DISK_BOUND_BYTES, "tally_disk_bound_bytes", "gauge",                                                             \
      "What tally_disk_bytes is kept under; 0: no snapshots, no bound.")                                               \
    X(DISK_RESERVE_BYTES, "tally_disk_reserve_bytes", "gauge", "Of that, what is kept for a full disk.")               \
    X(DISK_RESERVE_MISSING, "tally_disk_reserve_missing_bytes", "gauge", "What could not be had of the reserve.")      \
    X(DISK_FREE_BYTES, "tally_disk_free_bytes", "gauge", "What is free on the file system of the data folder.")        \
    X(DISK_MIN_FREE_BYTES, "tally_disk_min_free_bytes", "gauge", "What must stay free (disk-min-free).")               \
    X(DISK_LEVEL, "tally_disk_level", "gauge",                                                                         \
      "0: the disk has room; 1: sends are refused; 2: whatever is written waits for a segment to come free.")          \
    X(SEGMENTS, "tally_log_segments", "gauge", "Segments of the log.")                                                 \
    X(CLEANING_ROUNDS, "tally_cleaning_rounds_total", "counter", "Rounds of cleaning begun since the start.")          \
    X(MOVED_BYTES, "tally_cleaning_moved_bytes_total", "counter", "Contents moved by cleaning since the start.")       \
    X(SCHEDULES, "tally_schedules", "gauge", "Schedules.")                                                             \
    X(SCHEDULES_WAITING, "tally_schedules_waiting_for_zone", "gauge",                                                  \
      "Schedules that are due and wait because their time zone can't be read.")                                        \
    X(DAMAGED, "tally_contents_damaged_total", "counter", "Message bodies that could not be read back from the log.")  \
    X(STALE_RECEIPTS, "tally_stale_receipts_total", "counter",                                                         \
      "Receipt handles that were not the newest of their message, whether accepted or refused, since the start.")

/* The same for each relay; `offset` is that of a uint64_t in struct relay_report. */
static const struct {
    size_t offset;
    const char *name;
    const char *kind;
    const char *help;
} relay_metrics[] = {
    {offsetof(struct relay_report, lag_rows), "tally_relay_lag_rows", "gauge", "Rows that wait in the relay's source."},
    {offsetof(struct relay_report, lag_s), "tally_relay_lag_seconds", "gauge",
     "Age of the oldest row that waits in the relay's source."},
    {offsetof(struct relay_report, parked_count), "tally_relay_parked", "gauge", "Rows that are parked."},
    {offsetof(struct relay_report, in_doubt_count), "tally_relay_in_doubt", "gauge",
     "Parked rows that may have been delivered."},
    {offsetof(struct relay_report, delivered), "tally_relay_delivered_total", "counter",
     "Rows delivered since the relay was started here."},
    {offsetof(struct relay_report, duplicates), "tally_relay_duplicates_total", "counter",
     "Rows of those that the sink had already."},
    {offsetof(struct relay_report, retries), "tally_relay_retries_total", "counter",
     "Attempts that had to be repeated."},
    {offsetof(struct relay_report, parked), "tally_relay_parked_total", "counter",
     "Rows parked since the relay was started here."},
    {offsetof(struct relay_report, takeovers), "tally_relay_takeovers_total", "counter",
     "How often the relay became the owner of its source."},
};

enum metric {
#define METRIC_ENUM(METRIC, name, kind, help) METRIC_##METRIC,
    METRIC_LIST(METRIC_ENUM)
#undef METRIC_ENUM
        METRIC_COUNT
};

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
    values[METRIC_BATCHES] = now.batches;
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
    values[METRIC_SEGMENTS] = usage.segments;
    values[METRIC_CLEANING_ROUNDS] = usage.cleaning_rounds;
    values[METRIC_MOVED_BYTES] = usage.moved_bytes;
    values[METRIC_SCHEDULES] = schedule_count(core);
    values[METRIC_SCHEDULES_WAITING] = firings_count_waiting(api);
    values[METRIC_DAMAGED] = api->damaged_count;
    values[METRIC_STALE_RECEIPTS] = api->stale_count;
}

void metric_write_head(struct buffer *text, const char *name, const char *kind, const char *help)
{
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* A metric's name with its labels: the namespace's, if there are several, and others. */
static void write_name(const struct api *api, struct buffer *text, const char *name, struct bytes labels)
{
    struct bytes account = core_name(namespace_core(api->ns));
    bool is_one_of_many = front_count(api->front) > 1;
    buffer_append_format(text, "%s", name);
    if (is_one_of_many)
        buffer_append_format(text, "{namespace=\"%.*s\"", BYTES_FORMAT(account));
    if (labels.size > 0)
        buffer_append_format(text, "%c%.*s", is_one_of_many ? ',' : '{', BYTES_FORMAT(labels));
    if (is_one_of_many || labels.size > 0)
        buffer_append_u8(text, '}');
}

void metric_write_value(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                        uint64_t value)
{
    write_name(api, text, name, labels);
    buffer_append_format(text, " %llu\n", (unsigned long long)value);
}

void metric_write_time(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                       uint64_t time_ms)
{
    write_name(api, text, name, labels);
    buffer_append_format(text, " %llu.%03u\n", (unsigned long long)(time_ms / 1000), (unsigned)(time_ms % 1000));
}

static void write_queues(const struct api *api, struct arena *arena, struct buffer *text)
{
    const struct core *core = namespace_core(api->ns);
    for (size_t i = 0; i < core_queue_count(core); i++) {
        const struct queue *queue = core_queue_by_name(core, i);
        const struct message_list *list = core_message_list(core, queue);
        const struct {
            const char *state;
            uint64_t count;
        } states[] = {{"visible", message_list_visible_count(list)},
                      {"in_flight", list->in_flight_count},
                      {"delayed", list->delayed_count}};
        for (size_t k = 0; k < ARRAY_LENGTH(states); k++)
            metric_write_value(
                api, text, "tally_queue_messages",
                arena_format(arena, "queue=\"%.*s\",state=\"%s\"", BYTES_FORMAT(queue->name_owned), states[k].state),
                states[k].count);
    }
}

/* The metrics of one relay. */
struct relay_series {
    const struct api *api;
    struct bytes name;
    struct relay_report report;
};

/* Each is asked once, whatever the number of metrics. */
static struct relay_series *read_relays(const struct front *front, struct arena *arena, size_t *series_count)
{
    *series_count = 0;
    for (size_t k = 0; k < front_count(front); k++)
        *series_count += relay_record_count(namespace_core(front_at(front, k)->ns));
    struct relay_series *series = arena_allocate(arena, (*series_count + 1) * sizeof(*series));
    struct relay_series *next = series;
    for (size_t k = 0; k < front_count(front); k++) {
        const struct core *core = namespace_core(front_at(front, k)->ns);
        for (uint32_t i = 0; i < relay_record_count(core); i++, next++) {
            const struct relay_record *record = relay_record_at(core, i);
            next->api = front_at(front, k);
            next->name = record->name_owned;
            relay_view_report(&front->options, core_name(core), record, &next->report);
        }
    }
    return series;
}

static void write_relays(const struct relay_series *series, size_t count, struct arena *arena, struct buffer *text)
{
    buffer_append_format(text, "# HELP tally_relay_state The state of a relay: 1 for the one it is in.\n"
                               "# TYPE tally_relay_state gauge\n");
    for (size_t i = 0; i < count; i++)
        metric_write_value(
            series[i].api, text, "tally_relay_state",
            arena_format(arena, "relay=\"%.*s\",state=\"%s\"", BYTES_FORMAT(series[i].name), series[i].report.state),
            1);
    for (size_t k = 0; k < ARRAY_LENGTH(relay_metrics); k++) {
        const char *name = relay_metrics[k].name;
        metric_write_head(text, name, relay_metrics[k].kind, relay_metrics[k].help);
        for (size_t i = 0; i < count; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&series[i].report + relay_metrics[k].offset, sizeof(value));
            metric_write_value(series[i].api, text, name,
                               arena_format(arena, "relay=\"%.*s\"", BYTES_FORMAT(series[i].name)), value);
        }
    }
}

static void write_calls(const struct api *api, struct arena *arena, struct buffer *text)
{
    for (size_t i = 0; i < action_count; i++)
        for (unsigned k = 0; k < 2; k++)
            metric_write_value(
                api, text, "tally_calls_total",
                arena_format(arena, "action=\"%s\",result=\"%s\"", actions[i].target, k == 0 ? "ok" : "error"),
                api->call_counts_owned[2 * i + k]);
}

/* Metrics of the whole server, whatever the number of namespaces. */
static void write_memory(const struct front *front, struct buffer *text)
{
    metric_write_head(text, "tally_memory_bytes", "gauge", "Memory that the state takes, of all namespaces together.");
    buffer_append_format(text, "tally_memory_bytes %zu\n", accounted_in_use());
    metric_write_head(text, "tally_memory_limit_bytes", "gauge", "What it may take (memory-max); 0: no limit.");
    buffer_append_format(text, "tally_memory_limit_bytes %llu\n", (unsigned long long)front->options.memory_max);
}

/* Counts requests that were refused before their namespace was known. */
static void write_refused(const struct front *front, struct buffer *text)
{
    metric_write_head(text, "tally_requests_refused_total", "counter", "Requests refused before an action saw them.");
    buffer_append_format(text, "tally_requests_refused_total %llu\n", (unsigned long long)front->refused_count);
}

void front_metrics_write(const struct front *front, struct arena *arena, struct buffer *text)
{
    const size_t count = front_count(front);
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        metric_write_head(text, metrics[i].name, metrics[i].kind, metrics[i].help);
        for (size_t k = 0; k < count; k++) {
            uint64_t values[METRIC_COUNT];
            read_values(front_at(front, k), values);
            metric_write_value(front_at(front, k), text, metrics[i].name, bytes_make(NULL, 0), values[i]);
        }
    }
    write_refused(front, text);
    buffer_append_format(text, "# HELP tally_queue_messages Messages in a queue by state.\n"
                               "# TYPE tally_queue_messages gauge\n");
    for (size_t k = 0; k < count; k++)
        write_queues(front_at(front, k), arena, text);
    size_t relay_count;
    const struct relay_series *relays = read_relays(front, arena, &relay_count);
    if (relay_count > 0)
        write_relays(relays, relay_count, arena, text);
    write_memory(front, text);
    pool_metrics_write(front, arena, text);
    buffer_append_format(text,
                         "# HELP tally_calls_total Calls by action and result.\n# TYPE tally_calls_total counter\n");
    for (size_t k = 0; k < count; k++)
        write_calls(front_at(front, k), arena, text);
}
