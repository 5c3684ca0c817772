/* Decisions about a message that somebody holds: delete, change of visibility, failure. */
#include "core/decide.h"
#include "core/finish.h"

#include "core/identity.h"

/* From the receive that leased a message on. Source: SQS API reference, ChangeMessageVisibility. */
#define LEASE_MS_MAX (12u * 3600u * 1000u)

/* What a receipt handle stands for now. */
struct holding {
    uint32_t slot;   /* the live message of which it is the newest handle; 0: it is none */
    bool is_gone;    /* the message has ended */
    bool is_expired; /* the message lives, but is not held under this handle any more; a FIFO queue minds */
};

/* ERROR_RECEIPT_HANDLE_IS_INVALID if `text` is no handle of this queue. On a FIFO queue the end of the lease ends the handle; on a
 * standard queue the next delivery does, or a failure. Source: SQS API reference, DeleteMessage; reference 2.11. */
static enum error find_held(const struct core *core, const struct queue *queue, struct bytes text,
                            struct holding *holding)
{
    struct handle handle;
    *holding = (struct holding){0};
    if (!handle_from_text(core->digest_owned, text, &handle) || handle.queue != queue->id)
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    uint32_t slot = core_find_message(core, handle.message);
    const struct message *message = slot == 0 ? NULL : core_message(core, slot);
    holding->is_gone = message == NULL || message->shelf != queue->shelf || core_message_is_dead(core, message);
    if (holding->is_gone)
        return OK;
    const struct place *place = core_place_of(core, message);
    bool is_newest = message->delivery == handle.delivery && (place == NULL || !place->is_fenced);
    holding->is_expired = !is_newest || message->state != MESSAGE_IN_FLIGHT;
    holding->slot = is_newest && !(queue->settings.is_fifo && holding->is_expired) ? slot : 0;
    return OK;
}

/* The same for whoever ends the lease: ERROR_INVALID_PARAMETER_VALUE if a FIFO queue has ended it before. */
static enum error find_to_end(const struct core *core, const struct queue *queue, struct bytes text,
                              struct holding *holding)
{
    enum error error = find_held(core, queue, text, holding);
    return error == OK && queue->settings.is_fifo && holding->is_expired ? ERROR_INVALID_PARAMETER_VALUE : error;
}

enum error decide_delete(struct core *core, struct queue *queue, struct bytes handle)
{
    struct holding holding;
    enum error error = find_to_end(core, queue, handle, &holding);
    if (error != OK)
        return error;
    if (holding.slot != 0)
        finish_message(core, holding.slot, END_DELETED);
    return OK;
}

uint64_t decide_held_message(const struct core *core, const struct queue *queue, struct bytes handle)
{
    struct holding holding;
    bool is_held = find_held(core, queue, handle, &holding) == OK && holding.slot != 0;
    return is_held ? core_message(core, holding.slot)->number : 0;
}

enum error decide_change_visibility(struct core *core, struct queue *queue, struct bytes handle, uint32_t timeout_ms,
                                    struct given_lease *given, bool *is_gone)
{
    struct holding holding;
    *given = (struct given_lease){0};
    enum error error = find_held(core, queue, handle, &holding);
    if (error != OK)
        return error;
    *is_gone = holding.is_gone || (queue->settings.is_fifo && holding.is_expired);
    if (*is_gone)
        return ERROR_INVALID_PARAMETER_VALUE;
    if (holding.slot == 0)
        return OK;
    const struct message *message = core_message(core, holding.slot);
    uint64_t received_at_ms = message->sent_at_ms + message->received_after_ms;
    /* The receive was earlier, though it be the same millisecond. */
    if (timeout_ms >= LEASE_MS_MAX || (timeout_ms > 0 && core->now_ms + timeout_ms > received_at_ms + LEASE_MS_MAX))
        return ERROR_INVALID_PARAMETER_VALUE;
    core_emit(core, &(struct event){
                        .kind = EVENT_VISIBILITY_CHANGED,
                        .visibility_changed = {.number = message->number, .timeout_ms = timeout_ms},
                    });
    if (timeout_ms > 0)
        *given = (struct given_lease){message->number, message->delivery, core->now_ms + timeout_ms};
    return OK;
}

bool decide_renew_lease(struct core *core, struct given_lease *lease, uint64_t visible_at_ms)
{
    uint32_t slot = core_find_message(core, lease->message);
    const struct message *message = slot == 0 ? NULL : core_message(core, slot);
    if (message == NULL || message->state != MESSAGE_IN_FLIGHT || message->delivery != lease->delivery ||
        message->visible_at_ms < lease->visible_at_ms)
        return false;
    if (message->visible_at_ms < visible_at_ms)
        core_emit(core, &(struct event){
                            .kind = EVENT_LEASE_RENEWED,
                            .lease_renewed = {.number = lease->message, .visible_at_ms = visible_at_ms},
                        });
    lease->visible_at_ms = message->visible_at_ms;
    return true;
}

/* --- failure ------------------------------------------------------------------------------------------------------ */

/* How long attempt `attempt` (from 1) of this message waits before the next: min * factor^(attempt-1), at most max, jittered,
 * and inside [min, max] (invariant R13). The jitter is a keyed hash: the core has no other chance. */
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

enum error decide_fail(struct core *core, struct queue *queue, struct bytes handle, struct bytes reason, bool is_final,
                       bool *is_gone)
{
    struct holding holding;
    enum error error = find_to_end(core, queue, handle, &holding);
    if (error != OK)
        return error;
    *is_gone = holding.slot == 0 || holding.is_expired;
    if (*is_gone)
        return OK;
    const struct message *message = core_message(core, holding.slot);
    const struct queue *dead_letters = finish_dead_letter_queue(core, queue);
    uint32_t attempt = core_attempt_count(core, message);
    uint64_t number = message->number;
    if (!is_final && (dead_letters == NULL || attempt < queue->settings.receive_count_max)) {
        const struct backoff *backoff = &queue->settings.backoff;
        emit_failed(core, number, backoff->is_set ? backoff_ms(core, backoff, number, attempt) : 0, false, reason);
        return OK;
    }
    uint32_t group = core_group_of(core, message);
    emit_failed(core, number, 0, true, reason);
    /* What stands before it in its line is still held by somebody: it is dealt with when it is the head. */
    bool is_head = group == 0 || !core_group(core, group)->is_line || core_group(core, group)->first == holding.slot;
    if (is_head || queue->settings.group_failure == GROUP_FAILURE_SKIP)
        finish_spent(core, queue, holding.slot, dead_letters);
    return OK;
}
