/* The state of a message. These functions are the only ways into and out of a state. They keep its message list, its
 * group, the timers and the counts in step. */
#include "core/state.h"

/* Tells the api that this message list's queue has something to deliver. */
static void notice_ready(struct core *core, const struct message_list *list)
{
    if (list->queue == 0)
        return;
    core_notice_queue(core, core_queue(core, list->queue));
}

void core_enter_state(struct core *core, uint32_t slot, enum message_state state)
{
    struct message *message = core_message(core, slot);
    struct message_list *list = core_message_list_at(core, message->message_list);
    message_list_enter_state(list, &core->messages.timers, &core->messages.items, slot, state);
    core->messages.in_flight_count += state == MESSAGE_IN_FLIGHT;
    core->messages.delayed_count += message_state_is_delayed(state);
    if (message->is_grouped) {
        group_enter_state(core, slot);
        group_settle(core, core_group_of(core, message), false);
    } else if (message_is_deliverable(message)) {
        notice_ready(core, list);
    }
}

void core_leave_state(struct core *core, uint32_t slot)
{
    struct message *message = core_message(core, slot);
    if (message->state == MESSAGE_IN_FLIGHT)
        holder_forget(core, slot);
    core->messages.in_flight_count -= message->state == MESSAGE_IN_FLIGHT;
    core->messages.delayed_count -= message_state_is_delayed(message->state);
    if (message->is_grouped)
        group_leave_state(core, slot);
    struct message_list *list = core_message_list_at(core, message->message_list);
    bool makes_room = message->state == MESSAGE_IN_FLIGHT && list->ring_bits != 0;
    message_list_leave_state(list, &core->messages.timers, &core->messages.items, slot);
    if (makes_room)
        notice_ready(core, list); /* a receive may have stopped at the limit of messages in flight */
}
