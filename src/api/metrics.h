/* What the writers of metrics share. Private to src/api. */
#ifndef TALLY_API_METRICS_H
#define TALLY_API_METRICS_H

#include "api/api.h"

/* The lines before the values of a metric. */
void metric_write_head(struct buffer *text, const char *name, const char *kind, const char *help);

/* A value of a namespace. If there are several, a label names it; other labels may follow ("pool=\"duel\"", or
 * none). */
void metric_write_value(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                        uint64_t value);

/* The same for a time, which is shown in seconds. */
void metric_write_time(const struct api *api, struct buffer *text, const char *name, struct bytes labels,
                       uint64_t time_ms);

/* The metrics of pools (pool_metrics.c). */
void pool_metrics_write(const struct front *front, struct arena *arena, struct buffer *text);

#endif
