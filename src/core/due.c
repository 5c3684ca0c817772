/* When time next has something to do (advance.c, decide_due.c). */
#include "core/core.h"

#include "core/state.h"

uint64_t core_due_ms(const struct core *core)
{
    if (!list_is_empty(&core->message_lists.draining) || !list_is_empty(&core->batches.draining) ||
        !list_is_empty(&core->groups.draining) || dependency_is_resolving(core))
        return 0;
    uint64_t due[] = {heap_top_key(&core->messages.timers),
                      heap_top_key(&core->message_lists.expiries),
                      heap_top_key(&core->batches.deadlines),
                      heap_top_key(&core->groups.timers),
                      heap_top_key(&core->queues.timers),
                      deduplication_due_ms(core),
                      type_order_due_ms(core),
                      schedule_due_ms(core),
                      move_due_ms(core),
                      publisher_due_ms(core),
                      ticket_pool_due_ms(core),
                      made_match_due_ms(core)};
    uint64_t earliest_ms = UINT64_MAX;
    for (size_t i = 0; i < ARRAY_LENGTH(due); i++)
        earliest_ms = due[i] < earliest_ms ? due[i] : earliest_ms;
    return earliest_ms;
}

bool core_is_settling(const struct core *core)
{
    return dependency_is_resolving(core) || !list_is_empty(&core->groups.draining);
}
