/* ListGroups: the groups of a queue, their states, and the reasons. */
#include "api/peek.h"
#include "api/why.h"
#include "core/order/group_list.h"

/* A group has no more: of the id and the reason, each byte may become six. */
#define GROUP_TEXT_MAX ((size_t)8 * 1024)

static const char *const conditions[] = {
    [GROUP_HELD] = "held", [GROUP_PAUSED] = "paused", [GROUP_READY] = "ready", [GROUP_BUSY] = "busy"};

static enum error read_filter(struct call *call, enum group_condition *filter)
{
    struct bytes text = {NULL, 0};
    enum error error = params_text(&call->params, "State", &text);
    *filter = GROUP_ANY;
    if (error != OK || text.ptr == NULL)
        return error;
    for (size_t i = GROUP_ANY + 1; i < ARRAY_LENGTH(conditions); i++) {
        if (bytes_equal(text, bytes_from_string(conditions[i]))) {
            *filter = (enum group_condition)i;
            return OK;
        }
    }
    return params_invalid(&call->params, "State", text, "It must be held, busy, ready or paused.");
}

/* Why the group delivers nothing: the reason of the hold, or the nearest cause that keeps its first message. */
static void write_reason(struct call *call, const struct queue *queue, const struct group_view *view,
                         struct explanation *explanation)
{
    if (view->condition == GROUP_HELD)
        writer_text(call->reply, "Reason", view->reason);
    else if (view->condition == GROUP_PAUSED)
        writer_string(call->reply, "Reason", "paused");
    else if (view->condition == GROUP_READY && queue->is_paused)
        writer_string(call->reply, "Reason", "the queue is paused");
    if (view->condition != GROUP_BUSY || view->head == 0)
        return;
    explain_slot(call->core, queue, view->head, explanation);
    if (explanation->count > 0)
        writer_text(call->reply, "Reason", why_text(call, &explanation->whys[0]));
    if (explanation->count > 0 && explanation->whys[0].since_ms != 0)
        writer_time(call->reply, "Since", explanation->whys[0].since_ms);
}

static void write_group(struct call *call, const struct queue *queue, const struct group_view *view,
                        struct explanation *explanation)
{
    struct writer *reply = call->reply;
    writer_object_begin(reply, NULL);
    writer_text(reply, "MessageGroupId", view->id);
    writer_string(reply, "State", conditions[view->condition]);
    if (view->is_paused)
        writer_boolean(reply, "Paused", true);
    writer_number(reply, "Messages", view->message_count);
    writer_number(reply, "InFlight", view->in_flight_count);
    if (view->since_ms != 0)
        writer_time(reply, "Since", view->since_ms);
    write_reason(call, queue, view, explanation);
    if (view->head_number != 0)
        writer_text(reply, "HeadMessageId", why_message_id(call, view->head_number));
    writer_object_end(reply);
}

static enum error read_group(struct call *call, struct bytes *group)
{
    const enum error error = params_text(&call->params, "MessageGroupId", group);
    return error == OK ? call_check_group(&call->params, *group) : error;
}

enum error action_list_groups(struct call *call)
{
    struct queue *queue;
    enum group_condition filter;
    struct bytes only = {NULL, 0};
    uint64_t position = 0;
    int64_t results_max;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_filter(call, &filter);
    if (error == OK)
        error = read_group(call, &only);
    if (error == OK)
        error = call_page(call, &position, &results_max);
    if (error != OK)
        return error;
    struct group_view *views = arena_allocate(call->arena, (size_t)results_max * sizeof(*views));
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    unsigned count;
    if (only.ptr == NULL) {
        count = group_list(call->core, queue, filter, &position, views, (unsigned)results_max);
    } else {
        count = group_view_find(call->core, queue, only, filter, views) ? 1 : 0;
        position = 0;
    }
    writer_list_begin(call->reply, "Groups");
    const size_t begin = call->reply->out->size;
    for (unsigned i = 0; i < count; i++) {
        if (call->reply->out->size - begin > PEEK_PAGE_MAX - GROUP_TEXT_MAX) {
            position = views[i].position;
            break;
        }
        write_group(call, queue, &views[i], explanation);
    }
    writer_list_end(call->reply);
    if (position != 0)
        call_write_token(call, &position, 1);
    return OK;
}
