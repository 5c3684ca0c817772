#include "core/yield.h"

/* More than the events of a message, a unit or a batch take, but for what a client wrote. */
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

/* A batch and its ancestors, each once: all that may be sent when a unit of it ends. */
static uint64_t yield_of_chain(const struct core *core, uint32_t slot, struct table *seen)
{
    uint64_t size = 0;
    for (; slot != 0; slot = core_batch(core, slot)->parent) {
        if (was_seen(slot, seen))
            return size; /* and so were all above it */
        const struct batch *batch = core_batch(core, slot);
        size += BATCH_SIZE;
        for (unsigned i = 0; i < BATCH_EVENT_COUNT; i++) {
            const struct batch_target *target = &batch->spec.targets[i];
            if (target->queue != 0)
                size += BATCH_MESSAGE_SIZE + batch->id_owned.size + target->body.size + target->attributes.size +
                        2 * target->group.size;
        }
    }
    return size;
}

uint64_t yield_of_send(const struct core *core, const struct send_command *send, struct table *seen)
{
    const struct content *content = &send->content;
    const struct batch *batch = send->batch_id.size == 0 ? NULL : core_find_batch(core, send->batch_id);
    uint32_t slot = batch == NULL ? 0 : core_find_batch_by_number(core, batch->number);
    /* The group, the id and the like stand in more than one event. */
    return SEND_SIZE + content->body.size + content->attributes.size + content->trace.size + content->sender.size +
           3 * content->group.size + 2 * content->deduplication.size + send->producer.size + send->type.size +
           (uint64_t)send->antecedent_count * WAITED_ENTRY_SIZE + yield_of_chain(core, slot, seen);
}

uint64_t yield_of_reports(const struct core *core, uint32_t batch, const struct unit_report *reports, uint32_t count)
{
    uint64_t size = yield_of_chain(core, batch, NULL);
    for (uint32_t i = 0; i < count; i++)
        size += REPORT_SIZE + reports[i].detail.size;
    return size;
}

uint64_t yield_of_unit(const struct core *core, uint32_t batch, struct table *seen)
{
    return UNIT_SIZE + yield_of_chain(core, batch, seen);
}
