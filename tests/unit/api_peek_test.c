/* ListMessages, GetMessage and ListQueueStats: every message once, oldest first, whatever ends between two pages; and
 * looking changes nothing. */
#include "engine/namespace.h"
#include "scenario.h"

#define MESSAGES_MAX 400

struct seen {
    char ids[MESSAGES_MAX][WORLD_ID_SIZE];
    unsigned count;
};

static const char *member(yyjson_val *message, const char *name)
{
    const char *text = yyjson_get_str(yyjson_obj_get(message, name));
    return text == NULL ? "" : text;
}

/* Appends a page from *token on, and sets it to that of the next one, "" behind the last. Returns how many came. */
static unsigned list_page(struct world *world, const char *queue, const char *filter, unsigned page, char token[80],
                          struct seen *seen)
{
    struct answer answer =
        world_call(world, "Tally.ListMessages", "{'QueueUrl':'%s'%s,'MaxResults':%u%s%s%s}", queue, filter, page,
                   token[0] == '\0' ? "" : ",'NextToken':'", token, token[0] == '\0' ? "" : "'");
    EXPECT(world, answer.status == 200);
    yyjson_val *messages = yyjson_obj_get(answer.root, "Messages"), *message;
    size_t index, count;
    yyjson_arr_foreach(messages, index, count, message)
    {
        EXPECT(world, seen->count < MESSAGES_MAX);
        snprintf(seen->ids[seen->count++], WORLD_ID_SIZE, "%s", member(message, "MessageId"));
    }
    snprintf(token, 80, "%s", answer_text(answer, "NextToken"));
    const unsigned came = (unsigned)count;
    world_forget(world);
    return came;
}

static void list_all(struct world *world, const char *queue, const char *filter, unsigned page, struct seen *seen)
{
    char token[80] = "";
    seen->count = 0;
    do
        (void)list_page(world, queue, filter, page, token, seen);
    while (token[0] != '\0');
    char last[80] = "";
    static struct seen all;
    all.count = 0;
    if (filter[0] == '\0' && seen->count > 0) /* a page that ends with the last message is the last */
        EXPECT(world, list_page(world, queue, "", seen->count, last, &all) == seen->count && last[0] == '\0');
}

static bool is_among(const struct seen *seen, const char *id)
{
    unsigned count = 0;
    for (unsigned i = 0; i < seen->count; i++)
        count += strcmp(seen->ids[i], id) == 0;
    assert_true(count <= 1);
    return count == 1;
}

static struct world *open_world(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q",
                       "'VisibilityTimeout':'5','RedrivePolicy':'{\\\"deadLetterTargetArn\\\":\\\"arn:aws:sqs:"
                       "us-east-1:000000000000:dead\\\",\\\"maxReceiveCount\\\":1}'");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

/* Sends `count` messages to each of the two queues in turn; half of those of `q` then fail, and stand between the
 * others. */
static void fill(struct world *world, unsigned count, struct seen *sent_dead, struct seen *sent_q)
{
    struct taken taken[10];
    sent_dead->count = sent_q->count = 0;
    for (unsigned i = 0; i < count; i++) {
        struct answer q = world_send(world, "q", NULL, "q"), dead = world_send(world, "dead", NULL, "dead");
        snprintf(sent_q->ids[sent_q->count++], WORLD_ID_SIZE, "%s", answer_text(q, "MessageId"));
        snprintf(sent_dead->ids[sent_dead->count++], WORLD_ID_SIZE, "%s", answer_text(dead, "MessageId"));
        world->now_ms += 7;
        world_forget(world);
    }
    for (unsigned left = count / 2; left > 0;) {
        const unsigned taken_count = world_take(world, "q", 5, left < 10 ? left : 10, taken);
        EXPECT(world, taken_count > 0);
        left -= taken_count;
    }
    world_pass_time(world, 6000);
    (void)world_take(world, "q", 0, 1, taken); /* meets those that have no attempt left */
    world_forget(world);
}

static void every_message_is_listed_once_and_the_oldest_first(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct seen sent_dead, sent_q, seen;
    const unsigned sizes[] = {1, 2, 3, 7, 1000};
    fill(world, 60, &sent_dead, &sent_q);
    EXPECT(world, world_count_messages(world, "dead") > 60);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint64_t before = 0;
        list_all(world, "dead", "", sizes[i], &seen);
        EXPECT(world, seen.count == world_count_messages(world, "dead"));
        for (unsigned k = 0; k < sent_dead.count; k++)
            EXPECT(world, is_among(&seen, sent_dead.ids[k]));
        for (unsigned k = 0; k < seen.count; k++) {
            struct answer one = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", seen.ids[k]);
            const uint64_t sent_ms = (uint64_t)(yyjson_get_num(yyjson_obj_get(one.root, "SentAt")) * 1000 + 0.5);
            EXPECT(world, sent_ms >= before && strcmp(answer_text(one, "State"), "ready") == 0);
            before = sent_ms;
            world_forget(world);
        }
    }
    close_world(world);
}

/* Whatever has ended between two pages: what was there before and after is listed once. */
static void a_list_goes_on_where_messages_have_ended(void **state)
{
    (void)state;
    static struct seen sent_dead, sent_q, seen, left;
    for (unsigned page = 1; page < 40; page += 6) {
        struct world *world = open_world();
        char token[80] = "";
        fill(world, 40, &sent_dead, &sent_q);
        seen.count = 0;
        while (list_page(world, "dead", "", page, token, &seen) > 0 && token[0] != '\0') {
            struct taken taken[10];
            const unsigned count = world_take(world, "dead", 30, page % 10 + 1, taken); /* the oldest, and some newer */
            for (unsigned i = 0; i < count; i++)
                world_delete(world, "dead", taken[i].handle);
            world_forget(world);
        }
        list_all(world, "dead", "", 1000, &left);
        for (unsigned i = 0; i < left.count; i++)
            EXPECT(world, is_among(&seen, left.ids[i]));
        for (unsigned i = 0; i < seen.count; i++)
            EXPECT(world, is_among(&seen, seen.ids[i]));
        close_world(world);
    }
}

/* All around the place are gone, and far behind it there are more: looking for them takes several pages. */
static void a_list_finds_what_is_far_behind_its_place(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct seen seen;
    char token[80] = "";
    struct taken taken[2];
    const unsigned others = 25000;
    world_send(world, "q", NULL, "first");
    world_send(world, "q", NULL, "second");
    for (unsigned i = 0; i < others; i++) {
        world_send(world, "dead", NULL, "other");
        if (i % 1000 == 0)
            world_forget(world);
    }
    struct answer last = world_send(world, "q", NULL, "last");
    char last_id[WORLD_ID_SIZE];
    snprintf(last_id, sizeof(last_id), "%s", answer_text(last, "MessageId"));
    EXPECT(world, list_page(world, "q", "", 2, token, &seen) == 2);
    EXPECT(world, world_take(world, "q", 30, 1, &taken[0]) == 1 && world_take(world, "q", 30, 1, &taken[1]) == 1);
    world_delete(world, "q", taken[1].handle); /* that of the place; the first stays */
    unsigned pages = 0;
    while (token[0] != '\0') {
        (void)list_page(world, "q", "", 2, token, &seen);
        pages++;
    }
    EXPECT(world, seen.count == 3 && strcmp(seen.ids[2], last_id) == 0);
    EXPECT(world, pages > 1 && pages < 6);
    close_world(world);
}

static void a_filter_gives_what_explain_message_says(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct seen all, some;
    static const char *const states[] = {"ready", "delayed", "in-flight", "blocked", "held"};
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','ContentBasedDeduplication':'true'");
    for (unsigned i = 0; i < 12; i++)
        world_call(world, "SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m%u','MessageGroupId':'g%u'}", i, i % 4);
    world_call(world, "SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'late','MessageGroupId':'late'}");
    EXPECT(world, world_take(world, "f.fifo", 30, 1, &taken) == 1);
    world_call(world, "Tally.PauseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'g2'}");
    world_send(world, "q", NULL, "plain");
    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'delayed','DelaySeconds':60}");
    const char *const queues[] = {"q", "f.fifo"};
    for (size_t q = 0; q < ARRAY_LENGTH(queues); q++) {
        unsigned count = 0;
        list_all(world, queues[q], "", 5, &all);
        for (size_t s = 0; s < ARRAY_LENGTH(states); s++) {
            char filter[40];
            snprintf(filter, sizeof(filter), ",'State':'%s'", states[s]);
            list_all(world, queues[q], filter, 2, &some);
            for (unsigned i = 0; i < some.count; i++) {
                struct answer answer = world_call(world, "Tally.ExplainMessage", "{'MessageId':'%s'}", some.ids[i]);
                EXPECT(world, strcmp(answer_text(answer, "State"), states[s]) == 0);
            }
            count += some.count;
        }
        EXPECT(world, count == all.count);
    }
    list_all(world, "f.fifo", ",'MessageGroupId':'g1'", 1000, &some);
    EXPECT(world, some.count == 3);
    close_world(world);
}

static void a_reason_and_an_age_are_filters(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct seen seen;
    struct taken taken;
    static const char *const reasons[] = {"timeout: a", "timeout: b", "refused"};
    for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++) {
        world_send(world, "q", NULL, "m");
        EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
        world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Reason':'%s','Final':true}",
                   taken.handle, reasons[i]);
        world_pass_time(world, 10000);
    }
    list_all(world, "dead", ",'Reason':'timeout'", 1, &seen);
    EXPECT(world, seen.count == 2);
    list_all(world, "dead", ",'Reason':'timeout: b'", 1, &seen);
    EXPECT(world, seen.count == 1);
    list_all(world, "dead", ",'OlderThan':15", 1, &seen);
    EXPECT(world, seen.count == 2);
    close_world(world);
}

static void looking_changes_nothing(void **state)
{
    (void)state;
    struct world *world = open_world();
    static struct seen sent_dead, sent_q, seen;
    struct buffer before, after;
    buffer_init(&before);
    buffer_init(&after);
    fill(world, 30, &sent_dead, &sent_q);
    const uint64_t end = namespace_end(world->ns);
    world_encode(world_core(world), &before);
    list_all(world, "dead", ",'Body':'full'", 3, &seen);
    list_all(world, "q", ",'Body':'preview','State':'ready'", 3, &seen);
    for (unsigned i = 0; i < seen.count; i++)
        world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", seen.ids[i]);
    world_encode(world_core(world), &after);
    EXPECT(world, bytes_equal(buffer_bytes(&before), buffer_bytes(&after)));
    EXPECT(world, namespace_end(world->ns) == end);
    buffer_deinit(&before);
    buffer_deinit(&after);
    close_world(world);
}

static void a_page_of_bodies_ends_at_a_mebibyte(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    static struct seen seen;
    static char body[100001], euro[400];
    char token[80] = "";
    memset(body, 'b', sizeof(body) - 1);
    for (unsigned i = 0; i < 255 / 3 + 20; i++)
        memcpy(euro + (size_t)3 * i, "\xe2\x82\xac", 3);
    world_create_queue(world, "q", "");
    for (unsigned i = 0; i < 12; i++)
        world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%s'}", body);
    EXPECT(world, list_page(world, "q", ",'Body':'full'", 1000, token, &seen) == 10);
    EXPECT(world, list_page(world, "q", "", 1000, token, &seen) == 2);
    EXPECT(world, token[0] == '\0');
    struct answer sent = world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%s'}", euro);
    struct answer whole = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", answer_text(sent, "MessageId"));
    struct answer cut =
        world_call(world, "Tally.GetMessage", "{'MessageId':'%s','Body':'preview'}", answer_text(sent, "MessageId"));
    EXPECT(world, strcmp(answer_text(whole, "Body"), euro) == 0 && answer_number(cut, "BodySize") == strlen(euro));
    EXPECT(world, strlen(answer_text(cut, "Body")) == 255 && memcmp(answer_text(cut, "Body"), euro, 255) == 0);
    close_world(world);
}

static void a_page_of_long_reasons_ends_at_a_mebibyte(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    static struct seen seen;
    char reason[2001], token[80] = "";
    struct taken taken[10];
    unsigned came;
    for (unsigned i = 0; i < 1000; i++)
        memcpy(reason + (size_t)2 * i, "\\\"", 2);
    reason[2000] = '\0';
    world_create_queue(world, "q", "");
    for (unsigned i = 0; i < 250; i++)
        world_send(world, "q", NULL, "m");
    while ((came = world_take(world, "q", 5, 10, taken)) > 0)
        for (unsigned i = 0; i < came; i++)
            world_call(world, "Tally.FailMessage",
                       "{'QueueUrl':'q','ReceiptHandle':'%s','Reason':'%s','RetryAfterSeconds':1000}", taken[i].handle,
                       reason);
    const unsigned first = list_page(world, "q", "", 1000, token, &seen);
    EXPECT(world, first > 100 && first < 200 && token[0] != '\0');
    EXPECT(world, list_page(world, "q", "", 1000, token, &seen) > 50 && token[0] == '\0');
    close_world(world);
}

static void what_is_gone_has_no_body_but_its_end(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    struct answer sent = world_send(world, "q", NULL, "m");
    char id[WORLD_ID_SIZE];
    snprintf(id, sizeof(id), "%s", answer_text(sent, "MessageId"));
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    world_delete(world, "q", taken.handle);
    struct answer gone = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, strcmp(answer_text(gone, "State"), "ended") == 0 && !answer_has(gone, "Body"));
    struct answer never = world_call(world, "Tally.GetMessage", "{'MessageId':'no id'}");
    EXPECT(world, strcmp(answer_text(never, "State"), "unknown") == 0);
    struct answer purged = world_send(world, "q", NULL, "m");
    snprintf(id, sizeof(id), "%s", answer_text(purged, "MessageId"));
    world_call(world, "PurgeQueue", "{'QueueUrl':'q'}");
    gone = world_call(world, "Tally.GetMessage", "{'MessageId':'%s'}", id);
    EXPECT(world, strcmp(answer_text(gone, "State"), "ended") == 0 && !answer_has(gone, "Body"));
    close_world(world);
}

static void the_stats_of_queues_are_those_of_their_attributes(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','ContentBasedDeduplication':'true'");
    world_call(world, "SendMessage", "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g'}");
    world_call(world, "Tally.PauseQueue", "{'QueueUrl':'f.fifo'}");
    for (unsigned i = 0; i < 4; i++)
        world_send(world, "q", NULL, "m");
    world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'late','DelaySeconds':60}");
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1);
    world_pass_time(world, 3500);
    struct answer answer = world_call(world, "Tally.ListQueueStats", "{'MaxResults':2}");
    yyjson_val *queues = yyjson_obj_get(answer.root, "Queues");
    EXPECT(world, yyjson_arr_size(queues) == 2 && answer_has(answer, "NextToken"));
    EXPECT(world, strcmp(member(yyjson_arr_get(queues, 0), "QueueName"), "dead") == 0);
    EXPECT(world, yyjson_obj_get(yyjson_arr_get(queues, 0), "OldestMessageAge") == NULL);
    yyjson_val *paused = yyjson_arr_get(queues, 1);
    EXPECT(world,
           yyjson_get_bool(yyjson_obj_get(paused, "Paused")) && yyjson_get_uint(yyjson_obj_get(paused, "Groups")) == 1);
    answer = world_call(world, "Tally.ListQueueStats", "{'NextToken':'%s'}", answer_text(answer, "NextToken"));
    yyjson_val *last = yyjson_arr_get(yyjson_obj_get(answer.root, "Queues"), 0);
    static const struct {
        const char *name;
        uint64_t value;
    } members[] = {{"Visible", 3}, {"InFlight", 1}, {"Delayed", 1}, {"OldestMessageAge", 3}, {"WaitingReceives", 0}};
    for (size_t i = 0; i < ARRAY_LENGTH(members); i++)
        EXPECT(world, yyjson_get_uint(yyjson_obj_get(last, members[i].name)) == members[i].value);
    EXPECT(world, strcmp(member(last, "DeadLetterQueue"), "dead") == 0);
    close_world(world);
}

static void what_is_no_filter_is_refused(void **state)
{
    (void)state;
    struct world *world = open_world();
    static const struct {
        const char *filter;
        const char *error;
    } rows[] = {
        {"'State':'ended'", "InvalidParameterValueException"},
        {"'State':'Ready'", "InvalidParameterValueException"},
        {"'Body':'half'", "InvalidParameterValueException"},
        {"'MaxResults':0", "InvalidParameterValueException"},
        {"'MaxResults':1001", "InvalidParameterValueException"},
        {"'NextToken':''", "InvalidParameterValueException"},
        {"'NextToken':'1.2.3'", "InvalidParameterValueException"},
        {"'OlderThan':-1", "InvalidParameterValueException"},
        {"'BatchId':'none'", "BatchDoesNotExist"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct answer answer = world_call(world, "Tally.ListMessages", "{'QueueUrl':'q',%s}", rows[i].filter);
        if (!answer_fails(answer, rows[i].error))
            print_error("%s: %s\n", rows[i].filter, answer.error == NULL ? "taken" : answer.error);
        EXPECT(world, answer_fails(answer, rows[i].error));
    }
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_listed_once_and_the_oldest_first),
        cmocka_unit_test(a_list_goes_on_where_messages_have_ended),
        cmocka_unit_test(a_list_finds_what_is_far_behind_its_place),
        cmocka_unit_test(a_filter_gives_what_explain_message_says),
        cmocka_unit_test(a_reason_and_an_age_are_filters),
        cmocka_unit_test(looking_changes_nothing),
        cmocka_unit_test(a_page_of_bodies_ends_at_a_mebibyte),
        cmocka_unit_test(a_page_of_long_reasons_ends_at_a_mebibyte),
        cmocka_unit_test(what_is_gone_has_no_body_but_its_end),
        cmocka_unit_test(the_stats_of_queues_are_those_of_their_attributes),
        cmocka_unit_test(what_is_no_filter_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
