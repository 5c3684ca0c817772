#include "witness.h"

#include "core/state.h"
#include "fail.h"
#include "log/frame.h"
#include <stdlib.h>

void witness_begin(struct witness *witness, const struct core *core)
{
    witness->count = witness->next = 0;
    witness->frame_base = core->frame.base;
    witness->frame_size = core->frame.events->size;
    witness->message_number = core->messages.message_number;
}

/* Groups are called "g<number>". */
static int group_of(struct bytes text)
{
    if (text.size == 0)
        return -1;
    char name[16] = "";
    if (text.size > 1 && text.size < sizeof(name))
        memcpy(name, text.ptr + 1, text.size - 1);
    return atoi(name);
}

static bool see(const struct event *event, struct sight *sight)
{
    *sight = (struct sight){0};
    switch (event->kind) {
    case EVENT_SENT:
        *sight = (struct sight){
            .kind = SIGHT_SENT, .number = event->sent.number, .group = -1, .completes = event->sent.completes};
        sight->batch = sight->completes != 0 ? event->sent.batch : 0;
        break;
    case EVENT_SENT_IN_GROUP:
        *sight = (struct sight){
            .kind = SIGHT_SENT, .number = event->sent_in_group.number, .completes = event->sent_in_group.completes};
        sight->batch = sight->completes != 0 ? event->sent_in_group.batch : 0;
        break;
    case EVENT_RECEIVED:
        *sight = (struct sight){.kind = SIGHT_TAKEN, .number = event->received.number};
        return true;
    case EVENT_DEAD_LETTERED:
        *sight = (struct sight){
            .kind = SIGHT_MOVED, .number = event->dead_lettered.number, .queue = (int)event->dead_lettered.queue - 1};
        return true;
    case EVENT_ENDED:
        *sight = (struct sight){.kind = event->ended.reason == END_TAKEN    ? SIGHT_LET_GO
                                        : event->ended.reason == END_PURGED ? SIGHT_PURGED
                                                                            : SIGHT_ENDED,
                                .number = event->ended.number};
        return true;
    case EVENT_VISIBILITY_CHANGED:
        *sight = (struct sight){.kind = SIGHT_LET_GO, .number = event->visibility_changed.number};
        return true;
    case EVENT_LEASE_RENEWED:
        *sight = (struct sight){.kind = SIGHT_RENEWED,
                                .number = event->lease_renewed.number,
                                .visible_at = event->lease_renewed.visible_at_ms};
        return true;
    case EVENT_GROUP_HELD:
        *sight = (struct sight){
            .kind = SIGHT_HELD, .queue = (int)event->group_held.queue - 1, .group = group_of(event->group_held.group)};
        return true;
    case EVENT_MESSAGE_MOVED:
        *sight = (struct sight){.kind = SIGHT_REDRIVEN,
                                .number = event->message_moved.number,
                                .successor = event->message_moved.successor,
                                .line = event->message_moved.sequence,
                                .queue = (int)event->message_moved.queue - 1};
        return true;
    case EVENT_REPLACED:
        *sight = (struct sight){.kind = SIGHT_REPLACED,
                                .number = event->replaced.number,
                                .successor = event->replaced.successor,
                                .line = event->replaced.sequence,
                                .queue = (int)event->replaced.queue - 1};
        return true;
    case EVENT_MOVE_ENDED:
        *sight = (struct sight){.kind = SIGHT_MOVE_ENDED,
                                .queue = (int)event->move_ended.source - 1,
                                .status = event->move_ended.status,
                                .failure = event->move_ended.failure};
        return true;
    case EVENT_FAILED:
        *sight = (struct sight){
            .kind = SIGHT_FAILED, .number = event->failed.number, .visible_at = event->failed.visible_at_ms};
        return true;
    default:
        return false;
    }
    return true;
}

void witness_turn(struct witness *witness, const struct core *core)
{
    if (core->frame.events == NULL || core->frame.base == witness->frame_base)
        return;
    witness->frame_base = core->frame.base;
    witness->frame_size = FRAME_HEADER_SIZE;
}

void witness_observe(struct witness *witness, const struct core *core)
{
    if (core->frame.events == NULL)
        return;
    if (core->frame.base != witness->frame_base)
        fail("a call went on into another frame: the simulator should have asked for less, or flushed");
    struct bytes rest = bytes_skip(buffer_bytes(core->frame.events), witness->frame_size);
    struct event event;
    while (rest.size > 0) {
        if (!event_decode(&rest, &event))
            fail("an event of the open frame can't be decoded");
        if (witness->count == SIGHTS_MAX)
            fail("one call did more than %d things", SIGHTS_MAX);
        witness->count += see(&event, &witness->sights[witness->count]);
    }
    witness->frame_size = core->frame.events->size;
}

uint64_t witness_leftovers(const struct core *core)
{
    return (uint64_t)core->groups.items.used + core->extras.used + core->dependencies.edges.used +
           core->dependencies.antecedents.used + core->type_orders.typed.used;
}

bool witness_has_time_acted(const struct core *core)
{
    return core->has_fired;
}
