/* Scenario T27: random sequences of all calls on batches, in all states and with every way of
 * dying, against a naive model. The model knows what was asked and answered, never how the server does it. */
#include "scenario.h"

#include "random.h"

#define BATCHES 6
#define UNITS_MAX 64
#define MESSAGES_MAX 200
#define EVENTS 3 /* complete, success, first-failure */

enum { COMPLETE, SUCCESS, FIRST_FAILURE };
static const char *const event_names[EVENTS] = {"complete", "success", "first-failure"};

struct model_unit {
    char key[24]; /* "": a message or a child */
    enum unit_state state;
};

/* A message that the model expects to be there until it is deleted. */
struct model_message {
    bool is_live;
    bool has_handle; /* `handle` is the newest there is */
    char handle[WORLD_HANDLE_SIZE];
    char old_handle[WORLD_HANDLE_SIZE];
    int batch;
    uint32_t unit;
};

struct model_batch {
    bool exists;
    enum batch_state state;
    enum batch_status status;
    struct model_unit units[UNITS_MAX];
    uint32_t count;
    int parent;
    uint32_t parent_unit;
    int64_t total; /* -1: none */
    uint64_t deadline_ms;
    bool has_target[EVENTS];
    bool has_fired[EVENTS];
    struct model_message messages[EVENTS];
    unsigned completed_replies;
};

struct model {
    struct world *world;
    struct random random;
    struct model_batch batches[BATCHES];
    struct model_message messages[MESSAGES_MAX]; /* body "mN" */
    unsigned message_count;
};

static struct model_batch *batch_at(struct model *model, int batch)
{
    return &model->batches[batch];
}

/* --- what the rules say ------------------------------------------------------------------------------------------- */

static void finish_child(struct model *model, int batch, bool is_good);

static void fire(struct model_batch *batch, int event)
{
    batch->has_fired[event] = true;
    batch->messages[event].is_live = batch->has_target[event];
}

static uint32_t count_units(const struct model_batch *batch, enum unit_state state)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        count += batch->units[i].state == state;
    return count;
}

static void complete(struct model *model, int which, enum batch_status status)
{
    struct model_batch *batch = batch_at(model, which);
    batch->state = BATCH_COMPLETED;
    batch->status = status;
    fire(batch, COMPLETE);
    if (status == BATCH_SUCCEEDED)
        fire(batch, SUCCESS);
    for (uint32_t i = 0; status == BATCH_CANCELLED && i < batch->count; i++)
        if (batch->units[i].state == UNIT_OUTSTANDING)
            batch->units[i].state = UNIT_CANCELLED;
    for (unsigned i = 0; status == BATCH_CANCELLED && i < model->message_count; i++)
        if (model->messages[i].batch == which)
            model->messages[i].is_live = false;
    int awaited = batch->has_target[COMPLETE] ? COMPLETE : SUCCESS;
    if (!batch->messages[awaited].is_live)
        finish_child(model, which, true);
}

static void check_whether_done(struct model *model, int which)
{
    struct model_batch *batch = batch_at(model, which);
    if (batch->state == BATCH_OPEN && batch->total >= 0 && batch->count >= (uint64_t)batch->total)
        batch->state = BATCH_IS_SEALED;
    if (batch->state == BATCH_IS_SEALED && count_units(batch, UNIT_OUTSTANDING) == 0)
        complete(model, which, count_units(batch, UNIT_SUCCEEDED) == batch->count ? BATCH_SUCCEEDED : BATCH_FAILED);
}

static bool end_unit(struct model *model, int which, uint32_t unit, enum unit_state outcome)
{
    struct model_batch *batch = batch_at(model, which);
    if (batch->units[unit].state != UNIT_OUTSTANDING)
        return false;
    batch->units[unit].state = outcome;
    if (batch->state == BATCH_COMPLETED)
        return true;
    for (int up = which; outcome == UNIT_FAILED && up >= 0; up = batch_at(model, up)->parent)
        if (batch_at(model, up)->state != BATCH_COMPLETED && !batch_at(model, up)->has_fired[FIRST_FAILURE])
            fire(batch_at(model, up), FIRST_FAILURE);
    check_whether_done(model, which);
    return true;
}

static void finish_child(struct model *model, int which, bool is_good)
{
    const struct model_batch *batch = batch_at(model, which);
    if (batch->parent < 0)
        return;
    bool is_bad = !is_good || batch->status == BATCH_FAILED || batch->status == BATCH_EXPIRED;
    enum unit_state outcome = is_bad ? UNIT_FAILED : batch->status == BATCH_CANCELLED ? UNIT_CANCELLED : UNIT_SUCCEEDED;
    end_unit(model, batch->parent, batch->parent_unit, outcome);
}

/* What is wrong with adding `count` units, if anything. */
static const char *refusal(const struct model_batch *batch, uint32_t count)
{
    if (batch->state != BATCH_OPEN)
        return "BatchSealed";
    return batch->total >= 0 && batch->count + count > (uint64_t)batch->total ? "BatchTotalExceeded" : NULL;
}

static uint32_t add_unit(struct model_batch *batch, const char *key)
{
    assert_true(batch->count < UNITS_MAX);
    snprintf(batch->units[batch->count].key, sizeof(batch->units[0].key), "%.23s", key);
    batch->units[batch->count].state = UNIT_OUTSTANDING;
    return batch->count++;
}

static int find_key(const struct model_batch *batch, const char *key)
{
    for (uint32_t i = 0; i < batch->count; i++)
        if (strcmp(batch->units[i].key, key) == 0)
            return (int)i;
    return -1;
}

static void expire_batches(struct model *model)
{
    for (;;) {
        int next = -1;
        for (int i = 0; i < BATCHES; i++) {
            const struct model_batch *batch = batch_at(model, i);
            if (!batch->exists || batch->state == BATCH_COMPLETED || batch->deadline_ms > model->world->now_ms)
                continue;
            if (next < 0 || batch->deadline_ms < batch_at(model, next)->deadline_ms)
                next = i;
        }
        if (next < 0)
            return;
        complete(model, next, BATCH_EXPIRED);
    }
}

/* --- what is asked ------------------------------------------------------------------------------------------------ */

/* Did the answer say what the model says? A repeat may find its own first try: `repeat_error` is then right too. */
static void expect_answer(struct model *model, struct answer answer, const char *error, const char *repeat_error)
{
    bool is_right = error == NULL ? answer.error == NULL : answer_fails(answer, error);
    if (!is_right && answer.is_repeat && repeat_error != NULL)
        is_right = answer_fails(answer, repeat_error);
    if (!is_right)
        print_error("expected %s, got %s\n", error == NULL ? "OK" : error, answer.error == NULL ? "OK" : answer.error);
    EXPECT(model->world, is_right);
}

static int draw_batch(struct model *model)
{
    int which = (int)random_below(&model->random, BATCHES);
    return batch_at(model, which)->exists ? which : -1;
}

static void ask_create(struct model *model)
{
    int which = (int)random_below(&model->random, BATCHES);
    struct model_batch *batch = batch_at(model, which);
    if (batch->exists)
        return;
    int parent = random_below(&model->random, 2) == 0 ? draw_batch(model) : -1;
    struct model_batch made = {.exists = true, .state = BATCH_OPEN, .parent = parent, .total = -1};
    uint32_t expires_s = 100 + random_below(&model->random, 4000);
    char text[500];
    size_t size = (size_t)snprintf(text, sizeof(text), "'BatchId':'b%d','ExpiresAfterSeconds':%u", which, expires_s);
    static const char *const members[EVENTS] = {"OnComplete", "OnSuccess", "OnFirstFailure"};
    for (int i = 0; i < EVENTS; i++) {
        made.has_target[i] = random_below(&model->random, 3) > 0;
        if (made.has_target[i])
            size += (size_t)snprintf(text + size, sizeof(text) - size, ",'%s':{'QueueUrl':'done'}", members[i]);
    }
    if (random_below(&model->random, 3) == 0) {
        made.total = random_below(&model->random, 6);
        size += (size_t)snprintf(text + size, sizeof(text) - size, ",'Total':%d", (int)made.total);
    }
    if (parent >= 0)
        (void)snprintf(text + size, sizeof(text) - size, ",'Parent':'b%d'", parent);
    const char *error = parent < 0 ? NULL : refusal(batch_at(model, parent), 1);
    expect_answer(model, world_call(model->world, "Tally.CreateBatch", "{%s}", text), error, NULL);
    if (error != NULL)
        return;
    made.deadline_ms = model->world->now_ms + (uint64_t)expires_s * 1000;
    *batch = made;
    if (parent >= 0) {
        batch->parent_unit = add_unit(batch_at(model, parent), "");
        check_whether_done(model, parent);
    }
    check_whether_done(model, which);
}

static void ask_add(struct model *model)
{
    int which = draw_batch(model);
    if (which < 0 || batch_at(model, which)->count > UNITS_MAX - 4)
        return;
    struct model_batch *batch = batch_at(model, which);
    char keys[2][24];
    uint32_t added = 0;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(keys[i], sizeof(keys[i]), "k%u", random_below(&model->random, 12));
        added += find_key(batch, keys[i]) < 0 && (i == 0 || strcmp(keys[0], keys[1]) != 0);
    }
    const char *error = refusal(batch, added);
    struct answer answer =
        world_call(model->world, "Tally.AddUnits", "{'BatchId':'b%d','Units':['%s','%s']}", which, keys[0], keys[1]);
    expect_answer(model, answer, error, "BatchSealed"); /* the first try may have reached the Total */
    if (error != NULL)
        return;
    EXPECT(model->world, answer.is_repeat || answer_number(answer, "Added") == added);
    for (unsigned i = 0; i < 2; i++)
        if (find_key(batch, keys[i]) < 0)
            add_unit(batch, keys[i]);
    check_whether_done(model, which);
}

static void ask_send(struct model *model)
{
    int which = draw_batch(model);
    if (model->message_count == MESSAGES_MAX || (which >= 0 && batch_at(model, which)->count > UNITS_MAX - 4))
        return;
    char body[12], id[12];
    snprintf(body, sizeof(body), "m%u", model->message_count);
    snprintf(id, sizeof(id), "b%d", which);
    const char *error = which < 0 ? NULL : refusal(batch_at(model, which), 1);
    expect_answer(model, world_send(model->world, "jobs", which < 0 ? NULL : id, body), error, NULL);
    if (error != NULL)
        return;
    struct model_message *message = &model->messages[model->message_count++];
    *message = (struct model_message){.is_live = true, .batch = which};
    if (which < 0)
        return;
    message->unit = add_unit(batch_at(model, which), "");
    check_whether_done(model, which);
}

static void ask_complete(struct model *model)
{
    int which = draw_batch(model);
    if (which < 0)
        return;
    struct model_batch *batch = batch_at(model, which);
    char key[24];
    bool is_failed = random_below(&model->random, 5) == 0;
    snprintf(key, sizeof(key), "k%u", random_below(&model->random, 12));
    int unit = find_key(batch, key);
    struct answer answer =
        world_call(model->world, "Tally.CompleteUnits", "{'BatchId':'b%d','Units':[{'Unit':'%s','Status':'%s'}]}",
                   which, key, is_failed ? "failed" : "succeeded");
    expect_answer(model, answer, unit < 0 ? "UnitDoesNotExist" : NULL, NULL);
    if (unit < 0)
        return;
    bool was_completed = batch->state == BATCH_COMPLETED;
    bool is_recorded = end_unit(model, which, (uint32_t)unit, is_failed ? UNIT_FAILED : UNIT_SUCCEEDED);
    bool is_completed = !was_completed && batch->state == BATCH_COMPLETED;
    yyjson_val *result = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
    EXPECT(model->world, answer.is_repeat || yyjson_get_bool(yyjson_obj_get(result, "Recorded")) == is_recorded);
    EXPECT(model->world, answer.is_repeat || answer_is_true(answer, "Completed") == is_completed);
    batch->completed_replies += answer_is_true(answer, "Completed");
}

static void ask_seal(struct model *model)
{
    int which = draw_batch(model);
    if (which < 0)
        return;
    struct model_batch *batch = batch_at(model, which);
    struct answer answer = world_call(model->world, "Tally.SealBatch", "{'BatchId':'b%d'}", which);
    expect_answer(model, answer, NULL, NULL);
    bool was_completed = batch->state == BATCH_COMPLETED;
    if (batch->state == BATCH_OPEN)
        batch->state = BATCH_IS_SEALED;
    check_whether_done(model, which);
    bool is_completed = !was_completed && batch->state == BATCH_COMPLETED;
    EXPECT(model->world, answer.is_repeat || answer_is_true(answer, "Completed") == is_completed);
    batch->completed_replies += answer_is_true(answer, "Completed");
}

static void ask_cancel(struct model *model)
{
    int which = draw_batch(model);
    if (which < 0 || random_below(&model->random, 3) > 0)
        return;
    expect_answer(model, world_call(model->world, "Tally.CancelBatch", "{'BatchId':'b%d'}", which), NULL, NULL);
    if (batch_at(model, which)->state != BATCH_COMPLETED)
        complete(model, which, BATCH_CANCELLED);
}

static void hold(struct model_message *message, const struct taken *taken)
{
    memcpy(message->old_handle, message->handle, sizeof(message->handle));
    memcpy(message->handle, taken->handle, sizeof(message->handle));
    message->has_handle = true;
}

/* The message that was received, which must be a live one. */
static struct model_message *recognise(struct model *model, const struct taken *taken)
{
    if (taken->of_batch[0] == '\0') {
        unsigned number = (unsigned)atoi(taken->body + 1);
        return number < model->message_count ? &model->messages[number] : NULL;
    }
    for (int event = 0; event < EVENTS; event++)
        if (strcmp(taken->event, event_names[event]) == 0)
            return &batch_at(model, atoi(taken->of_batch + 1))->messages[event];
    return NULL;
}

/* Who lost a reply does not know which handles are the newest. */
static void forget_handles(struct model *model)
{
    for (unsigned i = 0; i < model->message_count; i++)
        model->messages[i].has_handle = false;
    for (int i = 0; i < BATCHES; i++)
        for (int event = 0; event < EVENTS; event++)
            batch_at(model, i)->messages[event].has_handle = false;
}

static void ask_take(struct model *model)
{
    struct taken taken[3];
    const char *queue = random_below(&model->random, 2) == 0 ? "jobs" : "done";
    unsigned restarts = model->world->restart_count;
    unsigned count = world_take(model->world, queue, 300, 1 + random_below(&model->random, 3), taken);
    expire_batches(model); /* a lost reply costs time */
    if (model->world->options.way == WORLD_STOPS && model->world->restart_count != restarts)
        forget_handles(model);
    for (unsigned i = 0; i < count; i++) {
        struct model_message *message = recognise(model, &taken[i]);
        EXPECT(model->world, message != NULL && message->is_live);
        hold(message, &taken[i]);
    }
}

static void delete_work(struct model *model)
{
    if (model->message_count == 0)
        return;
    struct model_message *message = &model->messages[random_below(&model->random, model->message_count)];
    bool is_old = message->old_handle[0] != '\0' && random_below(&model->random, 2) == 0; /* does the same */
    if (!is_old && !message->has_handle)
        return;
    world_delete(model->world, "jobs", is_old ? message->old_handle : message->handle);
    if (message->is_live && message->batch >= 0)
        end_unit(model, message->batch, message->unit, UNIT_SUCCEEDED);
    message->is_live = false;
}

static void delete_done(struct model *model, int which, int event)
{
    struct model_batch *batch = batch_at(model, which);
    struct model_message *message = &batch->messages[event];
    if (!message->has_handle)
        return;
    world_delete(model->world, "done", message->handle);
    bool is_awaited = event == (batch->has_target[COMPLETE] ? COMPLETE : SUCCESS);
    if (message->is_live && is_awaited)
        finish_child(model, which, true);
    message->is_live = false;
}

static void ask_delete(struct model *model)
{
    int which = draw_batch(model);
    if (random_below(&model->random, 3) > 0)
        delete_work(model);
    else if (which >= 0)
        delete_done(model, which, (int)random_below(&model->random, EVENTS));
}

static void let_time_pass(struct model *model)
{
    if (random_below(&model->random, 4) > 0)
        return;
    world_pass_time(model->world, random_below(&model->random, 200) * 1000);
    expire_batches(model);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static void compare(struct model *model)
{
    struct world *world = model->world;
    for (int i = 0; i < BATCHES; i++) {
        const struct model_batch *expected = batch_at(model, i);
        char id[12];
        snprintf(id, sizeof(id), "b%d", i);
        const struct batch *batch = core_find_batch(world_core(world), bytes_from_string(id));
        EXPECT(world, (batch != NULL) == expected->exists);
        if (batch == NULL)
            continue;
        struct batch_counts counts = batch_counts(batch);
        EXPECT(world, batch->state == expected->state && batch->status == expected->status);
        EXPECT(world, counts.total == expected->count);
        EXPECT(world, counts.succeeded == count_units(expected, UNIT_SUCCEEDED));
        EXPECT(world, counts.failed == count_units(expected, UNIT_FAILED));
        EXPECT(world, counts.cancelled == count_units(expected, UNIT_CANCELLED));
        EXPECT(world, counts.remaining == count_units(expected, UNIT_OUTSTANDING)); /* invariant B4 */
        EXPECT(world, expected->completed_replies <= 1);
        for (int event = 0; event < EVENTS; event++)
            EXPECT(world, ((batch->fired & BATCH_EVENT_BIT(event + 1)) != 0) == expected->has_fired[event]);
    }
}

/* In the end every message that should be there is, and nothing else. */
static void compare_messages(struct model *model)
{
    struct world *world = model->world;
    uint64_t jobs = 0, done = 0;
    world_pass_time(world, 1);
    expire_batches(model);
    for (unsigned i = 0; i < model->message_count; i++)
        jobs += model->messages[i].is_live;
    for (int i = 0; i < BATCHES; i++)
        for (int event = 0; event < EVENTS; event++)
            done += batch_at(model, i)->messages[event].is_live;
    EXPECT(world, world_count_messages(world, "jobs") == jobs);
    EXPECT(world, world_count_messages(world, "done") == done);
}

static void play(const struct world_options *options)
{
    static void (*const asks[])(struct model * model) = {
        ask_create, ask_create, ask_add,  ask_add,  ask_send,   ask_send,   ask_complete, ask_complete,  ask_complete,
        ask_seal,   ask_cancel, ask_take, ask_take, ask_delete, ask_delete, ask_delete,   let_time_pass,
    };
    static struct model model;
    model = (struct model){.world = world_create(options), .random = {.state = options->seed}};
    world_create_queue(model.world, "jobs", "");
    world_create_queue(model.world, "done", "");
    for (unsigned step = 0; step < 150; step++) {
        asks[random_below(&model.random, ARRAY_LENGTH(asks))](&model);
        compare(&model);
        world_forget(model.world);
    }
    compare_messages(&model);
    world_audit(model.world);
    world_destroy(model.world);
}

/* TALLY_MODEL_SEEDS=N plays more. */
static uint64_t seed_count(void)
{
    const char *text = getenv("TALLY_MODEL_SEEDS");
    return text == NULL ? scaled(150) : strtoull(text, NULL, 10);
}

static void T27_random_calls_agree_with_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(); seed++)
        play(&(struct world_options){.seed = seed});
}

static void T27_random_calls_with_kills_agree_with_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count() / 5 + 1; seed++) {
        play(&(struct world_options){.way = WORLD_KILLS, .seed = seed});
        play(&(struct world_options){.way = WORLD_SNAPSHOTS, .seed = seed});
    }
}

static void T27_random_calls_on_a_disk_that_stops_agree_with_the_model(void **state)
{
    (void)state;
    static const enum memory_disk_fault faults[] = {MEMORY_DISK_STOP, MEMORY_DISK_FAIL_SYNC, MEMORY_DISK_FAIL_WRITE};
    for (uint64_t seed = 1; seed <= seed_count() * 4; seed++)
        play(&(struct world_options){
            .way = WORLD_STOPS, .seed = seed, .stop_at = seed * 37 % 250, .fault = faults[seed % 3]});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(T27_random_calls_agree_with_the_model),
        cmocka_unit_test(T27_random_calls_with_kills_agree_with_the_model),
        cmocka_unit_test(T27_random_calls_on_a_disk_that_stops_agree_with_the_model),
    };
    return cmocka_run_group_tests_name("batches against a model", tests, NULL, NULL);
}
