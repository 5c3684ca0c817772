/* Scenarios T51, T58a to T58f, T60, T66 and T68: messages that wait for other messages and for batches. */
#include "scenario.h"

#include "random.h"

#define BATCH_MAX 10u

/* --- a small vocabulary ------------------------------------------------------------------------------------------- */

/* Ids stay known for longer than a scenario lasts, whatever is interrupted. */
static void make_queue(struct world *world, const char *name)
{
    world_create_queue(world, name, "'Tally.DeduplicationWindow':'604800'");
}

static void make_line(struct world *world, const char *name)
{
    world_create_queue(world, name, "'FifoQueue':'true','Tally.DeduplicationWindow':'604800'");
}

static const char *id_of(struct answer answer)
{
    return answer_text(answer, "MessageId");
}

/* Sends; the body is the deduplication id, so that a repeat does no harm. `after` is Tally.After, `more` the rest of
 * the attributes and of the call. */
static struct answer put(struct world *world, const char *queue, const char *body, const char *after,
                         const char *attributes, const char *more)
{
    char waits[900] = "";
    if (after[0] != '\0')
        snprintf(waits, sizeof(waits), "'Tally.After':{'DataType':'String','StringValue':'%s'}%s", after,
                 attributes[0] == '\0' ? "" : ",");
    return world_call(world, "SendMessage",
                      "{'QueueUrl':'%s','MessageBody':'%s','MessageDeduplicationId':'%s','MessageAttributes':{%s%s}%s}",
                      queue, body, body, waits, attributes, more);
}

#define RUN "'Tally.AfterFailure':{'DataType':'String','StringValue':'run'}"
#define HOLD "'Tally.AfterFailure':{'DataType':'String','StringValue':'hold'}"
#define UNIT(batch) "'Tally.Batch':{'DataType':'String','StringValue':'" batch "'}"

/* The same, which must go well; copies the MessageId. */
static void put_id(struct world *world, const char *queue, const char *body, const char *after, const char *attributes,
                   const char *more, char id[WORLD_ID_SIZE])
{
    struct answer answer = put(world, queue, body, after, attributes, more);
    EXPECT(world, answer.error == NULL);
    if (id != NULL)
        snprintf(id, WORLD_ID_SIZE, "%s", id_of(answer));
}

/* Takes one message, which must have this body. */
static struct taken take_one(struct world *world, const char *queue, const char *body)
{
    struct taken taken;
    world_hold(world, queue, 3600, 1, &taken);
    EXPECT(world, strcmp(taken.body, body) == 0);
    return taken;
}

static void run_one(struct world *world, const char *queue, const char *body)
{
    struct taken taken = take_one(world, queue, body);
    world_delete(world, queue, taken.handle);
}

static bool gives_nothing(struct world *world, const char *queue)
{
    struct taken taken[BATCH_MAX];
    return world_take(world, queue, 1, BATCH_MAX, taken) == 0;
}

/* Ends the attempt for good; there is no dead-letter queue, so the message is dropped. A repeat finds it gone. */
static void fail_for_good(struct world *world, const char *queue, const struct taken *taken)
{
    struct answer answer = world_call(world, "Tally.FailMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s','Final':true}",
                                      queue, taken->handle);
    EXPECT(world, answer.error == NULL || answer.is_repeat);
}

static void create_batch(struct world *world, const char *id, const char *more)
{
    struct answer answer = world_call(world, "Tally.CreateBatch", "{'BatchId':'%s'%s}", id, more);
    EXPECT(world, answer.error == NULL);
}

static void seal(struct world *world, const char *id)
{
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", id).error == NULL);
}

/* Time for what falls due; it is told in portions. */
static void settle(struct world *world)
{
    world_pass_time(world, 10);
}

/* Is that the message's state, and the code of the first reason why? */
static bool is_explained(struct world *world, const char *queue, const char *id, const char *state, const char *code)
{
    struct answer answer = world_call(world, "Tally.ExplainMessage", "{'QueueUrl':'%s','MessageId':'%s'}", queue, id);
    const char *first =
        yyjson_get_str(yyjson_obj_get(yyjson_arr_get_first(yyjson_obj_get(answer.root, "Why")), "Code"));
    return strcmp(answer_text(answer, "State"), state) == 0 && first != NULL && strcmp(first, code) == 0;
}

/* --- T58a, T68 ---------------------------------------------------------------------------------------------------- */

static void T58a_a_dependent_declared_before_during_and_after_is_released_once(struct world *world)
{
    char a[WORLD_ID_SIZE], after[60];
    make_queue(world, "first");
    make_queue(world, "then");
    put_id(world, "first", "a", "", "", "", a);
    snprintf(after, sizeof(after), "message:%s", a);
    put_id(world, "then", "before", after, "", "", NULL);
    EXPECT(world, gives_nothing(world, "then"));
    struct taken taken = take_one(world, "first", "a");
    put_id(world, "then", "during", after, "", "", NULL);
    EXPECT(world, gives_nothing(world, "then"));
    world_delete(world, "first", taken.handle);
    put_id(world, "then", "after", after, "", "", NULL);
    settle(world);
    struct taken held[3];
    world_hold(world, "then", 60, 3, held);
    for (unsigned i = 0; i < 3; i++)
        world_delete(world, "then", held[i].handle);
    EXPECT(world, world_count_messages(world, "then") == 0);
}

static void T58a_what_is_not_known_is_refused(struct world *world)
{
    char a[WORLD_ID_SIZE], after[120];
    make_queue(world, "first");
    put_id(world, "first", "a", "", "", "", a);
    a[35] = a[35] == '0' ? '1' : '0';
    snprintf(after, sizeof(after), "message:%s", a);
    EXPECT(world, answer_fails(put(world, "first", "b", after, "", ""), "DependencyDoesNotExist"));
    EXPECT(world, answer_fails(put(world, "first", "b", "batch:none", "", ""), "DependencyDoesNotExist"));
    EXPECT(world, answer_fails(put(world, "first", "b", "dedup:first/none", "", ""), "DependencyDoesNotExist"));
    EXPECT(world, answer_fails(put(world, "first", "b", "dedup:none/a", "", ""), "DependencyDoesNotExist"));
    EXPECT(world, world_count_messages(world, "first") == 1);
    put_id(world, "first", "b", "dedup:first/a", "", "", NULL);
    run_one(world, "first", "a");
    settle(world);
    run_one(world, "first", "b");
}

static void T58a_a_purge_ends_what_waits_for_the_purged(struct world *world)
{
    make_queue(world, "first");
    make_queue(world, "then");
    create_batch(world, "work", "");
    put_id(world, "first", "a", "", "", "", NULL);
    put_id(world, "then", "b", "dedup:first/a", UNIT("work"), "", NULL);
    put_id(world, "then", "c", "dedup:then/b", RUN, "", NULL);
    seal(world, "work");
    EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'first'}").error == NULL);
    settle(world);
    struct answer batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'work'}");
    EXPECT(world, answer_number(batch, "Failed") == 1);
    EXPECT(world, strcmp(answer_text(batch, "Status"), "failed") == 0);
    run_one(world, "then", "c");
    EXPECT(world, world_count_messages(world, "then") == 0);
}

static void T68_a_declaration_and_an_end_in_one_frame_in_either_order(struct world *world)
{
    char ids[2][WORLD_ID_SIZE], after[2][100];
    struct taken held[2];
    make_queue(world, "first");
    make_queue(world, "then");
    for (unsigned i = 0; i < 2; i++) {
        char body[] = {(char)('a' + i), '\0'};
        put_id(world, "first", body, "", "", "", ids[i]);
        snprintf(after[i], sizeof(after[i]), "message:%s", ids[i]);
    }
    world_hold(world, "first", 300, 2, held);
    do {
        world_together_begin(world);
        put_id(world, "then", "declared", after[0], "", "", NULL);
        world_delete(world, "first", held[strcmp(held[0].id, ids[0]) == 0 ? 0 : 1].handle);
    } while (!world_together_end(world));
    do {
        world_together_begin(world);
        world_delete(world, "first", held[strcmp(held[0].id, ids[1]) == 0 ? 0 : 1].handle);
        put_id(world, "then", "ended", after[1], "", "", NULL);
    } while (!world_together_end(world));
    settle(world);
    struct taken freed[2];
    world_hold(world, "then", 60, 2, freed);
    for (unsigned i = 0; i < 2; i++)
        world_delete(world, "then", freed[i].handle);
    EXPECT(world, world_count_messages(world, "then") == 0);
}

/* --- T58b --------------------------------------------------------------------------------------------------------- */

static void T58b_a_failure_cancels_runs_or_holds(struct world *world)
{
    make_queue(world, "first");
    make_queue(world, "cancel");
    make_queue(world, "run");
    make_queue(world, "hold");
    create_batch(world, "work", "");
    put_id(world, "first", "a", "", "", "", NULL);
    put_id(world, "cancel", "c", "dedup:first/a", UNIT("work"), "", NULL);
    put_id(world, "run", "r", "dedup:first/a", RUN, "", NULL);
    char held[WORLD_ID_SIZE], cancelled[WORLD_ID_SIZE];
    put_id(world, "hold", "h", "dedup:first/a", HOLD, "", held);
    EXPECT(world, is_explained(world, "hold", held, "blocked", "Message"));
    put_id(world, "cancel", "behind", "dedup:cancel/c", "", "", NULL);
    seal(world, "work");
    struct taken taken = take_one(world, "first", "a");
    fail_for_good(world, "first", &taken);
    settle(world);
    EXPECT(world, world_count_messages(world, "cancel") == 0);
    struct answer batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'work'}");
    EXPECT(world, answer_number(batch, "Failed") == 1);
    EXPECT(world, strcmp(answer_text(batch, "State"), "completed") == 0);
    run_one(world, "run", "r");
    EXPECT(world, gives_nothing(world, "hold"));
    EXPECT(world, world_count_messages(world, "hold") == 1);
    EXPECT(world, is_explained(world, "hold", held, "held", "AntecedentFailed"));
    /* What comes when it has failed already is dealt with in the same way. */
    put_id(world, "cancel", "c2", "dedup:first/a", "", "", cancelled);
    EXPECT(world, is_explained(world, "cancel", cancelled, "ended", "Ended"));
    put_id(world, "run", "r2", "dedup:first/a", RUN, "", NULL);
    put_id(world, "hold", "h2", "dedup:first/a", HOLD, "", NULL);
    settle(world);
    EXPECT(world, world_count_messages(world, "cancel") == 0);
    run_one(world, "run", "r2");
    EXPECT(world, gives_nothing(world, "hold"));
    EXPECT(world, world_count_messages(world, "hold") == 2);
}

static void T58b_a_cancelled_batch_is_a_cancelled_antecedent(struct world *world)
{
    make_queue(world, "then");
    create_batch(world, "stage", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'stage','Count':3}").error == NULL);
    put_id(world, "then", "c", "batch:stage", "", "", NULL);
    put_id(world, "then", "r", "batch:stage", RUN, "", NULL);
    EXPECT(world, gives_nothing(world, "then"));
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'stage'}").error == NULL);
    settle(world);
    run_one(world, "then", "r");
    EXPECT(world, world_count_messages(world, "then") == 0);
}

/* --- T58c, T58d --------------------------------------------------------------------------------------------------- */

/* Two sends with one deduplication id: the second is told that it is a duplicate, so its list is not lost in
 * silence. */
static void T58c_antecedents_of_a_duplicate_are_not_lost_in_silence(struct world *world)
{
    make_queue(world, "first");
    make_queue(world, "then");
    put_id(world, "first", "a", "", "", "", NULL);
    put_id(world, "first", "b", "", "", "", NULL);
    char id[WORLD_ID_SIZE];
    put_id(world, "then", "d", "dedup:first/a,dedup:first/a", "", "", id);
    struct answer second = put(world, "then", "d", "dedup:first/b", "", "");
    EXPECT(world, second.error == NULL && strcmp(id_of(second), id) == 0);
    EXPECT(world, answer_is_true(second, "Duplicate"));
    struct taken held[2];
    world_hold(world, "first", 60, 2, held);
    world_delete(world, "first", held[strcmp(held[0].body, "a") == 0 ? 0 : 1].handle);
    settle(world);
    run_one(world, "then", "d");
}

static void T58d_a_diamond_runs_each_message_once_and_in_order(struct world *world)
{
    make_queue(world, "work");
    put_id(world, "work", "a", "", "", "", NULL);
    put_id(world, "work", "b", "dedup:work/a", "", "", NULL);
    put_id(world, "work", "c", "dedup:work/a", "", "", NULL);
    put_id(world, "work", "d", "dedup:work/b,dedup:work/c", "", "", NULL);
    put_id(world, "work", "e", "dedup:work/c,dedup:work/a", "", "", NULL);
    run_one(world, "work", "a");
    settle(world);
    struct taken held[2];
    world_hold(world, "work", 60, 2, held);
    bool is_b_first = strcmp(held[0].body, "b") == 0;
    EXPECT(world, strcmp(held[is_b_first ? 0 : 1].body, "b") == 0 && strcmp(held[is_b_first ? 1 : 0].body, "c") == 0);
    world_delete(world, "work", held[is_b_first ? 0 : 1].handle);
    settle(world);
    world_delete(world, "work", held[is_b_first ? 1 : 0].handle);
    settle(world);
    world_hold(world, "work", 60, 2, held);
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, strcmp(held[i].body, "d") == 0 || strcmp(held[i].body, "e") == 0);
        world_delete(world, "work", held[i].handle);
    }
    EXPECT(world, world_count_messages(world, "work") == 0);
}

/* --- T51, T60, T66 ------------------------------------------------------------------------------------------------ */

#define GROUP(group) ",'MessageGroupId':'" group "'"

static void T51_two_groups_that_would_wait_for_each_other_are_refused(struct world *world)
{
    make_line(world, "line.fifo");
    create_batch(world, "a", "");
    create_batch(world, "b", "");
    put_id(world, "line.fifo", "x", "batch:b", UNIT("a"), GROUP("x"), NULL);
    EXPECT(world, answer_fails(put(world, "line.fifo", "y", "batch:a", UNIT("b"), GROUP("y")), "DependencyCycle"));
    struct answer batch = world_call(world, "Tally.DescribeBatch", "{'BatchId':'b'}");
    EXPECT(world, answer_number(batch, "Total") == 0); /* nothing was registered */
    EXPECT(world, world_count_messages(world, "line.fifo") == 1);
    put_id(world, "line.fifo", "y", "", UNIT("b"), GROUP("y"), NULL);
    seal(world, "b");
    run_one(world, "line.fifo", "y");
    settle(world);
    run_one(world, "line.fifo", "x");
}

static void T60_a_cycle_through_a_batch_and_a_group_is_refused(struct world *world)
{
    make_line(world, "line.fifo");
    create_batch(world, "b", "");
    put_id(world, "line.fifo", "n", "batch:b", "", GROUP("g"), NULL);
    EXPECT(world, answer_fails(put(world, "line.fifo", "m", "", UNIT("b"), GROUP("g")), "DependencyCycle"));
    put_id(world, "line.fifo", "m", "", UNIT("b"), GROUP("h"), NULL);
    seal(world, "b");
    run_one(world, "line.fifo", "m");
    settle(world);
    run_one(world, "line.fifo", "n");
}

static void T60_a_cycle_through_a_childs_completion_message_is_refused(struct world *world)
{
    make_line(world, "line.fifo");
    create_batch(world, "parent", "");
    create_batch(world, "child", ",'Parent':'parent','OnComplete':{'QueueUrl':'line.fifo','MessageGroupId':'done'}");
    EXPECT(world, answer_fails(put(world, "line.fifo", "m", "batch:parent", "", GROUP("done")), "DependencyCycle"));
    put_id(world, "line.fifo", "m", "batch:parent", "", GROUP("other"), NULL);
    EXPECT(world, answer_fails(world_call(world, "Tally.CreateBatch",
                                          "{'BatchId':'second','Parent':'parent','OnComplete':{'QueueUrl':'line.fifo',"
                                          "'MessageGroupId':'other'}}"),
                               "DependencyCycle"));
    seal(world, "child");
    seal(world, "parent");
    struct taken completion;
    world_hold(world, "line.fifo", 60, 1, &completion);
    EXPECT(world, strcmp(completion.of_batch, "child") == 0);
    world_delete(world, "line.fifo", completion.handle);
    settle(world);
    run_one(world, "line.fifo", "m");
}

static void T66_a_message_that_waits_keeps_its_place_in_its_group(struct world *world)
{
    make_queue(world, "first");
    make_line(world, "line.fifo");
    put_id(world, "first", "a", "", "", "", NULL);
    put_id(world, "line.fifo", "1", "", "", GROUP("g"), NULL);
    put_id(world, "line.fifo", "2", "dedup:first/a", "", GROUP("g"), NULL);
    put_id(world, "line.fifo", "3", "", "", GROUP("g"), NULL);
    put_id(world, "line.fifo", "other", "", "", GROUP("h"), NULL);
    struct taken held[2];
    world_hold(world, "line.fifo", 3600, 2, held);
    unsigned one = strcmp(held[0].body, "1") == 0 ? 0 : 1;
    EXPECT(world, strcmp(held[one].body, "1") == 0 && strcmp(held[1 - one].body, "other") == 0);
    EXPECT(world, gives_nothing(world, "line.fifo"));
    world_delete(world, "line.fifo", held[one].handle);
    world_delete(world, "line.fifo", held[1 - one].handle);
    EXPECT(world, gives_nothing(world, "line.fifo"));
    run_one(world, "first", "a");
    settle(world);
    struct taken run[2];
    world_hold(world, "line.fifo", 3600, 2, run);
    EXPECT(world, strcmp(run[0].body, "2") == 0 && strcmp(run[1].body, "3") == 0);
    world_delete(world, "line.fifo", run[0].handle);
    world_delete(world, "line.fifo", run[1].handle);
    EXPECT(world, world_count_messages(world, "line.fifo") == 0);
}

/* --- T58e, T58f: many --------------------------------------------------------------------------------------------- */

#define MANY 10000u

static void send_many(struct world *world, const char *queue, unsigned count, const char *after, const char *attributes)
{
    for (unsigned i = 0; i < count; i += 100) {
        world_together_begin(world);
        for (unsigned j = i; j < i + 100; j++) {
            char body[16];
            snprintf(body, sizeof(body), "%s%u", queue, j);
            put_id(world, queue, body, after, attributes, "", NULL);
        }
        EXPECT(world, world_together_end(world));
        world_forget(world);
    }
}

/* Receives and deletes until nothing is deliverable; returns how many. */
static unsigned drain(struct world *world, const char *queue)
{
    struct taken taken[BATCH_MAX];
    unsigned total = 0, count;
    while ((count = world_take(world, queue, 600, BATCH_MAX, taken)) > 0) {
        world_together_begin(world);
        for (unsigned i = 0; i < count; i++)
            world_delete(world, queue, taken[i].handle);
        EXPECT(world, world_together_end(world));
        world_forget(world);
        total += count;
    }
    return total;
}

static void T58e_ten_thousand_to_one_and_one_to_ten_thousand(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = 1});
    world_create_queue(world, "in", "");
    world_create_queue(world, "middle", "");
    world_create_queue(world, "out", "");
    create_batch(world, "all", "");
    send_many(world, "in", MANY, "", UNIT("all"));
    put_id(world, "middle", "m", "batch:all", "", "", NULL);
    send_many(world, "out", MANY, "dedup:middle/m", "");
    seal(world, "all");
    assert_true(gives_nothing(world, "middle") && gives_nothing(world, "out"));
    assert_int_equal(drain(world, "in"), MANY);
    settle(world);
    run_one(world, "middle", "m");
    settle(world);
    assert_int_equal(drain(world, "out"), MANY);
    world_audit(world);
    world_destroy(world);
}

/* Chains of three over three queues; the workers are slow, give back, and take in any order. */
static void run_chains(uint64_t seed, unsigned chains)
{
    static const char *const queues[] = {"one", "two", "three"};
    struct random random = {.state = seed};
    struct world *world = world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = seed});
    for (unsigned i = 0; i < 3; i++)
        world_create_queue(world, queues[i], "");
    for (unsigned at = 0; at < chains; at += 50) {
        world_together_begin(world);
        for (unsigned i = at; i < at + 50; i++) {
            char body[16], after[40] = "";
            for (unsigned link = 0; link < 3; link++) {
                snprintf(body, sizeof(body), "%u", i);
                put_id(world, queues[link], body, after, "", "", NULL);
                snprintf(after, sizeof(after), "dedup:%s/%u", queues[link], i);
            }
        }
        assert_true(world_together_end(world));
        world_forget(world);
    }
    unsigned done = 0;
    for (unsigned idle = 0; idle < 100 && done < 3 * chains; idle++) {
        const char *queue = queues[random_below(&random, 3)];
        struct taken taken[BATCH_MAX];
        unsigned count = world_take(world, queue, 60, BATCH_MAX, taken);
        world_together_begin(world);
        for (unsigned i = 0; i < count; i++) {
            idle = 0;
            if (random_below(&random, 8) == 0) {
                (void)world_call(world, "ChangeMessageVisibility",
                                 "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':0}", queue,
                                 taken[i].handle);
                continue;
            }
            world_delete(world, queue, taken[i].handle);
            done++;
        }
        assert_true(world_together_end(world));
        world_forget(world);
        if (count == 0)
            settle(world);
    }
    assert_int_equal(done, 3 * chains);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(world_count_messages(world, queues[i]), 0);
    world_audit(world);
    world_destroy(world);
}

static void T58f_of_a_thousand_chains_none_is_stuck_thirty_times(void **state)
{
    (void)state;
    uint64_t rounds = scaled(30);
    for (uint64_t seed = 1; seed <= rounds; seed++)
        run_chains(seed, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T58a_a_dependent_declared_before_during_and_after_is_released_once),
        SCENARIO(T58a_what_is_not_known_is_refused),
        SCENARIO(T58a_a_purge_ends_what_waits_for_the_purged),
        SCENARIO(T68_a_declaration_and_an_end_in_one_frame_in_either_order),
        SCENARIO(T58b_a_failure_cancels_runs_or_holds),
        SCENARIO(T58b_a_cancelled_batch_is_a_cancelled_antecedent),
        SCENARIO(T58c_antecedents_of_a_duplicate_are_not_lost_in_silence),
        SCENARIO(T58d_a_diamond_runs_each_message_once_and_in_order),
        SCENARIO(T51_two_groups_that_would_wait_for_each_other_are_refused),
        SCENARIO(T60_a_cycle_through_a_batch_and_a_group_is_refused),
        SCENARIO(T60_a_cycle_through_a_childs_completion_message_is_refused),
        SCENARIO(T66_a_message_that_waits_keeps_its_place_in_its_group),
        cmocka_unit_test(T58e_ten_thousand_to_one_and_one_to_ten_thousand),
        cmocka_unit_test(T58f_of_a_thousand_chains_none_is_stuck_thirty_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
