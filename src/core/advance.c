/* What time does by itself: delays and visibility timeouts end, rate buckets fill. No event is logged: a replay with the same times does the
 * same. Nothing here may depend on anything but the state and the time (docs/architecture.md, "Time does the rest"). */
#include "core/state.h"

void core_advance(struct core *core, uint64_t now_ms)
{
    ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    while (core->timers.count > 0 && heap_top(&core->timers).key <= now_ms) {
        uint32_t slot = heap_top(&core->timers).slot;
        if (core_message(core, slot)->state == MESSAGE_IN_FLIGHT) {
            core_give_back(core, slot, 0);
            continue;
        }
        core_leave_state(core, slot);
        core_enter_state(core, slot, MESSAGE_RETURNED);
    }
    while (core->group_timers.count > 0 && heap_top(&core->group_timers).key <= now_ms)
        group_settle(core, heap_top(&core->group_timers).slot, false);
    while (core->queue_timers.count > 0 && heap_top(&core->queue_timers).key <= now_ms) {
        uint32_t slot = heap_top(&core->queue_timers).slot;
        heap_remove(&core->queue_timers, slot);
        core_notice_queue(core, core_queue(core, slot));
    }
}
