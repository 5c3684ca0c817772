#include "core/messages/decide_replace.h"

#include "core/identity.h"
#include "core/messages/move.h"
#include "core/order/dependency.h"
#include "core/state.h"

static enum replace_refusal check_target(const struct core *core, const struct message *message,
                                         const struct queue **target)
{
    enum move_failure failure;
    const struct queue *home = core_queue(core, core_message_list_at(core, message->message_list)->queue);
    *target = message->is_moved ? move_find_target(core, home, bytes_make(NULL, 0), message, &failure) : home;
    if (*target == NULL)
        return REPLACE_NO_QUEUE;
    return message->is_moved && move_is_early(core, message, *target) ? REPLACE_EARLY : REPLACE_IS_POSSIBLE;
}

enum replace_refusal decide_check_replace(const struct core *core, uint32_t slot, const struct queue **target)
{
    const struct message *message = core_message(core, slot);
    const struct message_extra *extra = core_extra_of(core, message);
    if (core_message_is_dead(core, message))
        return REPLACE_ENDED;
    if (message->is_result)
        return REPLACE_RESULT;
    if (dependency_count_of(core, message->number) > REPLACE_DEPENDENTS_MAX)
        return REPLACE_AWAITED;
    if (message->state == MESSAGE_IN_FLIGHT)
        return REPLACE_IN_FLIGHT;
    if (message->state == MESSAGE_WAITING)
        return REPLACE_WAITING;
    if (extra != NULL && extra->typed != 0)
        return REPLACE_TYPED;
    if (message->is_moved && message->state == MESSAGE_DELAYED)
        return REPLACE_IN_FLIGHT; /* it was received, and hidden by its receiver */
    return check_target(core, message, target);
}

/* A FIFO message that stays keeps its place. */
static uint64_t find_sequence(const struct core *core, const struct message *message, const struct queue *target)
{
    if (message->is_moved)
        return move_find_sequence(core, message, target);
    return target->settings.is_fifo ? core_extra_of(core, message)->sequence : 0;
}

uint32_t decide_replace(struct core *core, uint32_t slot, const struct queue *target, struct content *content)
{
    const struct message *message = core_message(core, slot);
    const uint64_t successor = core->messages.message_number + 1;
    const uint64_t delay_ms = (uint64_t)target->settings.delay_s * 1000;
    uint64_t visible_at_ms = message->state == MESSAGE_DELAYED ? message->visible_at_ms : 0;
    if (message->is_moved)
        visible_at_ms = delay_ms == 0 ? 0 : core->now_ms + delay_ms;
    const uint64_t sequence = find_sequence(core, message, target);
    if (message->completes == 0) /* a batch's message keeps the id that its batch names */
        identity_message(core->digest_owned, successor, content->id);
    digest_md5(core->digest_owned, content->body, content->body_md5);
    buffer_truncate(&core->scratch, 0);
    content_encode(content, &core->scratch);
    core_emit(core, &(struct event){.kind = EVENT_REPLACED,
                                    .replaced = {.number = message->number,
                                                 .successor = successor,
                                                 .queue = target->id,
                                                 .visible_at_ms = visible_at_ms,
                                                 .sequence = sequence,
                                                 .content = buffer_bytes(&core->scratch)}});
    return core_find_message(core, successor);
}
