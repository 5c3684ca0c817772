#include "tallyd/process_metrics.h"

#include "server/metric.h"
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* 0 if /proc can't be read. */
static uint64_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

void process_metrics_write(const struct process_facts *facts, struct buffer *text)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    buffer_append_format(text,
                         "# HELP process_cpu_seconds_total CPU time of the process, in user space and in the kernel.\n"
                         "# TYPE process_cpu_seconds_total counter\n"
                         "process_cpu_seconds_total %.6f\n",
                         seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    buffer_append_format(text,
                         "# HELP process_start_time_seconds When the process started, in seconds since 1970.\n"
                         "# TYPE process_start_time_seconds gauge\n"
                         "process_start_time_seconds %.3f\n",
                         (double)facts->started_at_ms / 1e3);
    metric_write(text, "process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM.",
                 resident_bytes());
    metric_write(text, "process_open_fds", "gauge", "File descriptors that are open.", facts->descriptors_open);
    metric_write(text, "process_max_fds", "gauge", "How many the process may open (ulimit -n).",
                 facts->descriptors_limit);
}
