/* A log that was made from a backup: what its clients know of the time after the backup must not come true again in
 * another way. See docs/internals/decisions/0037. */
#include "core/apply.h"
#include "core/decide_namespace.h"
#include "core/identity.h"
#include "core/publishers/decide_relay.h"

static bool has_room(uint64_t number, uint64_t max, uint64_t step)
{
    return number <= max && step <= max - number;
}

/* Epochs and feeds have 63 bits, and what has an id of its own has 56. */
static bool can_raise(const struct core *core, uint64_t step)
{
    const uint64_t numbers[] = {
        core->messages.message_number, core->messages.delivery_number, core->batches.batch_number, core->moves.number,
        core->pools.ticket_number,     core->matches.match_number,     core->pools.feed_number};
    bool can = step > 0;
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
        can = can && has_room(numbers[i], IDENTITY_NUMBER_MAX, step);
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        can = can && has_room(ticket_pool_at(core, i)->feed.last, INT64_MAX, step);
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++)
        can = can && has_room(publisher_at(core, slot)->epoch, INT64_MAX, step);
    return can;
}

bool apply_restored(struct core *core, const struct event_restored *restored)
{
    const uint64_t step = restored->step;
    if (!can_raise(core, step) || restored->restored_at_ms == 0)
        return false;
    core->messages.message_number += step;
    core->messages.delivery_number += step;
    core->batches.batch_number += step;
    core->moves.number += step;
    core->pools.ticket_number += step;
    core->pools.feed_number += step;
    core->matches.match_number += step;
    for (uint32_t i = 0; i < ticket_pool_count(core); i++)
        feed_skip(&ticket_pool_at(core, i)->feed, step);
    for (uint32_t slot = 1; slot < core->publishers.items.slot_end; slot++)
        publisher_at(core, slot)->epoch += step;
    core->restore = (struct core_restore){.until_ms = restored->until_ms, .restored_at_ms = restored->restored_at_ms};
    return true;
}

struct core_restore core_restore(const struct core *core)
{
    return core->restore;
}

bool decide_restore(struct core *core, uint64_t restored_at_ms)
{
    if (!can_raise(core, RESTORE_STEP))
        return false;
    core_emit(core,
              &(struct event){
                  .kind = EVENT_RESTORED,
                  .restored = {.step = RESTORE_STEP, .until_ms = core->now_ms, .restored_at_ms = restored_at_ms}});
    for (uint32_t i = 0; i < relay_record_count(core); i++)
        decide_pause_relay(core, relay_record_at(core, i), true);
    return true;
}
