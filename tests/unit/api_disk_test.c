/* disk-min-free and the reserve, as clients meet them: what is refused on a disk that is short of room, what goes on,
 * and that a full one is drained whatever lives where. */
#include "sqs.h"

#include "api/action.h"
#include "base/accounted.h"
#include "engine/disk_guard.h"
#include "log/log.h"
#include "log/segment.h"

#define SEGMENT (96u << 10)
#define BODY 1000
#define MIN_FREE (UINT64_C(4) * SEGMENT)

/* A world with a reserve, in which no snapshot is taken but for want of room. */
static struct world *make_world(uint64_t segment_size)
{
    struct world *world = world_create(&(struct world_options){.seed = 1,
                                                               .segment_size = segment_size,
                                                               .frame_size_max = segment_size / 2 - 1024,
                                                               .snapshot_bytes = UINT64_C(1) << 30,
                                                               .keeps_reserve = true,
                                                               .disk_min_free = MIN_FREE});
    world_create_queue(world, "q", "");
    world_care_for_disk(world, 1);
    return world;
}

/* With small segments, which have no hole at their ends. */
static struct world *small_world(void **state)
{
    (void)state;
    return make_world(SEGMENT);
}

static enum disk_level level(const struct world *world)
{
    return namespace_disk_level(world->ns);
}

/* Somebody else takes all but so many bytes, and the server looks. */
static void leave_free(struct world *world, uint64_t bytes)
{
    world_care_for_disk(world, 1);
    memory_disk_set_capacity(world->disk, memory_disk_used(world->disk) + bytes);
    world_care_for_disk(world, 1);
}

static const char *body(void)
{
    static char text[BODY + 1];
    memset(text, 'x', BODY);
    return text;
}

static void send_many(struct world *world, const char *queue, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world,
               world_call(world, "SendMessage", "{'QueueUrl':'%s','MessageBody':'%u %s'}", queue, i, body()).error ==
                   NULL);
    world_forget(world);
}

/* As an SDK does: a 503 is repeated. */
static void delete_patiently(struct world *world, const char *queue, const char *handle)
{
    for (unsigned i = 0; i < 50; i++) {
        struct answer answer =
            world_call(world, "DeleteMessage", "{'QueueUrl':'%s','ReceiptHandle':'%s'}", queue, handle);
        if (answer.error == NULL)
            return;
        if (!answer_fails(answer, "DiskIsFull"))
            fail_msg("%s: %s", answer.error, answer_text(answer, "message"));
        world_care_for_disk(world, 1);
    }
    fail_msg("a delete is refused for ever");
}

/* Receives what there is; every `each`-th is deleted, the others are there again at once. How many were deleted. */
static unsigned delete_some(struct world *world, const char *queue, unsigned count, unsigned each)
{
    unsigned deleted = 0;
    for (unsigned seen = 0; seen < count;) {
        struct taken taken[10];
        unsigned got = 0;
        for (unsigned i = 0; i < 50 && level(world) == DISK_SPENT; i++)
            world_care_for_disk(world, 1);
        if (level(world) != DISK_SPENT)
            got = world_take(world, queue, 3600, 10, taken);
        if (got == 0)
            break;
        for (unsigned i = 0; i < got; i++, seen++)
            if (each == 0 || seen % each != 0) {
                delete_patiently(world, queue, taken[i].handle);
                deleted++;
            }
        world_care_for_disk(world, 2);
        world_forget(world);
    }
    return deleted;
}

static void what_grows_is_refused_below_the_limit_and_what_ends_goes_on(void **state)
{
    struct world *world = small_world(state);
    send_many(world, "q", 20);
    EXPECT(world, level(world) == DISK_AMPLE);
    leave_free(world, MIN_FREE - 4096);
    EXPECT(world, level(world) == DISK_SHORT);
    struct answer answer = world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}");
    EXPECT(world, answer_fails(answer, "DiskIsFull") && answer.status == 503);
    char limit[64];
    snprintf(limit, sizeof(limit), "disk-min-free is %llu", (unsigned long long)MIN_FREE);
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}", "DiskIsFull", limit);
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}", "DiskIsFull",
                     "Receives and deletes go on");
    EXPECT(world, delete_some(world, "q", 20, 0) == 20);
    leave_free(world, MIN_FREE + MIN_FREE / 32);
    EXPECT(world, level(world) == DISK_SHORT); /* a little more than the limit is not enough to begin again */
    leave_free(world, MIN_FREE + MIN_FREE / 8);
    EXPECT(world, level(world) == DISK_AMPLE);
    send_many(world, "q", 1);
    sqs_close(world);
}

/* Whatever the table of actions marks as adding something is refused, and nothing else. */
static void every_action_is_refused_or_goes_on_as_the_table_says(void **state)
{
    struct world *world = small_world(state);
    leave_free(world, 0);
    for (size_t i = 0; i < action_count; i++) {
        bool is_of_sqs = strncmp(actions[i].target, "AmazonSQS.", strlen("AmazonSQS.")) == 0;
        const char *action = actions[i].target + (is_of_sqs ? strlen("AmazonSQS.") : 0);
        bool is_refused = answer_fails(world_call(world, action, "{}"), "DiskIsFull");
        if (is_refused != (actions[i].growth == GROWTH_NEW))
            fail_msg("%s %s on a full disk", action, is_refused ? "is refused" : "goes on");
    }
    sqs_close(world);
}

static void a_full_disk_is_drained_though_the_log_goes_round_many_times(void **state)
{
    struct world *world = small_world(state);
    send_many(world, "q", 300);
    leave_free(world, 0);
    uint64_t begin = namespace_end(world->ns);
    /* Receives that end nothing, for twenty segments. */
    while (namespace_end(world->ns) - begin < 20 * SEGMENT) {
        struct taken taken[10];
        EXPECT(world, level(world) != DISK_AMPLE);
        (void)world_take(world, "q", 0, 10, taken);
        world_care_for_disk(world, 1);
        world_forget(world);
    }
    EXPECT(world, delete_some(world, "q", 300, 0) == 300);
    EXPECT(world, world_count_messages(world, "q") == 0);
    sqs_close(world);
}

/* In each segment a few live on, so none comes free by itself: they are moved, one segment at a time. */
static void a_full_disk_is_drained_in_no_order(void **state)
{
    struct world *world = small_world(state);
    send_many(world, "q", 400);
    leave_free(world, 0);
    unsigned deleted = delete_some(world, "q", 400, 10);
    EXPECT(world, deleted == 360);
    world_pass_time(world, 3600 * 1000);
    world_care_for_disk(world, 40);
    EXPECT(world, namespace_usage(world->ns).moved_bytes > 0);
    EXPECT(world, delete_some(world, "q", 40, 0) == 40);
    world_care_for_disk(world, 40);
    EXPECT(world, world_count_messages(world, "q") == 0);
    sqs_close(world);
}

/* What was promised is kept: completion messages are made, and what they take comes free when they end. */
static void completion_messages_are_made_on_a_full_disk(void **state)
{
    struct world *world = small_world(state);
    world_create_queue(world, "done", "");
    enum { BATCHES = 60, UNITS = 5 };
    for (unsigned i = 0; i < BATCHES; i++) {
        char id[32];
        snprintf(id, sizeof(id), "b%u", i);
        EXPECT(world, world_call(world, "Tally.CreateBatch",
                                 "{'BatchId':'%s','OnComplete':{'QueueUrl':'done','MessageBody':'%s'}}", id, body())
                              .error == NULL);
        for (unsigned k = 0; k < UNITS; k++)
            EXPECT(world, world_send(world, "q", id, body()).error == NULL);
        EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", id).error == NULL);
        world_forget(world);
    }
    leave_free(world, 0);
    EXPECT(world, delete_some(world, "q", BATCHES * UNITS, 0) == BATCHES * UNITS);
    EXPECT(world, world_count_messages(world, "done") == BATCHES);
    EXPECT(world, delete_some(world, "done", BATCHES, 0) == BATCHES);
    sqs_close(world);
}

#define COMPLETION 60000
#define SEGMENT_WITH_HOLE (2u << 20)
#define COMMITTED 10

/* Receives so many messages and ends all of them in one Commit; one by one where that is refused for want of room. */
static bool commit_some(struct world *world)
{
    struct taken taken[COMMITTED];
    char deletes[1200] = "";
    unsigned count = world_take(world, "q", 3600, COMMITTED, taken);
    for (unsigned i = 0; i < count; i++) {
        size_t size = strlen(deletes);
        snprintf(deletes + size, sizeof(deletes) - size, "%s{'QueueUrl':'q','ReceiptHandle':'%s'}", i == 0 ? "" : ",",
                 taken[i].handle);
    }
    struct answer answer = world_call(world, "Tally.Commit", "{'Deletes':[%s]}", deletes);
    bool is_done = answer.error == NULL;
    EXPECT(world, is_done || (answer_fails(answer, "DiskIsFull") && answer.status == 503));
    for (unsigned i = 0; i < count && !is_done; i++)
        delete_patiently(world, "q", taken[i].handle);
    return is_done;
}

/* What one Commit makes due may be more than there is room for behind the place where its frame begins. */
static void a_commit_that_completes_many_batches_on_a_full_disk_is_refused_and_not_half_written(void **state)
{
    (void)state;
    struct world *world = make_world(SEGMENT_WITH_HOLE);
    static char text[COMPLETION + 1];
    memset(text, 'x', COMPLETION);
    world_create_queue(world, "done", "");
    enum { BATCHES = 20 * COMMITTED };
    for (unsigned i = 0; i < BATCHES; i++) {
        char id[32];
        snprintf(id, sizeof(id), "b%u", i);
        struct answer answer =
            world_call(world, "Tally.CreateBatch",
                       "{'BatchId':'%s','OnComplete':{'QueueUrl':'done','MessageBody':'%s'}}", id, text);
        if (answer.error != NULL)
            fail_msg("%s: %s", answer.error, answer_text(answer, "message"));
        EXPECT(world, world_send(world, "q", id, "x").error == NULL);
        EXPECT(world, world_call(world, "Tally.SealBatch", "{'BatchId':'%s'}", id).error == NULL);
        world_forget(world);
    }
    EXPECT(world, commit_some(world)); /* while there is room */
    leave_free(world, 0);
    unsigned refused = 0;
    for (unsigned i = COMMITTED; i < BATCHES; i += COMMITTED) {
        refused += !commit_some(world);
        EXPECT(world, delete_some(world, "done", COMMITTED, 0) >= COMMITTED);
        leave_free(world, 0); /* somebody else takes what came free */
    }
    EXPECT(world, refused == BATCHES / COMMITTED - 1);
    sqs_close(world);
}

static void a_schedule_waits_for_room(void **state)
{
    struct world *world = small_world(state);
    sqs_call(world, "Tally.PutSchedule",
             "{'Name':'s','Cron':'* * * * *','QueueUrl':'q','MessageBody':'tick','CatchUp':'one'}");
    leave_free(world, 0);
    world_pass_time(world, 150 * 1000);
    EXPECT(world, world_count_messages(world, "q") == 0);
    memory_disk_set_capacity(world->disk, UINT64_MAX);
    world_care_for_disk(world, 1);
    world_pass_time(world, 1000);
    EXPECT(world, world_count_messages(world, "q") > 0);
    sqs_close(world);
}

static void a_server_starts_on_a_full_disk_and_serves_what_frees_room(void **state)
{
    struct world *world = small_world(state);
    send_many(world, "q", 100);
    leave_free(world, 0);
    for (unsigned i = 0; i < 30; i++)
        world_kill(world); /* each start writes a frame, and some begin a segment */
    EXPECT(world, level(world) != DISK_AMPLE);
    EXPECT(world, delete_some(world, "q", 100, 0) == 100);
    memory_disk_set_capacity(world->disk, UINT64_MAX);
    world_care_for_disk(world, 2);
    EXPECT(world, level(world) == DISK_AMPLE);
    send_many(world, "q", 1);
    sqs_close(world);
}

/* Whatever the others have in memory, a small namespace keeps room for what it holds itself. */
static void a_small_namespace_keeps_little_however_much_memory_the_others_take(void **state)
{
    enum { OTHERS = 1 << 30, SNAPSHOTS_ROOM = 2 << 20 };
    struct world *world = small_world(state);
    accounted_count_more(OTHERS);
    world_care_for_disk(world, 1);
    send_many(world, "q", 3);
    world_care_for_disk(world, 1000);
    const struct namespace_usage usage = namespace_usage(world->ns);
    if (usage.reserve_bytes >= GUARD_SEGMENTS * 2 * (uint64_t)SEGMENT + SNAPSHOTS_ROOM)
        fail_msg("the reserve is %llu", (unsigned long long)usage.reserve_bytes);
    accounted_count_less(OTHERS);
    world_destroy(world);
}

/* One small event makes the state 5 MB larger. */
static void count_units(struct world *world)
{
    EXPECT(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}").error == NULL);
    EXPECT(world, world_call(world, "Tally.AddUnits", "{'BatchId':'b','Count':20000000}").error == NULL);
}

static void the_reserve_grows_at_once_when_a_batch_counts_many_units(void **state)
{
    struct world *world = small_world(state);
    world_care_for_disk(world, 1);
    count_units(world);
    /* long before the disk is asked again */
    EXPECT(world, namespace_disk_step(world->ns, ++world->now_ms, &world->failure) == OK);
    const uint64_t room = namespace_usage(world->ns).reserve_bytes;
    if (room < GUARD_SNAPSHOTS * (uint64_t)5000000)
        fail_msg("the reserve is %llu", (unsigned long long)room);
    world_destroy(world);
}

/* A folder of a version that kept none, on a disk that is full already. */
static void a_server_without_a_reserve_starts_and_says_what_is_missing(void **state)
{
    struct world *world = small_world(state);
    world->options.keeps_reserve = false;
    send_many(world, "q", 10);
    world_stop(world, false);
    memory_disk_remove(world->disk, "0000000000000000.spare");
    memory_disk_remove(world->disk, "0000000000000001.spare");
    memory_disk_remove(world->disk, "0000000000000000.reserve");
    memory_disk_remove(world->disk, "0000000000000001.reserve");
    memory_disk_set_capacity(world->disk, memory_disk_used(world->disk));
    world->options.keeps_reserve = true;
    world_start(world);
    EXPECT(world, level(world) == DISK_SHORT && namespace_usage(world->ns).missing_bytes >= 2 * SEGMENT);
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}", "DiskIsFull",
                     "the reserve for a full disk lacks");
    EXPECT(world, delete_some(world, "q", 10, 0) == 10);
    memory_disk_set_capacity(world->disk, UINT64_MAX);
    world_care_for_disk(world, 1);
    EXPECT(world, level(world) == DISK_AMPLE && namespace_usage(world->ns).missing_bytes == 0);
    sqs_close(world);
}

/* Where the frame behind a snapshot did not fit, it stands in the next segment: the snapshot's file has its name from
 * the place where it was taken, and a start must find it to see that its room is there. */
static void a_start_finds_the_room_of_a_snapshot_at_a_segments_end(void **state)
{
    struct world *world = small_world(state);
    char large[SEGMENT / 5];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    world->options.snapshot_bytes = 1; /* so that one is taken where it is asked for */
    for (unsigned i = 0; i < 20; i++) {
        EXPECT(world, world_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'%s'}", large).error == NULL);
        world_forget(world);
        world_snapshot(world);
        world_stop(world, false);
        world_start(world);
        if (namespace_usage(world->ns).missing_bytes > 0)
            fail_msg("start %u: the reserve lacks %llu", i,
                     (unsigned long long)namespace_usage(world->ns).missing_bytes);
    }
    sqs_close(world);
}

/* A disk whose quota knows better than what it says is free. */
static const struct disk_operations *whole_operations;
static bool is_over_quota;

static enum error reserve_under_quota(struct disk_file *file, uint64_t size, struct failure *failure)
{
    return is_over_quota ? failure_set(failure, ERROR_DISK_FULL, "over quota")
                         : whole_operations->reserve(file, size, failure);
}

static bool has_news(struct world *world, const char *text)
{
    struct failure failure;
    failure_init(&failure);
    return namespace_disk_news(world->ns, &failure) && strstr(failure.text, text) != NULL;
}

/* One attempt may fail by chance: nobody is refused for it while the disk says that there is room. */
static void a_reserve_that_cannot_be_had_counts_after_a_while(void **state)
{
    struct world *world = small_world(state);
    whole_operations = world->disk->operations;
    struct disk_operations operations = *whole_operations;
    operations.reserve = reserve_under_quota;
    world->disk->operations = &operations;
    send_many(world, "q", 10);
    is_over_quota = true;
    count_units(world);
    for (unsigned i = 1; i < GUARD_TRIES; i++) {
        world_care_for_disk(world, 1);
        EXPECT(world, namespace_usage(world->ns).missing_bytes > 0 && level(world) == DISK_AMPLE);
        send_many(world, "q", 1);
    }
    struct failure failure;
    EXPECT(world, !namespace_disk_news(world->ns, &failure));
    world_care_for_disk(world, 1);
    EXPECT(world, level(world) == DISK_SHORT && has_news(world, "the reserve is not complete: over quota"));
    sqs_expect_error(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x'}", "DiskIsFull", "lacks");
    is_over_quota = false;
    world_care_for_disk(world, 1);
    EXPECT(world, level(world) == DISK_AMPLE && has_news(world, "has room again"));
    EXPECT(world, !namespace_disk_news(world->ns, &failure));
    send_many(world, "q", 1);
    world->disk->operations = whole_operations;
    sqs_close(world);
}

/* Where the log has come to the end of its last segment, and none can come free, all but reading waits for room. */
static void without_any_room_only_reading_goes_on(void **state)
{
    struct world *world = small_world(state);
    send_many(world, "q", 60);
    leave_free(world, 0);
    world_stop(world, false);
    world->options.snapshot_bytes = 0; /* so that no segment ever goes */
    world_start(world);
    struct taken taken[10];
    for (unsigned i = 0; level(world) != DISK_SPENT; i++) {
        EXPECT(world, i < 3000);
        (void)world_take(world, "q", 0, 10, taken);
        if (i % 8 == 0)
            world_care_for_disk(world, 1);
        world_forget(world);
    }
    sqs_expect_error(world, "ReceiveMessage", "{'QueueUrl':'q'}", "DiskIsFull", "has let a segment go");
    sqs_call(world, "GetQueueAttributes", "{'QueueUrl':'q','AttributeNames':['All']}");
    world_pass_time(world, 60 * 1000);
    memory_disk_set_capacity(world->disk, UINT64_MAX);
    world_care_for_disk(world, 1);
    EXPECT(world, level(world) == DISK_AMPLE);
    EXPECT(world, world_take(world, "q", 30, 10, taken) == 10);
    sqs_close(world);
}

/* Messages are received one after the other until the log has no place left. The reply of the last receive is held. */
static void receive_until_spent(struct world *world, struct exchange *held)
{
    for (unsigned i = 0;; i++) {
        EXPECT(world, i < 3000);
        exchange_init(held);
        held->request =
            (struct request){.target = BYTES("AmazonSQS.ReceiveMessage"),
                             .body = BYTES("{\"QueueUrl\":\"q\",\"MaxNumberOfMessages\":10,\"VisibilityTimeout\":2}")};
        front_submit(world->front, held, world->now_ms);
        EXPECT(world, front_take_finished(world->front) == held && exchange_gives_lease(held));
        EXPECT(world, world_flush(world));
        if (level(world) == DISK_SPENT)
            return;
        EXPECT(world, api_reply_may_leave(world->api, held, world->now_ms));
        exchange_deinit(held);
        world->now_ms += 2001; /* the messages are there again */
        if (i % 8 == 0)
            world_care_for_disk(world, 1);
    }
}

/* A frame would have no place, and a frame that can't be written ends the process. */
static void without_any_room_no_lease_begins_anew_and_none_ends(void **state)
{
    struct world *world = small_world(state);
    struct exchange held;
    send_many(world, "q", 10);
    leave_free(world, 0);
    world_stop(world, false);
    world->options.snapshot_bytes = 0; /* so that no segment ever goes */
    world_start(world);
    receive_until_spent(world, &held);
    world->now_ms += 2500; /* the leases are over, but for the reply that is held */
    sqs_expect_error(world, "ReceiveMessage", "{'QueueUrl':'q'}", "DiskIsFull", "has let a segment go");
    EXPECT(world, namespace_flush(world->ns, &world->failure) == OK);
    EXPECT(world, api_reply_may_leave(world->api, &held, world->now_ms));
    EXPECT(world, namespace_flush(world->ns, &world->failure) == OK);
    exchange_deinit(&held);
    memory_disk_set_capacity(world->disk, UINT64_MAX);
    world_care_for_disk(world, 1);
    EXPECT(world, level(world) == DISK_AMPLE);
    struct taken taken[10];
    EXPECT(world, world_take(world, "q", 30, 10, taken) == 10);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_grows_is_refused_below_the_limit_and_what_ends_goes_on),
        cmocka_unit_test(every_action_is_refused_or_goes_on_as_the_table_says),
        cmocka_unit_test(a_full_disk_is_drained_though_the_log_goes_round_many_times),
        cmocka_unit_test(a_full_disk_is_drained_in_no_order),
        cmocka_unit_test(completion_messages_are_made_on_a_full_disk),
        cmocka_unit_test(a_commit_that_completes_many_batches_on_a_full_disk_is_refused_and_not_half_written),
        cmocka_unit_test(a_schedule_waits_for_room),
        cmocka_unit_test(a_server_starts_on_a_full_disk_and_serves_what_frees_room),
        cmocka_unit_test(a_small_namespace_keeps_little_however_much_memory_the_others_take),
        cmocka_unit_test(the_reserve_grows_at_once_when_a_batch_counts_many_units),
        cmocka_unit_test(a_server_without_a_reserve_starts_and_says_what_is_missing),
        cmocka_unit_test(a_start_finds_the_room_of_a_snapshot_at_a_segments_end),
        cmocka_unit_test(a_reserve_that_cannot_be_had_counts_after_a_while),
        cmocka_unit_test(without_any_room_only_reading_goes_on),
        cmocka_unit_test(without_any_room_no_lease_begins_anew_and_none_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
