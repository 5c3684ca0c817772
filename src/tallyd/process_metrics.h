/* What /metrics says of the process itself, under the names that Prometheus' own clients use. */
#ifndef TALLY_TALLYD_PROCESS_METRICS_H
#define TALLY_TALLYD_PROCESS_METRICS_H

#include "base/buffer.h"

/* What else it says is told by the system. */
struct process_facts {
    size_t descriptors_open;
    size_t descriptors_limit;
    uint64_t started_at_ms;
};

void process_metrics_write(const struct process_facts *facts, struct buffer *text);

#endif
