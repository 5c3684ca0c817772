/* Redis: LPUSH of one value to one list, in RESP. */
#include "workload.h"

struct redis {
    struct text push; /* `pipeline` commands */
    unsigned pipeline;
};

static void *redis_create(const struct plan *plan)
{
    struct redis *redis = allocate(sizeof(*redis));
    redis->pipeline = plan->pipeline;
    text_init(&redis->push);
    for (unsigned at = 0; at < plan->pipeline; at++) {
        text_append_format(&redis->push, "*3\r\n$5\r\nLPUSH\r\n$%zu\r\n%s\r\n$%u\r\n", strlen(plan->queue), plan->queue,
                           plan->body_size);
        workload_body_append(&redis->push, plan->body_size);
        text_append(&redis->push, VIEW("\r\n"));
    }
    return redis;
}

static void redis_ask(const void *state, struct connection *connection)
{
    const struct redis *redis = state;
    connection->out = text_view(&redis->push);
    connection->replies_due = redis->pipeline;
}

/* The confirmation is the list's new length, `:N`. */
static size_t redis_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    (void)state, (void)connection;
    const char *end = memchr(in.ptr, '\n', in.size);
    if (end == NULL)
        return 0;
    if (in.ptr[0] != ':')
        fatal("expected an integer from Redis, got: %.*s", (int)(end - in.ptr), in.ptr);
    counters->sent++;
    return (size_t)(end + 1 - in.ptr);
}

const struct workload WORKLOAD_REDIS_LPUSH = {
    .name = "redis-lpush",
    .help = "LPUSH of one body to one list",
    .create = redis_create,
    .ask = redis_ask,
    .answer = redis_answer,
};
