#include "api/why.h"

#include "api/access.h"
#include "api/holder_view.h"
#include "api/reach.h"
#include "core/state.h"
#include <time.h>

#define DAY_MS 86400000u

struct bytes why_message_id(const struct call *call, uint64_t number)
{
    uint8_t id[MESSAGE_ID_SIZE];
    char *text = arena_allocate(call->arena, IDENTITY_TEXT_SIZE);
    explain_message_id(call->core, number, id);
    identity_to_text(id, text);
    return bytes_make(text, IDENTITY_TEXT_SIZE);
}

/* Is the reason about something that the caller does not reach? Then only its kind is shown. */
static bool is_hidden(struct call *call, const struct why *why)
{
    const struct batch *batch = NULL;
    if (!reach_is_confined(call))
        return false;
    switch (why->code) {
    case WHY_TYPE_REQUIRED:
        return true;
    case WHY_OTHER_QUEUE:
        return !access_covers(call, why->text);
    case WHY_MESSAGE:
    case WHY_TYPE:
        return !reach_message(call, why->number);
    case WHY_BATCH:
    case WHY_ANTECEDENT_FAILED:
        if (why->number != 0)
            return !reach_message(call, why->number);
        batch = core_find_batch(call->core, why->text);
        return batch == NULL || !reach_batch(call, batch);
    default:
        return false; /* about the message itself, its group or its queue */
    }
}

/* --- words -------------------------------------------------------------------------------------------------------- */

/* "12:03:04Z", with the day if it is not today's. */
static struct bytes time_text(const struct call *call, uint64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm;
    char text[40];
    gmtime_r(&seconds, &tm);
    bool is_today = time_ms / DAY_MS == core_now_ms(call->core) / DAY_MS;
    size_t size = strftime(text, sizeof(text), is_today ? "%H:%M:%SZ" : "%Y-%m-%d %H:%M:%SZ", &tm);
    return arena_copy(call->arena, bytes_make(text, size));
}

#define SENTENCE(...) arena_format(call->arena, __VA_ARGS__)

/* "in flight since 12:03:04Z (delivery 4711) until 12:03:34Z, held by mail-1/77 (10.0.0.2)" */
static struct bytes lease_text(const struct call *call, const struct why *why)
{
    struct bytes since = time_text(call, why->since_ms), until = time_text(call, why->until_ms);
    struct bytes holder = holder_view_words(call, holder_view_find(call, why->number, why->delivery));
    return SENTENCE("in flight since %.*s (delivery %llu) until %.*s%.*s", BYTES_FORMAT(since),
                    (unsigned long long)why->delivery, BYTES_FORMAT(until), BYTES_FORMAT(holder));
}

static struct bytes head_text(const struct call *call, const struct why *why)
{
    struct bytes until = time_text(call, why->until_ms);
    switch (why->head_state) {
    case MESSAGE_IN_FLIGHT:
        return SENTENCE("is %.*s", BYTES_FORMAT(lease_text(call, why)));
    case MESSAGE_DELAYED:
        return SENTENCE("is delayed until %.*s", BYTES_FORMAT(until));
    case MESSAGE_WAITING:
        return BYTES("waits for something else");
    case MESSAGE_FRESH:
    case MESSAGE_RETURNED:
        break;
    }
    return BYTES("comes first");
}

/* The queue of the message that this one waits for; NULL: it has none, as one that was purged. */
static const struct queue *antecedent_queue(const struct call *call, uint64_t number, uint32_t *slot)
{
    *slot = core_find_message(call->core, number);
    const uint32_t queue =
        *slot == 0 ? 0 : core_message_list_at(call->core, core_message(call->core, *slot)->message_list)->queue;
    return queue == 0 ? NULL : core_queue(call->core, queue);
}

/* Where that message is, and who has it. */
static struct bytes where_text(const struct call *call, const struct queue *queue, uint32_t slot)
{
    const struct message *message = core_message(call->core, slot);
    switch (explain_condition(call->core, queue, slot)) {
    case CONDITION_IN_FLIGHT: {
        const struct why lease = explain_lease(message, WHY_IN_FLIGHT);
        return SENTENCE("is %.*s", BYTES_FORMAT(lease_text(call, &lease)));
    }
    case CONDITION_DELAYED:
        return SENTENCE("is delayed until %.*s", BYTES_FORMAT(time_text(call, message->visible_at_ms)));
    case CONDITION_BLOCKED:
        return BYTES("is blocked");
    case CONDITION_HELD:
        return BYTES("is held");
    case CONDITION_READY:
        return BYTES("is ready");
    case CONDITION_ENDED:
    case CONDITION_UNKNOWN:
        break;
    }
    return BYTES("is about to end");
}

/* "It waits for message 0000… in queue payments, which is delayed until 12:03:34Z." */
static struct bytes message_text(const struct call *call, const struct why *why)
{
    uint32_t slot;
    const struct bytes id = why_message_id(call, why->number);
    const struct queue *queue = antecedent_queue(call, why->number, &slot);
    if (queue == NULL)
        return SENTENCE("It waits for message %.*s.", BYTES_FORMAT(id));
    const struct bytes where = where_text(call, queue, slot);
    return SENTENCE("It waits for message %.*s in queue %.*s, which %.*s.", BYTES_FORMAT(id),
                    BYTES_FORMAT(queue->name_owned), BYTES_FORMAT(where));
}

static const char *outcome_text(enum unit_state outcome)
{
    return outcome == UNIT_SUCCEEDED ? "succeeded" : outcome == UNIT_CANCELLED ? "was cancelled" : "failed";
}

static struct bytes antecedent_text(const struct call *call, const struct why *why)
{
    if (why->number != 0)
        return SENTENCE("message %.*s", BYTES_FORMAT(why_message_id(call, why->number)));
    return why->text.size == 0 ? BYTES("a batch that is gone") : SENTENCE("batch '%.*s'", BYTES_FORMAT(why->text));
}

static struct bytes batch_text(const struct call *call, const struct why *why)
{
    const struct batch *batch = why->text.size == 0 ? NULL : core_find_batch(call->core, why->text);
    /* Dependents are told in portions how a batch ended: this one will be in a moment. */
    if (batch == NULL)
        return BYTES("It waits to be told how a batch that is gone has ended.");
    if (batch->state == BATCH_COMPLETED)
        return SENTENCE("It waits to be told how batch '%.*s' has ended.", BYTES_FORMAT(why->text));
    if (why->count == 0)
        return SENTENCE("It waits for batch '%.*s', which has not completed.", BYTES_FORMAT(why->text));
    return SENTENCE("It waits for batch '%.*s' (%llu %s outstanding).", BYTES_FORMAT(why->text),
                    (unsigned long long)why->count, why->count == 1 ? "unit" : "units");
}

/* "It was returned 7 times, last failure: exit status 1" */
static struct bytes returns_text(const struct call *call, const struct why *why)
{
    return SENTENCE("It was returned %llu %s%s%.*s", (unsigned long long)why->count, why->count == 1 ? "time" : "times",
                    why->reason.size > 0 ? ", last failure: " : "", BYTES_FORMAT(why->reason));
}

static struct bytes back_off_text(const struct call *call, const struct why *why)
{
    struct bytes returns = returns_text(call, why);
    uint64_t now_ms = core_now_ms(call->core);
    uint64_t left_ms = why->until_ms > now_ms ? why->until_ms - now_ms : 0;
    return SENTENCE("%.*s, next attempt in %llu s.", BYTES_FORMAT(returns), (unsigned long long)(left_ms + 999) / 1000);
}

static struct bytes other_queue_text(const struct call *call, const struct why *why)
{
    if (why->count == 0)
        return SENTENCE("It was dead-lettered and is in queue %.*s now.", BYTES_FORMAT(why->text));
    struct bytes returns = returns_text(call, why);
    return SENTENCE("%.*s; it was dead-lettered and is in queue %.*s now.", BYTES_FORMAT(returns),
                    BYTES_FORMAT(why->text));
}

static struct bytes end_text(const struct call *call, const struct why *why)
{
    if (why->since_ms == 0)
        return SENTENCE("It has %s.", outcome_text(why->outcome));
    const char *rest = why->outcome == UNIT_FAILED
                           ? " Its reason is not kept: only a message that is still there, as in "
                             "a dead-letter queue, has one."
                           : "";
    struct bytes since = time_text(call, why->since_ms);
    return SENTENCE("It %s at %.*s.%s", outcome_text(why->outcome), BYTES_FORMAT(since), rest);
}

static struct bytes held_text(const struct call *call, const struct why *why)
{
    struct bytes since = time_text(call, why->since_ms);
    return SENTENCE("Its group is held since %.*s: %.*s; ReleaseGroup lets it go on.", BYTES_FORMAT(since),
                    BYTES_FORMAT(why->text));
}

static struct bytes limit_text(const struct call *call, const struct why *why)
{
    bool is_group = why->code == WHY_GROUP_RATE;
    struct bytes until = time_text(call, why->until_ms);
    return SENTENCE("Limited: the %s's rate lets the next one through at %.*s.", is_group ? "group" : "queue",
                    BYTES_FORMAT(until));
}

struct bytes why_text(struct call *call, const struct why *why)
{
    if (is_hidden(call, why))
        return why->code == WHY_OTHER_QUEUE
                   ? BYTES("It was dead-lettered and is in a queue that this credential does not cover.")
                   : BYTES("It waits for something that this credential may not see: it has ended, or it has to do "
                           "with queues that "
                           "the credential does not cover.");
    unsigned long long count = (unsigned long long)why->count, limit = (unsigned long long)why->limit;
    struct bytes text = why->text, until = time_text(call, why->until_ms);
    switch (why->code) {
    case WHY_IN_FLIGHT:
        return SENTENCE("It is %.*s.", BYTES_FORMAT(lease_text(call, why)));
    case WHY_DELAYED:
        return SENTENCE("It is delayed until %.*s.", BYTES_FORMAT(until));
    case WHY_BACK_OFF:
        return back_off_text(call, why);
    case WHY_RETURNED:
        return SENTENCE("%.*s.", BYTES_FORMAT(returns_text(call, why)));
    case WHY_GROUP_HEAD: {
        struct bytes id = why_message_id(call, why->number), head = head_text(call, why);
        return SENTENCE("It waits behind message %.*s, the head of its group, which %.*s.", BYTES_FORMAT(id),
                        BYTES_FORMAT(head));
    }
    case WHY_GROUP_HELD:
        return held_text(call, why);
    case WHY_GROUP_PAUSED:
        return BYTES("Its group is paused; ResumeGroup lets it go on.");
    case WHY_GROUP_CONCURRENCY:
        return SENTENCE("Its group has %llu messages in flight; Tally.GroupConcurrency allows %llu.", count, limit);
    case WHY_GROUP_RATE:
    case WHY_QUEUE_RATE:
        return limit_text(call, why);
    case WHY_QUEUE_PAUSED:
        return BYTES("The queue is paused; ResumeQueue lets it go on.");
    case WHY_MESSAGE:
        return message_text(call, why);
    case WHY_BATCH:
        return batch_text(call, why);
    case WHY_ANTECEDENT_FAILED:
        return SENTENCE("It is held because %.*s %s.", BYTES_FORMAT(antecedent_text(call, why)),
                        outcome_text(why->outcome));
    case WHY_TYPE: {
        struct bytes id = why_message_id(call, why->number);
        return SENTENCE("It waits for message %.*s of type '%.*s', which a type order puts first.", BYTES_FORMAT(id),
                        BYTES_FORMAT(text));
    }
    case WHY_TYPE_REQUIRED:
        return SENTENCE("It waits until a message of type '%.*s' has succeeded, as a type order requires.",
                        BYTES_FORMAT(text));
    case WHY_OUT_OF_ATTEMPTS:
        return SENTENCE("It had %llu attempts of %llu: the next receive that meets it gives it up, as the queue's "
                        "RedrivePolicy and "
                        "Tally.OnGroupFailure say.",
                        count, limit);
    case WHY_FAILED_FOR_GOOD:
        return SENTENCE("It failed for good%s%.*s: the next receive that meets it gives it up, as the queue's "
                        "Tally.OnGroupFailure says.",
                        text.size > 0 ? ": " : "", BYTES_FORMAT(text));
    case WHY_OTHER_QUEUE:
        return other_queue_text(call, why);
    case WHY_CANCELLED:
        return BYTES("It was purged or cancelled and is not delivered any more.");
    case WHY_OUTCOME:
        return end_text(call, why);
    }
    ASSERT(false);
    return BYTES("");
}

/* --- fields ------------------------------------------------------------------------------------------------------- */

/* The name of each code, and that of the member in which its text stands. */
static const struct {
    const char *name;
    const char *text_name;
} codes[] = {
    [WHY_IN_FLIGHT] = {"InFlight", NULL},
    [WHY_DELAYED] = {"Delayed", NULL},
    [WHY_BACK_OFF] = {"BackOff", NULL},
    [WHY_RETURNED] = {"Returned", NULL},
    [WHY_GROUP_HEAD] = {"GroupHead", NULL},
    [WHY_GROUP_HELD] = {"GroupHeld", "Reason"},
    [WHY_GROUP_PAUSED] = {"GroupPaused", NULL},
    [WHY_GROUP_CONCURRENCY] = {"GroupConcurrency", NULL},
    [WHY_GROUP_RATE] = {"GroupRate", NULL},
    [WHY_QUEUE_PAUSED] = {"QueuePaused", NULL},
    [WHY_QUEUE_RATE] = {"QueueRate", NULL},
    [WHY_MESSAGE] = {"Message", NULL},
    [WHY_BATCH] = {"Batch", "BatchId"},
    [WHY_ANTECEDENT_FAILED] = {"AntecedentFailed", "BatchId"},
    [WHY_TYPE] = {"TypeOrder", "Type"},
    [WHY_TYPE_REQUIRED] = {"TypeRequired", "Type"},
    [WHY_OUT_OF_ATTEMPTS] = {"OutOfAttempts", NULL},
    [WHY_FAILED_FOR_GOOD] = {"FailedForGood", "Reason"},
    [WHY_OTHER_QUEUE] = {"OtherQueue", "QueueName"},
    [WHY_CANCELLED] = {"Cancelled", NULL},
    [WHY_OUTCOME] = {"Ended", NULL},
};

/* Where the message is that this one waits for. */
static void write_antecedent(struct call *call, const struct why *why)
{
    uint32_t slot = 0;
    const struct queue *queue = why->code == WHY_MESSAGE ? antecedent_queue(call, why->number, &slot) : NULL;
    if (queue == NULL)
        return;
    const enum message_condition condition = explain_condition(call->core, queue, slot);
    writer_text(call->reply, "QueueName", queue->name_owned);
    if (condition == CONDITION_IN_FLIGHT || condition == CONDITION_DELAYED)
        writer_time(call->reply, "Until", core_message(call->core, slot)->visible_at_ms);
    if (condition == CONDITION_IN_FLIGHT)
        holder_view_write(call, slot);
}

static const char *const outcome_names[] = {
    [UNIT_SUCCEEDED] = "succeeded", [UNIT_FAILED] = "failed", [UNIT_CANCELLED] = "cancelled"};

/* Who has the message that is in flight: this one, or the head of its group. */
static void write_holder(struct call *call, const struct why *why)
{
    const bool is_of_lease = why->code == WHY_IN_FLIGHT || why->code == WHY_GROUP_HEAD;
    const uint32_t slot = is_of_lease ? holder_view_find(call, why->number, why->delivery) : 0;
    if (slot != 0)
        holder_view_write(call, slot);
}

void why_write(struct call *call, const struct why *why)
{
    struct writer *reply = call->reply;
    bool is_head_free = why->code == WHY_GROUP_HEAD && why->head_state != MESSAGE_IN_FLIGHT;
    bool has_until = why->until_ms != 0 && !(is_head_free && why->head_state != MESSAGE_DELAYED);
    bool names_message = why->number != 0 && why->code != WHY_IN_FLIGHT;
    bool has_outcome = why->code == WHY_ANTECEDENT_FAILED || why->code == WHY_OUTCOME;
    writer_object_begin(reply, NULL);
    writer_string(reply, "Code", codes[why->code].name);
    writer_text(reply, "Text", why_text(call, why));
    if (is_hidden(call, why)) {
        writer_object_end(reply);
        return;
    }
    if (names_message)
        writer_text(reply, "MessageId", why_message_id(call, why->number));
    if (why->text.size > 0)
        writer_text(reply, codes[why->code].text_name, why->text);
    if (why->reason.size > 0)
        writer_text(reply, "Reason", why->reason);
    if (has_outcome)
        writer_string(reply, "Outcome", outcome_names[why->outcome]);
    if (why->since_ms != 0 && !is_head_free)
        writer_time(reply, "Since", why->since_ms);
    if (has_until)
        writer_time(reply, "Until", why->until_ms);
    if (why->delivery != 0 && !is_head_free)
        writer_number(reply, "Delivery", why->delivery);
    write_holder(call, why);
    write_antecedent(call, why);
    if (why->code == WHY_BATCH)
        writer_number(reply, "Remaining", why->count);
    if (why->count != 0 && why->code != WHY_BATCH)
        writer_number(reply, "Count", why->count);
    if (why->limit != 0)
        writer_number(reply, "Limit", why->limit);
    writer_object_end(reply);
}

void why_write_each(struct call *call, const struct explanation *explanation, unsigned max)
{
    for (unsigned i = 0; i < explanation->count && i < max; i++)
        why_write(call, &explanation->whys[i]);
}

void why_explain(struct call *call, struct bytes id_text, struct queue **queue, struct explanation *explanation)
{
    uint8_t id[MESSAGE_ID_SIZE];
    *explanation = (struct explanation){.condition = CONDITION_UNKNOWN};
    if (!identity_from_text(id_text, id))
        return;
    if (*queue == NULL && explain_find(call->core, id, queue) != 0 && !access_covers(call, (*queue)->name_owned))
        return;
    explain_message(call->core, *queue, id, explanation);
    if (explanation->is_gone && reach_is_confined(call))
        *explanation = (struct explanation){.condition = CONDITION_UNKNOWN}; /* it may have been in any queue */
}
