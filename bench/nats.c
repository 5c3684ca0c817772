/* NATS JetStream: publish, fetch and acknowledge through one stream and one durable pull consumer, which the harness
 * makes. Each publish is confirmed by the stream, each acknowledgement by the server ("double ack"), as each fetch is
 * by what it brings. */
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>

#define ACK_SUBJECT "$JS.ACK."

enum nats_step { NATS_PUT, NATS_FETCH, NATS_ACK };

struct nats {
    const struct plan *plan;
    struct text body; /* with its size and ends of lines */
};

static void *nats_create(const struct plan *plan)
{
    struct nats *nats = allocate(sizeof(*nats));
    nats->plan = plan;
    text_init(&nats->body);
    text_append_format(&nats->body, " %u\r\n", plan->body_size);
    workload_body_append(&nats->body, plan->body_size);
    text_append(&nats->body, VIEW("\r\n"));
    return nats;
}

static void hello_write(struct text *out, unsigned number)
{
    text_append_format(
        out,
        "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"lang\":\"c\",\"version\":\"1\"}\r\n"
        "SUB _I.%u 1\r\nPING\r\n",
        number);
}

static void fetch_write(struct text *out, const struct plan *plan, unsigned number)
{
    char body[64];
    int size = snprintf(body, sizeof(body), "{\"batch\":%u,\"expires\":60000000000}", plan->pipeline);
    text_append_format(out, "PUB $JS.API.CONSUMER.MSG.NEXT.%s.work _I.%u %d\r\n%s\r\n", plan->queue, number, size,
                       body);
}

static void nats_ask(const void *state, struct connection *connection)
{
    const struct nats *nats = state;
    const struct plan *plan = nats->plan;
    struct text *out = &connection->own;
    out->size = 0;
    text_append(out, text_view(&connection->aside));
    connection->aside.size = 0;
    connection->replies_due = connection->is_open ? plan->pipeline : 1;
    if (!connection->is_open) {
        hello_write(out, connection->index);
    } else if (connection->step == NATS_PUT) {
        for (unsigned at = 0; at < plan->pipeline; at++) {
            text_append_format(out, "PUB %s _I.%u", plan->queue, connection->index);
            text_append(out, text_view(&nats->body));
        }
    } else if (connection->step == NATS_FETCH) {
        connection->kept.size = 0; /* the acknowledgements are written as the messages arrive */
        fetch_write(out, plan, connection->index);
    } else {
        text_append(out, text_view(&connection->kept));
    }
    connection->out = text_view(out);
}

/* Of "MSG subject sid [reply] size", the reply subject, empty if there is none, and the size. */
static size_t message_head_read(struct view line, struct view *reply)
{
    struct view words[5];
    unsigned count = 0;
    const char *at = line.ptr, *end = line.ptr + line.size - 2;
    while (at < end && count < 5) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        const char *stop = space == NULL ? end : space;
        words[count++] = (struct view){at, (size_t)(stop - at)};
        at = stop + 1;
    }
    if (count < 4)
        fatal("NATS sent a strange MSG: %.*s", (int)line.size, line.ptr);
    *reply = count == 5 ? words[3] : (struct view){"", 0};
    return strtoul(words[count - 1].ptr, NULL, 10);
}

static void message_take(struct connection *connection, struct view reply, struct view body, struct counters *counters)
{
    switch ((enum nats_step)connection->step) {
    case NATS_PUT:
        if (view_find(body, VIEW("\"seq\":")) == NULL)
            fatal("a publish was not confirmed: %.*s", (int)body.size, body.ptr);
        counters->sent++;
        break;
    case NATS_FETCH:
        if (!view_starts_with(reply, VIEW(ACK_SUBJECT)))
            fatal("expected a message of the stream, got: %.*s", (int)body.size, body.ptr);
        text_append_format(&connection->kept, "PUB %.*s _I.%u 4\r\n+ACK\r\n", (int)reply.size, reply.ptr,
                           connection->index);
        counters->received++;
        break;
    case NATS_ACK:
        if (body.size != 0)
            fatal("an acknowledgement was not confirmed: %.*s", (int)body.size, body.ptr);
        counters->deleted++;
        break;
    }
    connection_settle(connection, 1, counters);
    if (connection->replies_due == 0)
        connection->step = (connection->step + 1) % 3;
}

static size_t message_answer(struct connection *connection, struct view in, struct view line, struct counters *counters)
{
    struct view reply;
    size_t body_size = message_head_read(line, &reply);
    if (in.size < line.size + body_size + 2)
        return 0;
    if (connection->replies_due == 0 || !connection->is_open)
        fatal("bytes that nothing asked for: %.*s", (int)line.size, line.ptr);
    message_take(connection, reply, (struct view){in.ptr + line.size, body_size}, counters);
    return line.size + body_size + 2;
}

static size_t nats_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state;
    const char *end = memchr(in.ptr, '\n', in.size);
    if (end == NULL)
        return 0;
    struct view line = {in.ptr, (size_t)(end + 1 - in.ptr)};
    if (view_starts_with(line, VIEW("MSG ")))
        return message_answer(connection, in, line, counters);
    if (view_starts_with(line, VIEW("PING\r"))) {
        text_append(&connection->aside, VIEW("PONG\r\n"));
    } else if (view_starts_with(line, VIEW("PONG\r"))) {
        connection->is_open = true;
        connection_settle(connection, 1, counters);
    } else if (!view_starts_with(line, VIEW("INFO "))) {
        fatal("NATS said: %.*s", (int)in.size, in.ptr);
    }
    return line.size;
}

const struct workload WORKLOAD_NATS_LIFE = {
    .name = "nats-life",
    .help = "JetStream: publish, fetch, acknowledge, each confirmed; consumer `work` of the stream exists",
    .counted = COUNTED_DELETED,
    .is_pushed = true,
    .create = nats_create,
    .ask = nats_ask,
    .answer = nats_answer,
};
