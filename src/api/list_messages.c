/* ListMessages: the messages of a queue, oldest first, seen without being touched. */
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

/* Writes the page. Returns the place behind it; *is_end: there are no more. */
static struct message_place write_page(struct call *call, const struct queue *queue,
                                       const struct message_filter *filter, struct message_place place,
                                       enum peek_body body, int64_t results_max, bool *is_end)
{
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    struct message_walk walk;
    int64_t count = 0;
    struct peek_reads reads = {0};
    const size_t begin = call->reply->out->size;
    message_walk_begin(&walk, call->core, queue, place);
    *is_end = false;
    if (walk.is_lost)
        return walk.place;
    for (unsigned visits = 0; visits < MESSAGE_WALK_VISITS_MAX && count < results_max; visits++) {
        const struct message_place before = walk.place;
        const uint32_t slot = message_walk_next(&walk);
        if (slot == 0) {
            *is_end = true;
            return walk.place;
        }
        if (!message_filter_takes(filter, call->core, queue, slot))
            continue;
        if ((count > 0 && peek_page_is_full(call, slot, body, begin)) || !peek_may_write(call, slot, body, &reads))
            return before;
        writer_object_begin(call->reply, NULL);
        peek_write(call, queue, slot, body, 1, explanation);
        writer_object_end(call->reply);
        count++;
    }
    *is_end = message_walk_is_over(&walk);
    return walk.place;
}

enum error action_list_messages(struct call *call)
{
    struct queue *queue;
    struct message_filter filter;
    struct message_place place;
    enum peek_body body = PEEK_NO_BODY;
    int64_t results_max;
    bool is_given, is_end;
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_filter(call, &filter);
    if (error == OK)
        error = peek_read_body(call, &body);
    if (error == OK)
        error = call_results_max(call, &results_max, &is_given);
    if (error == OK)
        error = read_place(call, &place);
    if (error != OK)
        return error;
    writer_list_begin(call->reply, "Messages");
    place = write_page(call, queue, &filter, place, body, results_max, &is_end);
    writer_list_end(call->reply);
    if (!is_end)
        write_next_token(call, place);
    return OK;
}
