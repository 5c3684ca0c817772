/* Judges ReplaceMessage, and what is said of move tasks; what they do is followed in judge_receive.c. */
#include "judge.h"

#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void expect_arn(const struct reply_view *view, yyjson_val *item, const char *name, int queue)
{
    struct buffer arn;
    buffer_init(&arn);
    operation_write_arn(queue, &arn);
    buffer_append_u8(&arn, '\0');
    expect_text(view, item, name, (const char *)arn.data_owned);
    buffer_deinit(&arn);
}

void judge_start_move(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    int task;
    enum error error = view->operation->kind == OPERATION_DELETE_SOME
                           ? model_start_delete(model, view->operation, &task)
                           : model_start_move(model, view->operation, &task);
    expect_error(view, error);
    if (error != OK)
        return;
    const char *handle = text_in(view, view->root, "TaskHandle");
    for (int i = 0; i < task; i++)
        if (strcmp(model->tasks[i].handle, handle) == 0)
            fail("the TaskHandle %s was given out twice", handle);
    if (strlen(handle) >= TASK_HANDLE_SIZE)
        fail("the TaskHandle %s is too long", handle);
    snprintf(model->tasks[task].handle, TASK_HANDLE_SIZE, "%s", handle);
}

void judge_cancel_move(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    int task;
    enum error error = model_cancel_move(model, view->operation->task, &task);
    expect_error(view, error);
    if (error == OK)
        expect_number(view, view->root, "ApproximateNumberOfMessagesMoved", model->tasks[task].moved);
}

static void expect_task(const struct reply_view *view, const struct model_task *task, yyjson_val *item)
{
    static const char *const statuses[] = {"", "RUNNING", "COMPLETED", "CANCELLED", "FAILED"};
    static const char *const failures[] = {"", "AWS.SimpleQueueService.NonExistentQueue",
                                           "CouldNotDetermineMessageSource"};
    const struct model *model = &view->oracle->model;
    expect_text(view, item, "Status", statuses[task->status]);
    if (task->status == TASK_RUNNING)
        expect_text(view, item, "TaskHandle", task->handle);
    else if (yyjson_obj_get(item, "TaskHandle") != NULL)
        fail("a move task that is over shows its handle");
    expect_arn(view, item, "SourceArn", view->operation->queue);
    if (task->destination != NONE)
        expect_arn(view, item, "DestinationArn", model->queues[task->destination].name);
    else if (yyjson_obj_get(item, "DestinationArn") != NULL)
        fail("a move task without a destination shows one");
    if (task->rate != 0)
        expect_number(view, item, "MaxNumberOfMessagesPerSecond", task->rate);
    if (task->kind != TASK_MOVES_ALL)
        expect_text(view, item, "Kind", task->kind == TASK_DELETES ? "delete" : "move");
    expect_number(view, item, "ApproximateNumberOfMessagesMoved", task->moved);
    expect_number(view, item, "ApproximateNumberOfMessagesToMove", task->to_move);
    expect_number(view, item, "StartedTimestamp", (int64_t)task->started_at);
    if (task->status == TASK_FAILED)
        expect_text(view, item, "FailureReason", failures[task->failure]);
}

void judge_list_moves(const struct reply_view *view)
{
    const struct model *model = &view->oracle->model;
    int queue = model_find_queue(model, view->operation->queue);
    expect_error(view, queue == NONE ? ERROR_RESOURCE_NOT_FOUND : OK);
    if (queue == NONE)
        return;
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(yyjson_obj_get(view->root, "Results"), index, count, item)
    {
        int task = model_task_of(model, queue, (int)index);
        if (task == NONE)
            fail("ListMessageMoveTasks of q%d lists more than %zu tasks", view->operation->queue, index);
        expect_task(view, &model->tasks[task], item);
    }
    if (model_task_of(model, queue, (int)yyjson_arr_size(yyjson_obj_get(view->root, "Results"))) != NONE)
        fail("ListMessageMoveTasks of q%d leaves out a task", view->operation->queue);
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

/* What the call did, or NULL. */
static const struct sight *find_replaced(const struct oracle *oracle)
{
    for (unsigned i = 0; i < oracle->witness.count; i++)
        if (oracle->witness.sights[i].kind == SIGHT_REPLACED)
            return &oracle->witness.sights[i];
    return NULL;
}

/* Two facts: the old one is gone for good, and the new one is there, or neither is. */
void judge_replace(const struct reply_view *view)
{
    struct model *model = &view->oracle->model;
    const struct sight *sight = find_replaced(view->oracle);
    if (view->oracle->has_read_failed && sight == NULL && view->error == ERROR_UNSUPPORTED_OPERATION)
        return;
    int old = NONE;
    bool is_uncertain = false;
    enum error error = model_may_replace(model, view->operation, &old, &is_uncertain);
    if (error == OK && is_uncertain && sight == NULL && view->error == ERROR_UNSUPPORTED_OPERATION)
        return;
    expect_error(view, error);
    if ((sight != NULL) != (error == OK))
        fail("ReplaceMessage should %sreplace message %s", error == OK ? "" : "not ", view->operation->id);
    if (sight == NULL)
        return;
    if (model->messages[old].number != sight->number)
        fail("ReplaceMessage of %s has replaced message %" PRIu64, view->operation->id, sight->number);
    const char *why =
        model_replace(model, old, &view->operation->entries[0], sight->queue, sight->successor, sight->line, sight->id);
    if (why != NULL)
        fail_message(model, old, "was replaced", why);
    const int new = find_number(model, sight->successor);
    expect_text(view, view->root, "MessageId", model->messages[new].id);
    expect_sequence(view, view->root, new);
    teach(view->lesson, FACT_ENDED, old, model->messages[old].id);
    teach(view->lesson, FACT_SENT, new, model->messages[new].id);
}
