/* A queue of any endpoint of the SQS protocol: Amazon SQS, ElasticMQ, LocalStack, another Tally.
 *
 * A call is a run of requests of the same action, for ten messages each, which several connections make at once. What
 * the endpoint says that can be no message is left where it is, and told (queue_access.warning). */
#include "base/assert.h"
#include "base/memory.h"
#include "client/json.h"
#include "platform/monotonic.h"
#include "relay/queue_access.h"
#include "relay/sqs_answer.h"
#include "relay/sqs_endpoint.h"
#include "relay/sqs_message.h"
#include "relay/sqs_queues.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct queue_access_sqs {
    struct queue_access base;
    char *url_owned;
    struct transport *transports_owned[SQS_CONNECTIONS_MAX];
    unsigned transport_count;
    uint64_t id; /* the last one that was given to a row */
};

/* A call. What changes is under the mutex. */
struct run {
    struct queue_access_sqs *access;
    unsigned connections; /* at most */
    const char *target;
    const char *const *handles; /* of removes and hides */
    size_t count;               /* of the handles, or of the messages that are wanted */
    unsigned wait_s;            /* of receives */
    unsigned visibility_s;      /* of receives and hides */
    bool has_visibility;
    bool *is_hidden; /* of hides, for each handle; NULL: nobody asks */

    pthread_mutex_t mutex;
    size_t next; /* the first of `count` that no request is about */
    bool is_over;
    struct received_messages *messages;
    enum step step;
    struct fault *fault;
};

struct requester {
    struct run *run;
    struct transport *transport;
    pthread_t thread;
};

static struct queue_access_sqs *access_of(struct queue_access *access)
{
    return CONTAINER_OF(access, struct queue_access_sqs, base);
}

/* --- what goes wrong ---------------------------------------------------------------------------------------------- */

static void warn(struct queue_access_sqs *access, const char *what, const char *reason)
{
    struct fault warning;
    fault_set(&warning, STEP_OK, "%.160s %s%s%.200s", sqs_shown(access->url_owned), what, *reason == '\0' ? "" : ": ",
              reason);
    memcpy(access->base.warning, warning.text, sizeof(access->base.warning));
    access->base.warned_ms = boottime_ms();
}

static void fail(struct run *run, enum step step, const char *reason)
{
    run->is_over = true;
    if (run->step == STEP_OK)
        run->step = fault_set(run->fault, step, "%.160s: %.300s", sqs_shown(run->access->url_owned), reason);
}

static void read_error(struct run *run, const struct sqs_exchange *exchange)
{
    struct sqs_outcome outcome;
    sqs_read_error(exchange->answer.status, buffer_bytes(&exchange->text), exchange->answer.query_error, &outcome);
    fail(run, outcome.meaning == SQS_BUSY || outcome.meaning == SQS_FAILED ? STEP_UNREACHABLE : STEP_UNFIT,
         outcome.reason);
}

/* --- one request -------------------------------------------------------------------------------------------------- */

static void write_receive(const struct run *run, struct json_body *body, size_t count)
{
    json_add_number(body, body->root, "MaxNumberOfMessages", count);
    json_add_number(body, body->root, "WaitTimeSeconds", run->wait_s);
    json_add_number(body, body->root, "VisibilityTimeout", run->visibility_s);
    /* By both of its names: endpoints from before November 2023 know the first one only. */
    yyjson_mut_arr_add_str(body->doc_owned, json_add_array(body, body->root, "AttributeNames"), "All");
    yyjson_mut_arr_add_str(body->doc_owned, json_add_array(body, body->root, "MessageSystemAttributeNames"), "All");
    yyjson_mut_arr_add_str(body->doc_owned, json_add_array(body, body->root, "MessageAttributeNames"), "All");
}

static void write_entries(const struct run *run, struct json_body *body, size_t at, size_t count)
{
    yyjson_mut_val *entries = json_add_array(body, body->root, "Entries");
    for (size_t i = 0; i < count; i++) {
        char id[2] = {(char)('0' + i), '\0'};
        yyjson_mut_val *entry = json_append_object(body, entries);
        yyjson_mut_obj_add_strcpy(body->doc_owned, entry, "Id", id);
        json_add_text(body, entry, "ReceiptHandle", run->handles[at + i]);
        if (run->has_visibility)
            json_add_number(body, entry, "VisibilityTimeout", run->visibility_s);
    }
}

/* The answer of a receive. Fewer than were asked for: the queue has no more just now. More: there is no room in hand,
 * so the others come again. */
static void read_messages(struct run *run, struct bytes text, size_t asked)
{
    yyjson_doc *doc = json_read(text.ptr, text.size);
    yyjson_val *root = yyjson_doc_get_root(doc), *list = yyjson_obj_get(root, "Messages"), *item;
    size_t i, max;
    if (!yyjson_is_obj(root) || (list != NULL && !yyjson_is_arr(list) && !yyjson_is_null(list))) {
        fail(run, STEP_UNREACHABLE, "what it answers to ReceiveMessage is no answer of SQS");
        yyjson_doc_free(doc);
        return;
    }
    yyjson_arr_foreach(list, i, max, item)
    {
        struct row row;
        char reason[ROW_REASON_SIZE];
        if (i == asked) {
            warn(run->access, "gives more messages than it was asked for, of which some are left there", "");
            break;
        }
        if (sqs_message_read(item, &run->messages->arena, &row, reason)) {
            row.id = ++run->access->id;
            received_append(run->messages, &row, &row.uid);
        } else {
            warn(run->access, "gives a message that can't be taken, and keeps it", reason);
        }
    }
    run->is_over = run->is_over || yyjson_arr_size(list) < asked;
    yyjson_doc_free(doc);
}

/* Of a message that could not be deleted it is known what to do when it comes again. */
static void read_entries(struct run *run, struct bytes text, size_t at, size_t count)
{
    struct sqs_outcome outcomes[SQS_BATCH_MAX];
    sqs_read_batch(text, outcomes, count);
    for (size_t i = 0; i < count && run->is_hidden != NULL; i++)
        run->is_hidden[at + i] = outcomes[i].meaning == SQS_TAKEN;
    for (size_t i = 0; i < count; i++)
        if (outcomes[i].meaning != SQS_TAKEN && !run->has_visibility)
            warn(run->access, "did not delete a message, which comes again", outcomes[i].reason);
}

/* Asks for up to ten messages, or is about up to ten handles. Under the mutex, which is released for the request. */
static void request_some(struct run *run, struct transport *transport)
{
    const size_t at = run->next, left = run->count - at, count = left < SQS_BATCH_MAX ? left : SQS_BATCH_MAX;
    struct json_body body;
    struct sqs_exchange exchange;
    run->next += count;
    json_body_init(&body);
    sqs_exchange_init(&exchange, run->target);
    json_add_text(&body, body.root, "QueueUrl", run->access->url_owned);
    if (run->handles == NULL)
        write_receive(run, &body, count);
    else
        write_entries(run, &body, at, count);
    const bool is_written = sqs_exchange_write(&exchange, body.doc_owned);
    ASSERT(is_written); /* what came as JSON is UTF-8, and so is the spec */
    yyjson_mut_doc_free(body.doc_owned);

    pthread_mutex_unlock(&run->mutex);
    const bool is_answered = sqs_exchange_post(&exchange, transport);
    pthread_mutex_lock(&run->mutex);
    if (!is_answered)
        fail(run, STEP_UNREACHABLE, exchange.answer.reason);
    else if (exchange.answer.status != 200)
        read_error(run, &exchange);
    else if (run->handles == NULL)
        read_messages(run, buffer_bytes(&exchange.text), count);
    else
        read_entries(run, buffer_bytes(&exchange.text), at, count);
    sqs_exchange_deinit(&exchange);
}

static void *run_requester(void *context)
{
    const struct requester *requester = context;
    struct run *run = requester->run;
    pthread_mutex_lock(&run->mutex);
    while (!run->is_over && run->next < run->count)
        request_some(run, requester->transport);
    pthread_mutex_unlock(&run->mutex);
    return NULL;
}

/* The calling thread is the first requester; another one for each request that there may be besides. */
static enum step make_requests(struct run *run)
{
    struct requester requesters[SQS_CONNECTIONS_MAX];
    const size_t wanted = (run->count + SQS_BATCH_MAX - 1) / SQS_BATCH_MAX;
    size_t started = 1;
    pthread_mutex_init(&run->mutex, NULL);
    for (unsigned i = 0; i < run->connections; i++)
        requesters[i] = (struct requester){.run = run, .transport = run->access->transports_owned[i]};
    while (started < wanted && started < run->connections &&
           pthread_create(&requesters[started].thread, NULL, run_requester, &requesters[started]) == 0)
        started++;
    run_requester(&requesters[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(requesters[i].thread, NULL);
    pthread_mutex_destroy(&run->mutex);
    return run->step;
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

/* One that waits is made alone: all that there is comes to it. Of a FIFO queue each is: SQS gives the messages of a
 * group to one receiver only, but emulators that are asked by several at once give each of them some. */
static enum step receive_some(struct queue_access *base, unsigned max, unsigned wait_s, unsigned visibility_s,
                              struct received_messages *messages, struct fault *fault)
{
    struct queue_access_sqs *access = access_of(base);
    struct run run = {.access = access,
                      .connections = sqs_is_fifo(bytes_from_string(access->url_owned)) ? 1 : access->transport_count,
                      .target = "AmazonSQS.ReceiveMessage",
                      .count = wait_s > 0 && max > SQS_BATCH_MAX ? SQS_BATCH_MAX : max,
                      .wait_s = wait_s,
                      .visibility_s = visibility_s,
                      .messages = messages,
                      .fault = fault};
    return make_requests(&run);
}

static enum step remove_all(struct queue_access *base, const char *const *handles, size_t count, struct fault *fault)
{
    struct queue_access_sqs *access = access_of(base);
    struct run run = {.access = access,
                      .connections = access->transport_count,
                      .target = "AmazonSQS.DeleteMessageBatch",
                      .handles = handles,
                      .count = count,
                      .fault = fault};
    return make_requests(&run);
}

static enum step hide_all(struct queue_access *base, const char *const *handles, size_t count, unsigned visibility_s,
                          bool *is_hidden, struct fault *fault)
{
    struct queue_access_sqs *access = access_of(base);
    struct run run = {.access = access,
                      .connections = access->transport_count,
                      .target = "AmazonSQS.ChangeMessageVisibilityBatch",
                      .handles = handles,
                      .count = count,
                      .visibility_s = visibility_s,
                      .has_visibility = true,
                      .is_hidden = is_hidden,
                      .fault = fault};
    return make_requests(&run);
}

static void read_counts(struct run *run, struct bytes text, uint64_t *waiting, uint64_t *delayed)
{
    yyjson_doc *doc = json_read(text.ptr, text.size);
    yyjson_val *attributes = yyjson_obj_get(yyjson_doc_get_root(doc), "Attributes");
    if (yyjson_is_obj(attributes)) {
        *delayed = json_number(attributes, "ApproximateNumberOfMessagesDelayed");
        *waiting = json_number(attributes, "ApproximateNumberOfMessages") +
                   json_number(attributes, "ApproximateNumberOfMessagesNotVisible") + *delayed;
    } else {
        fail(run, STEP_UNREACHABLE, "what it answers to GetQueueAttributes is no answer of SQS");
    }
    yyjson_doc_free(doc);
}

static enum step count_all(struct queue_access *base, uint64_t *waiting, uint64_t *delayed, struct fault *fault)
{
    static const char *const names[] = {"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
                                        "ApproximateNumberOfMessagesDelayed"};
    struct run run = {.access = access_of(base), .fault = fault};
    struct json_body body;
    struct sqs_exchange exchange;
    json_body_init(&body);
    sqs_exchange_init(&exchange, "AmazonSQS.GetQueueAttributes");
    json_add_text(&body, body.root, "QueueUrl", run.access->url_owned);
    yyjson_mut_val *list = json_add_array(&body, body.root, "AttributeNames");
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        yyjson_mut_arr_add_str(body.doc_owned, list, names[i]);
    const bool is_written = sqs_exchange_write(&exchange, body.doc_owned);
    ASSERT(is_written);
    yyjson_mut_doc_free(body.doc_owned);
    if (!sqs_exchange_post(&exchange, run.access->transports_owned[0]))
        fail(&run, STEP_UNREACHABLE, exchange.answer.reason);
    else if (exchange.answer.status != 200)
        read_error(&run, &exchange);
    else
        read_counts(&run, buffer_bytes(&exchange.text), waiting, delayed);
    sqs_exchange_deinit(&exchange);
    return run.step;
}

static void interrupt(struct queue_access *base)
{
    struct queue_access_sqs *access = access_of(base);
    for (unsigned i = 0; i < access->transport_count; i++)
        transport_interrupt(access->transports_owned[i]);
}

static void close(struct queue_access *base)
{
    struct queue_access_sqs *access = access_of(base);
    for (unsigned i = 0; i < access->transport_count; i++)
        transport_destroy(access->transports_owned[i]);
    free(access->url_owned);
    free(access);
}

static const struct queue_access_ops sqs_ops = {.receive = receive_some,
                                                .remove = remove_all,
                                                .hide = hide_all,
                                                .count = count_all,
                                                .interrupt = interrupt,
                                                .close = close};

struct queue_access *queue_access_sqs_create(const struct relay_spec *spec, unsigned connections)
{
    const char *url = spec->source_queue_owned;
    struct queue_access_sqs *access = memory_allocate_zeroed(sizeof(*access));
    access->base.ops = &sqs_ops;
    access->url_owned = memory_duplicate_string(url);
    access->transport_count = connections < SQS_CONNECTIONS_MAX ? connections : SQS_CONNECTIONS_MAX;
    for (unsigned i = 0; i < access->transport_count; i++)
        access->transports_owned[i] = sqs_endpoint_connect(spec, url);
    return &access->base;
}
