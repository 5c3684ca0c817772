/* memory-max: what is refused at the limit, what goes on, and what the server does all the same. And that nothing grows
 * without bound: of each kind of thing that the state is made of many are made and ended, round after round, and memory
 * is where it was. */
#include "sqs.h"

#include "api/action.h"
#include "api/activity.h"
#include "base/accounted.h"
#include "core/deduplication/deduplication.h"
#include "core/order/type_order.h"
#include "core/schedules/schedule.h"
#include "core/state.h"

#define ROOM (64u << 10) /* of a world that is to be filled */
#define CHURN 500u       /* things in a round */
#define ROUNDS 4u
#define MINUTE_MS UINT64_C(60000)
#define DETAIL_SIZE 1024                      /* of a unit, at most */
#define OUTCOMES_MS (15 * UINT64_C(86400000)) /* how something ended is known for 14 days, for those that wait for it */
#define PUBLISHER                                                                                                      \
    "'Publisher':'11111111-0000-4000-8000-000000000000','Epoch':1,'Owner':'22222222-0000-4000-8000-000000000000'"

#define POLICY                                                                                                         \
    "{\\'Version\\':\\'2012-10-17\\',\\'Statement\\':[{\\'Effect\\':\\'Allow\\',\\'Principal\\':\\'*\\',\\'Action\\':" \
    "\\'sqs:SendMessage\\',\\'Resource\\':\\'*\\'}]}"

/* Without what was noted of the requests themselves: that grows until it is full (api_events_test.c). */
static size_t state_in_use(const struct world *world)
{
    return accounted_in_use() - activity_memory(world->api);
}

/* --- the limit ---------------------------------------------------------------------------------------------------- */

static void add_things(struct world *world)
{
    world_create_queue(world, "q", "");
    world_create_queue(world, "done", "");
    world_create_queue(world, "ticks", "");
    world_create_queue(world, "dead", "");
    world_create_queue(world, "poison",
                       "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':1}'");
    world_send(world, "poison", NULL, "p");
    sqs_call(world, "Tally.CreateBatch", "{'BatchId':'b','OnComplete':{'QueueUrl':'done','MessageBody':'all done'}}");
    sqs_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['u1','u2']}");
    sqs_call(world, "Tally.SealBatch", "{'BatchId':'b'}");
    sqs_call(world, "Tally.CreatePool", "{'PoolName':'p','ResultQueueUrl':'done','Matcher':'external'}");
    sqs_call(world, "Tally.OfferTickets", "{'PoolName':'p','Tickets':[{'TicketId':'a'},{'TicketId':'b'}]}");
    sqs_call(world, "Tally.PutSchedule",
             "{'Name':'s','Cron':'* * * * *','QueueUrl':'ticks','MessageBody':'tick','CatchUp':'one'}");
}

/* A world with some things in it, filled to its limit with messages in "q". */
static struct world *full_world(void **state)
{
    struct world *world = sqs_open(state);
    add_things(world);
    world_forget(world);
    world_stop(world, false);
    world_start(world);
    world->options.memory_max = accounted_in_use() + ROOM;
    world_stop(world, false);
    world_start(world);
    struct answer answer;
    unsigned sent = 0;
    while ((answer = world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%u'}", sent)).error == NULL)
        sent++;
    if (!answer_fails(answer, "MemoryIsFull") || answer.status != 503)
        fail_msg("%s: %s", answer.error, answer_text(answer, "message"));
    EXPECT(world, sent > 300 && sent < ROOM / 80); /* 96 bytes each, and 8 to 21 */
    EXPECT(world, accounted_in_use() < world->options.memory_max + 4096);
    return world;
}

/* Works messages of "q" off until something is taken again: not many, a table may have grown with the last that was
 * taken. */
static void make_room(struct world *world)
{
    struct taken taken[10];
    for (unsigned ended = 0; accounted_in_use() >= world->options.memory_max; ended += 10) {
        EXPECT(world, ended < 100 && world_take(world, "q", 30, 10, taken) == 10);
        for (unsigned i = 0; i < 10; i++)
            world_delete(world, "q", taken[i].handle);
    }
}

/* What is refused, from so many thousandths of memory-max on. A Commit and a FailMessage with a handle, and rows of a
 * Publish, have tests of their own. */
#define AT_THE_LIMIT 1000u
#define AN_EIGHTH_ABOVE 1125u
#define A_LITTLE 2u /* a restart gives or takes some bytes */

struct limited {
    const char *action;
    unsigned from;
    const char *body;
};

static char replace_body[160]; /* of a message that is there */

static const struct limited limited[] = {
    {"SendMessage", AT_THE_LIMIT, "{'QueueUrl':'q','MessageBody':'x'}"},
    {"SendMessageBatch", AT_THE_LIMIT,
     "{'QueueUrl':'q','Entries':[{'Id':'1','MessageBody':'x'},{'Id':'2','MessageBody':'y'}]}"},
    {"CreateQueue", AT_THE_LIMIT, "{'QueueName':'another'}"},
    {"Tally.CreateBatch", AT_THE_LIMIT, "{'BatchId':'c'}"},
    {"Tally.AddUnits", AT_THE_LIMIT, "{'BatchId':'open','Units':['u3']}"},
    {"Tally.OfferTickets", AT_THE_LIMIT, "{'PoolName':'p','Tickets':[{'TicketId':'c'}]}"},
    {"Tally.CreatePool", AT_THE_LIMIT, "{'PoolName':'r','ResultQueueUrl':'done','Matcher':'external'}"},
    {"Tally.PutSchedule", AT_THE_LIMIT, "{'Name':'t','Cron':'* * * * *','QueueUrl':'ticks','MessageBody':'tick'}"},
    {"Tally.FireSchedule", AT_THE_LIMIT, "{'Name':'s'}"},
    {"Tally.PutTypeOrder", AT_THE_LIMIT, "{'Name':'o','Types':['a','b']}"},
    {"Tally.CreateRelay", AT_THE_LIMIT,
     "{'RelayName':'r','Source':{'type':'queue','queue':'q'},'Sink':{'type':'http','url':'https://x'}}"},
    {"Tally.Commit", AT_THE_LIMIT, "{'Sends':[{'QueueUrl':'q','MessageBody':'x'}]}"},
    {"Tally.UpdateTicket", AN_EIGHTH_ABOVE, "{'PoolName':'p','TicketId':'a','Version':1,'Need':{}}"},
    {"Tally.XorUnits", AN_EIGHTH_ABOVE,
     "{'BatchId':'xor','RequestToken':'t','Value':'0000000000000001','Registered':1}"},
    {"Tally.OpenPublisher", AN_EIGHTH_ABOVE, "{" PUBLISHER "}"},
    {"Tally.PauseGroup", AN_EIGHTH_ABOVE, "{'QueueUrl':'q','MessageGroupId':'g'}"},
    {"Tally.CompleteUnits", AN_EIGHTH_ABOVE, "{'BatchId':'b','Units':[{'Unit':'u1','Detail':'because'}]}"},
    {"SetQueueAttributes", AN_EIGHTH_ABOVE, "{'QueueUrl':'q','Attributes':{'Policy':'" POLICY "'}}"},
    {"TagQueue", AN_EIGHTH_ABOVE, "{'QueueUrl':'q','Tags':{'a':'b'}}"},
    {"Tally.ReplaceMessage", AN_EIGHTH_ABOVE, replace_body},
    {"AddPermission", AN_EIGHTH_ABOVE,
     "{'QueueUrl':'done','Label':'l','AWSAccountIds':['111111111111'],'Actions':['SendMessage']}"},
};

/* From now on the state takes about so many thousandths of memory-max. */
static void limit_to(struct world *world, unsigned thousandths)
{
    world_forget(world);
    world->options.memory_max = 0;
    world_stop(world, false);
    world_start(world);
    size_t in_use = accounted_in_use();
    world->options.memory_max = in_use * 1000 / thousandths;
    world_stop(world, false);
    world_start(world);
    EXPECT(world, accounted_in_use() > in_use - in_use / 1000 && accounted_in_use() < in_use + in_use / 1000);
}

static void what_adds_something_is_refused_in_words_at_its_limit(void **state)
{
    struct world *world = full_world(state);
    limit_to(world, AT_THE_LIMIT / 2);
    sqs_call(world, "Tally.CreateBatch", "{'BatchId':'open'}");
    sqs_call(world, "Tally.CreateBatch", "{'BatchId':'xor','Tracking':'xor'}");
    snprintf(replace_body, sizeof(replace_body), "{'QueueUrl':'q','MessageId':'%s','MessageBody':'y'}",
             answer_text(sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}"), "MessageId"));
    for (size_t i = 0; i < ARRAY_LENGTH(limited); i++) {
        char limit[64];
        limit_to(world, limited[i].from + A_LITTLE);
        snprintf(limit, sizeof(limit), "memory-max is %llu", (unsigned long long)world->options.memory_max);
        sqs_expect_error(world, limited[i].action, limited[i].body, "MemoryIsFull", limit);
        sqs_expect_error(world, limited[i].action, limited[i].body, "MemoryIsFull", "Receives and deletes go on");
        limit_to(world, limited[i].from - A_LITTLE);
        sqs_call(world, limited[i].action, limited[i].body);
    }
    sqs_close(world);
}

static bool is_limited(const char *action)
{
    for (size_t i = 0; i < ARRAY_LENGTH(limited); i++)
        if (strcmp(limited[i].action, action) == 0)
            return true;
    return false;
}

/* So that none is forgotten: what the table of actions marks as adding something is refused whatever it says. */
static void no_action_is_refused_for_memory_but_those_that_are_tried(void **state)
{
    struct world *world = full_world(state);
    limit_to(world, 2 * AT_THE_LIMIT);
    for (size_t i = 0; i < action_count; i++) {
        bool is_of_sqs = strncmp(actions[i].target, "AmazonSQS.", strlen("AmazonSQS.")) == 0;
        const char *action = actions[i].target + (is_of_sqs ? strlen("AmazonSQS.") : 0);
        bool is_refused = answer_fails(world_call(world, action, "{}"), "MemoryIsFull");
        if (is_refused && !is_limited(action))
            fail_msg("%s is refused at a limit of memory, and no test tries it", action);
    }
    sqs_close(world);
}

static void at_the_limit_work_goes_on_and_what_ends_makes_room(void **state)
{
    struct world *world = full_world(state);
    struct taken taken[10], steps[2];
    EXPECT(world, world_take(world, "q", 30, 10, taken) == 10);
    world_hold(world, "poison", 1, 1, steps);
    sqs_call(world, "CreateQueue", "{'QueueName':'q'}"); /* it is there */
    sqs_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'VisibilityTimeout':'40'}}");
    EXPECT(world, world_call(world, "ChangeMessageVisibility",
                             "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':50}", taken[0].handle)
                          .error == NULL);
    /* A step of a pipeline: one message for one. */
    EXPECT(world,
           world_call(world, "Tally.Commit",
                      "{'Deletes':[{'QueueUrl':'q','ReceiptHandle':'%s'}],'Sends':[{'QueueUrl':'done','MessageBody':"
                      "'next'}]}",
                      taken[0].handle)
                   .error == NULL);
    EXPECT(world,
           answer_fails(world_call(world, "Tally.Commit",
                                   "{'Deletes':[{'QueueUrl':'q','ReceiptHandle':'%s'}],'Sends':[{'QueueUrl':'done',"
                                   "'MessageBody':'1'},{'QueueUrl':'done','MessageBody':'2'}]}",
                                   taken[1].handle),
                        "MemoryIsFull"));
    for (unsigned i = 1; i < 10; i++)
        world_delete(world, "q", taken[i].handle);
    make_room(world);
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'again'}");
    sqs_close(world);
}

/* An outbox holds both: what its application sends, and the messages that it has worked off. */
static void at_the_limit_a_publisher_ends_messages_and_its_sends_wait(void **state)
{
    struct world *world = full_world(state);
    struct taken taken[1];
    sqs_call(world, "Tally.OpenPublisher", "{" PUBLISHER "}");
    world_hold(world, "q", 30, 1, taken);
    uint64_t waiting = world_count_messages(world, "q");
    struct answer answer = world_call(
        world, "Tally.Publish",
        "{" PUBLISHER ",'Batch':1,'ConfirmedBatch':0,'Rows':[{'Id':1,'Uid':'00000000-0000-4000-8000-000000000001',"
        "'QueueUrl':'q','MessageBody':'x'},{'Id':2,'Uid':'00000000-0000-4000-8000-000000000002','ReceiptHandle':'%s'}]"
        "}",
        taken[0].handle);
    EXPECT(world, answer.error == NULL && answer_number(answer, "Stored") == 1);
    yyjson_val *blocked = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
    EXPECT(world, strcmp(sqs_text(blocked, "Status"), "blocked") == 0);
    EXPECT(world, strcmp(sqs_text(blocked, "Code"), "MemoryIsFull") == 0);
    EXPECT(world, world_count_messages(world, "q") == waiting - 1);
    make_room(world);
    waiting = world_count_messages(world, "q");
    answer = sqs_call(world, "Tally.Publish",
                      "{" PUBLISHER ",'Batch':2,'ConfirmedBatch':1,'Rows':[{'Id':1,'Uid':"
                      "'00000000-0000-4000-8000-000000000001','QueueUrl':'q','MessageBody':'x'}]}");
    EXPECT(world, answer_number(answer, "Stored") == 1 && world_count_messages(world, "q") == waiting + 1);
    sqs_close(world);
}

/* A Publish is never refused as a whole, so of what is wrong with its rows the texts, a thousand for each publisher,
 * must not stay. */
static void texts_about_rows_are_not_kept_above_the_reserve(void **state)
{
    struct world *world = sqs_open(state);
    sqs_call(world, "Tally.OpenPublisher", "{" PUBLISHER "}");
    world->options.memory_max = accounted_in_use() / 2;
    world_stop(world, false);
    world_start(world);
    static char body[64000];
    int size = snprintf(body, sizeof(body), "{" PUBLISHER ",'Batch':1,'ConfirmedBatch':0,'Rows':[");
    for (unsigned i = 1; i <= CHURN; i++)
        size +=
            snprintf(body + size, sizeof(body) - (size_t)size,
                     "%s{'Id':%u,'Uid':'00000000-0000-4000-8000-%012u','QueueUrl':'nowhere'}", i == 1 ? "" : ",", i, i);
    (void)snprintf(body + size, sizeof(body) - (size_t)size, "]}");
    size_t before = accounted_in_use();
    struct answer answer = sqs_call(world, "Tally.Publish", body);
    if (accounted_in_use() > before + (size_t)CHURN * 64)
        fail_msg("%zu bytes more", accounted_in_use() - before);
    yyjson_val *row = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Results"));
    EXPECT(world, strcmp(sqs_text(row, "Status"), "blocked") == 0);
    EXPECT(world, strstr(sqs_text(row, "Code"), "NonExistentQueue") != NULL && yyjson_obj_get(row, "Message") == NULL);
    sqs_close(world);
}

static void what_the_server_promised_is_not_refused(void **state)
{
    struct world *world = full_world(state);
    struct taken taken[1];
    sqs_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'u1'},{'Unit':'u2'}]}");
    EXPECT(world, world_count_messages(world, "done") == 1);
    sqs_call(world, "Tally.ProposeMatches",
             "{'PoolName':'p','ProposalId':'1','Proposals':[{'ProposalId':'1','Members':[{'TicketId':'a','Version':1},"
             "{'TicketId':'b','Version':1}]}]}");
    EXPECT(world, world_count_messages(world, "done") == 2);
    world_hold(world, "poison", 1, 1, taken);
    world_pass_time(world, 2000);
    sqs_call(world, "ReceiveMessage", "{'QueueUrl':'poison'}");
    EXPECT(world, world_count_messages(world, "poison") == 0 && world_count_messages(world, "dead") == 1);
    sqs_close(world);
}

static void a_schedule_is_late_and_not_lost(void **state)
{
    struct world *world = full_world(state);
    world_pass_time(world, 2 * MINUTE_MS);
    EXPECT(world, world_count_messages(world, "ticks") == 0);
    make_room(world);
    world_pass_time(world, 2000);
    EXPECT(world, world_count_messages(world, "ticks") >= 1);
    sqs_close(world);
}

static void a_restart_is_not_refused_and_a_drain_makes_room(void **state)
{
    struct world *world = full_world(state);
    world->options.memory_max -= ROOM / 2;
    world_kill(world);
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}", "MemoryIsFull", "");
    unsigned count;
    struct taken taken[10];
    while ((count = world_take(world, "q", 30, 10, taken)) > 0)
        for (unsigned i = 0; i < count; i++)
            world_delete(world, "q", taken[i].handle);
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}");
    sqs_close(world);
}

/* One step of a pipeline gives back as much as it takes, unless it doesn't: ids that are remembered for ever. */
static void what_takes_a_little_more_than_it_gives_is_refused_an_eighth_above(void **state)
{
    struct world *world = full_world(state);
    world_forget(world);
    world->options.memory_max = 0;
    world_kill(world);
    world_create_queue(world, "ever", "'Tally.DeduplicationWindow':'-1'");
    world->options.memory_max = accounted_in_use();
    world_kill(world);
    unsigned steps = 0;
    for (struct answer answer = {0}; answer.error == NULL; steps++) {
        struct taken taken[1];
        world_hold(world, steps == 0 ? "q" : "ever", 30, 1, taken);
        answer = world_call(world, "Tally.Commit",
                            "{'Deletes':[{'QueueUrl':'%s','ReceiptHandle':'%s'}],'Sends':[{'QueueUrl':'ever',"
                            "'MessageBody':'x','MessageDeduplicationId':'%u'}]}",
                            steps == 0 ? "q" : "ever", taken[0].handle, steps);
        EXPECT(world, answer.error == NULL || answer_fails(answer, "MemoryIsFull"));
        EXPECT(world, steps < 20000);
        if (steps % 100 == 99)
            world_forget(world);
    }
    EXPECT(world, steps > 100);
    sqs_close(world);
}

/* Without their texts they go on: they end something. */
static void texts_that_stay_are_refused_above_the_reserve(void **state)
{
    struct world *world = full_world(state);
    struct taken taken[1];
    world_hold(world, "q", 30, 1, taken);
    world->options.memory_max = accounted_in_use() / 2;
    world_stop(world, false);
    world_start(world);
    struct answer answer = world_call(world, "Tally.FailMessage",
                                      "{'QueueUrl':'q','ReceiptHandle':'%s','Reason':'because'}", taken[0].handle);
    EXPECT(world, answer_fails(answer, "MemoryIsFull"));
    answer = world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s'}", taken[0].handle);
    EXPECT(world, answer.error == NULL);
    sqs_expect_error(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'u1','Detail':'because'}]}",
                     "MemoryIsFull", "memory-max");
    sqs_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'u1'}]}");
    /* Texts of a queue: there may be many queues. Settings without a text go on. */
    sqs_expect_error(world, "TagQueue", "{'QueueUrl':'q','Tags':{'a':'b'}}", "MemoryIsFull", "memory-max");
    sqs_expect_error(world, "AddPermission",
                     "{'QueueUrl':'q','Label':'l','AWSAccountIds':['111111111111'],'Actions':['SendMessage']}",
                     "MemoryIsFull", "memory-max");
    sqs_expect_error(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'Policy':'" POLICY "'}}",
                     "MemoryIsFull", "memory-max");
    sqs_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'VisibilityTimeout':'40','Policy':''}}");
    sqs_call(world, "UntagQueue", "{'QueueUrl':'q','TagKeys':['a']}");
    sqs_close(world);
}

/* --- nothing grows without bound ---------------------------------------------------------------------------------- */

static void delete_all(struct world *world, const char *queue)
{
    unsigned count;
    struct taken taken[10];
    while ((count = world_take(world, queue, 30, 10, taken)) > 0) {
        for (unsigned i = 0; i < count; i++)
            world_delete(world, queue, taken[i].handle);
        world_forget(world);
    }
}

/* Makes `count` things and ends them; `round` tells their names apart. */
typedef void churn(struct world *world, unsigned round, unsigned count);

/* Plays rounds of it: behind each, memory is where it was behind the first, which may leave tables and rings behind. */
static void expect_flat(void **state, const char *queue_attributes, churn *run)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "churn", queue_attributes);
    size_t after_first = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        run(world, round, CHURN);
        world_forget(world);
        world_pass_time(world, 2000);
        if (round == 0)
            after_first = state_in_use(world);
        else if (state_in_use(world) > after_first + 2048)
            fail_msg("round %u: %zu bytes more than after the first", round, state_in_use(world) - after_first);
    }
    sqs_close(world);
}

static void churn_queues(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world,
               world_call(world, "CreateQueue", "{'QueueName':'q%u-%u','tags':{'a':'b'}}", round, i).error == NULL);
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "DeleteQueue", "{'QueueUrl':'q%u-%u'}", round, i).error == NULL);
    world_pass_time(world, 2 * MINUTE_MS);
}

static void queues_that_were_deleted_leave_nothing(void **state)
{
    expect_flat(state, "", churn_queues);
}

static void churn_messages(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'churn','MessageBody':'%u'}", round).error == NULL);
    delete_all(world, "churn");
}

static void messages_that_ended_leave_nothing(void **state)
{
    expect_flat(state, "", churn_messages);
}

static void send_many(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'churn','MessageBody':'%u','MessageGroupId':'%u'}",
                                 round, i)
                              .error == NULL);
}

/* That messages failed is known for 14 days, for those that wait for them. */
static void expect_forgotten(struct world *world)
{
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    world_pass_time(world, OUTCOMES_MS);
}

static void churn_expiring(struct world *world, unsigned round, unsigned count)
{
    send_many(world, round, count);
    EXPECT(world, world_count_messages(world, "churn") == count);
    world_pass_time(world, 2 * MINUTE_MS);
    expect_forgotten(world);
}

static void messages_that_expired_leave_nothing(void **state)
{
    expect_flat(state, "'MessageRetentionPeriod':'60'", churn_expiring);
}

static void churn_purged(struct world *world, unsigned round, unsigned count)
{
    send_many(world, round, count);
    sqs_call(world, "PurgeQueue", "{'QueueUrl':'churn'}");
    world_pass_time(world, 2 * MINUTE_MS);
    expect_forgotten(world);
}

static void messages_that_were_purged_leave_nothing(void **state)
{
    expect_flat(state, "", churn_purged);
}

static void churn_dead_letters(struct world *world, unsigned round, unsigned count)
{
    if (round == 0) {
        world_create_queue(world, "dead", "");
        sqs_call(world, "SetQueueAttributes",
                 "{'QueueUrl':'churn','Attributes':{'RedrivePolicy':'{\\'deadLetterTargetArn\\':"
                 "\\'arn:aws:sqs:us-east-1:000000000000:dead\\',\\'maxReceiveCount\\':1}'}}");
    }
    send_many(world, round, count);
    struct taken taken[10];
    while (world_take(world, "churn", 30, 10, taken) > 0)
        world_forget(world);
    world_pass_time(world, MINUTE_MS);
    for (unsigned i = 0; i < count && world_count_messages(world, "churn") > 0; i++)
        EXPECT(world, world_take(world, "churn", 30, 10, taken) == 0);
    EXPECT(world, world_count_messages(world, "dead") == count && world_count_messages(world, "churn") == 0);
    delete_all(world, "dead");
    expect_forgotten(world);
}

static void messages_that_were_dead_letters_leave_nothing(void **state)
{
    expect_flat(state, "", churn_dead_letters);
}

static void churn_groups(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'churn','MessageBody':'x','MessageGroupId':'g%u-%u'}", round, i)
                              .error == NULL);
    EXPECT(world, core_metrics(world_core(world)).groups == count);
    delete_all(world, "churn");
    EXPECT(world, core_metrics(world_core(world)).groups == 0);
}

static void groups_end_with_their_last_message(void **state)
{
    expect_flat(state, "", churn_groups);
}

static void pause_groups(struct world *world, const char *action, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world,
               world_call(world, action, "{'QueueUrl':'churn','MessageGroupId':'g%u-%u'}", round, i).error == NULL);
}

/* Every other one has a message, which ends meanwhile. */
static void churn_paused_groups(struct world *world, unsigned round, unsigned count)
{
    struct taken taken[10];
    for (unsigned i = 0; i < count; i += 2)
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'churn','MessageBody':'x','MessageGroupId':'g%u-%u'}", round, i)
                              .error == NULL);
    world_hold(world, "churn", 600, 10, taken);
    pause_groups(world, "Tally.PauseGroup", round, count);
    for (unsigned i = 0; i < 10; i++)
        world_delete(world, "churn", taken[i].handle);
    sqs_call(world, "PurgeQueue", "{'QueueUrl':'churn'}");
    world_pass_time(world, 2 * MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    EXPECT(world, core_metrics(world_core(world)).groups == count);
    pause_groups(world, "Tally.ResumeGroup", round, count);
    EXPECT(world, core_metrics(world_core(world)).groups == 0);
    expect_forgotten(world);
}

static void paused_groups_end_when_they_are_resumed(void **state)
{
    expect_flat(state, "", churn_paused_groups);
}

static void churn_buckets(struct world *world, unsigned round, unsigned count)
{
    send_many(world, round, count);
    delete_all(world, "churn");
    EXPECT(world, core_metrics(world_core(world)).messages == 0);
    EXPECT(world, core_metrics(world_core(world)).groups == count);
    world_pass_time(world, 10000 - 1);
    EXPECT(world, core_metrics(world_core(world)).groups == count);
    world_pass_time(world, 1);
    EXPECT(world, core_metrics(world_core(world)).groups == 0);
}

static void groups_with_a_rate_end_when_their_bucket_is_full(void **state)
{
    expect_flat(state, "'Tally.RateLimit':'{\\'group\\':{\\'rate\\':0.1,\\'burst\\':2}}'", churn_buckets);
}

static void churn_ids(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'churn','MessageBody':'x','MessageDeduplicationId':'%u-%u'}", round, i)
                              .error == NULL);
    delete_all(world, "churn");
    EXPECT(world, core_metrics(world_core(world)).deduplication_ids == count);
    world_pass_time(world, 2 * MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).deduplication_ids == 0);
}

static void deduplication_ids_end_with_their_window(void **state)
{
    expect_flat(state, "'Tally.DeduplicationWindow':'60'", churn_ids);
}

/* They are remembered for ever, which is their promise; what bounds them is memory-max, and a queue that is deleted
 * takes its own along. */
static void churn_producers(struct world *world, unsigned round, unsigned count)
{
    char queue[32];
    snprintf(queue, sizeof(queue), "producers-%u", round);
    world_create_queue(world, queue, "");
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'%s','MessageBody':'x','MessageAttributes':{'Tally.Producer':{'DataType':"
                                 "'String','StringValue':'%u'},'Tally.Sequence':{'DataType':'Number','StringValue':"
                                 "'1'}}}",
                                 queue, i)
                              .error == NULL);
    EXPECT(world, core_metrics(world_core(world)).producers == count);
    EXPECT(world, world_call(world, "DeleteQueue", "{'QueueUrl':'%s'}", queue).error == NULL);
    world_pass_time(world, MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).producers == 0);
    world_pass_time(world, OUTCOMES_MS);
}

static void producers_end_with_their_queue(void **state)
{
    expect_flat(state, "", churn_producers);
}

static void a_producer_remembers_so_many_messages_and_no_more(void **state)
{
    struct world *world = sqs_open(state);
    size_t full = 0;
    for (unsigned i = 1; i <= 4 * PRODUCER_PAIRS; i++) {
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'q','MessageBody':'x','MessageAttributes':{'Tally.Producer':{'DataType':"
                                 "'String','StringValue':'p'},'Tally.Sequence':{'DataType':'Number','StringValue':"
                                 "'%u'}}}",
                                 i)
                              .error == NULL);
        delete_all(world, "q");
        if (i == PRODUCER_PAIRS)
            full = accounted_in_use();
    }
    EXPECT(world, accounted_in_use() <= full);
    sqs_close(world);
}

static void churn_batches(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        EXPECT(world,
               world_call(world, "Tally.CreateBatch", "{'BatchId':'%u-%u','RetentionSeconds':60,'Total':1}", round, i)
                       .error == NULL);
        EXPECT(world,
               world_call(world, "Tally.AddUnits", "{'BatchId':'%u-%u','Units':['a key of a unit']}", round, i).error ==
                   NULL);
        EXPECT(world, world_call(world, "Tally.CompleteUnits",
                                 "{'BatchId':'%u-%u','Units':[{'Unit':'a key of a unit'}]}", round, i)
                              .error == NULL);
    }
    EXPECT(world, core_metrics(world_core(world)).batches == count);
    world_pass_time(world, 2 * MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).batches == 0);
    world_pass_time(world, OUTCOMES_MS);
}

static void completed_batches_end_with_their_retention(void **state)
{
    expect_flat(state, "", churn_batches);
}

/* The array of their order, 16 bytes for each batch of the largest number there ever was. */
static void the_order_of_batches_shrinks_with_their_number(void **state)
{
    struct world *world = sqs_open(state);
    churn_batches(world, 0, CHURN);
    EXPECT(world, world_core(world)->batches.order_capacity == 16);
    churn_batches(world, 1, 10);
    EXPECT(world, world_core(world)->batches.order_capacity == 16);
    sqs_close(world);
}

/* Failed, they wait with their reasons. */
static void churn_reasons(struct world *world, unsigned round, unsigned count)
{
    static struct taken taken[CHURN];
    send_many(world, round, count);
    world_hold(world, "churn", 600, count, taken);
    size_t before = accounted_in_use();
    for (unsigned i = 0; i < count; i++)
        EXPECT(world,
               world_call(world, "Tally.FailMessage", "{'QueueUrl':'churn','ReceiptHandle':'%s','Reason':'%0*u'}",
                          taken[i].handle, (int)FAILURE_REASON_SIZE_MAX, i)
                       .error == NULL);
    EXPECT(world, accounted_in_use() > before + (size_t)count * FAILURE_REASON_SIZE_MAX);
    delete_all(world, "churn");
}

static void reasons_end_with_their_message(void **state)
{
    expect_flat(state, "", churn_reasons);
}

static void churn_details(struct world *world, unsigned round, unsigned count)
{
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'d%u','RetentionSeconds':60,'Total':%u}", round, count)
                   .error == NULL);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'d%u','Count':%u}", round, count).error == NULL);
    size_t before = accounted_in_use();
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "Tally.CompleteUnits",
                                 "{'BatchId':'d%u','Units':[{'Unit':'%u','Detail':'%0*u'}]}", round, i, DETAIL_SIZE, i)
                              .error == NULL);
    EXPECT(world, accounted_in_use() > before + (size_t)count * DETAIL_SIZE);
    world_pass_time(world, 2 * MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).batches == 0);
    world_pass_time(world, OUTCOMES_MS);
}

static void details_end_with_their_batch(void **state)
{
    expect_flat(state, "", churn_details);
}

static void churn_tokens(struct world *world, unsigned round, unsigned count)
{
    EXPECT(world,
           world_call(world, "Tally.CreateBatch", "{'BatchId':'x%u','RetentionSeconds':60,'Tracking':'xor'}", round)
                   .error == NULL);
    for (unsigned i = 1; i <= count; i++) /* a value comes and goes */
        EXPECT(world, world_call(world, "Tally.XorUnits",
                                 "{'BatchId':'x%u','RequestToken':'the-token-of-request-%u','Value':'%016x','%s':1}",
                                 round, i, (i + 1) / 2, i % 2 == 1 ? "Registered" : "Finished")
                              .error == NULL);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'x%u'}", round).error == NULL);
    world_pass_time(world, 2 * MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).batches == 0);
    world_pass_time(world, OUTCOMES_MS);
}

static void tokens_of_xor_units_end_with_their_batch(void **state)
{
    expect_flat(state, "", churn_tokens);
}

/* Of a delivery only the newest number is known; old handles cost nothing. */
static void churn_receipts(struct world *world, unsigned round, unsigned count)
{
    if (round == 0)
        world_send(world, "churn", NULL, "x");
    for (unsigned i = 0; i < count; i++) {
        struct taken taken[1];
        EXPECT(world, world_take(world, "churn", 0, 1, taken) == 1);
    }
}

static void receipts_leave_nothing(void **state)
{
    expect_flat(state, "", churn_receipts);
}

static void churn_attempts(struct world *world, unsigned round, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'attempts.fifo','MessageBody':'x','MessageGroupId':'%u',"
                                 "'MessageDeduplicationId':'%u-%u'}",
                                 i, round, i)
                              .error == NULL);
        struct answer answer = world_call(world, "ReceiveMessage",
                                          "{'QueueUrl':'attempts.fifo','ReceiveRequestAttemptId':'%u-%u'}", round, i);
        yyjson_val *message = yyjson_arr_get_first(yyjson_obj_get(answer.root, "Messages"));
        world_delete(world, "attempts.fifo", sqs_text(message, "ReceiptHandle"));
    }
    world_pass_time(world, 6 * MINUTE_MS);
}

static void receive_attempts_end_after_five_minutes(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "attempts.fifo", "'FifoQueue':'true'");
    churn_attempts(world, 0, CHURN);
    size_t after_first = state_in_use(world);
    for (unsigned round = 1; round < ROUNDS; round++) {
        world_forget(world);
        churn_attempts(world, round, CHURN);
        EXPECT(world, state_in_use(world) <= after_first + 2048);
    }
    sqs_close(world);
}

static unsigned receive_once(struct world *world, unsigned attempt, unsigned timeout_s)
{
    struct answer answer =
        world_call(world, "ReceiveMessage",
                   "{'QueueUrl':'a.fifo','VisibilityTimeout':%u,'ReceiveRequestAttemptId':'%u'}", timeout_s, attempt);
    EXPECT(world, answer.error == NULL);
    unsigned count = (unsigned)yyjson_arr_size(yyjson_obj_get(answer.root, "Messages"));
    world_forget(world);
    return count;
}

/* Receives go on above the limit, so what is remembered of each must not grow there. */
static void above_the_limit_a_receive_attempt_is_not_remembered(void **state)
{
    struct world *world = sqs_open(state);
    world_create_queue(world, "a.fifo", "'FifoQueue':'true'");
    sqs_call(world, "SendMessage",
             "{'QueueUrl':'a.fifo','MessageBody':'x','MessageGroupId':'g','MessageDeduplicationId':'d'}");
    world->options.memory_max = accounted_in_use() / 2;
    world_stop(world, false);
    world_start(world);
    EXPECT(world, receive_once(world, 0, 0) == 1);
    size_t before = accounted_in_use();
    for (unsigned i = 1; i < CHURN; i++)
        EXPECT(world, receive_once(world, i, 0) == 1);
    if (accounted_in_use() > before + 2048)
        fail_msg("%zu bytes more", accounted_in_use() - before);
    /* A repeat is another receive, and what the lost one had comes back in its time. */
    EXPECT(world, receive_once(world, CHURN, 5) == 1 && receive_once(world, CHURN, 5) == 0);
    world_pass_time(world, 6000);
    EXPECT(world, receive_once(world, CHURN, 5) == 1);
    sqs_close(world);
}

/* Tickets that are over are remembered for their retention. */
static void churn_tickets(struct world *world, unsigned round, unsigned count)
{
    if (round == 0) /* without matchers outside: the feed for those has a ring that grows to a limit of its own */
        sqs_call(world, "Tally.CreatePool",
                 "{'PoolName':'p','ResultQueueUrl':'q','Matcher':'built-in','RetentionSeconds':60}");
    for (unsigned i = 0; i < count; i++) {
        EXPECT(world, world_call(world, "Tally.OfferTickets",
                                 "{'PoolName':'p','Tickets':[{'TicketId':'%u-%u','Body':'some'}]}", round, i)
                              .error == NULL);
        EXPECT(world,
               world_call(world, "Tally.CancelTickets", "{'PoolName':'p','TicketIds':['%u-%u']}", round, i).error ==
                   NULL);
    }
    world_pass_time(world, 2 * MINUTE_MS);
}

static void tickets_end_with_their_retention(void **state)
{
    expect_flat(state, "", churn_tickets);
}

static void churn_matches(struct world *world, unsigned round, unsigned count)
{
    if (round == 0)
        sqs_call(world, "Tally.CreatePool",
                 "{'PoolName':'p','ResultQueueUrl':'churn','Matcher':'built-in','RetentionSeconds':60}");
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_call(world, "Tally.OfferTickets",
                                 "{'PoolName':'p','Tickets':[{'TicketId':'a%u-%u'},{'TicketId':'b%u-%u'}]}", round, i,
                                 round, i)
                              .error == NULL);
    world_pass_time(world, 0);
    EXPECT(world, world_count_messages(world, "churn") == count);
    delete_all(world, "churn");
    world_pass_time(world, 2 * MINUTE_MS);
}

static void matches_end_with_their_retention(void **state)
{
    expect_flat(state, "", churn_matches);
}

static void churn_rows(struct world *world, unsigned round, unsigned count)
{
    if (round == 0)
        EXPECT(world, world_call(world, "Tally.OpenPublisher", "{" PUBLISHER "}").error == NULL);
    for (unsigned i = 0; i < count; i++) {
        unsigned number = round * count + i + 1;
        EXPECT(world, world_call(world, "Tally.Publish",
                                 "{" PUBLISHER ",'Batch':%u,'ConfirmedBatch':%u,'Rows':[{'Id':%u,'Uid':"
                                 "'00000000-0000-4000-8000-%012u','QueueUrl':'churn','MessageBody':'x'}]}",
                                 number, number - 1, number, number)
                              .error == NULL);
    }
    delete_all(world, "churn");
    world_pass_time(world, 15 * MINUTE_MS);
    EXPECT(world, core_metrics(world_core(world)).published_rows <= 1);
}

static void confirmed_rows_end_after_ten_minutes(void **state)
{
    expect_flat(state, "", churn_rows);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static void there_are_ten_thousand_schedules_at_most(void **state)
{
    struct world *world = sqs_open(state);
    static const char put[] = "{'Name':'s%u','Cron':'0 0 1 1 *','QueueUrl':'q','MessageBody':'x'}";
    for (unsigned i = 0; i < SCHEDULES_MAX; i++) {
        EXPECT(world, world_call(world, "Tally.PutSchedule", put, i).error == NULL);
        if (i % 100 == 0)
            world_forget(world);
    }
    EXPECT(world, answer_fails(world_call(world, "Tally.PutSchedule", put, SCHEDULES_MAX), "OverLimit"));
    EXPECT(world, world_call(world, "Tally.PutSchedule", put, 1).error == NULL);
    EXPECT(world, world_call(world, "Tally.DeleteSchedule", "{'Name':'s1'}").error == NULL);
    EXPECT(world, world_call(world, "Tally.PutSchedule", put, SCHEDULES_MAX).error == NULL);
    sqs_close(world);
}

static void there_are_a_thousand_type_orders_at_most(void **state)
{
    struct world *world = sqs_open(state);
    static const char put[] = "{'Name':'o%u','Types':['a','b']}";
    for (unsigned i = 0; i < TYPE_ORDERS_MAX; i++)
        EXPECT(world, world_call(world, "Tally.PutTypeOrder", put, i).error == NULL);
    EXPECT(world, answer_fails(world_call(world, "Tally.PutTypeOrder", put, TYPE_ORDERS_MAX), "OverLimit"));
    EXPECT(world, world_call(world, "Tally.PutTypeOrder", put, 1).error == NULL);
    EXPECT(world, world_call(world, "Tally.DeleteTypeOrder", "{'Name':'o1'}").error == NULL);
    EXPECT(world, world_call(world, "Tally.PutTypeOrder", put, TYPE_ORDERS_MAX).error == NULL);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_adds_something_is_refused_in_words_at_its_limit),
        cmocka_unit_test(no_action_is_refused_for_memory_but_those_that_are_tried),
        cmocka_unit_test(at_the_limit_work_goes_on_and_what_ends_makes_room),
        cmocka_unit_test(at_the_limit_a_publisher_ends_messages_and_its_sends_wait),
        cmocka_unit_test(texts_about_rows_are_not_kept_above_the_reserve),
        cmocka_unit_test(what_the_server_promised_is_not_refused),
        cmocka_unit_test(a_schedule_is_late_and_not_lost),
        cmocka_unit_test(a_restart_is_not_refused_and_a_drain_makes_room),
        cmocka_unit_test(what_takes_a_little_more_than_it_gives_is_refused_an_eighth_above),
        cmocka_unit_test(texts_that_stay_are_refused_above_the_reserve),
        cmocka_unit_test(queues_that_were_deleted_leave_nothing),
        cmocka_unit_test(messages_that_ended_leave_nothing),
        cmocka_unit_test(messages_that_expired_leave_nothing),
        cmocka_unit_test(messages_that_were_purged_leave_nothing),
        cmocka_unit_test(messages_that_were_dead_letters_leave_nothing),
        cmocka_unit_test(groups_end_with_their_last_message),
        cmocka_unit_test(paused_groups_end_when_they_are_resumed),
        cmocka_unit_test(groups_with_a_rate_end_when_their_bucket_is_full),
        cmocka_unit_test(deduplication_ids_end_with_their_window),
        cmocka_unit_test(producers_end_with_their_queue),
        cmocka_unit_test(a_producer_remembers_so_many_messages_and_no_more),
        cmocka_unit_test(completed_batches_end_with_their_retention),
        cmocka_unit_test(the_order_of_batches_shrinks_with_their_number),
        cmocka_unit_test(reasons_end_with_their_message),
        cmocka_unit_test(details_end_with_their_batch),
        cmocka_unit_test(tokens_of_xor_units_end_with_their_batch),
        cmocka_unit_test(receipts_leave_nothing),
        cmocka_unit_test(receive_attempts_end_after_five_minutes),
        cmocka_unit_test(above_the_limit_a_receive_attempt_is_not_remembered),
        cmocka_unit_test(tickets_end_with_their_retention),
        cmocka_unit_test(matches_end_with_their_retention),
        cmocka_unit_test(confirmed_rows_end_after_ten_minutes),
        cmocka_unit_test(there_are_ten_thousand_schedules_at_most),
        cmocka_unit_test(there_are_a_thousand_type_orders_at_most),
    };
    return cmocka_run_group_tests_name("api: memory", tests, NULL, NULL);
}
