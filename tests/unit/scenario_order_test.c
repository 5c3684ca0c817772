/* Scenarios T28 to T41, and what T19, T38, T43 to T45 and T67 say of groups: order per group across retries,
 * give-backs, timeouts, holds and crashes. */
#include "scenario.h"

#include "random.h"

#define BATCH_MAX 10u

static void make_queue(struct world *world, const char *name, const char *attributes)
{
    char all[600];
    snprintf(all, sizeof(all), "'FifoQueue':'true'%s%s", attributes[0] == '\0' ? "" : ",", attributes);
    world_create_queue(world, name, all);
}

#define REDRIVE(max)                                                                                                   \
    "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead.fifo\\',"                  \
    "\\'maxReceiveCount\\':" #max "}'"

/* Sends to a group; the body is the deduplication id, so that a repeat does no harm. */
static void put(struct world *world, const char *queue, const char *group, const char *body, const char *more)
{
    struct answer answer =
        world_call(world, "SendMessage",
                   "{'QueueUrl':'%s','MessageBody':'%s','MessageGroupId':'%s','MessageDeduplicationId':'%s'%s}", queue,
                   body, group, body, more);
    EXPECT(world, answer.error == NULL);
}

static const char *text_of(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

/* Receives under an attempt id, so that a repeat gives the same messages. Returns their bodies, in order, in
 * `bodies`. */
static unsigned take(struct world *world, const char *queue, unsigned timeout_s, unsigned max, struct taken *taken,
                     char bodies[200])
{
    static unsigned attempt;
    struct answer answer = world_call(world, "ReceiveMessage",
                                      "{'QueueUrl':'%s','MaxNumberOfMessages':%u,'VisibilityTimeout':%u,"
                                      "'ReceiveRequestAttemptId':'t%u','MessageSystemAttributeNames':['All']}",
                                      queue, max, timeout_s, ++attempt);
    EXPECT(world, answer.error == NULL);
    yyjson_val *messages = yyjson_obj_get(answer.root, "Messages");
    unsigned count = (unsigned)yyjson_arr_size(messages);
    size_t size = 0;
    bodies[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        yyjson_val *message = yyjson_arr_get(messages, i);
        yyjson_val *system = yyjson_obj_get(message, "Attributes");
        const char *body = text_of(message, "Body");
        snprintf(taken[i].body, sizeof(taken[i].body), "%s", body);
        snprintf(taken[i].id, sizeof(taken[i].id), "%s", text_of(message, "MessageId"));
        snprintf(taken[i].handle, sizeof(taken[i].handle), "%s", text_of(message, "ReceiptHandle"));
        taken[i].receive_count = (unsigned)atoi(text_of(system, "ApproximateReceiveCount"));
        size += (size_t)snprintf(bodies + size, 200 - size, "%s%s", i == 0 ? "" : " ", body);
    }
    return count;
}

/* What a receive gives, as text: "a1 a2". */
static bool gives(struct world *world, const char *queue, unsigned timeout_s, unsigned max, struct taken *taken,
                  const char *expected)
{
    char bodies[200];
    take(world, queue, timeout_s, max, taken, bodies);
    /* A lease whose end nobody was told begins again when the server does. */
    for (unsigned i = 0; i < 4 && bodies[0] == '\0' && expected[0] != '\0' && world->options.way == WORLD_STOPS; i++) {
        world_pass_time(world, 31000);
        take(world, queue, timeout_s, max, taken, bodies);
    }
    if (strcmp(bodies, expected) != 0)
        print_error("received '%s', expected '%s'\n", bodies, expected);
    return strcmp(bodies, expected) == 0;
}

static bool gives_nothing(struct world *world, const char *queue)
{
    struct taken taken[BATCH_MAX];
    return gives(world, queue, 30, BATCH_MAX, taken, "");
}

static struct answer give_up(struct world *world, const char *queue, const struct taken *taken, const char *more)
{
    return world_call(world, "Tally.FailMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s'%s}", queue, taken->handle,
                      more);
}

static struct answer change(struct world *world, const char *queue, const struct taken *taken, unsigned timeout_s)
{
    return world_call(world, "ChangeMessageVisibility", "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':%u}",
                      queue, taken->handle, timeout_s);
}

static void end(struct world *world, const char *queue, const struct taken *taken)
{
    world_delete(world, queue, taken->handle);
}

/* The first group that ListGroups gives, or an answer without one. */
static yyjson_val *first_group(struct world *world, const char *queue, const char *state)
{
    struct answer answer = world_call(world, "Tally.ListGroups", "{'QueueUrl':'%s','State':'%s'}", queue, state);
    EXPECT(world, answer.error == NULL);
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, "Groups"));
}

static bool says(yyjson_val *object, const char *name, const char *text)
{
    return strcmp(text_of(object, name), text) == 0;
}

static void a_page_of_groups_ends_before_a_mebibyte(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    static const char *const states[] = {"", ",'State':'held'"};
    char reason[2001], group[16], bodies[200], token[100];
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.OnGroupFailure':'hold'");
    for (unsigned i = 0; i < 1000; i++)
        memcpy(reason + (size_t)2 * i, "\\\"", 2);
    reason[2000] = '\0';
    for (unsigned i = 0; i < 600; i++) {
        snprintf(group, sizeof(group), "g%u", i);
        put(world, "q.fifo", group, group, "");
        EXPECT(world, take(world, "q.fifo", 30, 1, taken, bodies) == 1);
        EXPECT(world, world_call(world, "Tally.FailMessage",
                                 "{'QueueUrl':'q.fifo','ReceiptHandle':'%s','Reason':'%s','Final':true}",
                                 taken[0].handle, reason)
                              .error == NULL);
        world_forget(world);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct answer first = world_call(world, "Tally.ListGroups", "{'QueueUrl':'q.fifo'%s}", states[i]);
        const size_t count = yyjson_arr_size(yyjson_obj_get(first.root, "Groups"));
        EXPECT(world, count > 400 && count < 600);
        snprintf(token, sizeof(token), "%s", answer_text(first, "NextToken"));
        struct answer rest =
            world_call(world, "Tally.ListGroups", "{'QueueUrl':'q.fifo','NextToken':'%s'%s}", token, states[i]);
        yyjson_val *groups = yyjson_obj_get(rest.root, "Groups");
        EXPECT(world, yyjson_arr_size(groups) == 600 - count && answer_text(rest, "NextToken")[0] == '\0');
        snprintf(group, sizeof(group), "g%zu", count);
        EXPECT(world, says(yyjson_arr_get_first(groups), "MessageGroupId", group));
    }
    world_destroy(world);
}

/* --- T28 to T32 --------------------------------------------------------------------------------------------------- */

static void T28_a_head_that_backs_off_blocks_its_group_and_no_other(struct world *world)
{
    struct taken a[BATCH_MAX], b[BATCH_MAX];
    make_queue(world, "jobs.fifo",
               "'Tally.StrictOrder':'true','Tally.Backoff':'{\\'min\\':100,\\'max\\':100,\\'jitter\\':0}'");
    put(world, "jobs.fifo", "a", "a1", "");
    put(world, "jobs.fifo", "a", "a2", "");
    EXPECT(world, gives(world, "jobs.fifo", 300, 1, a, "a1"));
    EXPECT(world, give_up(world, "jobs.fifo", a, ",'Reason':'not today'").error == NULL || world->kill_count > 0);
    put(world, "jobs.fifo", "b", "b1", "");
    EXPECT(world, gives(world, "jobs.fifo", 300, 10, b, "b1"));
    world_pass_time(world, 99000);
    EXPECT(world, gives_nothing(world, "jobs.fifo"));
    world_pass_time(world, 1000);
    EXPECT(world, gives(world, "jobs.fifo", 300, 10, a, "a1 a2"));
    EXPECT(world, a[0].receive_count == 2 && a[1].receive_count == 1);
    end(world, "jobs.fifo", &a[0]);
    end(world, "jobs.fifo", &a[1]);
    end(world, "jobs.fifo", &b[0]);
    EXPECT(world, world_count_messages(world, "jobs.fifo") == 0);
}

static void T29_a_blocked_group_in_front_hides_no_other(struct world *world)
{
    struct taken held[BATCH_MAX], taken[BATCH_MAX];
    make_queue(world, "jobs.fifo", "");
    put(world, "jobs.fifo", "a", "a1", "");
    EXPECT(world, gives(world, "jobs.fifo", 600, 1, held, "a1"));
    for (unsigned i = 0; i < 4; i++) {
        char body[8], group[8];
        snprintf(body, sizeof(body), "a%u", i + 2);
        put(world, "jobs.fifo", "a", body, "");
        snprintf(group, sizeof(group), "g%u", i);
        put(world, "jobs.fifo", group, group, "");
    }
    EXPECT(world, gives(world, "jobs.fifo", 600, 10, taken, "g0 g1 g2 g3"));
    EXPECT(world, gives_nothing(world, "jobs.fifo"));
}

#define PRIORITY(n) ",'MessageAttributes':{'Tally.Priority':{'DataType':'Number','StringValue':'" #n "'}}"

static void T30_priority_chooses_between_groups_and_never_inside_one(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "jobs.fifo", "");
    put(world, "jobs.fifo", "a", "a1", PRIORITY(1));
    put(world, "jobs.fifo", "a", "a2", PRIORITY(9));
    put(world, "jobs.fifo", "b", "b1", "");
    put(world, "jobs.fifo", "c", "c1", PRIORITY(8));
    EXPECT(world, gives(world, "jobs.fifo", 300, 1, taken, "c1"));
    EXPECT(world, gives(world, "jobs.fifo", 300, 1, taken, "b1"));
    EXPECT(world, gives(world, "jobs.fifo", 300, 1, taken, "a1"));
    EXPECT(world, gives_nothing(world, "jobs.fifo"));
    end(world, "jobs.fifo", &taken[0]);
    EXPECT(world, gives(world, "jobs.fifo", 300, 1, taken, "a2"));
}

/* Every sixteenth choice goes to what has waited longest: a flood of a high priority starves nobody. */
static void a_low_priority_does_not_starve(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 30});
    struct taken taken[BATCH_MAX];
    unsigned taken_before = 0;
    make_queue(world, "jobs.fifo", "");
    put(world, "jobs.fifo", "low", "low", PRIORITY(0));
    for (unsigned i = 0;; i++) {
        char body[16], bodies[200];
        snprintf(body, sizeof(body), "h%u", i);
        put(world, "jobs.fifo", body, body, PRIORITY(9));
        world_pass_time(world, 100);
        EXPECT(world, take(world, "jobs.fifo", 300, 1, taken, bodies) == 1);
        if (strcmp(bodies, "low") == 0)
            break;
        taken_before++;
        EXPECT(world, taken_before < 32);
    }
    world_destroy(world);
}

static void T31_the_sequence_number_orders_what_came_in_one_millisecond(struct world *world)
{
    struct taken taken[BATCH_MAX];
    char last[32] = "";
    make_queue(world, "jobs.fifo", "");
    struct answer answer =
        world_call(world, "SendMessageBatch",
                   "{'QueueUrl':'jobs.fifo','Entries':["
                   "{'Id':'1','MessageBody':'a1','MessageGroupId':'a','MessageDeduplicationId':'1'},"
                   "{'Id':'2','MessageBody':'a2','MessageGroupId':'a','MessageDeduplicationId':'2'},"
                   "{'Id':'3','MessageBody':'b1','MessageGroupId':'b','MessageDeduplicationId':'3'},"
                   "{'Id':'4','MessageBody':'a3','MessageGroupId':'a','MessageDeduplicationId':'4'},"
                   "{'Id':'5','MessageBody':'b2','MessageGroupId':'b','MessageDeduplicationId':'5'}]}");
    EXPECT(world, answer.error == NULL && !answer_has(answer, "Failed"));
    size_t index, count;
    yyjson_val *entry;
    yyjson_arr_foreach(yyjson_obj_get(answer.root, "Successful"), index, count, entry)
    {
        const char *sequence = yyjson_get_str(yyjson_obj_get(entry, "SequenceNumber"));
        EXPECT(world, sequence != NULL && strlen(sequence) == 20 && strcmp(last, sequence) < 0);
        snprintf(last, sizeof(last), "%s", sequence);
    }
    EXPECT(world, gives(world, "jobs.fifo", 300, 10, taken, "a1 a2 a3 b1 b2"));
}

/* --- T33 to T38 --------------------------------------------------------------------------------------------------- */

#define FLOW_GROUPS 5u
#define FLOW_LENGTH 12u
#define FLOW_WORKERS 6u

/* What the workers of T33 know. */
struct flow {
    struct random random;
    unsigned next[FLOW_GROUPS]; /* the number in each group that may end next */
    unsigned held_count[FLOW_WORKERS];
    struct taken held[FLOW_WORKERS][BATCH_MAX];
    unsigned ended;
};

static void flow_take(struct world *world, struct flow *flow, unsigned worker)
{
    char bodies[200];
    unsigned count = take(world, "flow.fifo", 20, 1 + random_below(&flow->random, 10), flow->held[worker], bodies);
    flow->held_count[worker] = count;
    unsigned expected[FLOW_GROUPS];
    memcpy(expected, flow->next, sizeof(expected));
    for (unsigned i = 0; i < count; i++) {
        unsigned group, number;
        EXPECT(world, sscanf(flow->held[worker][i].body, "g%u-%u", &group, &number) == 2);
        EXPECT(world, number == expected[group]); /* nothing overtakes, and nothing comes again (O1, O10) */
        expected[group]++;
    }
}

/* Ends the first of what the worker holds, if the lease has lasted. */
static void flow_end(struct world *world, struct flow *flow, unsigned worker)
{
    unsigned group, number;
    struct taken *first = &flow->held[worker][0];
    struct answer answer =
        world_call(world, "DeleteMessage", "{'QueueUrl':'flow.fifo','ReceiptHandle':'%s'}", first->handle);
    EXPECT(world, sscanf(first->body, "g%u-%u", &group, &number) == 2);
    if (answer.error == NULL && number == flow->next[group]) {
        flow->next[group]++;
        flow->ended++;
    }
    flow->held_count[worker]--;
    memmove(first, first + 1, flow->held_count[worker] * sizeof(*first));
}

static void T33_workers_join_and_leave_and_nothing_overtakes(struct world *world)
{
    struct flow flow = {.random = {.state = world->options.seed}};
    make_queue(world, "flow.fifo", "'Tally.StrictOrder':'true'");
    for (unsigned i = 0; i < FLOW_LENGTH; i++) {
        for (unsigned group = 0; group < FLOW_GROUPS; group++) {
            char name[8], body[16];
            snprintf(name, sizeof(name), "g%u", group);
            snprintf(body, sizeof(body), "g%u-%u", group, i);
            put(world, "flow.fifo", name, body, "");
        }
    }
    unsigned rounds = world->options.way == WORLD_PLAIN ? 4000 : 300;
    for (unsigned i = 0; i < rounds && flow.ended < FLOW_GROUPS * FLOW_LENGTH; i++) {
        unsigned worker = random_below(&flow.random, FLOW_WORKERS);
        unsigned what = random_below(&flow.random, 12);
        if (flow.held_count[worker] == 0)
            flow_take(world, &flow, worker);
        else if (what == 0)
            flow.held_count[worker] = 0; /* it leaves, and says nothing */
        else if (what == 1)
            EXPECT(world, change(world, "flow.fifo", &flow.held[worker][0], 0).status != 500);
        else
            flow_end(world, &flow, worker);
        if (random_below(&flow.random, 6) == 0)
            world_pass_time(world, random_below(&flow.random, 15000));
        world_forget(world);
    }
    EXPECT(world, world->options.way != WORLD_PLAIN || flow.ended == FLOW_GROUPS * FLOW_LENGTH);
}

static void T34_what_is_given_back_comes_first_and_the_rest_loses_no_attempt(struct world *world)
{
    struct taken first[BATCH_MAX], again[BATCH_MAX];
    make_queue(world, "dead.fifo", "");
    make_queue(world, "jobs.fifo", "'Tally.StrictOrder':'true'," REDRIVE(2));
    for (unsigned i = 1; i <= 3; i++) {
        char body[8];
        snprintf(body, sizeof(body), "a%u", i);
        put(world, "jobs.fifo", "a", body, "");
    }
    EXPECT(world, gives(world, "jobs.fifo", 300, 10, first, "a1 a2 a3"));
    EXPECT(world, change(world, "jobs.fifo", &first[0], 0).error == NULL || world->restart_count > 0);
    /* The later ones were fenced: their handles end nothing any more. */
    struct answer stale =
        world_call(world, "DeleteMessage", "{'QueueUrl':'jobs.fifo','ReceiptHandle':'%s'}", first[1].handle);
    EXPECT(world, answer_fails(stale, "ReceiptHandleIsInvalid"));
    EXPECT(world, gives(world, "jobs.fifo", 300, 10, again, "a1 a2 a3"));
    EXPECT(world, again[1].receive_count == 2);
    EXPECT(world, change(world, "jobs.fifo", &again[0], 0).error == NULL || world->restart_count > 0);
    /* a1 had its two attempts; a2 and a3 had none that counted. */
    EXPECT(world, gives(world, "jobs.fifo", 300, 10, again, "a2 a3"));
    EXPECT(world, gives(world, "dead.fifo", 300, 10, first, "a1"));
}

static void T35_nothing_overtakes_a_message_whose_lease_was_extended(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "plain.fifo", "");
    for (unsigned i = 1; i <= 3; i++) {
        char body[8];
        snprintf(body, sizeof(body), "a%u", i);
        put(world, "plain.fifo", "a", body, "");
        body[0] = 'b';
        put(world, "plain.fifo", "b", body, "");
    }
    EXPECT(world, gives(world, "plain.fifo", 60, 3, taken, "a1 a2 a3"));
    EXPECT(world, change(world, "plain.fifo", &taken[1], 600).error == NULL);
    EXPECT(world, gives(world, "plain.fifo", 60, 3, taken, "b1 b2 b3"));
    EXPECT(world, change(world, "plain.fifo", &taken[0], 600).error == NULL);
    world_pass_time(world, 61000 + 31000 * (world->options.way != WORLD_PLAIN));
    /* a1 came back, a2 is held; of b the head is held. */
    EXPECT(world, gives(world, "plain.fifo", 300, 10, taken, "a1"));
    EXPECT(world, gives_nothing(world, "plain.fifo"));
}

static void T35_a_strict_queue_takes_the_extended_one_back_with_its_run(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "strict.fifo", "'Tally.StrictOrder':'true'");
    put(world, "strict.fifo", "a", "a1", "");
    put(world, "strict.fifo", "a", "a2", "");
    put(world, "strict.fifo", "a", "a3", "");
    EXPECT(world, gives(world, "strict.fifo", 60, 3, taken, "a1 a2 a3"));
    EXPECT(world, change(world, "strict.fifo", &taken[1], 600).error == NULL);
    world_pass_time(world, 61000 + 31000 * (world->options.way != WORLD_PLAIN));
    EXPECT(world, gives(world, "strict.fifo", 300, 10, taken, "a1 a2 a3"));
}

static void T36_a_younger_delayed_message_blocks_no_older_one(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "late.fifo", "'DelaySeconds':'20'");
    put(world, "late.fifo", "a", "a1", "");
    world_pass_time(world, 15000);
    put(world, "late.fifo", "a", "a2", "");
    EXPECT(world, gives_nothing(world, "late.fifo"));
    world_pass_time(world, 5000);
    EXPECT(world, gives(world, "late.fifo", 300, 10, taken, "a1"));
    end(world, "late.fifo", &taken[0]);
    EXPECT(world, gives_nothing(world, "late.fifo"));
    world_pass_time(world, 15000);
    EXPECT(world, gives(world, "late.fifo", 300, 10, taken, "a2"));
}

/* The steps of A and B in each order: 0 sends B, 1 takes A, 2 deletes A; A was sent. */
static void T37_whoever_frees_a_group_wakes_it(void **state)
{
    static const unsigned orders[][3] = {{0, 1, 2}, {1, 0, 2}, {1, 2, 0}};
    static const char *const frees[] = {"delete", "fail", "give back", "time out"};
    (void)state;
    for (size_t order = 0; order < 3; order++) {
        for (size_t way = 0; way < 4; way++) {
            struct world *world = world_create(&(struct world_options){.seed = 37});
            struct taken taken[BATCH_MAX];
            make_queue(world, "q.fifo", "");
            put(world, "q.fifo", "a", "A", "");
            for (size_t i = 0; i < 3; i++)
                if (orders[order][i] == 0)
                    put(world, "q.fifo", "a", "B", "");
                else if (orders[order][i] == 1)
                    EXPECT(world, gives(world, "q.fifo", 10, 1, taken, "A"));
                else if (way == 0)
                    end(world, "q.fifo", &taken[0]);
                else if (way == 1)
                    EXPECT(world, give_up(world, "q.fifo", &taken[0], ",'Final':true").error == NULL);
                else if (way == 2)
                    EXPECT(world, change(world, "q.fifo", &taken[0], 0).error == NULL);
                else
                    world_pass_time(world, 10000);
            bool is_gone = way < 2;
            if (!gives(world, "q.fifo", 10, 10, taken, is_gone ? "B" : "A B"))
                fail_msg("%s, order %zu: the group was not woken", frees[way], order);
            world_destroy(world);
        }
    }
}

static void T38_a_handler_that_outlives_its_lease_frees_the_group_once(struct world *world)
{
    struct taken zombie[BATCH_MAX], holder[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.StrictOrder':'true'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    EXPECT(world, gives(world, "q.fifo", 30, 1, zombie, "a1"));
    world_pass_time(world, 31000 + 31000 * (world->options.way != WORLD_PLAIN));
    EXPECT(world, gives(world, "q.fifo", 600, 1, holder, "a1"));
    struct answer late =
        world_call(world, "DeleteMessage", "{'QueueUrl':'q.fifo','ReceiptHandle':'%s'}", zombie[0].handle);
    EXPECT(world, answer_fails(late, "ReceiptHandleIsInvalid"));
    EXPECT(world, answer_fails(change(world, "q.fifo", &zombie[0], 0), "ReceiptHandleIsInvalid"));
    EXPECT(world, answer_fails(give_up(world, "q.fifo", &zombie[0], ""), "ReceiptHandleIsInvalid"));
    EXPECT(world, gives_nothing(world, "q.fifo")); /* one holder, and it is not the zombie */
    end(world, "q.fifo", &holder[0]);
    EXPECT(world, gives(world, "q.fifo", 600, 10, holder, "a2"));
}

/* --- T39 ---------------------------------------------------------------------------------------------------------- */

/* A queue whose head of group a has used its only attempt, with a2 and a3 behind it. */
static void make_dead_head(struct world *world, const char *policy)
{
    struct taken taken[BATCH_MAX];
    char attributes[400];
    snprintf(attributes, sizeof(attributes), "'Tally.OnGroupFailure':'%s'," REDRIVE(1), policy);
    make_queue(world, "dead.fifo", "");
    make_queue(world, "q.fifo", attributes);
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    put(world, "q.fifo", "a", "a3", "");
    EXPECT(world, gives(world, "q.fifo", 300, 1, taken, "a1"));
    struct answer answer = give_up(world, "q.fifo", &taken[0], ",'Reason':'no such post'");
    EXPECT(world, answer.error == NULL || world->restart_count > 0);
}

static struct answer release(struct world *world, const char *action)
{
    return world_call(world, "Tally.ReleaseGroup", "{'QueueUrl':'q.fifo','MessageGroupId':'a','Action':'%s'}", action);
}

static bool is_done(const struct world *world, struct answer answer)
{
    return answer.error == NULL || (world->restart_count > 0 && answer_fails(answer, "GroupNotHeld"));
}

static void T39_skip_makes_way(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_dead_head(world, "skip");
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a2 a3"));
    EXPECT(world, gives(world, "dead.fifo", 300, 10, taken, "a1"));
    EXPECT(world, answer_fails(release(world, "skip"), "GroupNotHeld"));
}

static void T39_hold_waits_for_a_person_and_retry_tries_again(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_dead_head(world, "hold");
    EXPECT(world, gives_nothing(world, "q.fifo"));
    yyjson_val *group = first_group(world, "q.fifo", "held");
    EXPECT(world, says(group, "MessageGroupId", "a") && says(group, "State", "held"));
    EXPECT(world, says(group, "Reason", "no such post") && yyjson_obj_get(group, "Since") != NULL);
    put(world, "q.fifo", "b", "b1", "");
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "b1"));
    EXPECT(world, is_done(world, release(world, "retry")));
    EXPECT(world, first_group(world, "q.fifo", "held") == NULL);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a1 a2 a3"));
    EXPECT(world, world_count_messages(world, "dead.fifo") == 0);
}

static void T39_hold_and_skip(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_dead_head(world, "hold");
    EXPECT(world, is_done(world, release(world, "skip")));
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a2 a3"));
    EXPECT(world, gives(world, "dead.fifo", 300, 10, taken, "a1"));
}

static void T39_hold_and_cancel_the_rest(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_dead_head(world, "hold");
    EXPECT(world, is_done(world, release(world, "cancel-rest")));
    put(world, "q.fifo", "a", "a4", "");
    world_pass_time(world, 1);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a4"));
    EXPECT(world, world_count_messages(world, "q.fifo") == 1);
    EXPECT(world, gives(world, "dead.fifo", 300, 10, taken, "a1"));
}

static void T39_cancel_rest_is_a_policy_too(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_dead_head(world, "cancel-rest");
    put(world, "q.fifo", "a", "a4", "");
    world_pass_time(world, 1);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a4"));
    EXPECT(world, gives(world, "dead.fifo", 300, 10, taken, "a1"));
    EXPECT(world, world_count_messages(world, "q.fifo") == 1);
}

static void a_head_that_failed_while_it_was_no_head_holds_its_group_later(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.StrictOrder':'true','Tally.OnGroupFailure':'hold'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    put(world, "q.fifo", "a", "a3", "");
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a1 a2 a3"));
    struct answer answer = give_up(world, "q.fifo", &taken[1], ",'Final':true");
    EXPECT(world, answer.error == NULL || world->restart_count > 0);
    end(world, "q.fifo", &taken[0]);
    EXPECT(world, gives_nothing(world, "q.fifo"));
    EXPECT(world, says(first_group(world, "q.fifo", "held"), "MessageGroupId", "a"));
    EXPECT(world, is_done(world, release(world, "skip"))); /* there is no dead-letter queue: dropped */
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a3"));
}

/* Dead letters stand in the order in which they came, whatever their age. When the leases of a strict run are over at
 * the same time, its first message alone has used up an attempt. */
static void T34_of_a_run_that_times_out_the_first_is_charged_whatever_its_age(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "dead.fifo", "");
    make_queue(world, "mid.fifo", "'Tally.StrictOrder':'true'," REDRIVE(2));
    make_queue(world, "q.fifo",
               "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:mid.fifo\\',"
               "\\'maxReceiveCount\\':1}'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a1 a2"));
    for (unsigned i = 2; i-- > 0;) {
        struct answer answer = give_up(world, "q.fifo", &taken[i], "");
        EXPECT(world, answer.error == NULL || world->restart_count > 0);
    }
    EXPECT(world, gives(world, "mid.fifo", 10, 10, taken, "a2 a1"));
    world_pass_time(world, 11000 + 31000 * (world->options.way != WORLD_PLAIN));
    EXPECT(world, gives(world, "mid.fifo", 10, 10, taken, "a1"));
    EXPECT(world, gives(world, "dead.fifo", 10, 10, taken, "a2"));
}

/* --- T40, T43 to T45, T67 ----------------------------------------------------------------------------------------- */

static void T40_a_receive_gives_one_ordered_run_of_a_group(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "b", "b1", "");
    put(world, "q.fifo", "a", "a2", "");
    put(world, "q.fifo", "a", "a3", "");
    put(world, "q.fifo", "b", "b2", "");
    EXPECT(world, gives(world, "q.fifo", 300, 4, taken, "a1 a2 a3 b1"));
    EXPECT(world, gives_nothing(world, "q.fifo"));
    end(world, "q.fifo", &taken[3]);
    EXPECT(world, gives(world, "q.fifo", 300, 4, taken, "b2"));
}

static void T43_a_purge_releases_the_group_of_a_message_in_flight(struct world *world)
{
    struct taken taken[BATCH_MAX], stale[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.OnGroupFailure':'hold'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "b", "b1", "");
    EXPECT(world, gives(world, "q.fifo", 300, 1, stale, "a1"));
    EXPECT(world, gives(world, "q.fifo", 300, 1, taken, "b1"));
    struct answer answer = give_up(world, "q.fifo", &taken[0], ",'Final':true");
    EXPECT(world, answer.error == NULL || world->restart_count > 0);
    EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'q.fifo'}").error == NULL);
    put(world, "q.fifo", "a", "a2", "");
    put(world, "q.fifo", "b", "b2", "");
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a2 b2"));
    EXPECT(world, first_group(world, "q.fifo", "held") == NULL);
    end(world, "q.fifo", &stale[0]); /* of what was purged: no error and no effect */
    world_pass_time(world, 1000);
    EXPECT(world, world_count_messages(world, "q.fifo") == 2);
}

static void T44_a_zombie_ends_nothing_of_its_groups_new_holder(struct world *world)
{
    struct taken zombie[BATCH_MAX], holder[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.StrictOrder':'true'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    EXPECT(world, gives(world, "q.fifo", 30, 2, zombie, "a1 a2"));
    world_pass_time(world, 62000);
    EXPECT(world, gives(world, "q.fifo", 600, 2, holder, "a1 a2"));
    for (unsigned i = 0; i < 2; i++) {
        struct answer late =
            world_call(world, "DeleteMessage", "{'QueueUrl':'q.fifo','ReceiptHandle':'%s'}", zombie[i].handle);
        EXPECT(world, answer_fails(late, "ReceiptHandleIsInvalid"));
    }
    EXPECT(world, gives_nothing(world, "q.fifo"));
    end(world, "q.fifo", &holder[0]);
    end(world, "q.fifo", &holder[1]);
    EXPECT(world, world_count_messages(world, "q.fifo") == 0);
}

static void T45_heartbeats_keep_a_group(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.StrictOrder':'true'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    EXPECT(world, gives(world, "q.fifo", 30, 1, taken, "a1"));
    for (unsigned i = 0; i < 20; i++) {
        world_pass_time(world, 25000);
        EXPECT(world, change(world, "q.fifo", &taken[0], 30).error == NULL);
        EXPECT(world, gives_nothing(world, "q.fifo"));
    }
    end(world, "q.fifo", &taken[0]);
    EXPECT(world, gives(world, "q.fifo", 30, 1, taken, "a2"));
}

/* Fails `attempts` times and measures when the message comes back each time, to the second. */
static void T67_the_delay_before_each_retry_lies_within_the_back_off(void **state)
{
    (void)state;
    static const unsigned expected_s[] = {2, 6, 18, 54, 60, 60};
    for (unsigned way = 0; way < 2; way++) {
        struct world *world = world_create(&(struct world_options){.seed = 67});
        struct taken taken[BATCH_MAX];
        char bodies[200];
        make_queue(world, "q.fifo", "'Tally.Backoff':'{\\'min\\':2,\\'max\\':60,\\'factor\\':3,\\'jitter\\':0.1}'");
        put(world, "q.fifo", "a", "a1", "");
        for (size_t i = 0; i < 6; i++) {
            EXPECT(world, take(world, "q.fifo", 300, 1, taken, bodies) == 1);
            EXPECT(world, give_up(world, "q.fifo", &taken[0], "").error == NULL);
            unsigned waited_ms = 0;
            if (way == 1)
                world_kill(world); /* kept across a restart (R13) */
            while (first_group(world, "q.fifo", "ready") == NULL) {
                world_pass_time(world, 100);
                waited_ms += 100;
                world_forget(world);
            }
            unsigned low = expected_s[i] * 900, high = expected_s[i] * 1100 + 100;
            EXPECT(world, waited_ms >= (low < 2000 ? 2000 : low) && waited_ms <= (high > 60100 ? 60100 : high));
        }
        world_destroy(world);
    }
}

static void T67_a_dead_letter_keeps_reason_attempts_and_id(struct world *world)
{
    struct taken taken[BATCH_MAX], dead[BATCH_MAX];
    make_queue(world, "dead.fifo", "");
    make_queue(world, "q.fifo", REDRIVE(1));
    put(world, "q.fifo", "a", "a1", "");
    EXPECT(world, gives(world, "q.fifo", 300, 1, taken, "a1"));
    struct answer answer = give_up(world, "q.fifo", &taken[0], ",'Reason':'a \\'reason\\''");
    EXPECT(world, answer.error == NULL || world->restart_count > 0);
    EXPECT(world,
           gives(world, "dead.fifo", 300, 1, dead, "a1")); /* without a lease it could not be repeated after a stop */
    EXPECT(world, strcmp(dead[0].id, taken[0].id) == 0 && dead[0].receive_count == 2);
    answer = change(world, "dead.fifo", &dead[0], 0);
    EXPECT(world, answer.error == NULL || world->restart_count > 0);
    answer = world_call(world, "ReceiveMessage",
                        "{'QueueUrl':'dead.fifo','MessageAttributeNames':['Tally.*'],'AttributeNames':['All'],"
                        "'ReceiveRequestAttemptId':'once'}");
    yyjson_val *message = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Messages"));
    yyjson_val *reason = yyjson_obj_get(yyjson_obj_get(message, "MessageAttributes"), "Tally.FailureReason");
    EXPECT(world, says(reason, "StringValue", "a \"reason\""));
}

/* --- limits and pauses -------------------------------------------------------------------------------------------- */

/* A worker without tokens waits: that is no attempt and ends no unit (T19, B11). */
static void T19_a_rate_limit_postpones_and_charges_nothing(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 19});
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.RateLimit':'{\\'queue\\':{\\'rate\\':0.5,\\'burst\\':2}}'");
    for (unsigned i = 0; i < 5; i++) {
        char body[8];
        snprintf(body, sizeof(body), "m%u", i);
        put(world, "q.fifo", body, body, "");
    }
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "m0 m1"));
    EXPECT(world, gives_nothing(world, "q.fifo"));
    world_pass_time(world, 1999);
    EXPECT(world, gives_nothing(world, "q.fifo"));
    world_kill(world);
    world_pass_time(world, 1);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "m2"));
    world_pass_time(world, 60000);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "m3 m4"));
    EXPECT(world, taken[0].receive_count == 1 && taken[1].receive_count == 1);
    world_destroy(world);
}

static void a_groups_rate_limits_that_group_alone(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.RateLimit':'{\\'group\\':{\\'rate\\':0.01,\\'burst\\':1}}'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    put(world, "q.fifo", "b", "b1", "");
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a1 b1"));
    end(world, "q.fifo", &taken[0]);
    EXPECT(world, gives_nothing(world, "q.fifo"));
    world_pass_time(world, 100000);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a2"));
}

/* Whoever sets a rate that is far too low and mends it does not wait for what the old one would have made him wait. */
static void a_new_rate_limit_forgets_the_debt_of_the_old_one(struct world *world)
{
    static const char limit[] = "{'QueueUrl':'q.fifo','Attributes':{'Tally.RateLimit':'{\\'queue\\':{\\'rate\\':%s,"
                                "\\'burst\\':%s},\\'group\\':{\\'rate\\':%s,\\'burst\\':%s}}'}}";
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "");
    for (unsigned i = 1; i <= 6; i++) {
        char body[8];
        snprintf(body, sizeof(body), "a%u", i);
        put(world, "q.fifo", "a", body, "");
    }
    EXPECT(world, world_call(world, "SetQueueAttributes", limit, "0.001", "3", "0.001", "3").error == NULL);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a1 a2 a3"));
    for (unsigned i = 0; i < 3; i++)
        end(world, "q.fifo", &taken[i]);
    EXPECT(world, gives_nothing(world, "q.fifo"));
    EXPECT(world, world_call(world, "SetQueueAttributes", limit, "100", "5", "1", "2").error == NULL);
    EXPECT(world, gives_nothing(world, "q.fifo")); /* its buckets are empty */
    world_pass_time(world, 2000);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a4 a5"));
}

static void a_pause_stops_deliveries_until_it_ends(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "b", "b1", "");
    EXPECT(world, world_call(world, "Tally.PauseGroup", "{'QueueUrl':'q.fifo','MessageGroupId':'a'}").error == NULL);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "b1"));
    EXPECT(world, world_call(world, "Tally.PauseQueue", "{'QueueUrl':'q.fifo'}").error == NULL);
    EXPECT(world, world_call(world, "Tally.ResumeGroup", "{'QueueUrl':'q.fifo','MessageGroupId':'a'}").error == NULL);
    EXPECT(world, gives_nothing(world, "q.fifo"));
    EXPECT(world, world_call(world, "Tally.ResumeQueue", "{'QueueUrl':'q.fifo'}").error == NULL);
    EXPECT(world, gives(world, "q.fifo", 300, 10, taken, "a1"));
}

static void a_group_of_a_standard_queue_runs_at_most_so_many_at_once(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.way = WORLD_KILLS, .seed = 66});
    struct taken taken[BATCH_MAX], more[BATCH_MAX];
    world_create_queue(world, "q", "'Tally.GroupConcurrency':'2'");
    for (unsigned i = 0; i < 4; i++) {
        char body[8];
        snprintf(body, sizeof(body), "a%u", i);
        put(world, "q", "a", body, "");
    }
    put(world, "q", "b", "b0", "");
    world_hold(world, "q", 600, 3, taken);
    EXPECT(world, world_take(world, "q", 600, 10, more) == 0);
    unsigned of_a = taken[0].body[0] == 'a' ? 0 : 1;
    EXPECT(world, taken[of_a].body[0] == 'a');
    end(world, "q", &taken[of_a]);
    world_hold(world, "q", 600, 1, more);
    EXPECT(world, more[0].body[0] == 'a');
    EXPECT(world, world_take(world, "q", 600, 10, more) == 0);
    world_destroy(world);
}

/* A tenant with a backlog of thousands does not keep the others waiting (SQS fair queues, O4). */
static void a_noisy_tenant_starves_nobody(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 65});
    world_create_queue(world, "q", "");
    for (unsigned i = 0; i < 300; i++) {
        char body[8];
        snprintf(body, sizeof(body), "n%u", i);
        put(world, "q", "noisy", body, "");
        world_forget(world);
    }
    put(world, "q", "quiet", "quiet", "");
    struct taken taken[BATCH_MAX];
    unsigned before = 0;
    while (world_take(world, "q", 600, 1, taken) == 1 && strcmp(taken[0].body, "quiet") != 0)
        before++;
    EXPECT(world, before <= 1);
    world_destroy(world);
}

static void an_at_most_once_queue_gives_each_message_once(struct world *world)
{
    struct taken taken[BATCH_MAX];
    make_queue(world, "q.fifo", "'Tally.DeliveryMode':'at-most-once'");
    put(world, "q.fifo", "a", "a1", "");
    put(world, "q.fifo", "a", "a2", "");
    char bodies[200];
    unsigned count = take(world, "q.fifo", 30, 10, taken, bodies);
    EXPECT(world, count == 2 || world->restart_count > 0); /* a lost reply is lost with its messages */
    EXPECT(world, world_count_messages(world, "q.fifo") == 0);
    world_pass_time(world, 100000);
    EXPECT(world, gives_nothing(world, "q.fifo"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T28_a_head_that_backs_off_blocks_its_group_and_no_other),
        SCENARIO(T29_a_blocked_group_in_front_hides_no_other),
        SCENARIO(T30_priority_chooses_between_groups_and_never_inside_one),
        cmocka_unit_test(a_low_priority_does_not_starve),
        SCENARIO(T31_the_sequence_number_orders_what_came_in_one_millisecond),
        SCENARIO(T33_workers_join_and_leave_and_nothing_overtakes),
        SCENARIO(T34_what_is_given_back_comes_first_and_the_rest_loses_no_attempt),
        SCENARIO(T35_nothing_overtakes_a_message_whose_lease_was_extended),
        SCENARIO(T35_a_strict_queue_takes_the_extended_one_back_with_its_run),
        SCENARIO(T36_a_younger_delayed_message_blocks_no_older_one),
        cmocka_unit_test(T37_whoever_frees_a_group_wakes_it),
        SCENARIO(T38_a_handler_that_outlives_its_lease_frees_the_group_once),
        SCENARIO(T39_skip_makes_way),
        SCENARIO(T39_hold_waits_for_a_person_and_retry_tries_again),
        SCENARIO(T39_hold_and_skip),
        SCENARIO(T39_hold_and_cancel_the_rest),
        SCENARIO(T39_cancel_rest_is_a_policy_too),
        SCENARIO(a_head_that_failed_while_it_was_no_head_holds_its_group_later),
        SCENARIO(T34_of_a_run_that_times_out_the_first_is_charged_whatever_its_age),
        SCENARIO(T40_a_receive_gives_one_ordered_run_of_a_group),
        SCENARIO(T43_a_purge_releases_the_group_of_a_message_in_flight),
        SCENARIO(T44_a_zombie_ends_nothing_of_its_groups_new_holder),
        SCENARIO(T45_heartbeats_keep_a_group),
        cmocka_unit_test(T67_the_delay_before_each_retry_lies_within_the_back_off),
        SCENARIO(T67_a_dead_letter_keeps_reason_attempts_and_id),
        cmocka_unit_test(T19_a_rate_limit_postpones_and_charges_nothing),
        SCENARIO(a_groups_rate_limits_that_group_alone),
        SCENARIO(a_new_rate_limit_forgets_the_debt_of_the_old_one),
        SCENARIO(a_pause_stops_deliveries_until_it_ends),
        cmocka_unit_test(a_group_of_a_standard_queue_runs_at_most_so_many_at_once),
        cmocka_unit_test(a_page_of_groups_ends_before_a_mebibyte),
        cmocka_unit_test(a_noisy_tenant_starves_nobody),
        SCENARIO(an_at_most_once_queue_gives_each_message_once),
    };
    return cmocka_run_group_tests_name("scenario_order", tests, NULL, NULL);
}
