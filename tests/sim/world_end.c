/* The end of a seed: no more faults, and everything must come to its end. */
#include "world_parts.h"

#include "base/assert.h"
#include "fail.h"
#include "support/memory_disk.h"
#include <inttypes.h>

static struct connection *call(struct world *world, const struct operation *operation)
{
    struct connection *connection = &world->connections[0];
    ASSERT(connection->state == CONNECTION_IDLE);
    connection->operation = *operation;
    world_submit(world, connection);
    world_server_flush(world);
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

/* Receives that end nothing: the log goes round and round without a free byte. */
static void wear_out(struct world *world)
{
    world_fill_disk(world, 0);
    unsigned count = random_below(&world->faults, 900);
    for (unsigned i = 0; i < count; i++) {
        int queue = (int)random_below(&world->faults, QUEUE_NAMES);
        if (model_find_queue(&world->oracle->model, queue) == NONE)
            continue;
        call(world, &(struct operation){
                        .kind = OPERATION_RECEIVE, .queue = queue, .receive_max = 1, .timeout_s = 0, .attempt = NONE});
        if (random_chance(&world->faults, 20))
            world_tend_disk(world);
        if (world->oracle->handle_count > HANDLES_MAX / 4 * 3)
            return;
    }
}

void world_wind_up(struct world *world)
{
    world->is_quiet = true;
    world_clear_disk(world);
    world->is_read_near = false;
    memory_disk_fail_after(world->disk, UINT64_MAX, MEMORY_DISK_FAULT_NONE);
    world_server_stop(world);
    for (unsigned i = 0; i < CLIENTS; i++)
        world->connections[i].state = CONNECTION_IDLE;
    world_tend_disk(world);
    if (world->stays_full)
        wear_out(world);
    for (unsigned round = 0; round < 300 && !is_finished(&world->oracle->model); round++) {
        world_tend_disk(world);
        world_server_tick(world);
        world_server_flush(world);
        let_all_go(world);
        for (int queue = 0; queue < QUEUE_NAMES; queue++)
            if (model_find_queue(&world->oracle->model, queue) != NONE)
                drain_queue(world, queue);
        world_set_time(world, world->now_ms + (round < 20 ? 60 * 1000 : 3600 * 1000));
        world->step++;
    }
    if (!is_finished(&world->oracle->model))
        fail("something never ends: after twelve days of an untroubled server the model still has messages or batches");
    let_all_go(world);
    world_set_time(world, world->now_ms + 3600 * 1000); /* so that every bucket is full */
    world_server_tick(world);
    world_server_flush(world);
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
    world_server_restart(world, true);
}
