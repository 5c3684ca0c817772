/* pool: a campaign against the exclusion of pools: each ticket is in one match, whoever proposes, and whatever is
 * killed.
 *
 * Producers offer tickets, many matchers take any of the oldest that they believe to wait and propose them as groups,
 * so that they collide all the time, and consumers receive and delete the results, or put some of the matches back.
 * Each view of the pool comes from the feed, which a reader of its own follows. Every few seconds the daemon is killed
 * with SIGKILL and started again on the same folder; what had no answer is asked again until it has one. pool_record.h
 * judges. At the end each ticket is in exactly one match that was delivered and deleted, the queue is empty, the
 * daemon's own counts say the same, and so does a late repeat of every offer, also after one more kill. Prints one line
 * of JSON; the exit status is 0 if there is nothing wrong. */
#include "ask.h"
#include "daemon.h"
#include "option.h"
#include "pool_client.h"
#include "wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 1024,
    RETRY_MS = 5,
    TURN_MS = 5,
    QUIET_MS = 1000,
    SILENCE_MAX_MS = 90000,
    TELL_EACH_MS = 1000,
    ENDED_REMEMBERED = 1000000, /* tickets that a pool remembers after their end */
    OFFERS_REPEATED = 1000,
};

struct options {
    unsigned producers;
    unsigned matchers;
    unsigned consumers;
    unsigned views;
    uint64_t seed;
};

struct run {
    struct options options;
    struct pool_campaign campaign;
    struct daemon daemon;
    struct pool_view *views_owned;
    struct pool_client *clients_owned;
    unsigned clients;
    int epoll_fd;
    uint64_t retry_at_ms;
    uint64_t told_at_ms;
    uint64_t progress;
    uint64_t progress_at_ms;
    uint64_t counted_at_ms;
    uint64_t left_in_queue;
    uint64_t miscounted; /* states of tickets in which the daemon counts another number than it should */
};

/* --- The daemon's actions, one at a time -------------------------------------------------------------------------- */

static void pool_create(struct run *run)
{
    struct text body, reply;
    text_init(&body);
    text_init(&reply);
    text_append_format(&body, "{\"QueueName\":\"%s\"}", run->campaign.queue);
    ask(&run->daemon, "AmazonSQS.CreateQueue", &body, &reply);
    body.size = 0;
    text_append_format(&body, "{\"PoolName\":\"%s\",\"ResultQueueUrl\":\"%s\",\"Size\":%u", run->campaign.pool,
                       run->campaign.queue, run->campaign.size);
    /* What waits for a tenth of a second the daemon matches too, while the others are at it. */
    text_append(
        &body,
        run->campaign.is_built_in
            ? VIEW(",\"Matcher\":\"both\",\"Attributes\":{\"v\":\"num\"},\"Rules\":[{\"type\":\"near\",\"attr\":\"v\","
                   "\"max\":0,\"expand\":[{\"after\":\"100ms\",\"max\":1000}]}]}")
            : VIEW(",\"Matcher\":\"external\"}"));
    ask(&run->daemon, "Tally.CreatePool", &body, &reply);
    text_deinit(&body);
    text_deinit(&reply);
}

/* Does DescribePool say that all that were offered are matched? Returns how many of its counts are wrong. */
static uint64_t counts_wrong(struct run *run)
{
    static const struct view KEYS[] = {{"\"Offered\":", 10}, {"\"Matched\":", 10},   {"\"Waiting\":", 10},
                                       {"\"Held\":", 7},     {"\"Cancelled\":", 12}, {"\"Expired\":", 10}};
    struct text body, reply;
    text_init(&body);
    text_init(&reply);
    text_append_format(&body, "{\"PoolName\":\"%s\"}", run->campaign.pool);
    ask(&run->daemon, "Tally.DescribePool", &body, &reply);
    uint64_t wrong = 0;
    for (unsigned at = 0; at < 6; at++)
        wrong += ask_sum(&reply, &KEYS[at], 1) != (at < 2 ? run->campaign.tickets : 0);
    if (wrong > 0)
        fprintf(stderr, "pool: %s\n", reply.ptr_owned);
    text_deinit(&body);
    text_deinit(&reply);
    return wrong;
}

/* What a late repeat of every offer says: each ticket is matched, in the match in which it was delivered. */
static void offers_repeat(struct run *run)
{
    static const struct view KEY = {"\"TicketId\":", 11};
    struct pool_campaign *campaign = &run->campaign;
    struct text body, reply;
    text_init(&body);
    text_init(&reply);
    for (uint32_t first = 0; first < campaign->tickets; first += OFFERS_REPEATED) {
        uint32_t left = campaign->tickets - first;
        body.size = 0;
        text_append_format(&body, "{\"PoolName\":\"%s\"", campaign->pool);
        pool_offer_write(&body, campaign, first, left < OFFERS_REPEATED ? left : OFFERS_REPEATED);
        text_append(&body, VIEW("}"));
        ask(&run->daemon, "Tally.OfferTickets", &body, &reply);
        struct view rest = text_view(&reply), name;
        while (wire_value_next(&rest, KEY, &name)) {
            const char *end = view_find(rest, KEY);
            struct view part = {rest.ptr, end == NULL ? rest.size : (size_t)(end - rest.ptr)}, match = {NULL, 0};
            bool is_matched = wire_value_next(&part, VIEW("\"MatchId\":"), &match);
            uint32_t ticket = wire_number((struct view){name.ptr + 1, name.size - 1});
            pool_record_compare(&campaign->record, ticket, is_matched ? pool_match_digest(match) : 0);
        }
    }
    text_deinit(&body);
    text_deinit(&reply);
}

/* --- The loop ----------------------------------------------------------------------------------------------------- */

static void clients_connect(struct run *run, uint64_t now)
{
    if (now < run->retry_at_ms)
        return;
    run->retry_at_ms = now + RETRY_MS;
    for (unsigned at = 0; at < run->clients; at++) {
        struct pool_client *client = &run->clients_owned[at];
        if (client->fd >= 0)
            continue;
        if (!pool_client_connect(client))
            return;
        daemon_found(&run->daemon, now);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = at};
        epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, client->fd, &event);
    }
}

static void print_progress(struct run *run, uint64_t now)
{
    const struct pool_campaign *campaign = &run->campaign;
    if (now - run->told_at_ms < TELL_EACH_MS || !isatty(STDERR_FILENO))
        return;
    run->told_at_ms = now;
    fprintf(stderr,
            "\r\033[K%" PRIu64 " offered, %" PRIu64 " matched and over, %" PRIu64 " proposals, %" PRIu64
            " conflicts, %u kills, "
            "longest restart %" PRIu64 " ms, %" PRIu64 " faults",
            campaign->offered, campaign->record.ended_tickets, campaign->asked, campaign->conflicts, run->daemon.kills,
            run->daemon.restart_max_ms, pool_record_faults(&campaign->record));
}

/* While something goes on; where nothing does any more, leases must end, and a restart would renew them. */
static void kill_due(struct run *run, uint64_t now)
{
    bool is_quiet = now - run->progress_at_ms > QUIET_MS;
    if (!is_quiet || !run->daemon.is_back)
        daemon_kill_due(&run->daemon, now, run->campaign.record.ended_tickets);
}

static void progress_note(struct run *run, uint64_t now)
{
    const struct pool_campaign *campaign = &run->campaign;
    uint64_t progress = campaign->offered + campaign->accepted + campaign->record.deliveries + campaign->put_backs +
                        campaign->record.ended_tickets;
    if (progress != run->progress || !run->daemon.is_back)
        run->progress_at_ms = now;
    run->progress = progress;
    if (now - run->progress_at_ms > SILENCE_MAX_MS)
        fatal("nothing has happened for %d s: %" PRIu64 " offered, %" PRIu64 " over, %" PRIu64 " proposals, %" PRIu64
              " conflicts, %" PRIu64 " deliveries, %" PRIu64 " in the queue",
              SILENCE_MAX_MS / 1000, campaign->offered, campaign->record.ended_tickets, campaign->asked,
              campaign->conflicts, campaign->record.deliveries, ask_queue_count(&run->daemon, run->campaign.queue));
}

/* One turn: kills if that is due, connects what is not connected, answers what has come. */
static void turn(struct run *run)
{
    struct epoll_event events[CONNECTIONS_MAX];
    uint64_t now = clock_now_ms();
    kill_due(run, now);
    clients_connect(run, now);
    int count = epoll_wait(run->epoll_fd, events, CONNECTIONS_MAX, TURN_MS);
    for (int at = 0; at < count; at++)
        pool_client_read(&run->clients_owned[events[at].data.u32]);
    for (unsigned at = 0; at < run->clients; at++)
        pool_client_wake(&run->clients_owned[at]);
    progress_note(run, now);
    print_progress(run, now);
}

/* All are matched and over. Where it is not certain of all that they were deleted (a lease may have ended meanwhile),
 * an empty queue says it. */
static bool is_over(struct run *run)
{
    uint64_t now = clock_now_ms();
    if (pool_record_is_over(&run->campaign.record))
        return true;
    if (now - run->progress_at_ms < QUIET_MS || now - run->counted_at_ms < QUIET_MS || !run->daemon.is_back)
        return false;
    run->counted_at_ms = now;
    return pool_record_unmatched(&run->campaign.record) == 0 && ask_queue_count(&run->daemon, run->campaign.queue) == 0;
}

static void clients_open(struct run *run)
{
    const struct options *options = &run->options;
    run->clients = options->producers + options->matchers + options->consumers + options->views;
    run->clients_owned = allocate(run->clients * sizeof(struct pool_client));
    run->views_owned = allocate(options->views * sizeof(struct pool_view));
    run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct pool_client *client = run->clients_owned;
    for (unsigned at = 0; at < options->views; at++) {
        pool_view_init(&run->views_owned[at], run->campaign.tickets);
        pool_client_init(client++, &run->campaign, READER, at, &run->views_owned[at]);
    }
    for (unsigned at = 0; at < options->producers; at++)
        pool_client_init(client++, &run->campaign, PRODUCER, at, NULL);
    for (unsigned at = 0; at < options->matchers; at++)
        pool_client_init(client++, &run->campaign, MATCHER, at, &run->views_owned[at % options->views]);
    for (unsigned at = 0; at < options->consumers; at++)
        pool_client_init(client++, &run->campaign, CONSUMER, at, NULL);
    if (client != run->clients_owned + run->clients)
        fatal("clients were forgotten");
}

static void clients_close(struct run *run)
{
    for (unsigned at = 0; at < run->clients; at++)
        pool_client_deinit(&run->clients_owned[at]);
    for (unsigned at = 0; at < run->options.views; at++)
        pool_view_deinit(&run->views_owned[at]);
    free(run->clients_owned);
    free(run->views_owned);
    close(run->epoll_fd);
}

/* Once more from what the log says. */
static void last_restart(struct run *run)
{
    run->left_in_queue = ask_queue_count(&run->daemon, run->campaign.queue);
    daemon_kill(&run->daemon, clock_now_ms());
    run->left_in_queue += ask_queue_count(&run->daemon, run->campaign.queue);
    run->miscounted = counts_wrong(run);
    if (run->campaign.tickets <= ENDED_REMEMBERED)
        offers_repeat(run);
    run->miscounted += counts_wrong(run);
    int status = daemon_stop(&run->daemon);
    if (status != 0)
        fatal("the daemon did not stop cleanly: status %d; see %s.log", status, run->daemon.folder);
}

/* --- The result --------------------------------------------------------------------------------------------------- */

static bool summary_print(const struct run *run, double seconds)
{
    const struct pool_campaign *campaign = &run->campaign;
    const struct pool_record *record = &campaign->record;
    uint64_t lost = pool_record_unmatched(record), undelivered = pool_record_undelivered(record);
    uint64_t made = record->matches - undelivered;
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    printf("{\"tickets\":%u,\"matches\":%" PRIu64 ",\"of_the_daemon\":%" PRIu64 ",\"put_back\":%" PRIu64
           ",\"matchers\":%u,\"views\":%u,\"kills\":%u,",
           campaign->tickets, made, record->matches - record->proposed, record->by_stage[MATCH_PUT_BACK],
           run->options.matchers, run->options.views, run->daemon.kills);
    printf("\"proposals\":%" PRIu64 ",\"accepted\":%" PRIu64 ",\"conflicts\":%" PRIu64 ",\"stale\":%" PRIu64
           ",\"events\":%" PRIu64 ",\"resyncs\":%" PRIu64 ",\"lost_replies\":%" PRIu64 ",\"redeliveries\":%" PRIu64 ",",
           campaign->asked, campaign->accepted, campaign->conflicts, campaign->stale, campaign->events,
           campaign->resyncs, campaign->lost_replies, record->redeliveries);
    printf("\"lost\":%" PRIu64 ",\"twice\":%" PRIu64 ",\"undelivered\":%" PRIu64 ",\"ghosts\":%" PRIu64
           ",\"other_members\":%" PRIu64 ",\"wrong_answers\":%" PRIu64 ",\"left_in_queue\":%" PRIu64
           ",\"miscounted\":%" PRIu64 ",",
           lost, record->faults[POOL_FAULT_TWICE], undelivered, record->faults[POOL_FAULT_GHOST],
           record->faults[POOL_FAULT_MEMBERS], record->faults[POOL_FAULT_ANSWER], run->left_in_queue, run->miscounted);
    printf("\"restart_max_ms\":%" PRIu64 ",\"seconds\":%.1f,\"tickets_per_second\":%.0f,\"seed\":%" PRIu64 "}\n",
           run->daemon.restart_max_ms, seconds, campaign->tickets / seconds, run->options.seed);
    return lost + undelivered + run->left_in_queue + run->miscounted + pool_record_faults(record) == 0;
}

/* --- The command line --------------------------------------------------------------------------------------------- */

static void usage_print(FILE *file)
{
    fputs(
        "Usage: pool --tallyd PROGRAM --folder FOLDER [options] [-- OPTIONS OF TALLYD]\n"
        "\n"
        "Matchers race for the tickets of one pool while the daemon is killed; judges that each is in one match.\n"
        "FOLDER, which must not exist, holds the daemon's data; its log is FOLDER.log.\n"
        "\n"
        "  --port PORT        of the daemon (a free one)\n"
        "  --tickets N        made a multiple of the size (1000000)\n"
        "  --size N           of a match, 2 to 8 (2)\n"
        "  --matchers N       connections that propose (64)\n"
        "  --views N          of the pool; matchers share them in turn (8)\n"
        "  --window N         a matcher takes any of so many oldest tickets (1000)\n"
        "  --proposals N      in a request, up to 100 (8)\n"
        "  --producers N      (4)\n"
        "  --offers N         in a request (500)\n"
        "  --backlog N        tickets that are not over; then producers rest (50000)\n"
        "  --consumers N      (8)\n"
        "  --put-back SHARE   of the results, instead of deleting them (0)\n"
        "  --built-in         the daemon's own matcher joins in\n"
        "  --lease S          visibility timeout of results (10)\n"
        "  --kill-every S     seconds from one kill -9 to the next, serving at least two fifths of them; 0: never (3)\n"
        "  --kill-each N      instead: tickets that are over from one kill to the next\n"
        "  --seed N           of what is random here (the time)\n",
        file);
}

enum option_own {
    OPTION_TICKETS = OPTION_OWN,
    OPTION_SIZE,
    OPTION_MATCHERS,
    OPTION_VIEWS,
    OPTION_WINDOW,
    OPTION_PROPOSALS,
    OPTION_PRODUCERS,
    OPTION_OFFERS,
    OPTION_BACKLOG,
    OPTION_CONSUMERS,
    OPTION_PUT_BACK,
    OPTION_BUILT_IN,
    OPTION_LEASE,
};

static const struct option OPTIONS[] = {
    OPTION_ROWS_SHARED,
    {"tickets", required_argument, NULL, OPTION_TICKETS},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"matchers", required_argument, NULL, OPTION_MATCHERS},
    {"views", required_argument, NULL, OPTION_VIEWS},
    {"window", required_argument, NULL, OPTION_WINDOW},
    {"proposals", required_argument, NULL, OPTION_PROPOSALS},
    {"producers", required_argument, NULL, OPTION_PRODUCERS},
    {"offers", required_argument, NULL, OPTION_OFFERS},
    {"backlog", required_argument, NULL, OPTION_BACKLOG},
    {"consumers", required_argument, NULL, OPTION_CONSUMERS},
    {"put-back", required_argument, NULL, OPTION_PUT_BACK},
    {"built-in", no_argument, NULL, OPTION_BUILT_IN},
    {"lease", required_argument, NULL, OPTION_LEASE},
    {0},
};

/* Options that are a whole number: where it goes, and from what to what. */
static bool number_apply(struct run *run, int option, const char *value)
{
    struct options *options = &run->options;
    struct pool_campaign *campaign = &run->campaign;
    const struct {
        int option;
        uint32_t *number;
        double min, max;
    } NUMBERS[] = {
        {OPTION_TICKETS, &campaign->tickets, 2, 1e8},    {OPTION_SIZE, &campaign->size, 2, GROUP_MAX},
        {OPTION_MATCHERS, &options->matchers, 0, 512},   {OPTION_VIEWS, &options->views, 1, 128},
        {OPTION_WINDOW, &campaign->window, 2, 100000},   {OPTION_PROPOSALS, &campaign->proposals, 1, PROPOSALS_MAX},
        {OPTION_PRODUCERS, &options->producers, 1, 128}, {OPTION_OFFERS, &campaign->offers, 1, 1000},
        {OPTION_BACKLOG, &campaign->backlog, 100, 1e8},  {OPTION_CONSUMERS, &options->consumers, 1, 128},
    };
    for (unsigned at = 0; at < sizeof(NUMBERS) / sizeof(NUMBERS[0]); at++)
        if (NUMBERS[at].option == option) {
            *NUMBERS[at].number = (uint32_t)option_number(value, NUMBERS[at].min, NUMBERS[at].max);
            return true;
        }
    return false;
}

static void option_apply(struct run *run, int option, const char *value)
{
    if (number_apply(run, option, value))
        return;
    switch (option) {
    case OPTION_PUT_BACK:
        run->campaign.put_back_share = option_number(value, 0, 0.9);
        break;
    case OPTION_BUILT_IN:
        run->campaign.is_built_in = true;
        break;
    case OPTION_LEASE:
        run->campaign.lease_ms = (uint32_t)option_number(value, 1, 43200) * 1000;
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
    run->campaign.tickets -= run->campaign.tickets % run->campaign.size;
    option_finish(&run->daemon, argv + optind);
    run->campaign.port = run->daemon.port;
}

int main(int argc, char **argv)
{
    static struct run run = {
        .options = {.producers = 4, .matchers = 64, .consumers = 8, .views = 8},
        .campaign = {.pool = "campaign",
                     .queue = "results",
                     .tickets = 1000000,
                     .size = 2,
                     .proposals = 8,
                     .window = 1000,
                     .offers = 500,
                     .backlog = 50000,
                     .lease_ms = 10000},
        .daemon = {.kill_every_ms = 3000},
    };
    run.options.seed = clock_now_ns();
    options_read(&run, argc, argv);
    run.campaign.random = run.options.seed;
    run.campaign.started_at_ms = run.progress_at_ms = clock_now_ms();
    pool_record_init(&run.campaign.record, run.campaign.tickets);
    daemon_start(&run.daemon, clock_now_ms());
    pool_create(&run);
    clients_open(&run);
    uint64_t begin_ns = clock_now_ns();
    while (!is_over(&run))
        turn(&run);
    double seconds = (double)(clock_now_ns() - begin_ns) / 1e9;
    clients_close(&run);
    last_restart(&run);
    bool is_good = summary_print(&run, seconds);
    pool_record_deinit(&run.campaign.record);
    return is_good ? 0 : 1;
}
