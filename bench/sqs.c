/* Workloads of the SQS protocol: one message, ten at a time, and the whole life of one or of ten. */
#include "http.h"
#include "signer.h"
#include "workload.h"

enum { TEN = 10 };

enum life_step { LIFE_SEND, LIFE_RECEIVE, LIFE_DELETE };

/* In a prepared request, numbers that differ from message to message have a fixed width and are written over. */
enum { NUMBER_WIDTH = 10 };

struct send_template {
    struct text bytes;
    unsigned count;
    size_t group_at[TEN]; /* 0: none */
    size_t id_at[TEN];
};

/* Goes on from request to request, over all connections. */
struct numbering {
    uint64_t next_group;
    uint64_t next_id;
};

struct sqs {
    const struct plan *plan;
    struct signer signer;
    bool is_single; /* is the life that of one message, not of ten? */
    struct send_template send;
    struct send_template send_batch;
    struct numbering *numbering_owned;
    struct text receive;
    struct text take;         /* a receive whose leases outlast any run */
    struct text delete_begin; /* head up to the length, without body */
    struct text delete_body;  /* body up to the first entry */
};

static void queue_url_append(struct text *out, const struct plan *plan)
{
    text_append_format(out, "{\"QueueUrl\":\"http://127.0.0.1:%u/%s/%s\"", plan->port,
                       plan->account == NULL ? "000000000000" : plan->account, plan->queue);
}

/* Appends a key and the place of a number behind `prefix`; returns where in `out` the number stands. */
static size_t number_append(struct text *out, const char *key, char prefix)
{
    text_append_format(out, ",\"%s\":\"%c", key, prefix);
    size_t at = out->size;
    text_append_format(out, "%0*u\"", NUMBER_WIDTH, 0);
    return at;
}

/* The fields of a message behind the queue's URL or its entry's id. */
static void message_append(struct send_template *template, struct text *body, const struct plan *plan)
{
    text_append(body, VIEW(",\"MessageBody\":\""));
    workload_body_append(body, plan->body_size);
    text_append(body, VIEW("\""));
    template->group_at[template->count] = plan->groups == 0 ? 0 : number_append(body, "MessageGroupId", 'g');
    template->id_at[template->count] = plan->id_first == 0 ? 0 : number_append(body, "MessageDeduplicationId", 'd');
    const char *equals = plan->attribute == NULL ? NULL : strchr(plan->attribute, '=');
    if (equals != NULL)
        text_append_format(body, ",\"MessageAttributes\":{\"%.*s\":{\"DataType\":\"String\",\"StringValue\":\"%s\"}}",
                           (int)(equals - plan->attribute), plan->attribute, equals + 1);
    text_append(body, VIEW("}"));
    template->count++;
}

/* Signs a whole request, where that was asked for. */
static void request_sign(const struct sqs *sqs, struct text *request)
{
    if (sqs->plan->is_signed)
        signer_sign(&sqs->signer, request);
}

/* Makes the request; the places were counted from the beginning of the body, and now are from that of the request. */
static void template_finish(const struct sqs *sqs, struct send_template *template, const char *target,
                            const struct text *body)
{
    text_init(&template->bytes);
    http_request_begin(&template->bytes, target, sqs->plan->port);
    http_request_end(&template->bytes, text_view(body));
    request_sign(sqs, &template->bytes);
    size_t head_size = template->bytes.size - body->size;
    for (unsigned at = 0; at < template->count; at++) {
        template->group_at[at] += template->group_at[at] == 0 ? 0 : head_size;
        template->id_at[at] += template->id_at[at] == 0 ? 0 : head_size;
    }
}

static void send_build(const struct sqs *sqs, struct send_template *template)
{
    const struct plan *plan = sqs->plan;
    struct text body;
    text_init(&body);
    queue_url_append(&body, plan);
    message_append(template, &body, plan);
    template_finish(sqs, template, "AmazonSQS.SendMessage", &body);
    text_deinit(&body);
}

static void send_batch_build(const struct sqs *sqs, struct send_template *template)
{
    const struct plan *plan = sqs->plan;
    struct text body;
    text_init(&body);
    queue_url_append(&body, plan);
    text_append(&body, VIEW(",\"Entries\":["));
    for (unsigned entry = 0; entry < TEN; entry++) {
        text_append_format(&body, "%s{\"Id\":\"%u\"", entry > 0 ? "," : "", entry);
        message_append(template, &body, plan);
    }
    text_append(&body, VIEW("]}"));
    template_finish(sqs, template, "AmazonSQS.SendMessageBatch", &body);
    text_deinit(&body);
}

static void number_write(char *at, uint64_t number)
{
    for (unsigned digit = NUMBER_WIDTH; digit-- > 0; number /= 10)
        at[digit] = (char)('0' + number % 10);
}

/* The next request made from a template: the template itself, or a copy with the next numbers. */
static void template_ask(const struct sqs *sqs, const struct send_template *template, struct connection *connection)
{
    struct numbering *numbering = sqs->numbering_owned;
    connection->replies_due = 1;
    connection->out = text_view(&template->bytes);
    if (template->group_at[0] == 0 && template->id_at[0] == 0)
        return;
    connection->own.size = 0;
    text_append(&connection->own, connection->out);
    for (unsigned at = 0; at < template->count; at++) {
        if (template->group_at[at] != 0)
            number_write(connection->own.ptr_owned + template->group_at[at],
                         sqs->plan->group_first + numbering->next_group++ % sqs->plan->groups);
        if (template->id_at[at] != 0)
            number_write(connection->own.ptr_owned + template->id_at[at], numbering->next_id++);
    }
    request_sign(sqs, &connection->own);
    connection->out = text_view(&connection->own);
}

static void receive_build(const struct sqs *sqs, struct text *out, unsigned messages, const char *more)
{
    const struct plan *plan = sqs->plan;
    struct text body;
    text_init(&body);
    queue_url_append(&body, plan);
    text_append_format(&body, ",\"MaxNumberOfMessages\":%u%s}", messages, more);
    http_request_begin(out, "AmazonSQS.ReceiveMessage", plan->port);
    http_request_end(out, text_view(&body));
    request_sign(sqs, out);
    text_deinit(&body);
}

static struct sqs *sqs_create_life(const struct plan *plan, bool is_single)
{
    struct sqs *sqs = allocate(sizeof(*sqs));
    sqs->plan = plan;
    sqs->is_single = is_single;
    sqs->numbering_owned = allocate(sizeof(*sqs->numbering_owned));
    sqs->numbering_owned->next_id = plan->id_first;
    signer_init(&sqs->signer, time(NULL), plan->access_key == NULL ? SIGNER_ACCESS_KEY : plan->access_key);
    send_build(sqs, &sqs->send);
    send_batch_build(sqs, &sqs->send_batch);
    text_init(&sqs->receive);
    receive_build(sqs, &sqs->receive, is_single ? 1 : TEN, "");
    text_init(&sqs->take);
    receive_build(sqs, &sqs->take, TEN, ",\"VisibilityTimeout\":43200");
    text_init(&sqs->delete_begin);
    http_request_begin(&sqs->delete_begin, is_single ? "AmazonSQS.DeleteMessage" : "AmazonSQS.DeleteMessageBatch",
                       plan->port);
    text_init(&sqs->delete_body);
    queue_url_append(&sqs->delete_body, plan);
    text_append(&sqs->delete_body, is_single ? VIEW(",\"ReceiptHandle\":\"") : VIEW(",\"Entries\":["));
    return sqs;
}

static void *sqs_create(const struct plan *plan)
{
    return sqs_create_life(plan, false);
}

static void *sqs_create_single(const struct plan *plan)
{
    return sqs_create_life(plan, true);
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
    template_ask(sqs, &sqs->send, connection);
}

static size_t send_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    reply_expect(&reply, VIEW("\"MessageId\""), 1);
    counters->sent++;
    return reply.size;
}

static size_t static_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    counters->sent++;
    return reply.size;
}

/* SendMessageBatch */

static void batch_ask(const void *state, struct connection *connection)
{
    const struct sqs *sqs = state;
    template_ask(sqs, &sqs->send_batch, connection);
}

static size_t batch_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    reply_expect(&reply, VIEW("\"MessageId\""), TEN);
    counters->sent += TEN;
    return reply.size;
}

/* Send one or ten, receive up to as many, delete those */

/* The next receipt handle behind *rest, and moves *rest behind it; false at the end. */
static bool handle_next(struct view *rest, struct view *handle)
{
    return view_text_next(rest, VIEW("\"ReceiptHandle\":\""), handle);
}

/* Makes the DeleteMessage for the one message that a ReceiveMessage gave, in connection->own; returns how many it
 * deletes. */
static unsigned delete_one_build(const struct sqs *sqs, struct connection *connection, struct view received)
{
    static const struct view END = {"\"}", 2};
    struct view handle;
    connection->own.size = 0;
    if (!handle_next(&received, &handle))
        return 0;
    text_append(&connection->own, text_view(&sqs->delete_begin));
    text_append_format(&connection->own, "%zu\r\n\r\n", sqs->delete_body.size + handle.size + END.size);
    text_append(&connection->own, text_view(&sqs->delete_body));
    text_append(&connection->own, handle);
    text_append(&connection->own, END);
    request_sign(sqs, &connection->own);
    return 1;
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
    request_sign(sqs, &connection->own);
    return count;
}

static void life_ask(const void *state, struct connection *connection)
{
    const struct sqs *sqs = state;
    connection->replies_due = 1;
    switch ((enum life_step)connection->step) {
    case LIFE_SEND:
        template_ask(sqs, sqs->is_single ? &sqs->send : &sqs->send_batch, connection);
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
    if (!http_reply_find(in, &reply))
        return 0;
    unsigned count = sqs->is_single ? 1 : TEN;
    switch ((enum life_step)connection->step) {
    case LIFE_SEND:
        reply_expect(&reply, VIEW("\"MessageId\""), count);
        counters->sent += count;
        connection->step = LIFE_RECEIVE;
        break;
    case LIFE_RECEIVE:
        count = (sqs->is_single ? delete_one_build : delete_build)(sqs, connection, reply.body);
        reply_expect(&reply, VIEW("\"MessageId\""), count);
        counters->received += count;
        connection->step = count > 0 ? LIFE_DELETE : LIFE_SEND;
        break;
    case LIFE_DELETE:
        count = view_count(text_view(&connection->own), VIEW("\"ReceiptHandle\""));
        /* DeleteMessage's reply is empty; whether it deleted is seen when the server is asked what it holds. */
        reply_expect(&reply, VIEW("\"Id\""), sqs->is_single ? 0 : count);
        reply_expect(&reply, VIEW("\"Failed\""), 0);
        counters->deleted += count;
        connection->step = LIFE_SEND;
        break;
    }
    return reply.size;
}

/* Receives only: the messages stay in flight */

static void take_ask(const void *state, struct connection *connection)
{
    const struct sqs *sqs = state;
    connection->out = text_view(&sqs->take);
    connection->replies_due = 1;
}

static size_t take_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state;
    struct http_message reply;
    if (!http_reply_find(in, &reply))
        return 0;
    unsigned count = view_count(reply.body, VIEW("\"MessageId\""));
    counters->received += count;
    connection->is_drained = count == 0;
    return reply.size;
}

/* Receive up to ten, delete those, until nothing is left */

static void drain_ask(const void *state, struct connection *connection)
{
    if (connection->step == LIFE_SEND)
        connection->step = LIFE_RECEIVE;
    life_ask(state, connection);
}

static size_t drain_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    bool is_receive = connection->step == LIFE_RECEIVE;
    size_t size = life_answer(state, connection, in, counters);
    connection->is_drained = size > 0 && is_receive && connection->step == LIFE_SEND;
    return size;
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
    .counted = COUNTED_DELETED,
    .create = sqs_create,
    .ask = life_ask,
    .answer = life_answer,
};

const struct workload WORKLOAD_HTTP_LIFE_SINGLE = {
    .name = "http-life-single",
    .help = "SendMessage, ReceiveMessage of one, DeleteMessage",
    .counted = COUNTED_DELETED,
    .create = sqs_create_single,
    .ask = life_ask,
    .answer = life_answer,
};

const struct workload WORKLOAD_HTTP_TAKE = {
    .name = "http-take",
    .help = "ReceiveMessage of up to ten for twelve hours, until nothing is left",
    .counted = COUNTED_RECEIVED,
    .is_drain = true,
    .create = sqs_create,
    .ask = take_ask,
    .answer = take_answer,
};

const struct workload WORKLOAD_HTTP_DRAIN = {
    .name = "http-drain",
    .help = "ReceiveMessage of up to ten, DeleteMessageBatch of those, until nothing is left",
    .counted = COUNTED_DELETED,
    .is_drain = true,
    .create = sqs_create,
    .ask = drain_ask,
    .answer = drain_answer,
};
