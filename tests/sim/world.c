#include "world.h"

#include "api/api.h"
#include "api/grant.h"
#include "audit.h"
#include "base/assert.h"
#include "fail.h"
#include "log/log.h"
#include "support/core_bytes.h"
#include "support/memory_disk.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS 10u
#define TRACE_SIZE_MAX 6000u /* of a request or a reply */
#define START_MS UINT64_C(1700000000000)

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_WAITING, /* a long poll */
    CONNECTION_HELD,    /* the reply waits for its frame */
    CONNECTION_BROKEN,  /* reset before the reply came: the client will ask again */
};

/* A client's connection and its one request. */
struct connection {
    enum connection_state state;
    struct operation operation;
    struct exchange exchange;
    struct buffer body;
    struct lesson lesson;
};

struct world {
    uint64_t seed;
    unsigned step;
    unsigned steps;
    bool is_traced;
    bool is_quiet; /* no more faults */
    bool has_cleaned;
    bool is_full;      /* the disk has little room */
    bool was_full;     /* it had at some time: before that nobody may be refused for want of it */
    bool is_covered;   /* and the server had all of its reserve when that began: it must not end for want of room */
    bool stays_full;   /* at the end, too: everything must be drained without a free byte */
    bool is_read_near; /* the fault that is armed refuses to read */
    bool is_stop_near; /* the fault that is armed takes the whole machine */
    struct random clock, network, faults;
    struct clients clients;
    struct oracle *oracle;
    struct disk *disk;
    struct namespace *ns;
    struct api *api;
    struct namespace_options options;
    uint64_t now_ms;
    uint64_t epoch;            /* of the running server */
    uint64_t acknowledged;     /* highest frame that a shown reply stood on */
    size_t pending_bytes;      /* about how much stands in the open frame */
    uint64_t stalled_until_ms; /* the flush in work is over then; replies are held until then */
    unsigned stall_percent;
    unsigned crash_percent, flush_percent, jump_percent, check_every;
    struct connection connections[CLIENTS];
    struct buffer before, after; /* encoded cores */
    struct world_report *report;
};

static struct world_where where; /* for fail(), from wherever it is called */

struct world_where world_where(void)
{
    return where;
}

__attribute__((format(printf, 2, 3))) static void trace(const struct world *world, const char *format, ...)
{
    if (!world->is_traced)
        return;
    va_list arguments;
    va_start(arguments, format);
    printf("%5u %10.3f  ", world->step, (double)(world->now_ms - START_MS) / 1000);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

static int trace_size(size_t size)
{
    return (int)(size < TRACE_SIZE_MAX ? size : TRACE_SIZE_MAX);
}

/* --- the server's turns ------------------------------------------------------------------------------------------- */

static void server_restart(struct world *world, bool is_power_lost);

/* A server that keeps a reserve ends by no disk that is full, but by one that says so without being asked. */
static void judge_end(const struct world *world, const struct failure *failure)
{
    if (world->is_covered && failure->error == ERROR_DISK_FULL && !memory_disk_has_failed(world->disk))
        fail("the server ends on a full disk though it had its reserve: %s", failure->text);
}

static bool has_failed(const struct world *world)
{
    struct failure failure;
    return namespace_failure(world->ns, &failure) != OK;
}

/* What follows in the core happens at time_ms, in the open frame or, if it changes anything, in the next. */
static void begin_oracle(struct world *world, uint64_t time_ms, uint64_t sequence)
{
    bool is_logged = namespace_hold_sequence(world->ns) == log_next_place(namespace_log(world->ns)).sequence;
    oracle_begin(world->oracle, time_ms, sequence, is_logged);
}

/* Opens a frame, at the time that the core has, and looks at what happens from here on. */
static void begin_watching(struct world *world)
{
    (void)namespace_begin(world->ns, namespace_time(world->ns));
    witness_begin(&world->oracle->witness, namespace_core(world->ns));
}

/* The oracle learns which leases the server has made longer since begin_watching(), when it was `time_ms`. */
static void follow_renewals(struct world *world, uint64_t time_ms)
{
    struct witness *witness = &world->oracle->witness;
    const struct lesson *held[CLIENTS];
    unsigned count = 0;
    oracle_look(world->oracle, namespace_core(world->ns));
    if (witness->count == 0)
        return;
    for (unsigned i = 0; i < CLIENTS; i++)
        if (world->connections[i].state == CONNECTION_HELD)
            held[count++] = &world->connections[i].lesson;
    begin_oracle(world, time_ms, namespace_hold_sequence(world->ns));
    for (unsigned i = 0; i < witness->count; i++) {
        trace(world, "the lease of message %" PRIu64 " was renewed", witness->sights[i].number);
        if (witness->sights[i].kind != SIGHT_RENEWED)
            fail("more happens than that leases are renewed");
        oracle_renew(world->oracle, &witness->sights[i], held, count);
        world->report->renewals++;
        world->pending_bytes += 25;
    }
    witness->count = witness->next = 0;
}

/* Before a decision: lets time pass. Returns the time at which it is decided. */
static uint64_t begin(struct world *world)
{
    begin_watching(world);
    uint64_t time_ms = namespace_time(world->ns);
    (void)namespace_begin(world->ns, world->now_ms);
    follow_renewals(world, time_ms);
    world->pending_bytes += 15; /* that time has passed */
    time_ms = namespace_time(world->ns);
    if (time_ms + FRAME_TIME_MS_MAX < world->now_ms)
        fail("what is asked for now is decided %" PRIu64 " ms ago", world->now_ms - time_ms);
    return time_ms;
}

/* The reply's frame is durable. False: it waits for another one, with the leases that it gives. */
static bool let_go(struct world *world, struct connection *connection)
{
    struct exchange *exchange = &connection->exchange;
    if (!exchange_gives_lease(exchange))
        return true;
    begin_watching(world);
    uint64_t time_ms = namespace_time(world->ns);
    bool may_leave = api_let_go(world->api, exchange, world->now_ms);
    follow_renewals(world, time_ms);
    if (!may_leave)
        trace(world, "client %td: held until frame %" PRIu64, connection - world->connections, exchange->hold_sequence);
    return may_leave;
}

/* The client sees the reply, or its connection breaks at the last moment and it will ask again. */
static void show(struct world *world, struct connection *connection)
{
    if (!let_go(world, connection))
        return;
    if (!world->is_quiet && random_chance(&world->network, 4)) {
        trace(world, "client %td: reply lost on the way", connection - world->connections);
        connection->state = CONNECTION_BROKEN;
        return;
    }
    connection->state = CONNECTION_IDLE;
    if (connection->exchange.hold_sequence > world->acknowledged)
        world->acknowledged = connection->exchange.hold_sequence;
    const struct grant *grant = connection->exchange.grant_owned;
    bool is_weak = grant != NULL && connection->lesson.lease_count > 0 && grant->is_held_again &&
                   grant->renewed_in > connection->exchange.hold_sequence;
    oracle_acknowledge(world->oracle, &connection->lesson);
    oracle_show_leases(world->oracle, &connection->lesson, world->now_ms, is_weak);
    clients_learn(&world->clients, &connection->operation, &connection->lesson);
}

static void show_durable(struct world *world)
{
    uint64_t durable = namespace_durable(world->ns);
    oracle_durable(world->oracle, durable);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct connection *connection = &world->connections[i];
        if (connection->state == CONNECTION_HELD &&
            (connection->exchange.hold_sequence <= durable || plant_chosen() == PLANT_REPLY_BEFORE_DURABLE))
            show(world, connection);
    }
}

static bool is_stalled(const struct world *world)
{
    return !world->is_quiet && world->now_ms < world->stalled_until_ms;
}

/* Makes what stands in the open frame durable; while the disk stalls nobody is told. If that fails the process ends,
 * and another is started. */
static void server_flush(struct world *world)
{
    struct failure failure;
    world->pending_bytes = 0;
    if (namespace_flush(world->ns, &failure) == OK) {
        if (is_stalled(world))
            oracle_durable(world->oracle, namespace_durable(world->ns));
        else
            show_durable(world);
        return;
    }
    trace(world, "the log failed: %s", failure.text);
    judge_end(world, &failure);
    server_restart(world, random_chance(&world->faults, 50));
}

static void check_core(const struct world *world)
{
    if (world->step % world->check_every == 0 && !plant_spoils_state() &&
        !has_failed(world)) /* else the process is about to end */
        core_check(namespace_core(world->ns));
}

static void trace_reply(const struct world *world, const struct connection *connection)
{
    const struct exchange *exchange = &connection->exchange;
    trace(world, "client %td: -> %d %.*s (frame %" PRIu64 ")", connection - world->connections, exchange->reply.status,
          trace_size(exchange->reply.body.size), (const char *)exchange->reply.body.data_owned,
          exchange->hold_sequence);
}

static void judge(struct world *world, struct connection *connection, uint64_t time_ms)
{
    const struct exchange *exchange = &connection->exchange;
    trace_reply(world, connection);
    begin_oracle(world, time_ms, exchange->hold_sequence);
    connection->state = CONNECTION_HELD;
    if (exchange->reply.error == ERROR_DISK_IS_FULL) {
        /* Nothing has happened. */
        if (namespace_disk_level(world->ns) == DISK_AMPLE || !world->was_full)
            fail("%s was refused for a full disk, which is not full", operation_target(&connection->operation));
        connection->lesson = (struct lesson){0};
        world->report->refused_for_room++;
        return;
    }
    oracle_judge(world->oracle, &connection->operation, exchange->reply.error, buffer_bytes(&exchange->reply.body),
                 &connection->lesson);
}

static struct connection *take_finished(struct world *world)
{
    struct exchange *exchange = api_take_finished(world->api);
    return exchange == NULL ? NULL : CONTAINER_OF(exchange, struct connection, exchange);
}

/* Judges that receives which still wait do so rightly. */
static void judge_waiting(struct world *world)
{
    begin_oracle(world, namespace_time(world->ns), namespace_hold_sequence(world->ns));
    for (unsigned i = 0; i < CLIENTS; i++)
        if (world->connections[i].state == CONNECTION_WAITING)
            oracle_judge_waiting(world->oracle, &world->connections[i].operation);
}

/* Judges replies to receives that waited, `first` before those that the api still has. */
static void judge_waiters(struct world *world, struct connection *first)
{
    struct connection *connection = first != NULL ? first : take_finished(world);
    uint64_t time_ms = namespace_time(world->ns);
    for (; connection != NULL; connection = take_finished(world)) {
        world->oracle->waiting_counts[connection->operation.queue]--;
        judge(world, connection, time_ms);
    }
    /* With an ample frame the rest comes at the next turn. */
    if (!core_has_ready_queue(namespace_core(world->ns)))
        judge_waiting(world);
    oracle_settle(world->oracle);
}

/* Did the disk just refuse to be read? It does so once. */
static void notice_failed_read(struct world *world)
{
    world->oracle->has_read_failed = world->is_read_near && memory_disk_has_failed(world->disk);
    if (!world->oracle->has_read_failed)
        return;
    trace(world, "a read fails");
    world->is_read_near = false;
}

/* How much a decision may log before the server puts the rest of it off to another frame. */
static uint64_t ample_size(const struct world *world)
{
    return world->options.frame_size_max / 8;
}

/* Leases that have to be renewed before time goes on are renewed in one frame, which the oracle looks at. */
static void make_room_to_renew(struct world *world)
{
    bool is_due = namespace_grants(world->ns)->due_ms <= world->now_ms;
    if (is_due && world->pending_bytes > ample_size(world) / 4)
        server_flush(world);
}

/* Lets what has fallen due happen, turn by turn. */
static void tick(struct world *world)
{
    for (unsigned turn = 0; turn < 64; turn++) {
        make_room_to_renew(world);
        uint64_t time_ms = begin(world);
        uint64_t sequence = namespace_hold_sequence(world->ns);
        witness_begin(&world->oracle->witness, namespace_core(world->ns));
        api_tick(world->api, world->now_ms);
        oracle_look(world->oracle, namespace_core(world->ns));
        notice_failed_read(world);
        bool is_changed = namespace_hold_sequence(world->ns) > sequence;
        begin_oracle(world, time_ms, sequence + (is_changed ? 1 : 0));
        oracle_tick(world->oracle);
        judge_waiters(world, NULL);
        world->oracle->has_read_failed = false;
        world->pending_bytes += 500;
        if (api_due_ms(world->api) > namespace_time(world->ns)) {
            oracle_expect_moved(world->oracle);
            return; /* what is due since the open frame's time comes when that has been flushed */
        }
    }
    fail("api_due_ms() says that something is due after 64 ticks");
}

static void hang_up(struct world *world, enum connection_state state)
{
    struct connection *connection = &world->connections[0];
    for (; connection < &world->connections[CLIENTS]; connection++) {
        if (connection->state != state)
            continue;
        if (state == CONNECTION_WAITING)
            api_abandon(world->api, &connection->exchange);
        connection->state = CONNECTION_BROKEN;
    }
    if (state == CONNECTION_WAITING)
        memset(world->oracle->waiting_counts, 0, sizeof(world->oracle->waiting_counts));
}

static void clear_disk(struct world *world)
{
    world->is_full = world->is_covered = false;
    memory_disk_set_capacity(world->disk, UINT64_MAX);
}

/* A tick with so much to do that it takes several frames, which the model does not follow one by one: without faults, and
 * without clients that would be served in the middle. */
static void tick_at_length(struct world *world)
{
    hang_up(world, CONNECTION_WAITING);
    memory_disk_fail_after(world->disk, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
    if (!world->is_quiet)
        clear_disk(world);
    world->is_read_near = world->is_stop_near = false;
    tick(world);
    server_flush(world);
}

/* Lets what has fallen due happen. */
static void server_tick(struct world *world)
{
    if (namespace_disk_level(world->ns) == DISK_SPENT)
        return; /* all that is due waits */
    uint64_t due_bytes = model_due_bytes(&world->oracle->model, world->now_ms);
    if (world->pending_bytes + due_bytes <= ample_size(world) / 2) {
        tick(world);
        world->pending_bytes += due_bytes;
        return;
    }
    server_flush(world);
    tick_at_length(world);
}

/* Judges the reply to the request that was just made. Only those who wait at a queue that goes hear of it before the one who
 * deletes it. */
static struct connection *judge_first(struct world *world, struct connection *connection, struct connection *first,
                                      uint64_t time_ms)
{
    struct connection *told[CLIENTS];
    unsigned told_count = 0;
    for (; first != connection; first = take_finished(world)) {
        if (first == NULL || connection->operation.kind != OPERATION_DELETE_QUEUE)
            fail("%s was answered after others that it has nothing to do with",
                 operation_target(&connection->operation));
        told[told_count++] = first;
    }
    judge(world, connection, time_ms);
    for (unsigned i = 0; i < told_count; i++) {
        world->oracle->waiting_counts[told[i]->operation.queue]--;
        judge(world, told[i], time_ms);
    }
    return NULL;
}

/* May it end units, and with them batches and their parents? */
static bool may_complete(const struct operation *operation)
{
    switch (operation->kind) {
    case OPERATION_DELETE:
    case OPERATION_COMMIT:
    case OPERATION_PUBLISH:
    case OPERATION_COMPLETE_UNITS:
    case OPERATION_RECEIVE:
    case OPERATION_FAIL:
    case OPERATION_ADD_UNITS: /* with a Total it may seal its batch */
    case OPERATION_XOR_UNITS:
    case OPERATION_SEAL_BATCH:
    case OPERATION_CANCEL_BATCH:
        return true;
    default:
        return false;
    }
}

/* About how much the operation may log, completions included. */
static size_t log_bytes(const struct operation *operation)
{
    size_t bytes = may_complete(operation) ? 1800 : 300;
    bool is_send = operation->kind == OPERATION_SEND || operation->kind == OPERATION_COMMIT ||
                   operation->kind == OPERATION_PUBLISH;
    for (unsigned i = 0; i < operation->count; i++)
        bytes += is_send ? 350 + 200 * operation->entries[i].after_count + operation->entries[i].size : 100;
    return bytes;
}

static void submit(struct world *world, struct connection *connection)
{
    struct exchange *exchange = &connection->exchange;
    const struct operation *operation = &connection->operation;
    /* The entries of one request may be spread over several frames, which the model does not follow. */
    size_t bytes = log_bytes(operation);
    bool is_large = operation->is_many || operation->kind == OPERATION_COMMIT || operation->kind == OPERATION_PUBLISH;
    if (world->pending_bytes > 0 && (is_large || world->pending_bytes + bytes > ample_size(world)))
        server_flush(world);
    make_room_to_renew(world);
    oracle_ask(world->oracle, &connection->operation);
    exchange_reset(exchange);
    buffer_truncate(&connection->body, 0);
    operation_write(operation, world->oracle->handles, &connection->body);
    exchange->request = (struct request){
        .method = BYTES("POST"),
        .path = BYTES("/"),
        .host = BYTES("sim"),
        .target = bytes_from_string(operation_target(operation)),
        .body = buffer_bytes(&connection->body),
    };
    trace(world, "client %td: %s %.*s", connection - world->connections, operation_target(operation),
          trace_size(connection->body.size), (const char *)connection->body.data_owned);
    world->report->operations++;
    world->pending_bytes += bytes;
    bool is_first = operation->kind == OPERATION_RECEIVE && world->oracle->waiting_counts[operation->queue] == 0;
    uint64_t time_ms = begin(world);
    witness_begin(&world->oracle->witness, namespace_core(world->ns));
    api_submit(world->api, exchange, world->now_ms);
    notice_failed_read(world);
    oracle_look(world->oracle, namespace_core(world->ns));
    plant_after_request(world->ns);
    witness_turn(&world->oracle->witness, namespace_core(world->ns));
    oracle_look(world->oracle, namespace_core(world->ns));
    struct connection *first = take_finished(world);
    if (exchange->state == EXCHANGE_WAITING || (first != connection && operation->kind == OPERATION_RECEIVE)) {
        /* It waits, or did so for a moment behind others that were answered first. */
        connection->state = CONNECTION_WAITING;
        trace(world, "client %td: waits", connection - world->connections);
        begin_oracle(world, time_ms,
                     first != NULL ? first->exchange.hold_sequence : namespace_hold_sequence(world->ns));
        oracle_judge_wait(world->oracle, operation, is_first);
        world->oracle->waiting_counts[operation->queue]++;
    } else {
        first = judge_first(world, connection, first, time_ms);
    }
    judge_waiters(world, first);
    world->oracle->has_read_failed = false;
    if (plant_chosen() == PLANT_REPLY_BEFORE_DURABLE)
        show_durable(world);
    check_core(world);
}

/* --- crashes and recovery ------------------------------------------------------------------------------------------- */

static void append_piece(void *context, struct bytes piece)
{
    buffer_append_bytes(context, piece);
}

static void encode(const struct core *core, struct buffer *out)
{
    buffer_truncate(out, 0);
    core_encode(core, append_piece, out);
}

/* The state that the folder's frames of owners before `epoch` amount to, read by hand from a copy of it, apart from
 * namespace.c. Taken after a start, because what a disk shows before it may differ: the log drops the system's cache when it
 * opens. *survived: the newest of those frames, untouched if there is no frame of a later owner. */
static struct core *replay_copy(const struct world *world, uint64_t epoch, uint64_t *survived)
{
    struct core *core = core_create();
    struct disk *disk = memory_disk_clone(world->disk, 1);
    struct log_options options = {.segment_size = world->options.segment_size,
                                  .frame_size_max = world->options.frame_size_max};
    struct log *log = NULL;
    struct buffer snapshot;
    struct failure failure = {.error = OK};
    bool is_new = false, is_end = false;
    buffer_init(&snapshot);
    enum error error = log_open(disk, &options, &log, &snapshot, &is_new, &failure);
    if (error == OK && snapshot.size > 0 && !core_bytes_decode(core, buffer_bytes(&snapshot)))
        fail("a published snapshot can't be decoded");
    while (error == OK) {
        struct frame_view frame;
        error = log_replay_next(log, &frame, &is_end, &failure);
        if (error != OK || is_end)
            break;
        if (frame.epoch >= epoch) {
            *survived = frame.sequence - 1;
            break;
        }
        audit_frame(frame.sequence, frame.payload);
        if (!core_replay(core, frame.payload, frame.position + FRAME_HEADER_SIZE, frame.time_ms, &failure))
            fail("frame %" PRIu64 " does not replay: %s", frame.sequence, failure.text);
    }
    if (error != OK)
        fail("a copy of the log can't be read: %s", failure.text);
    log_close(log);
    memory_disk_destroy(disk);
    buffer_deinit(&snapshot);
    return core;
}

/* If nothing was lost, the state read back is the state that was (R8). */
static void compare_with_before(struct world *world, struct core *replayed, uint64_t time_before_ms)
{
    struct buffer frame;
    buffer_init(&frame);
    if (time_before_ms > core_now_ms(replayed)) {
        core_frame_open(replayed, &frame, 0, time_before_ms, SIZE_MAX);
        core_frame_close(replayed);
    }
    encode(replayed, &world->after);
    if (!bytes_equal(buffer_bytes(&world->before), buffer_bytes(&world->after)))
        fail("the state replayed from the log is not the one before the crash, though no frame was lost");
    buffer_deinit(&frame);
}

static void compare_with_replay(struct world *world)
{
    struct core *replayed = replay_copy(world, UINT64_MAX, NULL);
    encode(replayed, &world->after);
    encode(namespace_core(world->ns), &world->before);
    if (!bytes_equal(buffer_bytes(&world->before), buffer_bytes(&world->after)))
        fail("two replays of one log give different states");
    core_destroy(replayed);
}

static void let_time_pass(struct world *world, uint32_t jump_percent)
{
    uint32_t ms = random_below(&world->clock, 4000);
    if (random_chance(&world->clock, jump_percent))
        ms = random_below(&world->clock, random_chance(&world->clock, 5) ? 24 * 3600 * 1000 : 120 * 1000);
    world->now_ms += ms;
    where.now_ms = world->now_ms;
}

static void arm_recovery_fault(struct world *world)
{
    static const enum memory_disk_fault faults[] = {MEMORY_DISK_FAIL_READ, MEMORY_DISK_FAIL_WRITE,
                                                    MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FULL, MEMORY_DISK_STOP};
    if (world->is_quiet || !random_chance(&world->faults, 15))
        return;
    memory_disk_fail_after(world->disk, random_below(&world->faults, 12), faults[random_below(&world->faults, 5)]);
}

/* One attempt to start. On failure the process ends again. */
static bool try_open(struct world *world)
{
    static const uint8_t key[CORE_KEY_SIZE] = "sixteen bytes...";
    struct failure failure = {.error = OK};
    arm_recovery_fault(world);
    enum error error = namespace_open(world->disk, &world->options, world->now_ms, key, &world->ns, &failure);
    bool has_struck = memory_disk_has_failed(world->disk);
    memory_disk_fail_after(world->disk, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
    if (error == OK)
        return true;
    if (!has_struck)
        judge_end(world, &failure);
    if (world->is_full && failure.error == ERROR_DISK_FULL && !has_struck) {
        clear_disk(world);
        has_struck = true;
    }
    if (!has_struck)
        fail("the server does not start again: %s", failure.text);
    trace(world, "the start failed: %s", failure.text);
    if (random_chance(&world->faults, 50))
        memory_disk_crash(world->disk);
    else
        memory_disk_kill(world->disk);
    return false;
}

static void server_start(struct world *world, bool has_before, uint64_t sequence_before, uint64_t time_before_ms)
{
    uint64_t before_ms = world->now_ms;
    if (has_before && random_chance(&world->clock, 10)) {
        world->now_ms -= random_below(&world->clock, 3600 * 1000); /* somebody sets the clock back */
        trace(world, "the clock was set back");
    }
    if (has_before && random_chance(&world->faults, 10)) {
        /* Somebody changed the configuration; the folder keeps the size of its segments. */
        uint64_t limit = world->options.segment_size / 2 - 1024;
        world->options.frame_size_max = random_chance(&world->faults, 50) ? limit : limit / 4 / 512 * 3 * 512;
    }
    while (!try_open(world))
        let_time_pass(world, world->jump_percent);
    /* Log time never goes back, whatever the clock says (clock.h of the server). */
    if (world->now_ms < namespace_time(world->ns))
        world->now_ms = namespace_time(world->ns);
    where.now_ms = world->now_ms;
    oracle_clock_was_set(world->oracle, before_ms > world->now_ms ? before_ms - world->now_ms : 0, has_before);
    /* Frames of later owners, this one and those whose starts failed, say that they took over. */
    uint64_t sequence = namespace_hold_sequence(world->ns), survived = 0;
    struct core *replayed = replay_copy(world, world->epoch + 1, &survived);
    world->epoch = log_epoch(namespace_log(world->ns));
    trace(world, "started: the log had frames up to %" PRIu64 " of %" PRIu64, survived, sequence_before);
    if (survived < world->acknowledged)
        fail("the log came back with frame %" PRIu64 " as its newest; replies that stood on frame %" PRIu64
             " were shown",
             survived, world->acknowledged);
    uint64_t last_ms = survived == 0 ? world->now_ms : core_now_ms(replayed);
    if (has_before && survived == sequence_before)
        compare_with_before(world, replayed, time_before_ms);
    core_destroy(replayed);
    oracle_recover(world->oracle, survived, last_ms, world->now_ms, sequence);
    if (!plant_spoils_state())
        core_check(namespace_core(world->ns));
    compare_with_replay(world);
    static const struct api_options options = {.region = "sim"};
    world->api = api_create(world->ns, &options);
    world->pending_bytes = 0;
}

/* The process ends as it stands, and is started again. */
/* The folder as the crash left it, and damaged besides: salvaged, and judged, on a copy. */
static void try_salvage(struct world *world)
{
    char wrong[512];
    if (!salvage_rig_try(world->disk, world->seed * 1000003 + world->step, &world->report->salvage, wrong))
        fail("salvage: %s", wrong);
}

static void server_restart(struct world *world, bool is_power_lost)
{
    uint64_t sequence = namespace_hold_sequence(world->ns), time_ms = namespace_time(world->ns);
    trace(world, "the server %s; frames up to %" PRIu64 " are durable, %" PRIu64 " is the newest",
          is_power_lost ? "loses power" : "is killed", namespace_durable(world->ns), sequence);
    world->report->crashes++;
    encode(namespace_core(world->ns), &world->before);
    world->is_stop_near = false;
    world->is_read_near = false;
    world->stalled_until_ms = 0;
    hang_up(world, CONNECTION_WAITING);
    hang_up(world, CONNECTION_HELD);
    plant_forget();
    api_destroy(world->api);
    world->api = NULL;
    if (!has_failed(world)) {
        memory_disk_fail_after(world->disk, 0,
                               MEMORY_DISK_STOP); /* whatever it was about to write is written by half */
    }
    namespace_close(world->ns);
    world->ns = NULL;
    if (is_power_lost)
        memory_disk_crash(world->disk);
    else
        memory_disk_kill(world->disk);
    let_time_pass(world, world->jump_percent);
    if (world->report->wants_salvage)
        try_salvage(world);
    server_start(world, true, sequence, time_ms);
}

/* SIGTERM. */
static void server_stop(struct world *world)
{
    server_tick(world); /* as it does of itself, when something is due */
    trace(world, "the server stops in order");
    api_release_waiting(world->api);
    for (struct connection *connection; (connection = take_finished(world)) != NULL;) {
        world->oracle->waiting_counts[connection->operation.queue]--;
        judge(world, connection, namespace_time(world->ns));
    }
    uint64_t crashes = world->report->crashes;
    server_flush(world);
    if (world->report->crashes == crashes)
        server_restart(world, false);
}

/* --- one step ------------------------------------------------------------------------------------------------------- */

/* What a server that is short of room does not remember, or refuses a part of; and a batch whose entries one frame may not hold. */
static bool is_beyond_model(const struct world *world, const struct operation *operation)
{
    if (operation->kind == OPERATION_SEND && log_bytes(operation) > ample_size(world))
        return true;
    return namespace_disk_level(world->ns) != DISK_AMPLE &&
           (operation->kind == OPERATION_PUBLISH ||
            (operation->kind == OPERATION_RECEIVE && operation->attempt != NONE));
}

static void client_acts(struct world *world)
{
    struct connection *connection = &world->connections[random_below(&world->network, CLIENTS)];
    switch (connection->state) {
    case CONNECTION_WAITING:
        if (random_chance(&world->network, 10)) {
            trace(world, "client %td hangs up", connection - world->connections);
            api_abandon(world->api, &connection->exchange);
            world->oracle->waiting_counts[connection->operation.queue]--;
            connection->state = CONNECTION_BROKEN;
        }
        return;
    case CONNECTION_HELD:
        if (random_chance(&world->network, 4)) {
            trace(world, "client %td hangs up before its reply has left", connection - world->connections);
            exchange_reset(&connection->exchange);
            connection->state = CONNECTION_BROKEN;
        }
        return;
    case CONNECTION_BROKEN:
        if (random_chance(&world->network, 80))
            break; /* the same again */
        __attribute__((fallthrough));
    case CONNECTION_IDLE:
        clients_draw(&world->clients, world->oracle, &connection->operation);
        break;
    }
    if (!is_beyond_model(world, &connection->operation))
        submit(world, connection);
}

static void take_snapshot_step(struct world *world)
{
    struct failure failure = {.error = OK};
    if (namespace_snapshot_step(world->ns, true, &failure) != OK)
        trace(world, "snapshot: %s", failure.text);
}

/* The cleaner moves contents; nothing that a client could see changes, so the model only learns the time. */
static void take_clean_step(struct world *world)
{
    struct failure failure = {.error = OK};
    make_room_to_renew(world);
    (void)begin(world);
    uint64_t end = namespace_end(world->ns), moved = namespace_usage(world->ns).moved_bytes;
    if (namespace_clean_step(world->ns, world->now_ms, &failure) != OK)
        trace(world, "cleaning: %s", failure.text);
    notice_failed_read(world);
    world->oracle->has_read_failed = false;
    begin_oracle(world, namespace_time(world->ns), namespace_hold_sequence(world->ns));
    world->pending_bytes += namespace_end(world->ns) - end;
    moved = namespace_usage(world->ns).moved_bytes - moved;
    world->report->moved_bytes += moved;
    if (namespace_disk_level(world->ns) != DISK_AMPLE)
        hang_up(world, CONNECTION_WAITING); /* is_beyond_model() */
    world->has_cleaned |= moved > 0;
    if (moved > 0)
        trace(world, "%" PRIu64 " bytes of contents were moved", moved);
    check_core(world);
}

static void arm_fault(struct world *world)
{
    static const enum memory_disk_fault faults[] = {MEMORY_DISK_FAIL_WRITE, MEMORY_DISK_FAIL_SYNC,
                                                    MEMORY_DISK_FULL,       MEMORY_DISK_STOP,
                                                    MEMORY_DISK_STOP,       MEMORY_DISK_FAIL_READ};
    enum memory_disk_fault fault = faults[random_below(&world->faults, 6)];
    trace(world, "fault %d is near", fault);
    world->is_stop_near = fault == MEMORY_DISK_STOP;
    world->is_read_near = fault == MEMORY_DISK_FAIL_READ;
    memory_disk_fail_after(world->disk, random_below(&world->faults, world->is_read_near ? 2 : 25), fault);
}

/* Somebody else's files leave so little room, until somebody clears up. */
static void fill_disk(struct world *world, uint32_t room)
{
    world->is_full = world->was_full = true;
    world->is_covered |= world->options.keeps_reserve && namespace_usage(world->ns).missing_bytes == 0;
    memory_disk_set_capacity(world->disk, memory_disk_used(world->disk) + room);
    trace(world, "the disk is nearly full%s", world->is_covered ? ", and the server has its reserve" : "");
}

/* The flush that begins now takes seconds, and requests go on. */
static void stall(struct world *world)
{
    world->stalled_until_ms = world->now_ms + random_between(&world->faults, 1000, 20000);
    world->report->stalls++;
    trace(world, "the disk stalls for %" PRIu64 " ms", world->stalled_until_ms - world->now_ms);
}

static void take_step(struct world *world)
{
    struct random *random = &world->network;
    unsigned draw = random_below(random, 1000);
    if (draw < 640)
        client_acts(world);
    else if (draw < 760)
        let_time_pass(world, world->jump_percent);
    else if (draw < 860)
        server_tick(world);
    else if (draw < 930)
        take_snapshot_step(world);
    else if (draw < 980)
        (void)log_prepare(namespace_log(world->ns));
    else if (random_chance(&world->faults, 50))
        arm_fault(world);
    else if (random_chance(&world->faults, 10))
        fill_disk(world, random_below(&world->faults, 64 * 1024));
    else if (random_chance(&world->faults, world->crash_percent))
        server_restart(world, random_chance(&world->faults, 70));
    else if (random_chance(&world->faults, 20))
        server_stop(world);
    if (random_chance(&world->faults, 30))
        take_clean_step(world);
    if (!is_stalled(world) && random_chance(random, world->flush_percent)) {
        if (random_chance(&world->faults, world->stall_percent))
            stall(world);
        else
            server_flush(world);
    }
    if (world->is_full && random_chance(&world->faults, 3))
        clear_disk(world);
    if (world->is_stop_near && memory_disk_has_failed(world->disk))
        server_restart(world, random_chance(&world->faults, 70));
}

/* --- the end: no more faults, everything must come to its end -------------------------------------------------------- */

static struct connection *call(struct world *world, const struct operation *operation)
{
    struct connection *connection = &world->connections[0];
    ASSERT(connection->state == CONNECTION_IDLE);
    connection->operation = *operation;
    submit(world, connection);
    server_flush(world);
    ASSERT(connection->state == CONNECTION_IDLE);
    return connection;
}

/* Receives and deletes until nothing is deliverable. */
static void drain_queue(struct world *world, int queue)
{
    struct operation receive = {
        .kind = OPERATION_RECEIVE, .queue = queue, .receive_max = ENTRIES_MAX, .timeout_s = 30, .attempt = NONE};
    for (;;) {
        struct lesson lesson = call(world, &receive)->lesson;
        if (lesson.handle_count == 0)
            return;
        struct operation delete = {
            .kind = OPERATION_DELETE, .queue = queue, .is_many = true, .count = lesson.handle_count};
        for (unsigned i = 0; i < lesson.handle_count; i++)
            delete.entries[i].handle = lesson.handles[i];
        call(world, &delete);
        if (world->oracle->handle_count > HANDLES_MAX - 100)
            fail("draining q%d does not end", queue);
    }
}

/* Lets everything go on that somebody stopped, and what is held make way. */
static void let_all_go(struct world *world)
{
    const struct model *model = &world->oracle->model;
    for (int i = 0; i < model->queue_count; i++)
        if (model->queues[i].exists && model->queues[i].is_paused)
            call(world, &(struct operation){.kind = OPERATION_PAUSE, .queue = model->queues[i].name, .group = NONE});
    for (int i = 0; i < model->group_count; i++) {
        const struct model_group *group = &model->groups[i];
        if (!model->queues[group->queue].exists)
            continue;
        int queue = model->queues[group->queue].name;
        if (group->is_paused)
            call(world, &(struct operation){.kind = OPERATION_PAUSE, .queue = queue, .group = group->name});
        if (model_is_held(model, group))
            call(world,
                 &(struct operation){
                     .kind = OPERATION_RELEASE_GROUP, .queue = queue, .group = group->name, .action = RELEASE_SKIP_});
    }
}

static bool is_finished(const struct model *model)
{
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive)
            return false;
    for (int i = 0; i < model->batch_count; i++)
        if (model->batches[i].is_record)
            return false;
    return true;
}

/* Lets the server do what it does for the disk's sake, until nothing more comes of it. */
static void care_for_disk(struct world *world)
{
    for (unsigned turn = 0; turn < 6 && world->options.keeps_reserve; turn++) {
        world->now_ms += 250;
        where.now_ms = world->now_ms;
        take_clean_step(world);
        server_flush(world);
        take_snapshot_step(world);
        if (namespace_disk_level(world->ns) == DISK_AMPLE)
            return;
    }
}

/* Receives that end nothing: the log goes round and round without a free byte. */
static void wear_out(struct world *world)
{
    fill_disk(world, 0);
    unsigned count = random_below(&world->faults, 900);
    for (unsigned i = 0; i < count; i++) {
        int queue = (int)random_below(&world->faults, QUEUE_NAMES);
        if (model_find_queue(&world->oracle->model, queue) == NONE)
            continue;
        call(world, &(struct operation){
                        .kind = OPERATION_RECEIVE, .queue = queue, .receive_max = 1, .timeout_s = 0, .attempt = NONE});
        if (random_chance(&world->faults, 20))
            care_for_disk(world);
        if (world->oracle->handle_count > HANDLES_MAX / 4 * 3)
            return;
    }
}

static void wind_up(struct world *world)
{
    world->is_quiet = true;
    clear_disk(world);
    world->is_read_near = false;
    memory_disk_fail_after(world->disk, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
    server_stop(world);
    for (unsigned i = 0; i < CLIENTS; i++)
        world->connections[i].state = CONNECTION_IDLE;
    care_for_disk(world);
    if (world->stays_full)
        wear_out(world);
    for (unsigned round = 0; round < 300 && !is_finished(&world->oracle->model); round++) {
        care_for_disk(world);
        server_tick(world);
        server_flush(world);
        let_all_go(world);
        for (int queue = 0; queue < QUEUE_NAMES; queue++)
            if (model_find_queue(&world->oracle->model, queue) != NONE)
                drain_queue(world, queue);
        world->now_ms += round < 20 ? 60 * 1000 : 3600 * 1000;
        where.now_ms = world->now_ms;
        world->step++;
    }
    if (!is_finished(&world->oracle->model))
        fail("something never ends: after twelve days of an untroubled server the model still has messages or batches");
    let_all_go(world);
    world->now_ms += 3600 * 1000; /* so that every bucket is full */
    where.now_ms = world->now_ms;
    server_tick(world);
    server_flush(world);
    struct core_metrics metrics = core_metrics(namespace_core(world->ns));
    if (witness_leftovers(namespace_core(world->ns)) != 0)
        fail("at the end the server has %" PRIu64 " groups, places, edges and the like left; there should be none",
             witness_leftovers(namespace_core(world->ns)));
    if (metrics.deduplication_ids != model_count_ids(&world->oracle->model))
        fail("at the end the server has %" PRIu64 " deduplication ids left; there should be %u",
             metrics.deduplication_ids, model_count_ids(&world->oracle->model));
    if (metrics.published_rows != model_count_rows(&world->oracle->model))
        fail("at the end the server knows %" PRIu64 " published rows; it should know %u", metrics.published_rows,
             model_count_rows(&world->oracle->model));
    if (metrics.messages != 0 || metrics.batches != 0)
        fail("at the end the server has %" PRIu64 " messages and %" PRIu64 " batches left; there should be none",
             metrics.messages, metrics.batches);
    call(world, &(struct operation){.kind = OPERATION_LIST_BATCHES, .only = NONE});
    server_restart(world, true);
}

/* --- a seed --------------------------------------------------------------------------------------------------------- */

static void world_init(struct world *world, uint64_t seed, bool is_traced, struct world_report *report)
{
    struct random settings = random_stream(seed, STREAM_SETTINGS);
    static const uint32_t body_sizes[] = {200, 1500, 5000};
    uint32_t body_max = body_sizes[random_below(&settings, 3)];
    uint64_t segment_size = body_max > 2000  ? 256 * 1024
                            : body_max > 200 ? 128 * 1024
                                             : 96 * 1024; /* a frame is full at a sixteenth of it */
    *world = (struct world){
        .seed = seed,
        .is_traced = is_traced,
        .clock = random_stream(seed, STREAM_CLOCK),
        .network = random_stream(seed, STREAM_NETWORK),
        .faults = random_stream(seed, STREAM_FAULTS),
        .now_ms = START_MS,
        .steps = random_between(&settings, 300, 900),
        .crash_percent = random_between(&settings, 5, 100),
        .flush_percent = random_between(&settings, 10, 70),
        .jump_percent = random_below(&settings, 4) * 8,
        .stall_percent = random_below(&settings, 4) * 2,
        .check_every = 1,
        .report = report,
        .options = {.name = "000000000000",
                    .segment_size = segment_size,
                    .frame_size_max = segment_size / 2 - 1024,
                    .snapshot_bytes = (uint64_t)4096 << random_below(&settings, 6),
                    .snapshot_worth = random_below(&settings, 3),
                    .cleans_eagerly = true,
                    .in_flight_max = random_between(&settings, 1, random_chance(&settings, 20) ? 12 : 200)},
    };
    world->options.keeps_reserve = random_chance(&settings, 60);
    world->options.disk_min_free = random_below(&settings, 3) * segment_size;
    world->stays_full = world->options.keeps_reserve && random_chance(&settings, 30);
    if (world->stays_full && random_chance(&settings, 50))
        world->options.snapshot_bytes = UINT64_C(1) << 30; /* none but for want of room */
    where = (struct world_where){.seed = seed, .now_ms = START_MS};
    buffer_init(&world->before);
    buffer_init(&world->after);
    for (unsigned i = 0; i < CLIENTS; i++) {
        exchange_init(&world->connections[i].exchange);
        buffer_init(&world->connections[i].body);
    }
    clients_init(&world->clients, seed, body_max);
    world->oracle = oracle_create(world->options.in_flight_max);
    struct random disk = random_stream(seed, STREAM_DISK);
    world->disk = memory_disk_create(random_u64(&disk));
    plant_disk(world->disk);
}

static void world_deinit(struct world *world)
{
    hang_up(world, CONNECTION_WAITING);
    api_destroy(world->api);
    namespace_close(world->ns);
    memory_disk_destroy(world->disk);
    oracle_destroy(world->oracle);
    for (unsigned i = 0; i < CLIENTS; i++) {
        exchange_deinit(&world->connections[i].exchange);
        buffer_deinit(&world->connections[i].body);
    }
    buffer_deinit(&world->before);
    buffer_deinit(&world->after);
}

void world_run(uint64_t seed, bool is_traced, struct world_report *report)
{
    struct world world;
    world_init(&world, seed, is_traced, report);
    server_start(&world, false, 0, 0);
    struct operation opening;
    for (unsigned i = 0; clients_open(&world.clients, i, &opening); i++) {
        world.connections[0].operation = opening;
        submit(&world, &world.connections[0]);
        server_flush(&world);
        world.connections[0].state = CONNECTION_IDLE;
    }
    for (; world.step < world.steps; world.step++) {
        where.step = world.step;
        take_step(&world);
    }
    wind_up(&world);
    for (int i = 0; i < world.oracle->model.message_count; i++)
        report->completions += world.oracle->model.messages[i].completes == EVENT_COMPLETE_;
    report->messages += (uint64_t)world.oracle->model.message_count;
    report->cleaned_seeds += world.has_cleaned;
    report->full_seeds += world.stays_full && world.is_covered;
    report->segments += log_next_place(namespace_log(world.ns)).position / world.options.segment_size + 1;
    world_deinit(&world);
}
