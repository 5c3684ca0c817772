/* Decisions about a message that somebody holds: delete, change of visibility, failure. */
#include "core/messages/decide_message.h"
#include "core/finish.h"

#include "core/identity.h"

/* Counted from the receive that leased a message. Source: SQS API reference, ChangeMessageVisibility. */
#define LEASE_MS_MAX (12u * 3600u * 1000u)

/* What a receipt handle means now. */
struct holding {
    uint32_t slot;  /* its message, which exists; 0: it has ended, or is in another queue */
    bool is_older;  /* the message was delivered again since */
    bool is_newest; /* it was not delivered again, and the handle was not taken away */
    bool is_held;   /* it is the newest, and its lease has not ended */
};

/* When the lease of a handle ended; UINT64_MAX: time did not end it. If the message was delivered again since, the
 * exact time is unknown, but it was before the newest delivery: then that time. */
static uint64_t lease_ended_at_ms(const struct message *message, const struct holding *holding)
{
    if (holding->is_older)
        return message->sent_at_ms + message->received_after_ms;
    bool has_lapsed = holding->is_newest && message->state == MESSAGE_RETURNED && message->visible_at_ms > 0;
    return has_lapsed ? message->visible_at_ms : UINT64_MAX;
}

/* ERROR_RECEIPT_HANDLE_IS_INVALID if `text` is no handle of this queue. A handle is the newest until the next delivery,
 * or until its own attempt is failed. Source: SQS API reference, DeleteMessage; reference 2.11. */
static enum error find_held(const struct core *core, const struct queue *queue, struct bytes text,
                            struct holding *holding, struct receipt_use *use)
{
    struct handle handle;
    *holding = (struct holding){0};
    *use = (struct receipt_use){0};
    if (!handle_from_text(core->digest_owned, text, &handle) || handle.queue != queue->id)
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    uint32_t slot = core_find_message(core, handle.message);
    const struct message *message = slot == 0 ? NULL : core_message(core, slot);
    use->is_gone =
        message == NULL || message->message_list != queue->message_list || core_message_is_dead(core, message);
    if (use->is_gone)
        return OK;
    /* From a log that was cut since: the number may have belonged to another message then. */
    if (handle.delivery > message->delivery)
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    const struct message_extra *extra = core_extra_of(core, message);
    holding->slot = slot;
    holding->is_older = message->delivery != handle.delivery;
    holding->is_newest = !holding->is_older && (extra == NULL || !extra->is_fenced);
    holding->is_held = holding->is_newest && message->state == MESSAGE_IN_FLIGHT;
    use->is_stale = !holding->is_newest;
    if (holding->is_held)
        return OK;
    uint64_t ended_at_ms = lease_ended_at_ms(message, holding);
    use->is_late = ended_at_ms <= core->now_ms;
    use->late_ms = use->is_late ? core->now_ms - ended_at_ms : 0;
    return OK;
}

/* May a caller with this handle change its message? A FIFO queue requires a lease that has not ended. */
static enum error check_held(const struct queue *queue, const struct holding *holding)
{
    if (holding->slot == 0 || holding->is_held)
        return OK;
    if (!holding->is_newest)
        return queue_refuses_stale(queue) ? ERROR_RECEIPT_HANDLE_IS_INVALID : OK;
    return queue->settings.is_fifo ? ERROR_INVALID_PARAMETER_VALUE : OK;
}

enum error decide_delete(struct core *core, struct queue *queue, struct bytes handle, struct receipt_use *use)
{
    struct holding holding;
    struct receipt_use nobodys;
    enum error error = find_held(core, queue, handle, &holding, use == NULL ? &nobodys : use);
    if (error == OK)
        error = check_held(queue, &holding);
    if (error == OK && holding.slot != 0)
        finish_message(core, holding.slot, END_DELETED);
    return error;
}

uint64_t decide_held_message(const struct core *core, const struct queue *queue, struct bytes handle,
                             struct receipt_use *use)
{
    struct holding holding;
    struct receipt_use nobodys;
    enum error error = find_held(core, queue, handle, &holding, use == NULL ? &nobodys : use);
    bool is_held = error == OK && holding.is_newest && check_held(queue, &holding) == OK;
    return is_held ? core_message(core, holding.slot)->number : 0;
}

uint64_t decide_deletable_message(const struct core *core, const struct queue *queue, struct bytes handle,
                                  struct receipt_use *use)
{
    struct holding holding;
    enum error error = find_held(core, queue, handle, &holding, use);
    bool is_deletable = error == OK && holding.slot != 0 && check_held(queue, &holding) == OK;
    return is_deletable ? core_message(core, holding.slot)->number : 0;
}

enum error decide_change_visibility(struct core *core, struct queue *queue, struct bytes handle, uint32_t timeout_ms,
                                    struct granted_lease *given, struct receipt_use *use)
{
    struct holding holding;
    *given = (struct granted_lease){0};
    enum error error = find_held(core, queue, handle, &holding, use);
    if (error == OK)
        error = check_held(queue, &holding);
    if (error == ERROR_RECEIPT_HANDLE_IS_INVALID)
        return error;
    const struct message *message = holding.slot == 0 ? NULL : core_message(core, holding.slot);
    /* While a failed attempt backs off, nobody holds the message, and only the queue decides how long that lasts. */
    use->is_gone = error != OK || message == NULL || message->state == MESSAGE_DELAYED;
    if (use->is_gone)
        return ERROR_INVALID_PARAMETER_VALUE;
    uint64_t received_at_ms = message->sent_at_ms + message->received_after_ms;
    /* The receive came first, even in the same millisecond. */
    if (timeout_ms >= LEASE_MS_MAX || (timeout_ms > 0 && core->now_ms + timeout_ms > received_at_ms + LEASE_MS_MAX))
        return ERROR_INVALID_PARAMETER_VALUE;
    core_emit(core, &(struct event){
                        .kind = EVENT_VISIBILITY_CHANGED,
                        .visibility_changed = {.number = message->number, .timeout_ms = timeout_ms},
                    });
    if (timeout_ms > 0)
        *given = (struct granted_lease){message->number, message->delivery, core->now_ms + timeout_ms};
    return OK;
}

/* The message, if the lease is the newest of it and not over; else NULL. */
static const struct message *find_leased(const struct core *core, const struct granted_lease *lease)
{
    const uint32_t slot = core_find_message(core, lease->message);
    const struct message *message = slot == 0 ? NULL : core_message(core, slot);
    const bool is_leased =
        message != NULL && message->state == MESSAGE_IN_FLIGHT && message->delivery == lease->delivery;
    return is_leased ? message : NULL;
}

bool decide_renew_lease(struct core *core, struct granted_lease *lease, uint64_t visible_at_ms)
{
    const struct message *message = find_leased(core, lease);
    if (message == NULL || message->visible_at_ms < lease->visible_at_ms)
        return false;
    if (message->visible_at_ms < visible_at_ms)
        core_emit(core, &(struct event){
                            .kind = EVENT_LEASE_RENEWED,
                            .lease_renewed = {.number = lease->message, .visible_at_ms = visible_at_ms},
                        });
    lease->visible_at_ms = message->visible_at_ms;
    return true;
}

void decide_end_lease(struct core *core, const struct granted_lease *lease)
{
    if (find_leased(core, lease) != NULL)
        core_emit(core, &(struct event){
                            .kind = EVENT_VISIBILITY_CHANGED,
                            .visibility_changed = {.number = lease->message, .timeout_ms = 0},
                        });
}

/* --- failure ------------------------------------------------------------------------------------------------------ */

/* How long attempt `attempt` (from 1) of this message waits before the next: min * factor^(attempt-1), at most max,
 * jittered, and inside [min, max] (invariant R13). The jitter is a keyed hash, because the core has no source of random
 * numbers. */
static uint64_t backoff_ms(const struct core *core, const struct backoff *backoff, uint64_t number, uint32_t attempt)
{
    double wait = backoff->min_ms;
    for (uint32_t i = 1; i < attempt && wait < backoff->max_ms; i++)
        wait *= backoff->factor / 1000.0;
    wait = wait < backoff->max_ms ? wait : backoff->max_ms;
    uint8_t seed[12];
    bytes_put_u64(seed, number);
    bytes_put_u32(seed + 8, attempt);
    double chance =
        (double)(digest_keyed(core->digest_owned, bytes_make(seed, sizeof(seed))) >> 11) / (double)(1ULL << 53);
    wait *= 1 + backoff->jitter / 1000.0 * (2 * chance - 1);
    wait = wait < backoff->min_ms ? backoff->min_ms : wait;
    return (uint64_t)(wait > backoff->max_ms ? backoff->max_ms : wait);
}

static void emit_failed(struct core *core, uint64_t number, uint64_t wait_ms, bool is_final, struct bytes reason)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_FAILED,
                        .failed = {.number = number,
                                   .visible_at_ms = wait_ms == 0 ? 0 : core->now_ms + wait_ms,
                                   .is_final = is_final,
                                   .reason = reason},
                    });
}

/* How many attempts the request allows, 0: any number. A policy without a usable target gives no message up. As in a
 * receive, the message stays until there is a queue for it, unless the request names one. */
static uint32_t asked_attempts_max(const struct core *core, const struct queue *queue,
                                   const struct failed_attempt *attempt)
{
    bool leads_nowhere = queue->settings.receive_count_max != 0 && finish_dead_letter_queue(core, queue) == NULL;
    return leads_nowhere && attempt->dead_letters == NULL ? 0 : attempt->attempts_max;
}

/* How many attempts there are, 0: any number. */
static uint32_t attempts_max_of(const struct core *core, const struct queue *queue,
                                const struct failed_attempt *attempt)
{
    uint32_t asked = asked_attempts_max(core, queue, attempt);
    uint32_t of_queue = finish_dead_letter_queue(core, queue) == NULL ? 0 : queue->settings.receive_count_max;
    return asked == 0 || (of_queue > 0 && of_queue < asked) ? of_queue : asked;
}

/* Does the handle name an attempt that can be failed? ERROR_INVALID_PARAMETER_VALUE: its lease is over. */
static enum error check_attempt(const struct core *core, const struct queue *queue, const struct holding *holding,
                                const struct failed_attempt *attempt, struct receipt_use *use)
{
    if (holding->slot == 0 || holding->is_held)
        return OK;
    if (holding->is_newest)
        return ERROR_INVALID_PARAMETER_VALUE;
    const struct message *message = core_message(core, holding->slot);
    const uint32_t most = asked_attempts_max(core, queue, attempt);
    bool gives_up = attempt->is_final || (most != 0 && core_attempt_count(core, message) >= most);
    /* The request was repeated, perhaps because the answer was lost: it was done. */
    use->is_gone = !queue->settings.is_fifo && !holding->is_older && core_extra_of(core, message)->is_final == gives_up;
    return use->is_gone ? OK : ERROR_RECEIPT_HANDLE_IS_INVALID;
}

/* How long the message waits for its next attempt. */
static uint64_t wait_ms_of(const struct core *core, const struct queue *queue, const struct failed_attempt *attempt,
                           uint64_t number, uint32_t count)
{
    const struct backoff *backoff = queue->settings.backoff.is_set ? &queue->settings.backoff : &attempt->backoff;
    if (attempt->has_wait)
        return attempt->wait_ms;
    return backoff->is_set ? backoff_ms(core, backoff, number, count) : 0;
}

/* Reports what happened to a message that was given up. */
static void note_end(const struct core *core, const struct queue *queue, uint64_t number, struct failure_result *result)
{
    uint32_t slot = core_find_message(core, number);
    const struct message *message = slot == 0 ? NULL : core_message(core, slot);
    if (message == NULL) {
        result->outcome = FAILURE_DROPPED;
    } else if (message->message_list == queue->message_list) {
        result->outcome = FAILURE_HELD;
    } else {
        result->outcome = FAILURE_DEAD_LETTERED;
        result->dead_letters = core_queue(core, core_message_list_at(core, message->message_list)->queue);
    }
}

/* Reports a message whose attempt failed before, and that nobody has received since. */
static void note_return(const struct core *core, const struct queue *queue, const struct message *message,
                        const struct failed_attempt *attempt, struct failure_result *result)
{
    bool waits = message->state == MESSAGE_DELAYED && message->visible_at_ms > core->now_ms;
    result->outcome = FAILURE_RETURNED;
    result->attempt = core_attempt_count(core, message);
    result->attempts_max = attempts_max_of(core, queue, attempt);
    result->wait_ms = waits ? message->visible_at_ms - core->now_ms : 0;
}

enum error decide_fail(struct core *core, struct queue *queue, struct bytes handle,
                       const struct failed_attempt *attempt, struct failure_result *result)
{
    struct holding holding;
    *result = (struct failure_result){.outcome = FAILURE_IGNORED};
    enum error error = find_held(core, queue, handle, &holding, &result->use);
    if (error == OK)
        error = check_attempt(core, queue, &holding, attempt, &result->use);
    if (error == OK && holding.slot != 0 && !holding.is_held)
        note_return(core, queue, core_message(core, holding.slot), attempt, result);
    if (error != OK || result->use.is_gone)
        return error;
    const struct message *message = core_message(core, holding.slot);
    const struct queue *target = finish_dead_letter_queue(core, queue);
    uint32_t count = core_attempt_count(core, message);
    uint64_t number = message->number;
    result->attempt = count;
    result->attempts_max = attempts_max_of(core, queue, attempt);
    if (!attempt->is_final && (result->attempts_max == 0 || count < result->attempts_max)) {
        result->outcome = FAILURE_RETURNED;
        result->wait_ms = wait_ms_of(core, queue, attempt, number, count);
        emit_failed(core, number, result->wait_ms, false, attempt->reason);
        return OK;
    }
    uint32_t group = core_group_of(core, message);
    /* A message before it in its group is still held: this one is dealt with when it becomes the head. */
    bool is_head = group == 0 || !core_group(core, group)->is_line || core_group(core, group)->first == holding.slot;
    enum group_failure policy = queue->settings.group_failure;
    /* Then the named queue would be forgotten, and without a queue the message would be dropped. */
    if (!is_head && policy == GROUP_FAILURE_CANCEL_REST && attempt->dead_letters != NULL)
        return ERROR_UNSUPPORTED_OPERATION;
    emit_failed(core, number, 0, true, attempt->reason);
    if (is_head || policy == GROUP_FAILURE_SKIP)
        finish_spent(core, queue, holding.slot, attempt->dead_letters != NULL ? attempt->dead_letters : target);
    note_end(core, queue, number, result);
    return OK;
}
