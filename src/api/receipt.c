#include "api/receipt.h"

#include "api/state.h"

void receipt_note(struct call *call, const struct receipt_use *use)
{
    call->api->stale_count += use->is_stale;
}

void receipt_note_delete(struct call *call, struct queue *queue, const struct receipt_use *use)
{
    struct queue_lateness *lateness = &queue->lateness;
    receipt_note(call, use);
    lateness->count += use->is_late;
    if (lateness->longest_ms < use->late_ms)
        lateness->longest_ms = use->late_ms;
}

enum error receipt_answer(struct call *call, const struct params *params, const struct queue *queue,
                          struct bytes handle, enum error error, const struct receipt_use *use)
{
    if (error == ERROR_INVALID_PARAMETER_VALUE)
        return params_invalid(params, "ReceiptHandle", handle, "The receipt handle has expired.");
    if (error != ERROR_RECEIPT_HANDLE_IS_INVALID)
        return error;
    if (!use->is_stale)
        return call_fail_handle(call, handle);
    return call_fail(call, error,
                     "The input receipt handle \"%.*s\" is not a valid receipt handle. Reason: It is not the newest "
                     "one of its message, %s. Nothing was changed.",
                     (int)(handle.size < 100 ? handle.size : 100), (const char *)handle.ptr,
                     queue->settings.is_fifo         ? "and a FIFO queue takes no other"
                     : queue->settings.refuses_stale ? "and Tally.StaleReceipts of this queue is refuse"
                                                     : "whose attempt is over");
}

void receipt_explain(struct call *call, const struct queue *queue)
{
    const struct queue_lateness *lateness = &queue->lateness;
    struct writer *reply = call->reply;
    if (lateness->count == 0)
        return;
    unsigned long long count = (unsigned long long)lateness->count, tenths = (lateness->longest_ms + 50) / 100;
    writer_object_begin(reply, NULL);
    writer_string(reply, "Code", "SlowWorkers");
    writer_text(reply, "Text",
                arena_format(call->arena,
                             "Its workers are too slow: %s %s%llu.%llu s after its visibility timeout, %llu %s in this "
                             "queue since tallyd was started. Let them have more time (VisibilityTimeout), or prolong "
                             "it while they work (ChangeMessageVisibility).",
                             queue_refuses_stale(queue) ? "a delete came" : "deleted", count > 1 ? "up to " : "",
                             tenths / 10, tenths % 10, count, count == 1 ? "time" : "times"));
    writer_number(reply, "Count", lateness->count);
    writer_time(reply, "Late", lateness->longest_ms);
    writer_object_end(reply);
}
