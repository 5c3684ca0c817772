/* What time does by itself: delays and visibility timeouts end, and rate buckets let a message through again. No event
 * is logged: a replay with the same times does the same. Nothing here may depend on anything but the state and the time
 * (docs/internals/walks.md, "Time passes").
 *
 * The live core passes through times at which nothing was decided, and the log does not know them. A replay leaps over
 * those times. To reach the same state, everything fires at its own time and in the order of these times. */
#include "core/state.h"

/* A delay or a lease is over. */
static void fire_message(struct core *core, uint32_t slot)
{
    if (core_message(core, slot)->state == MESSAGE_IN_FLIGHT) {
        uint32_t lapsed = group_first_lapsed(core, slot);
        core_count(core, core_message_list_at(core, core_message(core, lapsed)->message_list)->queue, COUNTER_FAILED);
        core_give_back(core, lapsed, core_message(core, lapsed)->visible_at_ms);
        return;
    }
    core_leave_state(core, slot);
    core_enter_state(core, slot, MESSAGE_RETURNED);
}

static void fire_queue(struct core *core, uint32_t slot)
{
    heap_remove(&core->queues.timers, slot);
    core_notice_queue(core, core_queue(core, slot));
}

void core_advance(struct core *core, uint64_t now_ms)
{
    ASSERT(now_ms >= core->now_ms);
    for (;;) {
        uint64_t message_ms = heap_top_key(&core->messages.timers);
        uint64_t group_ms = heap_top_key(&core->groups.timers);
        uint64_t queue_ms = heap_top_key(&core->queues.timers);
        uint64_t earliest_ms = message_ms < group_ms ? message_ms : group_ms;
        earliest_ms = queue_ms < earliest_ms ? queue_ms : earliest_ms;
        if (earliest_ms > now_ms)
            break;
        core->now_ms = earliest_ms > core->now_ms ? earliest_ms : core->now_ms;
        core->has_fired = true;
        if (message_ms == earliest_ms)
            fire_message(core, heap_top(&core->messages.timers).slot);
        else if (group_ms == earliest_ms)
            group_settle(core, heap_top(&core->groups.timers).slot, false);
        else
            fire_queue(core, heap_top(&core->queues.timers).slot);
    }
    core->now_ms = now_ms;
    dependency_advance(core);
}
