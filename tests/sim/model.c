#include "model.h"

#include "base/assert.h"
#include <string.h>

#define NUMBER_UNKNOWN ((uint64_t)1 << 40) /* above every number that the server gives out */

static void step(struct model *model, struct model_batch *batch, bool has_failure, int forced_status);

void model_copy(struct model *to, const struct model *from)
{
    memcpy(to, from, offsetof(struct model, groups));
    memcpy(to->groups, from->groups, sizeof(from->groups[0]) * (size_t)from->group_count);
    memcpy(to->edges, from->edges, sizeof(from->edges[0]) * (size_t)from->edge_count);
    memcpy(to->attempts, from->attempts, sizeof(from->attempts[0]) * (size_t)from->attempt_count);
    memcpy(to->memories, from->memories, sizeof(from->memories[0]) * (size_t)from->memory_count);
    memcpy(to->productions, from->productions, sizeof(from->productions[0]) * (size_t)from->production_count);
    memcpy(to->rows, from->rows, sizeof(from->rows[0]) * (size_t)from->row_count);
    memcpy(to->tasks, from->tasks, sizeof(from->tasks[0]) * (size_t)from->task_count);
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

/* What SetQueueAttributes may change of them; a window that is not said stays. */
static void adopt_traits(struct queue_traits *to, const struct queue_traits *from)
{
    struct queue_traits before = *to;
    *to = *from;
    to->is_fifo = before.is_fifo;
    to->is_content_based = before.is_content_based;
    to->is_scope_group = before.is_scope_group;
    to->is_at_most_once = before.is_at_most_once;
    to->queue_rate_ms = before.queue_rate_ms;
    to->queue_burst = before.queue_burst;
    to->group_rate_ms = before.group_rate_ms;
    to->group_burst = before.group_burst;
    if (from->window_s == NONE)
        to->window_s = before.window_s;
}

static bool has_same_traits(const struct queue_traits *one, const struct queue_traits *other)
{
    bool has_same_backoff =
        one->has_backoff == other->has_backoff &&
        (!one->has_backoff ||
         (one->backoff_min_s == other->backoff_min_s && one->backoff_max_s == other->backoff_max_s &&
          one->backoff_factor == other->backoff_factor && one->backoff_jitter == other->backoff_jitter));
    return has_same_backoff && one->is_strict == other->is_strict && one->on_failure == other->on_failure &&
           one->refuses_stale == other->refuses_stale &&
           (other->window_s == NONE || one->window_s == other->window_s) && one->concurrency == other->concurrency;
}

enum error model_create_queue(struct model *model, int name, const struct queue_numbers *numbers,
                              const struct queue_traits *traits)
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
                       has->receive_max == adopted.receive_max && has_same_traits(&model->queues[found].traits, traits);
        return is_same ? OK : ERROR_QUEUE_NAME_EXISTS;
    }
    ASSERT(model->queue_count < MODEL_QUEUES_MAX);
    model->queues[model->queue_count++] = (struct model_queue){
        .exists = true,
        .name = name,
        .numbers = adopted,
        .traits = *traits,
        .tokens = traits->queue_burst,
        .tokens_at = model->now,
    };
    return OK;
}

/* A FIFO queue's delay counts for what it holds already. */
static void delay_anew(struct model *model, int queue)
{
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        if (message->is_alive && !message->is_condemned && message->queue == queue && message->receive_count == 0)
            message->visible_at = message->sent_at + (uint64_t)model->queues[queue].numbers.delay_s * 1000;
    }
}

enum error model_tag_queue(struct model *model, const struct operation *operation)
{
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    bool is_tag = operation->kind == OPERATION_TAG_QUEUE;
    for (unsigned i = 0; i < TAGS; i++)
        if (operation->tags[i] != 0)
            model->queues[queue].tags[i] = is_tag ? operation->tags[i] : 0;
    return OK;
}

enum error model_permit(struct model *model, const struct operation *operation)
{
    int queue = model_find_queue(model, operation->queue);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    bool *has_label = &model->queues[queue].has_label[operation->label];
    bool is_added = operation->kind == OPERATION_ADD_PERMISSION;
    if (*has_label == is_added)
        return ERROR_INVALID_PARAMETER_VALUE;
    *has_label = is_added;
    return OK;
}

enum error model_set_queue(struct model *model, int name, const struct queue_numbers *numbers,
                           const struct queue_traits *traits)
{
    int found = model_find_queue(model, name);
    if (found == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    int delay_before_s = model->queues[found].numbers.delay_s;
    enum error error = adopt_numbers(model, &model->queues[found].numbers, numbers);
    if (error == OK && traits != NULL)
        adopt_traits(&model->queues[found].traits, traits);
    if (error == OK && model->queues[found].traits.is_fifo && numbers->delay_s != delay_before_s)
        delay_anew(model, found);
    return error;
}

void model_condemn(struct model *model, int queue)
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
    model_condemn(model, found);
    if (model->queues[found].traits.window_s == NONE)
        model_forget_ids(model, found);
    for (int i = 0; i < model->group_count; i++)
        if (model->groups[i].queue == found)
            model->groups[i].tokens = model->queues[found].traits.group_burst;
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
    model_condemn(model, found);
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
        if (model_is_waiting(model, message))
            counts.delayed++;
        else if (message->visible_at <= model->now)
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
    return message->is_condemned || message->is_cancelled ||
           (message->batch != NONE && message->completes == 0 &&
            model->batches[message->batch].status == STATUS_CANCELLED);
}

uint64_t model_next_place(struct model *model)
{
    return NUMBER_UNKNOWN + ++model->order;
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
        .group = NO_GROUP,
        .priority = PRIORITY_USUAL,
        .reason = NONE,
        .type = NONE,
        .sent_at = model->now,
        .counted_from = model->now,
        .visible_at = model->now + delay_ms,
        .order = model_next_place(model),
        .is_of_tick = model->is_in_tick,
    };
    message->line = message->order;
    return message;
}

static void seal_at_total(struct model *model, struct model_batch *batch)
{
    if (batch->state != MODEL_OPEN || batch->total == NONE || model_counts(batch).total < batch->total + batch->grown)
        return;
    batch->state = MODEL_SEALED;
    batch->sealed_at = model->now;
}

/* May `count` more units join? */
static enum error check_room(const struct model_batch *batch, int count)
{
    if (batch->is_growing)
        return batch->state == MODEL_COMPLETED ? ERROR_BATCH_SEALED : OK;
    if (batch->state != MODEL_OPEN)
        return ERROR_BATCH_SEALED;
    if (batch->total != NONE && model_counts(batch).total + count > batch->total + batch->grown)
        return ERROR_BATCH_TOTAL_EXCEEDED;
    return OK;
}

static int add_unit(struct model_batch *batch, enum unit_of kind, int key)
{
    batch->grown += batch->is_growing;
    if (batch->is_xor) {
        batch->xor_registered++;
        batch->xor_inside++;
        return 0;
    }
    ASSERT(batch->unit_count < MODEL_UNITS_MAX);
    batch->units[batch->unit_count] = (struct model_unit){.kind = kind, .key = key, .detail = NONE};
    return batch->unit_count++;
}

enum error model_send(struct model *model, int queue_name, const struct entry *entry, int *sent, bool *is_duplicate)
{
    int queue = model_find_queue(model, queue_name);
    if (queue == NONE)
        return ERROR_QUEUE_DOES_NOT_EXIST;
    *is_duplicate = model_find_duplicate(model, queue, entry, sent);
    if (*is_duplicate)
        return OK;
    struct model_batch *batch = NULL;
    if (entry->batch != NONE) {
        int record = model_find_batch(model, entry->batch);
        if (record == NONE)
            return ERROR_BATCH_DOES_NOT_EXIST;
        batch = &model->batches[record];
        enum error room = check_room(batch, 1);
        if (room != OK)
            return room;
    }
    struct model_waits waits;
    enum error error = model_plan_waits(model, entry, &waits);
    int joined = batch == NULL ? NONE : (int)(batch - model->batches);
    if (error == OK && !waits.is_unmet && model_would_wait_for_itself(model, entry, queue, joined, &waits))
        error = ERROR_DEPENDENCY_CYCLE;
    if (error != OK)
        return error;
    int delay_s = entry->delay_s != NONE ? entry->delay_s : model->queues[queue].numbers.delay_s;
    struct model_message *message = add_message(model, queue, (uint64_t)delay_s * 1000);
    *sent = model->message_count - 1;
    message->tag = entry->tag;
    message->group = entry->group;
    if (entry->priority != NONE && entry->priority != PRIORITY_USUAL) {
        message->priority = entry->priority;
        message->group = entry->group != NO_GROUP ? entry->group : OWN_GROUP;
    }
    message->body_size = entry->size;
    model_remember(model, queue, entry, *sent);
    if (batch != NULL) {
        message->batch = (int)(batch - model->batches);
        message->unit = add_unit(batch, UNIT_OF_MESSAGE, *sent);
        seal_at_total(model, batch);
    }
    if (entry->type != NONE && message->group >= 0)
        model_type(model, message, entry->type);
    if (waits.is_unmet)
        model_end(model, message, FATE_FAILED);
    else
        model_wait(model, *sent, &waits, entry->after_failure);
    return OK;
}

/* --- what batches refer to ---------------------------------------------------------------------------------------- */

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

void model_end(struct model *model, struct model_message *message, enum fate fate)
{
    model_finish(model, message, fate);
    message->is_alive = false;
    message->fate = fate;
    if (fate == FATE_SUCCEEDED && !message->is_moved && message->is_typed)
        model_count_success(model, message);
    model_forget_waits(model, (int)(message - model->messages));
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
    message->group = batch->target_groups[event - 1];
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

/* Units that had failed were redriven: all have succeeded after all. Nobody but those who are held hears of it. */
static void redeem(struct model *model, struct model_batch *batch)
{
    struct model_counts counts = model_counts(batch);
    if (batch->status != STATUS_FAILED || batch->is_deleted || !is_exhausted(batch) || counts.succeeded != counts.total)
        return;
    batch->status = STATUS_SUCCEEDED;
    batch->is_late = true;
    fire(model, batch, EVENT_SUCCESS_);
    for (int i = 0; i < model->edge_count; i++)
        if (model->edges[i].is_batch && model->edges[i].antecedent == (int)(batch - model->batches))
            model->edges[i].is_told = false;
}

/* Something happened to a batch that may complete it; forced_status: it is cancelled or expires. */
static void step(struct model *model, struct model_batch *batch, bool has_failure, int forced_status)
{
    if (batch->state == MODEL_COMPLETED) {
        redeem(model, batch);
        return;
    }
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

/* Does the parent of the batch wait for this message of it? */
static bool is_awaited(const struct model_batch *batch, const struct model_message *message)
{
    return message->completes == awaited_event(batch) && !(batch->is_late && message->completes == EVENT_SUCCESS_);
}

/* A dead-lettered message is redriven: the unit that it is, or that its batch is in a parent, is outstanding again. */
void model_reopen(struct model *model, const struct model_message *message)
{
    if (message->batch == NONE || !message->is_moved)
        return;
    struct model_batch *batch = &model->batches[message->batch];
    int unit = message->unit;
    if (message->completes != 0) {
        if (batch->parent == NONE || !is_awaited(batch, message))
            return;
        unit = batch->parent_unit;
        batch = &model->batches[batch->parent];
    }
    if (batch->status == STATUS_CANCELLED)
        return;
    if (batch->is_xor) {
        batch->xor_inside++;
        batch->xor_finished--;
        batch->xor_failed--;
    } else {
        batch->units[unit].fate = FATE_OUTSTANDING;
    }
}

/* A message is over or has been dead-lettered: what that means for the batch it belongs to. */
void model_finish(struct model *model, struct model_message *message, enum fate fate)
{
    if (message->batch == NONE || message->is_moved) /* the unit of a dead-lettered message ended then */
        return;
    struct model_batch *batch = &model->batches[message->batch];
    if (message->completes == 0)
        end_unit(model, batch, message->unit, fate);
    else if (is_awaited(batch, message))
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
        if (batch->targets[i] != queue || (queue != NONE && (batch->has_body[i] != operation->has_body[i] ||
                                                             batch->target_groups[i] != operation->target_groups[i])))
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
        unsigned awaited = operation->targets[0] != NONE ? 0 : 1;
        int queue = operation->targets[awaited] == NONE ? NONE : model_find_queue(model, operation->targets[awaited]);
        if (model_child_would_wait_for_itself(model, parent, queue, operation->target_groups[awaited]))
            return ERROR_DEPENDENCY_CYCLE;
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
        batch->target_groups[i] = operation->target_groups[i];
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

/* Has it not ended, in a batch that has not completed? The units of an xor batch have no state of their own. */
static int batch_if_outstanding(const struct model *model, int record, int unit)
{
    const struct model_batch *batch = &model->batches[record];
    if (batch->state == MODEL_COMPLETED || (!batch->is_xor && batch->units[unit].fate != FATE_OUTSTANDING))
        return NONE;
    return record;
}

int model_batch_of_message(const struct model *model, int index)
{
    const struct model_message *message = &model->messages[index];
    if (message->batch == NONE || message->is_moved)
        return NONE;
    const struct model_batch *batch = &model->batches[message->batch];
    if (message->completes == 0)
        return batch_if_outstanding(model, message->batch, message->unit);
    if (batch->parent == NONE || !is_awaited(batch, message))
        return NONE;
    return batch_if_outstanding(model, batch->parent, batch->parent_unit);
}

int model_batch_of_key(const struct model *model, int record, int key)
{
    const struct model_batch *batch = &model->batches[record];
    int unit = batch->is_xor ? NONE : find_key(batch, key);
    return unit == NONE ? NONE : batch_if_outstanding(model, record, unit);
}

enum error model_add_units(struct model *model, int record, const struct operation *operation, int *added)
{
    struct model_batch *batch = &model->batches[record];
    if (batch->is_xor)
        return ERROR_UNSUPPORTED_OPERATION;
    if (check_room(batch, 0) == ERROR_BATCH_SEALED)
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
    model->is_in_tick = true;
    for (int i = 0; i < model->message_count; i++) {
        struct model_message *message = &model->messages[i];
        uint64_t retention_ms = (uint64_t)model->queues[message->queue].numbers.retention_s * 1000;
        if (message->is_alive && !message->is_condemned && message->counted_from + retention_ms <= model->now)
            model_end(model, message, FATE_FAILED);
    }
    for (int due; (due = batch_due(model)) != NONE;)
        if (model->batches[due].state == MODEL_COMPLETED)
            forget(model, due);
        else
            step(model, &model->batches[due], false, STATUS_EXPIRED);
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].is_condemned)
            model_end(model, &model->messages[i], FATE_FAILED);
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].batch != NONE &&
            !model->batches[model->messages[i].batch].is_xor && model_is_dead(model, &model->messages[i]))
            model_end(model, &model->messages[i], FATE_CANCELLED);
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && model->messages[i].is_cancelled)
            model_end(model, &model->messages[i], FATE_CANCELLED);
    model_tell_all(model);
    model->is_in_tick = false;
}

uint64_t model_due_bytes(const struct model *model, uint64_t now)
{
    static const uint64_t bytes_of_act[] = {[TASK_MOVES_ALL] = 100, [TASK_MOVES_SOME] = 300, [TASK_DELETES] = 900};
    uint64_t bytes = 0;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        uint64_t retention_ms = (uint64_t)model->queues[message->queue].numbers.retention_s * 1000;
        if (message->is_alive && (model_is_dead(model, message) || message->counted_from + retention_ms <= now))
            bytes += message->batch == NONE ? 20 : 150;
    }
    for (int i = 0; i < model->edge_count; i++)
        bytes += model->edges[i].dependent == NONE ? 0 : 40;
    for (int i = 0; i < model->task_count; i++)
        if (model->tasks[i].status == TASK_RUNNING)
            bytes +=
                bytes_of_act[model->tasks[i].kind] * (uint64_t)(model->tasks[i].to_move - model->tasks[i].moved + 1);
    for (int i = 0; i < model->batch_count; i++)
        if (model->batches[i].is_record && deadline_of(model, i) <= now)
            bytes += model->batches[i].state == MODEL_COMPLETED ? 20 : 900;
    return bytes;
}
