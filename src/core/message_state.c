/* The state that a message is in. Here are the only ways in and out; they keep its shelf, its group, the timers and the
 * counts in step. */
#include "core/state.h"

/* Tells the api that this shelf's queue has something to deliver. */
static void notice_ready(struct core *core, const struct shelf *shelf)
{
    if (shelf->queue == 0)
        return;
    core_notice_queue(core, core_queue(core, shelf->queue));
}

void core_enter_state(struct core *core, uint32_t slot, enum message_state state)
{
    struct message *message = core_message(core, slot);
    struct shelf *shelf = core_shelf_at(core, message->shelf);
    shelf_enter_state(shelf, &core->messages.timers, &core->messages.items, slot, state);
    core->messages.in_flight_count += state == MESSAGE_IN_FLIGHT;
    core->messages.delayed_count += message_state_is_delayed(state);
    if (message->is_grouped) {
        group_enter_state(core, slot);
        group_settle(core, core_group_of(core, message), false);
    } else if (message_is_deliverable(message)) {
        notice_ready(core, shelf);
    }
}

void core_leave_state(struct core *core, uint32_t slot)
{
    struct message *message = core_message(core, slot);
    core->messages.in_flight_count -= message->state == MESSAGE_IN_FLIGHT;
    core->messages.delayed_count -= message_state_is_delayed(message->state);
    if (message->is_grouped)
        group_leave_state(core, slot);
    struct shelf *shelf = core_shelf_at(core, message->shelf);
    bool makes_room = message->state == MESSAGE_IN_FLIGHT && shelf->ring_bits != 0;
    shelf_leave_state(shelf, &core->messages.timers, &core->messages.items, slot);
    if (makes_room)
        notice_ready(core, shelf); /* a receive may have stopped at the limit of messages in flight */
}
