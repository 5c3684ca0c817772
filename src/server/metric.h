/* Metrics in Prometheus text format. */
#ifndef TALLY_SERVER_METRIC_H
#define TALLY_SERVER_METRIC_H

#include "base/buffer.h"
#include "base/histogram.h"

/* `kind` is counter or gauge. */
static inline void metric_write(struct buffer *text, const char *name, const char *kind, const char *help,
                                uint64_t value)
{
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, kind, name,
                         (unsigned long long)value);
}

/* A gauge of a time: in seconds, as Prometheus wants it. */
static inline void metric_write_seconds(struct buffer *text, const char *name, const char *help, uint64_t ms)
{
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s gauge\n%s %.3f\n", name, help, name, name, (double)ms / 1000);
}

/* A histogram of microseconds, in seconds; buckets whose upper ends are powers of four. */
static inline void metric_write_times(struct buffer *text, const char *name, const char *help,
                                      const struct histogram *us)
{
    uint64_t count = 0;
    buffer_append_format(text, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        count += us->counts[i];
        if (i % 2 == 0)
            buffer_append_format(text, "%s_bucket{le=\"%.6f\"} %llu\n", name, (double)((uint64_t)1 << i) / 1e6,
                                 (unsigned long long)count);
    }
    count = histogram_count(us);
    buffer_append_format(text, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", name,
                         (unsigned long long)count, name, (double)us->sum / 1e6, name, (unsigned long long)count);
}

#endif
