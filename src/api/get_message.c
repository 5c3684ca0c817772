/* GetMessage: a message wherever it is, seen without being touched. */
#include "api/access.h"
#include "api/peek.h"
#include "api/reach.h"
#include "api/why.h"

/* It is in no queue that the caller covers: what is remembered of its end, if anything. */
static void write_absent(struct call *call, const uint8_t *id, bool is_out_of_reach, struct explanation *explanation)
{
    *explanation = (struct explanation){.condition = CONDITION_UNKNOWN};
    if (id != NULL && !is_out_of_reach && !reach_is_confined(call))
        explain_message(call->core, NULL, id, explanation);
    writer_string(call->reply, "State", peek_state_name(explanation->condition));
    writer_list_begin(call->reply, "Why");
    for (unsigned i = 0; i < explanation->count; i++)
        why_write(call, &explanation->whys[i]);
    writer_list_end(call->reply);
}

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
    const bool is_id = identity_from_text(text, id);
    const uint32_t slot = is_id ? explain_find(call->core, id, &queue) : 0;
    if (slot == 0 || !access_covers(call, queue->name_owned)) {
        write_absent(call, is_id ? id : NULL, slot != 0, explanation);
        return OK;
    }
    writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
    peek_write(call, queue, slot, body, WHYS_MAX, explanation);
    return OK;
}
