/* What time does by itself: delays and visibility timeouts end. No event is logged: a replay with the same times does the
 * same. Nothing here may depend on anything but the state and the time (docs/architecture.md, "Time does the rest"). */
#include "core/state.h"

void core_advance(struct core *core, uint64_t now_ms)
{
    ASSERT(now_ms >= core->now_ms);
    core->now_ms = now_ms;
    while (core->timers.count > 0 && heap_top(&core->timers).key <= now_ms) {
        uint32_t slot = heap_top(&core->timers).slot;
        core_leave_state(core, slot);
        core_enter_state(core, slot, MESSAGE_RETURNED);
    }
}
