/* The server's turns: time that passes, what falls due, frames that become durable. The oracle sees each turn before
 * the next begins. */
#include "world_parts.h"

#include "api/api.h"
#include "engine/grant.h"
#include "fail.h"
#include "log/log.h"
#include "support/memory_disk.h"
#include <inttypes.h>
#include <string.h>

/* What follows in the core happens at time_ms, in the open frame or, if it changes anything, in the next. */
void world_begin_oracle(struct world *world, uint64_t time_ms, uint64_t sequence)
{
    bool is_logged = namespace_hold_sequence(world->ns) == log_next_point(namespace_log(world->ns)).sequence;
    oracle_begin(world->oracle, time_ms, sequence, is_logged);
}

/* Opens a frame, at the time that the core has, and looks at what happens from here on. */
void world_begin_watching(struct world *world)
{
    (void)namespace_begin(world->ns, namespace_time(world->ns));
    witness_begin(&world->oracle->witness, namespace_core(world->ns));
}

/* The oracle learns which leases the server has made longer since world_begin_watching(), when it was `time_ms`. */
void world_follow_renewals(struct world *world, uint64_t time_ms)
{
    struct witness *witness = &world->oracle->witness;
    const struct lesson *held[CLIENTS];
    unsigned count = 0;
    oracle_observe(world->oracle, namespace_core(world->ns));
    if (witness->count == 0)
        return;
    for (unsigned i = 0; i < CLIENTS; i++)
        if (world->connections[i].state == CONNECTION_HELD)
            held[count++] = &world->connections[i].lesson;
    world_begin_oracle(world, time_ms, namespace_hold_sequence(world->ns));
    for (unsigned i = 0; i < witness->count; i++) {
        world_trace(world, "the lease of message %" PRIu64 " was renewed", witness->sights[i].number);
        if (witness->sights[i].kind != SIGHT_RENEWED)
            fail("more happens than that leases are renewed");
        oracle_renew(world->oracle, &witness->sights[i], held, count);
        world->report->renewals++;
        world->pending_bytes += 25;
    }
    witness->count = witness->next = 0;
}

/* Before a decision: lets time pass. Returns the time at which it is decided. */
uint64_t world_begin(struct world *world)
{
    world_begin_watching(world);
    uint64_t time_ms = namespace_time(world->ns);
    (void)namespace_begin(world->ns, world->now_ms);
    world_follow_renewals(world, time_ms);
    world->pending_bytes += 15; /* that time has passed */
    time_ms = namespace_time(world->ns);
    if (time_ms + FRAME_TIME_MS_MAX < world->now_ms)
        fail("what is asked for now is decided %" PRIu64 " ms ago", world->now_ms - time_ms);
    return time_ms;
}

bool world_is_stalled(const struct world *world)
{
    return !world->is_quiet && world->now_ms < world->stalled_until_ms;
}

/* Makes what stands in the open frame durable; while the disk stalls nobody is told. If that fails the process ends,
 * and another is started. */
void world_server_flush(struct world *world)
{
    struct failure failure;
    world->pending_bytes = 0;
    if (namespace_flush(world->ns, &failure) == OK) {
        if (world_is_stalled(world))
            oracle_durable(world->oracle, namespace_durable(world->ns));
        else
            world_show_durable(world);
        return;
    }
    world_trace(world, "the log failed: %s", failure.text);
    world_judge_end(world, &failure);
    world_server_restart(world, random_chance(&world->faults, 50));
}

void world_check_core(const struct world *world)
{
    if (world->step % world->check_every == 0 && !plant_spoils_state() &&
        !world_has_failed(world)) /* else the process is about to end */
        core_check(namespace_core(world->ns));
}

/* How much a decision may log before the server puts the rest of it off to another frame. */
uint64_t world_ample_size(const struct world *world)
{
    return world->options.frame_size_max / 8;
}

/* Leases that have to be renewed before time goes on are renewed in one frame, which the oracle looks at. */
void world_make_room_to_renew(struct world *world)
{
    bool is_due = namespace_grants(world->ns)->due_ms <= world->now_ms;
    if (is_due && world->pending_bytes > world_ample_size(world) / 4)
        world_server_flush(world);
}

void world_hang_up(struct world *world, enum connection_state state)
{
    struct connection *connection = &world->connections[0];
    for (; connection < &world->connections[CLIENTS]; connection++) {
        if (connection->state != state)
            continue;
        if (state == CONNECTION_WAITING)
            api_abandon(&connection->exchange);
        connection->state = CONNECTION_BROKEN;
    }
    if (state == CONNECTION_WAITING)
        memset(world->oracle->waiting_counts, 0, sizeof(world->oracle->waiting_counts));
}

/* Lets what has fallen due happen, turn by turn. */
static void tick(struct world *world)
{
    for (unsigned turn = 0; turn < 64; turn++) {
        world_make_room_to_renew(world);
        uint64_t time_ms = world_begin(world);
        uint64_t sequence = namespace_hold_sequence(world->ns);
        witness_begin(&world->oracle->witness, namespace_core(world->ns));
        api_tick(world->api, world->now_ms);
        oracle_observe(world->oracle, namespace_core(world->ns));
        world_notice_failed_read(world);
        bool is_changed = namespace_hold_sequence(world->ns) > sequence;
        world_begin_oracle(world, time_ms, sequence + (is_changed ? 1 : 0));
        oracle_tick(world->oracle);
        world_judge_waiters(world, NULL);
        world->oracle->has_read_failed = false;
        world->pending_bytes += 500;
        if (api_due_ms(world->api) > namespace_time(world->ns)) {
            oracle_expect_moved(world->oracle);
            return; /* what is due since the open frame's time comes when that has been flushed */
        }
    }
    fail("api_due_ms() says that something is due after 64 ticks");
}

/* A tick with so much to do that it takes several frames, which the model does not follow one by one: without faults,
 * and without clients that would be served in the middle. */
static void tick_at_length(struct world *world)
{
    world_hang_up(world, CONNECTION_WAITING);
    memory_disk_fail_after(world->disk, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
    if (!world->is_quiet)
        world_clear_disk(world);
    world->is_read_near = world->is_stop_near = false;
    tick(world);
    world_server_flush(world);
}

/* Lets what has fallen due happen. */
void world_server_tick(struct world *world)
{
    if (namespace_disk_level(world->ns) == DISK_SPENT)
        return; /* all that is due waits */
    uint64_t due_bytes = model_due_bytes(&world->oracle->model, world->now_ms);
    if (world->pending_bytes + due_bytes <= world_ample_size(world) / 2) {
        tick(world);
        world->pending_bytes += due_bytes;
    } else {
        world_server_flush(world);
        tick_at_length(world);
    }
    world_look(world);
}
