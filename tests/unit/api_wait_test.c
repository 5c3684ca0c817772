/* Receives that wait (WaitTimeSeconds): who is answered, when, with what, and what a client that has gone costs:
 * nothing. */
#include "scenario.h"

#include "base/memory.h"
#include <stdlib.h>

/* A receive on its way. */
struct poll {
    struct exchange exchange;
    char body[160];
};

static void begin_at(struct world *world, struct poll *poll, const char *queue, unsigned wait_s, unsigned max)
{
    exchange_init(&poll->exchange);
    snprintf(poll->body, sizeof(poll->body), "{\"QueueUrl\":\"%s\",\"WaitTimeSeconds\":%u,\"MaxNumberOfMessages\":%u}",
             queue, wait_s, max);
    poll->exchange.request =
        (struct request){.target = BYTES("AmazonSQS.ReceiveMessage"), .body = bytes_from_string(poll->body)};
    front_submit(world->front, &poll->exchange, world->now_ms);
}

static void begin(struct world *world, struct poll *poll, unsigned wait_s, unsigned max)
{
    begin_at(world, poll, "q", wait_s, max);
}

/* How many messages the answer has; the poll is over. */
static unsigned end(struct world *world, struct poll *poll)
{
    EXPECT(world, poll->exchange.state == EXCHANGE_FINISHED);
    EXPECT(world, front_take_finished(world->front) == &poll->exchange);
    EXPECT(world, poll->exchange.reply.status == 200);
    const struct buffer *body = &poll->exchange.reply.body;
    yyjson_doc *doc = yyjson_read((const char *)body->data_owned, body->size, 0);
    assert_non_null(doc);
    unsigned count = (unsigned)yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "Messages"));
    yyjson_doc_free(doc);
    exchange_deinit(&poll->exchange);
    return count;
}

static bool is_waiting(const struct poll *poll)
{
    return poll->exchange.state == EXCHANGE_WAITING;
}

/* Calls without taking finished polls off the api's list. */
static void submit(struct world *world, struct bytes target, const char *body)
{
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request = (struct request){.target = target, .body = bytes_from_string(body)};
    front_submit(world->front, &exchange, world->now_ms);
    EXPECT(world, exchange.reply.status == 200);
    /* It is finished before those that it wakes. */
    EXPECT(world, front_take_finished(world->front) == &exchange);
    exchange_deinit(&exchange);
}

static void send(struct world *world, const char *body, unsigned delay_s)
{
    char request[200];
    snprintf(request, sizeof(request), "{\"QueueUrl\":\"q\",\"MessageBody\":\"%s\",\"DelaySeconds\":%u}", body,
             delay_s);
    submit(world, BYTES("AmazonSQS.SendMessage"), request);
}

static struct world *open_world(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "q", "'VisibilityTimeout':'30'");
    return world;
}

static void a_message_wakes_the_first_who_waits_and_no_other(void **state)
{
    struct world *world = open_world(state);
    struct poll first, second;
    begin(world, &first, 20, 10);
    begin(world, &second, 20, 10);
    EXPECT(world, is_waiting(&first) && is_waiting(&second));
    send(world, "x", 0);
    EXPECT(world, end(world, &first) == 1 && is_waiting(&second));
    send(world, "y", 0);
    EXPECT(world, end(world, &second) == 1);
    world_audit(world);
    world_destroy(world);
}

/* Invariant R9: the answer waits for the frame with the receive, which may be the frame of the send. */
static void the_answer_is_held_until_the_receive_is_durable(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    begin(world, &poll, 20, 1);
    const uint64_t durable = namespace_durable(world->ns);
    send(world, "x", 0);
    EXPECT(world, poll.exchange.hold_sequence > durable);
    EXPECT(world, world_flush(world) && poll.exchange.hold_sequence <= namespace_durable(world->ns));
    EXPECT(world, end(world, &poll) == 1);
    world_kill(world);
    EXPECT(world, core_metrics(world_core(world)).in_flight == 1);
    world_destroy(world);
}

static void nothing_comes_at_the_deadline_and_not_before(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    begin(world, &poll, 5, 1);
    EXPECT(world, api_due_ms(world->api) == world->now_ms + 5000);
    world_pass_time(world, 4999);
    EXPECT(world, is_waiting(&poll));
    world_pass_time(world, 1);
    EXPECT(world, end(world, &poll) == 0);
    world_destroy(world);
}

static void delays_and_leases_that_end_wake_too(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    send(world, "later", 3);
    begin(world, &poll, 20, 1);
    world_pass_time(world, 2999);
    EXPECT(world, is_waiting(&poll));
    world_pass_time(world, 1);
    EXPECT(world, end(world, &poll) == 1);
    world_pass_time(world, 15000);
    begin(world, &poll, 20, 1);
    world_pass_time(world, 14999);
    EXPECT(world, is_waiting(&poll));
    world_pass_time(world, 1);
    EXPECT(world, end(world, &poll) == 1);
    world_destroy(world);
}

static void while_replies_take_too_much_memory_nobody_else_is_answered(void **state)
{
    struct world *world = open_world(state);
    struct reply_budget budget = {.max = 1000};
    struct poll polls[3];
    front_set_budgets(world->front, &budget, NULL);
    for (unsigned i = 0; i < 3; i++)
        begin(world, &polls[i], 20, 1);
    budget.held = 1001;
    for (unsigned i = 0; i < 3; i++)
        send(world, "m", 0);
    EXPECT(world, budget.held > 1001); /* by what the sends were answered */
    EXPECT(world, is_waiting(&polls[0]));
    for (unsigned i = 0; i < 3; i++) {
        EXPECT(world, api_due_ms(world->api) > world->now_ms); /* it can't be helped by looking again and again */
        EXPECT(world, api_waits_for_memory(world->api, world->now_ms));
        EXPECT(world, is_waiting(&polls[i]));
        budget.held = 1000; /* not above it: one reply may be made, whatever its size */
        EXPECT(world, api_due_ms(world->api) == 0);
        EXPECT(world, !api_waits_for_memory(world->api, world->now_ms));
        api_tick(world->api, world->now_ms);
        EXPECT(world, budget.held == 1000 + exchange_reply_memory(&polls[i].exchange));
        EXPECT(world, i == 2 || is_waiting(&polls[i + 1]));
        EXPECT(world, end(world, &polls[i]) == 1);
    }
    front_set_budgets(world->front, NULL, NULL);
    world_destroy(world);
}

/* Else the replies of slow clients would be cut off for nobody. */
static void whoever_waits_for_a_message_does_not_wait_for_memory(void **state)
{
    struct world *world = open_world(state);
    struct reply_budget budget = {.max = 1000, .held = 1001};
    struct poll poll;
    EXPECT(world, world_call(world, "CreateQueue", "{'QueueName':'other'}").error == NULL);
    front_set_budgets(world->front, &budget, NULL);
    begin(world, &poll, 20, 1);
    EXPECT(world, !api_waits_for_memory(world->api, world->now_ms));
    EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'other','MessageBody':'x'}").error == NULL);
    EXPECT(world, !api_waits_for_memory(world->api, world->now_ms)); /* at that queue nobody waits */
    send(world, "m", 0);
    EXPECT(world, api_waits_for_memory(world->api, world->now_ms));
    budget.held = 0;
    api_tick(world->api, world->now_ms);
    EXPECT(world, end(world, &poll) == 1);
    front_set_budgets(world->front, NULL, NULL);
    world_destroy(world);
}

static void a_client_that_has_gone_takes_no_message(void **state)
{
    struct world *world = open_world(state);
    struct poll gone, present;
    begin(world, &gone, 20, 1);
    begin(world, &present, 20, 1);
    api_abandon(&gone.exchange);
    exchange_deinit(&gone.exchange);
    send(world, "x", 0);
    EXPECT(world, end(world, &present) == 1);
    EXPECT(world, core_metrics(world_core(world)).delivered == 1);
    world_destroy(world);
}

static void deleting_the_queue_answers_those_who_wait(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    begin(world, &poll, 20, 1);
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request =
        (struct request){.target = BYTES("AmazonSQS.DeleteQueue"), .body = BYTES("{\"QueueUrl\":\"q\"}")};
    front_submit(world->front, &exchange, world->now_ms);
    EXPECT(world, exchange.reply.status == 200 && poll.exchange.state == EXCHANGE_FINISHED);
    EXPECT(world, poll.exchange.reply.error == ERROR_QUEUE_DOES_NOT_EXIST);
    /* Whoever waited may not hear of the deletion before it is durable either (invariant R9). */
    EXPECT(world, poll.exchange.hold_sequence == exchange.hold_sequence);
    EXPECT(world, exchange.hold_sequence > namespace_durable(world->ns));
    while (front_take_finished(world->front) != NULL) {
    }
    exchange_deinit(&exchange);
    exchange_deinit(&poll.exchange);
    world_audit(world);
    world_destroy(world);
}

static void what_is_there_is_answered_at_once_and_a_wait_of_zero_never_waits(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    begin(world, &poll, 0, 1);
    EXPECT(world, end(world, &poll) == 0);
    send(world, "x", 0);
    send(world, "y", 0);
    begin(world, &poll, 20, 10);
    EXPECT(world, end(world, &poll) == 2);
    world_destroy(world);
}

#define POLICY                                                                                                         \
    "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:%s\\',\\'maxReceiveCount\\':1}" \
    "'"

static void set_dead_letters(struct world *world, const char *queue, const char *target)
{
    EXPECT(
        world,
        world_call(world, "SetQueueAttributes", "{'QueueUrl':'%s','Attributes':{" POLICY "}}", queue, target).error ==
            NULL);
}

/* Each queue's policy would give the message on to the other one, for ever. */
static void a_ring_of_dead_letter_queues_delivers(void **state)
{
    struct world *world = open_world(state);
    struct poll first, second;
    struct taken taken;
    world_create_queue(world, "r", "");
    set_dead_letters(world, "q", "r");
    set_dead_letters(world, "r", "q");
    send(world, "x", 0);
    world_hold(world, "q", 5, 1, &taken);
    begin_at(world, &first, "r", 20, 1);
    begin(world, &second, 20, 1);
    world_pass_time(world, 5000);
    EXPECT(world, end(world, &second) == 1 && is_waiting(&first));
    api_release_waiting(world->api);
    EXPECT(world, end(world, &first) == 0);
    world_audit(world);
    world_destroy(world);
}

/* A ring does not concern the queues that only lead into it. */
static void a_target_in_a_ring_still_takes_dead_letters(void **state)
{
    struct world *world = open_world(state);
    static const char *const targets[][2] = {{"r", "r"}, {"r", "s"}};
    struct taken taken;
    world_create_queue(world, "r", "");
    world_create_queue(world, "s", "");
    set_dead_letters(world, "q", "r");
    set_dead_letters(world, "s", "r");
    for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
        set_dead_letters(world, targets[i][0], targets[i][1]);
        send(world, "x", 0);
        world_hold(world, "q", 5, 1, &taken);
        world_pass_time(world, 5000);
        EXPECT(world, world_take(world, "q", 5, 1, &taken) == 0);
        EXPECT(world, world_take(world, "r", 5, 1, &taken) == 1);
        world_delete(world, "r", taken.handle);
    }
    world_audit(world);
    world_destroy(world);
}

static void a_message_that_a_task_moves_wakes_who_waits_for_it(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    struct taken taken;
    world_create_queue(world, "dead", "");
    set_dead_letters(world, "q", "dead");
    send(world, "x", 0);
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    begin(world, &poll, 20, 1);
    world_pass_time(world, 5000); /* the lease is over: the waiting receive makes it a dead letter */
    EXPECT(world, is_waiting(&poll) && world_count_messages(world, "dead") == 1);
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request = (struct request){.target = BYTES("AmazonSQS.StartMessageMoveTask"),
                                        .body = BYTES("{\"SourceArn\":\"arn:aws:sqs:us-east-1:000000000000:dead\"}")};
    front_submit(world->front, &exchange, world->now_ms);
    EXPECT(world, exchange.reply.status == 200);
    EXPECT(world, front_take_finished(world->front) == &exchange);
    exchange_deinit(&exchange);
    EXPECT(world, is_waiting(&poll) && api_due_ms(world->api) <= world->now_ms);
    world_pass_time(world, 1);
    EXPECT(world, end(world, &poll) == 1);
    world_audit(world);
    world_destroy(world);
}

/* One receive puts only so many spent messages aside; one that waits goes on where it stopped, and does not sleep until
 * something new arrives. */
static void a_wait_goes_on_behind_many_spent_messages(void **state)
{
    struct world *world = open_world(state);
    struct poll poll, other;
    struct taken taken[10];
    world_create_queue(world, "dead", "");
    world_create_queue(world, "r", "");
    set_dead_letters(world, "q", "dead");
    for (unsigned i = 0; i < 300; i++)
        send(world, "spent", 0);
    for (unsigned i = 0; i < 30; i++)
        EXPECT(world, world_take(world, "q", 30, 10, taken) == 10);
    world_pass_time(world, 30000);
    send(world, "x", 0);
    begin_at(world, &other, "r", 20, 1); /* the api has now looked at what became deliverable */
    begin(world, &poll, 20, 1);
    EXPECT(world, api_due_ms(world->api) == 0 || !is_waiting(&poll));
    world_pass_time(world, 1);
    EXPECT(world, end(world, &poll) == 1);
    api_release_waiting(world->api);
    EXPECT(world, end(world, &other) == 0);
    EXPECT(world, world_count_messages(world, "dead") == 300);
    world_audit(world);
    world_destroy(world);
}

static void a_clean_stop_answers_everybody(void **state)
{
    struct world *world = open_world(state);
    struct poll polls[3];
    for (unsigned i = 0; i < 3; i++)
        begin(world, &polls[i], 20, 1);
    api_release_waiting(world->api);
    for (unsigned i = 0; i < 3; i++)
        EXPECT(world, end(world, &polls[i]) == 0);
    world_destroy(world);
}

/* --- what stays of the request ------------------------------------------------------------------------------------ */

/* Submits a request that is written over as soon as it waits. */
static void begin_and_forget(struct world *world, struct poll *poll, struct bytes target, const char *request)
{
    struct bytes copy = memory_duplicate(bytes_from_string(request));
    exchange_init(&poll->exchange);
    poll->exchange.request = (struct request){.target = target, .path = BYTES("/"), .body = copy};
    front_submit(world->front, &poll->exchange, world->now_ms);
    memset((uint8_t *)(uintptr_t)copy.ptr, '?', copy.size);
    free((uint8_t *)(uintptr_t)copy.ptr);
    EXPECT(world, is_waiting(poll));
    EXPECT(world, poll->exchange.request.body.ptr == NULL && poll->exchange.request.head.ptr == NULL);
    EXPECT(world, poll->exchange.reply.body.capacity <= EXCHANGE_WAITING_BODY_MAX);
    /* The block that an empty arena keeps is written over, too. */
    memset(arena_allocate(&poll->exchange.arena, 16000), '?', 16000);
    arena_reset(&poll->exchange.arena);
}

static void expect_in_reply(struct world *world, const struct poll *poll, const char *wanted, const char *unwanted)
{
    char text[4096];
    const struct buffer *body = &poll->exchange.reply.body;
    EXPECT(world, body->size < sizeof(text));
    memcpy(text, body->data_owned, body->size);
    text[body->size] = '\0';
    if (strstr(text, wanted) == NULL || strstr(text, unwanted) != NULL)
        fail_msg("'%s' should be in the reply, and '%s' not: %s", wanted, unwanted, text);
}

static void send_with_attributes(struct world *world)
{
    submit(world, BYTES("AmazonSQS.SendMessage"),
           "{\"QueueUrl\":\"q\",\"MessageBody\":\"x\",\"MessageAttributes\":{"
           "\"colour\":{\"DataType\":\"String\",\"StringValue\":\"red\"},"
           "\"size\":{\"DataType\":\"Number\",\"StringValue\":\"7\"}}}");
}

static void a_receive_that_waits_keeps_its_names_and_nothing_else_of_its_request(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    begin_and_forget(world, &poll, BYTES("AmazonSQS.ReceiveMessage"),
                     "{\"QueueUrl\":\"q\",\"WaitTimeSeconds\":20,\"AttributeNames\":[\"SenderId\",\"SentTimestamp\"],"
                     "\"MessageSystemAttributeNames\":[\"ApproximateReceiveCount\"],"
                     "\"MessageAttributeNames\":[\"nothing\",\"colour\"],\"Ignored\":[1,2,3,4,5,6,7,8,9]}");
    send_with_attributes(world);
    expect_in_reply(world, &poll, "\"SentTimestamp\"", "ApproximateFirstReceiveTimestamp");
    expect_in_reply(world, &poll, "\"ApproximateReceiveCount\":\"1\"", "???");
    expect_in_reply(world, &poll, "\"colour\"", "\"size\"");
    EXPECT(world, end(world, &poll) == 1);
    begin_and_forget(world, &poll, BYTES(""),
                     "Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=20&AttributeName.1=SentTimestamp"
                     "&MessageAttributeName.1=colour&Ignored.1=1&Ignored.2=2");
    send_with_attributes(world);
    expect_in_reply(world, &poll, "<Name>SentTimestamp</Name>", "ApproximateFirstReceiveTimestamp");
    expect_in_reply(world, &poll, "<Name>colour</Name>", "<Name>size</Name>");
    EXPECT(world, front_take_finished(world->front) == &poll.exchange);
    exchange_deinit(&poll.exchange);
    world_audit(world);
    world_destroy(world);
}

static void a_receive_that_waits_keeps_the_id_of_its_attempt(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    const char *request = "{\"QueueUrl\":\"f.fifo\",\"WaitTimeSeconds\":20,\"ReceiveRequestAttemptId\":\"first-try\"}";
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','ContentBasedDeduplication':'true'");
    begin_and_forget(world, &poll, BYTES("AmazonSQS.ReceiveMessage"), request);
    submit(world, BYTES("AmazonSQS.SendMessage"),
           "{\"QueueUrl\":\"f.fifo\",\"MessageBody\":\"x\",\"MessageGroupId\":\"g\"}");
    EXPECT(world, end(world, &poll) == 1);
    struct answer repeat =
        world_call(world, "ReceiveMessage", "{'QueueUrl':'f.fifo','ReceiveRequestAttemptId':'first-try'}");
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(repeat.root, "Messages")) == 1);
    world_destroy(world);
}

/* What decides whether it may go on leaves nothing in the exchange, however often that is asked. */
static void a_receive_that_waits_keeps_nothing_of_being_asked_again(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    begin(world, &poll, 20, 1);
    const size_t size = arena_size(&poll.exchange.arena);
    submit(world, BYTES("AmazonSQS.SetQueueAttributes"),
           "{\"QueueUrl\":\"q\",\"Attributes\":{\"DelaySeconds\":\"0\"}}");
    EXPECT(world, is_waiting(&poll));
    EXPECT(world, poll.exchange.reply.body.size == 0 && arena_size(&poll.exchange.arena) == size);
    front_set_credentials(world->front, NULL);
    EXPECT(world, is_waiting(&poll));
    EXPECT(world, poll.exchange.reply.body.size == 0 && arena_size(&poll.exchange.arena) == size);
    send(world, "x", 0);
    EXPECT(world, end(world, &poll) == 1);
    world_destroy(world);
}

static void begin_with_names(struct world *world, struct poll *poll, unsigned count)
{
    char request[16384];
    size_t size = (size_t)snprintf(request, sizeof(request),
                                   "{\"QueueUrl\":\"q\",\"WaitTimeSeconds\":20,\"MessageAttributeNames\":[");
    for (unsigned i = 0; i < count; i++)
        size += (size_t)snprintf(request + size, sizeof(request) - size, "%s\"name-%u\"", i == 0 ? "" : ",", i);
    snprintf(request + size, sizeof(request) - size, "]}");
    exchange_init(&poll->exchange);
    poll->exchange.request =
        (struct request){.target = BYTES("AmazonSQS.ReceiveMessage"), .body = bytes_from_string(request)};
    front_submit(world->front, &poll->exchange, world->now_ms);
}

static void where_there_is_no_room_for_its_names_a_receive_is_answered_at_once(void **state)
{
    struct world *world = open_world(state);
    struct wait_budget budget = {.max = 64000};
    struct poll large[10], small[100];
    unsigned waiting = 0;
    front_set_budgets(world->front, NULL, &budget);
    for (unsigned i = 0; i < ARRAY_LENGTH(large); i++) {
        begin_with_names(world, &large[i], 500); /* some 12 KB */
        waiting += is_waiting(&large[i]);
        EXPECT(world, budget.held <= budget.max);
    }
    EXPECT(world, waiting == 4);
    for (unsigned i = waiting; i < ARRAY_LENGTH(large); i++)
        EXPECT(world, end(world, &large[i]) == 0);
    for (unsigned i = 0; i < ARRAY_LENGTH(small); i++) {
        begin_with_names(world, &small[i], 10); /* what nearly everybody asks for always finds room */
        EXPECT(world, is_waiting(&small[i]));
    }
    EXPECT(world, budget.held > budget.max);
    api_release_waiting(world->api);
    EXPECT(world, budget.held == 0);
    for (unsigned i = 0; i < waiting; i++)
        EXPECT(world, end(world, &large[i]) == 0);
    for (unsigned i = 0; i < ARRAY_LENGTH(small); i++)
        EXPECT(world, end(world, &small[i]) == 0);
    front_set_budgets(world->front, NULL, NULL);
    world_destroy(world);
}

static void a_client_that_has_gone_is_counted_no_more(void **state)
{
    struct world *world = open_world(state);
    struct wait_budget budget = {.max = 64000};
    struct poll poll;
    front_set_budgets(world->front, NULL, &budget);
    begin_with_names(world, &poll, 500);
    EXPECT(world, is_waiting(&poll) && budget.held > 10000);
    api_abandon(&poll.exchange);
    exchange_deinit(&poll.exchange);
    EXPECT(world, budget.held == 0);
    front_set_budgets(world->front, NULL, NULL);
    world_destroy(world);
}

/* The queue's own wait counts where the receive says none. */
static void the_queues_wait_is_the_default(void **state)
{
    struct world *world = open_world(state);
    struct poll poll;
    world_call(world, "SetQueueAttributes", "{'QueueUrl':'q','Attributes':{'ReceiveMessageWaitTimeSeconds':'7'}}");
    exchange_init(&poll.exchange);
    poll.exchange.request =
        (struct request){.target = BYTES("AmazonSQS.ReceiveMessage"), .body = BYTES("{\"QueueUrl\":\"q\"}")};
    front_submit(world->front, &poll.exchange, world->now_ms);
    EXPECT(world, is_waiting(&poll) && api_due_ms(world->api) == world->now_ms + 7000);
    world_pass_time(world, 7000);
    EXPECT(world, end(world, &poll) == 0);
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_wakes_the_first_who_waits_and_no_other),
        cmocka_unit_test(the_answer_is_held_until_the_receive_is_durable),
        cmocka_unit_test(nothing_comes_at_the_deadline_and_not_before),
        cmocka_unit_test(delays_and_leases_that_end_wake_too),
        cmocka_unit_test(while_replies_take_too_much_memory_nobody_else_is_answered),
        cmocka_unit_test(whoever_waits_for_a_message_does_not_wait_for_memory),
        cmocka_unit_test(a_client_that_has_gone_takes_no_message),
        cmocka_unit_test(deleting_the_queue_answers_those_who_wait),
        cmocka_unit_test(what_is_there_is_answered_at_once_and_a_wait_of_zero_never_waits),
        cmocka_unit_test(a_ring_of_dead_letter_queues_delivers),
        cmocka_unit_test(a_target_in_a_ring_still_takes_dead_letters),
        cmocka_unit_test(a_message_that_a_task_moves_wakes_who_waits_for_it),
        cmocka_unit_test(a_wait_goes_on_behind_many_spent_messages),
        cmocka_unit_test(a_clean_stop_answers_everybody),
        cmocka_unit_test(a_receive_that_waits_keeps_its_names_and_nothing_else_of_its_request),
        cmocka_unit_test(a_receive_that_waits_keeps_the_id_of_its_attempt),
        cmocka_unit_test(a_receive_that_waits_keeps_nothing_of_being_asked_again),
        cmocka_unit_test(where_there_is_no_room_for_its_names_a_receive_is_answered_at_once),
        cmocka_unit_test(a_client_that_has_gone_is_counted_no_more),
        cmocka_unit_test(the_queues_wait_is_the_default),
    };
    return cmocka_run_group_tests_name("waiting receives", tests, NULL, NULL);
}
