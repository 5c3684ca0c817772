/* The metrics of relays. Each relay is asked once, whatever the number of metrics. */
#include "api/metrics.h"

#include "api/relay_view.h"
#include "api/state.h"

/* `offset` is that of a uint64_t in struct relay_report. */
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

/* The metrics of one relay. */
struct relay_series {
    const struct api *api;
    struct bytes name;
    struct relay_report report;
};

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

void relay_metrics_write(const struct front *front, struct arena *arena, struct buffer *text)
{
    size_t count;
    const struct relay_series *relays = read_relays(front, arena, &count);
    if (count > 0)
        write_relays(relays, count, arena, text);
}
