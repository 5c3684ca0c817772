/* ReceiveMessage, at once or after a wait. */
#include "api/access.h"
#include "api/activity.h"
#include "api/growth.h"
#include "api/holder_view.h"
#include "api/received_view.h"
#include "api/state.h"
#include "api/text.h"
#include "api/wait.h"
#include "core/deduplication/deduplication.h"
#include "core/messages/decide_receive.h"
#include "engine/grant.h"
#include "log/log.h"

#include <stdio.h>

#define ATTEMPT_SIZE_MAX 128u

static void write_message(struct call *call, const struct receive_command *command, bool is_fifo,
                          const struct received_message *message, const struct content *content)
{
    char handle[HANDLE_TEXT_SIZE];
    handle_to_text(call_digest(call), &message->handle, handle);
    const struct received_view view = {
        .command = command, .is_fifo = is_fifo, .handle = bytes_make(handle, sizeof(handle))};
    received_view_write(call, &view, message, content);
}

/* For FeedEvents: the first, the second, the fourth and so on, because receivers try again and again. */
static void note_damage(struct call *call)
{
    const uint64_t count = ++call->api->damaged_count;
    char text[160];
    if ((count & (count - 1)) != 0)
        return;
    (void)snprintf(text, sizeof(text),
                   "The log can't be read where a message of this queue stands. Failed reads since the start: %llu.",
                   (unsigned long long)count);
    activity_add(call->api, call->now_ms,
                 &(struct activity_note){.kind = ACTIVITY_SERVER,
                                         .action = "ContentDamaged",
                                         .queue = call->queue_asked,
                                         .text = bytes_from_string(text)});
}

/* Reads a message's content back from the log. */
static bool read_content(struct call *call, const struct received_message *message, struct content *content)
{
    const uint8_t *bytes = namespace_read(call->ns, message->position, message->content_size);
    if (bytes != NULL && content_decode(bytes_make(bytes, message->content_size), content))
        return true;
    note_damage(call);
    return false;
}

/* None of the received messages could be read back. */
static enum error fail_damaged(struct call *call, const struct received_message *messages, unsigned count)
{
    struct buffer *scratch = call_scratch(call);
    buffer_truncate(scratch, 0);
    log_name_position(namespace_log(call->ns), messages[0].position, scratch);
    return call_fail(
        call, ERROR_INTERNAL_FAILURE,
        "The bodies of %u messages could not be read back: the log is damaged at %.*s in the data folder; put the "
        "file back from a backup.",
        count, BYTES_FORMAT(buffer_bytes(scratch)));
}

/* The reply gives the leases of these deliveries. */
static void grant_leases(struct call *call, const struct queue *queue, const struct receive_command *command,
                         const struct received_message *messages, unsigned count)
{
    if (count == 0 || command->timeout_ms == 0 || queue->settings.is_at_most_once)
        return;
    struct granted_lease *leases = grants_add(namespace_grants(call->ns), &call->exchange->grant_owned, count,
                                              command->timeout_ms, core_now_ms(call->core));
    for (unsigned i = 0; i < count; i++) {
        leases[i].message = messages[i].handle.message;
        leases[i].delivery = messages[i].handle.delivery;
    }
    call->exchange->grant_owned->is_unrepeatable = command->attempt.size == 0; /* else a repeat gets them */
}

/* Takes messages, or repeats those of an earlier receive with the same attempt id. */
static enum error take(struct call *call, struct queue *queue, const struct receive_command *command,
                       struct received_message messages[RECEIVE_MAX], unsigned *count)
{
    bool has_attempt = queue->settings.is_fifo && command->attempt.size > 0;
    enum error error = OK;
    *count = 0;
    if (has_attempt)
        error = decide_receive_again(call->core, queue, command->attempt, command->timeout_ms, messages, count);
    if (error != OK)
        return params_invalid(&(struct params){.failure = call->failure}, "ReceiveRequestAttemptId", command->attempt,
                              "The receiveRequestAttemptId is not valid anymore since the receive call is not "
                              "retryable.");
    if (*count > 0)
        return OK;
    uint32_t in_flight_max = namespace_in_flight_max(call->ns);
    error = decide_receive(call->core, queue, command->count_max, command->timeout_ms, in_flight_max, messages, count);
    if (error == ERROR_OVER_LIMIT)
        return call_fail(call, error, "The queue has %u messages in flight, its limit; delete some first.",
                         in_flight_max);
    /* A receive ends something and is never refused, but remembering its attempt id would add state. Without that, a
     * repeat is a new receive. */
    if (has_attempt && *count > 0 && !growth_is_held(call->api))
        decide_remember_attempt(call->core, queue, command->attempt, messages, *count);
    return error;
}

/* The caller has these messages now; of one that has waited, only who it was is left. */
static void note_holder(struct call *call, const struct receive_command *command,
                        const struct received_message *messages, unsigned count)
{
    const uint32_t holder = command->has_waited ? command->holder : holder_view_use(call);
    for (unsigned i = 0; i < count; i++)
        if (messages[i].slot != 0)
            holder_note(call->core, messages[i].slot, holder);
    if (!command->has_waited)
        holder_release(call->core, holder);
}

enum error receive_now(struct call *call, struct queue *queue, const struct receive_command *command, unsigned *count)
{
    struct received_message messages[RECEIVE_MAX];
    unsigned received;
    queue_counters_note_receive(&queue->counters, core_now_ms(call->core), false);
    enum error error = take(call, queue, command, messages, &received);
    if (error != OK)
        return error;
    *count = 0;
    if (received > 0)
        note_holder(call, command, messages, received);
    for (unsigned i = 0; i < received; i++) {
        struct content content;
        if (!read_content(call, &messages[i], &content))
            continue; /* it stays in flight, and in the end goes to the dead-letter queue, if there is one */
        if (*count == 0)
            writer_list_begin(call->reply, "Messages");
        write_message(call, command, queue->settings.is_fifo, &messages[i], &content);
        if (*count < i)
            messages[*count] = messages[i];
        (*count)++;
    }
    if (*count > 0)
        writer_list_end(call->reply);
    grant_leases(call, queue, command, messages, *count);
    return *count == 0 && received > 0 ? fail_damaged(call, messages, received) : OK;
}

/* --- the action --------------------------------------------------------------------------------------------------- */

static enum error read_attempt(const struct params *params, struct receive_command *command)
{
    enum error error = params_text(params, "ReceiveRequestAttemptId", &command->attempt);
    if (error == OK && command->attempt.ptr != NULL && !text_is_identifier(command->attempt, ATTEMPT_SIZE_MAX))
        return params_invalid(
            params, "ReceiveRequestAttemptId", command->attempt,
            "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.");
    return error;
}

static enum error read_command(struct call *call, const struct queue *queue, struct receive_command *command,
                               int64_t *wait_s)
{
    int64_t count_max = 1, timeout_s = queue->settings.visibility_timeout_s;
    *wait_s = queue->settings.wait_s;
    *command = (struct receive_command){0};
    const struct params *params = &call->params;
    enum error error = params_integer_in(params, "MaxNumberOfMessages", 1, RECEIVE_MAX,
                                         "Must be between 1 and 10, if provided.", &count_max);
    if (error == OK)
        error = params_integer_in(params, "WaitTimeSeconds", 0, 20, "Must be >= 0 and <= 20, if provided.", wait_s);
    if (error == OK)
        error = params_integer_in(params, "VisibilityTimeout", 0, 43200, "Must be >= 0 and <= 43200, if provided.",
                                  &timeout_s);
    if (error == OK)
        error = params_names(params, "MessageSystemAttributeNames", &command->attribute_names[0]);
    if (error == OK)
        error = params_names(params, "AttributeNames", &command->attribute_names[1]);
    if (error == OK)
        error = params_names(params, "MessageAttributeNames", &command->message_attribute_names);
    if (error == OK && queue->settings.is_fifo)
        error = read_attempt(params, command);
    command->count_max = (unsigned)count_max;
    command->timeout_ms = (uint32_t)timeout_s * 1000;
    return error;
}

/* A receive that waits keeps its names. The limit is many times what makes sense. */
#define REQUEST_SIZE_MAX 65536u

enum error action_receive_message(struct call *call)
{
    if (call->exchange->request.body.size > REQUEST_SIZE_MAX)
        return call_fail(call, ERROR_REQUEST_TOO_LARGE, "A ReceiveMessage request has %zu bytes; the limit is %u.",
                         call->exchange->request.body.size, REQUEST_SIZE_MAX);
    struct queue *queue;
    struct receive_command command;
    int64_t wait_s;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_command(call, queue, &command, &wait_s);
    if (error != OK)
        return error;
    unsigned count = 0;
    /* Those who already wait come first, but not before a repeat of an answered receive. */
    bool is_repeat =
        command.attempt.size > 0 && deduplication_find_attempt(call->core, queue, command.attempt).size > 0;
    if (!wait_receive_is_awaited(call->api, queue) || wait_s == 0 || is_repeat)
        error = receive_now(call, queue, &command, &count);
    if (error != OK || count > 0)
        return error;
    /* If there is no room for what it would keep, it is answered at once with no messages, as at the end of its
     * time. */
    if (wait_s > 0 && wait_receive_has_room(call, &command))
        wait_receive(call, queue, &command, call->now_ms + (uint64_t)wait_s * 1000);
    else
        queue_counters_note_receive(&queue->counters, core_now_ms(call->core), true);
    return OK;
}
