/* ExplainMessage: where a message is, and why it is not delivered. */
#include "api/reach.h"
#include "api/receipt.h"
#include "api/why.h"

static const char *const conditions[] = {
    [CONDITION_READY] = "ready",     [CONDITION_DELAYED] = "delayed", [CONDITION_IN_FLIGHT] = "in-flight",
    [CONDITION_BLOCKED] = "blocked", [CONDITION_HELD] = "held",       [CONDITION_ENDED] = "ended",
    [CONDITION_UNKNOWN] = "unknown",
};

enum error action_explain_message(struct call *call)
{
    struct queue *queue;
    struct bytes text = {NULL, 0};
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "MessageId", &text);
    if (error != OK)
        return error;
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    uint8_t id[MESSAGE_ID_SIZE];
    if (identity_from_text(text, id))
        explain_message(call->core, queue, id, explanation);
    else
        *explanation = (struct explanation){.condition = CONDITION_UNKNOWN};
    if (explanation->is_gone && reach_is_confined(call))
        *explanation = (struct explanation){.condition = CONDITION_UNKNOWN}; /* it may have been in any queue */
    writer_string(call->reply, "State", conditions[explanation->condition]);
    writer_list_begin(call->reply, "Why");
    for (unsigned i = 0; i < explanation->count; i++)
        why_write(call, &explanation->whys[i]);
    if (explanation->is_received)
        receipt_explain(call, queue);
    writer_list_end(call->reply);
    return OK;
}
