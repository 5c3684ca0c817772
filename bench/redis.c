/* Redis, in RESP: LPUSH of one value to one list, and pairs of keys that a script claims. */
#include "tickets.h"
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>

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

/* A pair of keys is claimed by a script: both are deleted and a result is added to the list's stream if both are there.
 * Redis runs one script at a time, so that is one step. */

static const char CLAIM[] = "local claimed=0 for at=1,#KEYS,2 do "
                            "if redis.call('EXISTS',KEYS[at],KEYS[at+1])==2 then "
                            "redis.call('DEL',KEYS[at],KEYS[at+1]) "
                            "redis.call('XADD',ARGV[1],'*','a',KEYS[at],'b',KEYS[at+1]) "
                            "claimed=claimed+1 end end return claimed";

struct claim {
    const struct plan *plan;
    uint64_t *next_owned; /* number of the next pair */
};

static void *claim_create(const struct plan *plan)
{
    struct claim *claim = allocate(sizeof(*claim));
    claim->plan = plan;
    claim->next_owned = allocate(sizeof(*claim->next_owned));
    *claim->next_owned = plan->id_first;
    return claim;
}

/* Pair n has the keys t2n and t2n + 1. The script goes along as it is: Redis knows it again by its digest. */
static void claim_ask(const void *state, struct connection *connection)
{
    const struct claim *claim = state;
    struct text *out = &connection->own;
    unsigned keys = 2 * claim->plan->batch;
    out->size = 0;
    text_append_format(out, "*%u\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$%d\r\n%u\r\n", keys + 4, sizeof(CLAIM) - 1, CLAIM,
                       snprintf(NULL, 0, "%u", keys), keys);
    for (unsigned at = 0; at < keys; at++) {
        text_append(out, VIEW("$11\r\n"));
        ticket_name_append(out, 2 * *claim->next_owned + at);
        text_append(out, VIEW("\r\n"));
    }
    *claim->next_owned += claim->plan->batch;
    text_append_format(out, "$%zu\r\n%s\r\n", strlen(claim->plan->queue), claim->plan->queue);
    connection->out = text_view(out);
    connection->replies_due = 1;
}

static size_t claim_answer(const void *state, struct connection *connection, struct view in, struct counters *counters)
{
    const struct claim *claim = state;
    (void)connection;
    const char *end = memchr(in.ptr, '\n', in.size);
    if (end == NULL)
        return 0;
    if (in.ptr[0] != ':' || strtoul(in.ptr + 1, NULL, 10) != claim->plan->batch)
        fatal("expected %u claimed pairs from Redis, got: %.*s", claim->plan->batch, (int)(end - in.ptr), in.ptr);
    counters->sent += claim->plan->batch;
    return (size_t)(end + 1 - in.ptr);
}

const struct workload WORKLOAD_REDIS_CLAIM = {
    .name = "redis-claim",
    .help = "a script that deletes both keys of --batch pairs and adds each pair to a stream",
    .create = claim_create,
    .ask = claim_ask,
    .answer = claim_answer,
};
