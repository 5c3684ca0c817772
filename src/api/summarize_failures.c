/* SummarizeFailures: why the messages of a queue failed, the most frequent reason first. */
#include "api/why.h"
#include "core/messages/failures.h"

#define REASONS_MAX 100u

static void write_reason(struct call *call, const struct failure_reason *reason)
{
    struct writer *reply = call->reply;
    writer_object_begin(reply, NULL);
    writer_text(reply, "Reason", reason->text);
    if (reason->is_cut)
        writer_boolean(reply, "IsCut", true);
    writer_number(reply, "Count", reason->count);
    writer_time(reply, "OldestAt", reason->oldest_ms);
    writer_time(reply, "NewestAt", reason->newest_ms);
    writer_list_begin(reply, "MessageIds");
    for (uint32_t i = 0; i < reason->count && i < FAILURE_SAMPLES_MAX; i++)
        writer_text(reply, NULL, why_message_id(call, reason->samples[i]));
    writer_list_end(reply);
    writer_object_end(reply);
}

enum error action_summarize_failures(struct call *call)
{
    struct queue *queue;
    struct failures failures;
    const enum error error = call_queue(call, &queue);
    if (error != OK)
        return error;
    failures_summarize(call->core, queue, call->arena, &failures);
    writer_list_begin(call->reply, "Reasons");
    for (uint32_t i = 0; i < failures.reason_count && i < REASONS_MAX; i++)
        write_reason(call, &failures.reasons[i]);
    writer_list_end(call->reply);
    writer_number(call->reply, "Looked", failures.looked);
    writer_number(call->reply, "Failed", failures.failed);
    writer_number(call->reply, "WithoutReason", failures.without_reason);
    writer_boolean(call->reply, "IsComplete", failures.is_complete);
    return OK;
}
