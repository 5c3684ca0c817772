/* Every metric of a namespace says what it stands for. For those of relays and pools: api_relay_test.c and
 * api_pool_test.c. */
#include "sqs.h"

#include "base/accounted.h"

static struct arena arena;
static struct buffer text;

static const char *write_metrics(struct world *world)
{
    buffer_truncate(&text, 0);
    front_metrics_write(world->front, &arena, &text);
    buffer_append_u8(&text, 0);
    return (const char *)text.data_owned;
}

/* The value of the series, whose name is that of a whole line up to its blank; NULL: there is none. */
static const char *find_value(const char *metrics, const char *series)
{
    const size_t size = strlen(series);
    for (const char *line = metrics; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, series, size) == 0 && line[size] == ' ')
            return line + size + 1;
    return NULL;
}

static void expect_text(const char *metrics, const char *series, const char *expected)
{
    const char *found = find_value(metrics, series);
    if (found == NULL || strncmp(found, expected, strlen(expected)) != 0)
        fail_msg("%s is %.20s, not %s", series, found == NULL ? "not there" : found, expected);
}

static void expect_metric(const char *metrics, const char *series, uint64_t value)
{
    char expected[32];
    (void)snprintf(expected, sizeof(expected), "%llu\n", (unsigned long long)value);
    expect_text(metrics, series, expected);
}

static void fill(struct world *world)
{
    world_create_queue(world, "f.fifo", "'FifoQueue':'true'");
    for (unsigned i = 0; i < 7; i++)
        EXPECT(world, world_send(world, "q", NULL, "x").error == NULL);
    for (unsigned i = 0; i < 4; i++)
        sqs_call(world, "SendMessage", "{'QueueUrl':'q','MessageBody':'x','DelaySeconds':900}");
    for (unsigned i = 0; i < 5; i++)
        EXPECT(world, world_call(world, "SendMessage",
                                 "{'QueueUrl':'f.fifo','MessageBody':'x','MessageGroupId':'g',"
                                 "'MessageDeduplicationId':'%u'}",
                                 i)
                              .error == NULL);
    sqs_call(world, "ReceiveMessage", "{'QueueUrl':'q','MaxNumberOfMessages':2}");
    sqs_call(world, "Tally.PauseQueue", "{'QueueUrl':'f.fifo'}");
    sqs_call(world, "Tally.PauseGroup", "{'QueueUrl':'f.fifo','MessageGroupId':'g'}");
    for (unsigned i = 0; i < 6; i++)
        EXPECT(world, world_call(world, "Tally.CreateBatch", "{'BatchId':'b%u'}", i).error == NULL);
    for (unsigned i = 0; i < 3; i++)
        EXPECT(world, world_call(world, "Tally.PutSchedule",
                                 "{'Name':'s%u','Cron':'0 0 1 1 *','QueueUrl':'q','MessageBody':'tick'}", i)
                              .error == NULL);
    sqs_expect_error(world, "Tally.DescribeBatch", "{'BatchId':'none'}", "BatchDoesNotExist", "");
}

static void every_metric_of_a_namespace_says_what_it_stands_for(void **state)
{
    struct world *world = sqs_open(state);
    fill(world);
    EXPECT(world, world_flush(world));
    struct exchange waiting[3];
    for (size_t i = 0; i < ARRAY_LENGTH(waiting); i++) {
        exchange_init(&waiting[i]);
        waiting[i].request = (struct request){
            .target = BYTES("AmazonSQS.ReceiveMessage"),
            .body = BYTES("{\"QueueUrl\":\"empty\",\"WaitTimeSeconds\":20,\"MaxNumberOfMessages\":1}")};
        if (i == 0)
            world_create_queue(world, "empty", "");
        front_submit(world->front, &waiting[i], world->now_ms);
    }
    const char *metrics = write_metrics(world);
    const struct core_metrics now = core_metrics(world_core(world));
    const struct namespace_usage usage = namespace_usage(world->ns);
    EXPECT(world, usage.disk_bytes > usage.live_bytes && usage.bound_bytes != usage.disk_bytes);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"tally_queues", 3},
        {"tally_messages", 16},
        {"tally_messages_in_flight", 2},
        {"tally_messages_delayed", 4},
        {"tally_batches{state=\"open\"}", 6},
        {"tally_batches{state=\"sealed\"}", 0},
        {"tally_batches{state=\"completed\"}", 0},
        {"tally_deduplication_ids", 5},
        {"tally_producers", now.producers},
        {"tally_publishers", 0},
        {"tally_published_rows", 0},
        {"tally_published_ids_reused_total", 0},
        {"tally_receives_waiting", 3},
        {"tally_pools", 0},
        {"tally_feeds_waiting", 0},
        {"tally_messages_sent_total", 16},
        {"tally_deliveries_total", 2},
        {"tally_frames_durable_total", namespace_durable(world->ns)},
        {"tally_disk_bytes", usage.disk_bytes},
        {"tally_disk_live_bytes", usage.live_bytes},
        {"tally_disk_bound_bytes", usage.bound_bytes},
        {"tally_disk_reserve_bytes", usage.reserve_bytes},
        {"tally_disk_reserve_missing_bytes", usage.missing_bytes},
        {"tally_disk_free_bytes", usage.free_bytes},
        {"tally_disk_min_free_bytes", usage.min_free_bytes},
        {"tally_disk_level", 0},
        {"tally_snapshot_last_success_timestamp_seconds", 0},
        {"tally_snapshots_failed_total", 0},
        {"tally_snapshot_failing", 0},
        {"tally_log_segments", usage.segments},
        {"tally_cleaning_rounds_total", usage.cleaning_rounds},
        {"tally_cleaning_moved_bytes_total", usage.moved_bytes},
        {"tally_schedules", 3},
        {"tally_schedules_waiting_for_zone", 0},
        {"tally_contents_damaged_total", 0},
        {"tally_stale_receipts_total", 0},
        {"tally_messages_deleted_total", 0},
        {"tally_messages_failed_total", 0},
        {"tally_messages_dead_lettered_total", 0},
        {"tally_messages_dropped_total", 0},
        {"tally_messages_expired_total", 0},
        {"tally_messages_redriven_total", 0},
        {"tally_queues_paused", 1},
        {"tally_groups_held", 0},
        {"tally_metrics_queues_left_out", 0},
        {"tally_requests_refused_total", 0},
        {"tally_memory_bytes", accounted_in_use()},
        {"tally_memory_limit_bytes", 0},
        {"tally_queue_messages{queue=\"q\",state=\"visible\"}", 5},
        {"tally_queue_messages{queue=\"q\",state=\"in_flight\"}", 2},
        {"tally_queue_messages{queue=\"q\",state=\"delayed\"}", 4},
        {"tally_queue_messages{queue=\"q\",state=\"blocked\"}", 0},
        {"tally_queue_messages{queue=\"f.fifo\",state=\"visible\"}", 5},
        {"tally_queue_messages{queue=\"f.fifo\",state=\"in_flight\"}", 0},
        {"tally_queue_messages{queue=\"empty\",state=\"delayed\"}", 0},
        {"tally_queue_receivers_waiting{queue=\"empty\"}", 3},
        {"tally_queue_receivers_waiting{queue=\"q\"}", 0},
        {"tally_queue_paused{queue=\"f.fifo\"}", 1},
        {"tally_queue_paused{queue=\"q\"}", 0},
        {"tally_queue_dead_letters{queue=\"q\"}", 0},
        {"tally_queue_groups{queue=\"q\",state=\"held\"}", 0},
        {"tally_queue_groups{queue=\"f.fifo\",state=\"paused\"}", 1},
        {"tally_queue_messages_sent_total{queue=\"q\"}", 11},
        {"tally_queue_messages_received_total{queue=\"q\"}", 2},
        {"tally_queue_messages_deleted_total{queue=\"q\"}", 0},
        {"tally_queue_empty_receives_total{queue=\"empty\"}", 0},
        {"tally_queue_wait_seconds_bucket{le=\"0.001\"}", 2},
        {"tally_queue_wait_seconds_bucket{le=\"+Inf\"}", 2},
        {"tally_queue_wait_seconds_count", 2},
        {"tally_queue_processing_seconds_count", 0},
        {"tally_calls_total{action=\"AmazonSQS.SendMessage\",result=\"ok\"}", 16},
        {"tally_calls_total{action=\"AmazonSQS.SendMessage\",result=\"error\"}", 0},
        {"tally_calls_total{action=\"AmazonSQS.ReceiveMessage\",result=\"ok\"}", 4}, /* three wait */
        {"tally_calls_total{action=\"AmazonSQS.CreateQueue\",result=\"ok\"}", 3},
        {"tally_calls_total{action=\"Tally.CreateBatch\",result=\"ok\"}", 6},
        {"tally_calls_total{action=\"Tally.DescribeBatch\",result=\"ok\"}", 0},
        {"tally_calls_total{action=\"Tally.DescribeBatch\",result=\"error\"}", 1},
        {"tally_calls_total{action=\"Tally.PutSchedule\",result=\"ok\"}", 3},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        expect_metric(metrics, rows[i].name, rows[i].value);
    /* And there are no others. */
    size_t series = 0, calls = 0, queues = 0, plain = 0;
    for (const char *line = metrics; *line != '\0'; line = strchr(line, '\n') + 1) {
        series += *line != '#';
        calls += strncmp(line, "tally_calls_total{", 18) == 0;
        queues += strncmp(line, "tally_queue_", 12) == 0;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        plain += strchr(rows[i].name, '{') == NULL && strncmp(rows[i].name, "tally_queue_", 12) != 0;
    expect_text(metrics, "tally_oldest_message_age_seconds{state=\"any\"}", "0.000\n");
    expect_text(metrics, "tally_oldest_message_age_seconds{state=\"deliverable\"}", "0.000\n");
    expect_text(metrics, "tally_build_info{version=\"" TALLY_VERSION "\"}", "1\n");
    char age[32];
    const uint64_t age_ms = core_now_ms(world_core(world)) - core_oldest_batch(world_core(world))->created_at_ms;
    (void)snprintf(age, sizeof(age), "%u.%03u\n", (unsigned)(age_ms / 1000), (unsigned)(age_ms % 1000));
    expect_text(metrics, "tally_batch_oldest_age_seconds", age);
    expect_text(metrics, "tally_recovery_seconds", "0.000\n");
    const size_t of_queues = 3 * 21, of_histograms = 2 * (HISTOGRAM_BUCKETS + 2);
    EXPECT(world, queues == of_queues + of_histograms && calls % 2 == 0);
    EXPECT(world, series == plain + 3 + 3 + 2 + queues + calls);
    api_release_waiting(world->api);
    for (size_t i = 0; i < ARRAY_LENGTH(waiting); i++) {
        EXPECT(world, front_take_finished(world->front) == &waiting[i]);
        exchange_deinit(&waiting[i]);
    }
    sqs_close(world);
}

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena);
    buffer_init(&text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buffer_deinit(&text);
    arena_deinit(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_of_a_namespace_says_what_it_stands_for),
    };
    return cmocka_run_group_tests_name("api: metrics", tests, set_up, tear_down);
}
