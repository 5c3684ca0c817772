#include "core/size_bound.h"

/* An upper bound for the events of a message, a unit or a batch, without the clients' texts. */
#define SEND_SIZE 512u
#define UNIT_SIZE 128u
#define REPORT_SIZE 40u
#define BATCH_SIZE 256u
#define BATCH_MESSAGE_SIZE 1024u

static bool was_seen(uint32_t slot, struct table *seen)
{
    if (seen == NULL)
        return false;
    uint64_t hash = table_hash_u64(slot);
    for (struct table_probe probe = table_probe_start(seen, hash); table_probe_next(seen, &probe);)
        if (probe.slot == slot)
            return true;
    table_insert(seen, hash, slot);
    return false;
}

/* Everything that a batch with this spec and id may send. */
static uint64_t size_bound_of_targets(const struct batch_spec *spec, struct bytes id)
{
    uint64_t size = 0;
    for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++) {
        const struct batch_target *target = &spec->targets[i];
        if (target->queue != 0)
            size += BATCH_MESSAGE_SIZE + id.size + target->body.size + target->attributes.size + 2 * target->group.size;
    }
    return size;
}

static uint32_t slot_by_id(const struct core *core, struct bytes id)
{
    const struct batch *batch = id.size == 0 ? NULL : core_find_batch(core, id);
    return batch == NULL ? 0 : core_find_batch_by_number(core, batch->number);
}

/* A batch and its ancestors, each once: everything that may be sent when one of its units ends. */
static uint64_t size_bound_of_chain(const struct core *core, uint32_t slot, struct table *seen)
{
    uint64_t size = 0;
    for (; slot != 0; slot = core_batch(core, slot)->parent) {
        if (was_seen(slot, seen))
            return size; /* and so were all its ancestors */
        const struct batch *batch = core_batch(core, slot);
        size += BATCH_SIZE + size_bound_of_targets(&batch->spec, batch->id_owned);
    }
    return size;
}

uint64_t size_bound_of_send(const struct core *core, const struct send_command *send, struct table *seen)
{
    const struct content *content = &send->content;
    uint32_t slot = slot_by_id(core, send->batch_id);
    /* The group, the id and the like appear in more than one event. */
    return SEND_SIZE + content->body.size + content->attributes.size + content->trace.size + content->sender.size +
           3 * content->group.size + 2 * content->deduplication.size + send->moved_id.size + send->producer.size +
           send->type.size + (uint64_t)send->antecedent_count * WAITED_ENTRY_SIZE +
           size_bound_of_chain(core, slot, seen);
}

uint64_t size_bound_of_create(const struct core *core, const struct create_batch_command *command, struct table *seen)
{
    const uint64_t targets = size_bound_of_targets(&command->spec, command->id);
    /* Once as the batch's spec, once as its messages. */
    return 2 * (BATCH_SIZE + targets) + command->id.size +
           size_bound_of_chain(core, slot_by_id(core, command->parent_id), seen);
}

uint64_t size_bound_of_addition(const struct core *core, struct bytes batch_id, const struct add_units_command *command,
                                struct table *seen)
{
    uint64_t size = BATCH_SIZE + size_bound_of_chain(core, slot_by_id(core, batch_id), seen);
    for (uint32_t i = 0; i < command->key_count; i++)
        size += sizeof(uint32_t) + command->keys[i].size;
    return size;
}

uint64_t size_bound_of_reports(const struct core *core, uint32_t batch, const struct unit_report *reports,
                               uint32_t count)
{
    uint64_t size = size_bound_of_chain(core, batch, NULL);
    for (uint32_t i = 0; i < count; i++)
        size += REPORT_SIZE + reports[i].detail.size;
    return size;
}

uint64_t size_bound_of_unit(const struct core *core, uint32_t batch, struct table *seen)
{
    return UNIT_SIZE + size_bound_of_chain(core, batch, seen);
}
