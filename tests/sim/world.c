#include "world_parts.h"

#include "api/api.h"
#include "log/log.h"
#include "support/front_of_one.h"
#include "support/history.h"
#include "support/memory_disk.h"
#include <stdarg.h>
#include <stdio.h>

#define TRACE_SIZE_MAX 6000u /* of a request or a reply */
#define START_MS UINT64_C(1700000000000)

static struct world_where where; /* for fail(), from wherever it is called */

struct world_where world_where(void)
{
    return where;
}

void world_set_time(struct world *world, uint64_t now_ms)
{
    world->now_ms = where.now_ms = now_ms;
}

void world_trace(const struct world *world, const char *format, ...)
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

int world_trace_size(size_t size)
{
    return (int)(size < TRACE_SIZE_MAX ? size : TRACE_SIZE_MAX);
}

void world_let_time_pass(struct world *world, uint32_t jump_percent)
{
    uint32_t ms = random_below(&world->clock, 4000);
    if (random_chance(&world->clock, jump_percent))
        ms = random_below(&world->clock, random_chance(&world->clock, 5) ? 24 * 3600 * 1000 : 120 * 1000);
    world_set_time(world, world->now_ms + ms);
}

static void take_step(struct world *world)
{
    struct random *random = &world->network;
    unsigned draw = random_below(random, 1000);
    if (draw < 640)
        world_client_acts(world);
    else if (draw < 760)
        world_let_time_pass(world, world->jump_percent);
    else if (draw < 860)
        world_server_tick(world);
    else if (draw < 930)
        world_take_snapshot_step(world);
    else if (draw < 980)
        (void)log_prepare(namespace_log(world->ns));
    else if (random_chance(&world->faults, 50))
        world_arm_fault(world);
    else if (random_chance(&world->faults, 10))
        world_fill_disk(world, random_below(&world->faults, 64 * 1024));
    else if (random_chance(&world->faults, world->crash_percent))
        world_server_restart(world, random_chance(&world->faults, 70));
    else if (random_chance(&world->faults, 20))
        world_server_stop(world);
    if (random_chance(&world->faults, 30))
        world_take_clean_step(world);
    if (!world_is_stalled(world) && random_chance(random, world->flush_percent)) {
        if (random_chance(&world->faults, world->stall_percent))
            world_stall(world);
        else
            world_server_flush(world);
    }
    if (world->is_full && random_chance(&world->faults, 3))
        world_clear_disk(world);
    if (world->is_stop_near && memory_disk_has_failed(world->disk))
        world_server_restart(world, random_chance(&world->faults, 70));
}

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
    if (report
            ->is_looked_at) /* how large the reserve is depends on how the C library rounds memory, in which we share */
        world->options.keeps_reserve = false;
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
    world_begin_looking(world);
}

static void world_deinit(struct world *world)
{
    world_hang_up(world, CONNECTION_WAITING);
    world_end_looking(world);
    front_of_one_destroy(world->front, world->api);
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
    history_begin();
    world_init(&world, seed, is_traced, report);
    world_server_start(&world, false, 0, 0);
    struct operation opening;
    for (unsigned i = 0; clients_open(&world.clients, i, &opening); i++) {
        world.connections[0].operation = opening;
        world_submit(&world, &world.connections[0]);
        world_server_flush(&world);
        world.connections[0].state = CONNECTION_IDLE;
    }
    for (; world.step < world.steps; world.step++) {
        where.step = world.step;
        take_step(&world);
    }
    world_wind_up(&world);
    for (int i = 0; i < world.oracle->model.message_count; i++)
        report->completions += world.oracle->model.messages[i].completes == EVENT_COMPLETE_;
    report->messages += (uint64_t)world.oracle->model.message_count;
    report->cleaned_seeds += world.has_cleaned;
    report->full_seeds += world.stays_full && world.is_covered;
    report->segments += log_next_point(namespace_log(world.ns)).position / world.options.segment_size + 1;
    history_note(bytes_make(&seed, sizeof(seed)));
    report->history ^= history_value(); /* whichever process has run it */
    world_deinit(&world);
}
