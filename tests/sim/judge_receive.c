/* Follows the server, one thing after the other, through what it took and put aside (witness.h), and judges receives by
 * it. */
#include "judge.h"

#include "core/core.h"
#include "core/identity.h"
#include "fail.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- what the server did, one thing after the other --------------------------------------------------------------- */

int find_number(const struct model *model, uint64_t number)
{
    for (int i = model->message_count - 1; i >= 0; i--)
        if (model->messages[i].number == number)
            return i;
    return NONE;
}

/* Does the moved message take a place in a group? */
static bool takes_place(const struct oracle *oracle, const struct sight *moved)
{
    const struct model *model = &oracle->model;
    if (moved->queue < model->queue_count && model->queues[moved->queue].traits.is_fifo)
        return true;
    uint64_t number = moved->number;
    for (const struct sight *before = moved; before > oracle->witness.sights; before--)
        if (before[-1].kind == SIGHT_REDRIVEN && before[-1].successor == number)
            number = before[-1].number; /* in this very call */
    int index = find_number(model, number);
    if (index != NONE)
        return model->messages[index].group >= 0;
    for (const struct sight *sent = oracle->witness.sights; sent < moved; sent++)
        if (sent->kind == SIGHT_SENT && sent->number == moved->number)
            return sent->group != NONE; /* in this very call */
    return false;
}

/* The id that goes with a number. */
static void name_number(struct sight *sight, uint64_t number, const struct core *core)
{
    uint8_t id[MESSAGE_ID_SIZE];
    identity_message(core_digest(core), number, id);
    identity_to_text(id, sight->id);
}

/* A redriven message takes the next number, and goes by the id that goes with it. */
static void name_successor(struct witness *witness, struct sight *sight, const struct core *core)
{
    if (sight->successor != ++witness->message_number)
        fail("message %" PRIu64 " got number %" PRIu64 "; %" PRIu64 " comes next", sight->number, sight->successor,
             witness->message_number);
    name_number(sight, sight->successor, core);
}

void oracle_observe(struct oracle *oracle, const struct core *core)
{
    struct witness *witness = &oracle->witness;
    unsigned i = witness->count;
    witness_observe(witness, core);
    for (; i < witness->count; i++) {
        struct sight *sight = &witness->sights[i];
        if (sight->kind == SIGHT_REDRIVEN || sight->kind == SIGHT_REPLACED)
            name_successor(witness, sight, core);
        if (sight->kind == SIGHT_SENT)
            name_number(sight, sight->number, core);
        if (sight->kind != SIGHT_SENT && (sight->kind != SIGHT_MOVED || !takes_place(oracle, sight)))
            continue;
        sight->line = ++witness->message_number;
        if (sight->kind == SIGHT_SENT && sight->number != sight->line)
            fail("message number %" PRIu64 " was given out; %" PRIu64 " comes next", sight->number, sight->line);
    }
}

/* The message that a sight of a send is of, among those whose number is not known yet; or NONE. */
static int find_numberless(const struct model *model, const struct sight *sight)
{
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        bool is_like = sight->completes == 0
                           ? message->completes == 0
                           : message->completes == sight->completes && message->batch + 1 == (int)sight->batch;
        if (message->number == 0 && is_like)
            return i;
    }
    return NONE;
}

void learn_numbers(struct oracle *oracle)
{
    struct model *model = &oracle->model;
    for (unsigned i = 0; i < oracle->witness.count; i++) {
        struct sight *sight = &oracle->witness.sights[i];
        if (sight->is_known || (sight->kind != SIGHT_SENT && (sight->kind != SIGHT_MOVED || sight->line == 0)))
            continue;
        int index = sight->kind == SIGHT_SENT ? find_numberless(model, sight) : find_number(model, sight->number);
        if (index == NONE || (sight->kind == SIGHT_MOVED && model->messages[index].queue != sight->queue))
            continue;
        sight->is_known = true;
        struct model_message *message = &model->messages[index];
        message->line = sight->line;
        if (sight->kind != SIGHT_SENT)
            continue;
        message->number = message->order = sight->number;
        if (message->completes == 0 && message->id[0] == '\0') {
            memcpy(message->id, sight->id, IDENTITY_TEXT_SIZE);
            message->id[IDENTITY_TEXT_SIZE] = '\0';
        }
    }
}

/* Has the model done so already, as part of what the call was for? */
static bool is_accounted(struct model *model, const struct sight *sight)
{
    if (sight->kind == SIGHT_HELD)
        return model_is_held(model, model_group(model, sight->queue, sight->group));
    if (sight->kind == SIGHT_REDRIVEN || sight->kind == SIGHT_MOVE_ENDED)
        return false;
    int index = find_number(model, sight->number);
    if (index == NONE)
        return false;
    const struct model_message *message = &model->messages[index];
    if (sight->kind == SIGHT_MOVED)
        return message->is_moved && message->queue == sight->queue;
    return (sight->kind == SIGHT_ENDED || sight->kind == SIGHT_PURGED || sight->kind == SIGHT_REPLACED) &&
           !message->is_alive;
}

static void follow_moved(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("message %" PRIu64 ", which no send made, was dead-lettered", sight->number);
    struct model_message *message = &model->messages[index];
    const char *why = model_put_aside(model, index);
    if (why != NULL)
        fail_message(model, index, "was dead-lettered", why);
    if (message->queue != sight->queue)
        fail_message(model, index, "went to the wrong queue", "should have gone elsewhere");
}

static void follow_redriven(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("message %" PRIu64 ", which no send made, was redriven", sight->number);
    const char *why = model_redrive(model, index, sight->queue, sight->successor, sight->line, sight->id);
    if (why != NULL)
        fail_message(model, index, "was redriven", why);
}

static void follow_task(struct oracle *oracle, const struct sight *sight)
{
    const char *why = model_end_task(&oracle->model, sight->queue, sight->status, sight->failure);
    if (why != NULL)
        fail("the move task of q%d ended, but %s", oracle->model.queues[sight->queue].name, why);
}

static void follow_ended(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("message %" PRIu64 ", which no send made, was ended", sight->number);
    const char *why = model_put_aside(model, index);
    if (why != NULL && model_end_by_task(model, index) != NULL)
        fail_message(model, index, "was ended", why);
    if (model->messages[index].is_alive)
        fail_message(model, index, "was ended", "should have been kept");
}

static void follow_purged(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("message %" PRIu64 ", which no send made, was deleted", sight->number);
    const char *why = model_delete_by_task(model, index);
    if (why != NULL)
        fail_message(model, index, "was deleted", why);
}

static void follow_held(struct oracle *oracle, const struct sight *sight)
{
    struct model *model = &oracle->model;
    struct model_group *group = model_group(model, sight->queue, sight->group);
    int head = NONE;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        if (message->is_alive && !message->is_condemned && message->queue == sight->queue &&
            message->group == sight->group && (head == NONE || model_stands_before(message, &model->messages[head])))
            head = i;
    }
    if (head == NONE)
        fail("group g%d was held, which has no message", sight->group);
    const char *why = model_put_aside(model, head);
    if (why != NULL)
        fail_message(model, head, "holds its group up", why);
    if (!model_is_held(model, group))
        fail_message(model, head, "holds its group up", "should have made way");
}

/* The queue in which the sight's message stands by the model, or NONE where that does not matter. */
static int queue_of_sight(const struct model *model, const struct sight *sight)
{
    if (sight->kind == SIGHT_SENT || sight->kind == SIGHT_FAILED || sight->kind == SIGHT_REDRIVEN ||
        sight->kind == SIGHT_MOVE_ENDED)
        return NONE;
    int index = sight->kind == SIGHT_HELD ? NONE : find_number(model, sight->number);
    return sight->kind == SIGHT_HELD ? sight->queue : index == NONE ? NONE : model->messages[index].queue;
}

#define ANY_QUEUE NONE

/* Follows the server to the next message that it took, and returns that; or, with a queue, to where it did something to
 * another one: NONE. */
static int follow(struct oracle *oracle, int queue)
{
    struct witness *witness = &oracle->witness;
    for (; witness->next < witness->count; witness->next++) {
        const struct sight *sight = &witness->sights[witness->next];
        learn_numbers(oracle);
        if (queue != ANY_QUEUE && sight->kind == SIGHT_LET_GO)
            return NONE; /* a receive ends with that */
        int here = queue_of_sight(&oracle->model, sight);
        if (queue != ANY_QUEUE && here != NONE && here != queue && !is_accounted(&oracle->model, sight))
            return NONE;
        if (sight->kind == SIGHT_TAKEN) {
            int index = find_number(&oracle->model, sight->number);
            if (index == NONE)
                fail("message number %" PRIu64 " was delivered, which no send made", sight->number);
            return index;
        }
        if (is_accounted(&oracle->model, sight))
            continue;
        if (sight->kind == SIGHT_REDRIVEN)
            follow_redriven(oracle, sight);
        else if (sight->kind == SIGHT_MOVE_ENDED)
            follow_task(oracle, sight);
        else if (sight->kind == SIGHT_MOVED)
            follow_moved(oracle, sight);
        else if (sight->kind == SIGHT_ENDED)
            follow_ended(oracle, sight);
        else if (sight->kind == SIGHT_HELD)
            follow_held(oracle, sight);
        else if (sight->kind == SIGHT_PURGED)
            follow_purged(oracle, sight);
        else if (sight->kind == SIGHT_REPLACED)
            fail("message %" PRIu64 " was replaced, which nobody asked for", sight->number);
    }
    return NONE;
}

/* Does the server do something to a message of this queue before the next one is taken? Receives that wait at other
 * queues may have put messages aside before. */
static bool has_put_aside(const struct oracle *oracle, int queue)
{
    const struct witness *witness = &oracle->witness;
    for (unsigned i = witness->next; i < witness->count; i++) {
        const struct sight *sight = &witness->sights[i];
        if (sight->kind == SIGHT_TAKEN || sight->kind == SIGHT_LET_GO)
            return false;
        if (queue_of_sight(&oracle->model, sight) == queue)
            return true;
    }
    return false;
}

/* What a receive does begins behind what the one before let go. */
static void skip_let_go(struct witness *witness)
{
    while (witness->next < witness->count && witness->sights[witness->next].kind == SIGHT_LET_GO)
        witness->next++;
}

void oracle_settle(struct oracle *oracle)
{
    int taken = follow(oracle, ANY_QUEUE);
    if (taken != NONE)
        fail_message(&oracle->model, taken, "was taken", "is in no reply");
    learn_numbers(oracle);
    for (unsigned i = 0; i < oracle->witness.count; i++)
        if (oracle->witness.sights[i].kind == SIGHT_SENT && !oracle->witness.sights[i].is_known)
            fail("message number %" PRIu64 " was accepted, which nobody sent", oracle->witness.sights[i].number);
    oracle->witness.count = oracle->witness.next = 0;
}

/* --- receives ----------------------------------------------------------------------------------------------------- */

/* Nothing may be left that the receive should have dealt with. */
static void expect_no_more(struct oracle *oracle, const struct model_receive *receive,
                           const struct operation *operation)
{
    int left = model_left(&oracle->model, receive);
    if (left == NONE)
        return;
    struct buffer text;
    buffer_init(&text);
    describe_message(&oracle->model, left, &text);
    const struct model_message *message = &oracle->model.messages[left];
    fail("a receive of q%d gave %u of %u messages although %.*s is there (received %u times, %u not charged%s%s)",
         operation->queue, receive->count, receive->max, BYTES_FORMAT(buffer_bytes(&text)), message->receive_count,
         message->spared_count, model_is_dead(&oracle->model, message) ? ", cancelled" : "",
         message->is_final ? ", failed for good" : "");
}

/* A receive that found nothing, although it may have put messages aside. */
void expect_nothing(struct oracle *oracle, const struct operation *operation, bool is_alone)
{
    struct model_receive receive = {
        .queue = model_find_queue(&oracle->model, operation->queue),
        .max = operation->receive_max,
        .in_flight_max = oracle->in_flight_max,
    };
    if (receive.queue == NONE)
        fail("a receive waits at q%d, which does not exist", operation->queue);
    skip_let_go(&oracle->witness);
    (void)follow(oracle, is_alone ? receive.queue : ANY_QUEUE);
    if (model_receive_begin(&oracle->model, &receive) == OK)
        expect_no_more(oracle, &receive, operation);
}

static void expect_delivered(const struct reply_view *view, int index, yyjson_val *item)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    if (likeness(oracle, index, item) == LIKE_NONE)
        fail_message(model, index, "was taken", "is not what the reply gives in its place");
    if (model->messages[index].completes != 0)
        check_completion_id(oracle, model->messages[index].batch, model->messages[index].completes,
                            text_in(view, item, "MessageId"));
    check_delivered(view, index, item);
    take_handle(view, index, text_in(view, item, "ReceiptHandle"));
}

/* Follows the server through the receive; of what it took, all is in the reply, unless the disk would not be read
 * (R7). */
static void follow_receive(const struct reply_view *view, struct model_receive *receive, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    size_t given = 0, count = yyjson_arr_size(items);
    while (receive->count < ENTRIES_MAX) {
        if (given == count && (!oracle->has_read_failed || receive->count >= receive->max))
            break;
        /* Before it others may have waited in vain, and put aside what they met. */
        int index = follow(oracle, given < count ? ANY_QUEUE : receive->queue);
        if (index == NONE)
            break;
        oracle_forget_changed_lease(oracle, index);
        const char *why = model_take(model, receive, index);
        if (why != NULL)
            fail_message(model, index, "was delivered", why);
        oracle->witness.next++;
        yyjson_val *item = yyjson_arr_get(items, given);
        if (oracle->has_read_failed && (item == NULL || likeness(oracle, index, item) == LIKE_NONE)) {
            /* Nobody has its handle: it comes back after its timeout. */
            model->messages[index].handle = UNKNOWN_HANDLE;
            continue;
        }
        expect_delivered(view, index, item);
        given++;
    }
    if (given < count)
        fail("a receive of q%d gives %zu messages, but took %u", view->operation->queue, count, receive->count);
}

/* True: the receive gives again what one under the same attempt id gave. */
static bool judge_receive_again(const struct reply_view *view, int queue, yyjson_val *items)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    const struct operation *operation = view->operation;
    int messages[ENTRIES_MAX];
    unsigned count = 0;
    if (operation->attempt == NONE || !model->queues[queue].traits.is_fifo)
        return false;
    enum error error =
        model_receive_again(model, queue, operation->attempt, 1000 * (uint64_t)operation->lease_s, messages, &count);
    if (count == 0)
        return false;
    bool is_unreadable = oracle->has_read_failed && error == OK && yyjson_arr_size(items) == 0;
    expect_error(view, is_unreadable ? ERROR_INTERNAL_FAILURE : error);
    size_t given = 0;
    for (unsigned i = 0; i < count && error == OK; i++) {
        yyjson_val *item = yyjson_arr_get(items, given);
        bool is_here = item != NULL && likeness(oracle, messages[i], item) != LIKE_NONE;
        if (!is_here && !oracle->has_read_failed)
            fail_message(model, messages[i], "was given under an attempt id", "is not given again");
        if (!is_here)
            continue;
        given++;
        int handle = model->messages[messages[i]].handle;
        if (handle == UNKNOWN_HANDLE)
            take_handle(view, messages[i], text_in(view, item, "ReceiptHandle"));
        else if (strcmp(text_in(view, item, "ReceiptHandle"), oracle->handles[handle]) != 0)
            fail_message(model, messages[i], "was given again", "has another receipt handle");
        teach_lease(view, messages[i]);
    }
    if (error == OK && given != yyjson_arr_size(items))
        fail("a receive of q%d gives more again than it gave", operation->queue);
    return true;
}

void judge_receive(const struct reply_view *view)
{
    struct oracle *oracle = view->oracle;
    struct model *model = &oracle->model;
    const struct operation *operation = view->operation;
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE) {
        expect_error(view, ERROR_QUEUE_DOES_NOT_EXIST);
        return;
    }
    yyjson_val *items = yyjson_obj_get(view->root, "Messages");
    if (judge_receive_again(view, queue, items))
        return;
    struct model_receive receive = {
        .queue = queue,
        .max = operation->receive_max,
        .timeout_ms = 1000 * (uint64_t)operation->lease_s,
        .in_flight_max = oracle->in_flight_max,
    };
    skip_let_go(&oracle->witness);
    bool has_taken = yyjson_arr_size(items) > 0 || view->error == ERROR_INTERNAL_FAILURE;
    (void)follow(oracle, has_taken || has_put_aside(oracle, queue) ? ANY_QUEUE : queue);
    enum error error = model_receive_begin(model, &receive);
    if (error == OK) {
        follow_receive(view, &receive, items);
        if (receive.count < receive.max)
            (void)follow(oracle, queue);
        expect_no_more(oracle, &receive, operation);
        model_receive_end(model, &receive);
        for (unsigned i = 0; i < receive.count; i++)
            teach_lease(view, receive.taken[i]);
        const struct queue_traits *traits = &model->queues[queue].traits;
        if (receive.count > 0 && operation->attempt != NONE && traits->is_fifo && !traits->is_at_most_once)
            model_remember_attempt(model, queue, operation->attempt, receive.taken, receive.count);
    }
    bool is_unreadable = oracle->has_read_failed && receive.count > 0 && yyjson_arr_size(items) == 0;
    expect_error(view, is_unreadable ? ERROR_INTERNAL_FAILURE : error);
}
