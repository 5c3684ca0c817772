/* Message extras and their part in a message's state: attempts, waiting, freeing. */
#include "core/messages/message_extra.h"

#include "core/state.h"

struct message_extra *core_give_extra(struct core *core, uint32_t slot)
{
    struct message *message = core_message(core, slot);
    if (message->extra == 0) {
        message->extra = slab_allocate(&core->extras);
        core_extra_of(core, message)->message = slot;
        core_extra_of(core, message)->priority = PRIORITY_DEFAULT;
    }
    return core_extra_of(core, message);
}

uint32_t core_attempt_count(const struct core *core, const struct message *message)
{
    const struct message_extra *extra = core_extra_of(core, message);
    ASSERT(extra == NULL || extra->spared_count <= message->receive_count);
    return message->receive_count - (extra == NULL ? 0 : extra->spared_count);
}

void core_wait(struct core *core, uint32_t slot)
{
    struct message_extra *extra = core_give_extra(core, slot);
    if (extra->wait_count++ > 0)
        return;
    ASSERT(core_message(core, slot)->state != MESSAGE_IN_FLIGHT);
    core_leave_state(core, slot);
    core_enter_state(core, slot, MESSAGE_WAITING);
}

void core_stop_waiting(struct core *core, uint32_t slot)
{
    struct message *message = core_message(core, slot);
    struct message_extra *extra = core_extra_of(core, message);
    ASSERT(extra != NULL && extra->wait_count > 0 && message->state == MESSAGE_WAITING);
    if (--extra->wait_count > 0)
        return;
    core_leave_state(core, slot);
    core_enter_state(core, slot, message->visible_at_ms > core->now_ms ? MESSAGE_DELAYED : MESSAGE_RETURNED);
}

void core_give_back(struct core *core, uint32_t slot, uint64_t visible_at_ms)
{
    struct message *message = core_message(core, slot);
    core_leave_state(core, slot);
    message->visible_at_ms = visible_at_ms;
    core_enter_state(core, slot, visible_at_ms > core->now_ms ? MESSAGE_DELAYED : MESSAGE_RETURNED);
    group_fence_behind(core, slot);
}
