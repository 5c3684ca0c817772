/* ListMessages: the messages of a queue, oldest first, seen without being touched. */
#include "api/list_received.h"
#include "api/peek.h"
#include "core/state.h"

#define AGE_S_MAX 1209600 /* the longest retention */

/* --- parameters --------------------------------------------------------------------------------------------------- */

static enum error read_state(struct call *call, struct message_filter *filter)
{
    struct bytes text = {NULL, 0};
    const enum error error = params_text(&call->params, "State", &text);
    if (error != OK || text.ptr == NULL)
        return error;
    filter->has_condition = peek_state_find(text, &filter->condition) && filter->condition < CONDITION_ENDED;
    if (filter->has_condition)
        return OK;
    return params_invalid(&call->params, "State", text, "It must be ready, delayed, in-flight, blocked or held.");
}

static enum error read_batch(struct call *call, struct message_filter *filter)
{
    const struct batch *batch;
    struct bytes text = {NULL, 0};
    enum error error = params_text(&call->params, "BatchId", &text);
    if (error == OK && text.ptr != NULL)
        error = call_batch(call, &batch);
    if (error == OK && text.ptr != NULL)
        filter->batch = core_find_batch_by_number(call->core, batch->number);
    return error;
}

static enum error read_filter(struct call *call, struct message_filter *filter)
{
    int64_t older_s = 0;
    *filter = (struct message_filter){0};
    enum error error = read_state(call, filter);
    if (error == OK)
        error = params_text(&call->params, "MessageGroupId", &filter->group);
    if (error == OK)
        error = call_check_group(&call->params, filter->group);
    if (error == OK)
        error = params_text(&call->params, "Reason", &filter->reason);
    if (error == OK)
        error = read_batch(call, filter);
    if (error == OK)
        error = params_integer_in(&call->params, "OlderThan", 0, AGE_S_MAX, "Must be a number of seconds.", &older_s);
    if (error == OK && older_s > 0)
        filter->sent_before_ms = call->now_ms - (uint64_t)older_s * 1000;
    return error;
}

static enum error read_place(struct call *call, struct message_place *place)
{
    uint64_t numbers[PEEK_PLACE_NUMBERS] = {0};
    bool is_given;
    const enum error error = call_read_token(call, numbers, PEEK_PLACE_NUMBERS, &is_given);
    if (error != OK)
        return error;
    return peek_place_from_numbers(numbers, place) ? OK : call_fail_token(call);
}

static void write_next_token(struct call *call, struct message_place place)
{
    uint64_t numbers[PEEK_PLACE_NUMBERS];
    peek_place_to_numbers(place, numbers);
    call_write_token(call, numbers, PEEK_PLACE_NUMBERS);
}

/* --- the action --------------------------------------------------------------------------------------------------- */

struct page {
    struct call *call;
    const struct queue *queue;
    struct message_filter filter;
    enum peek_body body;
    bool is_received;          /* in the form of a receive, and then for `look` instead of the filter */
    struct received_look look; /* as they are of the message that was taken last */
    int64_t results_max;
    struct explanation *explanation;
};

static bool page_takes(struct page *page, uint32_t slot)
{
    if (page->is_received)
        return list_received_takes(page->call, page->queue, slot, &page->look);
    return message_filter_takes(&page->filter, page->call->core, page->queue, slot);
}

static void page_write_message(const struct page *page, uint32_t slot)
{
    struct call *call = page->call;
    if (page->is_received) {
        list_received_write(call, page->queue, slot, &page->look);
        return;
    }
    writer_object_begin(call->reply, NULL);
    peek_write(call, page->queue, slot, page->body, 1, page->explanation);
    writer_object_end(call->reply);
}

/* Writes the page. Returns the place behind it; *is_end: there are no more. */
static struct message_place page_write(struct page *page, struct message_place place, bool *is_end)
{
    struct call *call = page->call;
    struct message_walk walk;
    int64_t count = 0;
    struct peek_reads reads = {0};
    const size_t begin = call->reply->out->size;
    message_walk_begin(&walk, call->core, page->queue, place);
    *is_end = false;
    if (walk.is_lost)
        return walk.place;
    for (unsigned visits = 0; visits < MESSAGE_WALK_VISITS_MAX && count < page->results_max; visits++) {
        const struct message_place before = walk.place;
        const uint32_t slot = message_walk_next(&walk);
        if (slot == 0) {
            *is_end = true;
            return walk.place;
        }
        if (!page_takes(page, slot))
            continue;
        if ((count > 0 && peek_page_is_full(call, slot, page->body, begin)) ||
            !peek_may_write(call, slot, page->body, &reads))
            return before;
        page_write_message(page, slot);
        count++;
    }
    *is_end = message_walk_is_over(&walk);
    return walk.place;
}

static enum error read_page(struct call *call, struct page *page)
{
    page->body = page->is_received ? PEEK_WHOLE : PEEK_NO_BODY;
    enum error error = page->is_received ? list_received_read(call, &page->look) : read_filter(call, &page->filter);
    if (error == OK && !page->is_received)
        error = peek_read_body(call, &page->body);
    bool is_given;
    return error != OK ? error : call_results_max(call, &page->results_max, &is_given);
}

enum error action_list_messages(struct call *call)
{
    struct queue *queue;
    struct message_place place;
    struct page page = {.call = call, .is_received = call->exchange->is_as_received};
    bool is_end;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_page(call, &page);
    if (error == OK)
        error = read_place(call, &place);
    if (error != OK)
        return error;
    page.queue = queue;
    page.explanation = arena_allocate(call->arena, sizeof(*page.explanation));
    writer_list_begin(call->reply, "Messages");
    place = page_write(&page, place, &is_end);
    writer_list_end(call->reply);
    if (!is_end)
        write_next_token(call, place);
    return OK;
}
