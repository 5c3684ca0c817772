/* FeedEvents: what people and the server did is told, in order, to those who may know it; what is kept of it is
 * bounded; and what asks for nothing costs nothing. */
#include "api/activity.h"
#include "base/accounted.h"
#include "signer.h"

static const char credentials_text[] = "OPS secret-of-OPS 000000000000 read,write,admin\n"
                                       "MINE secret-of-MINE 000000000000 read,write,admin queues=mine-*\n"
                                       "READ secret-of-READ 000000000000 read\n";

/* --- reading ------------------------------------------------------------------------------------------------------ */

static yyjson_val *events_of(struct answer answer)
{
    return yyjson_obj_get(answer.root, "Events");
}

static const char *text_of(yyjson_val *event, const char *name)
{
    return sqs_text(event, name);
}

static uint64_t number_of(yyjson_val *object, const char *name)
{
    return yyjson_get_uint(yyjson_obj_get(object, name));
}

/* The newest event has these; NULL: it has no such member. */
static void expect_newest(struct world *world, const char *action, const char *target, const char *result,
                          const char *text)
{
    struct answer answer = sqs_call(world, "Tally.FeedEvents", "{'MaxResults':1}");
    yyjson_val *event = yyjson_arr_get_last(events_of(answer));
    assert_string_equal(text_of(event, "Kind"), "audit");
    assert_string_equal(text_of(event, "Action"), action);
    assert_string_equal(text_of(event, "Target"), target);
    assert_string_equal(text_of(event, "Result"), result);
    assert_string_equal(text_of(event, "Text"), text);
    assert_int_equal(number_of(event, "Number"), number_of(answer.root, "Next"));
}

static unsigned count_events(struct world *world, const char *body)
{
    const unsigned count = (unsigned)yyjson_arr_size(events_of(sqs_call(world, "Tally.FeedEvents", body)));
    world_forget(world);
    return count;
}

/* --- what is told ------------------------------------------------------------------------------------------------- */

static void what_needs_admin_is_told_whether_it_went_well_or_not(void **state)
{
    struct world *world = sqs_open(state);
    expect_newest(world, "CreateQueue", "q", "OK", "CreateQueue q: OK");
    sqs_call(world, "Tally.PauseGroup", "{'QueueUrl':'q','MessageGroupId':'g1'}");
    expect_newest(world, "PauseGroup", "g1", "OK", "PauseGroup g1 of queue q: OK");
    sqs_call(world, "Tally.PutTypeOrder", "{'Name':'order','Types':['a','b']}");
    expect_newest(world, "PutTypeOrder", "order", "OK", "PutTypeOrder order: OK");
    sqs_expect_error(world, "DeleteQueue", "{'QueueUrl':'none'}", "QueueDoesNotExist", "");
    expect_newest(world, "DeleteQueue", "none", "QueueDoesNotExist",
                  "DeleteQueue none: QueueDoesNotExist: The specified queue does not exist. Namespace 000000000000 has "
                  "no queue 'none'.");
    sqs_close(world);
}

static void what_changes_nothing_is_not_told(void **state)
{
    struct world *world = sqs_open(state);
    const unsigned before = count_events(world, "{'After':0}");
    sqs_call(world, "CreateQueue", "{'QueueName':'q'}"); /* it is there */
    sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}");
    sqs_call(world, "ReceiveMessage", "{'QueueUrl':'q'}");
    sqs_call(world, "GetQueueAttributes", "{'QueueUrl':'q'}");
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'none','MessageBody':'x'}", "QueueDoesNotExist", "");
    assert_int_equal(count_events(world, "{'After':0}"), before);
    sqs_close(world);
}

static void events_of_the_server_and_of_all_namespaces_are_told(void **state)
{
    struct world *world = sqs_open(state);
    api_note_event(world->api, world->now_ms, "SnapshotWritten", "A snapshot was written: 7 bytes.");
    front_notice(world->front, world->now_ms, "CredentialsReloaded", "The credentials were read again.");
    struct answer answer = sqs_call(world, "Tally.FeedEvents", "{'After':0}");
    static const char *const actions[] = {"Recovered", "CreateQueue", "SnapshotWritten", "CredentialsReloaded"};
    assert_int_equal(yyjson_arr_size(events_of(answer)), ARRAY_LENGTH(actions));
    for (size_t i = 0; i < ARRAY_LENGTH(actions); i++)
        assert_string_equal(text_of(yyjson_arr_get(events_of(answer), i), "Action"), actions[i]);
    yyjson_val *event = yyjson_arr_get(events_of(answer), 2);
    assert_string_equal(text_of(event, "Kind"), "server");
    assert_string_equal(text_of(event, "Text"), "A snapshot was written: 7 bytes.");
    assert_null(yyjson_obj_get(event, "Result"));
    assert_null(yyjson_obj_get(event, "AccessKeyId"));
    sqs_close(world);
}

/* Whoever reads first still hears of it. Of many, the newest are kept. */
static void notices_wait_for_the_first_reader(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    char text[400];
    for (unsigned i = 0; i < 250; i++) {
        snprintf(text, sizeof(text), "%u %0300u", i, 0u); /* it is cut */
        front_notice(world->front, world->now_ms, "MemoryIsFull", text);
    }
    assert_int_equal(activity_memory(world->api), 0);
    struct answer answer = sqs_call(world, "Tally.FeedEvents", "{'After':0}");
    assert_int_equal(yyjson_arr_size(events_of(answer)), 101);
    assert_true(strncmp(text_of(yyjson_arr_get(events_of(answer), 1), "Text"), "150 ", 4) == 0);
    assert_true(strncmp(text_of(yyjson_arr_get_last(events_of(answer)), "Text"), "249 ", 4) == 0);
    front_notice(world->front, world->now_ms, "MemoryIsFull", "one more");
    assert_int_equal(count_events(world, "{'After':0}"), 102);
    sqs_close(world);
}

struct lines {
    char newest[2048];
    unsigned count;
};

static void take_line(void *context, const char *text)
{
    struct lines *lines = context;
    snprintf(lines->newest, sizeof(lines->newest), "%s", text);
    lines->count++;
}

static void the_operator_gets_a_line_with_who_and_from_where(void **state)
{
    (void)state;
    struct lines lines = {0};
    struct world *world = world_create(&(struct world_options){.seed = 1, .audit = take_line, .audit_context = &lines});
    struct credentials *credentials = signer_credentials(credentials_text);
    yyjson_doc *doc;
    world_create_queue(world, "q", "");
    assert_string_equal(lines.newest, "audit: CreateQueue q: OK");
    world->address = "10.0.0.7";
    sqs_call(world, "Tally.PauseQueue", "{'QueueUrl':'q'}");
    assert_string_equal(lines.newest, "audit: 10.0.0.7: PauseQueue q: OK");
    front_set_credentials(world->front, credentials);
    (void)signer_call(world, "OPS", "Tally.ResumeQueue", "{'QueueUrl':'q'}", &doc);
    yyjson_doc_free(doc);
    assert_string_equal(lines.newest, "audit: OPS from 10.0.0.7: ResumeQueue q: OK");
    (void)signer_call(world, "READ", "DeleteQueue", "{'QueueUrl':'q'}", &doc);
    yyjson_doc_free(doc);
    assert_string_equal(lines.newest,
                        "audit: READ from 10.0.0.7: DeleteQueue q: AccessDeniedException: Access is denied: the "
                        "credential READ lacks the right 'admin', which DeleteQueue needs.");
    assert_int_equal(lines.count, 4);
    struct answer answer = signer_call(world, "OPS", "Tally.FeedEvents", "{'MaxResults':1}", &doc);
    yyjson_val *event = yyjson_arr_get_first(events_of(answer));
    assert_string_equal(text_of(event, "AccessKeyId"), "READ");
    assert_string_equal(text_of(event, "Address"), "10.0.0.7");
    yyjson_doc_free(doc);
    front_set_credentials(world->front, NULL);
    sqs_close(world);
    credentials_destroy(credentials);
}

/* --- pages -------------------------------------------------------------------------------------------------------- */

static void pages_follow_each_other_and_the_newest_come_without_a_number(void **state)
{
    struct world *world = sqs_open(state);
    char body[100];
    for (unsigned i = 0; i < 10; i++) {
        snprintf(body, sizeof(body), "{'QueueUrl':'q','MessageGroupId':'g%u'}", i);
        sqs_call(world, "Tally.PauseGroup", body);
    }
    uint64_t after = 0, before = 0;
    unsigned count = 0;
    for (unsigned page = 0; page < 20; page++) {
        snprintf(body, sizeof(body), "{'After':%llu,'MaxResults':3}", (unsigned long long)after);
        struct answer answer = sqs_call(world, "Tally.FeedEvents", body);
        size_t index, size;
        yyjson_val *event;
        yyjson_arr_foreach(events_of(answer), index, size, event)
        {
            assert_true(number_of(event, "Number") > before);
            before = number_of(event, "Number");
            count++;
        }
        assert_null(yyjson_obj_get(answer.root, "Missed"));
        after = number_of(answer.root, "Next");
        if (size == 0)
            break;
    }
    assert_int_equal(count, 12); /* Recovered and CreateQueue, too */
    struct answer answer = sqs_call(world, "Tally.FeedEvents", "{'MaxResults':2}");
    assert_string_equal(text_of(yyjson_arr_get_first(events_of(answer)), "Target"), "g8");
    assert_string_equal(text_of(yyjson_arr_get_last(events_of(answer)), "Target"), "g9");
    assert_int_equal(number_of(answer.root, "Next"), after);
    sqs_close(world);
}

static void a_restart_begins_anew_and_says_so(void **state)
{
    struct world *world = sqs_open(state);
    char body[80];
    const uint64_t next = number_of(sqs_call(world, "Tally.FeedEvents", "{}").root, "Next");
    world->now_ms += 1000;
    world_stop(world, false);
    world_start(world);
    api_note_start(world->api, world->now_ms, 1234, false);
    snprintf(body, sizeof(body), "{'After':%llu}", (unsigned long long)next);
    struct answer answer = sqs_call(world, "Tally.FeedEvents", body);
    assert_true(yyjson_get_bool(yyjson_obj_get(answer.root, "Missed")));
    yyjson_val *event = yyjson_arr_get_first(events_of(answer));
    assert_int_equal(yyjson_arr_size(events_of(answer)), 1);
    assert_string_equal(text_of(event, "Text"), "The namespace was read from its log in 1.234 s.");
    assert_true(number_of(event, "Number") > next);
    /* A number that was never given here is of another life, too. */
    answer = sqs_call(world, "Tally.FeedEvents", "{'After':9007199254740991,'WaitTimeSeconds':20}");
    assert_true(yyjson_get_bool(yyjson_obj_get(answer.root, "Missed")) && yyjson_arr_size(events_of(answer)) == 1);
    sqs_close(world);
}

static void wrong_parameters_are_refused(void **state)
{
    struct world *world = sqs_open(state);
    sqs_expect_error(world, "Tally.FeedEvents", "{'After':-1}", "InvalidParameterValueException", "After");
    sqs_expect_error(world, "Tally.FeedEvents", "{'After':'x'}", "SerializationException", "After");
    sqs_expect_error(world, "Tally.FeedEvents", "{'MaxResults':0}", "InvalidParameterValueException", "1 to 1000");
    sqs_expect_error(world, "Tally.FeedEvents", "{'WaitTimeSeconds':21}", "InvalidParameterValueException", "0 to 20");
    sqs_close(world);
}

/* --- bounds ------------------------------------------------------------------------------------------------------- */

static void pause_and_resume(struct world *world, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        sqs_call(world, i % 2 == 0 ? "Tally.PauseQueue" : "Tally.ResumeQueue", "{'QueueUrl':'q'}");
        world_forget(world);
    }
}

static void the_newest_ten_thousand_are_kept(void **state)
{
    struct world *world = sqs_open(state);
    pause_and_resume(world, ACTIVITY_ITEMS_MAX + 100);
    const size_t full = activity_memory(world->api);
    pause_and_resume(world, 1000);
    assert_true(activity_memory(world->api) <= full + 1000);
    assert_int_equal(activity_of(world->api)->count, ACTIVITY_ITEMS_MAX);
    struct answer answer = sqs_call(world, "Tally.FeedEvents", "{'After':1,'MaxResults':1000}");
    assert_true(yyjson_get_bool(yyjson_obj_get(answer.root, "Missed")));
    assert_int_equal(yyjson_arr_size(events_of(answer)), 1000);
    sqs_close(world);
}

static void long_texts_are_cut_and_their_bytes_bounded(void **state)
{
    struct world *world = sqs_open(state);
    static char text[5000];
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    text[0] = 'x'; /* so that a character would be cut */
    text[1] = 'y';
    text[2] = 'z';
    text[3] = 'x';
    memmove(text + 1, text, sizeof(text) - 2);
    for (unsigned i = 0; i < 8000; i++)
        api_note_event(world->api, world->now_ms, "RelayBlocked", text);
    assert_true(activity_of(world->api)->size <= ACTIVITY_SIZE_MAX);
    assert_true(activity_of(world->api)->size > ACTIVITY_SIZE_MAX - 4096);
    struct answer answer = sqs_call(world, "Tally.FeedEvents", "{'After':0,'MaxResults':1000}");
    const size_t size = strlen(text_of(yyjson_arr_get_first(events_of(answer)), "Text"));
    assert_true(size <= ACTIVITY_TEXT_SIZE_MAX && size > ACTIVITY_TEXT_SIZE_MAX - 4);
    /* A reply of more than 1 MiB is a shorter page. */
    const size_t count = yyjson_arr_size(events_of(answer));
    assert_true(count < 1000 && count > 900);
    sqs_close(world);
}

/* There the newest take the room of the oldest. */
static void at_a_full_memory_it_does_not_grow(void **state)
{
    struct world *world = sqs_open(state);
    world->options.memory_max = accounted_in_use() / 2;
    world_stop(world, false);
    world_start(world);
    pause_and_resume(world, 10);
    const size_t before = activity_memory(world->api);
    pause_and_resume(world, 1000);
    assert_true(activity_memory(world->api) <= before + 100);
    assert_true(activity_of(world->api)->count > 0);
    sqs_close(world);
}

static void what_nobody_acts_on_or_reads_takes_nothing(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    sqs_call(world, "ListQueues", "{}");
    assert_int_equal(activity_memory(world->api), 0);
    sqs_call(world, "Tally.FeedEvents", "{}");
    assert_true(activity_memory(world->api) > 0 && activity_memory(world->api) < 600);
    sqs_close(world);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

struct poll {
    struct exchange exchange;
    char body[120];
    char head[SIGNER_HEAD_SIZE];
};

/* From the end on. */
static void begin(struct world *world, struct poll *poll, const char *as, uint64_t after)
{
    exchange_init(&poll->exchange);
    snprintf(poll->body, sizeof(poll->body), "{\"After\":%llu,\"WaitTimeSeconds\":20}", (unsigned long long)after);
    poll->exchange.request = (struct request){.method = BYTES("POST"),
                                              .path = BYTES("/"),
                                              .host = BYTES("localhost"),
                                              .target = BYTES("Tally.FeedEvents"),
                                              .body = bytes_from_string(poll->body)};
    if (as != NULL)
        signer_sign(&poll->exchange.request, as, NULL, world->now_ms, poll->head);
    front_submit(world->front, &poll->exchange, world->now_ms);
}

static bool is_waiting(const struct poll *poll)
{
    return poll->exchange.state == EXCHANGE_WAITING;
}

/* How many events the answer has. */
static unsigned end(struct world *world, struct poll *poll)
{
    assert_ptr_equal(front_take_finished(world->front), &poll->exchange);
    assert_int_equal(poll->exchange.reply.status, 200);
    const struct buffer *body = &poll->exchange.reply.body;
    yyjson_doc *doc = yyjson_read((const char *)body->data_owned, body->size, 0);
    const unsigned count = (unsigned)yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "Events"));
    yyjson_doc_free(doc);
    exchange_deinit(&poll->exchange);
    return count;
}

static void submit(struct world *world, const char *target, const char *body)
{
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request = (struct request){.target = bytes_from_string(target), .body = bytes_from_string(body)};
    front_submit(world->front, &exchange, world->now_ms);
    assert_int_equal(exchange.reply.status, 200);
    assert_ptr_equal(front_take_finished(world->front), &exchange);
    exchange_deinit(&exchange);
}

static uint64_t last_number(struct world *world)
{
    const uint64_t next = number_of(sqs_call(world, "Tally.FeedEvents", "{'MaxResults':1}").root, "Next");
    world_forget(world);
    return next;
}

static void who_waits_is_told_of_the_next_event(void **state)
{
    struct world *world = sqs_open(state);
    const uint64_t after = last_number(world);
    struct poll first, second, gone;
    begin(world, &first, NULL, after);
    begin(world, &gone, NULL, after);
    begin(world, &second, NULL, after);
    assert_true(is_waiting(&first) && is_waiting(&second));
    api_abandon(&gone.exchange);
    exchange_deinit(&gone.exchange);
    submit(world, "AmazonSQS.SendMessage", "{\"QueueUrl\":\"q\",\"MessageBody\":\"x\"}");
    api_tick(world->api, world->now_ms);
    assert_true(is_waiting(&first) && !api_is_settling(world->api));
    submit(world, "Tally.PauseQueue", "{\"QueueUrl\":\"q\"}");
    assert_true(is_waiting(&first) && api_is_settling(world->api) && api_due_ms(world->api) == 0);
    api_tick(world->api, world->now_ms);
    /* What they are told is not durable yet. */
    assert_true(first.exchange.hold_sequence > namespace_durable(world->ns));
    assert_int_equal(end(world, &first), 1);
    assert_int_equal(end(world, &second), 1);
    assert_false(api_is_settling(world->api));
    sqs_close(world);
}

static void a_wait_ends_in_time_and_at_a_stop(void **state)
{
    struct world *world = sqs_open(state);
    const uint64_t after = last_number(world);
    struct poll in_time, at_stop, of_notice;
    begin(world, &in_time, NULL, after);
    world_pass_time(world, 19999);
    assert_true(is_waiting(&in_time));
    world_pass_time(world, 1);
    assert_int_equal(end(world, &in_time), 0);
    begin(world, &of_notice, NULL, after);
    front_notice(world->front, world->now_ms, "MemoryIsFull", "full");
    assert_true(api_has_news(world->api));
    api_tick(world->api, world->now_ms);
    assert_int_equal(end(world, &of_notice), 1);
    begin(world, &at_stop, NULL, last_number(world));
    api_release_waiting(world->api);
    assert_int_equal(end(world, &at_stop), 0);
    sqs_close(world);
}

/* --- who may know ------------------------------------------------------------------------------------------------- */

static void a_confined_credential_sees_what_is_about_its_queues(void **state)
{
    struct world *world = sqs_open(state);
    struct credentials *credentials = signer_credentials(credentials_text);
    world_create_queue(world, "mine-a", "");
    sqs_expect_error(world, "SetQueueAttributes",
                     "{'QueueUrl':'mine-a','Attributes':{'RedrivePolicy':'{\\\"deadLetterTargetArn\\\":\\\"arn:aws:sqs:"
                     "us-east-1:000000000000:secret\\\",\\\"maxReceiveCount\\\":1}'}}",
                     "InvalidParameterValueException", "");
    sqs_call(world, "Tally.PutTypeOrder", "{'Name':'order','Types':['a','b']}");
    front_set_credentials(world->front, credentials);
    yyjson_doc *doc;
    struct answer answer = signer_call(world, "MINE", "Tally.FeedEvents", "{'After':0}", &doc);
    assert_int_equal(yyjson_arr_size(events_of(answer)), 2);
    assert_string_equal(text_of(yyjson_arr_get_first(events_of(answer)), "Text"), "CreateQueue mine-a: OK");
    /* The words of a refusal may name another queue. */
    assert_string_equal(text_of(yyjson_arr_get_last(events_of(answer)), "Text"),
                        "SetQueueAttributes mine-a: InvalidParameterValueException");
    const uint64_t next = number_of(answer.root, "Next");
    yyjson_doc_free(doc);
    struct poll mine, all;
    begin(world, &mine, "MINE", next);
    begin(world, &all, "READ", next);
    (void)signer_call(world, "OPS", "DeleteQueue", "{'QueueUrl':'none'}", &doc);
    yyjson_doc_free(doc);
    api_tick(world->api, world->now_ms);
    assert_int_equal(end(world, &all), 1);
    assert_true(is_waiting(&mine) && !api_is_settling(world->api));
    (void)signer_call(world, "OPS", "Tally.PauseQueue", "{'QueueUrl':'mine-a'}", &doc);
    yyjson_doc_free(doc);
    api_tick(world->api, world->now_ms);
    assert_int_equal(end(world, &mine), 1);
    front_set_credentials(world->front, NULL);
    sqs_close(world);
    credentials_destroy(credentials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_needs_admin_is_told_whether_it_went_well_or_not),
        cmocka_unit_test(what_changes_nothing_is_not_told),
        cmocka_unit_test(events_of_the_server_and_of_all_namespaces_are_told),
        cmocka_unit_test(notices_wait_for_the_first_reader),
        cmocka_unit_test(the_operator_gets_a_line_with_who_and_from_where),
        cmocka_unit_test(pages_follow_each_other_and_the_newest_come_without_a_number),
        cmocka_unit_test(a_restart_begins_anew_and_says_so),
        cmocka_unit_test(wrong_parameters_are_refused),
        cmocka_unit_test(the_newest_ten_thousand_are_kept),
        cmocka_unit_test(long_texts_are_cut_and_their_bytes_bounded),
        cmocka_unit_test(at_a_full_memory_it_does_not_grow),
        cmocka_unit_test(what_nobody_acts_on_or_reads_takes_nothing),
        cmocka_unit_test(who_waits_is_told_of_the_next_event),
        cmocka_unit_test(a_wait_ends_in_time_and_at_a_stop),
        cmocka_unit_test(a_confined_credential_sees_what_is_about_its_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
