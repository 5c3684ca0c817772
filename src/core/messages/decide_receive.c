/* Decides which messages a receive takes. */
#include "core/messages/decide_receive.h"
#include "core/finish.h"

#include "base/cursor.h"
#include "core/identity.h"

/* How many messages one receive may end or move aside before it answers with what it has. */
#define RECEIVE_ASIDE_MAX 256u

/* Every sixteenth choice goes to the message that has waited longest, if that is long, so that no priority starves. */
#define LONGEST_WAITING_EACH 16u
#define PATIENCE_MS 1000u

/* --- choosing ----------------------------------------------------------------------------------------------------- */

/* Given a message without a group and a group: has the message waited longer? */
static bool is_older(const struct core *core, uint32_t alone, uint32_t group)
{
    return core_message(core, alone)->number <= core_group(core, group)->entered_at;
}

/* The message that has waited longest, if it has waited too long; or 0. */
static uint32_t choose_longest_waiting(struct core *core, const struct queue *queue, uint32_t alone)
{
    uint32_t group = group_choose(core, queue->message_list, true);
    bool is_alone = alone != 0 && (group == 0 || is_older(core, alone, group));
    if (alone == 0 && group == 0)
        return 0;
    uint64_t since_ms = is_alone ? core_message(core, alone)->sent_at_ms : core_group(core, group)->entered_at_ms;
    if (since_ms + PATIENCE_MS > core->now_ms)
        return 0;
    return is_alone ? alone : group_next_deliverable(core, group);
}

/* The message that the queue would deliver next, or 0. */
static uint32_t choose(struct core *core, const struct queue *queue)
{
    uint32_t alone =
        message_list_next_deliverable(core_message_list_at(core, queue->message_list), &core->messages.items);
    bool is_sixteenth = core->messages.delivery_number % LONGEST_WAITING_EACH == LONGEST_WAITING_EACH - 1;
    uint32_t impatient = is_sixteenth ? choose_longest_waiting(core, queue, alone) : 0;
    if (impatient != 0)
        return impatient;
    uint32_t group = group_choose(core, queue->message_list, false);
    if (group == 0)
        return alone;
    unsigned ring = core_group(core, group)->ring, ring_alone = group_quiet_ring(PRIORITY_DEFAULT);
    bool is_alone_first = alone != 0 && (ring == ring_alone ? is_older(core, alone, group) : ring_alone < ring);
    return is_alone_first ? alone : group_next_deliverable(core, group);
}

/* Has it no attempts left, or has it failed for good? */
static bool is_spent(const struct core *core, const struct queue *queue, const struct queue *dead_letters,
                     uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    if (message->extra != 0 && core_extra_of(core, message)->is_final)
        return true;
    return dead_letters != NULL && core_attempt_count(core, message) >= queue->settings.receive_count_max;
}

/* The message after the one just taken, if both belong to one run of a FIFO group; else 0. */
static uint32_t next_of_run(const struct core *core, const struct queue *queue, const struct queue *dead_letters,
                            uint32_t taken)
{
    uint32_t group = taken == 0 ? 0 : core_group_of(core, core_message(core, taken));
    if (group == 0 || !core_group(core, group)->is_line || !group_has_token(core, core_group(core, group)))
        return 0;
    uint32_t next = core_extra_of(core, core_message(core, taken))->next;
    bool is_good = next != 0 && message_is_deliverable(core_message(core, next)) &&
                   !core_message_is_dead(core, core_message(core, next)) && !is_spent(core, queue, dead_letters, next);
    return is_good ? next : 0;
}

/* The next message to deliver, or 0. Removes messages that are cancelled or have no attempts left, up to *aside_left of
 * them. */
static uint32_t next_to_deliver(struct core *core, const struct queue *queue, const struct queue *dead_letters,
                                uint32_t taken, unsigned *aside_left)
{
    if (!core_queue_is_open(core, queue))
        return 0;
    uint32_t next = next_of_run(core, queue, dead_letters, taken);
    if (next != 0)
        return next;
    for (;;) {
        uint32_t slot = choose(core, queue);
        if (slot == 0)
            return 0;
        bool is_cancelled = core_message_is_dead(core, core_message(core, slot));
        if (!is_cancelled && !is_spent(core, queue, dead_letters, slot))
            return slot;
        if (*aside_left == 0 || core_frame_is_ample(core))
            return 0;
        (*aside_left)--;
        if (is_cancelled)
            finish_message(core, slot, END_CANCELLED);
        else
            finish_spent(core, queue, slot, dead_letters);
    }
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

/* A copy that stays valid when the original is freed. */
static struct bytes keep_text(struct core *core, struct bytes text)
{
    return text.size == 0 ? bytes_make(NULL, 0) : arena_copy(&core->received_texts, text);
}

struct received_message received_describe(const struct core *core, const struct queue *queue, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    const struct message_extra *extra = core_extra_of(core, message);
    const bool is_received = message->first_received_after_ms > 0;
    struct bytes nothing = {NULL, 0};
    return (struct received_message){
        .handle = {.queue = queue->id, .message = message->number, .delivery = message->delivery},
        .slot = slot,
        .position = message->position,
        .content_size = message->content_size,
        .receive_count = message->receive_count,
        .sent_at_ms = message->sent_at_ms,
        .first_received_at_ms = is_received ? message->sent_at_ms + message->first_received_after_ms - 1 : 0,
        .origin = message->origin == 0 ? nothing : core_queue(core, message->origin)->name_owned,
        .is_renamed = message_is_renamed(message),
        .sequence = extra == NULL || !message->is_grouped ? 0 : extra->sequence,
        .reason = extra == NULL ? nothing : extra->reason_owned,
    };
}

static struct received_message describe_received(struct core *core, const struct queue *queue, uint32_t slot)
{
    struct received_message message = received_describe(core, queue, slot);
    message.origin = keep_text(core, message.origin);
    message.reason = keep_text(core, message.reason);
    return message;
}

static void lease(struct core *core, uint32_t slot, uint32_t timeout_ms)
{
    core_emit(core, &(struct event){
                        .kind = EVENT_RECEIVED,
                        .received = {.number = core_message(core, slot)->number,
                                     .delivery = core->messages.delivery_number + 1,
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

/* After all are chosen; otherwise one receive could take a message twice. With a timeout of 0 the messages stay
 * visible: the last one goes first, so that a strict queue fences none of them. From an at-most-once queue they are
 * over. */
static void release(struct core *core, const struct queue *queue, uint32_t timeout_ms,
                    struct received_message *messages, unsigned count)
{
    for (unsigned i = count; i > 0; i--) {
        uint64_t number = messages[i - 1].handle.message;
        messages[i - 1].slot = 0;
        if (queue->settings.is_at_most_once)
            finish_message(core, core_find_message(core, number), END_TAKEN);
        else if (timeout_ms == 0)
            change_lease(core, number, 0);
    }
}

enum error decide_receive(struct core *core, struct queue *queue, unsigned count_max, uint32_t timeout_ms,
                          uint32_t in_flight_max, struct received_message messages[RECEIVE_MAX], unsigned *count)
{
    ASSERT(count_max >= 1 && count_max <= RECEIVE_MAX);
    const struct message_list *list = core_message_list_at(core, queue->message_list);
    *count = 0;
    arena_reset(&core->received_texts);
    if (list->in_flight_count >= in_flight_max)
        return queue->settings.is_fifo ? OK : ERROR_OVER_LIMIT;
    uint64_t room = in_flight_max - list->in_flight_count;
    if (count_max > room)
        count_max = (unsigned)room;
    const struct queue *dead_letters = finish_dead_letter_queue(core, queue);
    unsigned aside_left = RECEIVE_ASIDE_MAX;
    uint32_t taken = 0;
    for (; *count < count_max; (*count)++) {
        taken = next_to_deliver(core, queue, dead_letters, taken, &aside_left);
        if (taken == 0)
            break;
        lease(core, taken, timeout_ms > 0 ? timeout_ms : 1);
        messages[*count] = describe_received(core, queue, taken);
    }
    if (timeout_ms == 0 || queue->settings.is_at_most_once)
        release(core, queue, timeout_ms, messages, *count);
    return OK;
}

/* --- attempt ids -------------------------------------------------------------------------------------------------- */

/* The message, if that delivery still holds it and its lease was never changed; else 0. */
static uint32_t find_unchanged(const struct core *core, const struct queue *queue, uint64_t number, uint64_t delivery)
{
    uint32_t slot = core_find_message(core, number);
    if (slot == 0)
        return 0;
    const struct message *message = core_message(core, slot);
    const struct message_extra *extra = core_extra_of(core, message);
    bool is_held = message->message_list == queue->message_list && message->state == MESSAGE_IN_FLIGHT &&
                   message->delivery == delivery && !core_message_is_dead(core, message);
    return is_held && extra != NULL && !extra->is_fenced && !extra->is_changed ? slot : 0;
}

static void remember_for(struct core *core, const struct queue *queue, struct bytes attempt,
                         const struct received_message *messages, unsigned count, uint64_t window_ms)
{
    buffer_truncate(&core->scratch, 0);
    for (unsigned i = 0; i < count; i++) {
        buffer_append_u64(&core->scratch, messages[i].handle.message);
        buffer_append_u64(&core->scratch, messages[i].handle.delivery);
    }
    core_emit(core, &(struct event){
                        .kind = EVENT_ATTEMPTED,
                        .attempted = {.queue = queue->id,
                                      .attempt = attempt,
                                      .expires_at_ms = core->now_ms + window_ms,
                                      .deliveries = buffer_bytes(&core->scratch)},
                    });
}

enum error decide_receive_again(struct core *core, struct queue *queue, struct bytes attempt, uint32_t timeout_ms,
                                struct received_message messages[RECEIVE_MAX], unsigned *count)
{
    struct bytes deliveries = deduplication_find_attempt(core, queue, attempt);
    *count = 0;
    arena_reset(&core->received_texts);
    struct cursor cursor = cursor_make(deliveries);
    while (cursor.rest.size > 0 && *count < RECEIVE_MAX) {
        uint64_t number = cursor_u64(&cursor);
        uint64_t delivery = cursor_u64(&cursor);
        uint32_t slot = find_unchanged(core, queue, number, delivery);
        if (slot == 0)
            return ERROR_INVALID_PARAMETER_VALUE;
        messages[(*count)++] = describe_received(core, queue, slot);
    }
    for (unsigned i = *count; i > 0; i--)
        change_lease(core, messages[i - 1].handle.message, timeout_ms);
    for (unsigned i = 0; i < *count && timeout_ms == 0; i++)
        messages[i].slot = 0;
    if (*count > 0)
        remember_for(core, queue, attempt, messages, *count, ATTEMPT_WINDOW_MS); /* it replaces the former one: no
                                                                                  * more */
    return OK;
}

void decide_remember_attempt(struct core *core, const struct queue *queue, struct bytes attempt,
                             const struct received_message *messages, unsigned count)
{
    if (queue->settings.is_at_most_once)
        return; /* the messages are over: if the reply was lost, they are lost, too */
    uint64_t window_ms = deduplication_attempt_window_ms(core->deduplication.attempts.used);
    if (window_ms > 0)
        remember_for(core, queue, attempt, messages, count, window_ms);
}
