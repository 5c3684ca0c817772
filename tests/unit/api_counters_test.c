/* What is counted of queues for people: each message once, whichever way it comes and goes; what rates and trends say
 * of it; and what /metrics shows. */
#include "sqs.h"

#include "base/accounted.h"
#include "base/memory.h"

#define ARN "arn:aws:sqs:us-east-1:000000000000:"

static uint64_t counted(struct world *world, const char *queue, enum queue_counter counter)
{
    const struct queue *found = core_find_queue(world_core(world), bytes_from_string(queue));
    EXPECT(world, found != NULL);
    return found->counters.counts[counter];
}

static void expect_counts(struct world *world, const char *queue, const uint64_t counts[QUEUE_COUNTER_COUNT])
{
    for (unsigned i = 0; i < QUEUE_COUNTER_COUNT; i++)
        if (counted(world, queue, (enum queue_counter)i) != counts[i])
            fail_msg("%s, counter %u: expected %llu, got %llu", queue, i, (unsigned long long)counts[i],
                     (unsigned long long)counted(world, queue, (enum queue_counter)i));
}

static void send(struct world *world, const char *queue, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        EXPECT(world, world_send(world, queue, NULL, "m").error == NULL);
}

/* --- counters ----------------------------------------------------------------------------------------------------- */

static void each_way_in_and_out_is_counted_once(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    struct taken taken[10];
    world_create_queue(world, "dead", "");
    world_create_queue(world, "q",
                       "'VisibilityTimeout':'5','RedrivePolicy':'{\\\"deadLetterTargetArn\\\":\\\"" ARN
                       "dead\\\",\\\"maxReceiveCount\\\":1}'");
    world_create_queue(world, "once", "'Tally.DeliveryMode':'at-most-once'");
    world_create_queue(world, "short", "'MessageRetentionPeriod':'60'");
    send(world, "q", 4);
    sqs_call(world, "SendMessageBatch",
             "{'QueueUrl':'q','Entries':[{'Id':'a','MessageBody':'m'},{'Id':'b','MessageBody':'m'}]}");
    sqs_call(world, "Tally.Commit", "{'Sends':[{'QueueUrl':'q','MessageBody':'m'}]}");
    EXPECT(world, world_take(world, "q", 5, 6, taken) == 6);
    world_delete(world, "q", taken[0].handle);
    world_call(world, "DeleteMessageBatch",
               "{'QueueUrl':'q','Entries':[{'Id':'a','ReceiptHandle':'%s'},{'Id':'b','ReceiptHandle':'%s'}]}",
               taken[1].handle, taken[2].handle);
    EXPECT(world,
           world_call(world, "Tally.Commit", "{'Deletes':[{'QueueUrl':'q','ReceiptHandle':'%s'}]}", taken[3].handle)
                   .error == NULL);
    EXPECT(world,
           world_call(world, "Tally.FailMessage", "{'QueueUrl':'q','ReceiptHandle':'%s','Final':true}", taken[4].handle)
                   .error == NULL);
    world_delete(world, "q", taken[0].handle);               /* it has ended: nothing is counted twice */
    world_pass_time(world, 6000);                            /* the lease of the sixth is over */
    EXPECT(world, world_take(world, "q", 5, 2, taken) == 1); /* the sixth is out of attempts, and the seventh comes */
    world_delete(world, "q", taken[0].handle);
    EXPECT(world, world_take(world, "q", 5, 1, taken) == 0);
    expect_counts(world, "q",
                  (uint64_t[]){[COUNTER_SENT] = 7,
                               [COUNTER_RECEIVED] = 7,
                               [COUNTER_DELETED] = 5,
                               [COUNTER_FAILED] = 2,
                               [COUNTER_DEAD_LETTERED] = 2,
                               [COUNTER_DROPPED] = 0,
                               [COUNTER_EXPIRED] = 0,
                               [COUNTER_REDRIVEN] = 0,
                               [COUNTER_EMPTY_RECEIVES] = counted(world, "q", COUNTER_EMPTY_RECEIVES)});
    EXPECT(world, counted(world, "q", COUNTER_EMPTY_RECEIVES) >= 1);
    EXPECT(world, world_call(world, "StartMessageMoveTask", "{'SourceArn':'" ARN "dead'}").error == NULL);
    world_pass_time(world, 5000);
    EXPECT(world, counted(world, "dead", COUNTER_REDRIVEN) == 2 && counted(world, "dead", COUNTER_SENT) == 0);
    send(world, "once", 1);
    EXPECT(world, world_take(world, "once", 5, 1, taken) == 1);
    EXPECT(world, counted(world, "once", COUNTER_RECEIVED) == 1 && counted(world, "once", COUNTER_DELETED) == 1);
    send(world, "short", 2);
    EXPECT(world, world_take(world, "short", 5, 1, taken) == 1);
    EXPECT(world, world_call(world, "Tally.FailMessage", "{'QueueUrl':'short','ReceiptHandle':'%s','Final':true}",
                             taken[0].handle)
                          .error == NULL);
    world_pass_time(world, 61000);
    EXPECT(world, counted(world, "short", COUNTER_EXPIRED) == 1 && counted(world, "short", COUNTER_DELETED) == 0);
    EXPECT(world, counted(world, "short", COUNTER_FAILED) == 1);
    send(world, "q", 3);
    const uint64_t deleted = core_counted(world_core(world), COUNTER_DELETED);
    world_call(world, "PurgeQueue", "{'QueueUrl':'q'}");
    world_pass_time(world, 1000);
    EXPECT(world, core_counted(world_core(world), COUNTER_DELETED) == deleted && deleted == 6);
    EXPECT(world, core_counted(world_core(world), COUNTER_SENT) == 13);
    sqs_close(world);
}

static void a_start_counts_from_nothing_and_so_does_a_queue_of_the_same_name(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    send(world, "q", 3);
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1 && counted(world, "q", COUNTER_SENT) == 3);
    world_kill(world);
    EXPECT(world, counted(world, "q", COUNTER_SENT) == 0 && core_counted(world_core(world), COUNTER_RECEIVED) == 0);
    EXPECT(world, core_counted_since_ms(world_core(world)) == world->now_ms);
    send(world, "q", 1);
    EXPECT(world, counted(world, "q", COUNTER_SENT) == 1);
    world_call(world, "DeleteQueue", "{'QueueUrl':'q'}");
    world_create_queue(world, "q", "");
    EXPECT(world, counted(world, "q", COUNTER_SENT) == 0 && core_counted(world_core(world), COUNTER_SENT) == 1);
    sqs_close(world);
}

static void a_receive_is_remembered_whether_it_found_something_or_not(void **state)
{
    struct world *world = sqs_open(state);
    const struct queue *queue = core_find_queue(world_core(world), BYTES("q"));
    EXPECT(world, queue->counters.last_receive_ms == 0);
    sqs_call(world, "ReceiveMessage", "{'QueueUrl':'q'}");
    const uint64_t first_ms = world->now_ms;
    EXPECT(world, queue->counters.last_receive_ms == first_ms && counted(world, "q", COUNTER_EMPTY_RECEIVES) == 1);
    struct exchange poll;
    exchange_init(&poll);
    poll.request = (struct request){.target = BYTES("AmazonSQS.ReceiveMessage"),
                                    .body = BYTES("{\"QueueUrl\":\"q\",\"WaitTimeSeconds\":3}")};
    world->now_ms += 10000;
    front_submit(world->front, &poll, world->now_ms);
    EXPECT(world, poll.state == EXCHANGE_WAITING && counted(world, "q", COUNTER_EMPTY_RECEIVES) == 1);
    world->now_ms += 3000;
    api_tick(world->api, world->now_ms);
    EXPECT(world, front_take_finished(world->front) == &poll);
    EXPECT(world, queue->counters.last_receive_ms == first_ms + 13000);
    EXPECT(world, counted(world, "q", COUNTER_EMPTY_RECEIVES) == 2);
    exchange_deinit(&poll);
    sqs_close(world);
}

/* --- rates -------------------------------------------------------------------------------------------------------- */

#define SPAN_MS ((uint64_t)1 << QUEUE_SPAN_SHIFT)

static void count(struct queue_counters *counters, uint64_t now_ms, unsigned count)
{
    if (counters->span != queue_span(now_ms))
        queue_counters_begin_span(counters, now_ms);
    counters->counts[COUNTER_SENT] += count;
}

static double rate(const struct queue_counters *counters, uint64_t now_ms, uint64_t since_ms)
{
    return queue_counters_rate(counters, COUNTER_SENT, now_ms, since_ms);
}

static void expect_about(double value, double expected)
{
    if (value < expected - 0.001 || value > expected + 0.001)
        fail_msg("expected %f, got %f", expected, value);
}

static void a_rate_is_that_of_the_last_minute(void **state)
{
    (void)state;
    const uint64_t begin_ms = 1000 * SPAN_MS;
    struct queue_counters counters = {.counts = {[COUNTER_SENT] = UINT32_MAX - 10}}; /* the lower half goes around */
    for (uint64_t at_ms = begin_ms; at_ms < begin_ms + 2 * SPAN_MS; at_ms += 1000)
        count(&counters, at_ms, 7);
    const double steady = rate(&counters, begin_ms + 2 * SPAN_MS - 1000, 0);
    assert_true(steady > 6.8 && steady < 7.2);
    /* It fades, and is 0 a minute later. */
    assert_true(rate(&counters, begin_ms + 2 * SPAN_MS + 20000, 0) < 0.75 * steady);
    expect_about(rate(&counters, begin_ms + 2 * SPAN_MS + 60000, 0), 0);
    expect_about(rate(&counters, begin_ms + 9 * SPAN_MS, 0), 0);
}

static void right_behind_a_start_a_rate_looks_back_to_it(void **state)
{
    (void)state;
    const uint64_t begin_ms = 1000 * SPAN_MS;
    struct queue_counters counters = {.span = 0};
    expect_about(rate(&counters, begin_ms, begin_ms), 0);
    count(&counters, begin_ms + 500, 20);
    expect_about(rate(&counters, begin_ms + 500, begin_ms), 20); /* of less than a second it says nothing */
    expect_about(rate(&counters, begin_ms + 10000, begin_ms), 2);
    struct queue_counters others = {.span = 0};
    count(&others, begin_ms - 5000, 30);
    count(&others, begin_ms + 5000, 30);
    expect_about(rate(&others, begin_ms + 5000, begin_ms - 5000), 6); /* the start lies in the span before */
}

static void the_stats_of_a_queue_have_its_rates(void **state)
{
    struct world *world = sqs_open(state);
    struct taken taken;
    EXPECT(world, world_call(world, "Tally.ListQueueStats", "{}").error == NULL);
    send(world, "q", 6);
    EXPECT(world, world_take(world, "q", 30, 1, &taken) == 1);
    world_pass_time(world, 2000);
    struct answer answer = world_call(world, "Tally.ListQueueStats", "{}");
    yyjson_val *queue = yyjson_arr_get(yyjson_obj_get(answer.root, "Queues"), 0);
    expect_about(yyjson_get_num(yyjson_obj_get(queue, "SentPerSecond")), 3);
    expect_about(yyjson_get_num(yyjson_obj_get(queue, "ReceivedPerSecond")), 0.5);
    expect_about(yyjson_get_num(yyjson_obj_get(queue, "DeletedPerSecond")), 0);
    expect_about(yyjson_get_num(yyjson_obj_get(queue, "FailedPerSecond")), 0);
    expect_about(yyjson_get_num(yyjson_obj_get(queue, "LastReceiveAt")), (double)(world->now_ms - 2000) / 1000);
    sqs_close(world);
}

/* --- trends ------------------------------------------------------------------------------------------------------- */

static struct world *open_kept(void)
{
    struct world *world = world_create(&(struct world_options){.seed = 1, .keeps_history = true});
    world_create_queue(world, "q", "");
    const uint64_t over_ms = world->now_ms % 60000;
    world_pass_time(world, 60000 - over_ms + 1); /* a period of both lengths has just begun */
    return world;
}

/* A list of the reply, as text: "null,null,3,0". */
static const char *list_text(struct answer answer, const char *name, char text[4000])
{
    size_t index, max, size = 0;
    yyjson_val *item;
    text[0] = '\0';
    yyjson_arr_foreach(yyjson_obj_get(answer.root, name), index, max, item)
    {
        size += (size_t)(yyjson_is_null(item) ? snprintf(text + size, 4000 - size, "%snull", index > 0 ? "," : "")
                                              : snprintf(text + size, 4000 - size, "%s%llu", index > 0 ? "," : "",
                                                         (unsigned long long)yyjson_get_uint(item)));
    }
    return text;
}

static struct answer series_of(struct world *world, const char *queue, unsigned period_s, unsigned points)
{
    struct answer answer = queue == NULL
                               ? world_call(world, "Tally.GetSeries", "{'Period':%u,'Points':%u}", period_s, points)
                               : world_call(world, "Tally.GetSeries", "{'QueueUrl':'%s','Period':%u,'Points':%u}",
                                            queue, period_s, points);
    EXPECT(world, answer.error == NULL);
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Sent")) == points);
    return answer;
}

static void expect_list(struct answer answer, const char *name, const char *expected)
{
    char text[4000];
    assert_string_equal(list_text(answer, name, text), expected);
}

static void a_series_says_what_came_in_each_period_and_what_was_there_at_its_end(void **state)
{
    (void)state;
    struct world *world = open_kept();
    struct taken taken[2];
    send(world, "q", 3);
    world_pass_time(world, 5000);
    EXPECT(world, world_take(world, "q", 600, 2, taken) == 2);
    world_delete(world, "q", taken[0].handle);
    world_pass_time(world, 15000); /* two periods in which nothing happens */
    struct answer answer = series_of(world, "q", 5, 6);
    expect_list(answer, "Sent", "null,null,3,0,0,0");
    expect_list(answer, "Received", "null,null,0,2,0,0");
    expect_list(answer, "Deleted", "null,null,0,1,0,0");
    expect_list(answer, "Failed", "null,null,0,0,0,0");
    expect_list(answer, "DeadLettered", "null,null,0,0,0,0");
    expect_list(answer, "Visible", "null,null,3,1,1,1");
    expect_list(answer, "InFlight", "null,null,0,1,1,1");
    expect_list(answer, "OldestAge", "null,null,5,10,15,20");
    EXPECT(world, answer_number(answer, "Period") == 5);
    EXPECT(world, (uint64_t)yyjson_get_num(yyjson_obj_get(answer.root, "EndsAt")) == world->now_ms / 5000 * 5);
    answer = series_of(world, NULL, 5, 4);
    expect_list(answer, "Sent", "3,0,0,0");
    expect_list(answer, "InFlight", "0,1,1,1");
    expect_list(answer, "OldestAge", "5,10,15,20");
    world_pass_time(world, 60000);
    answer = series_of(world, "q", 60, 3);
    expect_list(answer, "Sent", "null,null,3");
    expect_list(answer, "Visible", "null,null,1");
    sqs_close(world);
}

static void a_series_that_is_asked_for_begins_with_the_next_period(void **state)
{
    (void)state;
    struct world *world = open_kept();
    expect_list(series_of(world, "q", 5, 2), "Sent", "null,null");
    send(world, "q", 2); /* in the period that was not known from its beginning */
    world_pass_time(world, 5000);
    send(world, "q", 4);
    world_pass_time(world, 5000);
    expect_list(series_of(world, "q", 5, 3), "Sent", "null,null,4");
    sqs_close(world);
}

static void nothing_is_known_of_the_time_before_a_start(void **state)
{
    (void)state;
    struct world *world = open_kept();
    send(world, "q", 3);
    world_pass_time(world, 5000);
    expect_list(series_of(world, "q", 5, 1), "Sent", "3");
    world_kill(world);
    world_pass_time(world, 5000);
    send(world, "q", 1);
    world_pass_time(world, 5000);
    struct answer answer = series_of(world, "q", 5, 3);
    expect_list(answer, "Sent", "null,null,1");
    expect_list(answer, "Visible", "null,null,4");
    sqs_close(world);
}

static void a_series_has_an_hour_and_a_day(void **state)
{
    (void)state;
    struct world *world = open_kept();
    for (unsigned i = 0; i < 800; i++) {
        send(world, "q", 1);
        world_pass_time(world, 5000);
    }
    struct answer answer = series_of(world, "q", 5, 720);
    yyjson_val *sent = yyjson_obj_get(answer.root, "Sent"), *all = yyjson_obj_get(answer.root, "Visible");
    for (size_t i = 0; i < 720; i++) {
        EXPECT(world, yyjson_get_uint(yyjson_arr_get(sent, i)) == 1);
        EXPECT(world, yyjson_get_uint(yyjson_arr_get(all, i)) == 81 + i);
    }
    answer = series_of(world, "q", 60, 1440);
    sent = yyjson_obj_get(answer.root, "Sent");
    EXPECT(world, yyjson_get_uint(yyjson_arr_get(sent, 1439)) == 12 && yyjson_is_null(yyjson_arr_get(sent, 0)));
    sqs_close(world);
}

static void at_most_so_many_queues_have_a_series_and_those_at_rest_give_way(void **state)
{
    (void)state;
    struct world *world = open_kept();
    char name[32];
    for (unsigned i = 0; i < TREND_QUEUES_MAX + 20; i++) {
        snprintf(name, sizeof(name), "busy-%03u", i);
        world_create_queue(world, name, "");
        send(world, name, 1);
        world_forget(world);
    }
    world_pass_time(world, 5000);
    const size_t in_use = accounted_in_use();
    char text[4000];
    unsigned known = 0;
    for (unsigned i = 0; i < TREND_QUEUES_MAX + 20; i++) {
        snprintf(name, sizeof(name), "busy-%03u", i);
        known += strcmp(list_text(series_of(world, name, 5, 1), "Sent", text), "1") == 0;
    }
    EXPECT(world, known <= TREND_QUEUES_MAX && known > TREND_QUEUES_MAX / 2);
    /* Each that asks takes another one's place, and no more memory. */
    EXPECT(world, accounted_in_use() < in_use + 4096);
    /* A busy one has to wait until another one has been at rest for an hour. */
    world_pass_time(world, 5000);
    send(world, "q", 1);
    world_pass_time(world, 5000);
    expect_list(series_of(world, "busy-275", 5, 1), "Sent", "0");
    world_pass_time(world, 3700000);
    send(world, "q", 1);
    world_pass_time(world, 5000);
    expect_list(series_of(world, "q", 5, 1), "Sent", "1");
    sqs_close(world);
}

static void a_namespace_at_rest_has_no_trends_and_pays_for_none(void **state)
{
    (void)state;
    struct world *world = open_kept();
    const size_t in_use = accounted_in_use();
    world_pass_time(world, 600000);
    EXPECT(world, accounted_in_use() == in_use && world->api->trends.count == 0);
    send(world, "q", 1);
    world_pass_time(world, 5000);
    EXPECT(world, world->api->trends.count == 2 && accounted_in_use() > in_use + 400);
    const size_t with_one = accounted_in_use();
    world_pass_time(world, 86400000); /* a day without a change takes no memory */
    expect_list(series_of(world, "q", 60, 2), "Sent", "0,0");
    EXPECT(world, accounted_in_use() <= with_one + 1000);
    sqs_close(world);
}

static void a_full_memory_makes_no_series_longer(void **state)
{
    (void)state;
    struct world *world =
        world_create(&(struct world_options){.seed = 1, .keeps_history = true, .memory_max = UINT64_C(1) << 40});
    world_create_queue(world, "q", "");
    world_pass_time(world, 60000 - world->now_ms % 60000 + 1);
    send(world, "q", 100);
    world_pass_time(world, 5000);
    world->options.memory_max = accounted_in_use() / 2;
    world_kill(world); /* the limit is that of a start */
    struct taken taken;
    for (unsigned i = 0; i < 50; i++) {
        EXPECT(world, world_take(world, "q", 600, 1, &taken) == 1);
        world_pass_time(world, 5000);
    }
    expect_list(series_of(world, "q", 5, 2), "Received", "null,null");
    EXPECT(world, world->api->trends.count == 0);
    world->options.memory_max = 0;
    sqs_close(world);
}

static void a_deleted_queue_leaves_its_series(void **state)
{
    (void)state;
    struct world *world = open_kept();
    send(world, "q", 1);
    world_pass_time(world, 5000);
    EXPECT(world, world->api->trends.count == 2);
    world_call(world, "DeleteQueue", "{'QueueUrl':'q'}");
    world_create_queue(world, "q", "");
    world_pass_time(world, 5000);
    EXPECT(world, world->api->trends.count == 1 && world->front != NULL);
    expect_list(series_of(world, "q", 5, 2), "Sent", "null,null");
    sqs_close(world);
}

static void a_server_that_keeps_none_says_so(void **state)
{
    struct world *world = sqs_open(state);
    sqs_expect_error(world, "Tally.GetSeries", "{'Period':5}", "UnsupportedOperation", "ui-history = off");
    sqs_expect_error(world, "Tally.GetSeries", "{'Period':6}", "InvalidParameterValueException", "5 or 60 seconds");
    sqs_expect_error(world, "Tally.GetSeries", "{'Period':5,'Points':0}", "InvalidParameterValueException",
                     "1 and 720");
    sqs_expect_error(world, "Tally.GetSeries", "{}", "MissingRequiredParameterException", "Period");
    sqs_expect_error(world, "Tally.GetSeries", "{'QueueUrl':'none','Period':5}", "QueueDoesNotExist", "'none'");
    sqs_close(world);
}

/* --- scrapes ------------------------------------------------------------------------------------------------------ */

/* The reply to GET /metrics?QUERY, as a text that the caller frees; *portions: in how many turns it was made. */
static char *scrape(struct world *world, const char *query, int *status, unsigned *portions)
{
    struct exchange exchange;
    exchange_init(&exchange);
    exchange.request.query = bytes_from_string(query);
    *portions = 0;
    front_scrape(world->front, &exchange, world->now_ms);
    while (front_has_scrapes(world->front)) {
        front_scrape_step(world->front, world->now_ms);
        ++*portions;
    }
    EXPECT(world, front_take_finished(world->front) == &exchange && exchange.state == EXCHANGE_FINISHED);
    char *text = memory_allocate(exchange.reply.body.size + 1);
    memcpy(text, exchange.reply.body.data_owned, exchange.reply.body.size);
    text[exchange.reply.body.size] = '\0';
    *status = exchange.reply.status;
    exchange_deinit(&exchange);
    return text;
}

static bool scrape_has(struct world *world, const char *query, const char *line)
{
    int status;
    unsigned portions;
    char *text = scrape(world, query, &status, &portions);
    const bool has_line = status == 200 && strstr(text, line) != NULL;
    free(text);
    return has_line;
}

static void make_queues(struct world *world, unsigned count)
{
    char name[32];
    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "queue-%05u", i);
        world_create_queue(world, name, "");
        world_forget(world);
    }
}

static void with_many_queues_none_has_lines_but_those_that_are_asked_for(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    make_queues(world, 1000);
    EXPECT(world, scrape_has(world, "", "\ntally_metrics_queues_left_out 0\n"));
    EXPECT(world, scrape_has(world, "", "\ntally_queue_messages{queue=\"queue-00999\",state=\"visible\"} 0\n"));
    world_create_queue(world, "one", "");
    send(world, "one", 2);
    world_pass_time(world, 3000);
    EXPECT(world, scrape_has(world, "", "\ntally_metrics_queues_left_out 1001\n"));
    EXPECT(world, !scrape_has(world, "", "\ntally_queue_messages{"));
    /* What all queues say together holds for those, too. */
    EXPECT(world, scrape_has(world, "", "\ntally_oldest_message_age_seconds{state=\"deliverable\"} 3.000\n"));
    EXPECT(world, scrape_has(world, "queue=o*e,queue-0000%2A", "\ntally_metrics_queues_left_out 990\n"));
    EXPECT(world, scrape_has(world, "a=b&queue=one", "\ntally_queue_messages_sent_total{queue=\"one\"} 2\n"));
    EXPECT(world, !scrape_has(world, "queue=one", "queue-0"));
    sqs_close(world);
}

static void the_patterns_of_the_configuration_hold_until_a_request_has_its_own(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1, .metrics_queues = "mail-*,jobs"});
    world_create_queue(world, "jobs", "");
    world_create_queue(world, "mail-in", "");
    world_create_queue(world, "other", "");
    EXPECT(world, scrape_has(world, "", "\ntally_metrics_queues_left_out 1\n"));
    EXPECT(world, scrape_has(world, "", "\ntally_queue_paused{queue=\"mail-in\"} 0\n"));
    EXPECT(world, !scrape_has(world, "", "queue=\"other\""));
    EXPECT(world, scrape_has(world, "queue=*", "\ntally_queue_paused{queue=\"other\"} 0\n"));
    sqs_close(world);
}

static void what_is_no_pattern_is_refused(void **state)
{
    struct world *world = sqs_open(state);
    static const char *const queries[] = {"queue=", "queue=a,,b", "queue=a%20b", "queue=%22%7D"};
    for (size_t i = 0; i < ARRAY_LENGTH(queries); i++) {
        int status;
        unsigned portions;
        char *text = scrape(world, queries[i], &status, &portions);
        EXPECT(world, status == 400 && strncmp(text, "queue= is 1 to 100 patterns", 27) == 0);
        free(text);
    }
    EXPECT(world, metrics_are_patterns(BYTES("a,b-*.fifo")) && !metrics_are_patterns(BYTES("a b")));
    sqs_close(world);
}

/* Under AddressSanitizer strstr() goes to the end of the text each time. */
static unsigned count_of(const char *text, const char *wanted)
{
    unsigned count = 0;
    const char *end = text + strlen(text), *at = text;
    while ((at = memmem(at, (size_t)(end - at), wanted, strlen(wanted))) != NULL) {
        count++;
        at++;
    }
    return count;
}

static void a_large_scrape_is_made_in_portions_and_says_the_same(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    int status;
    unsigned portions;
    make_queues(world, 3000);
    char *text = scrape(world, "queue=*", &status, &portions);
    EXPECT(world, status == 200 && portions > 3000 / 500 + strlen(text) / (128 * 1024));
    const unsigned lines = count_of(text, "\ntally_queue_messages{");
    const unsigned heads = count_of(text, "# TYPE tally_queue_messages gauge");
    EXPECT(world, lines == 4 * 3000 && heads == 1);
    free(text);
    sqs_close(world);
}

static void many_long_patterns_make_small_portions(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    char query[] = "queue=*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab,*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab,*queue-00150";
    unsigned few, many;
    int status;
    make_queues(world, 1200);
    free(scrape(world, "queue=queue-00150", &status, &few));
    char *text = scrape(world, query, &status, &many);
    EXPECT(world, status == 200 && strstr(text, "queue-00150") != NULL && many > 2 * few);
    free(text);
    sqs_close(world);
}

static void queues_may_come_and_go_and_a_client_may_leave_while_a_scrape_is_made(void **state)
{
    (void)state;
    struct world *world = world_create(&(struct world_options){.seed = 1});
    make_queues(world, 2500);
    struct exchange one, two;
    exchange_init(&one);
    exchange_init(&two);
    one.request.query = two.request.query = BYTES("queue=*");
    front_scrape(world->front, &one, world->now_ms);
    front_scrape(world->front, &two, world->now_ms);
    EXPECT(world, one.state == EXCHANGE_WAITING && two.state == EXCHANGE_WAITING);
    world_call(world, "DeleteQueue", "{'QueueUrl':'queue-00000'}");
    world_call(world, "DeleteQueue", "{'QueueUrl':'queue-02499'}");
    world_call(world, "DeleteQueue", "{'QueueUrl':'queue-01500'}");
    world_create_queue(world, "a-new", "");
    world_create_queue(world, "z-new", "");
    front_abandon_scrape(world->front, &one);
    EXPECT(world, one.state == EXCHANGE_NEW);
    while (front_has_scrapes(world->front))
        front_scrape_step(world->front, world->now_ms);
    EXPECT(world, front_take_finished(world->front) == &two);
    EXPECT(world, memmem(two.reply.body.data_owned, two.reply.body.size, "z-new", 5) != NULL);
    exchange_deinit(&one);
    exchange_deinit(&two);
    sqs_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_in_and_out_is_counted_once),
        cmocka_unit_test(a_start_counts_from_nothing_and_so_does_a_queue_of_the_same_name),
        cmocka_unit_test(a_receive_is_remembered_whether_it_found_something_or_not),
        cmocka_unit_test(a_rate_is_that_of_the_last_minute),
        cmocka_unit_test(right_behind_a_start_a_rate_looks_back_to_it),
        cmocka_unit_test(the_stats_of_a_queue_have_its_rates),
        cmocka_unit_test(a_series_says_what_came_in_each_period_and_what_was_there_at_its_end),
        cmocka_unit_test(a_series_that_is_asked_for_begins_with_the_next_period),
        cmocka_unit_test(nothing_is_known_of_the_time_before_a_start),
        cmocka_unit_test(a_series_has_an_hour_and_a_day),
        cmocka_unit_test(at_most_so_many_queues_have_a_series_and_those_at_rest_give_way),
        cmocka_unit_test(a_namespace_at_rest_has_no_trends_and_pays_for_none),
        cmocka_unit_test(a_full_memory_makes_no_series_longer),
        cmocka_unit_test(a_deleted_queue_leaves_its_series),
        cmocka_unit_test(a_server_that_keeps_none_says_so),
        cmocka_unit_test(with_many_queues_none_has_lines_but_those_that_are_asked_for),
        cmocka_unit_test(the_patterns_of_the_configuration_hold_until_a_request_has_its_own),
        cmocka_unit_test(what_is_no_pattern_is_refused),
        cmocka_unit_test(a_large_scrape_is_made_in_portions_and_says_the_same),
        cmocka_unit_test(many_long_patterns_make_small_portions),
        cmocka_unit_test(queues_may_come_and_go_and_a_client_may_leave_while_a_scrape_is_made),
    };
    return cmocka_run_group_tests_name("api: counters, trends, scrapes", tests, NULL, NULL);
}
