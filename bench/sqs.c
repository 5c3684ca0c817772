/* Workloads of the SQS protocol: one message, ten at a time, and the whole life of ten. */
#include "http.h"
#include "workload.h"

enum { TEN = 10 };

enum life_step { LIFE_SEND, LIFE_RECEIVE, LIFE_DELETE };

struct sqs {
    struct text send;
    struct text send_batch;
    struct text receive;
    struct text delete_begin; /* head up to the length, without body */
    struct text delete_body;  /* body up to the first entry */
};

static void queue_url_append(struct text *out, const struct plan *plan)
{
    text_append_format(out, "{\"QueueUrl\":\"http://127.0.0.1:%u/000000000000/%s\"", plan->port, plan->queue);
}

static void send_build(struct text *out, const struct plan *plan)
{
    struct text body;
    text_init(&body);
    queue_url_append(&body, plan);
    text_append(&body, VIEW(",\"MessageBody\":\""));
    workload_body_append(&body, plan->body_size);
    text_append(&body, VIEW("\"}"));
    http_request_begin(out, "SendMessage", plan->port);
    http_request_end(out, text_view(&body));
    text_deinit(&body);
}

static void send_batch_build(struct text *out, const struct plan *plan)
{
    struct text body;
    text_init(&body);
    queue_url_append(&body, plan);
    text_append(&body, VIEW(",\"Entries\":["));
    for (unsigned entry = 0; entry < TEN; entry++) {
        text_append_format(&body, "%s{\"Id\":\"%u\",\"MessageBody\":\"", entry > 0 ? "," : "", entry);
        workload_body_append(&body, plan->body_size);
        text_append(&body, VIEW("\"}"));
    }
    text_append(&body, VIEW("]}"));
    http_request_begin(out, "SendMessageBatch", plan->port);
    http_request_end(out, text_view(&body));
    text_deinit(&body);
}

static void receive_build(struct text *out, const struct plan *plan)
{
    struct text body;
    text_init(&body);
    queue_url_append(&body, plan);
    text_append_format(&body, ",\"MaxNumberOfMessages\":%d}", TEN);
    http_request_begin(out, "ReceiveMessage", plan->port);
    http_request_end(out, text_view(&body));
    text_deinit(&body);
}

static void *sqs_create(const struct plan *plan)
{
    struct sqs *sqs = allocate(sizeof(*sqs));
    text_init(&sqs->send);
    send_build(&sqs->send, plan);
    text_init(&sqs->send_batch);
    send_batch_build(&sqs->send_batch, plan);
    text_init(&sqs->receive);
    receive_build(&sqs->receive, plan);
    text_init(&sqs->delete_begin);
    http_request_begin(&sqs->delete_begin, "DeleteMessageBatch", plan->port);
    text_init(&sqs->delete_body);
    queue_url_append(&sqs->delete_body, plan);
    text_append(&sqs->delete_body, VIEW(",\"Entries\":["));
    return sqs;
}

/* The reply at the start of `in` with status 200; false while bytes are missing. */
static bool reply_find(struct view in, struct http_message *reply)
{
    if (!http_message_find(in, reply))
        return false;
    if (reply->status != 200)
        fatal("expected status 200, got this reply:\n%.*s", (int)reply->size, in.ptr);
    return true;
}

static void reply_expect(const struct http_message *reply, struct view key, unsigned count)
{
    if (view_count(reply->body, key) != count)
        fatal("expected %u times %.*s in this reply:\n%.*s", count, (int)key.size, key.ptr, (int)reply->body.size,
              reply->body.ptr);
}

/* SendMessage, and the same bytes to a server that answers anything */

static void send_ask(const void *state, struct connection *connection)
{
    const struct sqs *sqs = state;
    connection->out = text_view(&sqs->send);
    connection->replies_due = 1;
}

static size_t send_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct http_message reply;
    if (!reply_find(in, &reply))
        return 0;
    reply_expect(&reply, VIEW("\"MessageId\""), 1);
    counters->sent++;
    return reply.size;
}

static size_t static_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct http_message reply;
    if (!reply_find(in, &reply))
        return 0;
    counters->sent++;
    return reply.size;
}

/* SendMessageBatch */

static void batch_ask(const void *state, struct connection *connection)
{
    const struct sqs *sqs = state;
    connection->out = text_view(&sqs->send_batch);
    connection->replies_due = 1;
}

static size_t batch_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct http_message reply;
    if (!reply_find(in, &reply))
        return 0;
    reply_expect(&reply, VIEW("\"MessageId\""), TEN);
    counters->sent += TEN;
    return reply.size;
}

/* Send ten, receive up to ten, delete those */

/* The next receipt handle behind *rest, as it is escaped in JSON, and moves *rest behind it; false at the end. */
static bool handle_next(struct view *rest, struct view *handle)
{
    static const struct view KEY = {"\"ReceiptHandle\"", 15};
    const char *at = view_find(*rest, KEY);
    if (at == NULL)
        return false;
    const char *end = rest->ptr + rest->size;
    at = memchr(at + KEY.size, '"', (size_t)(end - at) - KEY.size);
    const char *close = at == NULL ? NULL : memchr(at + 1, '"', (size_t)(end - at) - 1);
    if (close == NULL)
        fatal("a receipt handle without its end");
    *handle = (struct view){at + 1, (size_t)(close - at) - 1};
    *rest = view_from(*rest, close);
    return true;
}

/* Makes the DeleteMessageBatch for what a ReceiveMessage gave, in connection->own; returns how many it deletes. */
static unsigned delete_build(const struct sqs *sqs, struct connection *connection, struct view received)
{
    struct view handles[TEN];
    unsigned count = 0;
    size_t size = sqs->delete_body.size + VIEW("]}").size;
    while (count < TEN && handle_next(&received, &handles[count]))
        size += VIEW("{'Id':'0','ReceiptHandle':''},").size + handles[count++].size;
    connection->own.size = 0;
    if (count == 0)
        return 0;
    text_append(&connection->own, text_view(&sqs->delete_begin));
    text_append_format(&connection->own, "%zu\r\n\r\n", size - 1); /* the first entry has no comma */
    text_append(&connection->own, text_view(&sqs->delete_body));
    for (unsigned entry = 0; entry < count; entry++) {
        char begin[] = ",{\"Id\":\"0\",\"ReceiptHandle\":\"";
        begin[8] = (char)('0' + entry);
        size_t skip = entry == 0 ? 1 : 0;
        text_append(&connection->own, (struct view){begin + skip, sizeof(begin) - 1 - skip});
        text_append(&connection->own, handles[entry]);
        text_append(&connection->own, VIEW("\"}"));
    }
    text_append(&connection->own, VIEW("]}"));
    return count;
}

static void life_ask(const void *state, struct connection *connection)
{
    const struct sqs *sqs = state;
    connection->replies_due = 1;
    switch ((enum life_step)connection->step) {
    case LIFE_SEND:
        connection->out = text_view(&sqs->send_batch);
        break;
    case LIFE_RECEIVE:
        connection->out = text_view(&sqs->receive);
        break;
    case LIFE_DELETE:
        connection->out = text_view(&connection->own);
        break;
    }
}

static size_t life_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct sqs *sqs = state;
    struct http_message reply;
    if (!reply_find(in, &reply))
        return 0;
    unsigned count;
    switch ((enum life_step)connection->step) {
    case LIFE_SEND:
        reply_expect(&reply, VIEW("\"MessageId\""), TEN);
        counters->sent += TEN;
        connection->step = LIFE_RECEIVE;
        break;
    case LIFE_RECEIVE:
        count = delete_build(sqs, connection, reply.body);
        reply_expect(&reply, VIEW("\"MessageId\""), count);
        counters->received += count;
        connection->step = count > 0 ? LIFE_DELETE : LIFE_SEND;
        break;
    case LIFE_DELETE:
        count = view_count(text_view(&connection->own), VIEW("\"ReceiptHandle\""));
        reply_expect(&reply, VIEW("\"Id\""), count);
        reply_expect(&reply, VIEW("\"Failed\""), 0);
        counters->deleted += count;
        connection->step = LIFE_SEND;
        break;
    }
    return reply.size;
}

const struct workload WORKLOAD_HTTP_SEND = {
    .name = "http-send",
    .help = "SendMessage, one message a request",
    .create = sqs_create,
    .ask = send_ask,
    .answer = send_answer,
};

const struct workload WORKLOAD_HTTP_STATIC = {
    .name = "http-static",
    .help = "the bytes of http-send to a server that answers 200 to anything",
    .create = sqs_create,
    .ask = send_ask,
    .answer = static_answer,
};

const struct workload WORKLOAD_HTTP_BATCH = {
    .name = "http-batch",
    .help = "SendMessageBatch of ten",
    .create = sqs_create,
    .ask = batch_ask,
    .answer = batch_answer,
};

const struct workload WORKLOAD_HTTP_LIFE = {
    .name = "http-life",
    .help = "SendMessageBatch of ten, ReceiveMessage of up to ten, DeleteMessageBatch of those",
    .is_life = true,
    .create = sqs_create,
    .ask = life_ask,
    .answer = life_answer,
};
