/* What clients ask: a request goes to the api, and what that answers at once is judged. Connections hang up and ask
 * again. */
#include "world_parts.h"

#include "api/api.h"
#include "fail.h"

/* May it end units, and with them batches and their parents? */
static bool may_complete(const struct operation *operation)
{
    switch (operation->kind) {
    case OPERATION_DELETE:
    case OPERATION_COMMIT:
    case OPERATION_PUBLISH:
    case OPERATION_COMPLETE_UNITS:
    case OPERATION_RECEIVE:
    case OPERATION_FAIL:
    case OPERATION_ADD_UNITS: /* with a Total it may seal its batch */
    case OPERATION_XOR_UNITS:
    case OPERATION_SEAL_BATCH:
    case OPERATION_CANCEL_BATCH:
        return true;
    default:
        return false;
    }
}

/* About how much the operation may log, completions included. */
static size_t log_bytes(const struct operation *operation)
{
    size_t bytes = may_complete(operation) ? 1800 : 300;
    bytes += operation->has_child ? 1200 : 0;
    bool is_send = operation->kind == OPERATION_SEND || operation->kind == OPERATION_COMMIT ||
                   operation->kind == OPERATION_PUBLISH || operation->kind == OPERATION_REPLACE;
    for (unsigned i = 0; i < operation->count; i++)
        bytes += is_send ? 370 + 200 * operation->entries[i].after_count + operation->entries[i].size : 100;
    return bytes;
}

/* What a server that is short of room does not remember, or refuses a part of; and a batch whose entries one frame may
 * not hold. */
bool world_is_beyond_model(const struct world *world, const struct operation *operation)
{
    if (operation->kind == OPERATION_SEND && log_bytes(operation) > world_ample_size(world))
        return true;
    return namespace_disk_level(world->ns) != DISK_AMPLE &&
           (operation->kind == OPERATION_PUBLISH ||
            (operation->kind == OPERATION_RECEIVE && operation->attempt != NONE));
}

/* What clients call themselves; some say nothing. */
static const struct bytes workers[] = {BYTES("one"), BYTES(""), BYTES("two"), BYTES("three")};

void world_submit(struct world *world, struct connection *connection)
{
    struct exchange *exchange = &connection->exchange;
    const struct operation *operation = &connection->operation;
    /* The entries of one request may be spread over several frames, which the model does not follow. */
    size_t bytes = log_bytes(operation);
    bool is_large = operation->is_many || operation->kind == OPERATION_COMMIT || operation->kind == OPERATION_PUBLISH;
    if (world->pending_bytes > 0 && (is_large || world->pending_bytes + bytes > world_ample_size(world)))
        world_server_flush(world);
    world_make_room_to_renew(world);
    oracle_ask(world->oracle, &connection->operation);
    exchange_reset(exchange);
    buffer_truncate(&connection->body, 0);
    operation_write(operation, world->oracle->handles, &connection->body);
    exchange->request = (struct request){
        .method = BYTES("POST"),
        .path = BYTES("/"),
        .host = BYTES("sim"),
        .target = bytes_from_string(operation_target(operation)),
        .worker = workers[(size_t)(connection - world->connections) % ARRAY_LENGTH(workers)],
        .body = buffer_bytes(&connection->body),
    };
    world_trace(world, "client %td: %s %.*s", connection - world->connections, operation_target(operation),
                world_trace_size(connection->body.size), (const char *)connection->body.data_owned);
    world->report->operations++;
    world->pending_bytes += bytes;
    bool is_first = operation->kind == OPERATION_RECEIVE && world->oracle->waiting_counts[operation->queue] == 0;
    uint64_t time_ms = world_begin(world);
    witness_begin(&world->oracle->witness, namespace_core(world->ns));
    front_submit(world->front, exchange, world->now_ms);
    world_notice_failed_read(world);
    oracle_observe(world->oracle, namespace_core(world->ns));
    plant_after_request(world->ns);
    witness_turn(&world->oracle->witness, namespace_core(world->ns));
    oracle_observe(world->oracle, namespace_core(world->ns));
    struct connection *first = world_take_finished(world);
    if (exchange->state == EXCHANGE_WAITING || (first != connection && operation->kind == OPERATION_RECEIVE)) {
        /* It waits, or did so for a moment behind others that were answered first. */
        connection->state = CONNECTION_WAITING;
        world_trace(world, "client %td: waits", connection - world->connections);
        world_begin_oracle(world, time_ms,
                           first != NULL ? first->exchange.hold_sequence : namespace_hold_sequence(world->ns));
        oracle_judge_wait(world->oracle, operation, is_first);
        world->oracle->waiting_counts[operation->queue]++;
    } else {
        first = world_judge_first(world, connection, first, time_ms);
    }
    world_judge_waiters(world, first);
    world->oracle->has_read_failed = false;
    if (plant_chosen() == PLANT_REPLY_BEFORE_DURABLE)
        world_show_durable(world);
    world_check_core(world);
    world_look(world);
}

void world_client_acts(struct world *world)
{
    struct connection *connection = &world->connections[random_below(&world->network, CLIENTS)];
    switch (connection->state) {
    case CONNECTION_WAITING:
        if (random_chance(&world->network, 10)) {
            world_trace(world, "client %td hangs up", connection - world->connections);
            api_abandon(&connection->exchange);
            world->oracle->waiting_counts[connection->operation.queue]--;
            connection->state = CONNECTION_BROKEN;
        }
        return;
    case CONNECTION_HELD:
        if (random_chance(&world->network, 4)) {
            world_trace(world, "client %td hangs up before its reply has left", connection - world->connections);
            exchange_reset(&connection->exchange);
            connection->state = CONNECTION_BROKEN;
        }
        return;
    case CONNECTION_BROKEN:
        if (random_chance(&world->network, 80))
            break; /* the same again */
        __attribute__((fallthrough));
    case CONNECTION_IDLE:
        clients_draw(&world->clients, world->oracle, &connection->operation);
        break;
    }
    if (!world_is_beyond_model(world, &connection->operation))
        world_submit(world, connection);
}
