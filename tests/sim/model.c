#include "model.h"

#include "base/assert.h"
#include <string.h>

#define LEASE_MS_MAX ((uint64_t)12 * 3600 * 1000)
#define GRACE_MS 30000u

static void finish(struct model *model, struct model_message *message, enum fate fate);
static void step(struct model *model, struct model_batch *batch, bool has_failure, int forced_status);

void model_copy(struct model *to, const struct model *from)
{
    memcpy(to, from, offsetof(struct model, batches));
    memcpy(to->batches, from->batches, sizeof(from->batches[0]) * (size_t)from->batch_count);
    memcpy(to->messages, from->messages, sizeof(from->messages[0]) * (size_t)from->message_count);
}

int model_find_queue(const struct model *model, int name)
{
    for (int i = 0; i < model->queue_count; i++)
        if (model->queues[i].exists && model->queues[i].name == name)
            return i;
    return NONE;
}

int model_find_batch(const struct model *model, int name)
{
    for (int i = 0; i < model->batch_count; i++)
        if (model->batches[i].is_record && !model->batches[i].is_deleted && model->batches[i].name == name)
            return i;
    return NONE;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

static enum error adopt_numbers(const struct model *model, struct queue_numbers *to, const struct queue_numbers *from)
{
    if (from->dead_letters != NONE && model_find_queue(model, from->dead_letters) == NONE)
        return ERROR_INVALID_PARAMETER_VALUE;
    struct queue_numbers before = *to;
    *to = *from;
    if (from->dead_letters == NONE) { /* not said: stays */
        to->dead_letters = before.dead_letters;
        to->receive_max = before.receive_max;
    }
    return OK;
}

enum error model_create_queue(struct model *model, int name, const struct queue_numbers *numbers)
{
    int found = model_find_queue(model, name);
    struct queue_numbers adopted = {.dead_letters = NONE};
    if (found != NONE)
        adopted = model->queues[found].numbers;
    enum error error = adopt_numbers(model, &adopted, numbers);
    if (error != OK)
        return error;
    if (found != NONE) {
        const struct queue_numbers *has = &model->queues[found].numbers;
        bool is_same = has->delay_s == adopted.delay_s && has->visibility_s == adopted.visibility_s &&
                       has->retention_s == adopted.retention_s && has->dead_letters == adopted.dead_letters &&
                       has->receive_max == adopted.receive_max;
        return is_same ? OK : ERROR_QUEUE_NAME_EXISTS;
    }
    ASSERT(model->queue_count < MODEL_QUEUES_MAX);
    model->queues[model->queue_count++] = (struct model_queue){.exists = true, .name = name, .numbers = adopted};
    return OK;
}

enum error model_set_queue(struct model *model, int name, const struct queue_numbers *numbers)
{
    int found = model_find_queue(model, name);
    if (found == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    return adopt_numbers(model, &model->queues[found].numbers, numbers);
}

static void condemn(struct model *model, int queue)
{
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].queue == queue)
            model->messages[i].is_condemned = true;
}

enum error model_purge_queue(struct model *model, int name)
{
    int found = model_find_queue(model, name);
    if (found == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    condemn(model, found);
    return OK;
}

enum error model_delete_queue(struct model *model, int name)
{
    int found = model_find_queue(model, name);
    if (found == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    for (int i = 0; i < model->batch_count; i++)
        for (unsigned k = 0; k < TARGETS; k++)
            if (model->batches[i].is_record && model->batches[i].state != MODEL_COMPLETED &&
                model->batches[i].targets[k] == found)
                return ERROR_QUEUE_IN_USE;
    condemn(model, found);
    model->queues[found].exists = false;
    return OK;
}

struct queue_counts model_count_queue(const struct model *model, int queue)
{
    struct queue_counts counts = {0};
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        if (!message->is_alive || message->is_condemned || message->queue != queue)
            continue;
        if (message->visible_at <= model->now)
            counts.visible++;
        else if (message->is_leased)
            counts.in_flight++;
        else
            counts.delayed++;
    }
    return counts;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

bool model_is_dead(const struct model *model, const struct model_message *message)
{
    return message->is_condemned || (message->batch != NONE && message->completes == 0 &&
                                     model->batches[message->batch].status == STATUS_CANCELLED);
}

bool model_is_deliverable(const struct model *model, const struct model_message *message)
{
    return message->is_alive && !message->is_condemned && message->visible_at <= model->now;
}

static struct model_message *add_message(struct model *model, int queue, uint64_t delay_ms)
{
    ASSERT(model->message_count < MODEL_MESSAGES_MAX);
    struct model_message *message = &model->messages[model->message_count++];
    *message = (struct model_message){
        .is_alive = true,
        .queue = queue,
        .origin = NONE,
        .batch = NONE,
        .handle = NONE,
        .settled_in = NONE,
        .sent_at = model->now,
        .visible_at = model->now + delay_ms,
        .order = ++model->order,
        .tie = model->tie,
    };
    return message;
}

static void seal_at_total(struct model *model, struct model_batch *batch)
{
    if (batch->state != MODEL_OPEN || batch->total == NONE || model_counts(batch).total < batch->total)
        return;
    batch->state = MODEL_SEALED;
    batch->sealed_at = model->now;
}

/* May `count` more units join? */
static enum error check_room(const struct model_batch *batch, int count)
{
    if (batch->state != MODEL_OPEN)
        return ERROR_BATCH_SEALED;
    if (batch->total != NONE && model_counts(batch).total + count > batch->total)
        return ERROR_BATCH_TOTAL_EXCEEDED;
    return OK;
}

static int add_unit(struct model_batch *batch, enum unit_of kind, int key)
{
    if (batch->is_xor) {
        batch->xor_registered++;
        batch->xor_inside++;
        return 0;
    }
    ASSERT(batch->unit_count < MODEL_UNITS_MAX);
    batch->units[batch->unit_count] = (struct model_unit){.kind = kind, .key = key, .detail = NONE};
    return batch->unit_count++;
}

enum error model_send(struct model *model, int queue_name, const struct entry *entry, int *sent)
{
    int queue = model_find_queue(model, queue_name);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    struct model_batch *batch = NULL;
    if (entry->batch != NONE) {
        int record = model_find_batch(model, entry->batch);
        if (record == NONE)
            return ERROR_BATCH_DOES_NOT_EXIST;
        batch = &model->batches[record];
        enum error error = check_room(batch, 1);
        if (error != OK)
            return error;
    }
    int delay_s = entry->delay_s != NONE ? entry->delay_s : model->queues[queue].numbers.delay_s;
    struct model_message *message = add_message(model, queue, (uint64_t)delay_s * 1000);
    *sent = model->message_count - 1;
    message->tag = entry->tag;
    message->body_size = entry->size;
    if (batch != NULL) {
        message->batch = (int)(batch - model->batches);
        message->unit = add_unit(batch, UNIT_OF_MESSAGE, *sent);
        seal_at_total(model, batch);
    }
    return OK;
}

/* The queue that the policy names, if it is there, or NONE. */
static int policy_target(const struct model *model, int queue)
{
    const struct queue_numbers *numbers = &model->queues[queue].numbers;
    return numbers->dead_letters == NONE ? NONE : model_find_queue(model, numbers->dead_letters);
}

/* The queue that messages out of attempts go to, or NONE: also where the policies lead back to the queue. */
static int dead_letter_queue(const struct model *model, int queue)
{
    int next = policy_target(model, queue);
    for (int hops = 0; hops < model->queue_count && next != NONE && next != queue; hops++)
        next = policy_target(model, next);
    return next == queue ? NONE : policy_target(model, queue);
}

static void move_to_dead_letters(struct model *model, struct model_message *message, int to)
{
    finish(model, message, FATE_FAILED);
    message->origin = message->queue;
    message->queue = to;
    message->is_moved = true;
    message->is_leased = false;
    message->visible_at = model->now;
}

static struct model_message *oldest_deliverable(struct model *model, int queue)
{
    struct model_message *oldest = NULL;
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        if (message->queue == queue && model_is_deliverable(model, message) &&
            (oldest == NULL || message->order < oldest->order))
            oldest = message;
    }
    return oldest;
}

/* `first` turns out to have been accepted before `second`, with which it was tied. */
static void settle_tie(struct model *model, struct model_message *first, const struct model_message *second)
{
    uint32_t place = second->order;
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].order >= place && model->messages[i].order < first->order)
            model->messages[i].order++;
    first->order = place;
}

static void end_message(struct model *model, struct model_message *message, enum fate fate);

enum error model_receive(struct model *model, struct model_receive *receive)
{
    unsigned in_flight = model_count_queue(model, receive->queue).in_flight;
    receive->count = 0;
    if (in_flight >= receive->in_flight_max)
        return ERROR_OVER_LIMIT;
    unsigned max =
        receive->in_flight_max - in_flight < receive->max ? receive->in_flight_max - in_flight : receive->max;
    int dead_letters = dead_letter_queue(model, receive->queue);
    int attempts = model->queues[receive->queue].numbers.receive_max;
    while (receive->count < max) {
        struct model_message *message = oldest_deliverable(model, receive->queue);
        if (message == NULL)
            break;
        int place = receive->seen == NULL ? NONE : receive->seen(receive->context, receive->count);
        if (place != NONE) {
            struct model_message *seen = &model->messages[place];
            bool is_settled = message->settled_in == receive->queue && seen->origin == NONE;
            if (seen != message && seen->tie != 0 && seen->tie == message->tie && !is_settled &&
                seen->queue == receive->queue && model_is_deliverable(model, seen)) {
                settle_tie(model, seen, message);
                message = seen;
            }
        }
        if (model_is_dead(model, message)) {
            end_message(model, message, FATE_CANCELLED);
            continue;
        }
        if (dead_letters != NONE && message->receive_count >= (uint32_t)attempts) {
            move_to_dead_letters(model, message, dead_letters);
            continue;
        }
        message->receive_count++;
        message->settled_in = receive->queue;
        message->is_leased = true;
        message->received_at = model->now;
        message->timeout_ms = receive->timeout_ms > 0 ? receive->timeout_ms : 1;
        message->visible_at = model->now + message->timeout_ms;
        receive->taken[receive->count++] = (int)(message - model->messages);
    }
    for (unsigned i = 0; receive->timeout_ms == 0 && i < receive->count; i++) {
        model->messages[receive->taken[i]].visible_at = model->now;
        model->messages[receive->taken[i]].timeout_ms = 0;
    }
    return OK;
}

/* Checks a handle; *held is the message if the handle is the newest of a live one, else NULL. */
static enum error find_held(struct model *model, int queue_name, int queue, int index, int handle,
                            struct model_message **held, bool *is_gone)
{
    int found = model_find_queue(model, queue_name);
    if (found == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    if (found != queue)
        return ERROR_RECEIPT_HANDLE_IS_INVALID;
    struct model_message *message = &model->messages[index];
    *is_gone = !message->is_alive || message->queue != queue || model_is_dead(model, message);
    *held = !*is_gone && message->handle == handle ? message : NULL;
    return OK;
}

enum error model_delete(struct model *model, int queue_name, int queue, int message, int handle)
{
    struct model_message *held;
    bool is_gone;
    enum error error = find_held(model, queue_name, queue, message, handle, &held, &is_gone);
    if (error == OK && held != NULL)
        end_message(model, held, FATE_SUCCEEDED);
    return error;
}

enum error model_change_visibility(struct model *model, int queue_name, int queue, int message, int handle,
                                   uint64_t timeout_ms)
{
    struct model_message *held;
    bool is_gone;
    enum error error = find_held(model, queue_name, queue, message, handle, &held, &is_gone);
    if (error != OK)
        return error;
    if (is_gone)
        return ERROR_INVALID_PARAMETER_VALUE;
    if (held == NULL)
        return OK;
    if (timeout_ms > 0 && model->now + timeout_ms > held->received_at + LEASE_MS_MAX)
        return ERROR_INVALID_PARAMETER_VALUE;
    held->is_leased = true;
    held->timeout_ms = timeout_ms;
    held->visible_at = model->now + timeout_ms;
    return OK;
}

/* --- what batches refer to ------------------------------------------------------------------------------------------ */

/* How many records keep this one: messages of it that live, children. */
static int count_pins(const struct model *model, int record)
{
    int pins = 0;
    for (int i = 0; i < model->message_count; i++)
        pins += model->messages[i].is_alive && model->messages[i].batch == record;
    for (int i = 0; i < model->batch_count; i++)
        pins += model->batches[i].is_record && model->batches[i].parent == record;
    return pins;
}

/* Something that referred to the record has gone. */
static void unpinned(struct model *model, int record)
{
    struct model_batch *batch = &model->batches[record];
    if (count_pins(model, record) > 0)
        return;
    batch->unpinned_at = model->now;
    if (!batch->is_deleted)
        return;
    batch->is_record = false;
    if (batch->parent != NONE)
        unpinned(model, batch->parent);
}

static void end_message(struct model *model, struct model_message *message, enum fate fate)
{
    finish(model, message, fate);
    message->is_alive = false;
    if (message->batch != NONE)
        unpinned(model, message->batch);
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

struct model_counts model_counts(const struct model_batch *batch)
{
    struct model_counts counts = {0};
    if (batch->is_xor) {
        counts.total = batch->xor_registered;
        counts.failed = batch->xor_failed;
        counts.succeeded = batch->xor_finished - batch->xor_failed;
        counts.remaining = batch->xor_registered - batch->xor_finished;
        if (counts.remaining < 0) /* XorUnits may report more ends than it registered units, at the messages' cost */
            counts.remaining = 0;
    }
    for (int i = 0; i < batch->unit_count; i++) {
        enum fate fate = batch->units[i].fate;
        counts.total++;
        counts.succeeded += fate == FATE_SUCCEEDED;
        counts.failed += fate == FATE_FAILED;
        counts.cancelled += fate == FATE_CANCELLED;
        counts.remaining += fate == FATE_OUTSTANDING;
    }
    if (batch->status == STATUS_CANCELLED) {
        counts.cancelled += counts.remaining;
        counts.remaining = 0;
    }
    return counts;
}

bool model_xor_is_zero(const struct model_batch *batch)
{
    return batch->xor_value == 0 && batch->xor_inside == 0;
}

static bool is_exhausted(const struct model_batch *batch)
{
    if (batch->is_xor)
        return model_xor_is_zero(batch) && batch->xor_registered == batch->xor_finished;
    return model_counts(batch).remaining == 0;
}

/* An event falls due: once. True if it has a message. */
static bool fire(struct model *model, struct model_batch *batch, unsigned event)
{
    ASSERT((batch->fired & 1u << event) == 0);
    batch->fired |= 1u << event;
    int queue = batch->targets[event - 1];
    if (queue == NONE)
        return false;
    struct model_message *message = add_message(model, queue, (uint64_t)model->queues[queue].numbers.delay_s * 1000);
    message->batch = (int)(batch - model->batches);
    message->completes = event;
    message->said_status = batch->state == MODEL_COMPLETED ? batch->status : STATUS_FAILED;
    message->said = model_counts(batch);
    return true;
}

static bool has_fired(const struct model_batch *batch, unsigned event)
{
    return (batch->fired & 1u << event) != 0;
}

/* A unit ends with this fate; again changes nothing (B3). */
static void end_unit(struct model *model, struct model_batch *batch, int unit, enum fate fate)
{
    if (batch->status == STATUS_CANCELLED)
        return;
    if (batch->is_xor) {
        batch->xor_inside--;
        batch->xor_finished++;
        batch->xor_failed += fate != FATE_SUCCEEDED;
    } else {
        if (batch->units[unit].fate != FATE_OUTSTANDING)
            return;
        batch->units[unit].fate = fate;
    }
    step(model, batch, fate == FATE_FAILED, STATUS_NONE);
}

/* The child has come to the end that its parent waits for. */
static void end_child(struct model *model, const struct model_batch *child, bool is_good)
{
    if (child->parent == NONE)
        return;
    enum fate fate = FATE_SUCCEEDED;
    if (!is_good || child->status == STATUS_FAILED || child->status == STATUS_EXPIRED)
        fate = FATE_FAILED;
    else if (child->status == STATUS_CANCELLED)
        fate = FATE_CANCELLED;
    end_unit(model, &model->batches[child->parent], child->parent_unit, fate);
}

/* The event whose message the parent of this batch waits for. */
static unsigned awaited_event(const struct model_batch *batch)
{
    return batch->targets[EVENT_COMPLETE_ - 1] != NONE ? EVENT_COMPLETE_ : EVENT_SUCCESS_;
}

/* Something happened to a batch that may complete it; forced_status: it is cancelled or expires. */
static void step(struct model *model, struct model_batch *batch, bool has_failure, int forced_status)
{
    if (batch->state == MODEL_COMPLETED)
        return;
    if (has_failure && !has_fired(batch, EVENT_FAILURE_)) {
        fire(model, batch, EVENT_FAILURE_);
        for (int up = batch->parent; up != NONE; up = model->batches[up].parent)
            if (!has_fired(&model->batches[up], EVENT_FAILURE_) && model->batches[up].state != MODEL_COMPLETED)
                fire(model, &model->batches[up], EVENT_FAILURE_);
    }
    if (forced_status == STATUS_NONE && (batch->state != MODEL_SEALED || !is_exhausted(batch)))
        return;
    struct model_counts counts = model_counts(batch);
    bool is_success = counts.succeeded == counts.total;
    batch->state = MODEL_COMPLETED;
    batch->status = forced_status != STATUS_NONE ? forced_status : is_success ? STATUS_SUCCEEDED : STATUS_FAILED;
    batch->completed_at = model->now;
    batch->unpinned_at = model->now;
    bool has_message[4] = {false};
    has_message[EVENT_COMPLETE_] = fire(model, batch, EVENT_COMPLETE_);
    if (batch->status == STATUS_SUCCEEDED)
        has_message[EVENT_SUCCESS_] = fire(model, batch, EVENT_SUCCESS_);
    if (!has_message[awaited_event(batch)])
        end_child(model, batch, true);
}

/* A message is over or has been dead-lettered: what that means for the batch it belongs to. */
static void finish(struct model *model, struct model_message *message, enum fate fate)
{
    if (message->batch == NONE || message->is_moved) /* the unit of a dead-lettered message ended then */
        return;
    struct model_batch *batch = &model->batches[message->batch];
    if (message->completes == 0)
        end_unit(model, batch, message->unit, fate);
    else if (message->completes == awaited_event(batch))
        end_child(model, batch, fate == FATE_SUCCEEDED);
}

static bool is_created_alike(const struct model *model, const struct model_batch *batch,
                             const struct operation *operation)
{
    int parent = batch->parent == NONE ? NONE : model->batches[batch->parent].name;
    if (batch->is_xor != operation->is_xor || batch->total != operation->total || parent != operation->parent ||
        batch->expires_s != operation->expires_s || batch->retention_s != operation->retention_s)
        return false;
    for (unsigned i = 0; i < TARGETS; i++) {
        int queue = operation->targets[i] == NONE ? NONE : model_find_queue(model, operation->targets[i]);
        if (batch->targets[i] != queue || (queue != NONE && batch->has_body[i] != operation->has_body[i]))
            return false;
    }
    return true;
}

enum error model_create_batch(struct model *model, const struct operation *operation, int *created)
{
    for (unsigned i = 0; i < TARGETS; i++)
        if (operation->targets[i] != NONE && model_find_queue(model, operation->targets[i]) == NONE)
            return ERROR_QUEUE_DOES_NOT_EXIST;
    *created = model_find_batch(model, operation->batch);
    if (*created != NONE)
        return is_created_alike(model, &model->batches[*created], operation) ? OK : ERROR_BATCH_ALREADY_EXISTS;
    int parent = NONE;
    if (operation->parent != NONE) {
        parent = model_find_batch(model, operation->parent);
        if (parent == NONE)
            return ERROR_BATCH_DOES_NOT_EXIST;
        enum error error = check_room(&model->batches[parent], 1);
        if (error != OK)
            return error;
    }
    ASSERT(model->batch_count < MODEL_BATCHES_MAX);
    *created = model->batch_count++;
    struct model_batch *batch = &model->batches[*created];
    *batch = (struct model_batch){
        .is_record = true,
        .name = operation->batch,
        .is_xor = operation->is_xor,
        .total = operation->total,
        .expires_s = operation->expires_s,
        .retention_s = operation->retention_s,
        .parent = parent,
        .created_at = model->now,
        .unpinned_at = model->now,
    };
    for (unsigned i = 0; i < TARGETS; i++) {
        batch->targets[i] = operation->targets[i] == NONE ? NONE : model_find_queue(model, operation->targets[i]);
        batch->has_body[i] = operation->has_body[i];
    }
    if (parent != NONE) {
        batch->parent_unit = add_unit(&model->batches[parent], UNIT_OF_CHILD, *created);
        seal_at_total(model, &model->batches[parent]);
    }
    seal_at_total(model, batch);
    step(model, batch, false, STATUS_NONE);
    return OK;
}

static int find_key(const struct model_batch *batch, int key)
{
    for (int i = 0; i < batch->unit_count; i++)
        if (batch->units[i].kind == UNIT_OF_KEY && batch->units[i].key == key)
            return i;
    return NONE;
}

enum error model_add_units(struct model *model, int record, const struct operation *operation, int *added)
{
    struct model_batch *batch = &model->batches[record];
    if (batch->is_xor)
        return ERROR_UNSUPPORTED_OPERATION;
    if (batch->state != MODEL_OPEN)
        return ERROR_BATCH_SEALED;
    int keys[MODEL_UNITS_MAX], count = 0;
    for (int i = 0; i < (operation->counted != NONE ? operation->counted : (int)operation->count); i++) {
        int key = operation->counted != NONE ? i : operation->keys[i];
        bool is_known = find_key(batch, key) != NONE;
        for (int k = 0; k < count; k++)
            is_known = is_known || keys[k] == key;
        if (!is_known)
            keys[count++] = key;
    }
    enum error error = check_room(batch, count);
    if (error != OK)
        return error;
    for (int i = 0; i < count; i++)
        add_unit(batch, UNIT_OF_KEY, keys[i]);
    *added = count;
    seal_at_total(model, batch);
    step(model, batch, false, STATUS_NONE);
    return OK;
}

enum error model_complete_units(struct model *model, int record, const struct operation *operation, bool *recorded)
{
    struct model_batch *batch = &model->batches[record];
    if (batch->is_xor)
        return ERROR_UNSUPPORTED_OPERATION;
    for (unsigned i = 0; i < operation->count; i++)
        if (find_key(batch, operation->keys[i]) == NONE)
            return ERROR_UNIT_DOES_NOT_EXIST;
    for (unsigned i = 0; i < operation->count; i++) {
        int unit = find_key(batch, operation->keys[i]);
        recorded[i] = batch->status != STATUS_CANCELLED && batch->units[unit].fate == FATE_OUTSTANDING;
        if (recorded[i])
            batch->units[unit].detail = operation->detail;
        end_unit(model, batch, unit, operation->is_failed[i] ? FATE_FAILED : FATE_SUCCEEDED);
    }
    return OK;
}

enum error model_xor_units(struct model *model, int record, const struct operation *operation)
{
    struct model_batch *batch = &model->batches[record];
    if (!batch->is_xor)
        return ERROR_UNSUPPORTED_OPERATION;
    for (int i = 0; i < batch->token_count; i++) {
        const struct model_token *token = &batch->tokens[i];
        if (token->token != operation->token)
            continue;
        bool is_same = token->value == operation->value && token->registered == operation->registered &&
                       token->finished == operation->finished;
        return is_same ? OK : ERROR_INVALID_PARAMETER_VALUE;
    }
    if (batch->xor_finished + operation->finished > batch->xor_registered + operation->registered)
        return ERROR_INVALID_PARAMETER_VALUE;
    bool adds = operation->registered > 0 || (operation->finished == 0 && batch->state == MODEL_COMPLETED);
    enum error error = adds ? check_room(batch, operation->registered) : OK;
    if (error != OK || batch->status == STATUS_CANCELLED) /* the cancel has ended every unit */
        return error;
    ASSERT(batch->token_count < MODEL_TOKENS_MAX);
    batch->tokens[batch->token_count++] = (struct model_token){
        operation->token,
        operation->value,
        operation->registered,
        operation->finished,
    };
    batch->xor_value ^= operation->value;
    batch->xor_registered += operation->registered;
    batch->xor_finished += operation->finished;
    seal_at_total(model, batch);
    step(model, batch, false, STATUS_NONE);
    return OK;
}

void model_seal(struct model *model, int record)
{
    struct model_batch *batch = &model->batches[record];
    if (batch->state != MODEL_OPEN)
        return;
    batch->state = MODEL_SEALED;
    batch->sealed_at = model->now;
    step(model, batch, false, STATUS_NONE);
}

void model_cancel(struct model *model, int record)
{
    step(model, &model->batches[record], false, STATUS_CANCELLED);
}

static void forget(struct model *model, int record)
{
    model->batches[record].is_deleted = true;
    unpinned(model, record);
}

enum error model_delete_batch(struct model *model, int record)
{
    if (model->batches[record].state != MODEL_COMPLETED)
        return ERROR_BATCH_NOT_COMPLETED;
    forget(model, record);
    return OK;
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static uint64_t deadline_of(const struct model *model, int record)
{
    const struct model_batch *batch = &model->batches[record];
    if (batch->state != MODEL_COMPLETED)
        return batch->created_at + (uint64_t)batch->expires_s * 1000;
    if (batch->is_deleted || count_pins(model, record) > 0)
        return UINT64_MAX;
    return batch->unpinned_at + (uint64_t)batch->retention_s * 1000;
}

/* The batch whose deadline comes first, among those that have come; or NONE. */
static int batch_due(const struct model *model)
{
    int due = NONE;
    for (int i = 0; i < model->batch_count; i++)
        if (model->batches[i].is_record && deadline_of(model, i) <= model->now &&
            (due == NONE || deadline_of(model, i) < deadline_of(model, due)))
            due = i;
    return due;
}

void model_tick(struct model *model)
{
    model->tie = ++model->tick_count;
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        uint64_t retention_ms = (uint64_t)model->queues[message->queue].numbers.retention_s * 1000;
        if (message->is_alive && !message->is_condemned && message->sent_at + retention_ms <= model->now)
            end_message(model, message, FATE_FAILED);
    }
    for (int due; (due = batch_due(model)) != NONE;)
        if (model->batches[due].state == MODEL_COMPLETED)
            forget(model, due);
        else
            step(model, &model->batches[due], false, STATUS_EXPIRED);
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].is_condemned)
            end_message(model, &model->messages[i], FATE_FAILED);
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].batch != NONE &&
            !model->batches[model->messages[i].batch].is_xor && model_is_dead(model, &model->messages[i]))
            end_message(model, &model->messages[i], FATE_CANCELLED);
    model->tie = 0;
}

uint64_t model_due_bytes(const struct model *model, uint64_t now)
{
    uint64_t bytes = 0;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        uint64_t retention_ms = (uint64_t)model->queues[message->queue].numbers.retention_s * 1000;
        if (message->is_alive && (model_is_dead(model, message) || message->sent_at + retention_ms <= now))
            bytes += message->batch == NONE ? 20 : 150;
    }
    for (int i = 0; i < model->batch_count; i++)
        if (model->batches[i].is_record && deadline_of(model, i) <= now)
            bytes += model->batches[i].state == MODEL_COMPLETED ? 20 : 900;
    return bytes;
}

void model_restart(struct model *model, uint64_t last_ms)
{
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        uint64_t grace_ms = message->timeout_ms < GRACE_MS ? message->timeout_ms : GRACE_MS;
        if (message->is_alive && message->is_leased && message->visible_at > last_ms &&
            message->visible_at < model->now + grace_ms)
            message->visible_at = model->now + grace_ms;
    }
}
