/* Who has a message: ListInFlight, and Holder in what shows a message. */
#include "scenario.h"

#define IDS_MAX 400

struct listed {
    char ids[IDS_MAX][WORLD_ID_SIZE];
    unsigned count;
};

static const char *member(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

static yyjson_val *first_of(struct answer answer, const char *list)
{
    return yyjson_arr_get_first(yyjson_obj_get(answer.root, list));
}

static void be(struct world *world, const char *address, const char *worker)
{
    world->address = address;
    world->worker = worker;
}

/* Appends a page; *token becomes that of the next one, "" behind the last. */
static void list_page(struct world *world, const char *filter, unsigned page, char token[300], struct listed *listed)
{
    struct answer answer = world_call(world, "Tally.ListInFlight", "{'MaxResults':%u%s%s%s%s}", page, filter,
                                      token[0] == '\0' ? "" : ",'NextToken':'", token, token[0] == '\0' ? "" : "'");
    yyjson_val *message;
    size_t index, count;
    EXPECT(world, answer.status == 200);
    yyjson_arr_foreach(yyjson_obj_get(answer.root, "Messages"), index, count, message)
    {
        EXPECT(world, listed->count < IDS_MAX);
        snprintf(listed->ids[listed->count++], WORLD_ID_SIZE, "%s", member(message, "MessageId"));
    }
    snprintf(token, 300, "%s", answer_text(answer, "NextToken"));
    world_forget(world);
}

/* Lists all in pages of that size; `filter` begins with a comma or is empty. Returns how many pages came. */
static unsigned list_all(struct world *world, const char *filter, unsigned page, struct listed *listed)
{
    char token[300] = "";
    unsigned pages = 0;
    listed->count = 0;
    do {
        list_page(world, filter, page, token, listed);
        pages++;
    } while (token[0] != '\0');
    return pages;
}

static bool is_listed_once(const struct listed *listed, const char *id)
{
    unsigned count = 0;
    for (unsigned i = 0; i < listed->count; i++)
        count += strcmp(listed->ids[i], id) == 0;
    return count == 1;
}

static struct world *open_world(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "q", "'VisibilityTimeout':'30'");
    world_create_queue(world, "other", "");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static bool is_holder(yyjson_val *holder, const char *address, const char *worker)
{
    return strcmp(member(holder, "Address"), address) == 0 && strcmp(member(holder, "Worker"), worker) == 0;
}

/* Does everything that shows the message say that this worker has it? NULL: that nobody knows who does. */
static bool all_say(struct world *world, const char *id, const char *worker)
{
    struct answer listed = world_call(world, "Tally.ListInFlight", "{}");
    struct answer messages = world_call(world, "Tally.ListMessages", "{'QueueUrl':'q'}");
    struct answer message = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    struct answer explained = world_call(world, "Tally.ExplainMessage", "{'MessageId':'%s'}", id);
    yyjson_val *const shown[] = {first_of(listed, "Messages"), first_of(messages, "Messages"), message.root,
                                 first_of(explained, "Why")};
    bool all = true;
    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++) {
        yyjson_val *holder = yyjson_obj_get(shown[i], "Holder");
        all = all && (worker == NULL ? holder == NULL : is_holder(holder, "10.0.0.2", worker));
    }
    const char *words = strstr(member(first_of(explained, "Why"), "Text"), ", held by ");
    char expected[80];
    snprintf(expected, sizeof(expected), ", held by %s (10.0.0.2).", worker == NULL ? "" : worker);
    all = all && (worker == NULL ? words == NULL : words != NULL && strcmp(words, expected) == 0);
    world_forget(world);
    return all;
}

static void send_one(struct world *world, char id[WORLD_ID_SIZE])
{
    snprintf(id, WORLD_ID_SIZE, "%s", answer_text(world_send(world, "q", NULL, "m"), "MessageId"));
}

static void what_shows_a_message_says_who_has_it(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    char id[WORLD_ID_SIZE];
    send_one(world, id);
    EXPECT(world, all_say(world, id, NULL));
    be(world, "10.0.0.2", "one");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1);
    be(world, "10.0.0.3", "reader"); /* who looks, and who changes a lease, has nothing */
    EXPECT(world, all_say(world, id, "one"));
    world_call(world, "ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':60}",
               taken.handle);
    EXPECT(world, all_say(world, id, "one"));
    world_pass_time(world, 61000);
    EXPECT(world, all_say(world, id, NULL));
    be(world, "10.0.0.2", "two");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && all_say(world, id, "two"));
    world_call(world, "ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':0}",
               taken.handle);
    EXPECT(world, all_say(world, id, NULL));
    be(world, "10.0.0.2", "three");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && all_say(world, id, "three"));
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','RetryAfterSeconds':5}", taken.handle);
    EXPECT(world, all_say(world, id, NULL));
    world_pass_time(world, 6000);
    be(world, NULL, NULL);
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && all_say(world, id, NULL));
    world_delete(world, "q", taken.handle);
    close_world(world);
}

static void the_head_of_a_group_is_shown_with_its_holder(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','ContentBasedDeduplication':'true'");
    world_call(world, "SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'a','MessageGroupId':'g'}");
    struct answer second =
        world_call(world, "SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'b','MessageGroupId':'g'}");
    be(world, "10.0.0.2", "one");
    EXPECT(world, world_take(world, "f.fifo", 30, 1, &taken) == 1);
    struct answer explained =
        world_call(world, "Tally.ExplainMessage", "{'MessageId':'%s'}", answer_text(second, "MessageId"));
    yyjson_val *why = first_of(explained, "Why");
    EXPECT(world, strcmp(member(why, "Code"), "GroupHead") == 0);
    EXPECT(world, is_holder(yyjson_obj_get(why, "Holder"), "10.0.0.2", "one"));
    close_world(world);
}

/* Who has a message is known in memory only. */
/* Do the words of what waits for the message of q say that it is there? */
static bool says_where(struct world *world, const char *waiting, const char *where)
{
    struct answer told = world_call(world, "Tally.ExplainMessage", "{'MessageId':'%s'}", waiting);
    yyjson_val *why = first_of(told, "Why");
    const char *words = strstr(member(why, "Text"), " in queue ");
    const bool says = strcmp(member(why, "Code"), "Message") == 0 && words != NULL && strstr(words, where) != NULL;
    if (!says)
        print_error("%s\n", member(why, "Text"));
    return says && strcmp(member(why, "QueueName"), "q") == 0;
}

static void what_waits_for_a_message_says_who_has_it(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    char id[WORLD_ID_SIZE], waiting[WORLD_ID_SIZE];
    snprintf(id, sizeof(id), "%s",
             answer_text(world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'m','DelaySeconds':10}"),
                         "MessageId"));
    struct answer sent = world_call(world, "SendMessage",
                                    "{'QueueUrl':'other','MessageBody':'m','MessageAttributes':{'Tally.After':{"
                                    "'DataType':'String','StringValue':'message:%s'}}}",
                                    id);
    snprintf(waiting, sizeof(waiting), "%s", answer_text(sent, "MessageId"));
    EXPECT(world, says_where(world, waiting, " in queue q, which is delayed until "));
    world_pass_time(world, 10000);
    EXPECT(world, says_where(world, waiting, " in queue q, which is ready."));
    world_call(world, "Tally.PauseQueue", "{'QueueUrl':'q'}");
    EXPECT(world, says_where(world, waiting, " in queue q, which is blocked."));
    world_call(world, "Tally.ResumeQueue", "{'QueueUrl':'q'}");
    be(world, "10.0.0.2", "one");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1);
    EXPECT(world, says_where(world, waiting, " in queue q, which is in flight since "));
    EXPECT(world, says_where(world, waiting, "Z, held by one (10.0.0.2)."));
    struct answer told = world_call(world, "Tally.ExplainMessage", "{'MessageId':'%s'}", waiting);
    EXPECT(world, is_holder(yyjson_obj_get(first_of(told, "Why"), "Holder"), "10.0.0.2", "one"));
    EXPECT(world, yyjson_obj_get(first_of(told, "Why"), "Until") != NULL); /* that of the other */
    close_world(world);
}

static void a_restart_forgets_who_has_what_and_nothing_else(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    char id[WORLD_ID_SIZE];
    send_one(world, id);
    be(world, "10.0.0.2", "one");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && all_say(world, id, "one"));
    world_kill(world);
    EXPECT(world, all_say(world, id, NULL));
    struct answer answer = world_call(world, "Tally.ListInFlight", "{}");
    yyjson_val *message = first_of(answer, "Messages");
    EXPECT(world, strcmp(member(message, "MessageId"), id) == 0);
    EXPECT(world, yyjson_get_uint(yyjson_obj_get(message, "FencingToken")) == 1);
    EXPECT(world, yyjson_get_uint(yyjson_obj_get(message, "ReceiveCount")) == 1);
    EXPECT(world, yyjson_get_num(yyjson_obj_get(message, "VisibleAt")) >
                      yyjson_get_num(yyjson_obj_get(message, "ReceivedAt")));
    world_delete(world, "q", taken.handle);
    close_world(world);
}

/* `count` messages in each queue, of which every second one is in flight. */
static void fill(struct world *world, const char *const *queues, size_t queue_count, unsigned count,
                 struct listed *in_flight)
{
    struct taken taken[10];
    in_flight->count = 0;
    for (size_t q = 0; q < queue_count; q++) {
        world_create_queue(world, queues[q], "");
        for (unsigned i = 0; i < count; i++)
            world_send(world, queues[q], NULL, "m");
        for (unsigned left = count / 2; left > 0; left--) {
            be(world, "10.0.0.2", left % 2 == 0 ? "even" : "odd");
            EXPECT(world, world_take(world, queues[q], 40000, 1, taken) == 1);
            snprintf(in_flight->ids[in_flight->count++], WORLD_ID_SIZE, "%s", taken[0].id);
        }
        world_forget(world);
    }
    be(world, NULL, NULL);
}

static void each_message_in_flight_is_listed_once_queue_by_queue(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const char *const queues[] = {"a", "b", "c", "z"};
    static struct listed in_flight, listed;
    const unsigned sizes[] = {1, 2, 7, 1000};
    fill(world, queues, ARRAY_LENGTH(queues), 24, &in_flight);
    EXPECT(world, in_flight.count == 48);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        EXPECT(world, list_all(world, "", sizes[i], &listed) <= 48 / sizes[i] + 1);
        EXPECT(world, listed.count == in_flight.count);
        for (unsigned k = 0; k < in_flight.count; k++) /* by name, and in each the oldest first */
            EXPECT(world, strcmp(listed.ids[k], in_flight.ids[k]) == 0);
    }
    static const struct {
        const char *filter;
        unsigned count;
    } rows[] = {{",'QueueUrl':'b'", 12},
                {",'Worker':'even'", 24},
                {",'QueueUrl':'z','Worker':'odd'", 6},
                {",'Worker':'even','AccessKeyId':'AKIA'", 0},
                {",'Worker':''", 0}};
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        list_all(world, rows[i].filter, 5, &listed);
        EXPECT(world, listed.count == rows[i].count);
    }
    close_world(world);
}

/* What is in flight from the first page to the last is listed once, whatever ends meanwhile. */
static void a_list_goes_on_where_leases_have_ended(void **state)
{
    (void)state;
    static const char *const queues[] = {"a", "b", "c"};
    static struct listed in_flight, listed;
    for (unsigned page = 1; page < 14; page += 3) {
        struct world *world = open_world();
        struct taken taken[10] = {{.handle = ""}};
        char token[300] = "";
        fill(world, queues, ARRAY_LENGTH(queues), 20, &in_flight);
        listed.count = 0;
        do {
            list_page(world, "", page, token, &listed);
            /* Others come, and end at once. */
            EXPECT(world, world_take(world, "b", 40000, 1, taken) <= 1);
            if (taken[0].handle[0] != '\0' && listed.count % 2 == 0)
                world_delete(world, "b", taken[0].handle);
            world_call(world, "DeleteQueue", "{'QueueUrl':'a'}");
            world_forget(world);
        } while (token[0] != '\0');
        for (unsigned i = 0; i < listed.count; i++)
            EXPECT(world, is_listed_once(&listed, listed.ids[i]));
        for (unsigned i = 10; i < in_flight.count; i++)
            EXPECT(world, is_listed_once(&listed, in_flight.ids[i]));
        close_world(world);
    }
}

/* A queue in which nothing is in flight behind the first messages is not walked to its end. */
static void the_last_in_flight_ends_the_list(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken[3];
    for (unsigned i = 0; i < 12000; i++) {
        world_send(world, "q", NULL, "m");
        if (i % 1000 == 0)
            world_forget(world);
    }
    EXPECT(world, world_take(world, "q", 40000, 3, taken) == 3);
    struct answer answer = world_call(world, "Tally.ListInFlight", "{}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Messages")) == 3 && !answer_has(answer, "NextToken"));
    close_world(world);
}

/* One call looks at 10,000 messages and queues at most. */
static void a_page_looks_at_so_many_and_goes_on(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct listed listed;
    struct taken taken;
    for (unsigned i = 0; i < 12000; i++) {
        world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'late','DelaySeconds':900}");
        if (i % 1000 == 0)
            world_forget(world);
    }
    world_send(world, "q", NULL, "now");
    EXPECT(world, world_take(world, "q", 40000, 1, &taken) == 1);
    struct answer answer = world_call(world, "Tally.ListInFlight", "{}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Messages")) == 0 && answer_has(answer, "NextToken"));
    EXPECT(world, list_all(world, "", 10, &listed) == 2);
    EXPECT(world, listed.count == 1 && strcmp(listed.ids[0], taken.id) == 0);
    close_world(world);
}

/* With the memory full a receive goes on, and only who it was for stays unknown. */
static void a_full_memory_takes_no_new_names(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    char id[WORLD_ID_SIZE];
    send_one(world, id);
    world->options.memory_max = 1;
    world_stop(world, false);
    world_start(world);
    be(world, "10.0.0.2", "one");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && all_say(world, id, NULL));
    world->options.memory_max = 0;
    world_stop(world, false);
    world_start(world);
    world_pass_time(world, 31000);
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && all_say(world, id, "one"));
    close_world(world);
}

static void what_is_no_request_is_refused(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const struct {
        const char *members;
        const char *error;
    } rows[] = {
        {"'QueueUrl':'none'", "QueueDoesNotExist"},
        {"'MaxResults':0", "InvalidParameterValueException"},
        {"'MaxResults':1001", "InvalidParameterValueException"},
        {"'Worker':1", "SerializationException"},
        {"'AccessKeyId':[]", "SerializationException"},
        {"'NextToken':''", "InvalidParameterValueException"},
        {"'NextToken':'71.0.0.0'", "InvalidParameterValueException"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct answer answer = world_call(world, "Tally.ListInFlight", "{%s}", rows[i].members);
        if (!answer_fails(answer, rows[i].error))
            print_error("%s: %s\n", rows[i].members, answer.error == NULL ? "taken" : answer.error);
        EXPECT(world, answer_fails(answer, rows[i].error));
    }
    struct taken taken[2];
    world_send(world, "other", NULL, "m");
    world_send(world, "other", NULL, "m");
    EXPECT(world, world_take(world, "other", 30, 2, taken) == 2);
    struct answer page = world_call(world, "Tally.ListInFlight", "{'QueueUrl':'other','MaxResults':1}");
    EXPECT(world, answer_has(page, "NextToken"));
    struct answer other =
        world_call(world, "Tally.ListInFlight", "{'QueueUrl':'q','NextToken':'%s'}", answer_text(page, "NextToken"));
    EXPECT(world, answer_fails(other, "InvalidParameterValueException"));
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_shows_a_message_says_who_has_it),
        cmocka_unit_test(the_head_of_a_group_is_shown_with_its_holder),
        cmocka_unit_test(what_waits_for_a_message_says_who_has_it),
        cmocka_unit_test(a_restart_forgets_who_has_what_and_nothing_else),
        cmocka_unit_test(each_message_in_flight_is_listed_once_queue_by_queue),
        cmocka_unit_test(a_list_goes_on_where_leases_have_ended),
        cmocka_unit_test(the_last_in_flight_ends_the_list),
        cmocka_unit_test(a_page_looks_at_so_many_and_goes_on),
        cmocka_unit_test(a_full_memory_takes_no_new_names),
        cmocka_unit_test(what_is_no_request_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
