/* Scenarios T42 to T50 and T61 to T70, as far as they speak of batches and standard queues:
 * stuck messages, crashes, disks that fail, clocks that jump. */
#include "scenario.h"

#include "log/log.h"
#include "random.h"
#include "support/front_of_one.h"
#include "support/scale.h"

static void make_queues(struct world *world)
{
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "done", "");
    world_create_queue(world, "dead", "");
    world_create_queue(world, "frail",
                       "'RedrivePolicy':'{\\'deadLetterTargetArn\\':\\'arn:aws:sqs:us-east-1:000000000000:dead\\',"
                       "\\'maxReceiveCount\\':1}'");
}

static void make_batch(struct world *world, const char *batch, const char *more)
{
    struct answer answer =
        world_call(world, "Tally.CreateBatch", "{'BatchId':'%s','OnComplete':{'QueueUrl':'done'}%s}", batch, more);
    EXPECT(world, answer.error == NULL);
}

static struct answer describe(struct world *world, const char *batch)
{
    struct answer answer = world_call(world, "Tally.DescribeBatch", "{'BatchId':'%s'}", batch);
    EXPECT(world, answer.error == NULL);
    return answer;
}

static struct answer change(struct world *world, const char *queue, const char *handle, unsigned timeout_s)
{
    return world_call(world, "ChangeMessageVisibility", "{'QueueUrl':'%s','ReceiptHandle':'%s','VisibilityTimeout':%u}",
                      queue, handle, timeout_s);
}

static void send(struct world *world, const char *queue, const char *batch, const char *body)
{
    EXPECT(world, world_send(world, queue, batch, body).error == NULL);
}

/* Sends `count` messages in requests of ten, many to a frame. Not for a disk that stops: a repeat would send twice. */
static void send_many(struct world *world, const char *queue, const char *batch, unsigned count)
{
    for (unsigned sent = 0; sent < count;) {
        world_together_begin(world);
        for (unsigned k = 0; k < 100 && sent < count; k++) {
            char entries[4000];
            size_t size = 0;
            for (unsigned i = 0; i < 10 && sent < count; i++, sent++)
                size += (size_t)snprintf(entries + size, sizeof(entries) - size,
                                         "%s{'Id':'%u','MessageBody':'m%u','MessageAttributes':{%s%s%s}}",
                                         i == 0 ? "" : ",", i, sent,
                                         batch == NULL ? "" : "'Tally.Batch':{'DataType':'String','StringValue':'",
                                         batch == NULL ? "" : batch, batch == NULL ? "" : "'}");
            struct answer answer =
                world_call(world, "SendMessageBatch", "{'QueueUrl':'%s','Entries':[%s]}", queue, entries);
            EXPECT(world, answer.error == NULL && !answer_has(answer, "Failed"));
        }
        bool is_durable = world_together_end(world);
        EXPECT(world, is_durable);
        world_forget(world);
    }
}

/* --- T42 to T50 --------------------------------------------------------------------------------------------------- */

static void T42_a_killed_workers_message_is_free_when_its_timeout_is_over(struct world *world)
{
    struct taken first, second;
    make_queues(world);
    send(world, "jobs", NULL, "work");
    world_hold(world, "jobs", 30, 1, &first);
    if (world->options.way == WORLD_PLAIN) {
        world_pass_time(world, 29999);
        EXPECT(world, world_take(world, "jobs", 30, 1, &second) == 0);
        world_pass_time(world, 1);
    } else {
        world_pass_time(world, 31000); /* the server dies too: at most 30 s from then on (invariant R11) */
    }
    world_hold(world, "jobs", 30, 1, &second);
    EXPECT(world, world->options.way != WORLD_PLAIN || second.receive_count == 2);
    EXPECT(world, strcmp(first.id, second.id) == 0 && strcmp(second.body, "work") == 0);
}

static void T43_a_purge_releases_the_places_of_messages_in_flight(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 43, .in_flight_max = 2});
    struct taken held[2], fresh;
    make_queues(world);
    make_batch(world, "b", ",'Total':2");
    send(world, "jobs", "b", "1");
    send(world, "jobs", "b", "2");
    world_hold(world, "jobs", 300, 2, held);
    send(world, "jobs", NULL, "3");
    EXPECT(world, answer_fails(world_call(world, "ReceiveMessage", "{'QueueUrl':'jobs'}"), "OverLimit"));
    EXPECT(world, world_call(world, "PurgeQueue", "{'QueueUrl':'jobs'}").error == NULL);
    send(world, "jobs", NULL, "4");
    for (unsigned i = 0; i < 2; i++) {
        EXPECT(world, world_take(world, "jobs", 30, 1, &fresh) == 1 && strcmp(fresh.body, "4") == 0);
        EXPECT(world, world_count_messages(world, "jobs") == 1);
        world_delete(world, "jobs", held[0].handle); /* a handle of what was purged: success without effect */
        EXPECT(world, answer_fails(change(world, "jobs", held[1].handle, 10), "InvalidParameterValueException"));
        world_pass_time(world, 60000);
        world_kill(world);
        world_pass_time(world, 60000);
    }
    EXPECT(world, answer_number(describe(world, "b"), "Failed") == 2);
    EXPECT(world, world_count_messages(world, "done") == 1);
    world_audit(world);
    world_destroy(world);
}

static void T44_a_zombie_ends_neither_the_lease_nor_the_unit_of_its_successor(struct world *world)
{
    struct taken zombie, holder, other;
    make_queues(world);
    world_create_queue(world, "careful", "'Tally.StaleReceipts':'refuse'");
    make_batch(world, "b", ",'Total':1");
    send(world, "careful", "b", "work");
    world_hold(world, "careful", 30, 1, &zombie);
    world_pass_time(world, 31000);
    world_hold(world, "careful", 300, 1, &holder);
    struct answer late =
        world_call(world, "DeleteMessage", "{'QueueUrl':'careful','ReceiptHandle':'%s'}", zombie.handle);
    EXPECT(world, answer_fails(late, "ReceiptHandleIsInvalid"));
    EXPECT(world, answer_fails(change(world, "careful", zombie.handle, 0), "ReceiptHandleIsInvalid"));
    EXPECT(world, answer_fails(change(world, "careful", zombie.handle, 600), "ReceiptHandleIsInvalid"));
    EXPECT(world, world_take(world, "careful", 30, 1, &other) == 0);
    EXPECT(world, answer_number(describe(world, "b"), "Remaining") == 1);
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_pass_time(world, 200000);
    EXPECT(world, world_take(world, "careful", 30, 1, &other) == 0); /* the zombie did not shorten it */
    world_delete(world, "careful", holder.handle);
    EXPECT(world, answer_number(describe(world, "b"), "Succeeded") == 1);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

static void T44_a_handle_is_bound_to_its_queue_and_namespace(struct world *world)
{
    struct taken held;
    make_queues(world);
    send(world, "jobs", NULL, "work");
    world_hold(world, "jobs", 300, 1, &held);
    EXPECT(world,
           answer_fails(world_call(world, "DeleteMessage", "{'QueueUrl':'done','ReceiptHandle':'%s'}", held.handle),
                        "ReceiptHandleIsInvalid"));
    char forged[WORLD_HANDLE_SIZE];
    for (size_t i = 0; i < strlen(held.handle); i++) {
        snprintf(forged, sizeof(forged), "%s", held.handle);
        forged[i] = forged[i] == 'A' ? 'B' : 'A';
        if (i % 9 != 0)
            continue; /* every bit of it is in core_identity_test */
        EXPECT(world,
               answer_fails(world_call(world, "DeleteMessage", "{'QueueUrl':'jobs','ReceiptHandle':'%s'}", forged),
                            "ReceiptHandleIsInvalid"));
        EXPECT(world, answer_fails(change(world, "jobs", forged, 0), "ReceiptHandleIsInvalid"));
    }
    EXPECT(world, world_count_messages(world, "jobs") == 1);
    world_delete(world, "jobs", held.handle);
    EXPECT(world, world_count_messages(world, "jobs") == 0);
}

static void T45_a_worker_that_sends_heartbeats_is_no_orphan(struct world *world)
{
    struct taken held, other;
    make_queues(world);
    send(world, "jobs", NULL, "long");
    world_hold(world, "jobs", 30, 1, &held);
    for (unsigned i = 0; i < 12; i++) {
        world_pass_time(world, 20000);
        EXPECT(world, change(world, "jobs", held.handle, 30).error == NULL);
        EXPECT(world, world_take(world, "jobs", 30, 1, &other) == 0);
    }
    world_delete(world, "jobs", held.handle);
    EXPECT(world, world_count_messages(world, "jobs") == 0);
}

static void T45_heartbeats_end_after_twelve_hours(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 45});
    struct taken held, other;
    make_queues(world);
    send(world, "jobs", NULL, "long");
    world_hold(world, "jobs", 43200, 1, &held);
    world_pass_time(world, 1000);
    EXPECT(world, answer_fails(change(world, "jobs", held.handle, 43200), "InvalidParameterValueException"));
    EXPECT(world, change(world, "jobs", held.handle, 43199).error == NULL);
    world_pass_time(world, 43199000 - 1);
    EXPECT(world, world_take(world, "jobs", 30, 1, &other) == 0);
    world_pass_time(world, 1);
    EXPECT(world, world_take(world, "jobs", 30, 1, &other) == 1);
    world_destroy(world);
}

static void T46_of_500_that_come_back_one_conflicts(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    static struct taken held[COUNT];
    struct world *world = world_create(&(struct world_options){.seed = 46});
    make_queues(world);
    send_many(world, "jobs", NULL, COUNT);
    world_hold(world, "jobs", 30, COUNT, held);
    world_pass_time(world, 20000);
    EXPECT(world, change(world, "jobs", held[0].handle, 300).error == NULL);
    world_delete(world, "jobs", held[COUNT / 2].handle);
    world_kill(world);
    world_pass_time(world, 31000);
    unsigned count = 0;
    struct taken taken[10];
    for (unsigned received; (received = world_take(world, "jobs", 300, 10, taken)) > 0; count += received)
        for (unsigned i = 0; i < received; i++)
            EXPECT(world, strcmp(taken[i].id, held[0].id) != 0 && strcmp(taken[i].id, held[COUNT / 2].id) != 0);
    EXPECT(world, count == COUNT - 2);
    world_delete(world, "jobs", held[0].handle);
    EXPECT(world, world_count_messages(world, "jobs") == COUNT - 2);
    world_audit(world);
    world_destroy(world);
}

/* 10,000 messages that can't be delivered any more (out of attempts, or cancelled) stand before one that can. */
static void find_the_good_one(struct world *world, const char *queue)
{
    struct taken taken;
    unsigned rounds = 0;
    while (world_take(world, queue, 30, 1, &taken) == 0) {
        EXPECT(world, rounds++ < 50);
        world_pass_time(world, 1);
        world_forget(world);
    }
    EXPECT(world, strcmp(taken.body, "good") == 0);
}

static void T47_ten_thousand_spent_messages_stand_before_a_good_one(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 47, .segment_size = 16u << 20, .frame_size_max = 4u << 20});
    make_queues(world);
    send_many(world, "frail", NULL, 10000);
    struct taken taken[10];
    unsigned count = 0;
    world_together_begin(world);
    for (unsigned received; (received = world_take(world, "frail", 1, 10, taken)) > 0;)
        count += received;
    EXPECT(world, count == 10000 && world_together_end(world));
    world_pass_time(world, 2000);
    send(world, "frail", NULL, "good");
    world_kill(world);
    world_pass_time(world, 2000);
    find_the_good_one(world, "frail");
    EXPECT(world, world_count_messages(world, "dead") == 10000);
    world_audit(world);
    world_destroy(world);
}

static void T47_ten_thousand_cancelled_messages_stand_before_a_good_one(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 48, .segment_size = 16u << 20, .frame_size_max = 4u << 20});
    make_queues(world);
    make_batch(world, "b", "");
    send_many(world, "jobs", "b", 10000);
    send(world, "jobs", NULL, "good");
    EXPECT(world, world_call(world, "Tally.CancelBatch", "{'BatchId':'b'}").error == NULL);
    world_kill(world);
    find_the_good_one(world, "jobs");
    world_pass_time(world, 1000);
    EXPECT(world, world_count_messages(world, "jobs") == 1);
    world_audit(world);
    world_destroy(world);
}

/* Flips a bit of the body that begins with `text`, on the disk under the running server. */
static void damage_body(struct world *world, const char *text)
{
    struct bytes content = memory_disk_content(world->disk, "0000000000000000.segment");
    const uint8_t *found = memmem(content.ptr, content.size, text, strlen(text));
    EXPECT(world, found != NULL);
    memory_disk_flip_bit(world->disk, "0000000000000000.segment", (uint64_t)(found - content.ptr) * 8 + 1);
}

static void T48_one_receive_claims_a_and_fails_on_b(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 48});
    struct taken taken[10];
    make_queues(world);
    send(world, "jobs", NULL, "the body of A");
    send(world, "jobs", NULL, "the body of B");
    send(world, "jobs", NULL, "the body of C");
    damage_body(world, "the body of B");
    EXPECT(world, world_take(world, "jobs", 30, 10, taken) == 2);
    EXPECT(world, strcmp(taken[0].body, "the body of A") == 0 && strcmp(taken[1].body, "the body of C") == 0);
    world_delete(world, "jobs", taken[0].handle);
    world_delete(world, "jobs", taken[1].handle);
    /* Alone, B says what is wrong, and again when its lease is over; it is not lost in silence. */
    for (unsigned i = 0; i < 3; i++) {
        world_pass_time(world, 30000);
        struct answer answer = world_call(world, "ReceiveMessage", "{'QueueUrl':'jobs'}");
        EXPECT(world, answer_fails(answer, "InternalFailure"));
        EXPECT(world, strstr(answer_text(answer, "message"), "damaged") != NULL);
    }
    send(world, "jobs", NULL, "the body of D");
    world_pass_time(world, 30000);
    EXPECT(world, world_take(world, "jobs", 30, 10, taken) == 1 && strcmp(taken[0].body, "the body of D") == 0);
    world_destroy(world);
}

static void T49_a_suspended_handler_is_not_held_for_ever(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':2");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x']}").error == NULL);
    send(world, "jobs", "b", "waits for the batch");
    EXPECT(world, world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'x'}]}").error == NULL);
    for (unsigned i = 0; i < 4; i++) {
        world_hold(world, "jobs", 30, 1, &held);
        EXPECT(world, held.receive_count > i);
        world_pass_time(world, 31000);
    }
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_hold(world, "jobs", 30, 1, &held);
    world_delete(world, "jobs", held.handle);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

static void T50_after_five_minutes_away_nothing_stays_active(struct world *world)
{
    struct taken held, taken[3];
    make_queues(world);
    make_batch(world, "b", ",'ExpiresAfterSeconds':120");
    send(world, "jobs", "b", "held");
    world_hold(world, "jobs", 60, 1, &held);
    struct answer answer = {0};
    const uint64_t sent = core_metrics(world_core(world)).sent;
    while (!world_try(world, &answer, "SendMessage", "{'QueueUrl':'jobs','MessageBody':'delayed','DelaySeconds':200}"))
        if (core_metrics(world_core(world)).sent > sent)
            break;
    world_stop(world, true);
    world->now_ms += 300000;
    world_start(world);
    world_pass_time(world, 0);
    answer = describe(world, "b");
    EXPECT(world, strcmp(answer_text(answer, "Status"), "expired") == 0);
    world_pass_time(world, 30000);
    world_hold(world, "jobs", 300, 2, taken);
    EXPECT(world, strcmp(taken[0].body, "held") == 0 || strcmp(taken[1].body, "held") == 0);
    EXPECT(world, strcmp(taken[0].body, "delayed") == 0 || strcmp(taken[1].body, "delayed") == 0);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

/* --- T61 to T63 --------------------------------------------------------------------------------------------------- */

static struct answer xor_units(struct world *world, const char *value, unsigned registered, unsigned finished,
                               const char *token)
{
    return world_call(world, "Tally.XorUnits",
                      "{'BatchId':'x','Value':'%s','Registered':%u,'Finished':%u,'RequestToken':'%s'}", value,
                      registered, finished, token);
}

static void T61_the_same_unit_reported_twice_on_an_xor_ledger(struct world *world)
{
    make_queues(world);
    make_batch(world, "x", ",'Tracking':'xor'");
    EXPECT(world,
           xor_units(world, "0123456789abcdef", 1, 0, "start a").error != NULL); /* a blank is no token character */
    EXPECT(world, !answer_is_true(xor_units(world, "0123456789abcdef", 1, 0, "start-a"), "Zero"));
    EXPECT(world, xor_units(world, "00000000deadbeef", 1, 0, "start-b").error == NULL);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'x'}").error == NULL);
    for (unsigned i = 0; i < 3; i++) {
        struct answer again = xor_units(world, "0123456789abcdef", 0, 1, "end-a");
        EXPECT(world, again.error == NULL && !answer_is_true(again, "Zero") && !answer_is_true(again, "Completed"));
        EXPECT(world, answer_number(describe(world, "x"), "Remaining") == 1);
    }
    /* The token with other values is another request under an old name. */
    EXPECT(world, answer_fails(xor_units(world, "00000000deadbeef", 0, 1, "end-a"), "InvalidParameterValueException"));
    /* Zero by chance, but the counts do not agree: nothing fires. */
    EXPECT(world, xor_units(world, "00000000deadbeef", 0, 0, "odd").error == NULL);
    EXPECT(world, world_count_messages(world, "done") == 0);
    EXPECT(world, xor_units(world, "00000000deadbeef", 0, 0, "odd-again").error == NULL);
    struct answer last = xor_units(world, "00000000deadbeef", 0, 1, "end-b");
    EXPECT(world, answer_is_true(last, "Zero") && (last.is_repeat || answer_is_true(last, "Completed")));
    EXPECT(world, !answer_is_true(xor_units(world, "00000000deadbeef", 0, 1, "end-b"), "Completed"));
    EXPECT(world, world_drain(world, "done").complete == 1);
}

static void T61_a_message_of_an_xor_ledger_toggles_once(struct world *world)
{
    struct taken held, dead;
    make_queues(world);
    make_batch(world, "x", ",'Tracking':'xor'");
    send(world, "jobs", "x", "good");
    send(world, "frail", "x", "bad");
    send(world, "jobs", "x", "last");
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'x'}").error == NULL);
    world_hold(world, "jobs", 300, 1, &held);
    for (unsigned i = 0; i < 3; i++)
        world_delete(world, "jobs", held.handle);
    EXPECT(world, answer_number(describe(world, "x"), "Remaining") == 2);
    /* One attempt, then the dead-letter queue; whoever deletes it there must not toggle it again. */
    while (world_count_messages(world, "dead") == 0)
        if (world_take(world, "frail", 1, 1, &held) == 1)
            EXPECT(world, change(world, "frail", held.handle, 0).error == NULL);
        else
            world_pass_time(world, 1000);
    EXPECT(world, answer_number(describe(world, "x"), "Remaining") == 1);
    world_hold(world, "dead", 300, 1, &dead);
    world_delete(world, "dead", dead.handle);
    EXPECT(world, answer_number(describe(world, "x"), "Remaining") == 1);
    EXPECT(world, world_count_messages(world, "done") == 0);
    world_hold(world, "jobs", 300, 1, &held);
    world_delete(world, "jobs", held.handle);
    struct answer answer = describe(world, "x");
    EXPECT(world, strcmp(answer_text(answer, "Status"), "failed") == 0);
    EXPECT(world, answer_number(answer, "Failed") == 1 && answer_number(answer, "Succeeded") == 2);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

/* What a reader was shown, and must find again after whatever happened to the disk. */
struct shown {
    unsigned sent;      /* bodies "0" to "sent - 1" were acknowledged */
    unsigned deleted;   /* of them, so many deletes were acknowledged, from the oldest */
    unsigned completed; /* units "0" to "completed - 1" of batch "b" were reported Recorded */
};

static void expect_shown(struct world *world, const struct shown *shown)
{
    EXPECT(world, world_count_messages(world, "jobs") == shown->sent - shown->deleted);
    struct answer answer = describe(world, "b");
    EXPECT(world, answer_number(answer, "Succeeded") == shown->completed);
}

static void work_and_observe(struct world *world)
{
    struct shown shown = {0};
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':6}").error == NULL);
    for (unsigned round = 0; round < 6; round++) {
        char body[8];
        snprintf(body, sizeof(body), "%u", shown.sent);
        send(world, "jobs", NULL, body);
        shown.sent++;
        expect_shown(world, &shown);
        EXPECT(world,
               world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'%u'}]}", round).error ==
                   NULL);
        shown.completed++;
        expect_shown(world, &shown);
        if (round % 2 == 0)
            continue;
        struct taken held;
        world_hold(world, "jobs", 300, 1, &held);
        world_delete(world, "jobs", held.handle);
        shown.deleted++;
        expect_shown(world, &shown);
    }
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'b'}").error == NULL);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

/* Every operation of the disk fails in turn. That a failure is final, and that nothing is shown before it is durable,
 * the world itself asserts (world_flush, invariants R9 and R10). */
static void play_with_fault(enum memory_disk_fault fault)
{
    const struct scenario scenario = {work_and_observe};
    uint64_t operations = scenario_play(&scenario, &(struct world_options){.seed = 62});
    uint64_t step = operations / scaled(operations);
    for (uint64_t stop_at = 0; stop_at < operations; stop_at += step)
        scenario_play(&scenario, &(struct world_options){
                                     .way = WORLD_STOPS, .seed = 620 + stop_at, .stop_at = stop_at, .fault = fault});
}

static void T62_a_full_disk_stops_the_server_and_loses_nothing_shown(void **state)
{
    (void)state;
    play_with_fault(MEMORY_DISK_FULL);
}

static void T62_a_failed_write_stops_the_server_and_loses_nothing_shown(void **state)
{
    (void)state;
    play_with_fault(MEMORY_DISK_FAIL_WRITE);
}

static void T62_a_failed_sync_stops_the_server_and_loses_nothing_shown(void **state)
{
    (void)state;
    play_with_fault(MEMORY_DISK_FAIL_SYNC);
}

static void T62_a_disk_that_stays_full_is_named_until_there_is_room(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 62, .segment_size = 64u << 10, .frame_size_max = 16u << 10});
    make_queues(world);
    memory_disk_set_capacity(world->disk, 300u << 10);
    unsigned sent = 0;
    struct answer answer;
    char body[4000];
    memset(body, 'x', sizeof(body) - 1);
    body[sizeof(body) - 1] = '\0';
    const struct namespace_options options = {
        .name = "000000000000", .segment_size = 64u << 10, .frame_size_max = 16u << 10, .in_flight_max = 10};
    const struct front_options front_options = {.region = "us-east-1"};
    /* Until the log takes no more. The world must not start again by itself: there is no room to. */
    for (;; sent++) {
        struct exchange exchange;
        char request[4100];
        snprintf(request, sizeof(request), "{\"QueueUrl\":\"jobs\",\"MessageBody\":\"%s\"}", body);
        exchange_init(&exchange);
        exchange.request =
            (struct request){.target = BYTES("AmazonSQS.SendMessage"), .body = bytes_from_string(request)};
        front_submit(world->front, &exchange, world->now_ms);
        assert_ptr_equal(front_take_finished(world->front), &exchange);
        exchange_deinit(&exchange);
        if (namespace_flush(world->ns, &world->failure) != OK)
            break;
    }
    assert_int_equal(world->failure.error, ERROR_DISK_FULL);
    assert_true(sent > 20);
    front_of_one_destroy(world->front, world->api);
    namespace_close(world->ns);
    memory_disk_kill(world->disk);
    memory_disk_set_capacity(world->disk, 2u << 20);
    static const uint8_t key[CORE_KEY_SIZE] = {0};
    assert_int_equal(namespace_open(world->disk, &options, world->now_ms, key, &world->ns, &world->failure), OK);
    world->api = front_of_one_create(world->ns, &front_options, &world->front);
    uint64_t count = world_count_messages(world, "jobs");
    assert_true(count == sent || count == sent + 1);
    answer = world_send(world, "jobs", NULL, "room again");
    EXPECT(world, answer.error == NULL);
    world_destroy(world);
}

/* A daemon recovers all its namespaces before it takes over the first: where one is refused, nothing has happened to
 * the others. */
static void a_namespace_that_was_recovered_but_not_taken_over_has_its_log_as_it_was(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 64});
    make_queues(world);
    send(world, "jobs", NULL, "work");
    world_stop(world, false);
    const struct namespace_options options = {
        .name = "000000000000", .segment_size = 64u << 10, .frame_size_max = 16u << 10, .in_flight_max = 10};
    static const uint8_t key[CORE_KEY_SIZE] = {0};
    uint64_t epochs[4];
    for (unsigned i = 0; i < ARRAY_LENGTH(epochs); i++) {
        struct namespace *ns;
        assert_int_equal(namespace_recover(world->disk, &options, &ns, &world->failure), OK);
        epochs[i] = log_epoch(namespace_log(ns));
        if (i == 2)
            assert_int_equal(namespace_take_over(ns, world->now_ms, key, &world->failure), OK);
        namespace_close(ns);
        memory_disk_kill(world->disk);
    }
    assert_int_equal(epochs[1], epochs[0]);
    assert_int_equal(epochs[2], epochs[0]);
    assert_int_equal(epochs[3], epochs[0] + 1);
    world_start(world);
    assert_int_equal(world_count_messages(world, "jobs"), 1);
    world_destroy(world);
}

static void T63_a_clock_set_back_prolongs_no_lease(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 63});
    struct taken held, other;
    make_queues(world);
    send(world, "jobs", NULL, "work");
    world_pass_time(world, 5000);
    world_hold(world, "jobs", 60, 1, &held);
    const uint64_t taken_at_ms = world->now_ms;
    world_stop(world, false);
    world->now_ms -= 3600000;
    world_start(world);
    EXPECT(world, world->now_ms == taken_at_ms); /* log time never goes back: world_start() does as clock_raise() */
    world_pass_time(world, 59999);
    EXPECT(world, world_take(world, "jobs", 60, 1, &other) == 0);
    world_pass_time(world, 1);
    EXPECT(world, world_take(world, "jobs", 60, 1, &other) == 1);
    world_audit(world);
    world_destroy(world);
}

static void T63_a_clock_set_forward_expires_no_lease_at_once(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 63});
    struct taken held, other;
    make_queues(world);
    make_batch(world, "b", ",'ExpiresAfterSeconds':7200");
    send(world, "jobs", "b", "work");
    world_hold(world, "jobs", 60, 1, &held);
    world_stop(world, false);
    world->now_ms += 3600000; /* to the server the same as an hour away */
    world_start(world);
    world_pass_time(world, 29999);
    EXPECT(world, world_take(world, "jobs", 60, 1, &other) == 0);
    EXPECT(world, change(world, "jobs", held.handle, 60).error == NULL); /* the heartbeat comes in time */
    world_pass_time(world, 59999);
    EXPECT(world, world_take(world, "jobs", 60, 1, &other) == 0);
    world_delete(world, "jobs", held.handle);
    EXPECT(world, answer_number(describe(world, "b"), "Succeeded") == 1);
    world_audit(world);
    world_destroy(world);
}

/* A caller whose clock stands still or goes back gets the time of the newest frame. */
static void T63_frames_never_go_back_in_time(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 63});
    make_queues(world);
    send(world, "jobs", NULL, "1");
    const uint64_t before_ms = namespace_time(world->ns);
    world->now_ms -= 3600000;
    send(world, "jobs", NULL, "2");
    EXPECT(world, namespace_time(world->ns) == before_ms);
    world->now_ms += 7200000;
    send(world, "jobs", NULL, "3");
    EXPECT(world, namespace_time(world->ns) == before_ms + 3600000);
    struct taken taken[3];
    world_hold(world, "jobs", 60, 3, taken);
    EXPECT(world, taken[0].sent_at_ms == taken[1].sent_at_ms && taken[1].sent_at_ms < taken[2].sent_at_ms);
    world_audit(world);
    world_destroy(world);
}

/* --- T64 ---------------------------------------------------------------------------------------------------------- */

#define LEASES (is_scaled_down() ? 10000u : 100000u)

static void T64_restart_with_a_hundred_thousand_leases_in_flight(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 64, .segment_size = 32u << 20, .frame_size_max = 8u << 20});
    char(*handles)[WORLD_HANDLE_SIZE] = malloc(LEASES * sizeof(*handles));
    assert_non_null(handles);
    make_queues(world);
    send_many(world, "jobs", NULL, LEASES);
    /* The first half for 20 seconds, the second for an hour. */
    for (unsigned count = 0; count < LEASES;) {
        struct taken taken[10];
        world_together_begin(world);
        for (unsigned k = 0; k < 500; k++) {
            unsigned received = world_take(world, "jobs", count < LEASES / 2 ? 20 : 3600, 10, taken);
            for (unsigned i = 0; i < received; i++)
                memcpy(handles[count++], taken[i].handle, sizeof(taken[i].handle));
        }
        EXPECT(world, world_together_end(world));
        world_forget(world);
    }
    world_stop(world, true);
    world->now_ms += 300000;
    world_start(world);
    EXPECT(world, core_metrics(world_core(world)).in_flight == LEASES);
    world_pass_time(world, 19999);
    EXPECT(world, core_metrics(world_core(world)).in_flight == LEASES);
    world_pass_time(world, 1);
    EXPECT(world, core_metrics(world_core(world)).in_flight == LEASES / 2);
    /* The others have theirs still, an hour from the receive. */
    world_pass_time(world, 3600000 - 320000 - 1);
    EXPECT(world, core_metrics(world_core(world)).in_flight == LEASES / 2);
    world_kill(world);
    /* Handles given out two restarts ago still work. */
    for (unsigned i = 0; i < LEASES;) {
        world_together_begin(world);
        for (unsigned k = 0; k < 1000 && i < LEASES; k++, i += 7)
            world_delete(world, "jobs", handles[i]);
        EXPECT(world, world_together_end(world));
        world_forget(world);
    }
    EXPECT(world, core_metrics(world_core(world)).messages == LEASES - (LEASES + 6) / 7);
    world_audit(world);
    world_destroy(world);
    free(handles);
}

/* --- T67 and T70 -------------------------------------------------------------------------------------------------- */

static void T67_the_dead_letter_and_its_failed_unit_are_one_record(struct world *world)
{
    struct taken held;
    make_queues(world);
    make_batch(world, "b", ",'Total':1");
    send(world, "frail", "b", "work");
    char id[WORLD_ID_SIZE] = "";
    /* Whatever moment the server dies at: the message is dead exactly if the unit has failed. */
    for (bool is_dead = false; !is_dead;) {
        if (world_take(world, "frail", 1, 1, &held) == 1) {
            snprintf(id, sizeof(id), "%s", held.id);
            EXPECT(world, change(world, "frail", held.handle, 0).error == NULL);
        } else {
            world_pass_time(world, 1000);
        }
        is_dead = world_count_messages(world, "dead") == 1;
        EXPECT(world, answer_number(describe(world, "b"), "Failed") == is_dead);
        EXPECT(world, world_count_messages(world, "done") == is_dead);
    }
    EXPECT(world, world_count_messages(world, "frail") == 0 && world_count_messages(world, "dead") == 1);
    struct answer letter = {0};
    while (!world_try(world, &letter, "ReceiveMessage",
                      "{'QueueUrl':'dead','VisibilityTimeout':0,'MessageSystemAttributeNames':['All']}")) {
    }
    yyjson_val *message = yyjson_arr_get_first(yyjson_obj_get(letter.root, "Messages"));
    yyjson_val *attributes = yyjson_obj_get(message, "Attributes");
    EXPECT(world, id[0] == '\0' || strcmp(yyjson_get_str(yyjson_obj_get(message, "MessageId")), id) == 0);
    EXPECT(world, strcmp(yyjson_get_str(yyjson_obj_get(attributes, "DeadLetterQueueSourceArn")),
                         "arn:aws:sqs:us-east-1:000000000000:frail") == 0);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

static void T70_one_report_ends_the_last_two_units_together(struct world *world)
{
    make_queues(world);
    make_batch(world, "b", "");
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['x','y']}").error == NULL);
    EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'b'}").error == NULL);
    struct answer answer =
        world_call(world, "Tally.CompleteUnits", "{'BatchId':'b','Units':[{'Unit':'x'},{'Unit':'y'},{'Unit':'x'}]}");
    EXPECT(world, answer.error == NULL && answer_number(answer, "Remaining") == 0);
    yyjson_val *results = yyjson_obj_get(answer.root, "Results");
    EXPECT(world, yyjson_arr_size(results) == 3);
    EXPECT(world, yyjson_is_false(yyjson_obj_get(yyjson_arr_get(results, 2), "Recorded")));
    if (!answer.is_repeat) {
        EXPECT(world, answer_is_true(answer, "Completed"));
        EXPECT(world, yyjson_is_true(yyjson_obj_get(yyjson_arr_get(results, 0), "Recorded")));
        EXPECT(world, yyjson_is_true(yyjson_obj_get(yyjson_arr_get(results, 1), "Recorded")));
    }
    EXPECT(world, answer_number(describe(world, "b"), "Succeeded") == 2);
    EXPECT(world, world_drain(world, "done").complete == 1);
}

static void T70_one_request_deletes_the_last_two_units_together(struct world *world)
{
    struct taken held[2];
    make_queues(world);
    make_batch(world, "b", ",'Total':2");
    send(world, "jobs", "b", "1");
    send(world, "jobs", "b", "2");
    world_hold(world, "jobs", 300, 2, held);
    for (unsigned i = 0; i < 2; i++) {
        struct answer answer = world_call(world, "DeleteMessageBatch",
                                          "{'QueueUrl':'jobs','Entries':[{'Id':'1','ReceiptHandle':'%s'},{'Id':'2',"
                                          "'ReceiptHandle':'%s'},{'Id':'3','ReceiptHandle':'%s'}]}",
                                          held[0].handle, held[1].handle, held[0].handle);
        EXPECT(world, answer.error == NULL && yyjson_arr_size(yyjson_obj_get(answer.root, "Successful")) == 3);
        EXPECT(world, answer_number(describe(world, "b"), "Succeeded") == 2);
        EXPECT(world, world_count_messages(world, "done") == 1);
    }
    EXPECT(world, world_drain(world, "done").complete == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(T42_a_killed_workers_message_is_free_when_its_timeout_is_over),
        cmocka_unit_test(T43_a_purge_releases_the_places_of_messages_in_flight),
        SCENARIO(T44_a_zombie_ends_neither_the_lease_nor_the_unit_of_its_successor),
        SCENARIO(T44_a_handle_is_bound_to_its_queue_and_namespace),
        SCENARIO(T45_a_worker_that_sends_heartbeats_is_no_orphan),
        cmocka_unit_test(T45_heartbeats_end_after_twelve_hours),
        cmocka_unit_test(T46_of_500_that_come_back_one_conflicts),
        cmocka_unit_test(T47_ten_thousand_spent_messages_stand_before_a_good_one),
        cmocka_unit_test(T47_ten_thousand_cancelled_messages_stand_before_a_good_one),
        cmocka_unit_test(T48_one_receive_claims_a_and_fails_on_b),
        SCENARIO(T49_a_suspended_handler_is_not_held_for_ever),
        SCENARIO(T50_after_five_minutes_away_nothing_stays_active),
        SCENARIO(T61_the_same_unit_reported_twice_on_an_xor_ledger),
        SCENARIO(T61_a_message_of_an_xor_ledger_toggles_once),
        cmocka_unit_test(T62_a_full_disk_stops_the_server_and_loses_nothing_shown),
        cmocka_unit_test(T62_a_failed_write_stops_the_server_and_loses_nothing_shown),
        cmocka_unit_test(T62_a_failed_sync_stops_the_server_and_loses_nothing_shown),
        cmocka_unit_test(T62_a_disk_that_stays_full_is_named_until_there_is_room),
        cmocka_unit_test(a_namespace_that_was_recovered_but_not_taken_over_has_its_log_as_it_was),
        cmocka_unit_test(T63_a_clock_set_back_prolongs_no_lease),
        cmocka_unit_test(T63_a_clock_set_forward_expires_no_lease_at_once),
        cmocka_unit_test(T63_frames_never_go_back_in_time),
        cmocka_unit_test(T64_restart_with_a_hundred_thousand_leases_in_flight),
        SCENARIO(T67_the_dead_letter_and_its_failed_unit_are_one_record),
        SCENARIO(T70_one_report_ends_the_last_two_units_together),
        SCENARIO(T70_one_request_deletes_the_last_two_units_together),
    };
    return cmocka_run_group_tests_name("scenarios of recovery", tests, NULL, NULL);
}
