#include "owners_world.h"

#include "base/memory.h"
#include "core/core.h"
#include "fail.h"
#include "owners_judge.h"
#include "owners_libpq.h"
#include "owners_node.h"
#include "owners_server.h"
#include "random.h"
#include "support/memory_disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 4u
#define CLIENTS_MAX 4u
#define SHORT_LEASE_MS 1500u
#define LIVE_AGAIN_MS 150000u /* in which everything works again when the faults are over; a node may pause for 60 s */

enum fault {
    FAULT_KILL,
    FAULT_STOP,
    FAULT_CUT,
    FAULT_BREAK,
    FAULT_RESTART,
    FAULT_FAIL_OVER,
    FAULT_STALL_REPLICA,
    FAULT_CANCEL,
    FAULT_TERMINATE,
    FAULT_SLOW,
    FAULT_STOP_BACKEND,
    FAULT_FULL,
    FAULT_CLOCK,
    FAULT_FOLDER,
    FAULT_COUNT
};

struct client {
    struct process process;
    struct random random;
    struct fiber *fiber;
    unsigned favourite;   /* the node that answered last */
    uint64_t answered_at; /* a write */
};

static struct {
    struct owners_report *report;
    struct random faults, clock, secrets;
    enum replication replication;
    uint32_t lease_ms;
    struct node_settings node_settings;
    struct node nodes[NODES_MAX];
    unsigned node_count;
    struct client clients[CLIENTS_MAX];
    unsigned client_count;
    uint32_t tags;
    uint32_t body_max;
    uint32_t pause_ms_max; /* of a client between two requests */
    uint32_t percent_take, percent_read, percent_stray;
    uint32_t weights[FAULT_COUNT];
    uint32_t fault_ms_max; /* between two faults */
    uint64_t faults_end;
    bool is_calm;
    bool is_ending;
    bool is_drained;
} world;

struct disk *owners_find_folder(const char *name)
{
    for (unsigned i = 0; i < world.node_count; i++)
        if (strcmp(world.nodes[i].name, name) == 0)
            return world.nodes[i].folder;
    fail("there is no folder %s", name);
}

void owners_draw_bytes(void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)random_below(&world.secrets, 256);
}

void owners_note_proof(const struct process *process, uint64_t sent_at)
{
    for (unsigned i = 0; i < world.node_count; i++)
        if (&world.nodes[i].process == process && world.nodes[i].proved_at < sent_at)
            world.nodes[i].proved_at = sent_at;
}

void owners_note_given_up(const struct process *process)
{
    for (unsigned i = 0; i < world.node_count; i++) {
        const struct node *node = &world.nodes[i];
        if (&node->process == process && node->state == NODE_SERVES &&
            sim_now() < node->proved_at + world.lease_ms * MS)
            fail("K3: PostgreSQL gives the connection of node %u up, and frees its lock, before its lease is over", i);
    }
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static void arrive_request(void *context, uint64_t node)
{
    node_ask(&world.nodes[node], context);
}

static struct node_request *make_request(enum request_kind kind, uint32_t tag)
{
    struct node_request *request = memory_allocate_zeroed(sizeof(*request));
    *request = (struct node_request){.kind = kind, .tag = tag, .number = judge_begin(kind, tag)};
    request->client = fiber_current();
    return request;
}

/* Sends the request to a node and waits until it is over. A request that takes too long is given up, and may still be
 * executed; so it is never freed. */
static enum request_state ask(struct client *client, struct node_request *request)
{
    /* Now and then another one: it may have taken over without the favourite knowing it. */
    const bool strays = !world.is_calm && random_chance(&client->random, world.percent_stray);
    const unsigned node = strays ? random_below(&client->random, world.node_count) : client->favourite;
    const uint64_t until = sim_now() + 3 * world.lease_ms * MS;
    sim_at(sim_now() + random_between(&client->random, 50, 500), arrive_request, request, node);
    while ((request->state == REQUEST_WAITS || request->state == REQUEST_HELD) && sim_now() < until)
        fiber_wait(until);
    request->client = NULL;
    if (request->state == REQUEST_ANSWERED && random_chance(&client->random, 50))
        client->favourite = node;
    else if (request->state != REQUEST_ANSWERED && !strays)
        client->favourite = random_below(&client->random, world.node_count);
    if (request->state == REQUEST_REFUSED)
        world.report->refused++;
    else if (request->state != REQUEST_ANSWERED)
        world.report->unknown++;
    return request->state;
}

static void ask_something(struct client *client)
{
    const uint32_t draw = random_below(&client->random, 100);
    const enum request_kind kind = draw < world.percent_take                        ? REQUEST_TAKE
                                   : draw < world.percent_take + world.percent_read ? REQUEST_READ
                                                                                    : REQUEST_SEND;
    if (kind == REQUEST_SEND && world.tags + 1 == TAGS_MAX)
        return;
    struct node_request *request = make_request(kind, kind == REQUEST_SEND ? ++world.tags : NO_TAG);
    request->body_size = 16 + random_below(&client->random, world.body_max);
    if (ask(client, request) == REQUEST_ANSWERED && kind == REQUEST_SEND)
        client->answered_at = sim_now();
}

static void pause_for(uint64_t pause)
{
    const uint64_t until = sim_now() + pause;
    while (sim_now() < until)
        fiber_wait(until);
}

static void run_client(void *context)
{
    struct client *client = context;
    while (!world.is_ending) {
        ask_something(client);
        pause_for(random_between(&client->random, 1, world.pause_ms_max) * MS);
    }
}

/* At the end, when nothing happens any more: takes every message. What a fault has left behind may break a request. */
static void drain(void *context)
{
    struct client *client = context;
    unsigned breaks = 0;
    judge_begin_end();
    for (;;) {
        struct node_request *request = make_request(REQUEST_TAKE, NO_TAG);
        const enum request_state state = ask(client, request);
        if (state == REQUEST_ANSWERED && request->tag == NO_TAG)
            break;
        if (state != REQUEST_ANSWERED && state != REQUEST_REFUSED && ++breaks > 3)
            fail("K26: requests of the end break, though nothing happens any more");
        if (state == REQUEST_REFUSED)
            pause_for(20 * MS);
    }
    world.is_drained = true;
}

/* --- the cache of a node that is down ----------------------------------------------------------------------------- */

#define NAMES_MAX 64u

struct names {
    char names[NAMES_MAX][64];
    unsigned count;
};

static void visit_name(void *context, const char *name)
{
    struct names *names = context;
    if (names->count < NAMES_MAX)
        (void)snprintf(names->names[names->count++], sizeof(names->names[0]), "%s", name);
}

/* Half of the flips hit the first bytes of a sector: frames begin there. */
static void flip_bits(struct disk *folder, const char *name, uint64_t size)
{
    for (unsigned i = random_between(&world.faults, 1, 3); i > 0; i--) {
        uint64_t at = random_u64(&world.faults) % size;
        if (random_chance(&world.faults, 50))
            at = at / 512 * 512 + random_below(&world.faults, 64);
        memory_disk_flip_bit(folder, name, 8 * (at < size ? at : size - 1) + random_below(&world.faults, 8));
    }
}

static void damage_file(struct disk *folder, const char *name)
{
    const uint64_t size = memory_disk_content(folder, name).size;
    const uint32_t draw = random_below(&world.faults, 10);
    if (draw < 5 && size > 0)
        flip_bits(folder, name, size);
    else if (draw < 7 && size > 0)
        memory_disk_truncate(folder, name, random_u64(&world.faults) % size);
    else if (draw < 9)
        memory_disk_remove(folder, name);
    else
        memory_disk_put(folder, name, BYTES("this is a file of something else"));
}

/* Another node's folder is copied over it: the same names, of another moment. */
static void copy_folder(struct disk *to, struct disk *from)
{
    struct names names = {.count = 0};
    (void)from->operations->list(from, visit_name, &names, NULL);
    for (unsigned i = 0; i < names.count; i++)
        memory_disk_put(to, names.names[i], memory_disk_content(from, names.names[i]));
}

static void damage_cache(const struct node *node)
{
    struct names names = {.count = 0};
    if (random_chance(&world.faults, 10)) {
        copy_folder(node->folder, world.nodes[random_below(&world.faults, world.node_count)].folder);
        return;
    }
    (void)node->folder->operations->list(node->folder, visit_name, &names, NULL);
    for (unsigned i = 0; i < names.count; i++)
        if (random_chance(&world.faults, 40))
            damage_file(node->folder, names.names[i]);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

/* Faults keep measure where a lease is long: a seed may take only so long. */
static uint32_t short_lease_ms(void)
{
    return world.lease_ms < SHORT_LEASE_MS ? world.lease_ms : SHORT_LEASE_MS;
}

/* How long something lasts: often less than a lease, at times several. */
static uint64_t draw_span(void)
{
    const uint32_t lease_ms = short_lease_ms();
    return (random_chance(&world.faults, 50) ? random_between(&world.faults, 1, lease_ms)
                                             : random_between(&world.faults, lease_ms / 2, 4 * lease_ms)) *
           MS;
}

static struct node *draw_node(void)
{
    struct node *node = &world.nodes[random_below(&world.faults, world.node_count)];
    /* The one that serves is the one that matters. */
    for (unsigned i = 0; i < world.node_count && random_chance(&world.faults, 60); i++)
        if (world.nodes[i].state == NODE_SERVES)
            return &world.nodes[i];
    return node;
}

static void start_node(void *context, uint64_t number)
{
    (void)number;
    if (((struct node *)context)->state == NODE_DOWN)
        node_start(context);
}

static void kill_node(struct node *node)
{
    if (node->state == NODE_DOWN)
        return;
    world.report->kills++;
    node_kill(node);
    const bool is_power_cut = random_chance(&world.faults, 30);
    if (is_power_cut)
        memory_disk_crash(node->folder);
    else
        memory_disk_kill(node->folder);
    const bool is_damaged = random_chance(&world.faults, 30);
    if (is_damaged)
        damage_cache(node);
    if (is_power_cut || is_damaged)
        judge_lose_copy();
    sim_at(sim_now() + (random_chance(&world.faults, 50) ? 50 * MS : draw_span()), start_node, node, 0);
}

static void fail_over(void)
{
    if (world.replication == REPLICATION_NONE || !server_is_up())
        return;
    world.report->failovers++;
    const int64_t clock_ms =
        random_chance(&world.faults, 20) ? (int64_t)random_below(&world.faults, 7200000) - 3600000 : 0;
    server_fail_over(random_between(&world.faults, 10, 2 * world.lease_ms), clock_ms);
}

static void restart_server(void)
{
    if (!server_is_up())
        return;
    world.report->restarts++;
    server_restart(random_between(&world.faults, 10, 2 * world.lease_ms));
}

static void cut_node(struct node *node)
{
    world.report->cuts++;
    const uint64_t until = sim_now() + draw_span() * (random_chance(&world.faults, 30) ? 3 : 1);
    owners_trace("node %d is cut off for %" PRIu64 " ms", node->index, (until - sim_now()) / MS);
    network_cut(&node->process, until);
    owners_child_cut(&node->process, until);
}

static void stop_node(struct node *node)
{
    world.report->stops++;
    node->process.stopped_until = sim_now() + draw_span();
    owners_trace("node %d is stopped for %" PRIu64 " ms", node->index, (node->process.stopped_until - sim_now()) / MS);
}

static void jump_clock(const struct node *node)
{
    struct process *process = (struct process *)(uintptr_t)&node->process;
    process->wall_ms = UINT64_C(1700000000000) + random_below(&world.clock, 7200000) - 3600000;
    owners_trace("the wall clock of node %d jumps", node->index);
}

static void strike(enum fault fault)
{
    static const enum memory_disk_fault folder_faults[] = {MEMORY_DISK_FAIL_WRITE, MEMORY_DISK_FULL};
    struct node *node = draw_node();
    switch (fault) {
    case FAULT_KILL:
        kill_node(node);
        break;
    case FAULT_STOP:
        stop_node(node);
        break;
    case FAULT_CUT:
        cut_node(node);
        break;
    case FAULT_BREAK:
        world.report->breaks += network_break(&node->process) ? 1 : 0;
        break;
    case FAULT_RESTART:
        restart_server();
        break;
    case FAULT_FAIL_OVER:
        fail_over();
        break;
    case FAULT_STALL_REPLICA:
        server_stall_replica(sim_now() + draw_span());
        break;
    case FAULT_CANCEL:
        world.report->cancels += server_cancel_wait(random_chance(&world.faults, 50)) ? 1 : 0;
        break;
    case FAULT_TERMINATE:
        server_terminate_backend();
        break;
    case FAULT_SLOW:
        server_slow_down(sim_now() + draw_span(), random_between(&world.faults, 1, world.lease_ms));
        break;
    case FAULT_STOP_BACKEND:
        (void)server_stop_backend(sim_now() + draw_span() * (random_chance(&world.faults, 30) ? 5 : 1));
        break;
    case FAULT_FULL:
        server_fill_disk(sim_now() + draw_span());
        break;
    case FAULT_CLOCK:
        jump_clock(node);
        break;
    default:
        memory_disk_fail_after(node->folder, random_below(&world.faults, 30),
                               folder_faults[random_below(&world.faults, 2)]);
        break;
    }
}

static void draw_fault(void *context, uint64_t number)
{
    (void)context;
    (void)number;
    if (sim_now() >= world.faults_end)
        return;
    uint32_t sum = 0, fault = 0;
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        sum += world.weights[i];
    uint32_t draw = random_below(&world.faults, sum);
    while (draw >= world.weights[fault])
        draw -= world.weights[fault++];
    strike((enum fault)fault);
    sim_at(sim_now() + random_between(&world.faults, 1, world.fault_ms_max) * MS, draw_fault, NULL, 0);
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static void draw_weights(struct random *settings)
{
    static const uint32_t usual[FAULT_COUNT] = {
        [FAULT_KILL] = 20,      [FAULT_STOP] = 15,      [FAULT_CUT] = 15,           [FAULT_BREAK] = 30,
        [FAULT_RESTART] = 8,    [FAULT_FAIL_OVER] = 10, [FAULT_STALL_REPLICA] = 20, [FAULT_CANCEL] = 40,
        [FAULT_TERMINATE] = 15, [FAULT_SLOW] = 6,       [FAULT_STOP_BACKEND] = 30,  [FAULT_FULL] = 4,
        [FAULT_CLOCK] = 10,     [FAULT_FOLDER] = 4,
    };
    /* Each seed has a mixture of its own, and some have one kind of fault only. */
    const unsigned shown = random_between(settings, 15, 100);
    for (unsigned i = 0; i < FAULT_COUNT; i++)
        world.weights[i] = random_chance(settings, shown) ? usual[i] : 0;
    world.weights[random_below(settings, FAULT_COUNT)] += 10;
}

static void draw_namespace(struct random *settings)
{
    static const uint64_t segment_sizes[] = {16384, 32768, 65536};
    const unsigned size = random_below(settings, 3);
    world.body_max = size == 2 && random_chance(settings, 50) ? 9000 : 200;
    world.node_settings =
        (struct node_settings){.lease_ms = world.lease_ms,
                               .namespace_options = {.name = "000000000000",
                                                     .segment_size = segment_sizes[size],
                                                     .frame_size_max = segment_sizes[size] / 2 - 1024,
                                                     .snapshot_bytes = random_chance(settings, 80)
                                                                           ? (uint64_t)4096 << random_below(settings, 4)
                                                                           : UINT64_C(1) << 40,
                                                     .snapshot_worth = random_below(settings, 3),
                                                     .cleans_eagerly = random_chance(settings, 10),
                                                     .in_flight_max = 1000}};
}

static void draw_settings(uint64_t seed)
{
    static const uint32_t leases_ms[] = {500, 600, 1000, 5000};
    struct random settings = random_stream(seed, STREAM_SETTINGS);
    world.faults = random_stream(seed, STREAM_FAULTS);
    world.clock = random_stream(seed, STREAM_CLOCK);
    world.secrets = random_stream(seed, STREAM_CLIENTS);
    world.replication = (enum replication)random_below(&settings, 3);
    world.lease_ms = leases_ms[random_below(&settings, 4)];
    world.node_count = random_between(&settings, 2, 3);
    world.client_count = random_between(&settings, 1, 3);
    world.pause_ms_max = random_between(&settings, 5, 200);
    world.percent_take = random_below(&settings, 50);
    world.percent_read = random_below(&settings, 60);
    world.percent_stray = random_below(&settings, 3) * 20;
    world.fault_ms_max = random_between(&settings, 50, 3 * short_lease_ms());
    world.faults_end = random_between(&settings, 3, 9) * short_lease_ms() * MS;
    draw_weights(&settings);
    draw_namespace(&settings);
}

static void begin(uint64_t seed, bool is_traced)
{
    struct random settings = random_stream(seed, STREAM_SETTINGS);
    for (unsigned i = 0; i < 40; i++)
        (void)random_u64(&settings);
    server_init(&(struct server_settings){.seed = seed,
                                          .replication = world.replication,
                                          .lag_ms_max = random_below(&settings, 200),
                                          .is_traced = is_traced});
    network_init(seed, random_below(&settings, 3) * 5);
    judge_init(&(struct judge_settings){.replication = world.replication, .lease_ms = world.lease_ms});
    for (unsigned i = 0; i < world.node_count; i++) {
        node_init(&world.nodes[i], (int)i, &world.node_settings, memory_disk_create(seed * 10 + i));
        world.nodes[i].process.monotonic_ms = random_below(&settings, 1000000000);
        world.nodes[i].process.wall_ms = UINT64_C(1700000000000) + random_below(&settings, 7200000) - 3600000;
        sim_at(random_below(&settings, 500) * MS, start_node, &world.nodes[i], 0);
    }
    for (unsigned i = 0; i < world.client_count; i++) {
        struct client *client = &world.clients[i];
        client->random = random_stream(seed * 10 + i, STREAM_CLIENTS);
        client->fiber = fiber_start(&client->process, run_client, client);
    }
    sim_at(random_below(&settings, world.fault_ms_max) * MS, draw_fault, NULL, 0);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

static void calm_down(void)
{
    owners_trace("from here on nothing happens any more");
    world.is_calm = true;
    server_calm();
    network_calm();
    for (unsigned i = 0; i < world.node_count; i++) {
        memory_disk_fail_after(world.nodes[i].folder, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
        if (world.nodes[i].state == NODE_DOWN)
            node_start(&world.nodes[i]);
    }
}

static void run_until(uint64_t until)
{
    while (sim_now() < until && sim_step())
        continue;
}

static bool is_live(uint64_t since)
{
    for (unsigned i = 0; i < world.client_count; i++)
        if (world.clients[i].answered_at <= since)
            return false;
    for (unsigned i = 0; i < world.node_count; i++)
        if (world.nodes[i].process.stopped_until > sim_now() || world.nodes[i].process.cut_until > sim_now() ||
            world.nodes[i].state == NODE_STALLS || world.nodes[i].state == NODE_PAUSES)
            return false;
    return server_is_up();
}

/* Whatever happened: everything works again, and stays so. */
static void await_life(void)
{
    const uint64_t since = sim_now();
    world.percent_read = world.percent_take = 10;
    while (!is_live(since)) {
        if (sim_now() > since + LIVE_AGAIN_MS * MS)
            fail("K26: not everything works again, %u ms after the last fault", LIVE_AGAIN_MS);
        run_until(sim_now() + 50 * MS);
    }
    world.is_ending = true;
    run_until(sim_now() + 2 * world.lease_ms * MS);
}

static void await_followers(void)
{
    const uint64_t since = sim_now();
    uint64_t applied, newest;
    for (unsigned i = 0; i < world.node_count; i++)
        while (world.nodes[i].state == NODE_STANDS_BY && !judge_has_followed((int)i, &applied, &newest)) {
            if (sim_now() > since + 20000 * MS)
                fail("L14: node %u does not follow to the end: it has applied frame %" PRIu64 " of %" PRIu64, i,
                     applied, newest);
            run_until(sim_now() + 20 * MS);
        }
}

static void finish(void)
{
    const uint64_t since = sim_now();
    struct client *client = &world.clients[0];
    client->fiber = fiber_start(&client->process, drain, client);
    while (!world.is_drained) {
        if (sim_now() > since + LIVE_AGAIN_MS * MS)
            fail("K26: the log can't be drained");
        run_until(sim_now() + 20 * MS);
    }
    judge_end();
    await_followers();
    for (unsigned i = 0; i < world.node_count; i++)
        if (world.nodes[i].state == NODE_SERVES)
            core_check(namespace_core(world.nodes[i].ns));
}

/* --- a seed ------------------------------------------------------------------------------------------------------- */

static void sum_up(struct owners_report *report)
{
    const struct judge_counts counts = judge_counts();
    report->seeds++;
    report->sent += counts.sent;
    report->taken += counts.taken;
    report->read += counts.read;
    report->stale += counts.stale;
    report->frames += counts.frames;
    report->lost += counts.lost;
    report->silent += counts.is_silent;
    report->losses += server_has_lost_frames() ? 1 : 0;
    report->statements += server_statements();
    report->milliseconds += sim_now() / MS;
    for (unsigned i = 0; i < world.node_count; i++) {
        report->takeovers += world.nodes[i].served;
        report->resumes += world.nodes[i].resumed;
    }
}

void owners_world_run(uint64_t seed, bool is_traced, struct owners_report *report)
{
    world.report = report;
    draw_settings(seed);
    begin(seed, is_traced);
    run_until(world.faults_end);
    calm_down();
    await_life();
    finish();
    sum_up(report);
}

void owners_report_print(const struct owners_report *report)
{
    printf("; %" PRIu64 " sent, %" PRIu64 " taken, %" PRIu64 " read, %" PRIu64 " refused, %" PRIu64
           " of unknown outcome, %" PRIu64 " old states read within a lease; %" PRIu64 " times an owner, %" PRIu64
           " times on again as it was, %" PRIu64 " frames, %" PRIu64 " statements; %" PRIu64 " kills, %" PRIu64
           " stops, %" PRIu64 " cuts, %" PRIu64 " breaks, %" PRIu64 " restarts, %" PRIu64 " failovers, %" PRIu64
           " waits cancelled; %" PRIu64 " seeds lost frames, of them %" PRIu64 " acknowledged messages, %" PRIu64
           " without a word; %" PRIu64 " s of simulated time\n",
           report->sent, report->taken, report->read, report->refused, report->unknown, report->stale,
           report->takeovers, report->resumes, report->frames, report->statements, report->kills, report->stops,
           report->cuts, report->breaks, report->restarts, report->failovers, report->cancels, report->losses,
           report->lost, report->silent, report->milliseconds / 1000);
}
