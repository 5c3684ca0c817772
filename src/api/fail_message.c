/* FailMessage: ends this attempt now, with a reason. The queue's settings or the request decide what follows. */
#include "api/access.h"
#include "api/growth.h"
#include "api/queue_attributes.h"
#include "api/receipt.h"
#include "api/text.h"
#include "core/messages/message_extra.h"

#define RETRY_AFTER_S_MAX 43200
#define ATTEMPTS_MAX 1000

static enum error read_reason(struct call *call, struct bytes *reason)
{
    enum error error = params_text(&call->params, "Reason", reason);
    if (error != OK)
        return error;
    if (reason->size > FAILURE_REASON_SIZE_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Reason has %zu bytes; the limit is %u.", reason->size,
                         FAILURE_REASON_SIZE_MAX);
    if (!text_is_allowed(*reason))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Reason contains characters that a message attribute can't have.");
    return reason->size > 0 ? growth_check(call, GROWTH_LITTLE) : OK; /* it stays with the message */
}

static enum error read_back_off(struct call *call, struct failed_attempt *attempt)
{
    int64_t wait_s = -1;
    yyjson_val *object = NULL;
    enum error error = params_integer_in(&call->params, "RetryAfterSeconds", 0, RETRY_AFTER_S_MAX,
                                         "Must be between 0 and 43200, if provided.", &wait_s);
    attempt->has_wait = wait_s >= 0;
    attempt->wait_ms = attempt->has_wait ? (uint32_t)wait_s * 1000 : 0;
    if (error == OK)
        error = params_object(&call->params, "Backoff", &object);
    if (error == OK && object != NULL && !queue_attribute_read_backoff(object, &attempt->backoff))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Value for parameter Backoff is invalid. Reason: " BACKOFF_RULE ".");
    return error;
}

static enum error read_attempts_max(struct call *call, struct failed_attempt *attempt)
{
    int64_t value = 0;
    enum error error = params_integer_in(&call->params, "MaxAttempts", 1, ATTEMPTS_MAX,
                                         "Must be between 1 and 1000, if provided.", &value);
    attempt->attempts_max = (uint32_t)value;
    return error;
}

/* Where the message goes if no attempt is left. That is a send, too, so the caller needs the right to send. */
static enum error read_dead_letters(struct call *call, const struct queue *queue, struct failed_attempt *attempt)
{
    struct bytes url = {NULL, 0};
    struct queue *target = NULL;
    const char *reason = NULL;
    enum error error = params_text(&call->params, "DeadLetterQueueUrl", &url);
    if (error != OK || url.ptr == NULL)
        return error;
    if (url.size == 0) /* perhaps a variable that was not set: the message must not be dropped because of that */
        return params_invalid(&call->params, "DeadLetterQueueUrl", url, "It names no queue.");
    error = access_check_right(call, RIGHT_WRITE);
    if (error == OK)
        error = call_find_queue_at(call, url, &target);
    if (error != OK)
        return error;
    if (target == queue)
        reason = "A queue can't be its own dead-letter queue.";
    else if (target->settings.is_fifo != queue->settings.is_fifo)
        reason = "Dead-letter queue must be same type of queue as the source.";
    else if (!queue_attributes_allow_source(call, target, queue->name_owned))
        reason = "The RedriveAllowPolicy of the dead-letter queue does not allow this queue as a source.";
    attempt->dead_letters = target;
    return reason == NULL ? OK : params_invalid(&call->params, "DeadLetterQueueUrl", url, reason);
}

static enum error read_attempt(struct call *call, const struct queue *queue, struct failed_attempt *attempt)
{
    enum error error = read_reason(call, &attempt->reason);
    if (error == OK)
        error = params_boolean(&call->params, "Final", &attempt->is_final);
    if (error == OK)
        error = read_back_off(call, attempt);
    if (error == OK)
        error = read_attempts_max(call, attempt);
    return error == OK ? read_dead_letters(call, queue, attempt) : error;
}

static void write_result(struct call *call, const struct failure_result *result)
{
    static const char *const outcomes[] = {[FAILURE_IGNORED] = "ignored",
                                           [FAILURE_RETURNED] = "returned",
                                           [FAILURE_DEAD_LETTERED] = "dead-lettered",
                                           [FAILURE_DROPPED] = "dropped",
                                           [FAILURE_HELD] = "held"};
    writer_string(call->reply, "Outcome", outcomes[result->outcome]);
    if (result->attempt != 0)
        writer_number(call->reply, "Attempt", result->attempt);
    if (result->attempts_max != 0)
        writer_number(call->reply, "MaxAttempts", result->attempts_max);
    if (result->outcome == FAILURE_RETURNED)
        writer_time(call->reply, "RetryAfterSeconds", result->wait_ms);
    if (result->dead_letters != NULL && access_covers(call, result->dead_letters->name_owned))
        writer_text(call->reply, "QueueName", result->dead_letters->name_owned);
}

enum error action_fail_message(struct call *call)
{
    struct queue *queue;
    struct bytes handle = {NULL, 0};
    struct failed_attempt attempt = {.is_final = false};
    struct failure_result result;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "ReceiptHandle", &handle);
    if (error == OK)
        error = read_attempt(call, queue, &attempt);
    if (error != OK)
        return error;
    error = decide_fail(call->core, queue, handle, &attempt, &result);
    receipt_note(call, &result.use);
    if (error == OK)
        write_result(call, &result);
    if (error == ERROR_UNSUPPORTED_OPERATION)
        return call_fail(call, error,
                         "DeadLetterQueueUrl: messages that stand before this one in its group are still in hand, and "
                         "with Tally.OnGroupFailure cancel-rest it is given up behind them, as its queue's "
                         "RedrivePolicy says. End those first. Nothing was changed.");
    return receipt_answer(call, &call->params, queue, handle, error, &result.use);
}
