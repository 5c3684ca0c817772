#include "server/output.h"

/* Bodies up to this size are copied after their heads: cheaper than a piece of their own. */
#define OUTPUT_COPIED_MAX ((size_t)8 * 1024)

/* A piece that directly follows the last piece in the hub's output memory is joined with it. */
static void output_add(struct output *output, void *data, size_t size)
{
    uv_buf_t *last = output->piece_count == 0 ? NULL : &output->pieces[output->piece_count - 1];
    if (last != NULL && last->base + last->len == (char *)data) {
        last->len += size;
    } else {
        ASSERT(output->piece_count < OUTPUT_PIECES_MAX);
        output->pieces[output->piece_count++] = uv_buf_init(data, (unsigned)size);
    }
    output->size += size;
}

static void output_add_pending(struct output *output, struct hub *hub, const struct pending_request *pending)
{
    const struct reply *reply = &pending->exchange.reply;
    struct reply_head head = {
        .status = reply->status,
        .error = reply->error,
        .content_type = reply->content_type,
        .fields = reply->fields,
        .request_id = pending->exchange.request_id,
        .date = hub->date,
        .body_size = reply->body.size,
        .is_http_1_0 = pending->is_http_1_0,
        .is_last = pending->is_last,
        .is_not_owner = reply->is_not_owner,
    };
    uint8_t *at = hub->output_owned + output->used;
    size_t head_size = reply_head_write(&head, at);
    output->used += head_size;
    output_add(output, at, head_size);

    size_t body_size = pending->is_head ? 0 : reply->body.size;
    if (body_size > OUTPUT_COPIED_MAX) {
        output_add(output, reply->body.data_owned, body_size);
    } else if (body_size > 0) {
        at = hub->output_owned + output->used;
        memcpy(at, reply->body.data_owned, body_size);
        output->used += body_size;
        output_add(output, at, body_size);
    }
    output->pending_count++;
    output->is_last = pending->is_last;
}

/* A reply that may be written belongs to a namespace that may answer now. Else it is held once more, and the next turn
 * of the loop looks after the namespace. */
static bool is_shown(struct hub *hub, struct pending_request *pending)
{
    struct served *served = served_of(&pending->exchange);
    if (served == NULL || hub->options.may_answer == NULL)
        return true;
    struct failure ignored;
    if (served->asked_turn != hub->turn)
        (void)served_ask(served, &hub->options, hub->turn, &ignored);
    if (!served->is_withheld)
        return true;
    pending->state = PENDING_IN_API;
    (void)served_hold(served, pending);
    return false;
}

void output_gather(struct output *output, struct hub *hub, const struct list *turns)
{
    output->piece_count = 0;
    output->used = output->size = output->pending_count = 0;
    output->is_last = false;
    struct list_link *link = list_first(turns);
    while (link != NULL && !output->is_last && output->piece_count + 2 <= OUTPUT_PIECES_MAX &&
           output->used + REPLY_HEAD_SIZE_MAX + OUTPUT_COPIED_MAX <= HUB_OUTPUT_SIZE) {
        struct pending_request *pending = CONTAINER_OF(link, struct pending_request, connection_link);
        if (pending->state != PENDING_READY || !is_shown(hub, pending) ||
            !pending_request_may_leave(pending, hub->clock))
            break;
        output_add_pending(output, hub, pending);
        link = list_next(turns, link);
    }
}
