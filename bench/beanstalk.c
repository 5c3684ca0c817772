/* beanstalkd: put, reserve and delete in one tube. A connection puts before it reserves, so a reserve never waits. */
#include "workload.h"

enum beanstalk_step { BEANSTALK_PUT, BEANSTALK_RESERVE, BEANSTALK_DELETE };

struct beanstalk {
    struct text put; /* `pipeline` commands each */
    struct text reserve;
    unsigned pipeline;
};

static void *beanstalk_create(const struct plan *plan)
{
    struct beanstalk *beanstalk = allocate(sizeof(*beanstalk));
    beanstalk->pipeline = plan->pipeline;
    text_init(&beanstalk->put);
    text_init(&beanstalk->reserve);
    for (unsigned at = 0; at < plan->pipeline; at++) {
        text_append_format(&beanstalk->put, "put 0 0 120 %u\r\n", plan->body_size);
        workload_body_append(&beanstalk->put, plan->body_size);
        text_append(&beanstalk->put, VIEW("\r\n"));
        text_append(&beanstalk->reserve, VIEW("reserve\r\n"));
    }
    return beanstalk;
}

static void put_ask(const void *state, struct connection *connection)
{
    const struct beanstalk *beanstalk = state;
    connection->out = text_view(&beanstalk->put);
    connection->replies_due = beanstalk->pipeline;
}

/* The first line of `in`, with its end; empty while it is not whole. */
static struct view line_find(struct view in)
{
    const char *end = memchr(in.ptr, '\n', in.size);
    return (struct view){in.ptr, end == NULL ? 0 : (size_t)(end + 1 - in.ptr)};
}

static void line_expect(struct view line, struct view prefix)
{
    if (!view_starts_with(line, prefix))
        fatal("expected %.*s from beanstalkd, got: %.*s", (int)prefix.size, prefix.ptr, (int)line.size, line.ptr);
}

static size_t put_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    struct view line = line_find(in);
    if (line.size == 0)
        return 0;
    line_expect(line, VIEW("INSERTED "));
    counters->sent++;
    return line.size;
}

static void life_ask(const void *state, struct connection *connection)
{
    const struct beanstalk *beanstalk = state;
    connection->replies_due = beanstalk->pipeline;
    switch ((enum beanstalk_step)connection->step) {
    case BEANSTALK_PUT:
        connection->out = text_view(&beanstalk->put);
        break;
    case BEANSTALK_RESERVE:
        connection->own.size = 0; /* the deletes are written as the jobs arrive */
        connection->out = text_view(&beanstalk->reserve);
        break;
    case BEANSTALK_DELETE:
        connection->out = text_view(&connection->own);
        break;
    }
}

/* `RESERVED <id> <bytes>` and the body; appends the delete of that job to connection->own. */
static size_t reserve_answer(struct connection *connection, struct view in, struct view line)
{
    line_expect(line, VIEW("RESERVED "));
    const char *id = line.ptr + 9;
    const char *space = memchr(id, ' ', line.size - 9);
    if (space == NULL)
        fatal("a RESERVED without its size: %.*s", (int)line.size, line.ptr);
    size_t body_size = 0;
    for (const char *digit = space + 1; *digit >= '0' && *digit <= '9'; digit++)
        body_size = body_size * 10 + (size_t)(*digit - '0');
    size_t size = line.size + body_size + 2;
    if (in.size < size)
        return 0;
    text_append(&connection->own, VIEW("delete "));
    text_append(&connection->own, (struct view){id, (size_t)(space - id)});
    text_append(&connection->own, VIEW("\r\n"));
    return size;
}

static size_t life_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state;
    struct view line = line_find(in);
    if (line.size == 0)
        return 0;
    size_t size = line.size;
    switch ((enum beanstalk_step)connection->step) {
    case BEANSTALK_PUT:
        line_expect(line, VIEW("INSERTED "));
        counters->sent++;
        break;
    case BEANSTALK_RESERVE:
        size = reserve_answer(connection, in, line);
        if (size == 0)
            return 0;
        counters->received++;
        break;
    case BEANSTALK_DELETE:
        line_expect(line, VIEW("DELETED\r\n"));
        counters->deleted++;
        break;
    }
    if (connection->replies_due == 1)
        connection->step = (connection->step + 1) % 3;
    return size;
}

const struct workload WORKLOAD_BEANSTALK_PUT = {
    .name = "beanstalk-put",
    .help = "put",
    .create = beanstalk_create,
    .ask = put_ask,
    .answer = put_answer,
};

const struct workload WORKLOAD_BEANSTALK_LIFE = {
    .name = "beanstalk-life",
    .help = "put, reserve, delete",
    .counted = COUNTED_DELETED,
    .create = beanstalk_create,
    .ask = life_ask,
    .answer = life_answer,
};
