/* The replies: judged when the server has made them, shown when their frames are durable, lost on the way at times. */
#include "world_parts.h"

#include "api/api.h"
#include "engine/grant.h"
#include "fail.h"
#include "support/history.h"
#include <inttypes.h>

/* The reply's frame is durable. False: it waits for another one, with the leases that it gives. */
static bool let_go(struct world *world, struct connection *connection)
{
    struct exchange *exchange = &connection->exchange;
    if (!exchange_gives_lease(exchange))
        return true;
    world_begin_watching(world);
    uint64_t time_ms = namespace_time(world->ns);
    bool may_leave = api_reply_may_leave(world->api, exchange, world->now_ms);
    world_follow_renewals(world, time_ms);
    if (!may_leave)
        world_trace(world, "client %td: held until frame %" PRIu64, connection - world->connections,
                    exchange->hold_sequence);
    return may_leave;
}

/* The client sees the reply, or its connection breaks at the last moment and it will ask again. */
static void show(struct world *world, struct connection *connection)
{
    if (!let_go(world, connection))
        return;
    if (!world->is_quiet && random_chance(&world->network, 4)) {
        world_trace(world, "client %td: reply lost on the way", connection - world->connections);
        connection->state = CONNECTION_BROKEN;
        return;
    }
    connection->state = CONNECTION_IDLE;
    if (connection->exchange.hold_sequence > world->acknowledged)
        world->acknowledged = connection->exchange.hold_sequence;
    const struct grant *grant = connection->exchange.grant_owned;
    bool is_weak = grant != NULL && connection->lesson.lease_count > 0 && grant->is_held_again &&
                   grant->renewed_in > connection->exchange.hold_sequence;
    oracle_acknowledge(world->oracle, &connection->lesson);
    oracle_show_leases(world->oracle, &connection->lesson, world->now_ms, is_weak);
    clients_learn(&world->clients, &connection->operation, &connection->lesson);
}

void world_show_durable(struct world *world)
{
    uint64_t durable = namespace_durable(world->ns);
    oracle_durable(world->oracle, durable);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct connection *connection = &world->connections[i];
        if (connection->state == CONNECTION_HELD &&
            (connection->exchange.hold_sequence <= durable || plant_chosen() == PLANT_REPLY_BEFORE_DURABLE))
            show(world, connection);
    }
}

static void trace_reply(const struct world *world, const struct connection *connection)
{
    const struct exchange *exchange = &connection->exchange;
    world_trace(world, "client %td: -> %d %.*s (frame %" PRIu64 ")", connection - world->connections,
                exchange->reply.status, world_trace_size(exchange->reply.body.size),
                (const char *)exchange->reply.body.data_owned, exchange->hold_sequence);
}

void world_judge(struct world *world, struct connection *connection, uint64_t time_ms)
{
    const struct exchange *exchange = &connection->exchange;
    trace_reply(world, connection);
    history_note_reply(exchange);
    world_begin_oracle(world, time_ms, exchange->hold_sequence);
    connection->state = CONNECTION_HELD;
    if (exchange->reply.error == ERROR_DISK_IS_FULL) {
        /* Nothing has happened. */
        if (namespace_disk_level(world->ns) == DISK_AMPLE || !world->was_full)
            fail("%s was refused for a full disk, which is not full", operation_target(&connection->operation));
        connection->lesson = (struct lesson){0};
        world->report->refused_for_room++;
        return;
    }
    oracle_judge(world->oracle, &connection->operation, exchange->reply.error, buffer_bytes(&exchange->reply.body),
                 &connection->lesson);
}

struct connection *world_take_finished(struct world *world)
{
    struct exchange *exchange = front_take_finished(world->front);
    return exchange == NULL ? NULL : CONTAINER_OF(exchange, struct connection, exchange);
}

/* Judges that receives which still wait do so rightly. */
static void judge_waiting(struct world *world)
{
    world_begin_oracle(world, namespace_time(world->ns), namespace_hold_sequence(world->ns));
    for (unsigned i = 0; i < CLIENTS; i++)
        if (world->connections[i].state == CONNECTION_WAITING)
            oracle_judge_waiting(world->oracle, &world->connections[i].operation);
}

/* Judges replies to receives that waited, `first` before those that the api still has. */
void world_judge_waiters(struct world *world, struct connection *first)
{
    struct connection *connection = first != NULL ? first : world_take_finished(world);
    uint64_t time_ms = namespace_time(world->ns);
    for (; connection != NULL; connection = world_take_finished(world)) {
        world->oracle->waiting_counts[connection->operation.queue]--;
        world_judge(world, connection, time_ms);
    }
    /* With an ample frame the rest comes at the next turn. */
    if (!core_has_ready_queue(namespace_core(world->ns)))
        judge_waiting(world);
    oracle_settle(world->oracle);
}

/* Judges the reply to the request that was just made. Only those who wait at a queue that goes hear of it before the
 * one who deletes it. */
struct connection *world_judge_first(struct world *world, struct connection *connection, struct connection *first,
                                     uint64_t time_ms)
{
    struct connection *told[CLIENTS];
    unsigned told_count = 0;
    for (; first != connection; first = world_take_finished(world)) {
        if (first == NULL || connection->operation.kind != OPERATION_DELETE_QUEUE)
            fail("%s was answered after others that it has nothing to do with",
                 operation_target(&connection->operation));
        told[told_count++] = first;
    }
    world_judge(world, connection, time_ms);
    for (unsigned i = 0; i < told_count; i++) {
        world->oracle->waiting_counts[told[i]->operation.queue]--;
        world_judge(world, told[i], time_ms);
    }
    return NULL;
}
