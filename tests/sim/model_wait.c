/* What waits for what: Tally.After, type orders, and the search for things that would wait for themselves. */
#include "model.h"

#include "base/assert.h"
#include <string.h>

/* --- outcomes ----------------------------------------------------------------------------------------------------- */

static enum fate fate_of_message(const struct model_message *message)
{
    if (message->is_moved)
        return FATE_FAILED;
    return message->is_alive ? FATE_OUTSTANDING : message->fate;
}

static enum fate fate_of_batch(const struct model_batch *batch)
{
    if (batch->state != MODEL_COMPLETED)
        return FATE_OUTSTANDING;
    return batch->status == STATUS_SUCCEEDED   ? FATE_SUCCEEDED
           : batch->status == STATUS_CANCELLED ? FATE_CANCELLED
                                               : FATE_FAILED;
}

static enum fate fate_of(const struct model *model, const struct model_edge *edge)
{
    return edge->is_batch ? fate_of_batch(&model->batches[edge->antecedent])
                          : fate_of_message(&model->messages[edge->antecedent]);
}

/* --- declaring ---------------------------------------------------------------------------------------------------- */

/* The batch of that name, or what is remembered of the last one; or NONE. */
static int find_batch(const struct model *model, int name)
{
    int found = model_find_batch(model, name);
    for (int i = 0; i < model->batch_count && model_find_batch(model, name) == NONE; i++)
        if (model->batches[i].name == name)
            found = i;
    return found;
}

static int find_message(const struct model *model, const char *id)
{
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].completes == 0 && strcmp(model->messages[i].id, id) == 0)
            return i;
    return NONE;
}

/* False: the server knows no such thing. */
static bool find_antecedent(struct model *model, const struct after *after, struct model_edge *edge)
{
    int queue;
    *edge = (struct model_edge){.is_batch = after->kind == AFTER_BATCH, .antecedent = NONE};
    switch (after->kind) {
    case AFTER_MESSAGE:
        edge->antecedent = find_message(model, after->id);
        break;
    case AFTER_BATCH:
        edge->antecedent = find_batch(model, after->name);
        break;
    case AFTER_DEDUP:
        queue = model_find_queue(model, after->queue);
        if (queue != NONE && !model->queues[queue].traits.is_scope_group)
            edge->antecedent = model_find_id(model, queue, after->name);
        break;
    }
    return edge->antecedent != NONE;
}

static bool is_same(const struct model_edge *one, const struct model_edge *other)
{
    return one->is_batch == other->is_batch && one->antecedent == other->antecedent;
}

enum error model_plan_waits(struct model *model, const struct entry *entry, struct model_waits *waits)
{
    *waits = (struct model_waits){0};
    for (unsigned i = 0; i < entry->after_count; i++) {
        struct model_edge edge;
        if (!find_antecedent(model, &entry->after[i], &edge))
            return ERROR_DEPENDENCY_DOES_NOT_EXIST;
        enum fate fate = fate_of(model, &edge);
        bool is_bad = fate == FATE_FAILED || fate == FATE_CANCELLED, is_known = false;
        waits->is_unmet = waits->is_unmet || (is_bad && entry->after_failure == AFTER_CANCEL);
        edge.is_told = is_bad;
        for (unsigned k = 0; k < waits->count; k++)
            is_known = is_known || is_same(&waits->edges[k], &edge);
        if (!is_known && (fate == FATE_OUTSTANDING || (is_bad && entry->after_failure == AFTER_HOLD)))
            waits->edges[waits->count++] = edge;
    }
    return OK;
}

/* A place for one more: that of one which is over, or a new one. */
static struct model_edge *free_edge(struct model *model)
{
    for (int i = 0; i < model->edge_count; i++)
        if (model->edges[i].dependent == NONE)
            return &model->edges[i];
    ASSERT(model->edge_count < MODEL_EDGES_MAX);
    return &model->edges[model->edge_count++];
}

void model_wait(struct model *model, int message, const struct model_waits *waits, int policy)
{
    for (unsigned i = 0; i < waits->count; i++) {
        struct model_edge *edge = free_edge(model);
        *edge = waits->edges[i];
        edge->dependent = message;
    }
    model->messages[message].wait_count = (int)waits->count;
    model->messages[message].after_failure = policy;
}

void model_forget_waits(struct model *model, int message)
{
    for (int i = 0; i < model->edge_count && model->messages[message].wait_count > 0; i++) {
        if (model->edges[i].dependent != message)
            continue;
        model->edges[i].dependent = NONE;
        model->messages[message].wait_count--;
    }
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

static void tell(struct model *model, struct model_edge *edge)
{
    struct model_message *dependent = &model->messages[edge->dependent];
    if (fate_of(model, edge) == FATE_SUCCEEDED || dependent->after_failure == AFTER_RUN) {
        edge->dependent = NONE;
        dependent->wait_count--;
    } else if (dependent->after_failure == AFTER_HOLD) {
        edge->is_told = true;
    } else {
        bool is_cancelled = model_is_dead(model, dependent) && !dependent->is_condemned;
        model_end(model, dependent, is_cancelled ? FATE_CANCELLED : FATE_FAILED);
    }
}

void model_tell_all(struct model *model)
{
    for (bool is_done = false; !is_done;) {
        is_done = true;
        for (int i = 0; i < model->edge_count; i++) {
            struct model_edge *edge = &model->edges[i];
            if (edge->dependent == NONE || edge->is_told || fate_of(model, edge) == FATE_OUTSTANDING)
                continue;
            tell(model, edge);
            is_done = false;
        }
    }
}

bool model_is_stuck(const struct model *model, int message)
{
    for (int i = 0; i < model->edge_count; i++)
        if (model->edges[i].dependent == message && model->edges[i].is_told)
            return true;
    return false;
}

/* --- cycles ------------------------------------------------------------------------------------------------------- */

/* The search goes from a newcomer to all that it would wait for, and that this waits for, and so on. */
struct search {
    const struct model *model;
    int batch; /* that the newcomer joins, or NONE: what waits for that waits for the newcomer */
    int queue; /* the line at whose end it will stand, or NONE: what will stand behind that waits for it too */
    int group;
    int redriven; /* message: what waits for that, or is held because it failed, is what is looked for; or NONE */
    bool is_found;
    bool seen_batches[MODEL_BATCHES_MAX];
    bool seen_messages[MODEL_MESSAGES_MAX];
};

/* Is the redriven message in that batch, or in one of its children? */
static bool is_in_batch(const struct model *model, int index, int record)
{
    int batch = model->messages[index].batch;
    while (batch != NONE && batch != record)
        batch = model->batches[batch].parent;
    return batch != NONE;
}

/* Must the redriven message end well before the edge is met, told or not? */
static bool needs_redriven(const struct search *search, const struct model_edge *edge)
{
    if (search->redriven == NONE)
        return false;
    return edge->is_batch ? is_in_batch(search->model, search->redriven, edge->antecedent)
                          : edge->antecedent == search->redriven;
}

static void visit_message(struct search *search, int index, bool is_by_line);
static void visit_batch(struct search *search, int record);

/* The last of a line, before `line` and `number`; all that stands before it follows from that. */
static void visit_line(struct search *search, int queue, int group, uint64_t line, uint64_t number)
{
    const struct model *model = search->model;
    const struct model_message place = {.line = line, .number = number};
    int last = NONE;
    for (int i = 0; i < model->message_count; i++) {
        const struct model_message *message = &model->messages[i];
        if (message->is_alive && !message->is_condemned && message->queue == queue && message->group == group &&
            model_stands_before(message, &place) &&
            (last == NONE || model_stands_before(&model->messages[last], message)))
            last = i;
    }
    if (last != NONE)
        visit_message(search, last, true);
}

/* What is about to end waits for nothing, but what stands behind it in a line stands behind all that is before it
 * too. */
static void visit_message(struct search *search, int index, bool is_by_line)
{
    const struct model *model = search->model;
    const struct model_message *message = &model->messages[index];
    bool is_dying = model_is_dead(model, message);
    if (search->seen_messages[index] || !message->is_alive || (is_dying && !is_by_line))
        return;
    search->seen_messages[index] = true;
    for (int i = 0; i < model->edge_count && message->wait_count > 0 && !is_dying; i++) {
        const struct model_edge *edge = &model->edges[i];
        if (edge->dependent != index)
            continue;
        search->is_found = search->is_found || needs_redriven(search, edge);
        if (edge->is_told || fate_of(model, edge) != FATE_OUTSTANDING)
            continue;
        if (edge->is_batch)
            visit_batch(search, edge->antecedent);
        else
            visit_message(search, edge->antecedent, false);
    }
    if (model->queues[message->queue].traits.is_fifo && !message->is_condemned)
        visit_line(search, message->queue, message->group, message->line, message->number);
    for (int i = 0; i < model->message_count && !is_dying; i++)
        if (model_comes_before(model, &model->messages[i], message))
            visit_message(search, i, false);
}

/* What the parent of this batch waits for: its end, and the message that tells of it. */
static void visit_child(struct search *search, int record)
{
    const struct model *model = search->model;
    const struct model_batch *child = &model->batches[record];
    unsigned awaited = child->targets[0] != NONE ? 1 : 2;
    for (int i = 0; i < model->message_count && child->state == MODEL_COMPLETED; i++)
        if (model->messages[i].batch == record && model->messages[i].completes == awaited &&
            !model->messages[i].is_moved)
            visit_message(search, i, false);
    if (child->state == MODEL_COMPLETED)
        return;
    visit_batch(search, record);
    int queue = child->targets[awaited - 1], group = child->target_groups[awaited - 1];
    if (queue == NONE || !model->queues[queue].exists || !model->queues[queue].traits.is_fifo)
        return;
    search->is_found = search->is_found || (queue == search->queue && group == search->group);
    visit_line(search, queue, group, UINT64_MAX, 0);
}

static void visit_batch(struct search *search, int record)
{
    const struct model *model = search->model;
    if (search->seen_batches[record] || model->batches[record].state == MODEL_COMPLETED)
        return;
    search->seen_batches[record] = true;
    search->is_found = search->is_found || record == search->batch ||
                       (search->redriven != NONE && is_in_batch(model, search->redriven, record));
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].batch == record && model->messages[i].completes == 0 && !model->messages[i].is_moved)
            visit_message(search, i, false);
    for (int i = 0; i < model->batch_count; i++)
        if (model->batches[i].is_record && model->batches[i].parent == record)
            visit_child(search, i);
}

bool model_would_wait_for_itself(const struct model *model, const struct entry *entry, int queue, int batch,
                                 const struct model_waits *waits)
{
    static struct search search;
    bool is_line = model->queues[queue].traits.is_fifo;
    search = (struct search){
        .model = model, .batch = batch, .queue = is_line ? queue : NONE, .group = entry->group, .redriven = NONE};
    for (unsigned i = 0; i < waits->count; i++) {
        if (waits->edges[i].is_told)
            continue;
        if (waits->edges[i].is_batch)
            visit_batch(&search, waits->edges[i].antecedent);
        else
            visit_message(&search, waits->edges[i].antecedent, false);
    }
    if (is_line)
        visit_line(&search, queue, entry->group, UINT64_MAX, 0);
    struct model_message newcomer = {.is_alive = true,
                                     .queue = queue,
                                     .group = entry->group,
                                     .type = entry->type,
                                     .befores = model_types_before(model, entry->type),
                                     .order = UINT64_MAX};
    for (int i = 0; i < model->message_count; i++)
        if (model_comes_before(model, &model->messages[i], &newcomer))
            visit_message(&search, i, false);
    return search.is_found;
}

bool model_child_would_wait_for_itself(const struct model *model, int parent, int queue, int group)
{
    static struct search search;
    if (queue == NONE || !model->queues[queue].traits.is_fifo)
        return false;
    search = (struct search){.model = model, .batch = parent, .queue = NONE, .redriven = NONE};
    visit_line(&search, queue, group, UINT64_MAX, 0);
    return search.is_found;
}

bool model_would_wait_behind_itself(const struct model *model, int redriven, int queue, uint64_t line)
{
    static struct search search;
    search = (struct search){.model = model, .batch = NONE, .queue = NONE, .redriven = redriven};
    visit_line(&search, queue, model->messages[redriven].group, line, UINT64_MAX);
    return search.is_found;
}

bool model_is_waiting(const struct model *model, const struct model_message *message)
{
    return message->wait_count > 0 || model_is_held_by_type(model, message);
}

/* --- type orders -------------------------------------------------------------------------------------------------- */

/* Does the type stand before the other in an order? As bits. */
unsigned model_types_before(const struct model *model, int type)
{
    unsigned before = 0;
    for (int i = 0; i < TYPE_ORDERS && type != NONE; i++) {
        const struct model_type_order *order = &model->type_orders[i];
        unsigned so_far = 0;
        for (int k = 0; k < order->count; k++) {
            if (order->types[k] == type)
                before |= so_far;
            so_far |= 1u << order->types[k];
        }
    }
    return before;
}

bool model_comes_before(const struct model *model, const struct model_message *one, const struct model_message *other)
{
    (void)model;
    return one->is_alive && !one->is_moved && one->type != NONE && one->is_typed && other->befores != 0 &&
           !other->is_moved && one->group == other->group && one->order < other->order &&
           (other->befores & 1u << one->type) != 0;
}

bool model_is_held_by_type(const struct model *model, const struct model_message *message)
{
    if (message->is_moved)
        return false;
    if (message->missing != 0)
        return true;
    if (message->befores == 0)
        return false;
    for (int i = 0; i < model->message_count; i++)
        if (model_comes_before(model, &model->messages[i], message))
            return true;
    return false;
}

static bool is_named(const struct model *model, int type)
{
    for (int i = 0; i < TYPE_ORDERS; i++)
        for (int k = 0; k < model->type_orders[i].count; k++)
            if (model->type_orders[i].types[k] == type)
                return true;
    return false;
}

/* Does an unfinished message want a success of the type? Then its messages count, though no order may name it any
 * more. */
static bool is_wanted(const struct model *model, int type)
{
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].is_alive && !model->messages[i].is_moved &&
            (model->messages[i].wanted & 1u << type) != 0)
            return true;
    return false;
}

/* For how long a success of `earlier` counts for `type`: the strictest order says; 0: none is required. */
static int required_s(const struct model *model, int type, int earlier)
{
    int strictest_s = 0;
    for (int i = 0; i < TYPE_ORDERS; i++) {
        const struct model_type_order *order = &model->type_orders[i];
        bool is_before = false;
        for (int k = 0; k < order->count && order->retention_s > 0; k++) {
            if (order->types[k] == type && is_before && (strictest_s == 0 || order->retention_s < strictest_s))
                strictest_s = order->retention_s;
            is_before = is_before || order->types[k] == earlier;
        }
    }
    return strictest_s;
}

static bool has_succeeded(const struct model *model, int group, int type, int within_s)
{
    const struct model_success *success = &model->successes[group][type];
    return success->until > model->now && success->epoch == model->type_epochs[type] && is_named(model, type) &&
           success->at + (uint64_t)within_s * 1000 > model->now;
}

void model_type(struct model *model, struct model_message *message, int type)
{
    message->type = type;
    message->befores = model_types_before(model, type);
    message->is_typed = is_named(model, type) || is_wanted(model, type);
    for (int earlier = 0; earlier < TYPES; earlier++) {
        int within_s = required_s(model, type, earlier);
        if (within_s > 0 && !has_succeeded(model, message->group, earlier, within_s))
            message->wanted |= 1u << earlier;
    }
    message->missing = message->wanted;
}

void model_count_success(struct model *model, const struct model_message *message)
{
    for (int i = 0; i < model->message_count; i++)
        if (model->messages[i].group == message->group)
            model->messages[i].missing &= ~(1u << message->type);
    int remembered_s = 0;
    for (int later = 0; later < TYPES; later++)
        for (int i = 0; i < TYPE_ORDERS; i++) {
            const struct model_type_order *order = &model->type_orders[i];
            bool is_before = false;
            for (int k = 0; k < order->count; k++) {
                if (order->types[k] == later && is_before && order->retention_s > remembered_s)
                    remembered_s = order->retention_s;
                is_before = is_before || order->types[k] == message->type;
            }
        }
    if (remembered_s > 0)
        model->successes[message->group][message->type] = (struct model_success){
            model->now, model->now + (uint64_t)remembered_s * 1000, model->type_epochs[message->type]};
}

enum error model_put_type_order(struct model *model, const struct operation *operation)
{
    bool was_named[TYPES];
    for (int type = 0; type < TYPES; type++)
        was_named[type] = is_named(model, type);
    struct model_type_order before = model->type_orders[operation->order];
    struct model_type_order *order = &model->type_orders[operation->order];
    order->count = (int)operation->count;
    order->retention_s = operation->order_retention_s;
    memcpy(order->types, operation->keys, sizeof(order->types[0]) * operation->count);
    /* A type that stands before itself, over whatever steps, is a contradiction. */
    for (int type = 0; type < TYPES; type++) {
        unsigned reached = model_types_before(model, type), last = 0;
        while (reached != last) {
            last = reached;
            for (int other = 0; other < TYPES; other++)
                if ((last & 1u << other) != 0)
                    reached |= model_types_before(model, other);
        }
        if ((reached & 1u << type) != 0) {
            *order = before;
            return ERROR_TYPE_ORDER_CONFLICT;
        }
    }
    for (int type = 0; type < TYPES; type++)
        if (!was_named[type] && is_named(model, type))
            model->type_epochs[type] = ++model->epoch;
    return OK;
}

enum error model_delete_type_order(struct model *model, const struct operation *operation)
{
    struct model_type_order *order = &model->type_orders[operation->order];
    if (order->count == 0)
        return ERROR_TYPE_ORDER_DOES_NOT_EXIST;
    order->count = 0;
    return OK;
}
