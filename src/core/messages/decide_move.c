/* Decisions about move tasks, and the moves of a task. */
#include "core/messages/decide_move.h"
#include "core/finish.h"
#include "core/messages/preview.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

const struct move_task *decide_start_move(struct core *core, struct queue *source, const struct move_command *command)
{
    const struct queue *destination = command->destination;
    const uint64_t visible = message_list_visible_count(core_message_list(core, source));
    ASSERT(move_running(core, source) == NULL && command->rate <= MOVE_RATE_MAX);
    ASSERT(destination == NULL || (destination != source && destination->settings.is_fifo == source->settings.is_fifo));
    core_emit(core, &(struct event){
                        .kind = EVENT_MOVE_STARTED,
                        .move_started = {.task = core->moves.number + 1,
                                         .source = source->id,
                                         .destination = destination == NULL ? 0 : destination->id,
                                         .rate = command->rate,
                                         .to_move = least(visible, command->messages_max)},
                    });
    return move_running(core, source);
}

/* How many messages the task is for, as far as that is known without a look at more than one call may look at. */
static uint64_t count_selected(const struct core *core, const struct queue *source,
                               const struct selection_command *selection)
{
    if (selection->number_count > 0)
        return selection->number_count;
    struct preview preview;
    preview_init(&preview, core);
    preview_selection(&preview, source, bytes_make(NULL, 0), UINT64_MAX, selection);
    const uint64_t fitting = preview.messages + preview.refused;
    const bool is_complete = preview.is_complete;
    preview_deinit(&preview);
    return is_complete ? fitting : core_message_list(core, source)->count;
}

const struct move_task *decide_start_selection(struct core *core, struct queue *source,
                                               const struct move_command *command,
                                               const struct selection_command *selection)
{
    const struct queue *destination = command->destination;
    const uint64_t selected = count_selected(core, source, selection);
    ASSERT(move_running(core, source) == NULL && command->rate <= MOVE_RATE_MAX);
    ASSERT(destination == NULL || (destination != source && destination->settings.is_fifo == source->settings.is_fifo));
    ASSERT(selection->number_count <= SELECTION_NUMBERS_MAX && selection->filter.batch == 0);
    buffer_truncate(&core->scratch, 0);
    for (uint32_t i = 0; i < selection->number_count; i++)
        buffer_append_u64(&core->scratch, selection->numbers[i]);
    core_emit(core, &(struct event){
                        .kind = EVENT_SELECTION_STARTED,
                        .selection_started = {.task = core->moves.number + 1,
                                              .source = source->id,
                                              .destination = destination == NULL ? 0 : destination->id,
                                              .rate = command->rate,
                                              .to_move = least(selected, command->messages_max),
                                              .act = (uint8_t)selection->act,
                                              .sent_after_ms = selection->filter.sent_after_ms,
                                              .sent_before_ms = selection->filter.sent_before_ms,
                                              .group = selection->filter.group,
                                              .reason = selection->filter.reason,
                                              .numbers = buffer_bytes(&core->scratch)},
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
                                          .sequence = move_find_sequence(core, message, target)},
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
    const struct queue *target = move_find_target(core, source, task->destination_owned, message, &failure);
    if (target == NULL)
        end_task(core, task, MOVE_FAILED, failure);
    else if (move_is_early(core, message, target))
        return false;
    else
        move(core, task, message, target);
    return true;
}

/* --- a selection -------------------------------------------------------------------------------------------------- */

/* What one portion of a task with a selection does; written down in one event at its end. */
struct pass {
    struct core *core;
    const struct move_task *task;
    const struct queue *source;
    struct message_place place;
    unsigned acts_left;
    unsigned visits_left;
    uint32_t looked;
    uint32_t deleted;
    uint32_t refused;
    uint32_t refusals_left;    /* so many more are remembered */
    struct buffer refusals;    /* of the event */
    bool is_over;              /* it has looked at all */
    bool is_early;             /* something else must happen before it can go on */
    enum move_failure failure; /* it can't go on at all */
};

static bool pass_is_full(const struct pass *pass)
{
    return pass->acts_left == 0 || pass->visits_left == 0 || core_frame_is_ample(pass->core) ||
           pass->task->moved + pass->deleted == pass->task->to_move;
}

static void refuse(struct pass *pass, uint64_t number, enum refusal_reason reason)
{
    pass->refused++;
    if (pass->refusals_left == 0)
        return;
    pass->refusals_left--;
    buffer_append_u64(&pass->refusals, number);
    buffer_append_u8(&pass->refusals, (uint8_t)reason);
}

/* Moves it, or says why not. False: it can't be decided now, or the task has nowhere to go. */
static bool move_selected(struct pass *pass, uint32_t slot)
{
    enum move_failure failure;
    const struct message *message = core_message(pass->core, slot);
    const struct bytes destination = pass->task->destination_owned;
    const struct queue *target = move_find_target(pass->core, pass->source, destination, message, &failure);
    if (target == NULL && destination.size > 0) {
        pass->failure = failure;
        return false;
    }
    if (target == NULL) {
        refuse(pass, message->number, failure == MOVE_NO_ORIGIN ? REFUSED_NO_ORIGIN : REFUSED_NO_QUEUE);
        return true;
    }
    pass->is_early = move_is_early(pass->core, message, target);
    if (!pass->is_early)
        move(pass->core, pass->task, message, target);
    return !pass->is_early;
}

/* Does with the message what the task is for, or says why not. False: not now. */
static bool act_on(struct pass *pass, uint32_t slot)
{
    const enum selection_act act = pass->task->selection_owned->act;
    const uint64_t number = core_message(pass->core, slot)->number;
    const enum refusal_reason reason = selection_why_not(pass->core, act, slot);
    if (reason != NOT_REFUSED) {
        refuse(pass, number, reason);
    } else if (act == SELECTION_DELETES) {
        finish_message(pass->core, slot, END_PURGED);
        pass->deleted++;
    } else if (!move_selected(pass, slot)) {
        return false;
    }
    pass->acts_left--;
    return true;
}

static void pass_by_numbers(struct pass *pass)
{
    const struct selection *selection = pass->task->selection_owned;
    uint32_t i = 0;
    while (i < selection->number_count && selection->numbers_owned[i] <= pass->place.number)
        i++;
    for (; i < selection->number_count && !pass_is_full(pass); i++) {
        const uint64_t number = selection->numbers_owned[i];
        const uint32_t slot = core_find_message(pass->core, number);
        const struct message *message = slot == 0 ? NULL : core_message(pass->core, slot);
        if (message == NULL || message->message_list != pass->source->message_list ||
            core_message_is_dead(pass->core, message))
            refuse(pass, number, REFUSED_ABSENT);
        else if (!act_on(pass, slot))
            return;
        pass->looked++;
        pass->visits_left--;
        pass->place.number = number;
    }
    pass->is_over = i == selection->number_count;
}

/* A dead letter keeps its number: one that was received since the task began has come after that. */
static bool is_meant(const struct pass *pass, uint32_t slot)
{
    const struct selection *selection = pass->task->selection_owned;
    const struct message *message = core_message(pass->core, slot);
    const bool is_late =
        message->is_moved && message->sent_at_ms + message->received_after_ms > pass->task->started_at_ms;
    return message->number <= selection->newest && !is_late && !core_message_is_dead(pass->core, message) &&
           message_filter_takes(&selection->filter, pass->core, pass->source, slot);
}

static void pass_by_filter(struct pass *pass)
{
    const struct selection *selection = pass->task->selection_owned;
    struct message_walk walk;
    message_walk_begin(&walk, pass->core, pass->source, pass->place);
    pass->place = walk.place;
    if (walk.is_lost) {
        pass->visits_left = 0;
        return;
    }
    while (!pass_is_full(pass)) {
        message_walk_limit(&walk, selection->newest);
        const uint32_t slot = message_walk_next(&walk);
        pass->is_over = slot == 0;
        if (pass->is_over)
            return;
        const bool is_wanted = is_meant(pass, slot);
        if (is_wanted && !act_on(pass, slot))
            return;
        pass->looked++;
        pass->visits_left--;
        pass->place = walk.place;
        if (is_wanted)
            message_walk_refresh(&walk, pass->source);
    }
}

static bool has_moved_on(const struct pass *pass)
{
    const struct message_place *before = &pass->task->selection_owned->place, *after = &pass->place;
    return pass->looked > 0 || after->number != before->number || after->arrival != before->arrival ||
           after->counted_from_ms != before->counted_from_ms;
}

static void write_down(const struct pass *pass)
{
    core_emit(pass->core, &(struct event){
                              .kind = EVENT_SELECTION_LOOKED,
                              .selection_looked = {.task = pass->task->number,
                                                   .source = pass->source->id,
                                                   .counted_from_ms = pass->place.counted_from_ms,
                                                   .number = pass->place.number,
                                                   .arrival = pass->place.arrival,
                                                   .looked = pass->looked,
                                                   .deleted = pass->deleted,
                                                   .refused = pass->refused,
                                                   .refusals = buffer_bytes(&pass->refusals)},
                          });
}

/* A portion of a task with a selection; one with a rate acts once in it. False: something else must happen before. */
static bool step_selection(struct core *core, const struct move_task *task, unsigned *acts_left, unsigned *visits_left)
{
    struct pass pass = {.core = core,
                        .task = task,
                        .source = core_queue(core, task->source),
                        .place = task->selection_owned->place,
                        .acts_left = task->rate > 0 ? 1 : *acts_left,
                        .visits_left = *visits_left,
                        .refusals_left = REFUSALS_MAX - task->selection_owned->refusal_count};
    const unsigned acts = pass.acts_left;
    buffer_init(&pass.refusals);
    if (task->selection_owned->number_count > 0)
        pass_by_numbers(&pass);
    else
        pass_by_filter(&pass);
    if (has_moved_on(&pass))
        write_down(&pass);
    if (pass.failure != MOVE_NO_FAILURE)
        end_task(core, task, MOVE_FAILED, pass.failure);
    else if (pass.is_over || task->moved == task->to_move)
        end_task(core, task, MOVE_COMPLETED, MOVE_NO_FAILURE);
    buffer_deinit(&pass.refusals);
    *acts_left -= acts - pass.acts_left;
    *visits_left = pass.visits_left;
    return !pass.is_early;
}

void move_due(struct core *core, unsigned portion)
{
    const struct heap *due = &core->moves.due;
    unsigned visits = MESSAGE_WALK_VISITS_MAX;
    while (portion > 0 && visits > 0 && !core_frame_is_ample(core) && due->count > 0 &&
           heap_top(due).key <= core->now_ms) {
        const struct move_task *task = slab_at(&core->moves.tasks, heap_top(due).slot);
        if (task->selection_owned != NULL) {
            if (!step_selection(core, task, &portion, &visits))
                return;
            continue;
        }
        if (!step(core, task))
            return;
        portion--;
    }
}
