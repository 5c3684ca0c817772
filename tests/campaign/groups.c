/* groups: a campaign against the order of groups and the exactness of ends, with the real daemon killed all the while.
 *
 * Producers send the messages of many groups into one FIFO queue, then workers receive and delete them, a share of the
 * attempts failing; every few seconds the daemon is killed with SIGKILL and started again on the same folder. record.h
 * judges all that is answered. At the end every message has ended exactly once and the queue is empty, also after one
 * more restart. Prints one line of JSON; the exit status is 0 if there is nothing wrong. */
#include "ask.h"
#include "client.h"
#include "daemon.h"
#include "option.h"
#include "wire.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, RETRY_MS = 5, TURN_MS = 20, SILENCE_MAX_MS = 60000, TELL_EACH_MS = 1000 };

struct options {
    uint32_t groups;
    uint32_t messages;
    unsigned workers;
    unsigned lease_s;
    const char *window; /* of deduplication, seconds */
    const char *strict; /* Tally.StrictOrder */
    uint64_t seed;
};

struct run {
    struct options options;
    struct campaign campaign;
    struct daemon daemon;
    struct client *clients_owned;
    int epoll_fd;
    uint64_t retry_at_ms;
    uint64_t told_at_ms;
    uint64_t silent_since_ms; /* no message was delivered or ended since */
    uint64_t progress;
};

/* --- The queue ---------------------------------------------------------------------------------------------------- */

static void queue_create(struct run *run)
{
    struct text body, reply;
    text_init(&body);
    text_init(&reply);
    text_append_format(&body,
                       "{\"QueueName\":\"%s\",\"Attributes\":{\"FifoQueue\":\"true\",\"VisibilityTimeout\":\"%u\","
                       "\"Tally.StrictOrder\":\"%s\",\"Tally.DeduplicationWindow\":\"%s\"}}",
                       run->campaign.queue, run->options.lease_s, run->options.strict, run->options.window);
    ask(&run->daemon, "AmazonSQS.CreateQueue", &body, &reply);
    text_deinit(&body);
    text_deinit(&reply);
}

/* --- The loop ----------------------------------------------------------------------------------------------------- */

static void clients_connect(struct run *run, uint64_t now)
{
    if (now < run->retry_at_ms)
        return;
    run->retry_at_ms = now + RETRY_MS;
    for (unsigned at = 0; at < run->options.workers; at++) {
        struct client *client = &run->clients_owned[at];
        if (client->fd >= 0)
            continue;
        if (!client_connect(client))
            return;
        daemon_found(&run->daemon, now);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = at};
        epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, client->fd, &event);
    }
}

static void print_progress(struct run *run, uint64_t now)
{
    const struct record *record = &run->campaign.record;
    if (now - run->told_at_ms < TELL_EACH_MS || !isatty(STDERR_FILENO))
        return;
    run->told_at_ms = now;
    fprintf(stderr,
            "\r\033[K%" PRIu64 " sent, %" PRIu64 " ended, %" PRIu64 " deliveries, %u kills, longest restart %" PRIu64
            " ms, %" PRIu64 " violations",
            record->sent, record->ended, record->deliveries, run->daemon.kills, run->daemon.restart_max_ms,
            record_violations(record) + record_twice(record));
}

/* One turn: kills if that is due, connects what is not connected, answers what has come. */
static void turn(struct run *run)
{
    struct epoll_event events[CONNECTIONS_MAX];
    uint64_t now = clock_now_ms();
    daemon_kill_due(&run->daemon, now, run->campaign.record.sent + run->campaign.record.ended);
    clients_connect(run, now);
    int count = epoll_wait(run->epoll_fd, events, CONNECTIONS_MAX, run->daemon.is_back ? TURN_MS : RETRY_MS);
    for (int at = 0; at < count; at++)
        client_read(&run->clients_owned[events[at].data.u32]);
    print_progress(run, now);
}

/* Is nothing going on any more, though the daemon serves? */
static bool is_silent(struct run *run)
{
    const struct record *record = &run->campaign.record;
    uint64_t progress = record->sent + record->deliveries + record->ended;
    if (progress != run->progress)
        run->silent_since_ms = clock_now_ms();
    run->progress = progress;
    return clock_now_ms() - run->silent_since_ms > SILENCE_MAX_MS;
}

static void clients_open(struct run *run, bool is_producer)
{
    const struct options *options = &run->options;
    run->clients_owned = allocate(options->workers * sizeof(struct client));
    run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    run->silent_since_ms = clock_now_ms();
    for (unsigned at = 0; at < options->workers; at++)
        client_init(&run->clients_owned[at], &run->campaign, is_producer,
                    (uint32_t)((uint64_t)options->groups * at / options->workers),
                    (uint32_t)((uint64_t)options->groups * (at + 1) / options->workers));
}

static void clients_close(struct run *run)
{
    for (unsigned at = 0; at < run->options.workers; at++)
        client_deinit(&run->clients_owned[at]);
    free(run->clients_owned);
    close(run->epoll_fd);
}

static void produce(struct run *run)
{
    clients_open(run, true);
    while (run->campaign.record.sent < (uint64_t)run->options.groups * run->options.messages)
        if (turn(run), is_silent(run))
            fatal("no send was answered for %d s", SILENCE_MAX_MS / 1000);
    clients_close(run);
}

/* Is there a delete that was asked for and not answered? */
static bool is_delete_under_way(const struct run *run)
{
    for (unsigned at = 0; at < run->options.workers; at++)
        if (run->clients_owned[at].step == STEP_DELETE)
            return true;
    return false;
}

/* Until every message has ended, or may have, and the queue is empty; or nothing comes any more. */
static void consume(struct run *run)
{
    clients_open(run, false);
    uint64_t count_at_ms = 0;
    for (;;) {
        turn(run);
        bool is_over = record_is_over(&run->campaign.record) && !is_delete_under_way(run);
        if (is_over && clock_now_ms() >= count_at_ms) {
            if (ask_queue_count(&run->daemon, run->campaign.queue) == 0)
                break;
            count_at_ms = clock_now_ms() + TELL_EACH_MS;
        }
        if (is_silent(run))
            break;
    }
    clients_close(run);
}

static uint64_t last_restart(struct run *run)
{
    uint64_t before = ask_queue_count(&run->daemon, run->campaign.queue);
    daemon_kill(&run->daemon, clock_now_ms());
    uint64_t after = ask_queue_count(&run->daemon, run->campaign.queue);
    int status = daemon_stop(&run->daemon);
    if (status != 0)
        fatal("the daemon did not stop cleanly: status %d; see %s.log", status, run->daemon.folder);
    return before > after ? before : after;
}

/* --- The result --------------------------------------------------------------------------------------------------- */

static bool summary_print(const struct run *run, double send_s, double work_s, uint64_t left)
{
    const struct campaign *campaign = &run->campaign;
    const struct record *record = &campaign->record;
    uint64_t lost = record_unfinished(record);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    printf("{\"groups\":%u,\"messages\":%" PRIu64 ",\"workers\":%u,\"deliveries\":%" PRIu64 ",\"attempts\":%" PRIu64
           ",\"failed_attempts\":%" PRIu64 ",\"kills\":%u,",
           record->groups, record->sent, run->options.workers, record->deliveries, campaign->attempts,
           campaign->failed_attempts, run->daemon.kills);
    printf("\"lost_replies\":%" PRIu64 ",\"refused_deletes\":%" PRIu64 ",\"fence_probes\":%" PRIu64 ",",
           campaign->lost_replies, campaign->refused_deletes, campaign->fence_probes);
    printf("\"order_violations\":%" PRIu64 ",\"lease_violations\":%" PRIu64 ",\"fence_violations\":%" PRIu64
           ",\"receive_violations\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"twice\":%" PRIu64 ",\"left_in_queue\":%" PRIu64
           ",",
           record->faults[FAULT_ORDER], record->faults[FAULT_LEASE], record->faults[FAULT_FENCE],
           record_unexplained(record), lost, record_twice(record), left);
    printf("\"unseen_receives\":%" PRIu64 ",", record->unseen_receives);
    printf("\"ends_unconfirmed\":%" PRIu64 ",\"restart_max_ms\":%" PRIu64
           ",\"send_s\":%.1f,\"work_s\":%.1f,\"seconds\":%.1f,\"seed\":%" PRIu64 "}\n",
           record->maybe_ended, run->daemon.restart_max_ms, send_s, work_s, send_s + work_s, run->options.seed);
    return lost + left + record_violations(record) + record_unexplained(record) + record_twice(record) == 0;
}

/* --- The command line --------------------------------------------------------------------------------------------- */

static void usage_print(FILE *file)
{
    fputs(
        "Usage: groups --tallyd PROGRAM --folder FOLDER [options] [-- OPTIONS OF TALLYD]\n"
        "\n"
        "Sends groups of messages, works on them while the daemon is killed, and judges order and ends.\n"
        "FOLDER, which must not exist, holds the daemon's data; its log is FOLDER.log.\n"
        "\n"
        "  --port PORT        of the daemon (a free one)\n"
        "  --groups N         (1000000)\n"
        "  --messages N       of each group (3)\n"
        "  --workers N        connections, first of producers, then of workers (64)\n"
        "  --fail SHARE       of the attempts that fail (0.05)\n"
        "  --kill-every S     seconds from one kill -9 to the next, serving at least two fifths of them; 0: never (5)\n"
        "  --kill-each N      instead: messages sent or ended from one kill to the next\n"
        "  --lease S          visibility timeout (2); shorter than --kill-every, for a restart renews the leases\n"
        "  --window S         of the deduplication that makes repeated sends exact (86400)\n"
        "  --strict BOOLEAN   the queue's Tally.StrictOrder (true); false breaks what is judged here\n"
        "  --seed N           of what is random here (the time)\n",
        file);
}

enum option_own {
    OPTION_GROUPS = OPTION_OWN,
    OPTION_MESSAGES,
    OPTION_WORKERS,
    OPTION_FAIL,
    OPTION_LEASE,
    OPTION_WINDOW,
    OPTION_NUMBERED,
    OPTION_STRICT,
};

static const struct option OPTIONS[] = {
    OPTION_ROWS_SHARED,
    {"groups", required_argument, NULL, OPTION_GROUPS},
    {"messages", required_argument, NULL, OPTION_MESSAGES},
    {"workers", required_argument, NULL, OPTION_WORKERS},
    {"fail", required_argument, NULL, OPTION_FAIL},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"numbered", no_argument, NULL, OPTION_NUMBERED},
    {"strict", required_argument, NULL, OPTION_STRICT},
    {0},
};

static void option_apply(struct run *run, int option, const char *value)
{
    switch (option) {
    case OPTION_GROUPS:
        run->options.groups = (uint32_t)option_number(value, 1, 1e8);
        break;
    case OPTION_MESSAGES:
        run->options.messages = (uint32_t)option_number(value, 1, 40);
        break;
    case OPTION_WORKERS:
        run->options.workers = (unsigned)option_number(value, 1, CONNECTIONS_MAX);
        break;
    case OPTION_FAIL:
        run->campaign.failure_share = option_number(value, 0, 0.99);
        break;
    case OPTION_LEASE:
        run->options.lease_s = (unsigned)option_number(value, 1, 43200);
        break;
    case OPTION_WINDOW:
        run->options.window = value;
        break;
    case OPTION_NUMBERED:
        run->campaign.is_numbered = true;
        run->options.window = "0";
        break;
    case OPTION_STRICT:
        run->options.strict = value;
        break;
    case OPTION_HELP:
        usage_print(stdout);
        exit(0);
    default:
        fatal("try --help");
    }
}

static void options_read(struct run *run, int argc, char **argv)
{
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1)
        if (!option_take(&run->daemon, &run->options.seed, option, optarg))
            option_apply(run, option, optarg);
    if (run->options.groups < run->options.workers)
        run->options.workers = run->options.groups;
    option_finish(&run->daemon, argv + optind);
    run->campaign.port = run->daemon.port;
}

int main(int argc, char **argv)
{
    static struct run run = {
        .options = {.groups = 1000000, .messages = 3, .workers = 64, .lease_s = 2, .window = "86400", .strict = "true"},
        .campaign = {.queue = "campaign.fifo", .failure_share = 0.05},
        .daemon = {.kill_every_ms = 5000},
    };
    run.options.seed = clock_now_ns();
    options_read(&run, argc, argv);
    run.campaign.random = run.options.seed;
    run.campaign.started_at_ms = clock_now_ms();
    record_init(&run.campaign.record, run.options.groups, run.options.messages, run.options.lease_s * 1000);
    daemon_start(&run.daemon, clock_now_ms());
    queue_create(&run);
    uint64_t begin_ns = clock_now_ns();
    produce(&run);
    uint64_t sent_ns = clock_now_ns();
    consume(&run);
    uint64_t end_ns = clock_now_ns();
    uint64_t left = last_restart(&run);
    bool is_good = summary_print(&run, (double)(sent_ns - begin_ns) / 1e9, (double)(end_ns - sent_ns) / 1e9, left);
    record_deinit(&run.campaign.record);
    return is_good ? 0 : 1;
}
