/* ExplainMessage: where a message is, and why it is not delivered. */
#include "api/peek.h"
#include "api/receipt.h"
#include "api/why.h"

enum error action_explain_message(struct call *call)
{
    struct queue *queue;
    struct bytes text = {NULL, 0};
    enum error error = call_optional_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "MessageId", &text);
    if (error != OK)
        return error;
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    why_explain(call, text, &queue, explanation);
    writer_string(call->reply, "State", peek_state_name(explanation->condition));
    writer_list_begin(call->reply, "Why");
    why_write_each(call, explanation, WHYS_MAX);
    if (explanation->is_received && queue != NULL)
        receipt_explain(call, queue);
    writer_list_end(call->reply);
    return OK;
}
