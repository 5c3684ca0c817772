/* ExplainMessage: where a message is, and why it is not delivered. */
#include "api/access.h"
#include "api/peek.h"
#include "api/reach.h"
#include "api/receipt.h"
#include "api/why.h"

/* The queue that the request names; none: *queue is NULL. */
static enum error read_queue(struct call *call, struct queue **queue)
{
    struct bytes url = {NULL, 0};
    const enum error error = params_text(&call->params, "QueueUrl", &url);
    *queue = NULL;
    return error != OK || (url.ptr == NULL && call_url(call).size == 0) ? error : call_queue(call, queue);
}

/* *queue: the one that was named, or where it is. */
static void explain(struct call *call, struct bytes text, struct queue **queue, struct explanation *explanation)
{
    uint8_t id[MESSAGE_ID_SIZE];
    *explanation = (struct explanation){.condition = CONDITION_UNKNOWN};
    if (!identity_from_text(text, id))
        return;
    if (*queue == NULL && explain_find(call->core, id, queue) != 0 && !access_covers(call, (*queue)->name_owned))
        return;
    explain_message(call->core, *queue, id, explanation);
    if (explanation->is_gone && reach_is_confined(call))
        *explanation = (struct explanation){.condition = CONDITION_UNKNOWN}; /* it may have been in any queue */
}

enum error action_explain_message(struct call *call)
{
    struct queue *queue;
    struct bytes text = {NULL, 0};
    enum error error = read_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "MessageId", &text);
    if (error != OK)
        return error;
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    explain(call, text, &queue, explanation);
    writer_string(call->reply, "State", peek_state_name(explanation->condition));
    writer_list_begin(call->reply, "Why");
    for (unsigned i = 0; i < explanation->count; i++)
        why_write(call, &explanation->whys[i]);
    if (explanation->is_received && queue != NULL)
        receipt_explain(call, queue);
    writer_list_end(call->reply);
    return OK;
}
