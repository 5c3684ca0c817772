#include "core/finish.h"

#include "base/quote.h"
#include "core/identity.h"
#include <stdio.h>

static const struct bytes no_bytes = {NULL, 0};

/* --- the messages of a batch's events ----------------------------------------------------------------------------- */

/* Seconds since the epoch with a fraction, as the protocol writes times. */
static void append_seconds(struct buffer *out, uint64_t time_ms)
{
    buffer_append_format(out, "%llu.%03u", (unsigned long long)(time_ms / 1000), (unsigned)(time_ms % 1000));
}

/* The body of a completion message whose target gives none (docs/reference/batches.md). */
static void write_summary(const struct batch *batch, struct buffer *out)
{
    struct batch_counts counts = batch_counts(batch);
    bool is_completed = batch->state == BATCH_COMPLETED;
    buffer_append_bytes(out, BYTES("{\"batch\":"));
    quote_append(out, batch->id_owned);
    buffer_append_format(
        out, ",\"status\":\"%s\",\"total\":%llu,\"succeeded\":%llu,\"failed\":%llu,\"cancelled\":%llu,",
        batch_status_name(is_completed ? batch->status : BATCH_FAILED), (unsigned long long)counts.total,
        (unsigned long long)counts.succeeded, (unsigned long long)counts.failed, (unsigned long long)counts.cancelled);
    buffer_append_bytes(out, BYTES("\"createdAt\":"));
    append_seconds(out, batch->created_at_ms);
    if (is_completed) {
        buffer_append_bytes(out, BYTES(",\"completedAt\":"));
        append_seconds(out, batch->completed_at_ms);
    }
    buffer_append_u8(out, '}');
}

/* Sends the message of an event, if the batch has a target for it. True if there is a message now. */
static bool send_event_message(struct core *core, const struct batch *batch, enum batch_event event)
{
    const struct batch_target *target = &batch->spec.targets[event - 1];
    const struct queue *queue = target->queue == 0 ? NULL : core_find_queue_by_id(core, target->queue);
    if (queue == NULL)
        return false;
    struct buffer body;
    buffer_init(&body);
    if (!target->has_body)
        write_summary(batch, &body);
    struct content content = {
        .body = target->has_body ? target->body : buffer_bytes(&body),
        .attributes = target->attributes,
        .group = target->group,
        .sender = core->name_owned,
    };
    identity_completion(core->digest_owned, core->name_owned, batch->id_owned, batch->number, event, content.id);
    memcpy(content.attributes_md5, target->attributes_md5, sizeof(content.attributes_md5));
    core_send_own(core, queue, &content, batch->number, (uint8_t)event);
    buffer_deinit(&body);
    return true;
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* Fires one event; true if it has a message. */
static bool fire(struct core *core, uint32_t slot, enum batch_event event, enum batch_status status)
{
    const struct batch *batch = core_batch(core, slot);
    core_emit(core, &(struct event){
                        .kind = EVENT_BATCH_FIRED,
                        .batch_fired = {.batch = batch->number, .event = (uint8_t)event, .status = (uint8_t)status},
                    });
    return send_event_message(core, batch, event);
}

/* Ends the unit that a completed child batch is in its parent. */
static void finish_child(struct core *core, uint32_t slot, bool is_good)
{
    const struct batch *child = core_batch(core, slot);
    if (child->parent == 0)
        return;
    enum unit_state outcome = !is_good || child->status == BATCH_FAILED || child->status == BATCH_EXPIRED ? UNIT_FAILED
                              : child->status == BATCH_CANCELLED ? UNIT_CANCELLED
                                                                 : UNIT_SUCCEEDED;
    bool is_xor = core_batch(core, child->parent)->spec.tracking == BATCH_XOR;
    uint64_t xor_id = is_xor ? identity_xor_unit(core->digest_owned, child->number, true) : 0;
    finish_unit(core, child->parent, child->parent_unit, xor_id, outcome, no_bytes);
}

/* A first failure is reported once to each ancestor, so that the outermost batch learns of it while the inner ones
 * still run. */
static void fire_first_failure_upwards(struct core *core, uint32_t slot)
{
    for (; slot != 0; slot = core_batch(core, slot)->parent) {
        const struct batch *batch = core_batch(core, slot);
        bool has_fired = (batch->fired & BATCH_EVENT_BIT(BATCH_EVENT_FIRST_FAILURE)) != 0;
        if (!has_fired && batch->state != BATCH_COMPLETED)
            fire(core, slot, BATCH_EVENT_FIRST_FAILURE, BATCH_NO_STATUS);
    }
}

void finish_step(struct core *core, uint32_t slot, bool has_failure, enum batch_status status)
{
    const struct batch *batch = core_batch(core, slot);
    unsigned due = batch_due(
        batch, &(struct batch_after){.is_cancelled_or_expired = status != BATCH_NO_STATUS, .has_failure = has_failure});
    if (due & BATCH_EVENT_BIT(BATCH_EVENT_FIRST_FAILURE)) {
        fire(core, slot, BATCH_EVENT_FIRST_FAILURE, BATCH_NO_STATUS);
        fire_first_failure_upwards(core, batch->parent);
    }
    bool has_completed = batch->state == BATCH_COMPLETED;
    if (has_completed && (due & BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS)) != 0)
        fire(core, slot, BATCH_EVENT_SUCCESS, BATCH_SUCCEEDED); /* late: the parent was already told */
    if ((due & BATCH_EVENT_BIT(BATCH_EVENT_COMPLETE)) == 0)
        return;
    if (status == BATCH_NO_STATUS)
        status = batch_status_of_counts(batch);
    bool has_message[BATCH_EVENT_COUNT + 1] = {false};
    has_message[BATCH_EVENT_COMPLETE] = fire(core, slot, BATCH_EVENT_COMPLETE, status);
    if (due & BATCH_EVENT_BIT(BATCH_EVENT_SUCCESS))
        has_message[BATCH_EVENT_SUCCESS] = fire(core, slot, BATCH_EVENT_SUCCESS, BATCH_NO_STATUS);
    if (!has_message[batch_awaited_event(&batch->spec)])
        finish_child(core, slot, true);
}

void finish_total(struct core *core, uint32_t slot)
{
    const struct batch *batch = core_batch(core, slot);
    if (batch->state != BATCH_OPEN || !batch->spec.has_total ||
        batch_counts(batch).total < (uint64_t)batch->spec.total + batch->grown)
        return;
    core_emit(core, &(struct event){.kind = EVENT_BATCH_SEALED, .batch_sealed = {.batch = batch->number}});
}

void finish_growth(struct core *core, uint32_t slot, uint32_t count)
{
    const struct batch *batch = core_batch(core, slot);
    ASSERT(count > 0 && batch_check_room(batch, count, true) == OK);
    core_emit(core, &(struct event){
                        .kind = EVENT_BATCH_GROWN,
                        .batch_grown = {.batch = batch->number, .count = count},
                    });
}

/* --- units and messages ------------------------------------------------------------------------------------------- */

bool finish_unit(struct core *core, uint32_t slot, uint32_t unit, uint64_t xor_id, enum unit_state outcome,
                 struct bytes detail)
{
    const struct batch *batch = core_batch(core, slot);
    if (batch->is_cancelled)
        return false;
    if (batch->spec.tracking == BATCH_EXACT && ledger_state(&batch->ledger, unit) != UNIT_OUTSTANDING)
        return false;
    core_emit(core, &(struct event){
                        .kind = EVENT_UNIT_ENDED,
                        .unit_ended = {.batch = batch->number,
                                       .unit = unit,
                                       .xor_id = xor_id,
                                       .outcome = (uint8_t)outcome,
                                       .detail = detail},
                    });
    finish_step(core, slot, outcome == UNIT_FAILED, BATCH_NO_STATUS);
    return true;
}

/* Ends the unit of the message. The ledger of an exact batch ends a unit only once. An xor ledger has no memory, so the
 * message's own life decides: a dead-lettered message has already left the value and must not toggle it again. */
static void finish_unit_of_message(struct core *core, const struct message *message, enum unit_state outcome)
{
    uint64_t xor_id = 0;
    if (core_batch(core, message->batch)->spec.tracking == BATCH_XOR) {
        if (message->is_moved)
            return;
        xor_id = identity_xor_unit(core->digest_owned, message->number, false);
    }
    finish_unit(core, message->batch, message->unit, xor_id, outcome, no_bytes);
}

/* The message of a batch's event has ended; the batch's own parent may have waited for it. */
static void finish_event_message(struct core *core, const struct message *message, bool is_good)
{
    const struct batch *batch = core_batch(core, message->batch);
    if (batch_is_awaited(batch, message->completes) && !message->is_moved)
        finish_child(core, message->batch, is_good);
}

static void finish_for_batch(struct core *core, const struct message *message, enum unit_state outcome)
{
    if (message->batch == 0)
        return;
    if (message->completes != 0)
        finish_event_message(core, message, outcome == UNIT_SUCCEEDED);
    else
        finish_unit_of_message(core, message, outcome);
}

/* The unit's events come before the message's own, because the message keeps its batch from being forgotten. */
void finish_message(struct core *core, uint32_t slot, enum end_reason reason)
{
    const struct message *message = core_message(core, slot);
    finish_for_batch(core, message, end_outcome(reason));
    core_emit(core, &(struct event){
                        .kind = EVENT_ENDED,
                        .ended = {.number = message->number, .reason = (uint8_t)reason},
                    });
}

void finish_by_dead_letter(struct core *core, uint32_t slot, const struct queue *target)
{
    if (target == NULL) {
        finish_message(core, slot, END_FAILED);
        return;
    }
    const struct message *message = core_message(core, slot);
    finish_for_batch(core, message, UNIT_FAILED);
    core_emit(core, &(struct event){
                        .kind = EVENT_DEAD_LETTERED,
                        .dead_lettered = {.number = message->number, .queue = target->id},
                    });
}

/* --- messages out of attempts ------------------------------------------------------------------------------------- */

/* A longer chain of dead-letter queues counts as a ring. */
#define DEAD_LETTER_HOPS_MAX 16u

/* The queue that the policy names, or NULL. */
static const struct queue *policy_target(const struct core *core, const struct queue *queue)
{
    return queue->settings.receive_count_max == 0
               ? NULL
               : core_find_queue(core, queue_name_of_arn(queue->settings.dead_letter_arn));
}

/* The queue for messages without attempts left. NULL without a policy, or if the target is gone, is the queue itself,
 * or leads back to it; the messages are then delivered as if there were no policy, never dropped. In such a ring each
 * queue would pass a message on to the next for ever, because its receive count goes with it. If the targets only lead
 * into a ring, the queues in the ring deal with it. */
const struct queue *finish_dead_letter_queue(const struct core *core, const struct queue *queue)
{
    const struct queue *target = policy_target(core, queue);
    const struct queue *next = target, *seen = NULL;
    for (unsigned hops = 1; next != NULL && next != seen; hops++) {
        if (next == queue || hops > DEAD_LETTER_HOPS_MAX)
            return NULL;
        if ((hops & (hops - 1)) == 0)
            seen = next; /* Brent's algorithm: a ring without `queue` passes here again */
        next = policy_target(core, next);
    }
    return target != NULL && target->settings.is_fifo == queue->settings.is_fifo ? target : NULL;
}

void finish_with_rest(struct core *core, const struct queue *queue, uint32_t head, const struct queue *dead_letters)
{
    const struct group *group = core_group(core, core_group_of(core, core_message(core, head)));
    if (group->count > 1)
        core_emit(core,
                  &(struct event){
                      .kind = EVENT_GROUP_CANCELLED,
                      .group_cancelled = {.queue = queue->id,
                                          .group = group->id_owned,
                                          .sequence = core_extra_of(core, core_message(core, group->last))->sequence},
                  });
    finish_by_dead_letter(core, head, dead_letters);
}

enum group_failure finish_group_policy(const struct core *core, const struct queue *queue, uint32_t slot)
{
    const uint32_t group = core_group_of(core, core_message(core, slot));
    const bool has_policy = group != 0 && core_group(core, group)->is_line;
    return has_policy ? queue->settings.group_failure : GROUP_FAILURE_SKIP;
}

void finish_spent(struct core *core, const struct queue *queue, uint32_t slot, const struct queue *dead_letters)
{
    const struct message *message = core_message(core, slot);
    const uint32_t group = core_group_of(core, message);
    const enum group_failure policy = finish_group_policy(core, queue, slot);
    if (policy == GROUP_FAILURE_SKIP) {
        finish_by_dead_letter(core, slot, dead_letters);
        return;
    }
    if (policy == GROUP_FAILURE_CANCEL_REST) {
        finish_with_rest(core, queue, slot, dead_letters);
        return;
    }
    struct bytes reason = core_extra_of(core, message)->reason_owned;
    core_emit(core, &(struct event){
                        .kind = EVENT_GROUP_HELD,
                        .group_held = {.queue = queue->id,
                                       .group = core_group(core, group)->id_owned,
                                       .reason = reason.size > 0 ? reason : BYTES("out of attempts")},
                    });
}
