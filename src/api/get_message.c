/* GetMessage: a message wherever it is, seen without being touched. */
#include "api/access.h"
#include "api/peek.h"
#include "api/why.h"

enum error action_get_message(struct call *call)
{
    struct queue *queue = NULL;
    struct bytes text = {NULL, 0};
    enum peek_body body = PEEK_WHOLE;
    uint8_t id[MESSAGE_ID_SIZE];
    enum error error = params_required_text(&call->params, "MessageId", &text);
    if (error == OK)
        error = peek_read_body(call, &body);
    if (error != OK)
        return error;
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    const uint32_t slot = identity_from_text(text, id) ? explain_find(call->core, id, &queue) : 0;
    if (slot != 0 && access_covers(call, queue->name_owned)) {
        writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
        peek_write(call, queue, slot, body, WHYS_MAX, explanation);
        return OK;
    }
    queue = NULL;
    why_explain(call, text, &queue, explanation); /* what is remembered of its end, if anything */
    writer_string(call->reply, "State", peek_state_name(explanation->condition));
    writer_list_begin(call->reply, "Why");
    why_write_each(call, explanation, WHYS_MAX);
    writer_list_end(call->reply);
    return OK;
}
