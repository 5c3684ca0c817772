/* ReleaseMessage: an operator takes a message in flight away from whoever has it. */
#include "api/access.h"
#include "api/holder_view.h"
#include "api/peek.h"
#include "api/reach.h"
#include "api/selection.h"
#include "api/why.h"
#include "core/messages/decide_release.h"
#include "core/state.h"

/* --- the message -------------------------------------------------------------------------------------------------- */

/* A sentence that says where the message is or how it ended, behind a space; or nothing. */
static struct bytes first_reason(struct call *call, const struct explanation *explanation)
{
    if (explanation->count == 0)
        return BYTES("");
    return arena_format(call->arena, " %.*s", BYTES_FORMAT(why_text(call, &explanation->whys[0])));
}

static enum error fail_absent(struct call *call, struct bytes text, struct queue *queue)
{
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    const bool is_anywhere = queue == NULL;
    why_explain(call, text, &queue, explanation);
    const struct bytes reason = arena_format(
        call->arena, "%s%s.%.*s", is_anywhere ? "There is no such message" : "The queue has no such message",
        is_anywhere ? reach_words(call) : "", BYTES_FORMAT(first_reason(call, explanation)));
    return params_invalid(&call->params, "MessageId", text, (const char *)reason.ptr);
}

/* Without QueueUrl the message may be in any queue that the caller covers. */
static enum error find_message(struct call *call, struct queue **queue, uint32_t *slot)
{
    struct bytes text = {NULL, 0};
    struct queue *found = NULL;
    uint8_t id[MESSAGE_ID_SIZE];
    enum error error = call_optional_queue(call, queue);
    if (error == OK)
        error = params_required_text(&call->params, "MessageId", &text);
    if (error != OK)
        return error;
    *slot = identity_from_text(text, id) ? explain_find(call->core, id, &found) : 0;
    const bool is_there = *slot != 0 && (*queue == NULL ? access_covers(call, found->name_owned) : *queue == found);
    if (!is_there)
        return fail_absent(call, text, *queue);
    *queue = found;
    return access_check_queue(call, found->name_owned, found);
}

static enum error check_in_flight(struct call *call, const struct queue *queue, uint32_t slot)
{
    struct explanation *explanation = arena_allocate(call->arena, sizeof(*explanation));
    explain_slot(call->core, queue, slot, explanation);
    if (explanation->condition == CONDITION_IN_FLIGHT)
        return OK;
    return call_fail(call, ERROR_UNSUPPORTED_OPERATION,
                     "The message is not in flight, so nobody has it; its state is %s.%.*s",
                     peek_state_name(explanation->condition), BYTES_FORMAT(first_reason(call, explanation)));
}

/* Between a look at the message and this call it may have been given to somebody else. 0: nobody asks for that. */
static enum error check_delivery(struct call *call, uint32_t slot, int64_t token)
{
    const struct message *message = core_message(call->core, slot);
    if (token == 0 || (uint64_t)token == message->delivery)
        return OK;
    return call_fail(call, ERROR_UNSUPPORTED_OPERATION,
                     "The message is in flight, but not by delivery %lld: the newest one is %llu.", (long long)token,
                     (unsigned long long)message->delivery);
}

/* --- the reply ---------------------------------------------------------------------------------------------------- */

static void write_outlook(struct call *call, const struct queue *queue, uint32_t slot,
                          const struct release_outlook *outlook)
{
    static const char *const outcomes[] = {
        [FAILURE_RETURNED] = "returned", [FAILURE_DEAD_LETTERED] = "dead-lettered", [FAILURE_HELD] = "held"};
    struct writer *reply = call->reply;
    writer_text(reply, "QueueUrl", call_queue_url(call, queue));
    writer_string(reply, "Outcome", outcomes[outlook->outcome]);
    writer_number(reply, "Attempt", outlook->attempt);
    if (outlook->attempts_max != 0)
        writer_number(reply, "MaxAttempts", outlook->attempts_max);
    if (outlook->dead_letters != NULL && access_covers(call, outlook->dead_letters->name_owned))
        writer_text(reply, "DeadLetterQueueUrl", call_queue_url(call, outlook->dead_letters));
    writer_number(reply, "FencingToken", core_message(call->core, slot)->delivery);
    holder_view_write(call, slot);
}

static void write_preview(struct call *call, const struct queue *queue, uint32_t slot,
                          const struct release_outlook *outlook)
{
    struct preview preview;
    preview_init(&preview, call->core);
    preview_release_message(&preview, queue, slot, outlook);
    selection_write_ends(call, &preview);
    preview_deinit(&preview);
}

enum error action_release_message(struct call *call)
{
    struct queue *queue = NULL;
    struct release_outlook outlook;
    bool is_dry_run = false;
    int64_t token = 0;
    uint32_t slot = 0;
    enum error error = find_message(call, &queue, &slot);
    if (error == OK)
        error = params_integer_in(&call->params, "FencingToken", 1, INT64_MAX, "Must be 1 or more.", &token);
    if (error == OK)
        error = selection_read_dry_run(call, &is_dry_run);
    if (error == OK)
        error = check_in_flight(call, queue, slot);
    if (error == OK)
        error = check_delivery(call, slot, token);
    if (error != OK)
        return error;
    release_foresee(call->core, queue, slot, &outlook);
    write_outlook(call, queue, slot, &outlook);
    if (is_dry_run)
        write_preview(call, queue, slot, &outlook);
    else
        decide_release_message(call->core, slot);
    return OK;
}
