#include "core/messages/decide_release.h"

#include "core/finish.h"

void release_foresee(const struct core *core, const struct queue *queue, uint32_t slot, struct release_outlook *outlook)
{
    const struct queue *dead_letters = finish_dead_letter_queue(core, queue);
    const enum group_failure policy = finish_group_policy(core, queue, slot);
    ASSERT(core_message(core, slot)->state == MESSAGE_IN_FLIGHT);
    *outlook = (struct release_outlook){
        .outcome = FAILURE_RETURNED,
        .attempt = core_attempt_count(core, core_message(core, slot)),
        .attempts_max = dead_letters == NULL ? 0 : queue->settings.receive_count_max,
    };
    if (outlook->attempts_max == 0 || outlook->attempt < outlook->attempts_max)
        return;
    outlook->outcome = policy == GROUP_FAILURE_HOLD ? FAILURE_HELD : FAILURE_DEAD_LETTERED;
    if (outlook->outcome == FAILURE_HELD)
        return;
    outlook->dead_letters = dead_letters;
    outlook->cancels_rest = policy == GROUP_FAILURE_CANCEL_REST;
}

void decide_release_message(struct core *core, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    ASSERT(message->state == MESSAGE_IN_FLIGHT && !core_message_is_dead(core, message));
    core_emit(core, &(struct event){
                        .kind = EVENT_VISIBILITY_CHANGED,
                        .visibility_changed = {.number = message->number, .timeout_ms = 0},
                    });
}
