/* RabbitMQ, in AMQP 0-9-1: every connection publishes persistent messages to one durable queue, waits for their
 * confirms, and consumes from it with a prefetch. What arrives is acknowledged at once, all that one read brought with
 * one frame. AMQP confirms no acknowledgement: a message counts as deleted when its acknowledgement is written.
 *
 * A connection publishes again when what it published is confirmed and as many messages have been delivered to it, so
 * that no backlog grows; who got more than his share begins without waiting for them. */
#include "workload.h"

#include <stdlib.h>

#define METHOD(class, method) ((uint32_t)(class) << 16 | (method))
#define FRAME_END '\xce'

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8 };
enum { FRAME_HEAD_SIZE = 7, FRAME_SIZE_MAX = 131072, PREFETCH = 300, PIPELINE_MAX = 63 };

enum amqp_method {
    CONNECTION_START = METHOD(10, 10),
    CONNECTION_START_OK = METHOD(10, 11),
    CONNECTION_TUNE = METHOD(10, 30),
    CONNECTION_TUNE_OK = METHOD(10, 31),
    CONNECTION_OPEN = METHOD(10, 40),
    CONNECTION_OPEN_OK = METHOD(10, 41),
    CHANNEL_OPEN = METHOD(20, 10),
    CHANNEL_OPEN_OK = METHOD(20, 11),
    QUEUE_DECLARE = METHOD(50, 10),
    QUEUE_DECLARE_OK = METHOD(50, 11),
    BASIC_QOS = METHOD(60, 10),
    BASIC_QOS_OK = METHOD(60, 11),
    BASIC_CONSUME = METHOD(60, 20),
    BASIC_CONSUME_OK = METHOD(60, 21),
    BASIC_PUBLISH = METHOD(60, 40),
    BASIC_DELIVER = METHOD(60, 60),
    BASIC_ACK = METHOD(60, 80),
    CONFIRM_SELECT = METHOD(85, 10),
    CONFIRM_SELECT_OK = METHOD(85, 11),
};

struct amqp {
    const struct plan *plan;
    struct text publish;       /* `pipeline` messages */
    uint64_t *published_owned; /* by all connections */
};

/* --- Writing ------------------------------------------------------------------------------------------------------ */

static void number_append(struct text *out, unsigned width, uint64_t value)
{
    char bytes[8];
    for (unsigned at = width; at-- > 0; value >>= 8)
        bytes[at] = (char)(value & 255);
    text_append(out, (struct view){bytes, width});
}

static void short_string_append(struct text *out, const char *string)
{
    number_append(out, 1, strlen(string));
    text_append(out, (struct view){string, strlen(string)});
}

static void long_string_append(struct text *out, struct view string)
{
    number_append(out, 4, string.size);
    text_append(out, string);
}

/* Begins a frame whose size frame_end() fills in; returns where it begins. */
static size_t frame_begin(struct text *out, unsigned type, unsigned channel)
{
    size_t begin = out->size;
    number_append(out, 1, type);
    number_append(out, 2, channel);
    number_append(out, 4, 0);
    return begin;
}

static size_t method_begin(struct text *out, unsigned channel, enum amqp_method method)
{
    size_t begin = frame_begin(out, FRAME_METHOD, channel);
    number_append(out, 4, method);
    return begin;
}

static void frame_end(struct text *out, size_t begin)
{
    size_t size = out->size - begin - FRAME_HEAD_SIZE;
    for (unsigned at = 0; at < 4; at++)
        out->ptr_owned[begin + 3 + at] = (char)(size >> (24 - 8 * at) & 255);
    number_append(out, 1, (unsigned char)FRAME_END);
}

static void publish_append(struct text *out, const struct plan *plan)
{
    size_t begin = method_begin(out, 1, BASIC_PUBLISH);
    number_append(out, 2, 0);
    short_string_append(out, ""); /* the default exchange, which routes by the queue's name */
    short_string_append(out, plan->queue);
    number_append(out, 1, 0);
    frame_end(out, begin);
    begin = frame_begin(out, FRAME_HEADER, 1);
    number_append(out, 2, 60);
    number_append(out, 2, 0);
    number_append(out, 8, plan->body_size);
    number_append(out, 2, 1u << 12); /* one property, the delivery mode: */
    number_append(out, 1, 2);        /* persistent */
    frame_end(out, begin);
    begin = frame_begin(out, FRAME_BODY, 1);
    workload_body_append(out, plan->body_size);
    frame_end(out, begin);
}

static void ack_append(struct text *out, uint64_t tag)
{
    size_t begin = method_begin(out, 1, BASIC_ACK);
    number_append(out, 8, tag);
    number_append(out, 1, 1); /* and all before it */
    frame_end(out, begin);
}

/* --- The handshake: what is said after each answer ---------------------------------------------------------------- */

static void start_append(struct text *out)
{
    size_t begin = method_begin(out, 0, CONNECTION_START_OK);
    number_append(out, 4, 0); /* an empty table */
    short_string_append(out, "PLAIN");
    long_string_append(out, VIEW("\0guest\0guest"));
    short_string_append(out, "en_US");
    frame_end(out, begin);
}

static void open_append(struct text *out)
{
    size_t begin = method_begin(out, 0, CONNECTION_TUNE_OK);
    number_append(out, 2, 1); /* channels */
    number_append(out, 4, FRAME_SIZE_MAX);
    number_append(out, 2, 0); /* no heartbeats */
    frame_end(out, begin);
    begin = method_begin(out, 0, CONNECTION_OPEN);
    short_string_append(out, "/");
    short_string_append(out, "");
    number_append(out, 1, 0);
    frame_end(out, begin);
}

static bool is_number(struct view value)
{
    for (size_t at = 0; at < value.size; at++)
        if (value.ptr[at] < '0' || value.ptr[at] > '9')
            return false;
    return value.size > 0;
}

/* An argument of a queue: a long long of digits, a string of anything else. */
static void argument_append(struct text *out, struct view name, struct view value)
{
    bool is_long = is_number(value);
    number_append(out, 4, 1 + name.size + 1 + (is_long ? 8 : 4 + value.size));
    number_append(out, 1, name.size);
    text_append(out, name);
    text_append(out, is_long ? VIEW("l") : VIEW("S"));
    if (is_long)
        number_append(out, 8, strtoull(value.ptr, NULL, 10));
    else
        long_string_append(out, value);
}

/* With --attribute NAME=VALUE the queue has that argument. */
static void declare_append(struct text *out, const struct plan *plan)
{
    size_t begin = method_begin(out, 1, QUEUE_DECLARE);
    number_append(out, 2, 0);
    short_string_append(out, plan->queue);
    number_append(out, 1, 2); /* durable */
    const char *equals = plan->attribute == NULL ? NULL : strchr(plan->attribute, '=');
    if (equals == NULL) {
        number_append(out, 4, 0);
    } else {
        struct view name = {plan->attribute, (size_t)(equals - plan->attribute)};
        argument_append(out, name, (struct view){equals + 1, strlen(equals + 1)});
    }
    frame_end(out, begin);
}

static void select_append(struct text *out)
{
    size_t begin = method_begin(out, 1, CONFIRM_SELECT);
    number_append(out, 1, 0);
    frame_end(out, begin);
}

static void qos_append(struct text *out)
{
    size_t begin = method_begin(out, 1, BASIC_QOS);
    number_append(out, 4, 0);
    number_append(out, 2, PREFETCH);
    number_append(out, 1, 0);
    frame_end(out, begin);
}

static void consume_append(struct text *out, const struct plan *plan)
{
    size_t begin = method_begin(out, 1, BASIC_CONSUME);
    number_append(out, 2, 0);
    short_string_append(out, plan->queue);
    short_string_append(out, "");
    number_append(out, 1, 0);
    number_append(out, 4, 0);
    frame_end(out, begin);
}

static void channel_append(struct text *out)
{
    size_t begin = method_begin(out, 1, CHANNEL_OPEN);
    short_string_append(out, "");
    frame_end(out, begin);
}

static void hello_append(struct text *out, const struct connection *connection, const struct plan *plan)
{
    switch (connection->heard) {
    case 0:
        text_append(out, VIEW("AMQP\0\0\x09\x01"));
        break;
    case CONNECTION_START:
        start_append(out);
        break;
    case CONNECTION_TUNE:
        open_append(out);
        break;
    case CONNECTION_OPEN_OK:
        channel_append(out);
        break;
    case CHANNEL_OPEN_OK:
        declare_append(out, plan);
        break;
    case QUEUE_DECLARE_OK:
        select_append(out);
        break;
    case CONFIRM_SELECT_OK:
        qos_append(out);
        break;
    case BASIC_QOS_OK:
        consume_append(out, plan);
        break;
    default:
        fatal("RabbitMQ sent method %u.%u in a handshake", connection->heard >> 16, connection->heard & 0xffff);
    }
}

/* --- Messages ----------------------------------------------------------------------------------------------------- */

static void *amqp_create(const struct plan *plan)
{
    struct amqp *amqp = allocate(sizeof(*amqp));
    amqp->plan = plan;
    if (plan->pipeline > PIPELINE_MAX)
        fatal("--pipeline %u: RabbitMQ's may be %d at most", plan->pipeline, PIPELINE_MAX);
    text_init(&amqp->publish);
    for (unsigned at = 0; at < plan->pipeline; at++)
        publish_append(&amqp->publish, plan);
    amqp->published_owned = allocate(sizeof(*amqp->published_owned));
    *amqp->published_owned = 0;
    return amqp;
}

static void amqp_ask(const void *state, struct connection *connection)
{
    const struct amqp *amqp = state;
    const struct plan *plan = amqp->plan;
    struct text *out = &connection->own;
    out->size = 0;
    text_append(out, text_view(&connection->aside));
    connection->aside.size = 0;
    if (connection->is_open) {
        unsigned ahead = connection->ahead < plan->pipeline ? connection->ahead : plan->pipeline;
        connection->ahead -= ahead;
        connection->wanted = plan->pipeline - ahead;
        connection->unconfirmed = (UINT64_C(1) << plan->pipeline) - 1;
        connection->replies_due = plan->pipeline + connection->wanted;
        *amqp->published_owned += plan->pipeline;
        text_append(out, text_view(&amqp->publish));
    } else {
        connection->replies_due = 1;
        hello_append(out, connection, plan);
    }
    connection->out = text_view(out);
}

static uint64_t number_read(const char *at, unsigned width)
{
    uint64_t value = 0;
    for (unsigned digit = 0; digit < width; digit++)
        value = value << 8 | (unsigned char)at[digit];
    return value;
}

/* Confirms of what this connection published last: the messages tag_first + 0, 1, … */
static void confirm_take(struct connection *connection, const char *arguments, struct counters *counters)
{
    uint64_t at = number_read(arguments, 8) - connection->tag_first;
    bool is_multiple = (arguments[8] & 1) != 0;
    if (at > PIPELINE_MAX)
        fatal("RabbitMQ confirmed what was not published");
    uint64_t mask = is_multiple ? (UINT64_C(2) << at) - 1 : UINT64_C(1) << at;
    unsigned count = (unsigned)__builtin_popcountll(connection->unconfirmed & mask);
    connection->unconfirmed &= ~mask;
    counters->sent += count;
    connection_settle(connection, count, counters);
}

/* Keeps the tag; the message is whole with its body. */
static void deliver_take(struct connection *connection, const char *arguments)
{
    connection->tag_delivered = number_read(arguments + 1 + (unsigned char)arguments[0], 8);
}

static void body_take(struct connection *connection, struct counters *counters)
{
    counters->received++;
    counters->deleted++;
    connection->aside.size = 0; /* one acknowledgement covers those before it */
    ack_append(&connection->aside, connection->tag_delivered);
    if (connection->wanted > 0) {
        connection->wanted--;
        connection_settle(connection, 1, counters);
    } else {
        connection->ahead++;
    }
}

static void method_take(const struct amqp *amqp, struct connection *connection, struct view payload,
                        struct counters *counters)
{
    uint32_t method = (uint32_t)number_read(payload.ptr, 4);
    if (connection->is_open && method == BASIC_ACK) {
        confirm_take(connection, payload.ptr + 4, counters);
        if (connection->unconfirmed == 0)
            connection->tag_first += amqp->plan->pipeline;
    } else if (method == BASIC_DELIVER) {
        deliver_take(connection, payload.ptr + 4);
    } else if (!connection->is_open) {
        connection->heard = method;
        connection->is_open = method == BASIC_CONSUME_OK;
        connection->tag_first = 1;
        connection_settle(connection, 1, counters);
    } else {
        fatal("RabbitMQ sent method %u.%u: %.*s", method >> 16, method & 0xffff, (int)payload.size, payload.ptr);
    }
}

static size_t amqp_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    if (in.size < FRAME_HEAD_SIZE)
        return 0;
    size_t size = number_read(in.ptr + 3, 4), whole = FRAME_HEAD_SIZE + size + 1;
    if (in.size < whole)
        return 0;
    if (in.ptr[whole - 1] != FRAME_END)
        fatal("RabbitMQ sent a frame without its end");
    if (in.ptr[0] == FRAME_METHOD)
        method_take(state, connection, (struct view){in.ptr + FRAME_HEAD_SIZE, size}, counters);
    else if (in.ptr[0] == FRAME_BODY)
        body_take(connection, counters);
    return whole;
}

/* Everything that was published has been confirmed, delivered and acknowledged, by whichever connection. */
static bool amqp_is_settled(const void *state, const struct counters *counters)
{
    const struct amqp *amqp = state;
    return counters->sent == *amqp->published_owned && counters->deleted == *amqp->published_owned;
}

const struct workload WORKLOAD_AMQP_LIFE = {
    .name = "amqp-life",
    .help =
        "RabbitMQ: publish with confirms, consume, acknowledge; declares the queue, --attribute is an argument of it",
    .counted = COUNTED_DELETED,
    .is_pushed = true,
    .create = amqp_create,
    .ask = amqp_ask,
    .answer = amqp_answer,
    .is_settled = amqp_is_settled,
};
