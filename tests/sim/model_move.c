/* Move tasks: dead letters go back, each as a new message. Tasks that delete, and messages that are replaced: a new one
 * takes over what the old one leaves. */
#include "model.h"

#include "base/assert.h"
#include <stdio.h>
#include <string.h>

/* --- tasks -------------------------------------------------------------------------------------------------------- */

int model_task_of(const struct model *model, int queue, int newest)
{
    for (int i = model->task_count - 1; i >= 0 && newest < TASKS_REMEMBERED; i--)
        if (model->tasks[i].queue == queue && newest-- == 0)
            return i;
    return NONE;
}

static struct model_task *running_task(struct model *model, int queue)
{
    int newest = model_task_of(model, queue, 0);
    return newest != NONE && model->tasks[newest].status == TASK_RUNNING ? &model->tasks[newest] : NULL;
}

static bool is_dead_letter_queue(const struct model *model, int queue)
{
    for (int i = 0; i < model->queue_count; i++)
        if (model->queues[i].exists && model->queues[i].numbers.dead_letters == model->queues[queue].name)
            return true;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        if (message->is_alive && message->is_moved && message->queue == queue && !message->is_condemned)
            return true;
    }
    return false;
}

/* Microseconds between two messages; and how many of them may be made up for. */
static uint64_t interval_us(const struct model_task *task)
{
    return (1000000 + (uint64_t)task->rate - 1) / (uint64_t)task->rate;
}

static uint64_t slack_us(const struct model_task *task)
{
    return interval_us(task) * (uint64_t)(task->rate / 10);
}

/* How many messages of the queue a task for one group is for. */
static int count_of_group(const struct model *model, int queue, int group)
{
    int count = 0;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        count += message->is_alive && !message->is_condemned && message->queue == queue && message->group == group &&
                 !model_is_dead(model, message);
    }
    return count;
}

/* What tasks of each kind have. */
static void begin_task(const struct model *model, struct model_task *task, const struct operation *operation)
{
    task->rate = operation->move_rate;
    task->status = TASK_RUNNING;
    task->started_at = model->now;
    if (operation->move_max != 0 && task->to_move > operation->move_max)
        task->to_move = operation->move_max;
    if (task->rate > 0)
        task->next_us = model->now * 1000 + slack_us(task);
}

enum error model_start_move(struct model *model, const struct operation *operation, int *started)
{
    int queue = model_find_queue(model, operation->queue), destination = NONE;
    if (queue == NONE)
        return ERROR_RESOURCE_NOT_FOUND;
    if (!is_dead_letter_queue(model, queue))
        return ERROR_INVALID_PARAMETER_VALUE;
    if (operation->destination != NONE) {
        destination = model_find_queue(model, operation->destination);
        if (destination == NONE)
            return ERROR_RESOURCE_NOT_FOUND;
        if (destination == queue || model->queues[destination].traits.is_fifo != model->queues[queue].traits.is_fifo)
            return ERROR_INVALID_PARAMETER_VALUE;
    }
    if (running_task(model, queue) != NULL)
        return ERROR_INVALID_PARAMETER_VALUE;
    ASSERT(model->task_count < MODEL_TASKS_MAX);
    *started = model->task_count++;
    struct model_task *task = &model->tasks[*started];
    *task = (struct model_task){.queue = queue,
                                .destination = destination,
                                .kind = operation->move_group == NO_GROUP ? TASK_MOVES_ALL : TASK_MOVES_SOME,
                                .group = operation->move_group,
                                .to_move = operation->move_group == NO_GROUP
                                               ? (int)model_count_queue(model, queue).visible
                                               : count_of_group(model, queue, operation->move_group)};
    begin_task(model, task, operation);
    return OK;
}

/* False: an id is of no message. */
static bool choose(const struct model *model, const struct operation *operation, struct model_task *task)
{
    for (unsigned i = 0; i < operation->count; i++) {
        int index = 0;
        while (index < model->message_count && strcmp(model->messages[index].id, operation->ids[i]) != 0)
            index++;
        if (index == model->message_count)
            return false;
        unsigned at = 0;
        while (at < task->chosen_count && task->chosen[at] != index)
            at++;
        task->chosen[at] = index;
        task->chosen_count += at == task->chosen_count;
    }
    return true;
}

enum error model_start_delete(struct model *model, const struct operation *operation, int *started)
{
    int queue = model_find_queue(model, operation->queue);
    struct model_task task = {.queue = queue,
                              .destination = NONE,
                              .kind = TASK_DELETES,
                              .group = operation->move_group,
                              .newest = UINT64_MAX};
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    if (!choose(model, operation, &task) || running_task(model, queue) != NULL)
        return ERROR_INVALID_PARAMETER_VALUE;
    task.to_move = task.chosen_count > 0 ? (int)task.chosen_count : count_of_group(model, queue, task.group);
    begin_task(model, &task, operation);
    ASSERT(model->task_count < MODEL_TASKS_MAX);
    *started = model->task_count++;
    model->tasks[*started] = task;
    return OK;
}

enum error model_cancel_move(struct model *model, const char *handle, int *cancelled)
{
    for (int queue = 0; queue < model->queue_count; queue++) {
        int task = model->queues[queue].exists ? model_task_of(model, queue, 0) : NONE;
        for (int newest = 1; task != NONE; task = model_task_of(model, queue, newest++)) {
            if (strcmp(model->tasks[task].handle, handle) != 0)
                continue;
            if (model->tasks[task].status != TASK_RUNNING)
                return ERROR_INVALID_PARAMETER_VALUE;
            model->tasks[task].status = TASK_CANCELLED;
            *cancelled = task;
            return OK;
        }
    }
    return strcmp(handle, "bm9uZQ==") == 0 ? ERROR_INVALID_PARAMETER_VALUE : ERROR_RESOURCE_NOT_FOUND;
}

static bool is_due(const struct model *model, const struct model_task *task)
{
    return task->rate == 0 || task->next_us <= model->now * 1000 + slack_us(task);
}

int model_find_late_task(const struct model *model)
{
    for (int i = 0; i < model->task_count; i++)
        if (model->tasks[i].status == TASK_RUNNING && model->queues[model->tasks[i].queue].exists &&
            is_due(model, &model->tasks[i]))
            return i;
    return NONE;
}

/* --- moving ------------------------------------------------------------------------------------------------------- */

/* The queue that the message goes to, or NONE. */
static int target_of(const struct model *model, const struct model_task *task, const struct model_message *message,
                     unsigned *failure)
{
    *failure = TASK_NO_QUEUE;
    if (task->destination == NONE && message->origin == NONE)
        *failure = TASK_NO_ORIGIN;
    int to = task->destination != NONE ? task->destination : message->origin;
    return to == NONE ? NONE : model_find_queue(model, model->queues[to].name); /* perhaps made anew */
}

static bool has_untold(const struct model *model, int index)
{
    for (int i = 0; i < model->edge_count; i++)
        if (model->edges[i].dependent != NONE && !model->edges[i].is_batch && model->edges[i].antecedent == index &&
            !model->edges[i].is_told && model->messages[index].is_moved)
            return true;
    return false;
}

/* A task for one group takes its messages from wherever they stand in their line. */
static const char *why_not_selected(struct model *model, const struct model_task *task,
                                    const struct model_message *message)
{
    const struct model_group *group = model_group(model, message->queue, task->group);
    if (!message->is_alive || message->is_condemned)
        return "has ended";
    if (message->group != task->group)
        return "is of another group than its task is for";
    if (message->sent_at > task->started_at)
        return "came after its task had begun";
    if (message->visible_at > model->now)
        return "is leased or delayed";
    if (model_is_waiting(model, message))
        return "waits for something else";
    return model_is_held(model, group) || group->is_paused ? "is in a group that is held or paused" : NULL;
}

static const char *why_not(struct model *model, const struct model_task *task, int index, int to, uint64_t line)
{
    const struct model_message *message = &model->messages[index];
    unsigned failure;
    if (task == NULL || task->kind == TASK_DELETES)
        return "is moved by no task";
    if (task->moved == task->to_move)
        return "is one too many for its task";
    if (!is_due(model, task))
        return "is too early for the rate of its task";
    const char *why =
        task->kind == TASK_MOVES_ALL ? model_why_not_moved(model, message) : why_not_selected(model, task, message);
    if (why != NULL)
        return why;
    if (model_is_dead(model, message))
        return "was cancelled";
    if (has_untold(model, index))
        return "has dependents that have not been told that it failed";
    if (to != target_of(model, task, message, &failure))
        return "goes to the wrong queue";
    if (model->queues[to].traits.is_fifo && model_would_wait_behind_itself(model, index, to, line))
        return "stands behind something that waits for it";
    return NULL;
}

/* What the old message leaves to the new one. */
static void hand_over(struct model *model, int old, int new)
{
    const struct model_message *message = &model->messages[old];
    if (message->batch != NONE && message->completes == 0 && !model->batches[message->batch].is_xor)
        model->batches[message->batch].units[message->unit].key = new;
    model_reopen(model, message);
    for (int i = 0; i < model->edge_count; i++) {
        struct model_edge *edge = &model->edges[i];
        if (edge->dependent == NONE || edge->is_batch || edge->antecedent != old)
            continue;
        edge->antecedent = new;
        edge->is_told = false;
    }
}

/* The message lives on in queue `to` under another number, as if it had just been sent. `line` 0: behind the others.
 * Returns the new one. */
static struct model_message *live_on(struct model *model, int old, int to, uint64_t number, uint64_t line,
                                     const char *id)
{
    const struct model_message *message = &model->messages[old];
    ASSERT(model->message_count < MODEL_MESSAGES_MAX);
    int new = model->message_count++;
    struct model_message *copy = &model->messages[new];
    *copy = (struct model_message){
        .is_alive = true,
        .completes = message->completes,
        .queue = to,
        .origin = NONE,
        .batch = message->batch,
        .unit = message->unit,
        .handle = NONE,
        .tag = message->tag,
        .body_size = message->body_size,
        .group = message->group,
        .priority = message->priority,
        .reason = NONE,
        .number = number,
        .line = line == 0 ? number : line,
        .type = NONE,
        .counted_from = model->now,
        .sent_at = model->now,
        .visible_at = model->now + (uint64_t)model->queues[to].numbers.delay_s * 1000,
        .order = number,
        .is_of_tick = message->is_of_tick,
        .said_status = message->said_status,
        .said = message->said,
    };
    if (copy->group == NO_GROUP && copy->priority != PRIORITY_USUAL)
        copy->group = OWN_GROUP;
    if (model->queues[to].traits.is_fifo && copy->completes == 0)
        copy->said_sequence = copy->line;
    if (copy->completes == 0)
        snprintf(copy->id, sizeof(copy->id), "%s", id);
    hand_over(model, old, new);
    model->messages[old].is_alive = false;
    model->messages[old].fate = FATE_FAILED;
    return copy;
}

/* The task has moved or deleted one more. */
static void count_act(const struct model *model, struct model_task *task)
{
    uint64_t now_us = model->now * 1000;
    task->moved++;
    if (task->rate > 0)
        task->next_us = (task->next_us > now_us ? task->next_us : now_us) + interval_us(task);
}

const char *model_redrive(struct model *model, int index, int to, uint64_t number, uint64_t line, const char *id)
{
    struct model_task *task = running_task(model, model->messages[index].queue);
    const char *why = why_not(model, task, index, to, line == 0 ? number : line);
    if (why != NULL)
        return why;
    count_act(model, task);
    live_on(model, index, to, number, line, id);
    return NULL;
}

/* --- deleting ----------------------------------------------------------------------------------------------------- */

static bool is_in_flight(const struct model *model, const struct model_message *message)
{
    return message->is_leased && message->visible_at > model->now && !model_is_waiting(model, message);
}

static bool is_chosen(const struct model_task *task, int index)
{
    for (unsigned i = 0; i < task->chosen_count; i++)
        if (task->chosen[i] == index)
            return true;
    return false;
}

/* Why the task does not delete the message, or NULL. */
static const char *why_not_deleted(const struct model *model, const struct model_task *task, int index)
{
    const struct model_message *message = &model->messages[index];
    if (!message->is_alive || message->queue != task->queue || model_is_dead(model, message))
        return "has ended";
    if (is_in_flight(model, message))
        return "is in flight";
    if (task->chosen_count > 0)
        return is_chosen(task, index) ? NULL : "is not among those that its task names";
    if (message->group != task->group)
        return "is of another group than its task is for";
    if (message->sent_at > task->started_at)
        return "came after its task had begun";
    return message->is_moved && message->received_at > task->started_at ? "was received after its task had begun"
                                                                        : NULL;
}

const char *model_delete_by_task(struct model *model, int index)
{
    struct model_task *task = running_task(model, model->messages[index].queue);
    if (task == NULL || task->kind != TASK_DELETES)
        return "is deleted by no task";
    if (task->moved == task->to_move)
        return "is one too many for its task";
    if (!is_due(model, task))
        return "is too early for the rate of its task";
    const char *why = why_not_deleted(model, task, index);
    if (why != NULL)
        return why;
    count_act(model, task);
    model_end(model, &model->messages[index], FATE_FAILED);
    return NULL;
}

/* A task without a rate looks at all of them, and ends, in one turn. */
static bool has_left(const struct model *model, const struct model_task *task)
{
    for (int i = 0; i < model->message_count && task->rate == 0 && task->moved < task->to_move; i++) {
        const struct model_message *message = &model->messages[i];
        const bool is_certain = task->chosen_count > 0 || message->sent_at < task->started_at;
        if (is_certain && why_not_deleted(model, task, i) == NULL)
            return true;
    }
    return false;
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

/* The queue to which its copy goes, or NONE. */
static int target_of_copy(const struct model *model, const struct model_message *message)
{
    if (!message->is_moved)
        return message->queue;
    return message->origin == NONE ? NONE : model_find_queue(model, model->queues[message->origin].name);
}

/* Messages that were cancelled with the rest of that group, and are still there. */
static bool has_cancelled(const struct model *model, int queue, int group)
{
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].is_cancelled && model->messages[i].queue == queue &&
            model->messages[i].group == group)
            return true;
    return false;
}

static bool can_be_replaced(struct model *model, int index)
{
    const struct model_message *message = &model->messages[index];
    const bool is_hidden = message->is_moved && message->visible_at > model->now;
    const bool is_typed = message->is_typed && !message->is_moved;
    return !model_is_dead(model, message) && message->completes == 0 && !is_in_flight(model, message) &&
           !model_is_waiting(model, message) && !is_typed && !is_hidden && target_of_copy(model, message) != NONE &&
           !(message->is_moved && has_untold(model, index));
}

enum error model_may_replace(struct model *model, const struct operation *operation, int *old, bool *is_uncertain)
{
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    for (int i = 0; i < model->message_count; i++)
        if (strcmp(model->messages[i].id, operation->id) == 0)
            *old = i;
    const struct model_message *message = *old == NONE ? NULL : &model->messages[*old];
    if (message == NULL || !message->is_alive || message->is_condemned || message->queue != queue)
        return ERROR_INVALID_PARAMETER_VALUE;
    if (!can_be_replaced(model, *old))
        return ERROR_UNSUPPORTED_OPERATION;
    *is_uncertain = message->is_moved && has_cancelled(model, target_of_copy(model, message), message->group);
    return OK;
}

static const char *why_not_there(const struct model *model, int old, int to, uint64_t number, uint64_t line)
{
    const struct model_message *message = &model->messages[old];
    const bool is_fifo = model->queues[to].traits.is_fifo;
    if (to != target_of_copy(model, message))
        return "goes to the wrong queue";
    if (!message->is_moved && is_fifo && line != message->line)
        return "loses its place";
    if (!message->is_moved && !is_fifo && line != 0)
        return "has a place where there is none";
    return message->is_moved && is_fifo && model_would_wait_behind_itself(model, old, to, line == 0 ? number : line)
               ? "stands behind something that waits for it"
               : NULL;
}

const char *model_replace(struct model *model, int old, const struct entry *entry, int to, uint64_t number,
                          uint64_t line, const char *id)
{
    const struct model_message before = model->messages[old];
    const char *why = why_not_there(model, old, to, number, line);
    if (why != NULL)
        return why;
    struct model_message *copy = live_on(model, old, to, number, line, id);
    copy->tag = entry->tag;
    copy->body_size = entry->size;
    if (!before.is_moved) /* the rest of its delay */
        copy->visible_at = before.visible_at > model->now ? before.visible_at : model->now;
    return NULL;
}

/* --- ends of tasks ------------------------------------------------------------------------------------------------ */

const char *model_end_by_task(struct model *model, int index)
{
    struct model_message *message = &model->messages[index];
    if (running_task(model, message->queue) == NULL)
        return "is in a queue without a task";
    const char *why = model_why_not_moved(model, message);
    if (why == NULL && !model_is_dead(model, message))
        why = "was not cancelled";
    if (why == NULL)
        model_end(model, message, FATE_CANCELLED);
    return why;
}

/* A task for one group has looked at each message once, and may have left some. */
static const char *end_selection(const struct model *model, struct model_task *task, unsigned status, unsigned failure)
{
    const int to = task->destination;
    const bool has_queue = to == NONE || model_find_queue(model, model->queues[to].name) != NONE;
    if (task->chosen_count == 0 && !is_due(model, task) && task->moved != task->to_move)
        return "it is too early"; /* one that is for ids ends with the last one */
    if (status == TASK_FAILED && (failure != TASK_NO_QUEUE || has_queue))
        return "it has a queue to move to";
    task->status = status;
    task->failure = failure;
    return NULL;
}

const char *model_end_task(struct model *model, int queue, unsigned status, unsigned failure)
{
    struct model_task *task = running_task(model, queue);
    if (status == TASK_CANCELLED) /* the call that asked for it has said so */
        return NULL;
    if (task == NULL)
        return "there is none";
    if (task->kind == TASK_DELETES && status == TASK_COMPLETED && has_left(model, task))
        return "there are messages left to delete";
    if (task->kind != TASK_MOVES_ALL)
        return end_selection(model, task, status, failure);
    if (!is_due(model, task))
        return "it is too early";
    bool is_right = status == TASK_COMPLETED, is_done = task->moved == task->to_move;
    for (int i = 0; i < model->message_count && !(is_done && is_right); i++) {
        struct model_message *message = &model->messages[i];
        unsigned why_nowhere;
        if (message->queue != queue || !message->is_alive || model_why_not_moved(model, message) != NULL)
            continue;
        if (status == TASK_COMPLETED)
            return "there are messages left to move";
        is_right = is_right || (target_of(model, task, message, &why_nowhere) == NONE && why_nowhere == failure);
    }
    if (!is_right)
        return "each message has a queue to go to";
    task->status = status;
    task->failure = failure;
    return NULL;
}
