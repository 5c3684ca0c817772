/* Metrics in Prometheus text format: a row of the list for each that a namespace has one of. Where there are several namespaces, each
 * has its own, told apart by a label. */
#include "api/state.h"

/* X(METRIC, name, kind, help) */
#define METRIC_LIST(X)                                                                                                 \
    X(QUEUES, "tally_queues", "gauge", "Queues.")                                                                      \
    X(MESSAGES, "tally_messages", "gauge", "Messages in all queues.")                                                  \
    X(IN_FLIGHT, "tally_messages_in_flight", "gauge", "Messages held by receivers.")                                   \
    X(DELAYED, "tally_messages_delayed", "gauge", "Messages not yet visible.")                                         \
    X(BATCHES, "tally_batches", "gauge", "Batches remembered.")                                                        \
    X(DEDUPLICATION_IDS, "tally_deduplication_ids", "gauge", "Deduplication ids remembered.")                          \
    X(PRODUCERS, "tally_producers", "gauge", "Numbered producers remembered.")                                         \
    X(WAITING, "tally_receives_waiting", "gauge", "Long polls that wait for messages.")                                \
    X(SENT, "tally_messages_sent_total", "counter", "Messages accepted since the namespace was founded.")              \
    X(DELIVERED, "tally_deliveries_total", "counter", "Deliveries since the namespace was founded.")                   \
    X(DURABLE, "tally_frames_durable_total", "counter", "Frames made durable since the namespace was founded.")        \
    X(DAMAGED, "tally_contents_damaged_total", "counter", "Message bodies that could not be read back from the log.")  \
    X(REFUSED, "tally_requests_refused_total", "counter", "Requests refused before an action saw them.")

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
    values[METRIC_WAITING] = api->waiters.used;
    values[METRIC_SENT] = now.sent;
    values[METRIC_DELIVERED] = now.delivered;
    values[METRIC_DURABLE] = namespace_durable(api->ns);
    values[METRIC_DAMAGED] = api->damaged_count;
    values[METRIC_REFUSED] = api->refused_count;
}

/* A metric's name with its labels: that of the namespace, where there are several, and others. */
static void write_name(const struct api *api, struct buffer *text, const char *name, struct bytes labels)
{
    struct bytes account = core_name(namespace_core(api->ns));
    bool is_one_of_many = api->family_count > 1;
    buffer_append_format(text, "%s", name);
    if (is_one_of_many)
        buffer_append_format(text, "{namespace=\"%.*s\"", BYTES_FORMAT(account));
    if (labels.size > 0)
        buffer_append_format(text, "%c%.*s", is_one_of_many ? ',' : '{', BYTES_FORMAT(labels));
    if (is_one_of_many || labels.size > 0)
        buffer_append_u8(text, '}');
}

static void write_value(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                        uint64_t value)
{
    write_name(api, text, name, labels);
    buffer_append_format(text, " %llu\n", (unsigned long long)value);
}

static void write_queues(const struct api *api, struct arena *arena, struct buffer *text)
{
    const struct core *core = namespace_core(api->ns);
    for (size_t i = 0; i < core_queue_count(core); i++) {
        const struct queue *queue = core_queue_by_name(core, i);
        const struct shelf *shelf = core_shelf(core, queue);
        const struct {
            const char *state;
            uint64_t count;
        } states[] = {{"visible", shelf_visible_count(shelf)},
                      {"in_flight", shelf->in_flight_count},
                      {"delayed", shelf->delayed_count}};
        for (size_t k = 0; k < ARRAY_LENGTH(states); k++)
            write_value(
                api, text, "tally_queue_messages",
                arena_format(arena, "queue=\"%.*s\",state=\"%s\"", BYTES_FORMAT(queue->name_owned), states[k].state),
                states[k].count);
    }
}

static void write_calls(const struct api *api, struct arena *arena, struct buffer *text)
{
    for (size_t i = 0; i < action_count; i++)
        for (unsigned k = 0; k < 2; k++)
            write_value(api, text, "tally_calls_total",
                        arena_format(arena, "action=\"%s\",result=\"%s\"", actions[i].target, k == 0 ? "ok" : "error"),
                        api->call_counts_owned[2 * i + k]);
}

void api_metrics_write(struct api *const *members, size_t count, struct arena *arena, struct buffer *text)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        buffer_append_format(text, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name,
                             metrics[i].kind);
        for (size_t k = 0; k < count; k++) {
            uint64_t values[METRIC_COUNT];
            read_values(members[k], values);
            write_value(members[k], text, metrics[i].name, bytes_make(NULL, 0), values[i]);
        }
    }
    buffer_append_format(text, "# HELP tally_queue_messages Messages in a queue by state.\n"
                               "# TYPE tally_queue_messages gauge\n");
    for (size_t k = 0; k < count; k++)
        write_queues(members[k], arena, text);
    buffer_append_format(text,
                         "# HELP tally_calls_total Calls by action and result.\n# TYPE tally_calls_total counter\n");
    for (size_t k = 0; k < count; k++)
        write_calls(members[k], arena, text);
}
