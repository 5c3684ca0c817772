#include "clients.h"

#include "base/assert.h"
#include <stdio.h>
#include <string.h>

/* At most this many of each are made in a seed, below the sizes of the model's arrays. */
#define BATCHES_LIMIT (MODEL_BATCHES_MAX - 16)
#define MESSAGES_LIMIT (MODEL_MESSAGES_MAX - 700)
#define QUEUES_LIMIT (MODEL_QUEUES_MAX - 6)
#define ROWS_LIMIT (MODEL_ROWS_MAX - 60)

static const unsigned usual_weights[OPERATION_KIND_COUNT] = {
    [OPERATION_CREATE_QUEUE] = 3,   [OPERATION_SET_QUEUE] = 2,         [OPERATION_DELETE_QUEUE] = 1,
    [OPERATION_PURGE_QUEUE] = 1,    [OPERATION_COUNT_QUEUE] = 3,       [OPERATION_SEND] = 18,
    [OPERATION_RECEIVE] = 26,       [OPERATION_DELETE] = 24,           [OPERATION_CHANGE_VISIBILITY] = 6,
    [OPERATION_FAIL] = 5,           [OPERATION_RELEASE_GROUP] = 3,     [OPERATION_PAUSE] = 2,
    [OPERATION_COMMIT] = 14,        [OPERATION_EXPLAIN] = 4,           [OPERATION_LIST_GROUPS] = 1,
    [OPERATION_PUT_TYPE_ORDER] = 1, [OPERATION_DELETE_TYPE_ORDER] = 1, [OPERATION_CREATE_BATCH] = 6,
    [OPERATION_START_MOVE] = 8,     [OPERATION_CANCEL_MOVE] = 1,       [OPERATION_LIST_MOVES] = 2,
    [OPERATION_ADD_UNITS] = 4,      [OPERATION_COMPLETE_UNITS] = 7,    [OPERATION_XOR_UNITS] = 5,
    [OPERATION_SEAL_BATCH] = 4,     [OPERATION_CANCEL_BATCH] = 1,      [OPERATION_DESCRIBE_BATCH] = 5,
    [OPERATION_LIST_UNITS] = 3,     [OPERATION_LIST_BATCHES] = 1,      [OPERATION_DELETE_BATCH] = 1,
    [OPERATION_TAG_QUEUE] = 1,      [OPERATION_UNTAG_QUEUE] = 1,       [OPERATION_LIST_TAGS] = 1,
    [OPERATION_ADD_PERMISSION] = 1, [OPERATION_REMOVE_PERMISSION] = 1, [OPERATION_OPEN_PUBLISHER] = 2,
    [OPERATION_PUBLISH] = 9,        [OPERATION_DELETE_SOME] = 3,       [OPERATION_REPLACE] = 6,
};

static struct queue_traits draw_traits(struct random *random, int queue)
{
    static const int windows[] = {NONE, NONE, 0, 10, 300, WINDOW_EVER};
    static const int rates_ms[] = {100, 200, 500, 1000, 2000};
    struct queue_traits traits = {.is_fifo = operation_is_fifo(queue), .window_s = NONE};
    traits.refuses_stale = !traits.is_fifo && random_chance(random, 30);
    if (queue < FIRST_ORDER_QUEUE)
        return traits;
    traits.is_strict = traits.is_fifo && random_chance(random, 50);
    traits.is_content_based = traits.is_fifo && random_chance(random, 30);
    traits.is_scope_group = traits.is_fifo && random_chance(random, 30);
    if (traits.is_fifo && queue != FIFO_DEAD_QUEUE)
        traits.on_failure = random_below(random, 3);
    traits.window_s = windows[random_below(random, ARRAY_LENGTH(windows))];
    traits.is_at_most_once = queue == ONCE_QUEUE && random_chance(random, 50);
    traits.concurrency = queue == TENANT_QUEUE && random_chance(random, 50) ? (int)random_between(random, 1, 4) : 0;
    traits.has_backoff = random_chance(random, 60);
    traits.backoff_min_s = (int)random_below(random, 5);
    traits.backoff_max_s = traits.backoff_min_s + (int)random_below(random, 100);
    traits.backoff_factor = (int)random_between(random, 1, 4);
    traits.backoff_jitter = random_chance(random, 30) ? (int)random_between(random, 1, 99) : 0;
    if (random_chance(random, 15)) {
        traits.queue_rate_ms = rates_ms[random_below(random, ARRAY_LENGTH(rates_ms))];
        traits.queue_burst = (int)random_between(random, 1, 8);
    }
    if (random_chance(random, 15)) {
        traits.group_rate_ms = rates_ms[random_below(random, ARRAY_LENGTH(rates_ms))];
        traits.group_burst = (int)random_between(random, 1, 4);
    }
    return traits;
}

void clients_init(struct clients *clients, uint64_t seed, uint32_t body_max)
{
    *clients = (struct clients){.random = random_stream(seed, STREAM_CLIENTS)};
    struct random *random = &clients->random;
    for (int i = 0; i < OPERATION_KIND_COUNT; i++) {
        /* A quarter of the rarer actions are left out, another quarter come thrice as often. */
        unsigned mood = random_below(random, 4);
        bool is_needed = usual_weights[i] > 10;
        clients->weights[i] = usual_weights[i] * (mood == 0 && !is_needed ? 0 : mood == 1 ? 3 : 1);
        clients->weight_sum += clients->weights[i];
    }
    clients->xor_percent = random_below(random, 3) * 30;
    clients->batch_percent = random_between(random, 20, 90);
    clients->grow_percent = random_between(random, 10, 80);
    clients->dead_letter_percent = random_below(random, 3) * 40;
    clients->child_percent = random_below(random, 3) * 35;
    clients->order_percent = random_below(random, 4) * 30;
    clients->dedup_percent = random_below(random, 3) * 25;
    clients->producer_percent = random_below(random, 3) * 10;
    clients->after_percent = random_below(random, 4) * 15;
    clients->type_percent = random_below(random, 3) * 30;
    clients->dedup_ids = (int)random_between(random, 2, 60);
    for (int i = 0; i < QUEUE_NAMES; i++)
        clients->traits[i] = draw_traits(random, i);
    clients->body_max = body_max;
    clients->xor_salt = random_u64(random);
}

/* --- drawing ------------------------------------------------------------------------------------------------------ */

static int draw_timeout(struct random *random)
{
    static const int timeouts[] = {0, 1, 2, 5, 30, 60, 600, 3600, 43200};
    return timeouts[random_below(random, ARRAY_LENGTH(timeouts))];
}

static struct queue_numbers draw_numbers(struct clients *clients, int queue)
{
    struct random *random = &clients->random;
    struct queue_numbers numbers = {
        .delay_s = random_chance(random, 15) ? (int)random_below(random, 30) : 0,
        .visibility_s = random_chance(random, 70) ? (int)random_between(random, 1, 60) : draw_timeout(random),
        .retention_s = random_chance(random, 30) ? (int)random_between(random, 60, 600) : 86400,
        .dead_letters = NONE,
    };
    if (queue < FIRST_DEAD_QUEUE && random_chance(random, clients->dead_letter_percent)) {
        numbers.dead_letters = FIRST_DEAD_QUEUE + (int)random_below(random, 2);
        numbers.receive_max = (int)random_between(random, 1, 3);
    } else if (operation_is_fifo(queue) && queue != FIFO_DEAD_QUEUE &&
               random_chance(random, clients->dead_letter_percent) &&
               (queue != FIRST_ORDER_QUEUE + 2 || random_chance(random, 20))) {
        numbers.dead_letters = FIFO_DEAD_QUEUE;
        numbers.receive_max = (int)random_between(random, 1, 3);
    } else if (queue == FIFO_DEAD_QUEUE && random_chance(random, 40)) {
        numbers.dead_letters = FIRST_ORDER_QUEUE + 2; /* at times a ring */
        numbers.receive_max = (int)random_between(random, 1, 4);
    } else if (queue >= TENANT_QUEUE && random_chance(random, clients->dead_letter_percent)) {
        numbers.dead_letters = FIRST_DEAD_QUEUE + (int)random_below(random, 2);
        numbers.receive_max = (int)random_between(random, 1, 3);
    } else if (queue == FIRST_DEAD_QUEUE + 1 && random_chance(random, 30)) {
        numbers.dead_letters = FIRST_DEAD_QUEUE; /* dead letters of dead letters */
        numbers.receive_max = 4;
    } else if (queue == FIRST_DEAD_QUEUE && random_chance(random, 15)) {
        numbers.dead_letters = FIRST_DEAD_QUEUE + (int)random_below(random, 2); /* itself, or a ring of two */
        numbers.receive_max = 4;
    }
    return numbers;
}

/* Mostly one that work is sent to. */
static int draw_order_queue(struct random *random)
{
    return FIRST_ORDER_QUEUE + (int)random_below(random, random_chance(random, 40) ? 6 : 3);
}

static int draw_queue(struct clients *clients)
{
    struct random *random = &clients->random;
    if (random_chance(random, clients->order_percent))
        return draw_order_queue(random);
    if (random_chance(random, 60))
        return (int)random_below(random, WORK_QUEUES);
    return (int)random_below(random, BRIEF_QUEUE + 1);
}

/* Mostly one of the newest, so that batches come to an end. */
static int draw_batch(struct clients *clients)
{
    struct random *random = &clients->random;
    if (clients->next_batch == 0 || random_chance(random, 2))
        return clients->next_batch + 100; /* there is none */
    int recent = clients->next_batch < 5 ? clients->next_batch : 5;
    if (random_chance(random, 80))
        return clients->next_batch - 1 - (int)random_below(random, (uint32_t)recent);
    return (int)random_below(random, (uint32_t)clients->next_batch);
}

enum wanted { WANTED_OPEN = 1, WANTED_SEALED = 2, WANTED_EXACT = 4, WANTED_XOR = 8 };

/* Mostly a batch in one of the wanted states and of the wanted tracking, at times any: most calls should do
 * something. */
static int draw_batch_like(struct clients *clients, const struct oracle *oracle, unsigned wanted)
{
    struct random *random = &clients->random;
    int names[MODEL_BATCHES_MAX], count = 0;
    for (int i = 0; i < oracle->model.batch_count; i++) {
        const struct model_batch *batch = &oracle->model.batches[i];
        unsigned state = batch->state == MODEL_OPEN ? WANTED_OPEN : batch->state == MODEL_SEALED ? WANTED_SEALED : 0;
        if (batch->is_record && !batch->is_deleted && (wanted & state) != 0 &&
            (wanted & (batch->is_xor ? WANTED_XOR : WANTED_EXACT)) != 0)
            names[count++] = batch->name;
    }
    if (count == 0 || random_chance(random, 15))
        return draw_batch(clients);
    return names[random_below(random, (uint32_t)count)];
}

/* Has the batch room in the model's arrays? */
static bool has_room(const struct oracle *oracle, int name, int count)
{
    int record = model_find_batch(&oracle->model, name);
    return record == NONE || oracle->model.batches[record].unit_count + count < MODEL_UNITS_MAX / 2;
}

/* Group, priority, and what tells a repeat: few different ones, so that there are some. */
static void draw_ids(struct clients *clients, int queue, struct entry *entry)
{
    struct random *random = &clients->random;
    const struct queue_traits *traits = &clients->traits[queue];
    if (queue < FIRST_ORDER_QUEUE && random_chance(random, 90))
        return;
    if (traits->is_fifo)
        entry->delay_s = NONE;
    if (traits->is_fifo || random_chance(random, queue == TENANT_QUEUE ? 80 : 10))
        entry->group = (int)random_below(random, GROUPS);
    if (random_chance(random, 30) && (entry->group != NONE || traits->group_rate_ms == 0))
        entry->priority = (int)random_below(random, 10);
    if (traits->is_fifo && traits->is_content_based && random_chance(random, clients->dedup_percent)) {
        entry->tag = 1000000 + random_below(random, (uint32_t)clients->dedup_ids); /* the same body again */
        entry->size = 20;
    } else if (random_chance(random, clients->dedup_percent)) {
        entry->dedup = (int)random_below(random, (uint32_t)clients->dedup_ids);
    } else if (traits->is_fifo && !traits->is_content_based) {
        entry->dedup = 1000 + (int)entry->tag;
    }
    if (entry->group != NONE && random_chance(random, clients->type_percent))
        entry->type = (int)random_below(random, TYPES);
    if (random_chance(random, clients->producer_percent)) {
        entry->producer = (int)random_below(random, 3);
        clients->sequence += (int)random_below(random, 3);
        entry->sequence = clients->sequence - (random_chance(random, 20) ? (int)random_below(random, 8) : 0);
        if (entry->sequence < 0)
            entry->sequence = 0;
    }
}

static bool draw_antecedent(struct clients *clients, const struct oracle *oracle, struct after *after)
{
    struct random *random = &clients->random;
    const struct model *model = &oracle->model;
    unsigned kind = random_below(random, 10);
    *after = (struct after){.kind = kind < 5 ? AFTER_MESSAGE : kind < 8 ? AFTER_BATCH : AFTER_DEDUP};
    if (after->kind == AFTER_BATCH) {
        after->name = draw_batch_like(clients, oracle, WANTED_OPEN | WANTED_SEALED | WANTED_EXACT | WANTED_XOR);
        return random_chance(random, 5) || model_find_batch(model, after->name) != NONE;
    }
    if (after->kind == AFTER_DEDUP) {
        int place = model->memory_count == 0 ? NONE : (int)random_below(random, (uint32_t)model->memory_count);
        after->queue = place == NONE ? FIRST_ORDER_QUEUE : model->queues[model->memories[place].queue].name;
        after->name = place == NONE ? 0 : model->memories[place].id;
        return after->name < 1000000 && model_find_queue(model, after->queue) != NONE;
    }
    /* Mostly one of the newest messages of which a client was told, alive or not. */
    if (oracle->fact_count == 0)
        return false;
    uint32_t range = oracle->fact_count < 20 ? oracle->fact_count : 20;
    uint32_t back = random_below(random, random_chance(random, 80) ? range : oracle->fact_count);
    const struct fact *fact = &oracle->facts[oracle->fact_count - 1 - back];
    if (fact->kind == FACT_COMPLETED || fact->id[0] == '\0')
        return false;
    memcpy(after->id, fact->id, sizeof(after->id));
    return true;
}

static void draw_after(struct clients *clients, const struct oracle *oracle, struct entry *entry)
{
    struct random *random = &clients->random;
    unsigned wanted = random_between(random, 1, AFTERS_MAX);
    entry->after_failure = (int)random_below(random, 3);
    for (unsigned i = 0; i < wanted; i++)
        entry->after_count += draw_antecedent(clients, oracle, &entry->after[entry->after_count]);
}

/* The MessageId of something that a client was told of lately, or of nothing. Returns its queue's name, or NONE. */
static int draw_id(struct clients *clients, const struct oracle *oracle, char id[MESSAGE_ID_TEXT_SIZE])
{
    struct random *random = &clients->random;
    memcpy(id, "00000000-0000-8000-8000-000000000000", 37);
    const uint32_t range = oracle->fact_count < 40 ? oracle->fact_count : 40;
    if (range == 0)
        return NONE;
    const struct fact *fact = &oracle->facts[oracle->fact_count - 1 - random_below(random, range)];
    if (fact->kind == FACT_COMPLETED || fact->id[0] == '\0')
        return NONE;
    memcpy(id, fact->id, MESSAGE_ID_TEXT_SIZE);
    return oracle->model.queues[oracle->model.messages[fact->subject].queue].name;
}

static void draw_explain(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    const int queue = draw_id(clients, oracle, operation->id);
    operation->queue = queue == NONE || random_chance(&clients->random, 10) ? draw_queue(clients) : queue;
}

/* Mostly one that a client was told of and that lives; then a dead letter that somebody repairs is among them. */
static void draw_replace(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    const struct model *model = &oracle->model;
    int queue = draw_id(clients, oracle, operation->id);
    for (unsigned tries = 0; tries < 20 && model->message_count > 0 && random_chance(random, 90); tries++) {
        const struct model_message *message = &model->messages[random_below(random, (uint32_t)model->message_count)];
        if (!message->is_alive || message->id[0] == '\0')
            continue;
        memcpy(operation->id, message->id, sizeof(operation->id));
        queue = model->queues[message->queue].name;
        break;
    }
    operation->queue = queue == NONE || random_chance(random, 5) ? draw_queue(clients) : queue;
    operation->count = 1;
    operation->entries[0] = (struct entry){.tag = ++clients->tag, .size = random_between(random, 1, 200)};
}

static void draw_delete_some(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    static const int rates[] = {0, 0, 0, 0, 1, 20};
    struct random *random = &clients->random;
    operation->queue = NONE;
    operation->move_group = NONE;
    operation->move_rate = rates[random_below(random, ARRAY_LENGTH(rates))];
    operation->move_max = random_chance(random, 20) ? (int)random_below(random, 3) + 1 : 0;
    operation->count = random_chance(random, 60) ? random_between(random, 1, IDS_MAX) : 0;
    for (unsigned i = 0; i < operation->count; i++) {
        const int queue = draw_id(clients, oracle, operation->ids[i]);
        operation->queue = queue == NONE ? operation->queue : queue;
    }
    if (operation->count == 0)
        operation->move_group = (int)random_below(random, GROUPS);
    if (operation->queue == NONE)
        operation->queue = draw_order_queue(random);
}

static void draw_type_order(struct random *random, struct operation *operation)
{
    operation->order = (int)random_below(random, TYPE_ORDERS);
    operation->count = random_between(random, 2, 4);
    if (random_chance(random, 40))
        operation->order_retention_s = random_chance(random, 50) ? (int)random_between(random, 1, 60) : 86400;
    int start = (int)random_below(random, TYPES), step = random_chance(random, 75) ? 1 : 2;
    for (unsigned i = 0; i < operation->count; i++)
        operation->keys[i] = (start + (int)i * step) % TYPES;
}

static int draw_batch_to_join(struct clients *clients, const struct oracle *oracle)
{
    const unsigned wanted = WANTED_OPEN | WANTED_EXACT | WANTED_XOR;
    int batch = draw_batch_like(clients, oracle, wanted);
    return has_room(oracle, batch, (int)ENTRIES_MAX) ? batch : NONE;
}

static struct entry draw_entry(struct clients *clients, const struct oracle *oracle, int queue, uint32_t size_max,
                               int batch)
{
    struct random *random = &clients->random;
    struct entry entry = {
        .tag = ++clients->tag,
        .size = random_between(random, 1, size_max),
        .delay_s = random_chance(random, 15) ? (int)random_below(random, 20) : NONE,
        .batch = batch,
        .group = NONE,
        .priority = NONE,
        .dedup = NONE,
        .producer = NONE,
        .type = NONE,
        .queue = queue,
    };
    draw_ids(clients, queue, &entry);
    if (random_chance(random, clients->after_percent))
        draw_after(clients, oracle, &entry);
    return entry;
}

static int draw_queue_to_send(struct clients *clients)
{
    struct random *random = &clients->random;
    if (random_chance(random, clients->order_percent))
        return draw_order_queue(random);
    return random_chance(random, 80) ? (int)random_below(random, WORK_QUEUES) : draw_queue(clients);
}

static void draw_send(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    operation->queue = draw_queue_to_send(clients);
    operation->is_many = random_chance(random, 40);
    /* Not more than a frame takes: what waits for something says for what. */
    unsigned count_max = clients->after_percent > 0 ? ENTRIES_MAX / 2 : ENTRIES_MAX;
    operation->count = operation->is_many ? random_between(random, 1, count_max) : 1;
    int batch = random_chance(random, clients->batch_percent) ? draw_batch_to_join(clients, oracle) : NONE;
    for (unsigned i = 0; i < operation->count; i++) {
        if (batch != NONE && random_chance(random, 15))
            batch = draw_batch_to_join(clients, oracle);
        uint32_t size_max = operation->is_many ? 200 : clients->body_max;
        operation->entries[i] = draw_entry(clients, oracle, operation->queue, size_max, batch);
    }
}

/* One of the newest handles, mostly one that the model thinks good. */
static const struct held *draw_held(struct clients *clients, const struct oracle *oracle)
{
    struct random *random = &clients->random;
    const struct held *held = NULL;
    for (unsigned tries = 0; tries < 8; tries++) {
        unsigned newest = clients->held_count < 16 ? clients->held_count : 16;
        held = &clients->held[clients->held_count - 1 - random_below(random, newest)];
        struct handle_of of = oracle->handle_of[held->handle];
        bool is_good = model_is_held_by((struct model *)(uintptr_t)&oracle->model, held->queue, of.queue, of.message,
                                        held->handle);
        if (is_good || random_chance(random, 3))
            break;
    }
    return held;
}

/* True if there is a unit to report. */
static bool draw_report(struct clients *clients, const struct oracle *oracle, struct operation *operation, unsigned i)
{
    struct random *random = &clients->random;
    int name = draw_batch_like(clients, oracle, WANTED_EXACT | WANTED_OPEN | WANTED_SEALED);
    int record = model_find_batch(&oracle->model, name);
    const struct model_batch *batch = record == NONE ? NULL : &oracle->model.batches[record];
    operation->unit_batches[i] = name;
    operation->keys[i] = NONE;
    operation->is_failed[i] = random_chance(random, 12);
    for (int k = 0; batch != NULL && k < batch->unit_count; k++)
        if (batch->units[k].kind == UNIT_OF_KEY && (operation->keys[i] == NONE || random_chance(random, 30)))
            operation->keys[i] = batch->units[k].key;
    if (operation->keys[i] == NONE)
        operation->keys[i] = 999;
    return operation->keys[i] != 999 || random_chance(random, 5);
}

static void draw_create_batch(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    operation->batch = random_chance(random, 90) ? clients->next_batch++ : draw_batch(clients);
    operation->is_xor = random_chance(random, clients->xor_percent);
    operation->total = random_chance(random, 40) ? (int)random_below(random, 12) : NONE;
    operation->parent = NONE;
    if (random_chance(random, clients->child_percent) && operation->batch > 0)
        operation->parent = draw_batch_like(clients, oracle, WANTED_OPEN | WANTED_EXACT | WANTED_XOR);
    operation->expires_s = random_chance(random, 15) ? (int)random_between(random, 1, 300) : 86400;
    operation->retention_s = random_chance(random, 20) ? (int)random_below(random, 60) : 7200;
    for (unsigned i = 0; i < TARGETS; i++) {
        static const unsigned percents[TARGETS] = {75, 40, 30};
        operation->targets[i] = operation->target_groups[i] = NONE;
        if (random_chance(random, percents[i]))
            operation->targets[i] =
                random_chance(random, 90) ? FIRST_EVENT_QUEUE + (int)random_below(random, 2) : draw_queue(clients);
        if (operation->targets[i] >= FIRST_ORDER_QUEUE)
            operation->target_groups[i] = (int)random_below(random, GROUPS);
        operation->has_body[i] = random_chance(random, 40);
    }
}

static int draw_key(struct random *random)
{
    return random_chance(random, 50) ? (int)random_below(random, 12) : 1000 + (int)random_below(random, 10);
}

/* Handles into the entries from `at` on, seldom one that is stale or there already. Returns how many. */
static unsigned draw_named_handles(struct clients *clients, const struct oracle *oracle, struct operation *operation,
                                   unsigned at, unsigned wanted)
{
    unsigned count = 0;
    for (unsigned i = 0; i < wanted; i++) {
        const struct held *held = draw_held(clients, oracle);
        struct handle_of of = oracle->handle_of[held->handle];
        bool is_bad = !model_is_held_by((struct model *)(uintptr_t)&oracle->model, held->queue, of.queue, of.message,
                                        held->handle);
        for (unsigned k = operation->count; k < at + count; k++)
            is_bad = is_bad || operation->entries[k].handle == held->handle;
        if (!is_bad || random_chance(&clients->random, 8))
            operation->entries[at + count++] = (struct entry){.handle = held->handle, .queue = held->queue};
    }
    return count;
}

/* The name of a batch of which the Commit names a unit, mostly an outstanding one; or NONE. */
static int draw_growing(struct clients *clients, const struct oracle *oracle, const struct operation *operation)
{
    const struct model *model = &oracle->model;
    const struct entry *deletes = &operation->entries[operation->count];
    for (unsigned i = 0; i < operation->delete_count + operation->hold_count; i++) {
        int message = oracle->handle_of[deletes[i].handle].message;
        int batch = model_batch_of_message(model, message);
        if (batch == NONE && random_chance(&clients->random, 10))
            batch = model->messages[message].batch;
        if (batch != NONE && model->batches[batch].is_record)
            return model->batches[batch].name;
    }
    return operation->unit_count > 0 ? operation->unit_batches[0] : NONE;
}

/* A unit lets others join its batch: messages, keys, a child. At times whatever the Commit names. */
static void draw_growth(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    int growing = draw_growing(clients, oracle, operation);
    if (growing == NONE || !has_room(oracle, growing, (int)ENTRIES_MAX))
        return;
    for (unsigned i = 0; i < operation->count; i++)
        if (random_chance(random, 70))
            operation->entries[i].batch = growing;
    if (random_chance(random, 40) && oracle->model.batch_count < BATCHES_LIMIT) {
        draw_create_batch(clients, oracle, operation);
        operation->has_child = true;
        operation->parent = operation->batch == growing ? NONE : growing;
    }
    if (random_chance(random, 40)) {
        operation->added_batch = operation->has_child && random_chance(random, 40) ? operation->batch : growing;
        operation->added_count = random_between(random, 1, 4);
        for (unsigned i = 0; i < operation->added_count; i++)
            operation->added_keys[i] = draw_key(random);
    }
    if (operation->has_child && operation->count > 0 && random_chance(random, 40))
        operation->entries[0].batch = operation->batch;
}

/* Consumes some, produces some, counts some. */
static void draw_commit(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    operation->added_batch = NONE;
    operation->count = random_below(random, 4);
    for (unsigned i = 0; i < operation->count; i++) {
        int batch = random_chance(random, clients->batch_percent) ? draw_batch_to_join(clients, oracle) : NONE;
        operation->entries[i] = draw_entry(clients, oracle, draw_queue_to_send(clients), 250, batch);
        if (i > 0) /* an earlier send is no antecedent of a later one, as the server has it */
            operation->entries[i].after_count = 0;
    }
    if (clients->held_count > 0) {
        unsigned deletes = random_between(random, operation->count == 0, 3);
        operation->delete_count = draw_named_handles(clients, oracle, operation, operation->count, deletes);
        unsigned holds = random_chance(random, 40) ? random_between(random, 1, 2) : 0;
        unsigned at = operation->count + operation->delete_count;
        operation->hold_count = draw_named_handles(clients, oracle, operation, at, holds);
    }
    unsigned wanted = random_below(random, 3);
    for (unsigned i = 0; i < wanted; i++)
        operation->unit_count += draw_report(clients, oracle, operation, operation->unit_count);
    if (random_chance(random, clients->grow_percent))
        draw_growth(clients, oracle, operation);
}

/* Mostly an epoch above the one known; at times one that is not, by the same owner or another. */
static void draw_open(struct random *random, const struct model_publisher *publisher, struct operation *operation)
{
    int rise = random_chance(random, 60) ? (int)random_between(random, 1, 3) : -(int)random_below(random, 2);
    operation->epoch = publisher->epoch + rise > 0 ? publisher->epoch + rise : 1;
    operation->owner = random_chance(random, 60) ? (int)random_below(random, OWNERS) : publisher->owner;
}

/* A row that is new; or a new one under an id that another has. */
static struct entry draw_new_row(struct clients *clients, const struct oracle *oracle)
{
    struct random *random = &clients->random;
    struct entry entry = {.group = NONE, .is_ack = clients->held_count > 0 && random_chance(random, 20)};
    if (entry.is_ack) {
        const struct held *held = draw_held(clients, oracle);
        entry.handle = held->handle;
        entry.queue = held->queue;
    } else {
        int batch = random_chance(random, clients->batch_percent) ? draw_batch_to_join(clients, oracle) : NONE;
        int queue = random_chance(random, 15) ? BRIEF_QUEUE : draw_queue_to_send(clients);
        entry = draw_entry(clients, oracle, queue, 250, batch);
        if (operation_is_fifo(queue) && random_chance(random, 50))
            entry.dedup = NONE; /* its uid serves */
    }
    entry.row_uid = ++clients->next_row;
    entry.row_id = clients->next_row;
    if (random_chance(random, 8) && clients->next_row > 1)
        entry.row_id = 1 + (int)random_below(random, (uint32_t)clients->next_row - 1);
    return entry;
}

/* One that was published before, by this publisher; *row: NULL if there is none. At times it has a new id. */
static const struct entry *draw_old_row(struct clients *clients, int publisher)
{
    struct random *random = &clients->random;
    unsigned kept = clients->row_count < OUTBOX_MAX ? clients->row_count : OUTBOX_MAX;
    struct outbox_row *row = kept == 0 ? NULL : &clients->rows[random_below(random, kept)];
    if (row == NULL || row->publisher != publisher)
        return NULL;
    if (random_chance(random, 10))
        row->entry.row_id = ++clients->next_row;
    return &row->entry;
}

static void draw_publish(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    int name = (int)random_below(random, PUBLISHERS);
    const struct model_publisher *publisher = &oracle->model.publishers[name];
    operation->publisher = name;
    if (operation->kind == OPERATION_OPEN_PUBLISHER || publisher->epoch == 0) {
        operation->kind = OPERATION_OPEN_PUBLISHER;
        draw_open(random, publisher, operation);
        return;
    }
    if (clients->last_publish[name].count > 0 && random_chance(random, 8)) {
        *operation = clients->last_publish[name];
        return;
    }
    bool is_stranger = random_chance(random, 8);
    operation->epoch = publisher->epoch - (is_stranger && publisher->epoch > 1 && random_chance(random, 60));
    operation->owner = is_stranger ? (int)random_below(random, OWNERS) : publisher->owner;
    operation->publish_batch = publisher->batch + (random_chance(random, 92) ? 1 : (int)random_below(random, 3));
    if (operation->publish_batch == 0)
        operation->publish_batch = 1;
    operation->confirmed_batch = operation->publish_batch - 1;
    if (random_chance(random, 40))
        operation->confirmed_batch -= (int)random_below(random, (uint32_t)operation->publish_batch);
    operation->is_strict = random_chance(random, 15);
    operation->blocks_refused = random_chance(random, 30);
    operation->count = random_between(random, 1, 4);
    for (unsigned i = 0; i < operation->count; i++) {
        const struct entry *old = random_chance(random, 30) ? draw_old_row(clients, name) : NULL;
        operation->entries[i] = old != NULL ? *old : draw_new_row(clients, oracle);
        if (old == NULL)
            clients->rows[clients->row_count++ % OUTBOX_MAX] =
                (struct outbox_row){.publisher = name, .entry = operation->entries[i]};
    }
    clients->last_publish[name] = *operation;
}

static void draw_receive(struct clients *clients, struct operation *operation)
{
    struct random *random = &clients->random;
    operation->queue =
        random_chance(random, 30) ? FIRST_EVENT_QUEUE + (int)random_below(random, 2) : draw_queue(clients);
    operation->receive_max = random_chance(random, 50) ? ENTRIES_MAX : random_between(random, 1, ENTRIES_MAX);
    operation->timeout_s = random_chance(random, 30) ? draw_timeout(random) : NONE;
    operation->wait_s = random_chance(random, 25) ? (int)random_between(random, 1, 20) : 0;
    operation->attempt = NONE;
    if (operation->wait_s > 0 || !random_chance(random, 25))
        return;
    if (clients->next_attempt > 0 && random_chance(random, 50))
        operation->queue = clients->attempt_queue; /* once more */
    else
        clients->next_attempt++;
    clients->attempt_queue = operation->queue;
    operation->attempt = clients->next_attempt;
}

/* Entries that name handles: mostly new ones, at times old or used ones; most of them with the right queue. */
static void draw_handles(struct clients *clients, struct operation *operation)
{
    struct random *random = &clients->random;
    unsigned newest = clients->held_count < 12 ? clients->held_count : 12;
    operation->is_many = random_chance(random, 50);
    operation->count = operation->is_many ? random_between(random, 1, ENTRIES_MAX) : 1;
    for (unsigned i = 0; i < operation->count; i++) {
        unsigned back =
            random_chance(random, 85) ? random_below(random, newest) : random_below(random, clients->held_count);
        const struct held *held = &clients->held[clients->held_count - 1 - back];
        if (i == 0)
            operation->queue = held->queue;
        if (held->queue != operation->queue && random_chance(random, 90)) {
            operation->count = i;
            break;
        }
        operation->entries[i] = (struct entry){.handle = held->handle, .timeout_s = draw_timeout(random)};
    }
    if (random_chance(random, 2))
        operation->queue = draw_queue(clients);
}

static void draw_units(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    const bool is_add = operation->kind == OPERATION_ADD_UNITS;
    operation->batch = draw_batch_like(clients, oracle, WANTED_EXACT | WANTED_OPEN | (is_add ? 0 : WANTED_SEALED));
    operation->counted =
        operation->kind == OPERATION_ADD_UNITS && random_chance(random, 40) ? (int)random_below(random, 12) : NONE;
    operation->count = random_between(random, 1, KEYS_MAX);
    if (random_chance(random, 30))
        operation->detail = (int)random_below(random, 1000);
    int record = model_find_batch(&oracle->model, operation->batch);
    const struct model_batch *batch = record == NONE ? NULL : &oracle->model.batches[record];
    for (unsigned i = 0; i < operation->count; i++) {
        operation->keys[i] = draw_key(random);
        operation->is_failed[i] = random_chance(random, 12);
        /* One unknown key refuses the whole call, so mostly take known ones. */
        if (operation->kind == OPERATION_COMPLETE_UNITS && batch != NULL && batch->unit_count > 0 &&
            random_chance(random, 98)) {
            /* Look for one that is outstanding, a few times. */
            const struct model_unit *unit = NULL;
            for (unsigned tries = 0; tries < 4 && (unit == NULL || unit->fate != FATE_OUTSTANDING); tries++)
                unit = &batch->units[random_below(random, (uint32_t)batch->unit_count)];
            if (unit->kind == UNIT_OF_KEY)
                operation->keys[i] = unit->key;
        }
    }
    if (operation->kind == OPERATION_ADD_UNITS && !has_room(oracle, operation->batch, 24))
        operation->kind = OPERATION_DESCRIBE_BATCH;
}

/* A unit from outside an xor batch has a random id that goes in when it starts and again when it ends; the token tells
 * a repeat of the same call from another one, so both calls for a unit always have the same token. */
static void draw_xor(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    operation->batch = draw_batch_like(clients, oracle, WANTED_XOR | WANTED_OPEN | WANTED_SEALED);
    uint32_t unit = random_below(random, 5);
    bool is_end = random_chance(random, 50);
    struct random id = {.state = clients->xor_salt ^ ((uint64_t)operation->batch * 64 + unit)};
    operation->value = random_u64(&id);
    int units = unit == 4 ? 3 : 1; /* one value may stand for several */
    operation->registered = is_end ? 0 : units;
    operation->finished = is_end ? units : 0;
    operation->token = unit * 2 + is_end;
    int record = model_find_batch(&oracle->model, operation->batch);
    if (random_chance(random, 3) &&
        (record == NONE || oracle->model.batches[record].token_count < MODEL_TOKENS_MAX - 12))
        operation->value ^= 1; /* another value under a token, or one that never comes to zero */
}

/* Mostly a group that is held. */
static void draw_release(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    const struct model *model = &oracle->model;
    operation->queue = draw_order_queue(random);
    operation->group = (int)random_below(random, GROUPS);
    operation->action = random_below(random, 3);
    unsigned start = model->group_count == 0 ? 0 : random_below(random, (uint32_t)model->group_count);
    for (int i = 0; i < model->group_count && random_chance(random, 98); i++) {
        const struct model_group *group = &model->groups[(start + (unsigned)i) % (unsigned)model->group_count];
        if (!model_is_held(model, group))
            continue;
        operation->queue = model->queues[group->queue].name;
        operation->group = group->name;
        return;
    }
}

/* Resumes what is paused rather than pausing more. */
static void draw_pause(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    const struct model *model = &oracle->model;
    operation->queue = random_chance(random, 70) ? draw_order_queue(random) : draw_queue(clients);
    operation->group = random_chance(random, 50) ? (int)random_below(random, GROUPS) : NONE;
    operation->is_paused = true;
    for (int i = 0; i < model->queue_count && random_chance(random, 97); i++) {
        if (!model->queues[i].exists || !model->queues[i].is_paused)
            continue;
        *operation = (struct operation){.kind = OPERATION_PAUSE, .queue = model->queues[i].name, .group = NONE};
        return;
    }
    for (int i = 0; i < model->group_count && random_chance(random, 97); i++) {
        const struct model_group *group = &model->groups[i];
        if (!model->queues[group->queue].exists || !group->is_paused)
            continue;
        *operation = (struct operation){
            .kind = OPERATION_PAUSE, .queue = model->queues[group->queue].name, .group = group->name};
        return;
    }
}

static bool has_dead_letters(const struct oracle *oracle)
{
    static const int dead_queues[] = {FIRST_DEAD_QUEUE, FIRST_DEAD_QUEUE + 1, FIFO_DEAD_QUEUE};
    unsigned count = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(dead_queues); i++) {
        int queue = model_find_queue(&oracle->model, dead_queues[i]);
        count += queue == NONE ? 0 : model_count_queue(&oracle->model, queue).visible;
    }
    return count > 0;
}

static enum operation_kind draw_kind(struct clients *clients, const struct oracle *oracle)
{
    for (;;) {
        unsigned at = random_below(&clients->random, clients->weight_sum);
        int kind = 0;
        while (at >= clients->weights[kind])
            at -= clients->weights[kind++];
        if ((kind == OPERATION_DELETE || kind == OPERATION_CHANGE_VISIBILITY || kind == OPERATION_FAIL) &&
            clients->held_count == 0)
            continue;
        if (kind == OPERATION_CREATE_BATCH && oracle->model.batch_count >= BATCHES_LIMIT)
            continue;
        if ((kind == OPERATION_SEND || kind == OPERATION_COMMIT || kind == OPERATION_PUBLISH ||
             kind == OPERATION_REPLACE) &&
            oracle->model.message_count >= MESSAGES_LIMIT)
            continue;
        if (kind == OPERATION_PUBLISH && oracle->model.row_count >= ROWS_LIMIT)
            continue;
        if (kind == OPERATION_CREATE_QUEUE && oracle->model.queue_count >= QUEUES_LIMIT)
            continue;
        if (kind == OPERATION_START_MOVE && random_chance(&clients->random, 80) && !has_dead_letters(oracle))
            continue;
        if (kind == OPERATION_DELETE_SOME && oracle->model.task_count >= MODEL_TASKS_MAX)
            continue;
        if (kind == OPERATION_START_MOVE &&
            (oracle->model.message_count >= MESSAGES_LIMIT - 300 || oracle->model.task_count >= MODEL_TASKS_MAX))
            continue;
        return (enum operation_kind)kind;
    }
}

static void draw_settings(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    const bool is_new = operation->kind == OPERATION_CREATE_QUEUE;
    operation->queue = random_chance(random, 30) ? BRIEF_QUEUE : draw_queue(clients);
    for (int queue = 0; queue < QUEUE_NAMES && is_new; queue++)
        if (model_find_queue(&oracle->model, queue) == NONE && random_chance(random, 80))
            operation->queue = queue; /* somebody deleted it */
    struct queue_traits *traits = &clients->traits[operation->queue];
    operation->numbers = draw_numbers(clients, operation->queue);
    operation->traits = *traits;
    if (is_new || operation->queue < FIRST_ORDER_QUEUE || !random_chance(random, 60))
        return;
    operation->has_traits = true;
    operation->traits = draw_traits(random, operation->queue);
    if (traits->is_at_most_once || operation->queue == FIFO_DEAD_QUEUE)
        operation->traits.on_failure = ON_FAILURE_SKIP;
    traits->window_s = operation->traits.window_s;
}

/* Mostly a queue that has dead letters, if there is one. */
static int draw_dead_queue(struct random *random, const struct model *model)
{
    static const int dead_queues[] = {FIRST_DEAD_QUEUE, FIRST_DEAD_QUEUE + 1, FIFO_DEAD_QUEUE};
    int names[ARRAY_LENGTH(dead_queues)], count = 0;
    if (random_chance(random, 8))
        return (int)random_below(random, QUEUE_NAMES);
    for (size_t i = 0; i < ARRAY_LENGTH(dead_queues); i++) {
        int queue = model_find_queue(model, dead_queues[i]);
        if (queue != NONE && model_count_queue(model, queue).visible > 0)
            names[count++] = dead_queues[i];
    }
    return count > 0 ? names[random_below(random, (uint32_t)count)] : dead_queues[random_below(random, 3)];
}

static void draw_move(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    static const int rates[] = {0, 0, 0, 0, 1, 3, 20, 500};
    struct random *random = &clients->random;
    const struct model *model = &oracle->model;
    operation->queue = draw_dead_queue(random, model);
    operation->destination = NONE;
    if (random_chance(random, 30))
        operation->destination =
            operation_is_fifo(operation->queue) ? draw_order_queue(random) : (int)random_below(random, QUEUE_NAMES);
    operation->move_rate = rates[random_below(random, ARRAY_LENGTH(rates))];
    operation->move_max = random_chance(random, 20) ? (int)random_below(random, 3) + 1 : 0;
    operation->move_group = random_chance(random, 25) ? (int)random_below(random, 3) : NONE;
    snprintf(operation->task, sizeof(operation->task), "bm9uZQ==");
    if (model->task_count == 0 || random_chance(random, 5))
        return;
    uint32_t range = model->task_count < 4 ? (uint32_t)model->task_count : 4;
    const char *handle = model->tasks[model->task_count - 1 - (int)random_below(random, range)].handle;
    memcpy(operation->task, handle, sizeof(operation->task));
}

static void draw_fail(struct clients *clients, struct operation *operation)
{
    struct random *random = &clients->random;
    draw_handles(clients, operation);
    operation->is_many = false;
    operation->count = 1;
    operation->is_final = random_chance(random, 30);
    operation->reason = random_chance(random, 60) ? (int)random_below(random, 1000) : NONE;
    operation->retry_after_s = random_chance(random, 20) ? (int)random_below(random, 20) : NONE;
    operation->attempts_max = random_chance(random, 20) ? (int)random_between(random, 1, 4) : NONE;
    operation->bury_in = random_chance(random, 20) ? draw_queue(clients) : NONE;
}

static void draw_tags(struct clients *clients, struct operation *operation)
{
    struct random *random = &clients->random;
    operation->queue = draw_queue(clients);
    operation->label = (int)random_below(random, LABELS);
    for (unsigned i = 0; i < TAGS; i++)
        operation->tags[i] = random_chance(random, 30) ? (int)random_between(random, 1, 9) : 0;
    operation->tags[random_below(random, TAGS)] = (int)random_between(random, 1, 9);
}

void clients_draw(struct clients *clients, const struct oracle *oracle, struct operation *operation)
{
    struct random *random = &clients->random;
    *operation = (struct operation){
        .kind = draw_kind(clients, oracle),
        .counted = NONE,
        .detail = NONE,
        .only = NONE,
    };
    switch (operation->kind) {
    case OPERATION_CREATE_QUEUE:
    case OPERATION_SET_QUEUE:
        draw_settings(clients, oracle, operation);
        break;
    case OPERATION_DELETE_QUEUE:
    case OPERATION_PURGE_QUEUE:
        operation->queue = random_chance(random, 60) ? BRIEF_QUEUE : draw_queue(clients);
        break;
    case OPERATION_COUNT_QUEUE:
        operation->queue = draw_queue(clients);
        break;
    case OPERATION_TAG_QUEUE:
    case OPERATION_UNTAG_QUEUE:
    case OPERATION_LIST_TAGS:
    case OPERATION_ADD_PERMISSION:
    case OPERATION_REMOVE_PERMISSION:
        draw_tags(clients, operation);
        break;
    case OPERATION_SEND:
        draw_send(clients, oracle, operation);
        break;
    case OPERATION_RECEIVE:
        draw_receive(clients, operation);
        break;
    case OPERATION_DELETE:
    case OPERATION_CHANGE_VISIBILITY:
        draw_handles(clients, operation);
        break;
    case OPERATION_FAIL:
        draw_fail(clients, operation);
        break;
    case OPERATION_EXPLAIN:
        draw_explain(clients, oracle, operation);
        break;
    case OPERATION_LIST_GROUPS:
        operation->queue = draw_order_queue(random);
        break;
    case OPERATION_COMMIT:
        draw_commit(clients, oracle, operation);
        break;
    case OPERATION_OPEN_PUBLISHER:
    case OPERATION_PUBLISH:
        draw_publish(clients, oracle, operation);
        break;
    case OPERATION_PUT_TYPE_ORDER:
    case OPERATION_DELETE_TYPE_ORDER:
        draw_type_order(random, operation);
        break;
    case OPERATION_START_MOVE:
    case OPERATION_CANCEL_MOVE:
    case OPERATION_LIST_MOVES:
        draw_move(clients, oracle, operation);
        break;
    case OPERATION_DELETE_SOME:
        draw_delete_some(clients, oracle, operation);
        break;
    case OPERATION_REPLACE:
        draw_replace(clients, oracle, operation);
        break;
    case OPERATION_RELEASE_GROUP:
        draw_release(clients, oracle, operation);
        break;
    case OPERATION_PAUSE:
        draw_pause(clients, oracle, operation);
        break;
    case OPERATION_CREATE_BATCH:
        draw_create_batch(clients, oracle, operation);
        break;
    case OPERATION_ADD_UNITS:
    case OPERATION_COMPLETE_UNITS:
        draw_units(clients, oracle, operation);
        break;
    case OPERATION_XOR_UNITS:
        draw_xor(clients, oracle, operation);
        break;
    case OPERATION_SEAL_BATCH:
        operation->batch = draw_batch_like(clients, oracle, WANTED_EXACT | WANTED_XOR | WANTED_OPEN);
        break;
    case OPERATION_LIST_UNITS:
    case OPERATION_LIST_BATCHES:
        operation->only = random_chance(random, 50) ? (int)random_below(random, 3) : NONE;
        __attribute__((fallthrough));
    default:
        operation->batch = draw_batch(clients);
        break;
    }
}

bool clients_open(struct clients *clients, unsigned step, struct operation *operation)
{
    /* Dead-letter queues first: a policy must name one that exists. */
    static const int order[] = {5, 6, 10, 11, 0, 1, 2, 3, 4, 8, 9, 12, 13};
    if (step >= ARRAY_LENGTH(order))
        return false;
    *operation = (struct operation){.kind = OPERATION_CREATE_QUEUE, .queue = order[step]};
    operation->numbers = draw_numbers(clients, order[step]);
    operation->traits = clients->traits[order[step]];
    return true;
}

void clients_learn(struct clients *clients, const struct operation *operation, const struct lesson *lesson)
{
    for (unsigned i = 0; i < lesson->handle_count; i++) {
        if (clients->held_count == HELD_MAX) {
            unsigned gone = random_below(&clients->random, HELD_MAX - 32);
            memmove(&clients->held[gone], &clients->held[gone + 1], (HELD_MAX - 1 - gone) * sizeof(clients->held[0]));
            clients->held_count--;
        }
        clients->held[clients->held_count++] = (struct held){lesson->handles[i], operation->queue};
    }
}
