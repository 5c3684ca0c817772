/* load: asks a server on this machine as fast as it answers, or at a rate, and prints what was confirmed as JSON. */
#include "arguments.h"
#include "generator.h"
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void core_pin(unsigned core)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof(cores), &cores) != 0)
        fatal("can't run on core %u: %s", core, strerror(errno));
}

static void latency_print(const struct histogram *latency)
{
    printf("\"latency_us\":{\"mean\":%.2f,\"p50\":%.2f,\"p99\":%.2f,\"p999\":%.2f,\"max\":%.2f}",
           (double)histogram_mean_ns(latency) / 1e3, (double)histogram_percentile_ns(latency, 0.5) / 1e3,
           (double)histogram_percentile_ns(latency, 0.99) / 1e3, (double)histogram_percentile_ns(latency, 0.999) / 1e3,
           (double)latency->max_ns / 1e3);
}

static void result_print(const struct plan *plan, const struct workload *workload, const struct result *result)
{
    uint64_t messages = workload->counted == COUNTED_SENT       ? result->window.sent
                        : workload->counted == COUNTED_RECEIVED ? result->window.received
                                                                : result->window.deleted;
    printf("{\"mode\":\"%s\",\"connections\":%u,\"pipeline\":%u,\"body_bytes\":%u,\"rate\":%.1f,\"seconds\":%.6f,",
           plan->mode, plan->connections, plan->pipeline, plan->body_size, plan->rate, result->seconds);
    printf("\"requests\":%" PRIu64 ",\"requests_per_s\":%.1f,\"messages\":%" PRIu64 ",\"messages_per_s\":%.1f,",
           result->window.requests, (double)result->window.requests / result->seconds, messages,
           (double)messages / result->seconds);
    latency_print(&result->latency);
    printf(",\"max_us_by_second\":[");
    for (unsigned second = 0; second < SECONDS_MAX && second + 0.5 < result->seconds; second++)
        printf("%s%.0f", second > 0 ? "," : "", (double)result->max_ns_by_second[second] / 1e3);
    printf("]");
    printf(",\"total\":{\"requests\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64 ",\"deleted\":%" PRIu64
           "},",
           result->total.requests, result->total.sent, result->total.received, result->total.deleted);
    printf("\"generator_cpu_s\":%.4f,\"server_cpu_s\":%.4f}\n", result->generator_cpu_s, result->server_cpu_s);
}

/* Writes inside a file whose blocks exist and hold zeros, as a log does that prepares its segments. */
static void disk_sync_run(const char *path, double duration_s)
{
    enum { WRITE_SIZE = 512, BLOCK_SIZE = 64 * 1024, FILE_SIZE = 16 * 1024 * 1024 };
    static const char BLOCK[BLOCK_SIZE];
    static struct histogram latency;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        fatal("can't make %s: %s", path, strerror(errno));
    unlink(path);
    for (off_t at = 0; at < FILE_SIZE; at += BLOCK_SIZE)
        if (pwrite(fd, BLOCK, BLOCK_SIZE, at) != BLOCK_SIZE)
            fatal("can't write %s: %s", path, strerror(errno));
    if (fsync(fd) != 0)
        fatal("can't sync %s: %s", path, strerror(errno));
    uint64_t begin_ns = clock_now_ns(), now_ns = begin_ns;
    for (off_t at = 0; (double)(now_ns - begin_ns) < duration_s * 1e9; at = (at + WRITE_SIZE) % FILE_SIZE) {
        if (pwrite(fd, BLOCK, WRITE_SIZE, at) != WRITE_SIZE || fdatasync(fd) != 0)
            fatal("can't write and sync %s: %s", path, strerror(errno));
        uint64_t then_ns = now_ns;
        now_ns = clock_now_ns();
        histogram_add(&latency, now_ns - then_ns);
    }
    close(fd);
    printf("{\"mode\":\"disk-sync\",\"syncs_per_s\":%.1f,", (double)latency.count * 1e9 / (double)(now_ns - begin_ns));
    latency_print(&latency);
    puts("}");
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    arguments_read(&arguments, argc, argv);
    const struct plan *plan = &arguments.plan;
    if (arguments.is_pinned)
        core_pin(arguments.core);
    if (strcmp(plan->mode, "disk-sync") == 0 && arguments.file != NULL) {
        disk_sync_run(arguments.file, plan->duration_s);
        return 0;
    }
    bool is_record = strcmp(plan->mode, "record") == 0;
    bool needs_record = is_record || strncmp(plan->mode, "long-", 5) == 0 || strncmp(plan->mode, "soak-", 5) == 0;
    bool is_body_possible = plan->body_size >= RECORD_BODY_MIN && plan->body_size <= RECORD_BODY_MAX;
    if (needs_record && (plan->record == NULL || plan->messages == 0 || !is_body_possible))
        fatal("%s needs --record, --messages and bodies of %d to %d bytes", plan->mode, RECORD_BODY_MIN,
              RECORD_BODY_MAX);
    if (is_record) {
        record_verdict_print(record_open(plan->record, plan->messages, plan->body_size), stdout);
        return 0;
    }
    const struct workload *workload = workload_find(plan->mode);
    if (workload == NULL || plan->port == 0)
        fatal("%s; try --help", workload == NULL ? "no such mode" : "--port is missing");
    static struct result result; /* its histogram is large for a stack */
    generator_run(plan, workload, &result);
    result_print(plan, workload, &result);
    return 0;
}
