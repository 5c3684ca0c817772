/* See owners_libpq.h. Packets are late, in order; a connection breaks at once on one side and later on the other; what
 * was sent before a cut arrives behind it, unless a system has given the connection up by then. */
#include "owners_libpq.h"

#include "base/assert.h"
#include "base/memory.h"
#include "owners.h"
#include "owners_fiber.h"
#include "owners_server.h"
#include "random.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_DESCRIPTOR 100000
#define CONNECTIONS_MAX 4096u
#define GIVE_UP_MS 3000u /* the keepalives of the client */

enum client_state { CLIENT_CONNECTS, CLIENT_OPEN, CLIENT_BROKEN, CLIENT_CLOSED };

struct pg_conn {
    int descriptor;
    struct process *process;
    enum client_state state;
    struct backend *backend; /* NULL: none yet, or none any more */
    bool is_backend_told;    /* that the client is gone */
    bool has_ended;          /* the end of the connection has arrived, and may not have been read */
    bool is_welcome;         /* the answer to its hello has arrived, and may not have been read */
    bool is_busy;            /* a statement was sent whose answer has not been read */
    bool changes;            /* it is one that changes something */
    uint64_t sent_at;
    uint64_t heard_at;             /* when the server last heard of the client */
    uint64_t ended_at;             /* when the client could know; 0: not yet */
    uint64_t change;               /* the number of its newest change; 0: none */
    struct pg_result *answer;      /* has arrived */
    struct pg_result *taken;       /* was read; the next one that PQgetResult() gives */
    uint64_t to_server, to_client; /* when the newest packet arrives */
    struct fiber *waiter;
    PQnoticeReceiver receiver;
    void *receiver_context;
};

static struct {
    struct random random;
    uint32_t late_percent;
    uint64_t changes;
    struct pg_conn *connections[CONNECTIONS_MAX];
    unsigned count;
} network;

void network_init(uint64_t seed, uint32_t late_percent)
{
    network.random = random_stream(seed, STREAM_NETWORK);
    network.late_percent = late_percent;
}

void network_calm(void)
{
    network.late_percent = 0;
}

/* --- results ------------------------------------------------------------------------------------------------------ */

struct pg_result *result_create(ExecStatusType status, int columns)
{
    struct pg_result *result = memory_allocate_zeroed(sizeof(*result));
    result->status = status;
    result->columns = columns;
    return result;
}

struct pg_result *result_refuse(const char *state, const char *text)
{
    struct pg_result *result = result_create(PGRES_FATAL_ERROR, 0);
    (void)snprintf(result->state, sizeof(result->state), "%s", state);
    (void)snprintf(result->text, sizeof(result->text), "ERROR: %s", text);
    return result;
}

static struct result_field *add_field(struct pg_result *result)
{
    ASSERT(result->columns > 0);
    if (result->rows == result->capacity) {
        result->capacity = result->capacity == 0 ? 64 : 2 * result->capacity;
        result->fields_owned =
            memory_resize(result->fields_owned, (size_t)result->capacity * sizeof(*result->fields_owned));
    }
    return &result->fields_owned[result->rows++]; /* counted in fields until it is asked for */
}

void result_add_bytes(struct pg_result *result, struct bytes bytes)
{
    uint8_t *own = memory_allocate(bytes.size + 1);
    if (bytes.size > 0)
        memcpy(own, bytes.ptr, bytes.size);
    own[bytes.size] = 0;
    *add_field(result) = (struct result_field){.is_null = bytes.ptr == NULL, .bytes = bytes_make(own, bytes.size)};
}

void result_add_number(struct pg_result *result, uint64_t number, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(number >> 8 * (size - 1 - i));
    result_add_bytes(result, bytes_make(bytes, size));
}

static const struct result_field *field_of(const PGresult *result, int row, int column)
{
    const int index = row * result->columns + column;
    ASSERT(row >= 0 && column >= 0 && column < result->columns && index < result->rows);
    return &result->fields_owned[index];
}

int PQntuples(const PGresult *result)
{
    return result == NULL || result->columns == 0 ? 0 : result->rows / result->columns;
}

int PQgetisnull(const PGresult *result, int row, int column)
{
    return field_of(result, row, column)->is_null ? 1 : 0;
}

char *PQgetvalue(const PGresult *result, int row, int column)
{
    return (char *)(uintptr_t)field_of(result, row, column)->bytes.ptr;
}

int PQgetlength(const PGresult *result, int row, int column)
{
    return (int)field_of(result, row, column)->bytes.size;
}

ExecStatusType PQresultStatus(const PGresult *result)
{
    return result == NULL ? PGRES_FATAL_ERROR : result->status;
}

char *PQresultErrorField(const PGresult *result, int field)
{
    const char *text = field == PG_DIAG_SQLSTATE ? result->state : result->severity;
    return text[0] == '\0' ? NULL : (char *)(uintptr_t)text;
}

char *PQresultErrorMessage(const PGresult *result)
{
    return (char *)(uintptr_t)result->text;
}

char *PQcmdTuples(PGresult *result)
{
    return result == NULL ? (char *)(uintptr_t) "" : result->changed;
}

void PQclear(PGresult *result)
{
    if (result == NULL)
        return;
    for (int i = 0; i < result->rows; i++)
        free((void *)(uintptr_t)result->fields_owned[i].bytes.ptr);
    free(result->fields_owned);
    free(result);
}

/* --- packets ------------------------------------------------------------------------------------------------------ */

static uint64_t travel_time(void)
{
    if (random_chance(&network.random, network.late_percent))
        return random_between(&network.random, 1000, 60000);
    return random_between(&network.random, 30, 400);
}

/* When a packet arrives that is sent now, behind those before it. */
static uint64_t arrival(uint64_t *newest)
{
    const uint64_t at = sim_now() + travel_time();
    *newest = at > *newest ? at : *newest + 1;
    return *newest;
}

static void wake(const struct pg_conn *connection)
{
    if (connection->waiter != NULL)
        fiber_wake(connection->waiter);
}

/* A packet that comes in a cut arrives behind it. */
static bool is_held(struct pg_conn *connection, void (*again)(void *context, uint64_t number), void *context,
                    uint64_t number)
{
    if (connection->process->cut_until <= sim_now())
        return false;
    sim_at(connection->process->cut_until + random_between(&network.random, 10, 3000), again, context, number);
    return true;
}

static void tell_backend(struct pg_conn *connection)
{
    if (connection->backend == NULL || connection->is_backend_told)
        return;
    connection->is_backend_told = true;
    server_hang_up(connection->backend);
}

static void arrive_end_at_server(void *context, uint64_t number)
{
    if (!is_held(context, arrive_end_at_server, context, number))
        tell_backend(context);
}

/* The client's side is gone: the system of its machine says so. */
static void leave(struct pg_conn *connection)
{
    if (connection->backend != NULL && !connection->is_backend_told)
        sim_at(arrival(&connection->to_server), arrive_end_at_server, connection, 0);
}

static void note_end(struct pg_conn *connection)
{
    if (connection->ended_at == 0)
        connection->ended_at = sim_now();
}

static void break_client(struct pg_conn *connection)
{
    if (connection->state == CLIENT_CLOSED)
        return;
    note_end(connection);
    connection->has_ended = true;
    wake(connection);
}

static void arrive_end_at_client(void *context, uint64_t number)
{
    if (!is_held(context, arrive_end_at_client, context, number))
        break_client(context);
}

void connection_end(struct pg_conn *connection)
{
    connection->is_backend_told = true;
    sim_at(arrival(&connection->to_client), arrive_end_at_client, connection, 0);
}

struct packet {
    struct pg_conn *connection;
    struct statement statement;
    struct pg_result *answer;
};

static void arrive_answer(void *context, uint64_t number)
{
    struct packet *packet = context;
    if (is_held(packet->connection, arrive_answer, context, number))
        return;
    if (packet->connection->state == CLIENT_OPEN) {
        packet->connection->answer = packet->answer;
        wake(packet->connection);
    }
    free(packet);
}

void connection_answer(struct pg_conn *connection, struct pg_result *result)
{
    struct packet *packet = memory_allocate_zeroed(sizeof(*packet));
    packet->connection = connection;
    packet->answer = result;
    sim_at(arrival(&connection->to_client), arrive_answer, packet, 0);
}

static void arrive_statement(void *context, uint64_t number)
{
    struct packet *packet = context;
    if (is_held(packet->connection, arrive_statement, context, number))
        return;
    packet->connection->heard_at = sim_now();
    if (!packet->connection->is_backend_told)
        server_take(packet->connection->backend, &packet->statement);
    free(packet);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

void network_kill(const struct process *process)
{
    for (unsigned i = 0; i < network.count; i++) {
        struct pg_conn *connection = network.connections[i];
        if (connection->process != process || connection->state == CLIENT_CLOSED)
            continue;
        connection->state = CLIENT_CLOSED;
        connection->waiter = NULL;
        leave(connection);
    }
}

/* The connection on which the process last changed something; NULL: there is none. */
static struct pg_conn *find_changer(const struct process *process)
{
    struct pg_conn *found = NULL;
    for (unsigned i = 0; i < network.count; i++) {
        struct pg_conn *connection = network.connections[i];
        if (connection->process == process && connection->change > (found == NULL ? 0 : found->change))
            found = connection;
    }
    return found;
}

uint64_t network_broken_at(const struct process *process)
{
    const struct pg_conn *changer = find_changer(process);
    return changer == NULL ? 0 : changer->ended_at;
}

/* The cut has lasted for too long. */
static void give_up_client(void *context, uint64_t cut_until)
{
    struct pg_conn *connection = context;
    if (connection->process->cut_until == cut_until)
        break_client(connection);
}

static void give_up_server(void *context, uint64_t cut_until)
{
    struct pg_conn *connection = context;
    if (connection->process->cut_until != cut_until)
        return;
    if (connection == find_changer(connection->process))
        owners_note_given_up(connection->process);
    tell_backend(connection);
}

void network_cut(struct process *process, uint64_t until)
{
    process->cut_until = until;
    for (unsigned i = 0; i < network.count; i++) {
        struct pg_conn *connection = network.connections[i];
        if (connection->process != process || connection->state == CLIENT_CLOSED)
            continue;
        const uint64_t client_ends = sim_now() + (GIVE_UP_MS + random_below(&network.random, 500)) * MS;
        const uint64_t patience_ms = connection->backend == NULL ? 0 : server_patience_ms(connection->backend);
        const uint64_t silent = connection->heard_at + patience_ms * MS;
        const uint64_t server_ends =
            (silent > sim_now() ? silent : sim_now()) + random_below(&network.random, 2000) * MS;
        if (client_ends < until)
            sim_at(client_ends, give_up_client, connection, until);
        if (server_ends < until)
            sim_at(server_ends, give_up_server, connection, until);
    }
}

bool network_break(const struct process *process)
{
    struct pg_conn *found[CONNECTIONS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < network.count; i++)
        if (network.connections[i]->process == process && network.connections[i]->state == CLIENT_OPEN)
            found[count++] = network.connections[i];
    if (count == 0)
        return false;
    struct pg_conn *connection = found[random_below(&network.random, count)];
    owners_trace("connection %d of process %d breaks", connection->descriptor, process->pid);
    sim_at(sim_now() + random_below(&network.random, 3000), arrive_end_at_server, connection, 0);
    sim_at(sim_now() + random_below(&network.random, 3000), arrive_end_at_client, connection, 0);
    return true;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

static void arrive_welcome(void *context, uint64_t number)
{
    struct pg_conn *connection = context;
    if (is_held(connection, arrive_welcome, context, number) || connection->state != CLIENT_CONNECTS)
        return;
    if (connection->has_ended || connection->backend == NULL)
        connection->state = CLIENT_BROKEN;
    else
        connection->state = CLIENT_OPEN;
    connection->is_welcome = true;
    wake(connection);
}

static void arrive_hello(void *context, uint64_t number)
{
    struct pg_conn *connection = context;
    if (is_held(connection, arrive_hello, context, number))
        return;
    if (connection->state != CLIENT_CONNECTS)
        return; /* it has gone */
    connection->heard_at = sim_now();
    connection->backend = server_accept(connection);
    sim_at(arrival(&connection->to_client), arrive_welcome, connection, 0);
}

/* The oldest that is over gives its place. */
static unsigned take_place(void)
{
    if (network.count < CONNECTIONS_MAX)
        return network.count++;
    for (unsigned i = 0; i < network.count; i++)
        if (network.connections[i]->state == CLIENT_CLOSED)
            return i;
    ASSERT(false);
    return 0;
}

PGconn *PQconnectStartParams(const char *const *keywords, const char *const *values, int expands)
{
    (void)keywords;
    (void)values;
    (void)expands;
    struct pg_conn *connection = memory_allocate_zeroed(sizeof(*connection));
    const unsigned place = take_place();
    network.connections[place] = connection;
    connection->descriptor = FIRST_DESCRIPTOR + (int)place;
    connection->process = fiber_process();
    sim_at(arrival(&connection->to_server), arrive_hello, connection, 0);
    return connection;
}

PostgresPollingStatusType PQconnectPoll(PGconn *connection)
{
    connection->is_welcome = false;
    switch (connection->state) {
    case CLIENT_CONNECTS:
        return PGRES_POLLING_READING;
    case CLIENT_OPEN:
        return PGRES_POLLING_OK;
    default:
        return PGRES_POLLING_FAILED;
    }
}

PQconninfoOption *PQconninfoParse(const char *text, char **wrong)
{
    (void)text;
    (void)wrong;
    return memory_allocate_zeroed(sizeof(PQconninfoOption));
}

void PQconninfoFree(PQconninfoOption *options)
{
    free(options);
}

void PQfreemem(void *memory)
{
    free(memory);
}

ConnStatusType PQstatus(const PGconn *connection)
{
    if (connection->state == CLIENT_CONNECTS)
        return CONNECTION_STARTED;
    return connection->state == CLIENT_OPEN ? CONNECTION_OK : CONNECTION_BAD;
}

int PQsetnonblocking(PGconn *connection, int is_nonblocking)
{
    (void)connection;
    (void)is_nonblocking;
    return 0;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *connection, PQnoticeReceiver receiver, void *context)
{
    connection->receiver = receiver;
    connection->receiver_context = context;
    return NULL;
}

char *PQdb(const PGconn *connection)
{
    (void)connection;
    static char name[] = "tally";
    return name;
}

char *PQhost(const PGconn *connection)
{
    (void)connection;
    static char name[] = "the server";
    return name;
}

int PQbackendPID(const PGconn *connection)
{
    return server_pid(connection->backend);
}

int PQsocket(const PGconn *connection)
{
    return connection->descriptor;
}

char *PQerrorMessage(const PGconn *connection)
{
    return (char *)(uintptr_t)(connection->state == CLIENT_OPEN ? "" : "server closed the connection unexpectedly");
}

void PQfinish(PGconn *connection)
{
    if (connection == NULL)
        return;
    note_end(connection);
    connection->state = CLIENT_CLOSED;
    connection->waiter = NULL;
    PQclear(connection->taken);
    connection->taken = NULL;
    leave(connection);
}

/* --- statements --------------------------------------------------------------------------------------------------- */

static bool changes_something(int number)
{
    switch (number) {
    case PG_SEAL:
    case PG_BEAT:
    case PG_CREATE:
    case PG_RENAME:
    case PG_RESIZE:
    case PG_REMOVE:
    case PG_REMOVE_CHUNKS:
    case PG_APPEND:
        return true;
    default:
        return false;
    }
}

static int send_statement(PGconn *connection, const struct statement *statement)
{
    if (connection->state != CLIENT_OPEN)
        return 0;
    ASSERT(!connection->is_busy);
    struct packet *packet = memory_allocate_zeroed(sizeof(*packet));
    packet->connection = connection;
    packet->statement = *statement;
    connection->is_busy = true;
    connection->changes = changes_something(statement->number);
    connection->sent_at = sim_now();
    sim_at(arrival(&connection->to_server), arrive_statement, packet, 0);
    return 1;
}

int PQsendQuery(PGconn *connection, const char *text)
{
    struct statement statement = {.number = STATEMENT_TEXT};
    (void)snprintf(statement.text, sizeof(statement.text), "%s", text);
    return send_statement(connection, &statement);
}

int PQsendPrepare(PGconn *connection, const char *name, const char *text, int count, const Oid *types)
{
    (void)text;
    (void)count;
    (void)types;
    struct statement statement = {.number = STATEMENT_PREPARE};
    (void)snprintf(statement.text, sizeof(statement.text), "prepare %s", name);
    return send_statement(connection, &statement);
}

int PQsendQueryPrepared(PGconn *connection, const char *name, int count, const char *const *values, const int *sizes,
                        const int *formats, int format)
{
    (void)formats;
    ASSERT(format == 1 && count <= (int)PG_VALUES_MAX && strncmp(name, "tally_", 6) == 0);
    struct statement statement = {.number = atoi(name + 6), .count = count};
    for (int i = 0; i < count; i++) {
        uint8_t *own = memory_allocate((size_t)sizes[i] + 1);
        memcpy(own, values[i], (size_t)sizes[i]);
        statement.values[i] = bytes_make(own, (size_t)sizes[i]);
    }
    return send_statement(connection, &statement);
}

int PQflush(PGconn *connection)
{
    return connection->state == CLIENT_OPEN ? 0 : -1;
}

/* What has arrived is read, and behind it the end. */
int PQconsumeInput(PGconn *connection)
{
    if (connection->answer != NULL) {
        connection->taken = connection->answer;
        connection->answer = NULL;
        if (connection->taken->is_unreplicated && connection->receiver != NULL) {
            struct pg_result notice = {.state = "01000", .severity = "WARNING"};
            connection->receiver(connection->receiver_context, &notice);
        }
        return 1;
    }
    if (!connection->has_ended)
        return 1;
    connection->state = CLIENT_BROKEN;
    /* A server that ends in order says so before. */
    if (!connection->is_busy || connection->taken != NULL || random_chance(&network.random, 50))
        return 0;
    connection->taken = result_refuse("57P01", "terminating connection due to administrator command");
    return 1;
}

int PQisBusy(PGconn *connection)
{
    return connection->is_busy && connection->taken == NULL && connection->state == CLIENT_OPEN ? 1 : 0;
}

PGresult *PQgetResult(PGconn *connection)
{
    struct pg_result *taken = connection->taken;
    connection->taken = NULL;
    if (taken == NULL)
        return NULL;
    connection->is_busy = false;
    if (taken->status == PGRES_COMMAND_OK || taken->status == PGRES_TUPLES_OK)
        if (connection->changes && strcmp(taken->changed, "") != 0 && strcmp(taken->changed, "0") != 0 &&
            !taken->is_unreplicated) {
            connection->change = ++network.changes;
            owners_note_proof(connection->process, connection->sent_at);
        }
    return taken;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static bool is_ready(const struct pg_conn *connection, short events)
{
    if ((events & POLLOUT) != 0)
        return true;
    if (connection->is_welcome)
        return true;
    if (connection->state == CLIENT_OPEN)
        return connection->answer != NULL || connection->has_ended;
    return connection->state != CLIENT_CONNECTS;
}

bool network_has(int descriptor)
{
    return descriptor >= FIRST_DESCRIPTOR && descriptor < FIRST_DESCRIPTOR + (int)network.count;
}

/* A look at a connection that another fiber may wait for. */
static int glance(const struct pg_conn *connection, struct pollfd *socket)
{
    const bool is_open = connection->state == CLIENT_OPEN && !connection->has_ended;
    const bool has_answer = (socket->events & POLLIN) != 0 && connection->answer != NULL;
    socket->revents = (short)(is_open ? 0 : POLLRDHUP) | (short)(has_answer ? POLLIN : 0);
    return socket->revents != 0 ? 1 : 0;
}

int network_poll(struct pollfd *socket, int timeout_ms)
{
    ASSERT(network_has(socket->fd));
    struct pg_conn *connection = network.connections[socket->fd - FIRST_DESCRIPTOR];
    if ((socket->events & POLLRDHUP) != 0)
        return glance(connection, socket);
    const uint64_t until = sim_now() + (uint64_t)timeout_ms * MS;
    connection->waiter = fiber_current();
    while (!is_ready(connection, socket->events) && sim_now() < until)
        fiber_wait(until);
    connection->waiter = NULL;
    socket->revents = socket->events;
    return is_ready(connection, socket->events) ? 1 : 0;
}
