/* One front, many namespaces: a request goes to the one that it names, and comes back from there. */
#include "api/api.h"
#include "base/assert.h"
#include "core/queues/decide_queue.h"
#include "signer.h"
#include "support/memory_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW_MS UINT64_C(1700000000000)
#define MEMBERS 2

struct fixture {
    struct disk *disks[MEMBERS];
    struct namespace *namespaces[MEMBERS];
    struct front *front;
    struct api apis[MEMBERS];
    struct arena arena;
};

static int set_up(void **state)
{
    static const char *const names[MEMBERS] = {"000000000000", "111111111111"};
    static const struct front_options front_options = {.region = "eu-west-1"};
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    const uint8_t key[CORE_KEY_SIZE] = {1};
    fixture->front = front_create(&front_options);
    for (size_t i = 0; i < MEMBERS; i++) {
        const struct namespace_options options = {
            .name = names[i], .segment_size = 65536, .frame_size_max = 31 * 1024, .in_flight_max = 100};
        fixture->disks[i] = memory_disk_create(i);
        assert_int_equal(namespace_open(fixture->disks[i], &options, NOW_MS, key, &fixture->namespaces[i], NULL), OK);
        api_init(&fixture->apis[i], fixture->front, fixture->namespaces[i]);
    }
    arena_init(&fixture->arena);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < MEMBERS; i++) {
        api_deinit(&fixture->apis[i]);
        namespace_close(fixture->namespaces[i]);
        memory_disk_destroy(fixture->disks[i]);
    }
    front_destroy(fixture->front);
    arena_deinit(&fixture->arena);
    free(fixture);
    return 0;
}

static void submit(struct fixture *fixture, struct exchange *exchange, const char *target, const char *body)
{
    exchange_init(exchange);
    exchange->request = (struct request){.method = BYTES("POST"),
                                         .path = BYTES("/"),
                                         .host = BYTES("h"),
                                         .target = bytes_from_string(target),
                                         .body = bytes_from_string(body)};
    front_submit(fixture->front, exchange, NOW_MS);
}

/* Expects the exchange to come back from that member, and gives its reply to the arena. */
static const char *take(struct fixture *fixture, struct exchange *exchange, size_t member)
{
    assert_ptr_equal(exchange->api, &fixture->apis[member]);
    assert_ptr_equal(front_take_finished(fixture->front), exchange);
    struct bytes body = buffer_bytes(&exchange->reply.body);
    const char *text = (const char *)arena_format(&fixture->arena, "%.*s%c", BYTES_FORMAT(body), '\0').ptr;
    exchange_deinit(exchange);
    return text;
}

static const char *call(struct fixture *fixture, size_t member, const char *target, const char *body)
{
    struct exchange exchange;
    submit(fixture, &exchange, target, body);
    assert_int_equal(exchange.state, EXCHANGE_FINISHED);
    return take(fixture, &exchange, member);
}

static void make_queues(struct fixture *fixture)
{
    struct queue_settings settings = queue_settings_plain();
    settings.message_size_max = 1048576;
    settings.retention_s = 345600;
    settings.visibility_timeout_s = 30;
    for (size_t i = 0; i < MEMBERS; i++) {
        (void)decide_create_queue(namespace_begin(fixture->namespaces[i], NOW_MS), BYTES("q"), &settings);
        assert_int_equal(namespace_flush(fixture->namespaces[i], NULL), OK);
    }
}

static void a_request_goes_to_the_namespace_of_its_queue(void **state)
{
    struct fixture *fixture = *state;
    make_queues(fixture);
    (void)call(fixture, 1, "AmazonSQS.SendMessage",
               "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}");
    (void)call(fixture, 0, "AmazonSQS.SendMessage", "{\"QueueUrl\":\"q\",\"MessageBody\":\"of zero\"}");
    const char *reply = call(fixture, 0, "AmazonSQS.ReceiveMessage", "{\"QueueUrl\":\"http://h/000000000000/q\"}");
    assert_non_null(strstr(reply, "of zero"));
    reply = call(fixture, 1, "AmazonSQS.ReceiveMessage", "{\"QueueUrl\":\"http://h/111111111111/q\"}");
    assert_non_null(strstr(reply, "of one"));
    reply =
        call(fixture, 1, "AmazonSQS.GetQueueUrl", "{\"QueueName\":\"q\",\"QueueOwnerAWSAccountId\":\"111111111111\"}");
    assert_non_null(strstr(reply, "http://h/111111111111/q"));
    reply = call(fixture, 0, "AmazonSQS.SendMessage",
                 "{\"QueueUrl\":\"http://h/222222222222/q\",\"MessageBody\":\"of nobody\"}");
    assert_non_null(strstr(reply, "QueueDoesNotExist"));
}

static void a_waiting_receive_is_answered_by_its_own_namespace(void **state)
{
    struct fixture *fixture = *state;
    make_queues(fixture);
    struct exchange poll, gone;
    const char *body = "{\"QueueUrl\":\"http://h/111111111111/q\",\"WaitTimeSeconds\":5}";
    submit(fixture, &gone, "AmazonSQS.ReceiveMessage", body);
    submit(fixture, &poll, "AmazonSQS.ReceiveMessage", body);
    assert_int_equal(gone.state, EXCHANGE_WAITING);
    assert_int_equal(poll.state, EXCHANGE_WAITING);
    api_abandon(&gone);
    exchange_deinit(&gone);
    (void)call(fixture, 0, "AmazonSQS.SendMessage", "{\"QueueUrl\":\"q\",\"MessageBody\":\"of zero\"}");
    assert_int_equal(poll.state, EXCHANGE_WAITING);
    struct exchange send;
    submit(fixture, &send, "AmazonSQS.SendMessage",
           "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}");
    (void)take(fixture, &send, 1);
    assert_int_equal(poll.state, EXCHANGE_FINISHED);
    assert_non_null(strstr(take(fixture, &poll, 1), "of one"));
}

static void each_namespace_has_its_metrics(void **state)
{
    struct fixture *fixture = *state;
    make_queues(fixture);
    (void)call(fixture, 1, "AmazonSQS.SendMessage",
               "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}");
    struct buffer text;
    buffer_init(&text);
    front_metrics_write(fixture->front, &fixture->arena, &text);
    buffer_append_u8(&text, '\0');
    const char *metrics = (const char *)text.data_owned;
    assert_non_null(strstr(metrics, "\ntally_messages{namespace=\"000000000000\"} 0\n"
                                    "tally_messages{namespace=\"111111111111\"} 1\n"));
    assert_non_null(
        strstr(metrics, "\ntally_queue_messages{namespace=\"111111111111\",queue=\"q\",state=\"visible\"} 1\n"));
    assert_non_null(strstr(metrics, "\ntally_calls_total{namespace=\"111111111111\",action=\"AmazonSQS.SendMessage\","
                                    "result=\"ok\"} 1\n"));
    buffer_deinit(&text);
}

/* Namespaces come and go while others are served. */
static void a_namespace_that_comes_is_found_and_one_that_has_gone_is_not(void **state)
{
    struct fixture *fixture = *state;
    make_queues(fixture);
    const char *send = "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}";
    (void)call(fixture, 1, "AmazonSQS.SendMessage", send);
    api_deinit(&fixture->apis[1]);
    assert_int_equal(front_count(fixture->front), 1);
    assert_null(front_find(fixture->front, BYTES("111111111111")));
    assert_non_null(strstr(call(fixture, 0, "AmazonSQS.SendMessage", send), "QueueDoesNotExist"));
    api_init(&fixture->apis[1], fixture->front, fixture->namespaces[1]);
    /* The first goes: the one behind it takes its place, and what names no namespace. */
    api_deinit(&fixture->apis[0]);
    assert_ptr_equal(front_at(fixture->front, 0), &fixture->apis[1]);
    assert_ptr_equal(front_find(fixture->front, BYTES("111111111111")), &fixture->apis[1]);
    assert_non_null(strstr(call(fixture, 1, "AmazonSQS.ReceiveMessage", "{\"QueueUrl\":\"q\"}"), "of one"));
    api_init(&fixture->apis[0], fixture->front, fixture->namespaces[0]);
    assert_ptr_equal(front_find(fixture->front, BYTES("000000000000")), &fixture->apis[0]);
}

/* Its requests end, nothing falls due in it, and what it has given may leave when it is closed. */
static void a_namespace_that_is_withdrawn_answers_those_who_wait_and_comes_to_its_end(void **state)
{
    struct fixture *fixture = *state;
    struct exchange waiting, leased;
    make_queues(fixture);
    const char *receive = "{\"QueueUrl\":\"http://h/111111111111/q\",\"WaitTimeSeconds\":20}";
    const char *late = "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"late\",\"DelaySeconds\":1}";
    (void)call(fixture, 1, "AmazonSQS.SendMessage",
               "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"leased\"}");
    (void)call(fixture, 1, "AmazonSQS.SendMessage", late);
    submit(fixture, &leased, "AmazonSQS.ReceiveMessage", receive);
    assert_ptr_equal(front_take_finished(fixture->front), &leased);
    assert_true(exchange_gives_lease(&leased));
    submit(fixture, &waiting, "AmazonSQS.ReceiveMessage", receive);
    assert_int_equal(waiting.state, EXCHANGE_WAITING);

    assert_false(api_is_withdrawn(&fixture->apis[1]));
    api_withdraw(&fixture->apis[1]);
    assert_true(api_is_withdrawn(&fixture->apis[1]));
    assert_null(front_find(fixture->front, BYTES("111111111111")));
    assert_null(strstr(take(fixture, &waiting, 1), "Messages"));
    assert_int_equal(api_due_ms(&fixture->apis[1]), UINT64_MAX);
    api_tick(&fixture->apis[1], NOW_MS + 5000);

    assert_false(namespace_is_written(fixture->namespaces[1]));
    assert_int_equal(namespace_flush(fixture->namespaces[1], NULL), OK);
    assert_true(namespace_is_written(fixture->namespaces[1]));
    namespace_retire(fixture->namespaces[1]);
    assert_false(exchange_gives_lease(&leased));
    exchange_deinit(&leased);
}

/* Both kinds of credentials. */
static void credentials_that_change_are_asked_for_in_every_namespace(void **state)
{
    struct fixture *fixture = *state;
    struct credentials *credentials = NULL;
    make_queues(fixture);
    assert_int_equal(credentials_parse(BYTES("K secret 000000000000 read"), &credentials, NULL), OK);
    for (unsigned is_inner = 0; is_inner < 2; is_inner++) {
        struct exchange polls[MEMBERS];
        submit(fixture, &polls[0], "AmazonSQS.ReceiveMessage",
               "{\"QueueUrl\":\"http://h/000000000000/q\",\"WaitTimeSeconds\":5}");
        submit(fixture, &polls[1], "AmazonSQS.ReceiveMessage",
               "{\"QueueUrl\":\"http://h/111111111111/q\",\"WaitTimeSeconds\":5}");
        if (is_inner) {
            front_set_inner_credentials(fixture->front, credentials);
            assert_true(polls[0].state == EXCHANGE_WAITING && polls[1].state == EXCHANGE_WAITING);
        }
        assert_false(front_has_credentials(fixture->front));
        front_set_credentials(fixture->front, credentials);
        assert_true(front_has_credentials(fixture->front));
        for (size_t i = 0; i < MEMBERS; i++) {
            assert_int_equal(polls[i].state, EXCHANGE_FINISHED);
            assert_int_equal(polls[i].reply.error, ERROR_ACCESS_DENIED);
            (void)take(fixture, &polls[i], i);
        }
        front_set_credentials(fixture->front, NULL);
    }
    front_set_inner_credentials(fixture->front, NULL);
    credentials_destroy(credentials);
}

/* What names no namespace, or one that is not served. */
static void a_signed_request_that_names_no_namespace_goes_to_that_of_its_caller(void **state)
{
    static const struct {
        const char *as;
        const char *target;
        const char *body;
        size_t member;
        int status;
    } rows[] = {
        {"ZERO", "AmazonSQS.ListQueues", "{}", 0, 200},
        {"ONE", "AmazonSQS.ListQueues", "{}", 1, 200},
        {"TWO", "AmazonSQS.ListQueues", "{}", 0, 403},
        {"ONE", "AmazonSQS.SendMessage", "{\"QueueUrl\":\"q\",\"MessageBody\":\"x\"}", 1, 200},
        {"ONE", "AmazonSQS.SendMessage", "{\"QueueUrl\":\"http://h/000000000000/q\",\"MessageBody\":\"x\"}", 0, 403},
        {"ZERO", "AmazonSQS.SendMessage", "{\"QueueUrl\":\"http://h/000000000000/q\",\"MessageBody\":\"x\"}", 0, 200},
        {"ONE", "AmazonSQS.GetQueueUrl", "{\"QueueName\":\"q\",\"QueueOwnerAWSAccountId\":\"000000000000\"}", 0, 403},
    };
    struct fixture *fixture = *state;
    struct credentials *credentials = signer_credentials("ZERO secret-of-ZERO 000000000000 read,write\n"
                                                         "ONE secret-of-ONE 111111111111 read,write\n"
                                                         "TWO secret-of-TWO 222222222222 read,write\n");
    make_queues(fixture);
    front_set_credentials(fixture->front, credentials);
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        struct exchange exchange;
        char head[SIGNER_HEAD_SIZE];
        exchange_init(&exchange);
        exchange.request = (struct request){.method = BYTES("POST"),
                                            .path = BYTES("/"),
                                            .host = BYTES("h"),
                                            .target = bytes_from_string(rows[i].target),
                                            .body = bytes_from_string(rows[i].body)};
        signer_sign(&exchange.request, rows[i].as, NULL, NOW_MS, head);
        front_submit(fixture->front, &exchange, NOW_MS);
        if (exchange.reply.status != rows[i].status)
            fail_msg("%s %s: %d", rows[i].as, rows[i].body, exchange.reply.status);
        (void)take(fixture, &exchange, rows[i].member);
    }
    front_set_credentials(fixture->front, NULL);
    credentials_destroy(credentials);
}

static bool is_elsewhere(void *context, struct bytes name)
{
    (void)context;
    return name.size == 0 || bytes_equal(name, BYTES("000000000002"));
}

static void explain_absence(void *context, struct bytes name, char *text, size_t size)
{
    snprintf(text, size, "Ask %s%s%.*s.", (const char *)context, name.size > 0 ? " for " : "", BYTES_FORMAT(name));
}

static char other_node[] = "the other node";
static const struct front_options shared_options = {.region = "eu-west-1",
                                                    .is_elsewhere = is_elsewhere,
                                                    .explain_absence = explain_absence,
                                                    .absence_context = other_node};

/* Expects that nobody here serves what it asks, and the refusal. */
static void expect_absent(struct fixture *fixture, const char *body, const char *name, const char *text)
{
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request = (struct request){.method = BYTES("POST"),
                                        .path = BYTES("/"),
                                        .host = BYTES("h"),
                                        .target = BYTES("AmazonSQS.ListQueues"),
                                        .body = bytes_from_string(body)};
    assert_false(front_submit(fixture->front, &exchange, NOW_MS));
    assert_int_equal(exchange.state, EXCHANGE_NEW);
    assert_true(bytes_equal(front_absent(fixture->front), bytes_from_string(name)));
    front_refuse_absent(fixture->front, &exchange);
    assert_null(exchange.api);
    assert_int_equal(exchange.reply.status, 503);
    assert_int_equal(exchange.reply.error, ERROR_SERVICE_UNAVAILABLE);
    assert_int_equal(exchange.hold_sequence, 0);
    assert_ptr_equal(front_take_finished(fixture->front), &exchange);
    assert_null(front_take_finished(fixture->front));
    assert_non_null(memmem(exchange.reply.body.data_owned, exchange.reply.body.size, text, strlen(text)));
    exchange_deinit(&exchange);
}

static void where_no_namespace_is_served_each_request_is_told_who_serves_it(void **state)
{
    (void)state;
    struct fixture fixture = {.front = front_create(&shared_options)};
    arena_init(&fixture.arena);
    expect_absent(&fixture, "{}", "", "\"Ask the other node.\"");
    expect_absent(&fixture, "{\"QueueUrl\":\"http://h/000000000002/q\"}", "000000000002",
                  "\"Ask the other node for 000000000002.\"");
    struct exchange exchange;
    submit(&fixture, &exchange, "AmazonSQS.ListQueues", "[");
    assert_int_equal(exchange.reply.status, 400); /* whoever serves it */
    assert_ptr_equal(front_take_finished(fixture.front), &exchange);
    exchange_deinit(&exchange);
    arena_deinit(&fixture.arena);
    front_destroy(fixture.front);
}

static void a_request_about_a_namespace_of_another_node_is_left_to_it_and_the_others_are_answered(void **state)
{
    struct fixture *fixture = *state;
    struct front *first = fixture->front;
    fixture->front = front_create(&shared_options);
    api_deinit(&fixture->apis[1]);
    api_init(&fixture->apis[1], fixture->front, fixture->namespaces[1]);
    expect_absent(fixture, "{\"QueueUrl\":\"http://h/000000000002/q\"}", "000000000002",
                  "\"Ask the other node for 000000000002.\"");
    (void)call(fixture, 1, "AmazonSQS.ListQueues", "{}");
    (void)call(fixture, 1, "AmazonSQS.ListQueues", "{\"QueueUrl\":\"http://h/333333333333/q\"}"); /* nobody has it */
    api_deinit(&fixture->apis[1]);
    front_destroy(fixture->front);
    fixture->front = first;
    api_init(&fixture->apis[1], fixture->front, fixture->namespaces[1]);
}

/* Nobody knows which namespace it is about, so it waits for none. */
static void a_request_that_asks_for_nothing_known_has_no_namespace(void **state)
{
    struct fixture *fixture = *state;
    struct exchange exchange;
    submit(fixture, &exchange, "AmazonSQS.Sing", "{}");
    assert_int_equal(exchange.state, EXCHANGE_FINISHED);
    assert_null(exchange.api);
    assert_int_equal(exchange.hold_sequence, 0);
    assert_ptr_equal(front_take_finished(fixture->front), &exchange);
    exchange_deinit(&exchange);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_goes_to_the_namespace_of_its_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_waiting_receive_is_answered_by_its_own_namespace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_namespace_has_its_metrics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_namespace_that_comes_is_found_and_one_that_has_gone_is_not, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_namespace_that_is_withdrawn_answers_those_who_wait_and_comes_to_its_end,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(credentials_that_change_are_asked_for_in_every_namespace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_signed_request_that_names_no_namespace_goes_to_that_of_its_caller, set_up,
                                        tear_down),
        cmocka_unit_test(where_no_namespace_is_served_each_request_is_told_who_serves_it),
        cmocka_unit_test_setup_teardown(
            a_request_about_a_namespace_of_another_node_is_left_to_it_and_the_others_are_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_that_asks_for_nothing_known_has_no_namespace, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("a front of namespaces", tests, NULL, NULL);
}
