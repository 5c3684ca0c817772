#include "relay/sink_sqs.h"

#include "base/assert.h"
#include "base/memory.h"
#include "client/transport.h"
#include "relay/keeper.h"
#include "relay/sqs_answer.h"
#include "relay/sqs_batch.h"
#include "relay/sqs_queues.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* SQS FIFO knows a deduplication id for five minutes; the margin is for a request on its way and a step of the source's clock. */
#define MEMORY_MS (270u * 1000)

/* As many rows of a killed relay are in doubt, though few of them were tried. Where doubts are parked, that is work for somebody. */
#define CALL_ROWS_MAX 200u
#define CALL_ROWS_MAX_PARKED 50u
#define CALL_SIZE_MAX (8u << 20)
#define BATCH_SIZE_MAX (1024u << 10)
#define BATCH_SIZE_OLD (256u << 10) /* of endpoints from before August 2025 */

/* Requests of one call that are under way at once, each on a connection and a thread of its own. */
#define LANES_MAX 8u

/* No request of a call begins later: rows in doubt were chosen by their age when the call began. */
#define CALL_MS 5000u

/* A request must have ended before its lease has; four of five messages that wait for an answer for so long will never get one. */
#define TIMEOUT_MS_MAX 15000u
#define TIMEOUT_MS_MIN 500u

/* Requests in a row that failed in the server: one may be the fault of its messages, three are not. */
#define FAILURES_MAX 3u

struct sink_sqs {
    struct sink base;
    struct transport *transports_owned[LANES_MAX];
    char *endpoint_owned;
    struct bytes own_name; /* of the sink's own queue, part of the spec's URL in `own_owned`; empty: there is none */
    char *own_owned;
    struct sqs_queues queues;
    size_t batch_size_max;
    bool is_strict;
    bool blocks_group;
    unsigned failures;
};

/* Rows of one line go one after the other: those of a group in a queue, or all. */
struct line {
    bool is_closed;   /* one of it failed: those behind are left untried */
    bool is_underway; /* one of it is in a request that was not answered yet (P15) */
    unsigned walk;    /* the batch that has met it */
};

/* Everything in it is under the mutex, except while a request is under way. */
struct call {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a request was answered */
    size_t underway_count;
    struct sink_sqs *sqs;
    const struct permit *permit;
    struct attempt *attempts;
    size_t count;
    size_t line_of[CALL_ROWS_MAX];
    struct line lines[CALL_ROWS_MAX];
    bool is_settled[CALL_ROWS_MAX];
    bool is_alone[CALL_ROWS_MAX]; /* it was in a batch that was refused as a whole: which of them was it? */
    unsigned walk;
    uint64_t begun_ms;
    bool is_over;
};

struct lane {
    struct call *call;
    struct transport *transport;
    pthread_t thread;
};

/* The rows of a batch. */
struct parcel {
    size_t members[SQS_BATCH_MAX];
    size_t member_count;
};

static struct sink_sqs *sqs_of(struct sink *sink)
{
    return CONTAINER_OF(sink, struct sink_sqs, base);
}

/* The name of the queue that a row goes to, or its URL. */
static struct bytes name_of(const struct sink_sqs *sqs, const struct row *row)
{
    return row->queue.size > 0 ? row->queue : sqs->own_name;
}

static uint64_t memory_ms(const struct sink *sink, const struct row *row)
{
    const struct sink_sqs *sqs = CONTAINER_OF(sink, struct sink_sqs, base);
    return sqs_is_fifo(name_of(sqs, row)) ? MEMORY_MS : 0;
}

/* --- verdicts ----------------------------------------------------------------------------------------------------- */

/* The endpoint as people may read it: user and password of a URL may stand before an @. */
static const char *shown(const struct sink_sqs *sqs)
{
    const char *at = strrchr(sqs->endpoint_owned, '@');
    return at == NULL ? sqs->endpoint_owned : at + 1;
}

static void settle(struct call *call, size_t index, enum verdict verdict, const char *reason)
{
    struct attempt *attempt = &call->attempts[index];
    struct bytes name = name_of(call->sqs, attempt->row);
    attempt->verdict = verdict;
    if (reason != NULL)
        snprintf(attempt->reason, sizeof(attempt->reason), "%s, queue %.*s: %.200s", shown(call->sqs),
                 name.size > 80 ? 80 : (int)name.size, (const char *)name.ptr, reason);
    call->is_settled[index] = true;
    if (verdict == VERDICT_RETRY || verdict == VERDICT_BLOCKED ||
        (verdict == VERDICT_REFUSED && call->sqs->blocks_group))
        call->lines[call->line_of[index]].is_closed = true;
}

/* The message may be in the queue now or not. */
static void doubt(struct call *call, size_t index, const char *reason)
{
    struct attempt *attempt = &call->attempts[index];
    bool is_harmless = memory_ms(&call->sqs->base, attempt->row) > 0;
    attempt->may_have_arrived = true;
    settle(call, index, is_harmless || call->sqs->base.repeats ? VERDICT_RETRY : VERDICT_DOUBTED, reason);
}

/* Nobody can send to the queue of that row. */
static void block(struct call *call, size_t index, const char *reason)
{
    struct bytes name = name_of(call->sqs, call->attempts[index].row);
    settle(call, index, VERDICT_BLOCKED, reason);
    for (size_t i = 0; i < call->count; i++)
        if (bytes_equal(name_of(call->sqs, call->attempts[i].row), name))
            call->lines[call->line_of[i]].is_closed = true;
    sqs_queues_forget(&call->sqs->queues, name);
}

static void set_wish(struct call *call, size_t index, unsigned retry_after_s)
{
    call->attempts[index].retry_ms = retry_after_s > UINT32_MAX / 1000 ? UINT32_MAX : retry_after_s * 1000;
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* A request and what came of it. */
struct exchange {
    const char *target;
    struct buffer body, text;
    struct transport_answer answer;
    bool may_have_arrived; /* if it was not answered */
};

static void exchange_init(struct exchange *exchange, const char *target)
{
    *exchange = (struct exchange){.target = target};
    buffer_init(&exchange->body);
    buffer_init(&exchange->text);
}

static void exchange_deinit(struct exchange *exchange)
{
    buffer_deinit(&exchange->body);
    buffer_deinit(&exchange->text);
}

/* "": it was not tried. */
static const char *reason_of(const struct exchange *exchange)
{
    return exchange->answer.reason[0] == '\0' ? NULL : exchange->answer.reason;
}

/* Posts, unless nothing may leave any more. False: it was not answered, and the call is over; the sink is down if it was tried. */
static bool post(const struct lane *lane, struct exchange *exchange, bool lets_others)
{
    struct call *call = lane->call;
    if (keeper_now_ms() - call->begun_ms > CALL_MS || !call->permit->is_valid(call->permit->context)) {
        call->is_over = true;
        return false;
    }
    if (lets_others)
        pthread_mutex_unlock(&call->mutex);
    enum transport_result result =
        transport_post(lane->transport, exchange->target, (const char *)exchange->body.data_owned, exchange->body.size,
                       true, &exchange->text, &exchange->answer);
    if (lets_others)
        pthread_mutex_lock(&call->mutex);
    if (result == TRANSPORT_ANSWERED)
        return true;
    exchange->may_have_arrived = result != TRANSPORT_NOT_SENT;
    call->sqs->base.is_down = true;
    call->is_over = true;
    return false;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* An answer that was no URL. */
static void read_no_url(struct call *call, size_t index, const struct exchange *exchange)
{
    struct sqs_outcome outcome;
    sqs_read_error(exchange->answer.status, buffer_bytes(&exchange->text), exchange->answer.query_error, &outcome);
    if (outcome.meaning == SQS_REFUSED) {
        settle(call, index, VERDICT_REFUSED, outcome.reason); /* no queue can have this name */
    } else if (outcome.meaning == SQS_CLOSED) {
        block(call, index, outcome.reason);
    } else {
        settle(call, index, VERDICT_RETRY, outcome.reason);
        set_wish(call, index, exchange->answer.retry_after_s);
        call->sqs->base.is_down = call->is_over = true;
    }
}

/* Asks the endpoint where the queue is; everything else waits. NULL: the row, or all that goes there, is settled, or the call is over. */
static struct sqs_queue *ask_for_queue(const struct lane *lane, size_t index, struct bytes name)
{
    struct call *call = lane->call;
    struct sqs_queue *queue = NULL;
    struct exchange exchange;
    struct bytes url_owned;
    exchange_init(&exchange, "AmazonSQS.GetQueueUrl");
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strn(doc, root, "QueueName", (const char *)name.ptr, name.size);
    char *json = yyjson_mut_write(doc, YYJSON_WRITE_NOFLAG, NULL);
    buffer_append(&exchange.body, json == NULL ? "{}" : json, json == NULL ? 2 : strlen(json)); /* NULL: not UTF-8 */
    if (!post(lane, &exchange, false)) {
        settle(call, index, VERDICT_UNTRIED, reason_of(&exchange));
    } else if (exchange.answer.status == 200 && sqs_read_queue_url(buffer_bytes(&exchange.text), &url_owned)) {
        queue = sqs_queues_add(&call->sqs->queues, name, (const char *)url_owned.ptr);
        free((void *)url_owned.ptr);
    } else {
        read_no_url(call, index, &exchange);
    }
    free(json);
    yyjson_mut_doc_free(doc);
    exchange_deinit(&exchange);
    return queue;
}

static bool is_url(struct bytes name)
{
    return bytes_starts_with(name, BYTES("http://")) || bytes_starts_with(name, BYTES("https://"));
}

/* NULL as above. */
static struct sqs_queue *find_queue(const struct lane *lane, size_t index)
{
    struct call *call = lane->call;
    struct sink_sqs *sqs = call->sqs;
    struct bytes name = name_of(sqs, call->attempts[index].row);
    struct sqs_queue *queue = sqs_queues_find(&sqs->queues, name);
    if (queue != NULL)
        return queue;
    if (name.size == 0) {
        settle(call, index, VERDICT_REFUSED,
               "the row names no queue, and the relay's sink is an endpoint, not a queue");
        return NULL;
    }
    if (sqs->own_name.size > 0 && bytes_equal(name, sqs->own_name))
        return sqs_queues_add(&sqs->queues, name, sqs->own_owned);
    if (!is_url(name))
        return ask_for_queue(lane, index, name);
    struct bytes url = memory_duplicate(name);
    char *text = memory_resize((void *)url.ptr, name.size + 1);
    text[name.size] = '\0';
    queue = sqs_queues_add(&sqs->queues, name, text);
    free(text);
    return queue;
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

static bool is_same_line(const struct sink_sqs *sqs, const struct row *a, const struct row *b)
{
    if (sqs->is_strict)
        return true;
    return a->group.ptr != NULL && b->group.ptr != NULL && bytes_equal(a->group, b->group) &&
           bytes_equal(name_of(sqs, a), name_of(sqs, b));
}

static void find_lines(struct call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        size_t first = 0;
        while (first < i && !is_same_line(call->sqs, call->attempts[first].row, call->attempts[i].row))
            first++;
        call->line_of[i] = first;
    }
}

/* May this row be in the batch that is being made? Each row that waits keeps those behind it in its line out of it (P15). */
static bool is_next_of_line(struct call *call, size_t index)
{
    struct line *line = &call->lines[call->line_of[index]];
    if (call->is_settled[index] || line->is_closed || line->is_underway || line->walk == call->walk)
        return false;
    line->walk = call->walk;
    return true;
}

static enum sqs_added add(struct call *call, struct parcel *parcel, struct sqs_batch *batch, size_t index)
{
    const struct attempt *attempt = &call->attempts[index];
    const struct sqs_form form = {
        .is_fifo = sqs_is_fifo(name_of(call->sqs, attempt->row)),
        .is_strict = call->sqs->is_strict,
        .is_marked = attempt->is_repeat,
    };
    char reason[ROW_REASON_SIZE];
    enum sqs_added added = sqs_batch_add(batch, attempt->row, form, call->sqs->batch_size_max, reason);
    if (added == SQS_ADDED)
        parcel->members[parcel->member_count++] = index;
    else if (added == SQS_UNUSABLE)
        settle(call, index, attempt->is_repeat ? VERDICT_DOUBTED : VERDICT_REFUSED, reason);
    return added;
}

/* Adds to the batch what goes to the same queue as its first row. */
static void fill(struct call *call, struct parcel *parcel, struct sqs_batch *batch, size_t first)
{
    struct bytes name = name_of(call->sqs, call->attempts[first].row);
    if (add(call, parcel, batch, first) != SQS_ADDED || call->is_alone[first])
        return;
    for (size_t i = first + 1; i < call->count && parcel->member_count < SQS_BATCH_MAX; i++) {
        if (!is_next_of_line(call, i) || call->is_alone[i] ||
            !bytes_equal(name_of(call->sqs, call->attempts[i].row), name))
            continue;
        if (add(call, parcel, batch, i) == SQS_FULL)
            return;
    }
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

/* One of them is not as it must be, or they are too many bytes: each is sent alone, and the server says which. */
static void split(struct call *call, const struct parcel *parcel, const char *reason)
{
    if (strncmp(reason, "BatchRequestTooLong", 19) == 0 && call->sqs->batch_size_max > BATCH_SIZE_OLD)
        call->sqs->batch_size_max = BATCH_SIZE_OLD;
    for (size_t i = 0; i < parcel->member_count; i++)
        call->is_alone[parcel->members[i]] = true;
}

static void read_refusal(struct call *call, const struct parcel *parcel, const struct exchange *exchange)
{
    const struct transport_answer *answer = &exchange->answer;
    struct sink_sqs *sqs = call->sqs;
    struct sqs_outcome outcome;
    sqs_read_error(answer->status, buffer_bytes(&exchange->text), answer->query_error, &outcome);
    if (outcome.meaning == SQS_REFUSED && parcel->member_count > 1) {
        split(call, parcel, outcome.reason);
        return;
    }
    if (outcome.meaning == SQS_CLOSED) {
        block(call, parcel->members[0], outcome.reason);
        return;
    }
    for (size_t i = 0; i < parcel->member_count; i++) {
        size_t index = parcel->members[i];
        if (outcome.meaning == SQS_REFUSED)
            settle(call, index, VERDICT_REFUSED, outcome.reason);
        else if (outcome.meaning == SQS_BUSY)
            settle(call, index, VERDICT_RETRY, outcome.reason);
        else
            doubt(call, index, outcome.reason);
        set_wish(call, index, answer->retry_after_s);
    }
    sqs->failures += outcome.meaning == SQS_FAILED;
    if (outcome.meaning == SQS_BUSY || answer->status == 503 || sqs->failures >= FAILURES_MAX)
        sqs->base.is_down = call->is_over = true;
}

static void read_result(struct call *call, size_t index, const struct sqs_outcome *outcome)
{
    switch (outcome->meaning) {
    case SQS_TAKEN:
        settle(call, index, VERDICT_DELIVERED, NULL);
        break;
    case SQS_REFUSED:
        settle(call, index, VERDICT_REFUSED, outcome->reason);
        break;
    case SQS_BUSY:
        settle(call, index, VERDICT_RETRY, outcome->reason);
        break;
    case SQS_FAILED:
        doubt(call, index, outcome->reason);
        break;
    case SQS_CLOSED:
        settle(call, index, VERDICT_BLOCKED, outcome->reason);
        break;
    }
}

static void read_results(struct call *call, const struct parcel *parcel, struct bytes text)
{
    struct sqs_outcome outcomes[SQS_BATCH_MAX];
    sqs_read_batch(text, outcomes, parcel->member_count);
    call->sqs->failures = 0;
    for (size_t i = 0; i < parcel->member_count; i++)
        read_result(call, parcel->members[i], &outcomes[i]);
}

/* It may have arrived, or nothing of it left. */
static void read_silence(struct call *call, const struct parcel *parcel, const struct exchange *exchange)
{
    for (size_t i = 0; i < parcel->member_count; i++)
        if (exchange->may_have_arrived)
            doubt(call, parcel->members[i], exchange->answer.reason);
        else
            settle(call, parcel->members[i], VERDICT_UNTRIED, reason_of(exchange));
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void set_underway(struct call *call, const struct parcel *parcel, bool is_underway)
{
    for (size_t i = 0; i < parcel->member_count; i++)
        call->lines[call->line_of[parcel->members[i]]].is_underway = is_underway;
    if (is_underway)
        call->underway_count++;
    else
        call->underway_count--;
}

static void send_batch(const struct lane *lane, const struct parcel *parcel, const struct sqs_batch *batch)
{
    struct call *call = lane->call;
    struct exchange exchange;
    exchange_init(&exchange, "AmazonSQS.SendMessageBatch");
    if (!sqs_batch_write(batch, &exchange.body)) {
        if (parcel->member_count > 1)
            split(call, parcel, "");
        else
            settle(call, parcel->members[0], VERDICT_REFUSED, "its body, group or deduplication id is not UTF-8");
        exchange_deinit(&exchange);
        return;
    }
    set_underway(call, parcel, true);
    bool is_answered = post(lane, &exchange, true);
    set_underway(call, parcel, false);
    if (!is_answered)
        read_silence(call, parcel, &exchange);
    else if (exchange.answer.status == 200)
        read_results(call, parcel, buffer_bytes(&exchange.text));
    else
        read_refusal(call, parcel, &exchange);
    exchange_deinit(&exchange);
    pthread_cond_broadcast(&call->changed);
}

/* Makes and sends one batch, or finds out that a row can be in none. False: there is nothing that can be sent now. */
static bool deliver_batch(const struct lane *lane)
{
    struct call *call = lane->call;
    size_t first = 0;
    call->walk++;
    while (first < call->count && !is_next_of_line(call, first))
        first++;
    if (first == call->count)
        return false;
    const struct sqs_queue *queue = find_queue(lane, first);
    if (queue == NULL)
        return true;
    struct sqs_batch batch;
    struct parcel parcel = {.member_count = 0};
    sqs_batch_init(&batch, queue->url_owned);
    fill(call, &parcel, &batch, first);
    if (parcel.member_count > 0)
        send_batch(lane, &parcel, &batch);
    sqs_batch_deinit(&batch);
    return true;
}

/* Until nothing is left: what is under way elsewhere may free the next of its lines. */
static void *run_lane(void *context)
{
    const struct lane *lane = context;
    struct call *call = lane->call;
    pthread_mutex_lock(&call->mutex);
    while (!call->is_over) {
        if (deliver_batch(lane))
            continue;
        if (call->underway_count == 0)
            break;
        pthread_cond_wait(&call->changed, &call->mutex);
    }
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->mutex);
    return NULL;
}

/* The calling thread is the first lane; another one for every batch that the rows could fill besides. */
static void run_lanes(struct call *call)
{
    struct lane lanes[LANES_MAX];
    size_t wanted = (call->count + SQS_BATCH_MAX - 1) / SQS_BATCH_MAX, count = 1;
    for (size_t i = 0; i < LANES_MAX; i++)
        lanes[i] = (struct lane){.call = call, .transport = call->sqs->transports_owned[i]};
    while (count < wanted && count < LANES_MAX &&
           pthread_create(&lanes[count].thread, NULL, run_lane, &lanes[count]) == 0)
        count++;
    run_lane(&lanes[0]);
    for (size_t i = 1; i < count; i++)
        pthread_join(lanes[i].thread, NULL);
}

static enum step deliver(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                         uint64_t settled, const struct permit *permit, struct fault *fault)
{
    struct call call = {.sqs = sqs_of(sink), .permit = permit, .attempts = attempts, .count = count};
    (void)term;
    (void)settled;
    (void)fault;
    ASSERT(count <= CALL_ROWS_MAX);
    call.begun_ms = keeper_now_ms();
    sink->is_down = false;
    find_lines(&call);
    pthread_mutex_init(&call.mutex, NULL);
    pthread_cond_init(&call.changed, NULL);
    run_lanes(&call);
    pthread_cond_destroy(&call.changed);
    pthread_mutex_destroy(&call.mutex);
    return STEP_OK;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static enum step open(struct sink *sink, const struct term *term, uint64_t *epoch_known, struct row_name **stored,
                      size_t *stored_count, struct arena *arena, struct fault *fault)
{
    (void)sink;
    (void)term;
    (void)arena;
    (void)fault;
    *epoch_known = 0;
    *stored = NULL;
    *stored_count = 0;
    return STEP_OK;
}

static void close_sink(struct sink *sink)
{
    struct sink_sqs *sqs = sqs_of(sink);
    for (size_t i = 0; i < LANES_MAX; i++)
        transport_destroy(sqs->transports_owned[i]);
    sqs_queues_deinit(&sqs->queues);
    free(sqs->endpoint_owned);
    free(sqs->own_owned);
    free(sqs);
}

static const struct sink_ops ops = {.open = open, .deliver = deliver, .memory_ms = memory_ms, .close = close_sink};

static const char *setting(const char *given, const char *variable)
{
    const char *value = given != NULL ? given : getenv(variable);
    return value == NULL || *value == '\0' ? NULL : value;
}

/* Of an endpoint of AWS it stands in the name of the host: sqs.REGION.amazonaws.com. */
static const char *find_region(const struct relay_spec *spec, char *text, size_t size)
{
    const char *region = setting(spec->region_owned, "AWS_REGION");
    if (region == NULL)
        region = setting(NULL, "AWS_DEFAULT_REGION");
    const char *host = strstr(spec->queue_owned, "://sqs.");
    if (spec->region_owned == NULL && host != NULL && strstr(host, ".amazonaws.com") != NULL) {
        host += strlen("://sqs.");
        snprintf(text, size, "%.*s", (int)strcspn(host, "."), host);
        region = text;
    }
    return region != NULL ? region : "us-east-1";
}

static struct transport *make_transport(const struct relay_spec *spec, const char *endpoint)
{
    char region[64];
    unsigned timeout_ms = spec->lease_ms / 4 * 3;
    bool is_given = spec->access_key_id_owned != NULL;
    struct transport_options options = {
        .url = endpoint,
        .region = find_region(spec, region, sizeof(region)),
        .access_key_id = setting(spec->access_key_id_owned, "AWS_ACCESS_KEY_ID"),
        .secret_access_key = setting(spec->secret_access_key_owned, "AWS_SECRET_ACCESS_KEY"),
        .session_token = is_given ? spec->session_token_owned : setting(NULL, "AWS_SESSION_TOKEN"),
    };
    timeout_ms = timeout_ms > TIMEOUT_MS_MAX ? TIMEOUT_MS_MAX : timeout_ms;
    options.timeout_ms = timeout_ms < TIMEOUT_MS_MIN ? TIMEOUT_MS_MIN : timeout_ms;
    if (options.secret_access_key == NULL)
        options.access_key_id = NULL;
    return transport_create(&options);
}

struct sink *sink_sqs_create(const struct relay_spec *spec, struct fault *fault)
{
    const char *url = spec->queue_owned;
    if (url == NULL || !is_url(bytes_from_string(url))) {
        fault_set(fault, STEP_UNFIT,
                  "a sink of type sqs needs a URL that begins with http:// or https://: of a queue, or of an endpoint "
                  "where each row names its queue");
        return NULL;
    }
    bool repeats = !spec->is_at_most_once && !spec->parks_doubts;
    struct sink_sqs *sqs = memory_allocate_zeroed(sizeof(*sqs));
    struct bytes endpoint = bytes_make(url, sqs_endpoint_size(url));
    sqs->endpoint_owned = memory_allocate(endpoint.size + 2);
    snprintf(sqs->endpoint_owned, endpoint.size + 2, "%.*s/", BYTES_FORMAT(endpoint));
    for (size_t i = 0; i < LANES_MAX; i++)
        sqs->transports_owned[i] = make_transport(spec, sqs->endpoint_owned);
    sqs->endpoint_owned[endpoint.size] = '\0'; /* nobody wants to read the slash */
    sqs->own_owned = strcpy(memory_allocate(strlen(url) + 1), url);
    sqs->own_name = sqs_queue_name(sqs->own_owned);
    sqs_queues_init(&sqs->queues);
    sqs->batch_size_max = BATCH_SIZE_MAX;
    sqs->is_strict = spec->is_strict;
    sqs->blocks_group = spec->blocks_group;
    sqs->base = (struct sink){
        .ops = &ops,
        .memory = SINK_FORGETS,
        .memory_ms = MEMORY_MS,
        .repeats = repeats,
        .rows_max = repeats ? CALL_ROWS_MAX : CALL_ROWS_MAX_PARKED,
        .size_max = CALL_SIZE_MAX,
    };
    return &sqs->base;
}
