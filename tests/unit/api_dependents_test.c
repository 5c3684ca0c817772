/* ListDependents: what waits for a message or a batch, whatever ends between two pages. */
#include "scenario.h"

#define IDS_MAX 200

struct listed {
    char ids[IDS_MAX][WORLD_ID_SIZE];
    unsigned count;
};

static const char *member(yyjson_val *object, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(object, name));
    return text == NULL ? "" : text;
}

/* Sends a message to `queue` that waits for `after`. */
static void send_after(struct world *world, const char *queue, const char *after, const char *policy,
                       struct listed *sent)
{
    struct answer answer =
        world_call(world, "SendMessage",
                   "{'QueueUrl':'%s','MessageBody':'m','MessageAttributes':{'Tally.After':{'DataType':'String',"
                   "'StringValue':'%s'},'Tally.AfterFailure':{'DataType':'String','StringValue':'%s'}}}",
                   queue, after, policy);
    EXPECT(world, answer.status == 200);
    snprintf(sent->ids[sent->count++], WORLD_ID_SIZE, "%s", answer_text(answer, "MessageId"));
}

/* Appends a page; *token becomes that of the next one, "" behind the last. */
static void list_page(struct world *world, const char *of, unsigned page, char token[80], const char *state,
                      struct listed *listed)
{
    struct answer answer = world_call(world, "Tally.ListDependents", "{%s,'MaxResults':%u%s%s%s}", of, page,
                                      token[0] == '\0' ? "" : ",'NextToken':'", token, token[0] == '\0' ? "" : "'");
    yyjson_val *dependent;
    size_t index, count;
    EXPECT(world, answer.status == 200);
    yyjson_arr_foreach(yyjson_obj_get(answer.root, "Dependents"), index, count, dependent)
    {
        EXPECT(world, state == NULL || strcmp(member(dependent, "State"), state) == 0);
        EXPECT(world, strstr(member(dependent, "QueueUrl"), "/000000000000/") != NULL);
        EXPECT(world, listed->count < IDS_MAX);
        snprintf(listed->ids[listed->count++], WORLD_ID_SIZE, "%s", member(dependent, "MessageId"));
    }
    EXPECT(world, count <= page);
    snprintf(token, 80, "%s", answer_text(answer, "NextToken"));
    world_forget(world);
}

static void list_all(struct world *world, const char *of, unsigned page, const char *state, struct listed *listed)
{
    char token[80] = "";
    listed->count = 0;
    do
        list_page(world, of, page, token, state, listed);
    while (token[0] != '\0');
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
    world_create_queue(world, "first", "");
    world_create_queue(world, "a", "");
    world_create_queue(world, "b", "");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

/* Sends what the others wait for; *of and *after name it in requests. */
static void send_first(struct world *world, char of[80], char after[80])
{
    struct answer answer = world_send(world, "first", NULL, "m");
    snprintf(of, 80, "'MessageId':'%s'", answer_text(answer, "MessageId"));
    snprintf(after, 80, "message:%s", answer_text(answer, "MessageId"));
}

static void fail_first(struct world *world)
{
    struct taken taken;
    EXPECT(world, world_take(world, "first", 30, 1, &taken) == 1);
    world_call(world, "Tally.FailMessage", "{'QueueUrl':'first','ReceiptHandle':'%s','Final':true}", taken.handle);
    world_pass_time(world, 1000);
}

static void what_waits_is_listed_once_in_the_order_of_the_sends(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct listed sent, listed;
    char of[80], after[80];
    const unsigned sizes[] = {1, 3, 10, 1000};
    send_first(world, of, after);
    list_all(world, of, 10, NULL, &listed);
    EXPECT(world, listed.count == 0);
    sent.count = 0;
    for (unsigned i = 0; i < 30; i++)
        send_after(world, i % 2 == 0 ? "a" : "b", after, "run", &sent);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        list_all(world, of, sizes[i], "blocked", &listed);
        EXPECT(world, listed.count == 30);
        for (unsigned k = 0; k < 30; k++)
            EXPECT(world, strcmp(listed.ids[k], sent.ids[k]) == 0);
    }
    struct taken taken;
    EXPECT(world, world_take(world, "first", 30, 1, &taken) == 1);
    world_delete(world, "first", taken.handle);
    world_pass_time(world, 1000);
    list_all(world, of, 10, NULL, &listed);
    EXPECT(world, listed.count == 0);
    close_world(world);
}

static void what_is_held_is_listed_too(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct listed sent, listed;
    char of[80], after[80];
    send_first(world, of, after);
    sent.count = 0;
    for (unsigned i = 0; i < 12; i++)
        send_after(world, "a", after, i % 3 == 0 ? "run" : "hold", &sent);
    fail_first(world);
    for (unsigned page = 1; page < 10; page += 4) {
        list_all(world, of, page, "held", &listed);
        EXPECT(world, listed.count == 8);
        for (unsigned i = 0; i < 12; i++)
            EXPECT(world, is_listed_once(&listed, sent.ids[i]) == (i % 3 != 0));
    }
    close_world(world);
}

static void what_waits_for_a_batch_is_listed(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct listed sent, listed;
    world_call(world, "Tally.CreateBatch", "{'BatchId':'x'}");
    sent.count = 0;
    for (unsigned i = 0; i < 3; i++)
        send_after(world, "a", "batch:x", "cancel", &sent);
    list_all(world, "'BatchId':'x'", 2, "blocked", &listed);
    EXPECT(world, listed.count == 3 && strcmp(listed.ids[2], sent.ids[2]) == 0);
    close_world(world);
}

/* The dependent of the place is purged, and so are others; what stays from the first page to the last is listed
 * once. */
static void a_list_goes_on_where_dependents_have_ended(void **state)
{
    (void)state;
    static struct listed sent, listed;
    for (unsigned page = 1; page < 12; page += 2) {
        struct world *world = open_world();
        char of[80], after[80], token[80] = "";
        send_first(world, of, after);
        sent.count = listed.count = 0;
        for (unsigned i = 0; i < 40; i++)
            send_after(world, i % 2 == 0 ? "a" : "b", after, "hold", &sent);
        do {
            list_page(world, of, page, token, NULL, &listed);
            world_call(world, "PurgeQueue", "{'QueueUrl':'a'}");
            world_pass_time(world, 1000);
        } while (token[0] != '\0');
        for (unsigned i = 0; i < listed.count; i++)
            EXPECT(world, is_listed_once(&listed, listed.ids[i]));
        for (unsigned i = 1; i < 40; i += 2)
            EXPECT(world, is_listed_once(&listed, sent.ids[i]));
        close_world(world);
    }
}

/* The one of the place has gone, and between it and the next there are many numbers. */
static void a_list_finds_what_is_far_behind_its_place(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct listed sent, listed;
    char of[80], after[80], token[80] = "";
    unsigned pages = 0;
    send_first(world, of, after);
    sent.count = listed.count = 0;
    send_after(world, "a", after, "run", &sent);
    send_after(world, "b", after, "run", &sent);
    for (unsigned i = 0; i < 25000; i++) {
        world_send(world, "first", NULL, "other");
        if (i % 1000 == 0)
            world_forget(world);
    }
    send_after(world, "a", after, "run", &sent);
    list_page(world, of, 2, token, NULL, &listed);
    EXPECT(world, listed.count == 2);
    world_call(world, "DeleteQueue", "{'QueueUrl':'b'}");
    world_pass_time(world, 1000);
    for (; token[0] != '\0'; pages++)
        list_page(world, of, 2, token, NULL, &listed);
    EXPECT(world, listed.count == 3 && strcmp(listed.ids[2], sent.ids[2]) == 0);
    EXPECT(world, pages > 1 && pages < 6);
    close_world(world);
}

/* All of those before the place are told while it is listed: those behind it are not missed. */
static void a_list_goes_on_while_dependents_are_told(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct listed sent, listed;
    char of[80], after[80], token[80] = "";
    send_first(world, of, after);
    sent.count = listed.count = 0;
    for (unsigned i = 0; i < 20; i++)
        send_after(world, "a", after, "hold", &sent);
    list_page(world, of, 7, token, "blocked", &listed);
    fail_first(world);
    while (token[0] != '\0')
        list_page(world, of, 7, token, "held", &listed);
    for (unsigned i = 7; i < 20; i++)
        EXPECT(world, is_listed_once(&listed, sent.ids[i]));
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
        {"", "MissingRequiredParameterException"},
        {"'MessageId':'x','BatchId':'x'", "MissingRequiredParameterException"},
        {"'BatchId':'none'", "BatchDoesNotExist"},
        {"'MessageId':'x','MaxResults':0", "InvalidParameterValueException"},
        {"'MessageId':'x','NextToken':''", "InvalidParameterValueException"},
        {"'MessageId':'x','NextToken':'held.7'", "InvalidParameterValueException"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct answer answer = world_call(world, "Tally.ListDependents", "{%s}", rows[i].members);
        if (!answer_fails(answer, rows[i].error))
            print_error("%s: %s\n", rows[i].members, answer.error == NULL ? "taken" : answer.error);
        EXPECT(world, answer_fails(answer, rows[i].error));
    }
    struct answer unknown = world_call(world, "Tally.ListDependents", "{'MessageId':'x'}");
    EXPECT(world, unknown.status == 200 && yyjson_arr_size(yyjson_obj_get(unknown.root, "Dependents")) == 0);
    EXPECT(world, !answer_has(unknown, "NextToken"));
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_is_listed_once_in_the_order_of_the_sends),
        cmocka_unit_test(what_is_held_is_listed_too),
        cmocka_unit_test(what_waits_for_a_batch_is_listed),
        cmocka_unit_test(a_list_goes_on_where_dependents_have_ended),
        cmocka_unit_test(a_list_finds_what_is_far_behind_its_place),
        cmocka_unit_test(a_list_goes_on_while_dependents_are_told),
        cmocka_unit_test(what_is_no_request_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
