/* Move tasks: dead letters go back, each as a new message. */
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
                                .rate = operation->move_rate,
                                .status = TASK_RUNNING,
                                .group = operation->move_group,
                                .to_move = operation->move_group == NO_GROUP
                                               ? (int)model_count_queue(model, queue).visible
                                               : count_of_group(model, queue, operation->move_group),
                                .started_at = model->now};
    if (operation->move_max != 0 && task->to_move > operation->move_max)
        task->to_move = operation->move_max;
    if (task->rate > 0)
        task->next_us = model->now * 1000 + slack_us(task);
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
    if (task == NULL)
        return "is moved by no task";
    if (task->moved == task->to_move)
        return "is one too many for its task";
    if (!is_due(model, task))
        return "is too early for the rate of its task";
    const char *why =
        task->group == NO_GROUP ? model_why_not_moved(model, message) : why_not_selected(model, task, message);
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

const char *model_redrive(struct model *model, int index, int to, uint64_t number, uint64_t line, const char *id)
{
    struct model_message *old = &model->messages[index];
    struct model_task *task = running_task(model, old->queue);
    const char *why = why_not(model, task, index, to, line == 0 ? number : line);
    if (why != NULL)
        return why;
    uint64_t now_us = model->now * 1000;
    task->moved++;
    if (task->rate > 0)
        task->next_us = (task->next_us > now_us ? task->next_us : now_us) + interval_us(task);
    ASSERT(model->message_count < MODEL_MESSAGES_MAX);
    int new = model->message_count++;
    struct model_message *message = &model->messages[new];
    *message = (struct model_message){
        .is_alive = true,
        .completes = old->completes,
        .queue = to,
        .origin = NONE,
        .batch = old->batch,
        .unit = old->unit,
        .handle = NONE,
        .tag = old->tag,
        .body_size = old->body_size,
        .group = old->group,
        .priority = old->priority,
        .reason = NONE,
        .number = number,
        .line = line == 0 ? number : line,
        .type = NONE,
        .counted_from = model->now,
        .sent_at = model->now,
        .visible_at = model->now + (uint64_t)model->queues[to].numbers.delay_s * 1000,
        .order = number,
        .is_of_tick = old->is_of_tick,
        .said_status = old->said_status,
        .said = old->said,
    };
    if (message->group == NO_GROUP && message->priority != PRIORITY_USUAL)
        message->group = OWN_GROUP;
    if (model->queues[to].traits.is_fifo && message->completes == 0)
        message->said_sequence = message->line;
    if (message->completes == 0)
        snprintf(message->id, sizeof(message->id), "%s", id);
    hand_over(model, index, new);
    old->is_alive = false;
    old->fate = FATE_FAILED;
    return NULL;
}

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
    if (!is_due(model, task) && task->moved != task->to_move)
        return "it is too early";
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
    if (task->group != NO_GROUP)
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
