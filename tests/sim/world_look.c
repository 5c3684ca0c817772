/* Onlookers in the world of a seed: what they find to look at, and when they do. */
#include "world_parts.h"

#include "api/api.h"
#include "support/memory_disk.h"

/* Now and then something that does not exist. */
static bool is_invented(struct random *random)
{
    return random_chance(random, 5);
}

static void write_message_id(const struct model *model, struct random *random, struct buffer *out)
{
    const char *id = "";
    if (model->message_count > 0 && !is_invented(random)) {
        const uint32_t count = (uint32_t)model->message_count, range = count < 40 ? count : 40;
        id = model->messages[count - 1 - random_below(random, random_chance(random, 80) ? range : count)].id;
    }
    buffer_append_format(out, "%s", id[0] != '\0' ? id : "00000000-0000-8000-8000-000000000000");
}

/* Pools and tickets are in no seed. */
static void write_name(void *context, char kind, struct random *random, struct buffer *out)
{
    const struct model *model = &((const struct world *)context)->oracle->model;
    switch (kind) {
    case 'q':
        operation_write_queue(is_invented(random) ? 99 : (int)random_below(random, QUEUE_NAMES), out);
        break;
    case 'm':
        write_message_id(model, random, out);
        break;
    case 'g':
        buffer_append_format(out, "g%u", random_below(random, 5));
        break;
    case 'b':
        buffer_append_format(
            out, "b%d",
            model->batch_count == 0 ? 0 : model->batches[random_below(random, (uint32_t)model->batch_count)].name);
        break;
    default:
        buffer_append_format(out, "%c1", kind);
        break;
    }
}

void world_begin_looking(struct world *world)
{
    if (!world->report->is_looked_at)
        return;
    memory_disk_leave_reads_alone(world->disk);
    onlooker_init(&world->onlooker, random_stream(world->seed, STREAM_ONLOOKERS),
                  (struct onlooker_names){.write = write_name, .context = world});
}

void world_end_looking(struct world *world)
{
    if (!world->report->is_looked_at)
        return;
    onlooker_deinit(&world->onlooker);
    world->report->looks += world->onlooker.looks;
    world->report->looks_refused += world->onlooker.refused;
}

/* Whatever is asked next gives those who wait their turn, and logs what time has done before it shows that: then more
 * would come of a look than of itself. */
static bool has_turn_to_give(const struct world *world)
{
    const struct core *core = namespace_core(world->ns);
    return world_has_failed(world) || core_has_ready_queue(core) || witness_has_time_acted(core);
}

void world_look(struct world *world)
{
    if (world->report->looks_a_turn == 0 || has_turn_to_give(world))
        return;
    if (world->step % 100 == 99)
        onlooker_look_at_all(&world->onlooker, world->front, world->ns);
    else
        onlooker_look(&world->onlooker, world->front, world->ns, world->report->looks_a_turn);
}
