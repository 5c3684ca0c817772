/* Scenarios T71 to T76: batches that grow from inside. A unit that has not ended lets others join, sealed or not, and
 * nothing else does.
 *
 * The queue "pages" knows a repeated send by its id for ever, so a Commit whose answer was lost may be asked for
 * again: with Holds it adds nothing twice, with Deletes it meets its own delete. */
#include "batches.h"

#include "core/batches/decide_batch.h"
#include "core/messages/decide_commit.h"
#include "core/messages/decide_receive.h"
#include "core/queues/decide_queue.h"
#include "support/core_rig.h"

#include <time.h>

#define TEXT_SIZE 900

static void make_pages(struct world *world)
{
    make_queues(world);
    world_create_queue(world, "pages", "'Tally.DeduplicationWindow':'-1','VisibilityTimeout':'30'");
}

/* A send into a batch, under an id, as an entry of Sends. */
static const char *page(const char *batch, const char *id, char text[TEXT_SIZE])
{
    snprintf(text, TEXT_SIZE,
             "{'QueueUrl':'pages','MessageBody':'%s','MessageDeduplicationId':'%s','MessageAttributes':{"
             "'Tally.Batch':{'DataType':'String','StringValue':'%s'}}}",
             id, id, batch);
    return text;
}

static void send_page(struct world *world, const char *batch, const char *id)
{
    char text[TEXT_SIZE];
    char request[TEXT_SIZE + 2];
    snprintf(request, sizeof(request), "%s", page(batch, id, text));
    EXPECT(world, world_call(world, "SendMessage", "%s", request).error == NULL);
}

/* Lets a page join with a live lease as proof, which stays. */
static struct answer grow_held(struct world *world, const char *handle, const char *batch, const char *id)
{
    char text[TEXT_SIZE];
    return world_call(world, "Tally.Commit", "{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'Sends':[%s]}",
                      handle, page(batch, id, text));
}

/* Ends a page and lets two join in the same record. True if it happened, now or before its answer was lost. */
static bool grow_and_end(struct world *world, const char *handle, const char *batch, const char *one, const char *other)
{
    char first[TEXT_SIZE], second[TEXT_SIZE];
    struct answer answer =
        world_call(world, "Tally.Commit", "{'Deletes':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'Sends':[%s,%s]}",
                   handle, page(batch, one, first), page(batch, other, second));
    return answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid"));
}

/* Takes and ends what there is, until the queue is empty. Returns how many. */
static unsigned work_off(struct world *world, const char *queue)
{
    unsigned ended = 0;
    while (world_count_messages(world, queue) > 0) {
        struct taken taken[10];
        unsigned count = world_take(world, queue, 30, 10, taken);
        for (unsigned i = 0; i < count; i++)
            world_delete(world, queue, taken[i].handle);
        ended += count;
        if (count == 0)
            world_pass_time(world, 30000);
    }
    return ended;
}

/* --- T71: growth races completion --------------------------------------------------------------------------------- */

static void T71_the_last_unit_lets_others_join_and_the_batch_goes_on(struct world *world)
{
    struct taken held;
    make_pages(world);
    make_batch(world, "b", "");
    send_page(world, "b", "seed");
    seal(world, "b");
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, answer_fails(world_send(world, "jobs", "b", "late"), "BatchSealed"));
    EXPECT(world, grow_and_end(world, held.handle, "b", "one", "two"));
    expect_counts(world, "b", 1, 0, 0, 2);
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "sealed") == 0);
    EXPECT(world, world_count_messages(world, "done") == 0);
    work_off(world, "pages");
    expect_counts(world, "b", 3, 0, 0, 0);
    expect_status(world, "b", "succeeded");
    expect_completion(world, "b", true);
}

static void T71_the_two_last_units_of_which_one_grows_and_one_ends(struct world *world)
{
    struct taken held[2];
    make_pages(world);
    make_batch(world, "b", ",'Total':2");
    send_page(world, "b", "1");
    send_page(world, "b", "2");
    world_hold(world, "pages", 300, 2, held);
    world_delete(world, "pages", held[0].handle);
    EXPECT(world, grow_held(world, held[1].handle, "b", "3").error == NULL);
    world_delete(world, "pages", held[1].handle);
    expect_counts(world, "b", 2, 0, 0, 1);
    /* It has ended now, so it lets nobody join any more. */
    EXPECT(world, answer_fails(grow_held(world, held[1].handle, "b", "4"), "ReceiptHandleIsInvalid"));
    work_off(world, "pages");
    expect_counts(world, "b", 3, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T71_a_reported_unit_lets_keys_join_before_it_ends(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['a']}").error == NULL);
    seal(world, "b");
    EXPECT(world, answer_fails(world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x']}"), "BatchSealed"));
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'Units':[{'BatchId':'b','Unit':'a'}],'AddUnits':[{'BatchId':'b','Units':"
                                      "['x','y','x','a']}]}");
    if (answer.error == NULL) {
        yyjson_val *added = yyjson_arr_get_first(yyjson_obj_get(answer.root, "AddUnits"));
        EXPECT(world, yyjson_get_uint(yyjson_obj_get(added, "Added")) == 2);
        EXPECT(world, yyjson_get_uint(yyjson_obj_get(added, "Total")) == 3);
    } else {
        EXPECT(world, answer.is_repeat && answer_fails(answer, "BatchSealed")); /* its unit has ended */
    }
    expect_counts(world, "b", 1, 0, 0, 2);
    answer = world_call(world, "Tally.Commit",
                        "{'Units':[{'BatchId':'b','Unit':'a'}],'AddUnits':[{'BatchId':'b','Units':['z']}]}");
    EXPECT(world, answer_fails(answer, "BatchSealed"));
    EXPECT(world, complete_unit(world, "b", "x", "succeeded").error == NULL);
    EXPECT(world, world_count_messages(world, "done") == 0);
    EXPECT(world, complete_unit(world, "b", "y", "succeeded").error == NULL);
    expect_counts(world, "b", 3, 0, 0, 0);
    expect_completion(world, "b", true);
}

static void T71_a_total_counts_those_from_outside(struct world *world)
{
    struct taken held;
    make_pages(world);
    make_batch(world, "b", ",'Total':3");
    send_page(world, "b", "1");
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, grow_held(world, held.handle, "b", "1/a").error == NULL);
    EXPECT(world, grow_held(world, held.handle, "b", "1/b").error == NULL);
    EXPECT(world, grow_held(world, held.handle, "b", "1/b").error == NULL); /* a duplicate is no unit */
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "open") == 0);
    /* Whoever made the batch has room for the two that are left of its three. */
    send_page(world, "b", "2");
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "open") == 0);
    send_page(world, "b", "3");
    EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "sealed") == 0);
    EXPECT(world, answer_fails(world_send(world, "jobs", "b", "late"), "BatchSealed"));
    EXPECT(world, grow_held(world, held.handle, "b", "1/c").error == NULL);
    expect_counts(world, "b", 0, 0, 0, 6);
    /* The same batch, asked for again, is still the one that was made. */
    make_batch(world, "b", ",'Total':3");
    world_delete(world, "pages", held.handle);
    work_off(world, "pages");
    expect_counts(world, "b", 6, 0, 0, 0);
    expect_completion(world, "b", true);
}

/* --- T72: growth races a cancel ----------------------------------------------------------------------------------- */

static void T72_a_unit_of_a_cancelled_batch_lets_nobody_join(struct world *world)
{
    struct taken held;
    make_pages(world);
    make_batch(world, "b", "");
    send_page(world, "b", "seed");
    seal(world, "b");
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, grow_held(world, held.handle, "b", "before").error == NULL);
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}").error == NULL);
    struct answer answer = grow_held(world, held.handle, "b", "after");
    EXPECT(world, answer_fails(answer, "ReceiptHandleIsInvalid"));
    expect_counts(world, "b", 0, 0, 2, 0);
    expect_status(world, "b", "cancelled");
    world_pass_time(world, 60000);
    EXPECT(world, world_count_messages(world, "pages") == 0);
    expect_completion(world, "b", false);
}

static void T72_an_external_unit_of_a_cancelled_batch_adds_nothing(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['a']}").error == NULL);
    seal(world, "b");
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}").error == NULL);
    struct answer answer = world_call(
        world, "Tally.Commit", "{'Units':[{'BatchId':'b','Unit':'a'}],'AddUnits':[{'BatchId':'b','Units':['x']}]}");
    EXPECT(world, answer_fails(answer, "BatchSealed"));
    expect_counts(world, "b", 0, 0, 1, 0);
    expect_completion(world, "b", false);
}

/* --- T73: growth races the deadline ------------------------------------------------------------------------------- */

static void T73_a_unit_of_an_expired_batch_lets_nobody_join(struct world *world)
{
    struct taken held;
    make_pages(world);
    make_batch(world, "b", ",'ExpiresAfterSeconds':1000");
    send_page(world, "b", "seed");
    seal(world, "b");
    world_hold(world, "pages", 30, 1, &held);
    EXPECT(world, grow_held(world, held.handle, "b", "before").error == NULL);
    world_pass_time(world, 1001000); /* growth does not move the deadline */
    expect_status(world, "b", "expired");
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, answer_fails(grow_held(world, held.handle, "b", "after"), "BatchSealed"));
    EXPECT(world, world_count_messages(world, "pages") == 2);
    expect_completion(world, "b", false);
    work_off(world, "pages");
}

/* --- T74: who may not --------------------------------------------------------------------------------------------- */

static void T74_a_stale_holder_lets_nobody_join(struct world *world)
{
    struct taken stale, held;
    make_pages(world);
    make_batch(world, "b", "");
    send_page(world, "b", "seed");
    seal(world, "b");
    world_hold(world, "pages", 5, 1, &stale);
    world_pass_time(world, 36000);         /* the server may have died: at most 30 s more */
    if (world->options.way == WORLD_PLAIN) /* if it dies now, the lease goes on for a while */
        EXPECT(world, answer_fails(grow_held(world, stale.handle, "b", "x"), "ReceiptHandleIsInvalid"));
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, answer_fails(grow_held(world, stale.handle, "b", "y"), "ReceiptHandleIsInvalid"));
    EXPECT(world, grow_held(world, held.handle, "b", "z").error == NULL);
    expect_counts(world, "b", 0, 0, 0, 2);
    world_delete(world, "pages", held.handle);
    EXPECT(world, work_off(world, "pages") > 0);
    expect_completion(world, "b", true);
}

static void T74_a_unit_lets_none_join_another_batch(struct world *world)
{
    struct taken held, letter;
    char text[TEXT_SIZE];
    make_pages(world);
    make_batch(world, "b", "");
    make_batch(world, "other", ",'Total':1");
    send_page(world, "b", "seed");
    send_units_to(world, "frail", "other", 1);
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, answer_fails(grow_held(world, held.handle, "other", "x"), "BatchSealed"));
    struct answer answer = world_call(world, "Tally.Commit", "{'Sends':[%s]}", page("other", "y", text));
    EXPECT(world, answer_fails(answer, "BatchSealed"));
    /* A dead letter is a unit that has failed. */
    fail_all(world);
    expect_status(world, "other", "failed");
    world_hold(world, "dead", 300, 1, &letter);
    answer = world_call(world, "Tally.Commit", "{'Holds':[{'QueueUrl':'dead','ReceiptHandle':'%s'}],'Sends':[%s]}",
                        letter.handle, page("other", "z", text));
    EXPECT(world, answer_fails(answer, "BatchSealed"));
    expect_counts(world, "other", 0, 1, 0, 0);
    expect_counts(world, "b", 0, 0, 0, 1);
}

static void T74_what_is_wrong_with_a_growing_commit_is_said(struct world *world)
{
    struct taken held;
    make_pages(world);
    make_batch(world, "b", "");
    send_page(world, "b", "seed");
    seal(world, "b");
    world_hold(world, "pages", 300, 1, &held);
    static const struct {
        const char *request;
        const char *error;
    } rows[] = {
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}]}", "EmptyBatchRequest"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%1$s'},{'QueueUrl':'pages','ReceiptHandle':'%1$s'}],"
         "'AddUnits':[{'BatchId':'b','Count':1}]}",
         "InvalidParameterValueException"},
        {"{'Deletes':[{'QueueUrl':'pages','ReceiptHandle':'%1$s'}],'Holds':[{'QueueUrl':'pages','ReceiptHandle':"
         "'%1$s'}]}",
         "InvalidParameterValueException"},
        {"{'Holds':[{'QueueUrl':'jobs','ReceiptHandle':'%s'}],'AddUnits':[{'BatchId':'b','Count':1}]}",
         "ReceiptHandleIsInvalid"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'AddUnits':[{'BatchId':'b','Count':1},{'BatchId':'b',"
         "'Units':['x']}]}",
         "InvalidParameterValueException"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'AddUnits':[{'BatchId':'none','Count':1}]}",
         "BatchDoesNotExist"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'AddUnits':[{'BatchId':'b'}]}",
         "MissingRequiredParameterException"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'CreateBatches':[{'Parent':'b'}]}",
         "MissingRequiredParameterException"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'CreateBatches':[{'BatchId':'c','Parent':'b'},"
         "{'BatchId':'c','Parent':'b'}]}",
         "InvalidParameterValueException"},
        {"{'Holds':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'CreateBatches':[{'BatchId':'c','Parent':'d'},"
         "{'BatchId':'d','Parent':'b'}]}",
         "BatchDoesNotExist"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        char request[TEXT_SIZE], *out = request;
        for (const char *at = rows[i].request; *at != '\0'; at++) {
            if (*at == '%') {
                out += snprintf(out, WORLD_HANDLE_SIZE, "%s", held.handle);
                at = strchr(at, 's');
            } else {
                *out++ = *at;
            }
        }
        *out = '\0';
        struct answer answer = world_call(world, "Tally.Commit", "%s", request);
        if (!answer_fails(answer, rows[i].error))
            print_error("row %zu: %s\n", i, answer.error == NULL ? "no error" : answer.error);
        EXPECT(world, answer_fails(answer, rows[i].error));
    }
    expect_counts(world, "b", 0, 0, 0, 1);
}

static void T74_a_batch_of_the_same_commit_takes_no_more_units_than_any_other(struct world *world)
{
    char text[TEXT_SIZE];
    make_pages(world);
    struct answer answer = world_call(world, "Tally.Commit",
                                      "{'CreateBatches':[{'BatchId':'b'}],'AddUnits':[{'BatchId':'b','Count':%u}],"
                                      "'Sends':[%s]}",
                                      LEDGER_UNITS_MAX, page("b", "1", text));
    EXPECT(world, answer_fails(answer, "OverLimit"));
    EXPECT(world, answer_fails(world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}"), "BatchDoesNotExist"));
    EXPECT(world, world_count_messages(world, "pages") == 0);
}

/* --- T75: trees --------------------------------------------------------------------------------------------------- */

static void T75_a_unit_makes_a_child_batch_and_fills_it(struct world *world)
{
    struct taken held, told;
    char first[TEXT_SIZE], second[TEXT_SIZE];
    make_pages(world);
    make_batch(world, "b", ",'Total':1");
    send_page(world, "b", "seed");
    world_hold(world, "pages", 300, 1, &held);
    EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch", "{'BatchId':'c','Parent':'b'}"), "BatchSealed"));
    struct answer answer = world_call(
        world, "Tally.Commit",
        "{'Deletes':[{'QueueUrl':'pages','ReceiptHandle':'%s'}],'CreateBatches':[{'BatchId':'c','Parent':'b','Total':3,"
        "'OnComplete':{'QueueUrl':'jobs'}}],'AddUnits':[{'BatchId':'c','Units':['x']}],'Sends':[%s,%s]}",
        held.handle, page("c", "c/1", first), page("c", "c/2", second));
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid")));
    EXPECT(world, strcmp(answer_text(describe(world, "c"), "State"), "sealed") == 0);
    expect_counts(world, "c", 0, 0, 0, 3);
    expect_counts(world, "b", 1, 0, 0, 1);
    EXPECT(world, complete_unit(world, "c", "x", "succeeded").error == NULL);
    work_off(world, "pages");
    /* Whoever holds the child's completion message holds the unit that the child is. */
    world_hold(world, "jobs", 300, 1, &told);
    EXPECT(world, strcmp(told.of_batch, "c") == 0);
    answer = world_call(world, "Tally.Commit", "{'Deletes':[{'QueueUrl':'jobs','ReceiptHandle':'%s'}],'Sends':[%s]}",
                        told.handle, page("b", "last", first));
    EXPECT(world, answer.error == NULL || (answer.is_repeat && answer_fails(answer, "ReceiptHandleIsInvalid")));
    expect_counts(world, "b", 2, 0, 0, 1);
    work_off(world, "pages");
    expect_status(world, "b", "succeeded");
    expect_completion(world, "b", true);
}

#define TREE_UNITS 100000u
#define TREE_FAN 10u

/* Deletes what it received, and lets up to TREE_FAN others join in the same commit. Returns how many. */
static uint32_t grow_tree(struct core *core, struct queue *queue, const struct received_message *message, uint32_t left)
{
    struct commit_send sends[TREE_FAN] = {{.command = {.queue = NULL}}};
    char handle[HANDLE_TEXT_SIZE];
    handle_to_text(core_digest(core), &message->handle, handle);
    struct commit_message deleted = {.queue = queue, .handle = bytes_make(handle, sizeof(handle))};
    struct commit_command commit = {.deletes = &deleted, .delete_count = 1, .sends = sends, .size_max = 1u << 19};
    for (; commit.send_count < TREE_FAN && commit.send_count < left; commit.send_count++)
        sends[commit.send_count].command =
            (struct send_command){.queue = queue,
                                  .content = {.body = BYTES("page"), .sender = core_name(core)},
                                  .priority = PRIORITY_DEFAULT,
                                  .batch_id = BYTES("tree")};
    struct commit_fault fault;
    assert_int_equal(decide_commit(core, &commit, &fault), OK);
    return commit.send_count;
}

/* Seconds of the processor for each unit of a tree of so many that grows from one. */
static double measure_tree(uint32_t total)
{
    struct core_rig rig;
    core_rig_init(&rig, 1);
    struct queue_settings settings = core_rig_settings();
    struct core *core = core_rig_begin(&rig);
    struct queue *queue = decide_create_queue(core, BYTES("q"), &settings);
    const struct batch *batch;
    struct create_batch_command create = {
        .id = BYTES("tree"), .spec = {.has_total = true, .total = 1, .expires_after_s = 86400, .retention_s = 86400}};
    assert_int_equal(decide_create_batch(core, &create, &batch), OK);
    struct send_command seed = {.queue = queue,
                                .content = {.body = BYTES("page"), .sender = core_name(core)},
                                .priority = PRIORITY_DEFAULT,
                                .batch_id = BYTES("tree")};
    struct send_result sent;
    assert_int_equal(decide_send(core, &seed, &sent), OK);
    core_rig_end(&rig);
    clock_t start = clock();
    uint32_t units = 1;
    for (unsigned count = 1; count > 0;) {
        struct received_message messages[RECEIVE_MAX];
        assert_true(batch->state != BATCH_COMPLETED);
        core = core_rig_begin(&rig);
        assert_int_equal(decide_receive(core, queue, RECEIVE_MAX, 60000, 120000, messages, &count), OK);
        for (unsigned i = 0; i < count; i++)
            units += grow_tree(core, queue, &messages[i], total - units);
        core_rig_end(&rig);
        if (batch->state == BATCH_COMPLETED)
            break;
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(units, total);
    assert_int_equal(batch->state, BATCH_COMPLETED);
    assert_int_equal(batch->status, BATCH_SUCCEEDED);
    assert_int_equal(batch->grown, total - 1);
    assert_int_equal(batch_counts(batch).succeeded, total);
    core_check(rig.core);
    core_rig_deinit(&rig);
    return seconds / total;
}

static void T75_a_tree_of_100000_units_grows_from_one(void **state)
{
    (void)state;
    double small = measure_tree(1000);
    double large = measure_tree(TREE_UNITS);
    print_message("a unit: %.1f us of 1,000, %.1f us of %u\n", small * 1e6, large * 1e6, TREE_UNITS);
}

/* --- T76: killed at every step ------------------------------------------------------------------------------------ */

/* A worker's whole life: it lets some join while it holds its unit, and the rest as it ends. SCENARIO stops the disk
 * at each operation. */
static void T76_a_tree_grows_while_the_server_dies_at_each_step(struct world *world)
{
    make_pages(world);
    make_batch(world, "b", ",'Total':1");
    send_page(world, "b", "r");
    unsigned most = 0;
    while (world_count_messages(world, "pages") > 0) {
        struct taken taken;
        char ids[3][64];
        if (world_take(world, "pages", 20, 1, &taken) == 0) {
            world_pass_time(world, 1000);
            continue;
        }
        EXPECT(world, strcmp(answer_text(describe(world, "b"), "State"), "sealed") == 0);
        EXPECT(world, world_count_messages(world, "done") == 0);
        for (unsigned i = 0; i < 3; i++)
            snprintf(ids[i], sizeof(ids[i]), "%.40s.%u", taken.body, i);
        if (strlen(taken.body) >= 5) {
            world_call(world, "DeleteMessage", "{'QueueUrl':'pages','ReceiptHandle':'%s'}", taken.handle);
            continue;
        }
        /* Either may be refused because the lease is over by then: the page comes again, and adds the same again. */
        struct answer answer = grow_held(world, taken.handle, "b", ids[0]);
        if (answer.error == NULL)
            (void)grow_and_end(world, taken.handle, "b", ids[1], ids[2]);
        else
            EXPECT(world, answer_fails(answer, "ReceiptHandleIsInvalid"));
        EXPECT(world, ++most < 400);
    }
    expect_counts(world, "b", 1 + 3 + 9, 0, 0, 0);
    expect_status(world, "b", "succeeded");
    expect_completion(world, "b", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T71_the_last_unit_lets_others_join_and_the_batch_goes_on),
        SCENARIO(T71_the_two_last_units_of_which_one_grows_and_one_ends),
        SCENARIO(T71_a_reported_unit_lets_keys_join_before_it_ends),
        SCENARIO(T71_a_total_counts_those_from_outside),
        SCENARIO(T72_a_unit_of_a_cancelled_batch_lets_nobody_join),
        SCENARIO(T72_an_external_unit_of_a_cancelled_batch_adds_nothing),
        SCENARIO(T73_a_unit_of_an_expired_batch_lets_nobody_join),
        SCENARIO(T74_a_stale_holder_lets_nobody_join),
        SCENARIO(T74_a_unit_lets_none_join_another_batch),
        SCENARIO(T74_what_is_wrong_with_a_growing_commit_is_said),
        SCENARIO(T74_a_batch_of_the_same_commit_takes_no_more_units_than_any_other),
        SCENARIO(T75_a_unit_makes_a_child_batch_and_fills_it),
        cmocka_unit_test(T75_a_tree_of_100000_units_grows_from_one),
        SCENARIO(T76_a_tree_grows_while_the_server_dies_at_each_step),
    };
    return cmocka_run_group_tests_name("scenarios of growth", tests, NULL, NULL);
}
