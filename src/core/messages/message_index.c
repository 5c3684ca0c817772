/* Messages by number, and those of batch events by their ids: finds and adds them, and puts them on their message
 * list. */
#include "core/core.h"

#include "core/identity.h"
#include "core/state.h"

uint32_t core_find_message(const struct core *core, uint64_t number)
{
    return number_map_find(&core->messages.by_number, number);
}

uint32_t core_add_message(struct core *core, uint64_t number, uint64_t position, uint32_t size)
{
    uint32_t slot = slab_allocate(&core->messages.items);
    struct message *message = core_message(core, slot);
    message->number = number;
    message->position = position;
    message->content_size = size;
    number_map_insert(&core->messages.by_number, number, slot);
    extents_enter(&core->extents, position / core->segment_size, size);
    return slot;
}

void core_list_message(struct core *core, uint32_t slot, uint32_t message_list)
{
    core_message(core, slot)->message_list = message_list;
    message_list_link(core_message_list_at(core, message_list), &core->messages.items, slot,
                      core_counted_from_ms(core, core_message(core, slot)));
    core_expect_expiry(core, message_list);
}

void core_unlist_message(struct core *core, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    message_list_unlink(core_message_list_at(core, message->message_list), &core->messages.items, slot,
                        core_counted_from_ms(core, message));
}

/* --- messages of batch events ------------------------------------------------------------------------------------- */

void core_completion_id(const struct core *core, uint32_t slot, uint8_t id[MESSAGE_ID_SIZE])
{
    const struct message *message = core_message(core, slot);
    const struct batch *batch = core_batch(core, message->batch);
    ASSERT(message->completes != 0);
    identity_completion(core->digest_owned, core->name_owned, batch->id_owned, batch->number, message->completes, id);
}

/* Clients choose batch ids; without the namespace's key they can't choose them so that the hashes fall together. */
static uint64_t completion_hash(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE])
{
    return table_hash_u64(bytes_get_u64(id) ^ bytes_get_u64(core->key));
}

void core_index_completion(struct core *core, uint32_t slot)
{
    uint8_t id[MESSAGE_ID_SIZE];
    core_completion_id(core, slot, id);
    table_insert(&core->messages.completions, completion_hash(core, id), slot);
}

void core_unindex_completion(struct core *core, uint32_t slot)
{
    uint8_t id[MESSAGE_ID_SIZE];
    core_completion_id(core, slot, id);
    table_remove(&core->messages.completions, completion_hash(core, id), slot);
}

uint32_t core_find_completion(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE])
{
    const struct table *completions = &core->messages.completions;
    for (struct table_probe probe = table_probe_start(completions, completion_hash(core, id));
         table_probe_next(completions, &probe);) {
        uint8_t found[MESSAGE_ID_SIZE];
        core_completion_id(core, probe.slot, found);
        if (memcmp(found, id, MESSAGE_ID_SIZE) == 0)
            return probe.slot;
    }
    return 0;
}

bool core_message_is_dead(const struct core *core, const struct message *message)
{
    if (core_message_list_at(core, message->message_list)->queue == 0)
        return true;
    uint32_t group = core_group_of(core, message);
    if (group != 0 && core_extra_of(core, message)->sequence <= core_group(core, group)->cancelled_sequence)
        return true;
    return message->batch != 0 && message->completes == 0 && core_batch(core, message->batch)->is_cancelled;
}

uint32_t core_queue_of_message(const struct core *core, uint64_t number)
{
    uint32_t slot = core_find_message(core, number);
    uint32_t queue = slot == 0 ? 0 : core_message_list_at(core, core_message(core, slot)->message_list)->queue;
    return queue == 0 ? 0 : core_queue(core, queue)->id;
}
