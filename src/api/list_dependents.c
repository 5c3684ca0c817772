/* ListDependents: what waits for a message or a batch, or is held because it did not succeed. */
#include "api/access.h"
#include "api/peek.h"
#include "api/reach.h"
#include "core/identity.h"
#include "core/order/dependency_walk.h"
#include "core/state.h"

/* What is asked about; the number is 0 where nothing is known. */
struct subject {
    enum antecedent_kind kind;
    uint64_t number;
};

/* A message that is unknown, or out of reach, is one for which nothing waits. */
static enum error find_message(struct call *call, struct bytes text, struct subject *subject)
{
    uint8_t id[MESSAGE_ID_SIZE];
    const uint64_t number = identity_from_text(text, id) ? explain_find_number(call->core, id) : 0;
    *subject = (struct subject){.kind = ANTECEDENT_MESSAGE};
    if (number != 0 && reach_message(call, number))
        subject->number = number;
    return OK;
}

static enum error find_batch(struct call *call, struct subject *subject)
{
    const struct batch *batch;
    const enum error error = call_batch(call, &batch);
    if (error == OK)
        *subject = (struct subject){.kind = ANTECEDENT_BATCH, .number = batch->number};
    return error;
}

static enum error read_subject(struct call *call, struct subject *subject)
{
    struct bytes message = {NULL, 0}, batch = {NULL, 0};
    enum error error = params_text(&call->params, "MessageId", &message);
    if (error == OK)
        error = params_text(&call->params, "BatchId", &batch);
    if (error != OK)
        return error;
    if ((message.ptr != NULL) == (batch.ptr != NULL))
        return call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain either MessageId or BatchId.");
    return message.ptr != NULL ? find_message(call, message, subject) : find_batch(call, subject);
}

/* The place may be behind a dependent that the caller does not cover. */
static enum error read_place(struct call *call, struct dependency_place *place)
{
    uint64_t numbers[2] = {0};
    bool is_given;
    const enum error error = call_read_token(call, numbers, ARRAY_LENGTH(numbers), &is_given);
    *place = (struct dependency_place){.is_told = numbers[0] != 0, .number = numbers[1]};
    return error;
}

static void write_next_token(struct call *call, const struct dependency_place *place)
{
    const uint64_t numbers[] = {place->is_told, place->number};
    call_write_token(call, numbers, ARRAY_LENGTH(numbers));
}

static void write_dependent(struct call *call, const struct queue *queue, uint32_t slot)
{
    writer_object_begin(call->reply, NULL);
    peek_write_id(call, slot);
    writer_text(call->reply, "QueueUrl", call_queue_url(call, queue));
    writer_string(call->reply, "State", peek_state_name(explain_condition(call->core, queue, slot)));
    writer_object_end(call->reply);
}

/* The queue of a dependent, if the caller covers it. NULL: it does not, or the message was purged. */
static const struct queue *queue_of(struct call *call, uint32_t slot)
{
    const struct message_list *list = core_message_list_at(call->core, core_message(call->core, slot)->message_list);
    const struct queue *queue = list->queue == 0 ? NULL : core_queue(call->core, list->queue);
    return queue != NULL && access_covers(call, queue->name_owned) ? queue : NULL;
}

/* Writes the page. Returns the place behind it; *is_end: there are no more. If only dependents out of reach follow, a
 * token would reveal them. */
static struct dependency_place write_page(struct call *call, const struct subject *subject,
                                          struct dependency_place place, int64_t results_max, bool *is_end)
{
    struct dependency_walk walk;
    struct peek_reads reads = {0};
    int64_t count = 0;
    dependency_walk_begin(&walk, call->core, subject->kind, subject->number, place);
    *is_end = false;
    for (unsigned visits = 0; visits < DEPENDENCY_WALK_VISITS_MAX; visits++) {
        if (count == results_max && !reach_is_confined(call))
            break;
        const struct dependency_place before = walk.place;
        const uint32_t slot = dependency_walk_next(&walk);
        if (slot == 0)
            break;
        const struct queue *queue = queue_of(call, slot);
        if (queue == NULL)
            continue;
        if (count == results_max || !peek_may_write(call, slot, PEEK_NO_BODY, &reads))
            return before;
        write_dependent(call, queue, slot);
        count++;
    }
    *is_end = walk.next == 0 && !walk.is_lost;
    return walk.place;
}

enum error action_list_dependents(struct call *call)
{
    struct subject subject = {.kind = ANTECEDENT_MESSAGE};
    struct dependency_place place;
    int64_t results_max;
    bool is_given, is_end;
    enum error error = read_subject(call, &subject);
    if (error == OK)
        error = call_results_max(call, &results_max, &is_given);
    if (error == OK)
        error = read_place(call, &place);
    if (error != OK)
        return error;
    writer_list_begin(call->reply, "Dependents");
    place = write_page(call, &subject, place, results_max, &is_end);
    writer_list_end(call->reply);
    if (!is_end)
        write_next_token(call, &place);
    return OK;
}
