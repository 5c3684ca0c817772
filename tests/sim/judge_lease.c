/* Leases as clients see them: from the moment that a reply is shown which gives a lease, nobody else is shown the
 * message, nor one behind it in its line, until nine tenths of the lease are over, whatever crashes, or somebody ends
 * it (docs/explanation/guarantees.md, "A disk that stalls"). */
#include "judge.h"

#include "fail.h"
#include <inttypes.h>

void teach_lease(const struct reply_view *view, int index)
{
    const struct model_message *message = &view->oracle->model.messages[index];
    if (!message->is_alive || message->timeout_ms == 0 || message->handle == UNKNOWN_HANDLE)
        return;
    view->lesson->leases[view->lesson->lease_count++] =
        (struct lease_given){.message = index,
                             .handle = message->handle,
                             .is_delivery = view->operation->kind == OPERATION_RECEIVE,
                             .lease = message->lease,
                             .timeout_ms = message->timeout_ms};
}

/* Does the message still have the lease that was given, as far as clients have a say in that? */
static bool is_unchanged(const struct model *model, int index, uint64_t lease)
{
    const struct model_message *message = &model->messages[index];
    return message->is_alive && !message->is_condemned && !message->is_fenced && message->lease == lease &&
           !model_is_dead(model, message);
}

/* The server has kept the lease while the reply was held, and made it long enough. */
static void expect_whole(const struct model *model, const struct lease_given *given, uint64_t now_ms)
{
    const struct model_message *message = &model->messages[given->message];
    if (!is_unchanged(model, given->message, given->lease))
        return;
    if (!message->is_leased || message->visible_at < now_ms + given->timeout_ms - given->timeout_ms / 10)
        fail("the lease of message %s, of %" PRIu64 " ms, lasts %" PRId64 " ms when its reply leaves", message->id,
             given->timeout_ms, message->is_leased ? (int64_t)(message->visible_at - now_ms) : INT64_C(-1));
}

/* Does the reply give this lease, which was seen before, once more, under the same attempt id? */
static bool is_given_again(const struct lesson *lesson, int message, int handle)
{
    for (unsigned i = 0; i < lesson->lease_count; i++)
        if (lesson->leases[i].message == message && lesson->leases[i].handle == handle)
            return true;
    return false;
}

/* Whoever has seen a lease that still runs keeps message and line to himself. */
static void expect_alone(const struct oracle *oracle, const struct lesson *lesson, const struct lease_given *given,
                         uint64_t receive, uint64_t now_ms)
{
    const struct model *model = &oracle->model;
    const struct model_message *message = &model->messages[given->message];
    const struct lease_seen *seen = &oracle->seen[given->message];
    if (seen->until_ms > now_ms && seen->handle != given->handle)
        fail("message %s is shown to a second client while the first has its lease for %" PRIu64 " ms more",
             message->id, seen->until_ms - now_ms);
    if (message->group < 0 || !model->queues[message->queue].traits.is_fifo)
        return;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *other = &model->messages[i];
        if (oracle->seen[i].until_ms > now_ms && oracle->seen[i].receive != receive && i != given->message &&
            other->queue == message->queue && other->group == message->group &&
            is_unchanged(model, i, oracle->seen[i].lease) && model_stands_before(other, message) &&
            !is_given_again(lesson, i, oracle->seen[i].handle))
            fail("message %s is shown while message %s, which stands before it, is leased for %" PRIu64 " ms more",
                 message->id, other->id, oracle->seen[i].until_ms - now_ms);
    }
}

void oracle_show_leases(struct oracle *oracle, const struct lesson *lesson, uint64_t now_ms, bool is_weak)
{
    uint64_t receive = ++oracle->receive;
    for (unsigned i = 0; i < lesson->lease_count; i++) {
        const struct lease_given *given = &lesson->leases[i];
        expect_whole(&oracle->model, given, now_ms);
        if (given->is_delivery)
            expect_alone(oracle, lesson, given, receive, now_ms);
        bool is_same = !given->is_delivery && oracle->seen[given->message].handle == given->handle;
        if (is_unchanged(&oracle->model, given->message, given->lease))
            oracle->seen[given->message] =
                (struct lease_seen){.until_ms = now_ms + given->timeout_ms - given->timeout_ms / 10,
                                    .receive = is_same ? oracle->seen[given->message].receive : receive,
                                    .lease = given->lease,
                                    .handle = given->handle,
                                    .is_weak = is_weak};
    }
}

void oracle_forget_changed_lease(struct oracle *oracle, int index)
{
    if (!is_unchanged(&oracle->model, index, oracle->seen[index].lease))
        oracle->seen[index].until_ms = 0;
}

void oracle_renew(struct oracle *oracle, const struct sight *sight, const struct lesson *const *held, unsigned count)
{
    struct model *model = &oracle->model;
    int index = find_number(model, sight->number);
    if (index == NONE)
        fail("the lease of message %" PRIu64 ", which no send made, was renewed", sight->number);
    bool is_held = false;
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < held[i]->lease_count; k++)
            is_held |= held[i]->leases[k].message == index;
    if (!is_held)
        fail_message(model, index, "has a longer lease", "is in no reply that is held");
    const char *why = model_renew(model, index, sight->visible_at);
    if (why != NULL)
        fail_message(model, index, "has a longer lease", why);
}

void oracle_clock_was_set(struct oracle *oracle, uint64_t back_ms, bool has_crashed)
{
    for (int i = 0; i < MODEL_MESSAGES_MAX; i++) {
        struct lease_seen *seen = &oracle->seen[i];
        if (has_crashed && seen->is_weak)
            seen->until_ms = 0;
        seen->until_ms = seen->until_ms > back_ms ? seen->until_ms - back_ms : 0;
    }
}
