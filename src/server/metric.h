/* Metrics in Prometheus text format. */
#ifndef TALLY_SERVER_METRIC_H
#define TALLY_SERVER_METRIC_H

#include "base/buffer.h"

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

#endif
