/* Several namespaces behind one server: a request goes to the one that it names, and comes back from there. */
#include "api/api.h"
#include "base/assert.h"
#include "core/decide_queue.h"
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

struct family {
    struct disk *disks[MEMBERS];
    struct namespace *namespaces[MEMBERS];
    struct api *apis[MEMBERS];
    struct arena arena;
};

static int set_up(void **state)
{
    static const char *const names[MEMBERS] = {"000000000000", "111111111111"};
    static const struct api_options api_options = {.region = "eu-west-1"};
    struct family *family = calloc(1, sizeof(*family));
    assert_non_null(family);
    const uint8_t key[CORE_KEY_SIZE] = {1};
    for (size_t i = 0; i < MEMBERS; i++) {
        const struct namespace_options options = {
            .name = names[i], .segment_size = 65536, .frame_size_max = 31 * 1024, .in_flight_max = 100};
        family->disks[i] = memory_disk_create(i);
        assert_int_equal(namespace_open(family->disks[i], &options, NOW_MS, key, &family->namespaces[i], NULL), OK);
        family->apis[i] = api_create(family->namespaces[i], &api_options);
        api_set_family(family->apis[i], family->apis, MEMBERS);
    }
    arena_init(&family->arena);
    *state = family;
    return 0;
}

static int tear_down(void **state)
{
    struct family *family = *state;
    for (size_t i = 0; i < MEMBERS; i++) {
        api_destroy(family->apis[i]);
        namespace_close(family->namespaces[i]);
        memory_disk_destroy(family->disks[i]);
    }
    arena_deinit(&family->arena);
    free(family);
    return 0;
}

/* Submits to the first member. */
static void submit(struct family *family, struct exchange *exchange, const char *target, const char *body)
{
    exchange_init(exchange);
    exchange->request = (struct request){.method = BYTES("POST"),
                                         .path = BYTES("/"),
                                         .host = BYTES("h"),
                                         .target = bytes_from_string(target),
                                         .body = bytes_from_string(body)};
    api_submit(family->apis[0], exchange, NOW_MS);
}

/* Expects the exchange to come back from that member, and gives its reply to the arena. */
static const char *take(struct family *family, struct exchange *exchange, size_t member)
{
    assert_ptr_equal(exchange->api, family->apis[member]);
    assert_ptr_equal(api_take_finished(family->apis[member]), exchange);
    struct bytes body = buffer_bytes(&exchange->reply.body);
    const char *text = (const char *)arena_format(&family->arena, "%.*s%c", BYTES_FORMAT(body), '\0').ptr;
    exchange_deinit(exchange);
    return text;
}

static const char *call(struct family *family, size_t member, const char *target, const char *body)
{
    struct exchange exchange;
    submit(family, &exchange, target, body);
    assert_int_equal(exchange.state, EXCHANGE_FINISHED);
    return take(family, &exchange, member);
}

static void make_queues(struct family *family)
{
    struct queue_settings settings = queue_settings_plain();
    settings.message_size_max = 1048576;
    settings.retention_s = 345600;
    settings.visibility_timeout_s = 30;
    for (size_t i = 0; i < MEMBERS; i++) {
        (void)decide_create_queue(namespace_begin(family->namespaces[i], NOW_MS), BYTES("q"), &settings);
        api_flush(family->apis[i]);
    }
}

static void a_request_goes_to_the_namespace_of_its_queue(void **state)
{
    struct family *family = *state;
    make_queues(family);
    (void)call(family, 1, "AmazonSQS.SendMessage",
               "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}");
    (void)call(family, 0, "AmazonSQS.SendMessage", "{\"QueueUrl\":\"q\",\"MessageBody\":\"of zero\"}");
    const char *reply = call(family, 0, "AmazonSQS.ReceiveMessage", "{\"QueueUrl\":\"http://h/000000000000/q\"}");
    assert_non_null(strstr(reply, "of zero"));
    reply = call(family, 1, "AmazonSQS.ReceiveMessage", "{\"QueueUrl\":\"http://h/111111111111/q\"}");
    assert_non_null(strstr(reply, "of one"));
    reply =
        call(family, 1, "AmazonSQS.GetQueueUrl", "{\"QueueName\":\"q\",\"QueueOwnerAWSAccountId\":\"111111111111\"}");
    assert_non_null(strstr(reply, "http://h/111111111111/q"));
    reply = call(family, 0, "AmazonSQS.SendMessage",
                 "{\"QueueUrl\":\"http://h/222222222222/q\",\"MessageBody\":\"of nobody\"}");
    assert_non_null(strstr(reply, "QueueDoesNotExist"));
}

static void a_waiting_receive_is_answered_by_its_own_namespace(void **state)
{
    struct family *family = *state;
    make_queues(family);
    struct exchange poll, gone;
    const char *body = "{\"QueueUrl\":\"http://h/111111111111/q\",\"WaitTimeSeconds\":5}";
    submit(family, &gone, "AmazonSQS.ReceiveMessage", body);
    submit(family, &poll, "AmazonSQS.ReceiveMessage", body);
    assert_int_equal(gone.state, EXCHANGE_WAITING);
    assert_int_equal(poll.state, EXCHANGE_WAITING);
    api_abandon(gone.api, &gone);
    exchange_deinit(&gone);
    (void)call(family, 0, "AmazonSQS.SendMessage", "{\"QueueUrl\":\"q\",\"MessageBody\":\"of zero\"}");
    assert_int_equal(poll.state, EXCHANGE_WAITING);
    struct exchange send;
    submit(family, &send, "AmazonSQS.SendMessage",
           "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}");
    (void)take(family, &send, 1);
    assert_int_equal(poll.state, EXCHANGE_FINISHED);
    assert_non_null(strstr(take(family, &poll, 1), "of one"));
}

static void each_namespace_has_its_metrics(void **state)
{
    struct family *family = *state;
    make_queues(family);
    (void)call(family, 1, "AmazonSQS.SendMessage",
               "{\"QueueUrl\":\"http://h/111111111111/q\",\"MessageBody\":\"of one\"}");
    struct buffer text;
    buffer_init(&text);
    api_metrics_write(family->apis, MEMBERS, &family->arena, &text);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_goes_to_the_namespace_of_its_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_waiting_receive_is_answered_by_its_own_namespace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_namespace_has_its_metrics, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("a family of namespaces", tests, NULL, NULL);
}
