/* The server's life: starts, kills, lost power, stops in order. After each start its state is held against a replay by
 * hand. */
#include "world_parts.h"

#include "api/api.h"
#include "audit.h"
#include "fail.h"
#include "log/log.h"
#include "support/core_bytes.h"
#include "support/front_of_one.h"
#include "support/history.h"
#include "support/memory_disk.h"
#include <inttypes.h>

/* A server that keeps a reserve ends by no disk that is full, but by one that says so without being asked. */
void world_judge_end(const struct world *world, const struct failure *failure)
{
    if (world->is_covered && failure->error == ERROR_DISK_FULL && !memory_disk_has_failed(world->disk))
        fail("the server ends on a full disk though it had its reserve: %s", failure->text);
}

bool world_has_failed(const struct world *world)
{
    struct failure failure;
    return namespace_failure(world->ns, &failure) != OK;
}

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
 * namespace.c. Taken after a start, because what a disk shows before it may differ: the log drops the system's cache
 * when it opens. *survived: the newest of those frames, untouched if there is no frame of a later owner. */
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
        world_judge_end(world, &failure);
    if (world->is_full && failure.error == ERROR_DISK_FULL && !has_struck) {
        world_clear_disk(world);
        has_struck = true;
    }
    if (!has_struck)
        fail("the server does not start again: %s", failure.text);
    world_trace(world, "the start failed: %s", failure.text);
    if (random_chance(&world->faults, 50))
        memory_disk_crash(world->disk);
    else
        memory_disk_kill(world->disk);
    return false;
}

void world_server_start(struct world *world, bool has_before, uint64_t sequence_before, uint64_t time_before_ms)
{
    uint64_t before_ms = world->now_ms;
    if (has_before && random_chance(&world->clock, 10)) {
        world->now_ms -= random_below(&world->clock, 3600 * 1000); /* somebody sets the clock back */
        world_trace(world, "the clock was set back");
    }
    if (has_before && random_chance(&world->faults, 10)) {
        /* Somebody changed the configuration; the folder keeps the size of its segments. */
        uint64_t limit = world->options.segment_size / 2 - 1024;
        world->options.frame_size_max = random_chance(&world->faults, 50) ? limit : limit / 4 / 512 * 3 * 512;
    }
    while (!try_open(world))
        world_let_time_pass(world, world->jump_percent);
    /* Log time never goes back, whatever the clock says (clock.h of the server). */
    uint64_t log_ms = namespace_time(world->ns);
    world_set_time(world, world->now_ms < log_ms ? log_ms : world->now_ms);
    oracle_clock_was_set(world->oracle, before_ms > world->now_ms ? before_ms - world->now_ms : 0, has_before);
    /* Frames of later owners, this one and those whose starts failed, say that they took over. */
    uint64_t sequence = namespace_hold_sequence(world->ns), survived = 0;
    struct core *replayed = replay_copy(world, world->epoch + 1, &survived);
    world->epoch = log_epoch(namespace_log(world->ns));
    world_trace(world, "started: the log had frames up to %" PRIu64 " of %" PRIu64, survived, sequence_before);
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
    const struct front_options options = {.region = "sim", .keeps_history = world->report->is_looked_at};
    world->api = front_of_one_create(world->ns, &options, &world->front);
    world->pending_bytes = 0;
}

/* The folder as the crash left it, and damaged besides: salvaged, and judged, on a copy. */
static void try_salvage(struct world *world)
{
    char wrong[512];
    if (!salvage_rig_try(world->disk, world->seed * 1000003 + world->step, &world->report->salvage, wrong))
        fail("salvage: %s", wrong);
}

/* The process ends as it stands, and is started again. */
void world_server_restart(struct world *world, bool is_power_lost)
{
    uint64_t sequence = namespace_hold_sequence(world->ns), time_ms = namespace_time(world->ns);
    world_trace(world, "the server %s; frames up to %" PRIu64 " are durable, %" PRIu64 " is the newest",
                is_power_lost ? "loses power" : "is killed", namespace_durable(world->ns), sequence);
    world->report->crashes++;
    encode(namespace_core(world->ns), &world->before);
    history_note(buffer_bytes(&world->before));
    world->is_stop_near = false;
    world->is_read_near = false;
    world->stalled_until_ms = 0;
    world_hang_up(world, CONNECTION_WAITING);
    world_hang_up(world, CONNECTION_HELD);
    plant_forget();
    front_of_one_destroy(world->front, world->api);
    world->api = NULL;
    if (!world_has_failed(world)) {
        memory_disk_fail_after(world->disk, 0,
                               MEMORY_DISK_STOP); /* whatever it was about to write is written by half */
    }
    namespace_close(world->ns);
    world->ns = NULL;
    if (is_power_lost)
        memory_disk_crash(world->disk);
    else
        memory_disk_kill(world->disk);
    history_note_disk(world->disk);
    world_let_time_pass(world, world->jump_percent);
    if (world->report->wants_salvage)
        try_salvage(world);
    world_server_start(world, true, sequence, time_ms);
}

/* SIGTERM. */
void world_server_stop(struct world *world)
{
    world_server_tick(world); /* as it does of itself, when something is due */
    world_trace(world, "the server stops in order");
    api_release_waiting(world->api);
    for (struct connection *connection; (connection = world_take_finished(world)) != NULL;) {
        world->oracle->waiting_counts[connection->operation.queue]--;
        world_judge(world, connection, namespace_time(world->ns));
    }
    uint64_t crashes = world->report->crashes;
    world_server_flush(world);
    if (world->report->crashes == crashes)
        world_server_restart(world, false);
}
