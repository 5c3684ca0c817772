/* Decisions about move tasks, and the moves of a task. */
#include "core/messages/decide_move.h"
#include "core/finish.h"

const struct move_task *decide_start_move(struct core *core, struct queue *source, const struct queue *destination,
                                          uint32_t rate)
{
    ASSERT(move_running(core, source) == NULL && rate <= MOVE_RATE_MAX);
    ASSERT(destination == NULL || (destination != source && destination->settings.is_fifo == source->settings.is_fifo));
    core_emit(core, &(struct event){
                        .kind = EVENT_MOVE_STARTED,
                        .move_started = {.task = core->moves.number + 1,
                                         .source = source->id,
                                         .destination = destination == NULL ? 0 : destination->id,
                                         .rate = rate,
                                         .to_move = message_list_visible_count(core_message_list(core, source))},
                    });
    return move_running(core, source);
}

static void end_task(struct core *core, const struct move_task *task, enum move_status status,
                     enum move_failure failure)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_MOVE_ENDED,
                        .move_ended = {.task = task->number,
                                       .source = core_queue(core, task->source)->id,
                                       .status = (uint8_t)status,
                                       .failure = (uint8_t)failure},
                    });
}

void decide_cancel_move(struct core *core, const struct move_task *task)
{
    ASSERT(task->status == MOVE_RUNNING);
    end_task(core, task, MOVE_CANCELLED, MOVE_NO_FAILURE);
}

/* --- moving ------------------------------------------------------------------------------------------------------- */

/* The older of two messages, or 0: the oldest deliverable message without a group, and the head of the group that has
 * waited longest. A pause or a rate limit of the queue does not matter, because this is no delivery. */
static uint32_t choose(struct core *core, const struct queue *source)
{
    uint32_t alone =
        message_list_next_deliverable(core_message_list_at(core, source->message_list), &core->messages.items);
    uint32_t group = group_choose(core, source->message_list, true);
    if (group == 0)
        return alone;
    uint32_t head = group_next_deliverable(core, group);
    ASSERT(head != 0);
    return alone != 0 && core_message(core, alone)->number < core_message(core, head)->number ? alone : head;
}

/* Where the message goes; NULL, with the reason, if there is no such queue. A queue that was deleted and made again
 * under its name counts as the same, because it is named by its ARN. */
static const struct queue *find_target(const struct core *core, const struct move_task *task,
                                       const struct message *message, enum move_failure *failure)
{
    *failure = task->destination == 0 && message->origin == 0 ? MOVE_NO_ORIGIN : MOVE_NO_QUEUE;
    if (*failure == MOVE_NO_ORIGIN)
        return NULL;
    struct bytes name =
        task->destination != 0 ? task->destination_owned : core_queue(core, message->origin)->name_owned;
    const struct queue *target = core_find_queue(core, name);
    return target == core_queue(core, task->source) ? NULL : target;
}

/* The group of a FIFO queue to which the message will go, or 0: it does not exist yet. */
static uint32_t find_line(const struct core *core, const struct message *message, const struct queue *target)
{
    uint32_t group = core_group_of(core, message);
    if (!target->settings.is_fifo || group == 0)
        return 0;
    return group_find(core, target->message_list, core_group(core, group)->id_owned);
}

/* Must something else happen first? Dependents of the message may have to be told that it failed, or cancelled messages
 * of its new group may have to be ended. decide_due() will do that soon. */
static bool is_early(const struct core *core, const struct message *message, const struct queue *target)
{
    uint32_t line = find_line(core, message, target);
    return dependency_is_untold(core, message->number) ||
           (line != 0 && list_is_linked(&core_group(core, line)->draining_link));
}

/* In the line of its group the message stands at the end; but if something there waits for it or for its batch, on
 * whatever way, before that, or each would wait for the other (though never before a head that is held): right before
 * it, behind those that were moved there before and behind what is in flight. 0: at the end; else a sequence number
 * that no message of the line has, or, where none is left, that of the one in front of it. O(what waits for the
 * message), O(1) but for odd cases. */
static uint64_t find_sequence(const struct core *core, const struct message *message, const struct queue *target)
{
    uint32_t line = find_line(core, message, target);
    uint32_t slot = line == 0 ? 0 : dependency_first_in_line(core, message, line);
    if (slot == 0 || (core_group(core, line)->is_held && core_group(core, line)->first == slot))
        return 0;
    const struct message_extra *extra = core_extra_of(core, core_message(core, slot));
    uint64_t before = extra->prev == 0 ? 0 : core_extra_of(core, core_message(core, extra->prev))->sequence;
    return extra->sequence > before + 1 ? before + 1 : before;
}

static void move(struct core *core, const struct move_task *task, const struct message *message,
                 const struct queue *target)
{
    uint64_t delay_ms = (uint64_t)target->settings.delay_s * 1000;
    core_emit(core, &(struct event){
                        .kind = EVENT_MESSAGE_MOVED,
                        .message_moved = {.task = task->number,
                                          .number = message->number,
                                          .successor = core->messages.message_number + 1,
                                          .queue = target->id,
                                          .visible_at_ms = delay_ms == 0 ? 0 : core->now_ms + delay_ms,
                                          .sequence = find_sequence(core, message, target)},
                    });
}

/* The next step of a task. False: something else must happen before. */
static bool step(struct core *core, const struct move_task *task)
{
    const struct queue *source = core_queue(core, task->source);
    uint32_t slot = task->moved == task->to_move ? 0 : choose(core, source);
    if (slot == 0) {
        end_task(core, task, MOVE_COMPLETED, MOVE_NO_FAILURE);
        return true;
    }
    const struct message *message = core_message(core, slot);
    if (core_message_is_dead(core, message)) {
        finish_message(core, slot, END_CANCELLED);
        return true;
    }
    enum move_failure failure;
    const struct queue *target = find_target(core, task, message, &failure);
    if (target == NULL)
        end_task(core, task, MOVE_FAILED, failure);
    else if (is_early(core, message, target))
        return false;
    else
        move(core, task, message, target);
    return true;
}

void move_due(struct core *core, unsigned portion)
{
    const struct heap *due = &core->moves.due;
    for (; portion > 0 && !core_frame_is_ample(core) && due->count > 0 && heap_top(due).key <= core->now_ms; portion--)
        if (!step(core, slab_at(&core->moves.tasks, heap_top(due).slot)))
            return;
}
