/* Decisions about messages: send, receive, delete, change of visibility. */
#include "core/decide.h"
#include "core/finish.h"

#include "core/identity.h"

/* Messages that one receive may end or move aside before it answers with what it has. */
#define RECEIVE_ASIDE_MAX 256u

/* A chain of dead-letter queues that is longer counts as a ring. */
#define DEAD_LETTER_HOPS_MAX 16u

/* From the receive that leased a message on. Source: SQS API reference, ChangeMessageVisibility. */
#define LEASE_MS_MAX (12u * 3600u * 1000u)

enum error decide_send(struct core *core, const struct send_command *command, struct send_result *result)
{
    const struct batch *batch = NULL;
    if (command->batch_id.size > 0) {
        batch = core_find_batch(core, command->batch_id);
        enum error error = batch == NULL ? ERROR_BATCH_DOES_NOT_EXIST : batch_check_room(batch, 1);
        if (error != OK)
            return error;
    }
    struct content content = command->content;
    uint64_t number = core->message_number + 1;
    identity_message(core->digest_owned, number, content.id);
    buffer_truncate(&core->scratch, 0);
    content_encode(&content, &core->scratch);
    core_emit(core, &(struct event){
                        .kind = EVENT_SENT,
                        .sent = {.number = number,
                                 .queue = command->queue->id,
                                 .visible_at_ms = command->delay_ms == 0 ? 0 : core->now_ms + command->delay_ms,
                                 .batch = batch == NULL ? 0 : batch->number,
                                 .unit = batch == NULL ? 0 : batch->ledger.count,
                                 .content = buffer_bytes(&core->scratch)},
                    });
    if (batch != NULL)
        finish_total(core, core_find_batch_by_number(core, batch->number));
    result->number = number;
    memcpy(result->id, content.id, sizeof(result->id));
    return OK;
}

/* The queue that the policy names, or NULL. */
static const struct queue *policy_target(const struct core *core, const struct queue *queue)
{
    return queue->settings.receive_count_max == 0
               ? NULL
               : core_find_queue(core, queue_name_of_arn(queue->settings.dead_letter_arn));
}

/* The queue that messages out of attempts go to: NULL without a policy, and where the target is gone, is the queue itself or
 * leads back to it (they are then delivered as if there were no policy, never dropped). In such a ring each queue would give a
 * message to the next for ever, since its receive count goes with it. A ring that the targets only lead into is left to the
 * queues in it. */
static const struct queue *dead_letter_target(const struct core *core, const struct queue *queue)
{
    const struct queue *target = policy_target(core, queue);
    const struct queue *next = target, *seen = NULL;
    for (unsigned hops = 1; next != NULL && next != seen; hops++) {
        if (next == queue || hops > DEAD_LETTER_HOPS_MAX)
            return NULL;
        if ((hops & (hops - 1)) == 0)
            seen = next; /* Brent: a ring without `queue` comes by here again */
        next = policy_target(core, next);
    }
    return target;
}

static struct received_message describe_received(const struct core *core, const struct queue *queue, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    return (struct received_message){
        .handle = {.queue = queue->id, .message = message->number, .delivery = message->delivery},
        .position = message->position,
        .content_size = message->content_size,
        .receive_count = message->receive_count,
        .sent_at_ms = message->sent_at_ms,
        .first_received_at_ms = message->sent_at_ms + message->first_received_after_ms - 1,
        .origin = message->origin,
    };
}

/* The next message to deliver, or 0; puts out of the way what is cancelled or out of attempts, up to *aside_left of them. */
static uint32_t next_to_deliver(struct core *core, const struct queue *queue, const struct queue *dead_letters,
                                unsigned *aside_left)
{
    for (;;) {
        uint32_t slot = shelf_next_deliverable(core_shelf_at(core, queue->shelf), &core->messages);
        if (slot == 0)
            return 0;
        const struct message *message = core_message(core, slot);
        bool is_cancelled = core_message_is_dead(core, message);
        bool is_spent = dead_letters != NULL && message->receive_count >= queue->settings.receive_count_max;
        if (!is_cancelled && !is_spent)
            return slot;
        if (*aside_left == 0 || core_frame_is_ample(core))
            return 0;
        (*aside_left)--;
        if (is_cancelled)
            finish_message(core, slot, END_CANCELLED);
        else
            finish_by_dead_letter(core, slot, dead_letters);
    }
}

static void lease(struct core *core, uint32_t slot, uint32_t timeout_ms)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_RECEIVED,
                        .received = {.number = core_message(core, slot)->number,
                                     .delivery = core->delivery_number + 1,
                                     .timeout_ms = timeout_ms},
                    });
}

static void change_lease(struct core *core, uint64_t number, uint32_t timeout_ms)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_VISIBILITY_CHANGED,
                        .visibility_changed = {.number = number, .timeout_ms = timeout_ms},
                    });
}

enum error decide_receive(struct core *core, struct queue *queue, unsigned count_max, uint32_t timeout_ms,
                          uint32_t in_flight_max, struct received_message messages[RECEIVE_MAX], unsigned *count)
{
    ASSERT(count_max >= 1 && count_max <= RECEIVE_MAX);
    const struct shelf *shelf = core_shelf_at(core, queue->shelf);
    if (shelf->in_flight_count >= in_flight_max)
        return ERROR_OVER_LIMIT;
    uint64_t room = in_flight_max - shelf->in_flight_count;
    if (count_max > room)
        count_max = (unsigned)room;
    const struct queue *dead_letters = dead_letter_target(core, queue);
    unsigned aside_left = RECEIVE_ASIDE_MAX;
    for (*count = 0; *count < count_max; (*count)++) {
        uint32_t slot = next_to_deliver(core, queue, dead_letters, &aside_left);
        if (slot == 0)
            break;
        lease(core, slot, timeout_ms > 0 ? timeout_ms : 1);
        messages[*count] = describe_received(core, queue, slot);
    }
    /* With a timeout of 0 the messages stay visible, but only after all are chosen, or one receive would take one twice. */
    for (unsigned i = 0; timeout_ms == 0 && i < *count; i++)
        change_lease(core, messages[i].handle.message, 0);
    return OK;
}

/* The live message in this queue of which `text` is the newest handle, in *slot; 0 in *slot if the handle is an older one or
 * its message has ended (then *is_gone). ERROR_RECEIPT_HANDLE_IS_INVALID if it is no handle of this queue. */
static enum error find_held(struct core *core, const struct queue *queue, struct bytes text, uint32_t *slot,
                            bool *is_gone)
{
    struct handle handle;
    if (!handle_from_text(core->digest_owned, text, &handle) || handle.queue != queue->id)
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    uint32_t found = core_find_message(core, handle.message);
    *is_gone = found == 0 || core_message(core, found)->shelf != queue->shelf ||
               core_message_is_dead(core, core_message(core, found));
    bool is_newest = !*is_gone && core_message(core, found)->delivery == handle.delivery;
    *slot = is_newest ? found : 0;
    return OK;
}

enum error decide_delete(struct core *core, struct queue *queue, struct bytes handle)
{
    uint32_t slot;
    bool is_gone;
    enum error error = find_held(core, queue, handle, &slot, &is_gone);
    if (error == OK && slot != 0)
        finish_message(core, slot, END_DELETED);
    return error;
}

enum error decide_change_visibility(struct core *core, struct queue *queue, struct bytes handle, uint32_t timeout_ms,
                                    bool *is_gone)
{
    uint32_t slot;
    enum error error = find_held(core, queue, handle, &slot, is_gone);
    if (error != OK)
        return error;
    if (*is_gone)
        return ERROR_INVALID_PARAMETER_VALUE;
    if (slot == 0)
        return OK;
    const struct message *message = core_message(core, slot);
    uint64_t received_at_ms = message->sent_at_ms + message->received_after_ms;
    if (timeout_ms > 0 && core->now_ms + timeout_ms > received_at_ms + LEASE_MS_MAX)
        return ERROR_INVALID_PARAMETER_VALUE;
    change_lease(core, message->number, timeout_ms);
    return OK;
}
