/* StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks: dead letters go back to their source, or to
 * another queue. Source of the words: SQS API reference, of the three actions. And DeleteMessages, a task that ends the
 * messages that it is for. */
#include "api/access.h"
#include "api/reach.h"
#include "api/selection.h"
#include "api/text.h"
#include "core/messages/decide_move.h"

#define ARN_PARTS 6u /* arn:<partition>:<service>:<region>:<account-id>:<resource-id> */
#define TASKS_LISTED_MAX 10

/* --- queues by their ARN ------------------------------------------------------------------------------------------ */

/* Splits an ARN into its parts; false if their number is wrong, or one is empty. */
static bool split_arn(struct bytes arn, struct bytes parts[ARN_PARTS])
{
    unsigned count = 0;
    for (;;) {
        const uint8_t *colon = arn.size == 0 ? NULL : memchr(arn.ptr, ':', arn.size);
        size_t size = colon == NULL ? arn.size : (size_t)(colon - arn.ptr);
        if (size == 0 || count == ARN_PARTS)
            return false;
        parts[count++] = bytes_make(arn.ptr, size);
        if (colon == NULL)
            return count == ARN_PARTS && bytes_equal(parts[0], BYTES("arn"));
        arn = bytes_skip(arn, size + 1);
    }
}

/* The queue of this namespace that the parts name, in any region, or NULL. */
static struct queue *find_by_parts(const struct call *call, const struct bytes parts[ARN_PARTS])
{
    bool is_ours = bytes_equal(parts[2], BYTES("sqs")) && bytes_equal(parts[4], core_name(call->core));
    return is_ours ? core_find_queue(call->core, parts[5]) : NULL;
}

/* The queue of the ARN that parameter `name` holds. ERROR_ACCESS_DENIED, ERROR_RESOURCE_NOT_FOUND. */
static enum error find_by_arn(struct call *call, const char *name, const struct bytes parts[ARN_PARTS],
                              struct queue **queue)
{
    *queue = find_by_parts(call, parts);
    enum error error = access_check_queue(call, parts[5], *queue);
    if (error != OK)
        return error;
    return *queue != NULL ? OK
                          : call_fail(call, ERROR_RESOURCE_NOT_FOUND,
                                      "The resource that you specified for the %s parameter doesn't exist.", name);
}

/* The same; ERROR_INVALID_PARAMETER_VALUE: it is no ARN. */
static enum error find_queue(struct call *call, const char *name, struct bytes arn, struct queue **queue)
{
    struct bytes parts[ARN_PARTS];
    if (!split_arn(arn, parts))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "You must use this format to specify the %s: "
                         "arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
                         name);
    return find_by_arn(call, name, parts, queue);
}

static enum error find_source(struct call *call, struct queue **source)
{
    struct bytes arn = {NULL, 0};
    enum error error = params_required_text(&call->params, "SourceArn", &arn);
    return error == OK ? find_queue(call, "SourceArn", arn, source) : error;
}

/* --- handles ------------------------------------------------------------------------------------------------------ */

/* The id of a task as text, in the arena. */
static struct bytes task_id(const struct call *call, const struct move_task *task)
{
    uint8_t id[MESSAGE_ID_SIZE];
    char *text = arena_allocate(call->arena, IDENTITY_TEXT_SIZE);
    identity_move_task(call_digest(call), task->number, id);
    identity_to_text(id, text);
    return bytes_make(text, IDENTITY_TEXT_SIZE);
}

/* Region, namespace and name need no escapes in JSON. */
static void write_handle(struct call *call, const struct queue *source, const struct move_task *task)
{
    writer_base64(call->reply, "TaskHandle",
                  arena_format(call->arena, "{\"taskId\":\"%.*s\",\"sourceArn\":\"%.*s\"}",
                               BYTES_FORMAT(task_id(call, task)),
                               BYTES_FORMAT(call_queue_arn(call, source->name_owned))));
}

/* Reads a handle. False: it is not valid. */
static bool read_handle(struct call *call, struct bytes handle, struct bytes *id, struct bytes parts[ARN_PARTS])
{
    struct bytes text;
    yyjson_val *object = NULL;
    if (text_from_base64(handle, call->arena, &text))
        object = params_parse_text(text, call->arena);
    *id = params_bytes(yyjson_obj_get(object, "taskId"));
    return id->size > 0 && split_arn(params_bytes(yyjson_obj_get(object, "sourceArn")), parts);
}

/* The task of that id, or NULL. */
static const struct move_task *find_task(struct call *call, struct bytes id, const struct queue *source)
{
    for (uint32_t i = 0; i < source->move_count; i++)
        if (bytes_equal(task_id(call, move_at(call->core, source, i)), id))
            return move_at(call->core, source, i);
    return NULL;
}

/* --- the actions -------------------------------------------------------------------------------------------------- */

/* DestinationArn; absent: *destination stays NULL. */
static enum error read_destination(struct call *call, const struct queue *source, struct queue **destination)
{
    struct bytes arn = {NULL, 0};
    enum error error = params_text(&call->params, "DestinationArn", &arn);
    if (error != OK || arn.ptr == NULL)
        return error;
    error = find_queue(call, "DestinationArn", arn, destination);
    if (error != OK)
        return error;
    if (*destination == source)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Source queue arn and destination queue arn cannot be the same.");
    if ((*destination)->settings.is_fifo != source->settings.is_fifo)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "The source queue and destination queue must be of the same queue type.");
    return OK;
}

/* Without a destination each message returns to its source: the caller must cover those queues, too. */
static enum error check_origins(struct call *call, const struct queue *source, const struct queue *destination)
{
    if (destination != NULL || reach_queues(call, &source->origins))
        return OK;
    return call_fail(call, ERROR_ACCESS_DENIED,
                     "Access is denied: some messages of this queue came from queues that the credential %.*s does not "
                     "cover. Give a DestinationArn that it covers.",
                     BYTES_FORMAT(call->caller->access_key));
}

static enum error read_rate(struct call *call, uint32_t *rate)
{
    int64_t value = 0;
    bool is_given;
    enum error error = params_integer(&call->params, "MaxNumberOfMessagesPerSecond", &value, &is_given);
    if (error == OK && is_given)
        error = params_integer_in(&call->params, "MaxNumberOfMessagesPerSecond", 1, MOVE_RATE_MAX,
                                  "Must be between 1 and 500, if provided.", &value);
    *rate = (uint32_t)value;
    return error;
}

/* What a task is asked to do. */
struct task_request {
    struct queue *source;
    struct queue *destination; /* NULL: each message goes back */
    uint32_t rate;
    uint64_t messages_max;
    struct selection_command selection;
    bool has_selection;
    bool is_dry_run;
};

/* What tasks of both kinds take. */
static enum error read_task(struct call *call, enum selection_act act, struct task_request *request)
{
    enum error error = read_rate(call, &request->rate);
    if (error == OK)
        error = selection_read(call, act, &request->selection, &request->has_selection);
    if (error == OK)
        error = selection_read_max(call, &request->messages_max);
    if (error == OK)
        error = selection_read_dry_run(call, &request->is_dry_run);
    return error;
}

static void write_preview(struct call *call, const struct task_request *request)
{
    struct preview preview;
    const struct queue *destination = request->destination;
    preview_init(&preview, call->core);
    preview_selection(&preview, request->source, destination == NULL ? bytes_make(NULL, 0) : destination->name_owned,
                      request->messages_max, &request->selection);
    if (request->selection.act == SELECTION_MOVES)
        selection_write_moves(call, &preview);
    else
        selection_write_ends(call, &preview);
    preview_deinit(&preview);
}

/* Begins the task, or says what it would do. */
static enum error start(struct call *call, const struct task_request *request)
{
    const struct move_command command = {
        .destination = request->destination, .rate = request->rate, .messages_max = request->messages_max};
    struct queue *source = request->source;
    if (move_running(call->core, source) != NULL)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "There is already a task running. Only one active task is allowed for a source queue arn at a "
                         "given time.");
    if (request->is_dry_run)
        write_preview(call, request);
    else if (request->has_selection)
        write_handle(call, source, decide_start_selection(call->core, source, &command, &request->selection));
    else
        write_handle(call, source, decide_start_move(call->core, source, &command));
    return OK;
}

enum error action_start_message_move_task(struct call *call)
{
    struct task_request request = {.source = NULL};
    enum error error = find_source(call, &request.source);
    if (error == OK && !move_is_dead_letter_queue(call->core, request.source))
        error =
            call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Source queue must be configured as a Dead Letter Queue.");
    if (error == OK)
        error = read_destination(call, request.source, &request.destination);
    if (error == OK)
        error = check_origins(call, request.source, request.destination);
    if (error == OK)
        error = read_task(call, SELECTION_MOVES, &request);
    return error == OK ? start(call, &request) : error;
}

enum error action_delete_messages(struct call *call)
{
    struct task_request request = {.source = NULL};
    enum error error = call_queue(call, &request.source);
    if (error == OK)
        error = read_task(call, SELECTION_DELETES, &request);
    if (error == OK && !request.has_selection)
        error = call_fail(call, ERROR_MISSING_PARAMETER,
                          "The request must say which messages: MessageIds, or one or more of Reason, MessageGroupId, "
                          "SentBefore and SentAfter. PurgeQueue deletes all.");
    return error == OK ? start(call, &request) : error;
}

enum error action_cancel_message_move_task(struct call *call)
{
    struct bytes handle = {NULL, 0}, id, parts[ARN_PARTS];
    enum error error = params_required_text(&call->params, "TaskHandle", &handle);
    if (error != OK)
        return error;
    if (!read_handle(call, handle, &id, parts))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Value for parameter TaskHandle is invalid.");
    struct queue *source;
    error = find_by_arn(call, "SourceArn", parts, &source);
    if (error != OK)
        return error;
    const struct move_task *task = find_task(call, id, source);
    if (task == NULL)
        return call_fail(call, ERROR_RESOURCE_NOT_FOUND, "Task does not exist.");
    if (task->status != MOVE_RUNNING)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Only active tasks can be cancelled.");
    decide_cancel_move(call->core, task);
    writer_number(call->reply, "ApproximateNumberOfMessagesMoved", task->moved);
    return OK;
}

/* Which messages the task is for, and those that it left. */
static void write_selection(struct call *call, const struct selection *selection)
{
    struct writer *reply = call->reply;
    const struct message_filter *filter = &selection->filter;
    writer_string(reply, "Kind", selection->act == SELECTION_MOVES ? "move" : "delete");
    if (selection->number_count > 0)
        writer_number(reply, "MessageIdCount", selection->number_count);
    if (filter->reason.size > 0)
        writer_text(reply, "Reason", filter->reason);
    if (filter->group.size > 0)
        writer_text(reply, "MessageGroupId", filter->group);
    if (filter->sent_after_ms > 0)
        writer_time(reply, "SentAfter", filter->sent_after_ms);
    if (filter->sent_before_ms > 0)
        writer_time(reply, "SentBefore", filter->sent_before_ms);
    writer_number(reply, "Looked", selection->looked);
    selection_write_refusals(call, selection->refused, selection->refusals_owned, selection->refusal_count);
}

static void write_task(struct call *call, const struct queue *source, const struct move_task *task)
{
    static const char *const statuses[] = {[MOVE_RUNNING] = "RUNNING",
                                           [MOVE_COMPLETED] = "COMPLETED",
                                           [MOVE_CANCELLED] = "CANCELLED",
                                           [MOVE_FAILED] = "FAILED"};
    static const char *const failures[] = {[MOVE_NO_QUEUE] = "AWS.SimpleQueueService.NonExistentQueue",
                                           [MOVE_NO_ORIGIN] = "CouldNotDetermineMessageSource"};
    struct writer *reply = call->reply;
    writer_object_begin(reply, NULL);
    if (task->status == MOVE_RUNNING)
        write_handle(call, source, task);
    writer_string(reply, "Status", statuses[task->status]);
    writer_text(reply, "SourceArn", call_queue_arn(call, source->name_owned));
    if (task->destination != 0 && access_covers(call, task->destination_owned))
        writer_text(reply, "DestinationArn", call_queue_arn(call, task->destination_owned));
    if (task->rate != 0)
        writer_number(reply, "MaxNumberOfMessagesPerSecond", task->rate);
    writer_number(reply, "ApproximateNumberOfMessagesMoved", task->moved);
    writer_number(reply, "ApproximateNumberOfMessagesToMove", task->to_move);
    if (task->failure != MOVE_NO_FAILURE)
        writer_string(reply, "FailureReason", failures[task->failure]);
    writer_number(reply, "StartedTimestamp", task->started_at_ms);
    if (task->selection_owned != NULL)
        write_selection(call, task->selection_owned);
    writer_object_end(reply);
}

enum error action_list_message_move_tasks(struct call *call)
{
    struct queue *source;
    int64_t results_max = 1;
    bool is_given;
    enum error error = find_source(call, &source);
    if (error == OK)
        error = params_integer(&call->params, "MaxResults", &results_max, &is_given);
    if (error == OK && (results_max < 1 || results_max > TASKS_LISTED_MAX))
        error = call_fail(
            call, ERROR_INVALID_PARAMETER_VALUE,
            "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 10.");
    if (error != OK)
        return error;
    for (uint32_t i = 0; i < source->move_count && i < (uint32_t)results_max; i++) {
        if (i == 0)
            writer_list_begin(call->reply, "Results");
        write_task(call, source, move_at(call->core, source, i));
    }
    if (source->move_count > 0)
        writer_list_end(call->reply);
    return OK;
}
