/* Decisions about groups and pauses. */
#include "core/order/decide_group.h"
#include "core/finish.h"

void decide_pause_queue(struct core *core, struct queue *queue, bool is_paused)
{
    if (queue->is_paused != is_paused)
        core_emit(core, &(struct event){
                            .kind = EVENT_QUEUE_PAUSED,
                            .queue_paused = {.queue = queue->id, .is_paused = is_paused},
                        });
}

void decide_pause_group(struct core *core, struct queue *queue, struct bytes group, bool is_paused)
{
    uint32_t slot = group_find(core, queue->message_list, group);
    bool was_paused = slot != 0 && core_group(core, slot)->is_paused;
    if (was_paused != is_paused)
        core_emit(core, &(struct event){
                            .kind = EVENT_GROUP_PAUSED,
                            .group_paused = {.queue = queue->id, .group = group, .is_paused = is_paused},
                        });
}

enum error decide_release_group(struct core *core, struct queue *queue, struct bytes id, enum group_release action)
{
    uint32_t slot = group_find(core, queue->message_list, id);
    if (slot == 0 || !core_group(core, slot)->is_held)
        return ERROR_GROUP_NOT_HELD;
    uint32_t head = core_group(core, slot)->first;
    core_emit(core, &(struct event){
                        .kind = EVENT_GROUP_RELEASED,
                        .group_released = {.queue = queue->id, .group = id, .is_retry = action == RELEASE_RETRY},
                    });
    if (action == RELEASE_SKIP)
        finish_by_dead_letter(core, head, finish_dead_letter_queue(core, queue));
    else if (action == RELEASE_CANCEL_REST)
        finish_with_rest(core, queue, head, finish_dead_letter_queue(core, queue));
    return OK;
}
