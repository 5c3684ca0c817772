/* A disk that stalls: requests are decided while a frame waits for it, and their replies are held. What is decided
 * counts from when it was asked for, and leases count from when their reply leaves. */
#include "core/event.h"
#include "core/messages/decide_message.h"
#include "scenario.h"
#include <stdarg.h>

/* A request whose reply is held until the test lets it go. */
struct ask {
    struct exchange exchange;
    char target[60];
    char body[300];
};

__attribute__((format(printf, 4, 5))) static void ask(struct world *world, struct ask *ask, const char *action,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ask->body, sizeof(ask->body), format, arguments);
    va_end(arguments);
    for (char *at = ask->body; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    snprintf(ask->target, sizeof(ask->target), "%s%s", strchr(action, '.') == NULL ? "AmazonSQS." : "", action);
    exchange_init(&ask->exchange);
    ask->exchange.request =
        (struct request){.target = bytes_from_string(ask->target), .body = bytes_from_string(ask->body)};
    front_submit(world->front, &ask->exchange, world->now_ms);
}

/* The api has answered it, well, and nothing else. */
static void expect_answered(struct world *world, struct ask *ask)
{
    EXPECT(world, front_take_finished(world->front) == &ask->exchange);
    EXPECT(world, ask->exchange.reply.status == 200);
}

static bool gives(const struct ask *ask, const char *text)
{
    struct bytes body = buffer_bytes(&ask->exchange.reply.body);
    return memmem(body.ptr, body.size, text, strlen(text)) != NULL;
}

/* The disk goes on, and the reply leaves: true, unless it has to wait for another frame. */
static bool leaves(struct world *world, struct ask *ask)
{
    EXPECT(world, world_flush(world));
    EXPECT(world, ask->exchange.hold_sequence <= namespace_durable(world->ns));
    return api_reply_may_leave(world->api, &ask->exchange, world->now_ms);
}

static void end(struct ask *ask)
{
    exchange_deinit(&ask->exchange);
}

/* What a receive gives now, its reply seen at once. */
static unsigned receive_count(struct world *world, const char *queue)
{
    struct ask receive;
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'%s','VisibilityTimeout':0}", queue);
    expect_answered(world, &receive);
    unsigned count = gives(&receive, "MessageId") ? 1 : 0;
    end(&receive);
    return count;
}

/* The disk has a frame in work; what comes now goes into the next one, which is open from here on. */
static void stall_begins(struct world *world)
{
    struct ask send;
    ask(world, &send, "SendMessage", "{'QueueUrl':'other','MessageBody':'stalls'}");
    expect_answered(world, &send);
    end(&send);
}

/* Time passes in a stall; what falls due happens. */
static void wait_for(struct world *world, uint64_t ms)
{
    uint64_t end_ms = world->now_ms + ms;
    while (world->now_ms < end_ms) {
        uint64_t due_ms = api_due_ms(world->api);
        bool is_due = due_ms > world->now_ms && due_ms < end_ms;
        world->now_ms = is_due ? due_ms : end_ms;
        api_tick(world->api, world->now_ms);
    }
}

static struct world *open_world(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    world_create_queue(world, "q", "'VisibilityTimeout':'5'");
    world_create_queue(world, "other", "");
    return world;
}

static void close_world(struct world *world)
{
    world_audit(world);
    world_destroy(world);
}

static void what_is_decided_late_in_a_frame_counts_from_then(void **state)
{
    struct world *world = open_world(state);
    struct ask receive, send;
    world_send(world, "q", NULL, "lease");
    stall_begins(world);
    world->now_ms += 4000;
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q'}");
    expect_answered(world, &receive);
    ask(world, &send, "SendMessage", "{'QueueUrl':'other','MessageBody':'delayed','DelaySeconds':5}");
    expect_answered(world, &send);
    EXPECT(world, leaves(world, &receive) && leaves(world, &send));
    end(&receive);
    end(&send);
    EXPECT(world, receive_count(world, "other") == 1); /* the one that stalled, not the delayed one */
    struct taken taken;
    EXPECT(world, world_take(world, "other", 30, 1, &taken) == 1);
    world->now_ms += 4999;
    EXPECT(world, receive_count(world, "q") == 0 && receive_count(world, "other") == 0);
    world->now_ms += 1 + FRAME_TIME_MS_MAX;
    EXPECT(world, receive_count(world, "q") == 1 && receive_count(world, "other") == 1);
    close_world(world);
}

static void windows_count_from_when_they_were_asked_for(void **state)
{
    struct world *world = open_world(state);
    struct ask first, repeat;
    world_create_queue(world, "w", "'Tally.DeduplicationWindow':'10'");
    stall_begins(world);
    world->now_ms += 8000;
    const char *send = "{'QueueUrl':'w','MessageBody':'b','MessageDeduplicationId':'d','MessageGroupId':'g'}";
    ask(world, &first, "SendMessage", "%s", send);
    expect_answered(world, &first);
    EXPECT(world, leaves(world, &first));
    end(&first);
    world->now_ms += 9990;
    ask(world, &repeat, "SendMessage", "%s", send);
    expect_answered(world, &repeat);
    EXPECT(world, gives(&repeat, "Duplicate"));
    end(&repeat);
    close_world(world);
}

/* How many messages a receive gives whose client never comes for them. */
static unsigned take_count(struct world *world, const char *queue)
{
    struct ask receive;
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'%s','MaxNumberOfMessages':10,'VisibilityTimeout':300}", queue);
    expect_answered(world, &receive);
    struct bytes body = buffer_bytes(&receive.exchange.reply.body);
    unsigned count = 0;
    for (const uint8_t *at = body.ptr; body.size > 0; count++, at++) {
        at = memmem(at, (size_t)(body.ptr + body.size - at), "ReceiptHandle", strlen("ReceiptHandle"));
        if (at == NULL)
            break;
    }
    end(&receive);
    return count;
}

/* One message a second, and two at once after a rest: in a stall as before and behind it. */
static void a_rate_goes_on_in_a_stall(void **state)
{
    struct world *world = open_world(state);
    world_create_queue(world, "r", "'Tally.RateLimit':'{\\'queue\\':{\\'rate\\':1,\\'burst\\':2}}'");
    for (unsigned i = 0; i < 10; i++)
        world_send(world, "r", NULL, "m");
    stall_begins(world);
    EXPECT(world, take_count(world, "r") == 2);
    world->now_ms += 990;
    EXPECT(world, take_count(world, "r") == 0);
    world->now_ms += 10 + FRAME_TIME_MS_MAX;
    EXPECT(world, take_count(world, "r") == 1);
    world->now_ms += 7000;
    EXPECT(world, take_count(world, "r") == 2);
    EXPECT(world, world_flush(world));
    EXPECT(world, take_count(world, "r") == 0); /* nothing of the stall is made up for */
    world->now_ms += 1000 + FRAME_TIME_MS_MAX;
    EXPECT(world, take_count(world, "r") == 1);
    close_world(world);
}

static void a_frame_on_a_disk_that_keeps_up_says_nothing_of_time(void **state)
{
    struct world *world = open_world(state);
    stall_begins(world);
    uint64_t begin = namespace_end(world->ns);
    stall_begins(world);
    uint64_t size = namespace_end(world->ns) - begin;
    world->now_ms += FRAME_TIME_MS_MAX;
    begin = namespace_end(world->ns);
    stall_begins(world);
    EXPECT(world, namespace_end(world->ns) - begin == size);
    world->now_ms += 1;
    begin = namespace_end(world->ns);
    stall_begins(world);
    EXPECT(world, namespace_end(world->ns) - begin == size + EVENT_HEADER_SIZE + 8);
    close_world(world);
}

static void no_lease_ends_while_its_reply_is_held(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    world_send(world, "q", NULL, "m");
    stall_begins(world);
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q'}");
    expect_answered(world, &receive);
    wait_for(world, 20000);
    EXPECT(world, receive_count(world, "q") == 0);
    world->now_ms += 60000; /* and nobody looked at the clock meanwhile */
    EXPECT(world, receive_count(world, "q") == 0);
    EXPECT(world, leaves(world, &receive));
    end(&receive);
    world->now_ms += 4999;
    EXPECT(world, receive_count(world, "q") == 0);
    world->now_ms += 1 + FRAME_TIME_MS_MAX;
    struct taken again;
    EXPECT(world, world_take(world, "q", 5, 1, &again) == 1 && again.receive_count == 2);
    close_world(world);
}

static void a_lease_begins_anew_when_more_than_a_tenth_is_over(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    for (unsigned late = 0; late < 2; late++) {
        world_send(world, "q", NULL, "m");
        ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q','VisibilityTimeout':10}");
        expect_answered(world, &receive);
        world->now_ms += 1000 + late;
        EXPECT(world, leaves(world, &receive));
        end(&receive);
        world->now_ms += 9000 - 1 + 1000 * late;
        EXPECT(world, receive_count(world, "q") == 0);
        world->now_ms += 1 + FRAME_TIME_MS_MAX;
        EXPECT(world, receive_count(world, "q") == 1);
        world_call(world, "PurgeQueue", "{'QueueUrl':'q'}");
    }
    close_world(world);
}

static void a_heartbeat_whose_reply_is_held_keeps_its_lease(void **state)
{
    struct world *world = open_world(state);
    struct ask heartbeat;
    struct taken taken;
    world_send(world, "q", NULL, "m");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    world->now_ms += 3000;
    ask(world, &heartbeat, "ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':5}",
        taken.handle);
    expect_answered(world, &heartbeat);
    wait_for(world, 30000);
    EXPECT(world, receive_count(world, "q") == 0);
    EXPECT(world, leaves(world, &heartbeat));
    end(&heartbeat);
    world->now_ms += 4999;
    EXPECT(world, receive_count(world, "q") == 0);
    close_world(world);
}

static void a_client_that_has_gone_keeps_no_lease(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    world_send(world, "q", NULL, "m");
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q'}");
    expect_answered(world, &receive);
    end(&receive);
    wait_for(world, 5000 + FRAME_TIME_MS_MAX);
    EXPECT(world, receive_count(world, "q") == 1);
    close_world(world);
}

static void a_long_poll_that_is_answered_in_a_stall_gets_its_lease_when_it_leaves(void **state)
{
    struct world *world = open_world(state);
    struct ask poll, send;
    ask(world, &poll, "ReceiveMessage", "{'QueueUrl':'q','WaitTimeSeconds':20}");
    stall_begins(world);
    wait_for(world, 6000);
    ask(world, &send, "SendMessage", "{'QueueUrl':'q','MessageBody':'m'}");
    EXPECT(world, front_take_finished(world->front) == &send.exchange);
    expect_answered(world, &poll);
    wait_for(world, 7000);
    EXPECT(world, leaves(world, &poll));
    end(&poll);
    end(&send);
    world->now_ms += 4999;
    EXPECT(world, receive_count(world, "q") == 0);
    close_world(world);
}

/* A restart gives back 30 seconds at most, so what is longer must not be taken back by a crash. */
static void a_long_lease_that_is_renewed_is_durable_before_its_reply_leaves(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    world_send(world, "q", NULL, "m");
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q','VisibilityTimeout':300}");
    expect_answered(world, &receive);
    world->now_ms += 60000;
    EXPECT(world, !leaves(world, &receive));
    EXPECT(world, receive.exchange.hold_sequence > namespace_durable(world->ns));
    world->now_ms += 60000; /* another stall; it does not wait for ever */
    EXPECT(world, leaves(world, &receive));
    end(&receive);
    world_kill(world);
    world->now_ms += 300000 - 60000 - 1;
    EXPECT(world, receive_count(world, "q") == 0);
    close_world(world);
}

static void a_short_lease_survives_a_crash_right_behind_its_reply(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    world_send(world, "q", NULL, "m");
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q'}");
    expect_answered(world, &receive);
    wait_for(world, 4000);
    EXPECT(world, leaves(world, &receive)); /* with a renewal that is not durable */
    end(&receive);
    world_kill(world);
    world->now_ms += 4999;
    EXPECT(world, receive_count(world, "q") == 0);
    world->now_ms += 1 + FRAME_TIME_MS_MAX;
    EXPECT(world, receive_count(world, "q") == 1);
    close_world(world);
}

static void a_renewed_lease_is_given_again_under_its_attempt_id(void **state)
{
    struct world *world = open_world(state);
    struct ask first, repeat;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true','VisibilityTimeout':'5'");
    world_call(world, "SendMessage",
               "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'1'}");
    const char *receive = "{'QueueUrl':'f.fifo','ReceiveRequestAttemptId':'a'}";
    ask(world, &first, "ReceiveMessage", "%s", receive);
    expect_answered(world, &first);
    wait_for(world, 12000);
    EXPECT(world, leaves(world, &first));
    ask(world, &repeat, "ReceiveMessage", "%s", receive);
    expect_answered(world, &repeat);
    EXPECT(world, gives(&repeat, "MessageId"));
    end(&first);
    end(&repeat);
    close_world(world);
}

/* The holder says what becomes of the message, also while an answer to him is held. */
static void a_lease_that_was_given_up_is_not_renewed(void **state)
{
    struct world *world = open_world(state);
    struct ask heartbeat, failure;
    struct taken taken;
    world_send(world, "q", NULL, "m");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    ask(world, &heartbeat, "ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':60}",
        taken.handle);
    expect_answered(world, &heartbeat);
    ask(world, &failure, "ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':2}",
        taken.handle);
    expect_answered(world, &failure);
    end(&failure);
    wait_for(world, 2000 + FRAME_TIME_MS_MAX);
    EXPECT(world, receive_count(world, "q") == 1);
    wait_for(world, 60000);
    EXPECT(world, leaves(world, &heartbeat));
    EXPECT(world, receive_count(world, "q") == 1);
    end(&heartbeat);
    close_world(world);
}

/* The reply will never leave: the server refuses the request instead. */
static void give_back(struct world *world, struct ask *ask)
{
    grant_give_back(ask->exchange.grant_owned, world->ns);
    end(ask);
}

static void a_receive_that_is_refused_gives_its_leases_back(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    world_send(world, "q", NULL, "m");
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q'}");
    expect_answered(world, &receive);
    EXPECT(world, receive_count(world, "q") == 0);
    give_back(world, &receive);
    EXPECT(world, receive_count(world, "q") == 1);
    close_world(world);
}

/* The repeat has the same leases; so has who holds a lease and asked for it to be longer. */
static void what_a_repeat_or_its_holder_has_is_not_given_back(void **state)
{
    struct world *world = open_world(state);
    struct ask receive, repeat, heartbeat;
    struct taken taken;
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    world_call(world, "SendMessage",
               "{'QueueUrl':'f.fifo','MessageBody':'m','MessageGroupId':'g','MessageDeduplicationId':'1'}");
    const char *body = "{'QueueUrl':'f.fifo','ReceiveRequestAttemptId':'a'}";
    ask(world, &receive, "ReceiveMessage", "%s", body);
    expect_answered(world, &receive);
    give_back(world, &receive);
    EXPECT(world, receive_count(world, "f.fifo") == 0);
    ask(world, &repeat, "ReceiveMessage", "%s", body);
    expect_answered(world, &repeat);
    EXPECT(world, gives(&repeat, "MessageId"));
    end(&repeat);
    world_send(world, "q", NULL, "m");
    EXPECT(world, world_take(world, "q", 5, 1, &taken) == 1);
    ask(world, &heartbeat, "ChangeMessageVisibility", "{'QueueUrl':'q','ReceiptHandle':'%s','VisibilityTimeout':60}",
        taken.handle);
    expect_answered(world, &heartbeat);
    give_back(world, &heartbeat);
    EXPECT(world, receive_count(world, "q") == 0);
    close_world(world);
}

/* Somebody has made it deliverable meanwhile, and another has it now. */
static void a_lease_that_another_has_now_is_not_given_back(void **state)
{
    struct world *world = open_world(state);
    struct ask receive;
    struct taken taken;
    world_send(world, "q", NULL, "m");
    ask(world, &receive, "ReceiveMessage", "{'QueueUrl':'q'}");
    expect_answered(world, &receive);
    struct core *core = namespace_begin(world->ns, world->now_ms);
    decide_end_lease(core, &receive.exchange.grant_owned->leases[0]);
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1);
    give_back(world, &receive);
    EXPECT(world, receive_count(world, "q") == 0);
    close_world(world);
}

/* Two tickets of a pool that asks for confirmations within 5 seconds are matched, and the record
 * of that waits for the disk. */
static void match_two(struct world *world)
{
    struct ask offer;
    world_create_queue(world, "results", "");
    world_call(world, "Tally.CreatePool", "{'PoolName':'duel','ResultQueueUrl':'results','ConfirmSeconds':5}");
    ask(world, &offer, "Tally.OfferTickets", "{'PoolName':'duel','Tickets':[{'TicketId':'a'},{'TicketId':'b'}]}");
    expect_answered(world, &offer);
    end(&offer);
}

static bool is_held(struct world *world)
{
    struct ask get;
    ask(world, &get, "Tally.GetTicket", "{'PoolName':'duel','TicketId':'a'}");
    expect_answered(world, &get);
    bool is_held = gives(&get, "\"Status\":\"held\"");
    end(&get);
    return is_held;
}

static void no_match_times_out_before_anybody_can_hear_of_it(void **state)
{
    struct world *world = open_world(state);
    match_two(world);
    EXPECT(world, is_held(world));
    wait_for(world, 20000);
    EXPECT(world, is_held(world));
    EXPECT(world, world_flush(world));
    wait_for(world, 4999);
    EXPECT(world, is_held(world));
    wait_for(world, 1 + FRAME_TIME_MS_MAX);
    EXPECT(world, !is_held(world));
    close_world(world);
}

static void a_match_that_is_durable_at_once_has_its_time_once(void **state)
{
    struct world *world = open_world(state);
    match_two(world);
    world->now_ms += 500;
    EXPECT(world, world_flush(world));
    wait_for(world, 4499);
    EXPECT(world, is_held(world));
    wait_for(world, 1 + FRAME_TIME_MS_MAX);
    EXPECT(world, !is_held(world));
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_decided_late_in_a_frame_counts_from_then),
        cmocka_unit_test(windows_count_from_when_they_were_asked_for),
        cmocka_unit_test(a_rate_goes_on_in_a_stall),
        cmocka_unit_test(a_frame_on_a_disk_that_keeps_up_says_nothing_of_time),
        cmocka_unit_test(no_lease_ends_while_its_reply_is_held),
        cmocka_unit_test(a_lease_begins_anew_when_more_than_a_tenth_is_over),
        cmocka_unit_test(a_heartbeat_whose_reply_is_held_keeps_its_lease),
        cmocka_unit_test(a_client_that_has_gone_keeps_no_lease),
        cmocka_unit_test(a_long_poll_that_is_answered_in_a_stall_gets_its_lease_when_it_leaves),
        cmocka_unit_test(a_long_lease_that_is_renewed_is_durable_before_its_reply_leaves),
        cmocka_unit_test(a_short_lease_survives_a_crash_right_behind_its_reply),
        cmocka_unit_test(a_renewed_lease_is_given_again_under_its_attempt_id),
        cmocka_unit_test(a_lease_that_was_given_up_is_not_renewed),
        cmocka_unit_test(a_receive_that_is_refused_gives_its_leases_back),
        cmocka_unit_test(what_a_repeat_or_its_holder_has_is_not_given_back),
        cmocka_unit_test(a_lease_that_another_has_now_is_not_given_back),
        cmocka_unit_test(no_match_times_out_before_anybody_can_hear_of_it),
        cmocka_unit_test(a_match_that_is_durable_at_once_has_its_time_once),
    };
    return cmocka_run_group_tests_name("api stall", tests, NULL, NULL);
}
