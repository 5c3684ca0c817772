/* One call of the SQS sink: which rows go together, where their queues are, and the requests. Several senders make the
 * requests, each with a connection and a thread of its own. */
#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/sink_sqs_parts.h"
#include <stdlib.h>

/* No request of a call begins later: rows in doubt were chosen by their age when the call began. */
#define CALL_MS 5000u

struct sender {
    struct call *call;
    struct transport *transport;
    pthread_t thread;
};

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Posts, unless nothing may leave any more. False: it was not answered, and the call is over; the sink is down if it
 * was tried. */
static bool post(const struct sender *sender, struct sqs_exchange *exchange, bool lets_others)
{
    struct call *call = sender->call;
    if (boottime_ms() - call->begun_ms > CALL_MS || !call->permit->is_valid(call->permit->context)) {
        call->is_over = true;
        return false;
    }
    if (lets_others)
        pthread_mutex_unlock(&call->mutex);
    bool is_answered = sqs_exchange_post(exchange, sender->transport);
    if (lets_others)
        pthread_mutex_lock(&call->mutex);
    if (is_answered)
        return true;
    call->sqs->base.is_down = true;
    call->is_over = true;
    return false;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* Asks the endpoint where the queue is; everything else waits. NULL: the row, or all that goes there, is settled, or
 * the call is over. */
static struct sqs_queue *ask_for_queue(const struct sender *sender, size_t index, struct bytes name)
{
    struct call *call = sender->call;
    struct sqs_queue *queue = NULL;
    struct sqs_exchange exchange;
    struct bytes url_owned;
    sqs_exchange_init(&exchange, "AmazonSQS.GetQueueUrl");
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strn(doc, root, "QueueName", (const char *)name.ptr, name.size);
    if (!sqs_exchange_write(&exchange, doc))
        buffer_append(&exchange.body, "{}", 2); /* the name is not UTF-8 */
    if (!post(sender, &exchange, false)) {
        sink_sqs_settle(call, index, VERDICT_UNTRIED, sink_sqs_reason_of(&exchange));
    } else if (exchange.answer.status == 200 && sqs_read_queue_url(buffer_bytes(&exchange.text), &url_owned)) {
        queue = sqs_queues_add(&call->sqs->queues, name, (const char *)url_owned.ptr);
        free((void *)url_owned.ptr);
    } else {
        sink_sqs_read_no_url(call, index, &exchange);
    }
    yyjson_mut_doc_free(doc);
    sqs_exchange_deinit(&exchange);
    return queue;
}

/* NULL as above. */
static struct sqs_queue *find_queue(const struct sender *sender, size_t index)
{
    struct call *call = sender->call;
    struct sink_sqs *sqs = call->sqs;
    struct bytes name = sink_sqs_name_of(sqs, call->attempts[index].row);
    struct sqs_queue *queue = sqs_queues_find(&sqs->queues, name);
    if (queue != NULL)
        return queue;
    if (name.size == 0) {
        sink_sqs_settle(call, index, VERDICT_REFUSED,
                        "the row names no queue, and the relay's sink is an endpoint, not a queue");
        return NULL;
    }
    if (sqs->own_name.size > 0 && bytes_equal(name, sqs->own_name))
        return sqs_queues_add(&sqs->queues, name, sqs->own_owned);
    if (!sink_sqs_is_url(name))
        return ask_for_queue(sender, index, name);
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
           bytes_equal(sink_sqs_name_of(sqs, a), sink_sqs_name_of(sqs, b));
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

/* May this row be in the batch that is being made? Each row that waits keeps those behind it in its line out of it
 * (P15). */
static bool is_next_of_line(struct call *call, size_t index)
{
    struct line *line = &call->lines[call->line_of[index]];
    if (call->is_settled[index] || line->is_closed || line->is_underway || line->walk == call->walk)
        return false;
    line->walk = call->walk;
    return true;
}

static enum sqs_added add(struct call *call, struct batch_rows *rows, struct sqs_batch *batch, size_t index)
{
    const struct attempt *attempt = &call->attempts[index];
    const struct sqs_form form = {
        .is_fifo = sqs_is_fifo(sink_sqs_name_of(call->sqs, attempt->row)),
        .is_strict = call->sqs->is_strict,
        .is_marked = attempt->is_repeat,
    };
    char reason[ROW_REASON_SIZE];
    enum sqs_added added = sqs_batch_add(batch, attempt->row, form, call->sqs->batch_size_max, reason);
    if (added == SQS_ADDED)
        rows->members[rows->member_count++] = index;
    else if (added == SQS_UNUSABLE)
        sink_sqs_settle(call, index, attempt->is_repeat ? VERDICT_DOUBTED : VERDICT_REFUSED, reason);
    return added;
}

/* Adds to the batch what goes to the same queue as its first row. */
static void fill(struct call *call, struct batch_rows *rows, struct sqs_batch *batch, size_t first)
{
    struct bytes name = sink_sqs_name_of(call->sqs, call->attempts[first].row);
    if (add(call, rows, batch, first) != SQS_ADDED || call->is_alone[first])
        return;
    for (size_t i = first + 1; i < call->count && rows->member_count < SQS_BATCH_MAX; i++) {
        if (!is_next_of_line(call, i) || call->is_alone[i] ||
            !bytes_equal(sink_sqs_name_of(call->sqs, call->attempts[i].row), name))
            continue;
        if (add(call, rows, batch, i) == SQS_FULL)
            return;
    }
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static void set_underway(struct call *call, const struct batch_rows *rows, bool is_underway)
{
    for (size_t i = 0; i < rows->member_count; i++)
        call->lines[call->line_of[rows->members[i]]].is_underway = is_underway;
    if (is_underway)
        call->underway_count++;
    else
        call->underway_count--;
}

static void send_batch(const struct sender *sender, const struct batch_rows *rows, const struct sqs_batch *batch)
{
    struct call *call = sender->call;
    struct sqs_exchange exchange;
    sqs_exchange_init(&exchange, "AmazonSQS.SendMessageBatch");
    if (!sqs_batch_write(batch, &exchange.body)) {
        if (rows->member_count > 1)
            sink_sqs_split(call, rows, "");
        else
            sink_sqs_settle(call, rows->members[0], VERDICT_REFUSED,
                            "its body, group or deduplication id is not UTF-8");
        sqs_exchange_deinit(&exchange);
        return;
    }
    set_underway(call, rows, true);
    bool is_answered = post(sender, &exchange, true);
    set_underway(call, rows, false);
    if (!is_answered)
        sink_sqs_read_silence(call, rows, &exchange);
    else if (exchange.answer.status == 200)
        sink_sqs_read_results(call, rows, buffer_bytes(&exchange.text));
    else
        sink_sqs_read_refusal(call, rows, &exchange);
    sqs_exchange_deinit(&exchange);
    pthread_cond_broadcast(&call->changed);
}

/* Makes and sends one batch, or finds out that a row can be in none. False: there is nothing that can be sent now. */
static bool deliver_batch(const struct sender *sender)
{
    struct call *call = sender->call;
    size_t first = 0;
    call->walk++;
    while (first < call->count && !is_next_of_line(call, first))
        first++;
    if (first == call->count)
        return false;
    const struct sqs_queue *queue = find_queue(sender, first);
    if (queue == NULL)
        return true;
    struct sqs_batch batch;
    struct batch_rows rows = {.member_count = 0};
    sqs_batch_init(&batch, queue->url_owned);
    fill(call, &rows, &batch, first);
    if (rows.member_count > 0)
        send_batch(sender, &rows, &batch);
    sqs_batch_deinit(&batch);
    return true;
}

/* Until nothing is left: what is under way elsewhere may free the next of its lines. */
static void *run_sender(void *context)
{
    const struct sender *sender = context;
    struct call *call = sender->call;
    pthread_mutex_lock(&call->mutex);
    while (!call->is_over) {
        if (deliver_batch(sender))
            continue;
        if (call->underway_count == 0)
            break;
        pthread_cond_wait(&call->changed, &call->mutex);
    }
    pthread_cond_broadcast(&call->changed);
    pthread_mutex_unlock(&call->mutex);
    return NULL;
}

/* The calling thread is the first sender; another one for every batch that the rows could fill besides. */
static void run_senders(struct call *call)
{
    struct sender senders[SQS_CONNECTIONS_MAX];
    size_t wanted = (call->count + SQS_BATCH_MAX - 1) / SQS_BATCH_MAX, count = 1;
    for (size_t i = 0; i < SQS_CONNECTIONS_MAX; i++)
        senders[i] = (struct sender){.call = call, .transport = call->sqs->transports_owned[i]};
    while (count < wanted && count < SQS_CONNECTIONS_MAX &&
           pthread_create(&senders[count].thread, NULL, run_sender, &senders[count]) == 0)
        count++;
    run_sender(&senders[0]);
    for (size_t i = 1; i < count; i++)
        pthread_join(senders[i].thread, NULL);
}

enum step sink_sqs_deliver(struct sink *sink, const struct term *term, struct attempt *attempts, size_t count,
                           uint64_t settled, const struct permit *permit, struct fault *fault)
{
    struct call call = {.sqs = sink_sqs_of(sink), .permit = permit, .attempts = attempts, .count = count};
    (void)term;
    (void)settled;
    (void)fault;
    ASSERT(count <= CALL_ROWS_MAX);
    call.begun_ms = boottime_ms();
    sink->is_down = false;
    find_lines(&call);
    pthread_mutex_init(&call.mutex, NULL);
    pthread_cond_init(&call.changed, NULL);
    run_senders(&call);
    pthread_cond_destroy(&call.changed);
    pthread_mutex_destroy(&call.mutex);
    return STEP_OK;
}
