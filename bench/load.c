/* load: asks a server on this machine as fast as it answers, or at a rate, and prints what was confirmed as JSON. */
#include "generator.h"
#include "record.h"
#include "tickets.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void usage_print(FILE *file)
{
    fputs("Usage: load MODE --port PORT [options]\n"
          "       load disk-sync --file FILE [--seconds S]\n"
          "       load record --record FILE --messages N\n"
          "\n"
          "Asks a server on 127.0.0.1 and prints one line of JSON: rates, latencies, CPU time.\n"
          "\n"
          "Modes:\n",
          file);
    const struct workload *workload;
    for (unsigned index = 0; (workload = workload_at(index)) != NULL; index++)
        fprintf(file, "  %-16s %s\n", workload->name, workload->help);
    fputs("  disk-sync        write 512 bytes inside a file, fdatasync: the disk's own rate\n"
          "\n"
          "Options:\n"
          "  --port PORT        where the server listens\n"
          "  --queue NAME       queue, list, pool (default bench); an SQS queue and a pool must exist\n"
          "  --connections N    each with one write in flight (default 64)\n"
          "  --pipeline N       commands in one write, not over HTTP (default 1)\n"
          "  --body BYTES       size of one message (default 200)\n"
          "  --groups N         each message belongs to one of N groups, in turn (default 0: to none)\n"
          "  --group-first N    the number of the first of them (default 0)\n"
          "  --id-first N       each message has a deduplication id, counted from N (default 0: none has); of tickets, "
          "pairs and\n"
          "                     keys the number of the first\n"
          "  --tickets KIND     pools only: what tickets say (default pair), see below\n"
          "  --batch N          pools and redis-claim: tickets or pairs in one request (default 100)\n"
          "  --attribute N=V    each message has this attribute\n"
          "  --sign             each SQS request is signed, with the credential of AWS's documentation\n"
          "  --warm-up S        seconds before the measured window (default 1)\n"
          "  --seconds S        the measured window (default 3)\n"
          "  --count N          instead of both: exactly N writes, all of them measured\n"
          "  --rate R           open loop: R writes a second; latency counts from when each was due\n"
          "  --core C           run on this core only\n"
          "  --cpu-of PIDS      report the CPU time of these processes (12,13) in the window\n"
          "  --file FILE        for disk-sync; made, 16 MiB, and removed\n"
          "\n"
          "Of the long runs (long-*, soak-*), whose processes share a record of all messages:\n"
          "  --tell             print a line of JSON each second\n"
          "  --record FILE      the record; `load record --record FILE --messages N` prints what it proves\n"
          "  --messages N       that it has room for; the same for all processes\n"
          "  --slot N           which of the record's slots keeps the latencies of this process (default 0)\n"
          "  --hand N           long-scatter: receipt handles in hand (default 100000)\n"
          "  --keep N           long-scatter: messages that are not deleted (default 0)\n"
          "  --window N         soak-send: at most so many messages are sent and not ended (default 0: any number)\n"
          "  --lease S          soak-work: visibility timeout (default 5)\n"
          "\n"
          "Kinds of tickets:\n",
          file);
    const struct ticket_kind *kind;
    for (unsigned index = 0; (kind = ticket_kind_at(index)) != NULL; index++)
        fprintf(file, "  %-16s %s\n", kind->name, kind->help);
}

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

enum option_name {
    OPTION_PORT = 1,
    OPTION_QUEUE,
    OPTION_CONNECTIONS,
    OPTION_PIPELINE,
    OPTION_BODY,
    OPTION_GROUPS,
    OPTION_GROUP_FIRST,
    OPTION_ID_FIRST,
    OPTION_ATTRIBUTE,
    OPTION_TICKETS,
    OPTION_BATCH,
    OPTION_SIGN,
    OPTION_WARM_UP,
    OPTION_SECONDS,
    OPTION_COUNT,
    OPTION_RATE,
    OPTION_CORE,
    OPTION_CPU_OF,
    OPTION_FILE,
    OPTION_TELL,
    OPTION_RECORD,
    OPTION_MESSAGES,
    OPTION_SLOT,
    OPTION_HAND,
    OPTION_KEEP,
    OPTION_WINDOW,
    OPTION_LEASE,
    OPTION_HELP,
};

static const struct option OPTIONS[] = {
    {"port", required_argument, NULL, OPTION_PORT},
    {"queue", required_argument, NULL, OPTION_QUEUE},
    {"connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"pipeline", required_argument, NULL, OPTION_PIPELINE},
    {"body", required_argument, NULL, OPTION_BODY},
    {"groups", required_argument, NULL, OPTION_GROUPS},
    {"group-first", required_argument, NULL, OPTION_GROUP_FIRST},
    {"id-first", required_argument, NULL, OPTION_ID_FIRST},
    {"attribute", required_argument, NULL, OPTION_ATTRIBUTE},
    {"tickets", required_argument, NULL, OPTION_TICKETS},
    {"batch", required_argument, NULL, OPTION_BATCH},
    {"sign", no_argument, NULL, OPTION_SIGN},
    {"warm-up", required_argument, NULL, OPTION_WARM_UP},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"core", required_argument, NULL, OPTION_CORE},
    {"cpu-of", required_argument, NULL, OPTION_CPU_OF},
    {"file", required_argument, NULL, OPTION_FILE},
    {"tell", no_argument, NULL, OPTION_TELL},
    {"record", required_argument, NULL, OPTION_RECORD},
    {"messages", required_argument, NULL, OPTION_MESSAGES},
    {"slot", required_argument, NULL, OPTION_SLOT},
    {"hand", required_argument, NULL, OPTION_HAND},
    {"keep", required_argument, NULL, OPTION_KEEP},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

static unsigned positive(const char *name, const char *text, unsigned max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value == 0 || value > max)
        fatal("--%s %s: expected a number from 1 to %u", name, text, max);
    return (unsigned)value;
}

static double not_negative(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= 0))
        fatal("--%s %s: expected a number, 0 or more", name, text);
    return value;
}

static void option_apply(struct plan *plan, const char **file, int option, const char *value)
{
    switch (option) {
    case OPTION_PORT:
        plan->port = (uint16_t)positive("port", value, 65535);
        break;
    case OPTION_QUEUE:
        plan->queue = value;
        break;
    case OPTION_CONNECTIONS:
        plan->connections = positive("connections", value, 10000);
        break;
    case OPTION_PIPELINE:
        plan->pipeline = positive("pipeline", value, 1000);
        break;
    case OPTION_BODY:
        plan->body_size = positive("body", value, 100000);
        break;
    case OPTION_GROUPS:
        plan->groups = (uint64_t)not_negative("groups", value);
        break;
    case OPTION_GROUP_FIRST:
        plan->group_first = (uint64_t)not_negative("group-first", value);
        break;
    case OPTION_ID_FIRST:
        plan->id_first = (uint64_t)not_negative("id-first", value);
        break;
    case OPTION_ATTRIBUTE:
        plan->attribute = value;
        break;
    case OPTION_TICKETS:
        plan->ticket_kind = value;
        break;
    case OPTION_BATCH:
        plan->batch = positive("batch", value, 1000);
        break;
    case OPTION_SIGN:
        plan->is_signed = true;
        break;
    case OPTION_WARM_UP:
        plan->warm_up_s = not_negative("warm-up", value);
        break;
    case OPTION_SECONDS:
        plan->duration_s = not_negative("seconds", value);
        break;
    case OPTION_COUNT:
        plan->count = positive("count", value, 1000000000);
        break;
    case OPTION_RATE:
        plan->rate = not_negative("rate", value);
        break;
    case OPTION_CORE:
        core_pin((unsigned)not_negative("core", value));
        break;
    case OPTION_CPU_OF:
        plan->cpu_pids = value;
        break;
    case OPTION_FILE:
        *file = value;
        break;
    case OPTION_TELL:
        plan->is_told = true;
        break;
    case OPTION_RECORD:
        plan->record = value;
        break;
    case OPTION_MESSAGES:
        plan->messages = positive("messages", value, 1000000000);
        break;
    case OPTION_SLOT:
        plan->slot = positive("slot", value, RECORD_SLOTS - 1);
        break;
    case OPTION_HAND:
        plan->hand = positive("hand", value, 100000000);
        break;
    case OPTION_KEEP:
        plan->keep = (uint64_t)not_negative("keep", value);
        break;
    case OPTION_WINDOW:
        plan->window = (uint64_t)not_negative("window", value);
        break;
    case OPTION_LEASE:
        plan->lease_s = positive("lease", value, 43200);
        break;
    case OPTION_HELP:
        usage_print(stdout);
        exit(0);
    default:
        fatal("try --help");
    }
}

int main(int argc, char **argv)
{
    struct plan plan = {
        .queue = "bench",
        .connections = 64,
        .pipeline = 1,
        .body_size = 200,
        .ticket_kind = "pair",
        .batch = 100,
        .warm_up_s = 1,
        .duration_s = 3,
        .hand = 100000,
        .lease_s = 5,
    };
    static struct result result; /* its histogram is large for a stack */
    const char *file = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1)
        option_apply(&plan, &file, option, optarg);
    if (optind != argc - 1)
        fatal("expected one mode; try --help");
    plan.mode = argv[optind];
    if (strcmp(plan.mode, "disk-sync") == 0 && file != NULL) {
        disk_sync_run(file, plan.duration_s);
        return 0;
    }
    bool is_record = strcmp(plan.mode, "record") == 0;
    bool needs_record = is_record || strncmp(plan.mode, "long-", 5) == 0 || strncmp(plan.mode, "soak-", 5) == 0;
    if (needs_record && (plan.record == NULL || plan.messages == 0 || plan.body_size < RECORD_BODY_MIN))
        fatal("%s needs --record, --messages and bodies of %d bytes or more", plan.mode, RECORD_BODY_MIN);
    if (is_record) {
        record_verdict_print(record_open(plan.record, plan.messages), stdout);
        return 0;
    }
    const struct workload *workload = workload_find(plan.mode);
    if (workload == NULL || plan.port == 0)
        fatal("%s; try --help", workload == NULL ? "no such mode" : "--port is missing");
    generator_run(&plan, workload, &result);
    result_print(&plan, workload, &result);
    return 0;
}
