#include "postgres/link.h"

#include "base/assert.h"
#include "conninfo/conninfo.h"
#include "postgres/connect.h"
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define USER_TIMEOUT_MS 3000  /* one that takes no more of what is sent */
#define PATIENCE_MS_MIN 3000u /* of a server with a connection that went silent */

#define STATE_UNREPLICATED "01000" /* a warning: a cancelled wait for the replica, among others */

static void use_host(struct pg_link *link, uint32_t host)
{
    if (link->is_pinned)
        return;
    link->host = (struct pg_host){.number = host};
    if (link->gate != NULL)
        atomic_store(&link->gate->first, link->host);
}

static void pass_host_over(struct pg_link *link)
{
    struct pg_host failed = link->host;
    if (link->is_pinned)
        return;
    link->host = (struct pg_host){.number = failed.number + 1, .has_passed = 1};
    if (link->gate != NULL)
        (void)atomic_compare_exchange_strong(&link->gate->first, &failed, link->host);
}

void pg_link_init(struct pg_link *link, const char *conninfo, struct pg_gate *gate, const char *role,
                  uint32_t patience_ms)
{
    *link = (struct pg_link){.conninfo = conninfo,
                             .gate = gate,
                             .patience_ms = patience_ms < PATIENCE_MS_MIN ? PATIENCE_MS_MIN : patience_ms,
                             .host = gate == NULL ? (struct pg_host){0} : atomic_load(&gate->first),
                             .watched = -1};
    (void)snprintf(link->application, sizeof(link->application), "tallyd, %s", role);
}

void pg_link_close(struct pg_link *link)
{
    atomic_store(&link->watched, -1); /* before another file has its number */
    PQfinish(link->connection_owned);
    link->connection_owned = NULL;
    link->prepared = 0;
    link->is_relaxed = link->has_ended = false;
}

bool pg_link_is_open(const struct pg_link *link)
{
    return link->connection_owned != NULL;
}

/* --- is it whole? ------------------------------------------------------------------------------------------------- */

void pg_link_watch(struct pg_link *link)
{
    ASSERT(pg_link_is_open(link));
    atomic_store(&link->watched, PQsocket(link->connection_owned));
}

/* The end of a server process that does nothing comes as a message, then its locks are free, and then the connection is
 * closed. While a statement is under way, whoever waits for its answer reads that message at once. */
bool pg_link_is_whole(const struct pg_link *link)
{
    const unsigned steps = atomic_load(&link->steps);
    const int watched = atomic_load(&link->watched);
    if (watched < 0)
        return false;
    const bool is_idle = steps % 2 == 0;
    struct pollfd socket = {.fd = watched, .events = (short)(is_idle ? POLLRDHUP | POLLIN : POLLRDHUP)};
    if (poll(&socket, 1, 0) != 0 && (socket.revents != POLLIN || atomic_load(&link->steps) == steps))
        return false;
    return atomic_load(&link->watched) == watched;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static bool wait_for(PGconn *connection, short events, uint64_t until_ms)
{
    for (;;) {
        const uint64_t now_ms = pg_now_ms();
        if (now_ms >= until_ms)
            return false;
        const uint64_t left_ms = until_ms - now_ms;
        struct pollfd socket = {.fd = PQsocket(connection), .events = events};
        const int ready = poll(&socket, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static void end_sentence(char *line, size_t size_max, size_t *size)
{
    while (*size > 0 && line[*size - 1] == ' ')
        (*size)--;
    if (*size > 0 && *size < size_max && strchr(".?!:", line[*size - 1]) == NULL)
        line[(*size)++] = '.';
}

/* "what: reason", with the lines of the reason as sentences of one. */
static void explain(struct failure *failure, const char *what, const char *reason)
{
    char line[1024];
    size_t size = 0;
    for (; reason[0] != '\0' && size < sizeof(line); reason++) {
        const bool is_blank = *reason == '\n' || *reason == '\t' || *reason == ' ';
        if (*reason == '\n')
            end_sentence(line, sizeof(line), &size);
        if (size < sizeof(line) && (!is_blank || (size > 0 && line[size - 1] != ' ')))
            line[size++] = is_blank ? ' ' : *reason;
    }
    end_sentence(line, sizeof(line), &size);
    (void)failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "%s: %.*s", what, (int)size, line);
}

static enum pg_outcome lose(struct pg_link *link, const char *reason, struct failure *failure)
{
    explain(failure, "The connection to PostgreSQL broke", reason);
    pg_link_close(link);
    return PG_UNKNOWN;
}

/* The host took a connection and then did not what it is for: another one comes first from now on. One that ended the
 * connection may do well in the next. */
static enum pg_outcome lose_host(struct pg_link *link, const char *reason, struct failure *failure)
{
    (void)lose(link, reason, failure);
    pass_host_over(link);
    return PG_UNKNOWN;
}

static enum pg_outcome flush(struct pg_link *link, uint64_t until_ms, struct failure *failure)
{
    int left;
    while ((left = PQflush(link->connection_owned)) == 1) {
        /* Reads as well: a server that can't send its answers takes no more statements. */
        if (!wait_for(link->connection_owned, POLLIN | POLLOUT, until_ms))
            return lose_host(link, "it did not take the statement in time", failure);
        if (PQconsumeInput(link->connection_owned) != 1)
            return lose(link, PQerrorMessage(link->connection_owned), failure);
    }
    return left == 0 ? PG_DONE : lose(link, PQerrorMessage(link->connection_owned), failure);
}

/* The next result of what was sent; NULL behind the last. */
static enum pg_outcome next_result(struct pg_link *link, uint64_t until_ms, PGresult **next, struct failure *failure)
{
    *next = NULL;
    while (PQisBusy(link->connection_owned) != 0) {
        const bool is_there = wait_for(link->connection_owned, POLLIN, until_ms);
        if (!is_there)
            return lose_host(link, "no answer came in time", failure);
        if (PQconsumeInput(link->connection_owned) != 1)
            return lose(link, PQerrorMessage(link->connection_owned), failure);
    }
    *next = PQgetResult(link->connection_owned);
    return PG_DONE;
}

/* The last result of what was sent. */
static enum pg_outcome collect(struct pg_link *link, uint64_t until_ms, PGresult **last, struct failure *failure)
{
    PGresult *next = NULL;
    enum pg_outcome outcome;
    *last = NULL;
    while ((outcome = next_result(link, until_ms, &next, failure)) == PG_DONE && next != NULL) {
        PQclear(*last);
        *last = next;
    }
    if (outcome != PG_DONE) {
        PQclear(*last);
        *last = NULL;
    }
    return outcome;
}

/* A connection that ended while the server was answering (57P01: an administrator ended it; 57P02, 57P03: the server
 * stops or starts) leaves the outcome open. */
static bool is_end_of_server(const char *state)
{
    return strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0;
}

static enum pg_outcome judge(struct pg_link *link, PGresult *last, struct failure *failure)
{
    const ExecStatusType status = last == NULL ? PGRES_FATAL_ERROR : PQresultStatus(last);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
        if (!link->is_unreplicated)
            return PG_DONE;
        return lose_host(link, "PostgreSQL says that a commit is not replicated", failure);
    }
    const char *state = last == NULL ? NULL : PQresultErrorField(last, PG_DIAG_SQLSTATE);
    if (state == NULL || is_end_of_server(state) || PQstatus(link->connection_owned) != CONNECTION_OK)
        return lose(link, last == NULL ? PQerrorMessage(link->connection_owned) : PQresultErrorMessage(last), failure);
    (void)snprintf(link->state, sizeof(link->state), "%s", state);
    explain(failure, "PostgreSQL refuses a statement", PQresultErrorMessage(last));
    return PG_REFUSED;
}

static enum pg_outcome finish(struct pg_link *link, int is_sent, uint64_t until_ms, PGresult **result,
                              struct failure *failure)
{
    if (result != NULL)
        *result = NULL;
    if (is_sent != 1)
        return lose(link, PQerrorMessage(link->connection_owned), failure);
    PGresult *last = NULL;
    enum pg_outcome outcome = flush(link, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = collect(link, until_ms, &last, failure);
    if (outcome == PG_DONE)
        outcome = judge(link, last, failure);
    if (outcome == PG_DONE && result != NULL)
        *result = last;
    else
        PQclear(last);
    return outcome;
}

static void begin_step(struct pg_link *link)
{
    ASSERT(pg_link_is_open(link) && atomic_load(&link->steps) % 2 == 0);
    link->is_unreplicated = false;
    atomic_fetch_add(&link->steps, 1);
}

static enum pg_outcome end_step(struct pg_link *link, enum pg_outcome outcome)
{
    atomic_fetch_add(&link->steps, 1);
    return outcome;
}

enum pg_outcome pg_link_exec(struct pg_link *link, const char *text, uint64_t until_ms, PGresult **result,
                             struct failure *failure)
{
    begin_step(link);
    return end_step(link, finish(link, PQsendQuery(link->connection_owned, text), until_ms, result, failure));
}

bool pg_link_check(struct pg_link *link, struct failure *failure)
{
    ASSERT(pg_link_is_open(link) && atomic_load(&link->steps) % 2 == 0);
    const bool has_read = PQconsumeInput(link->connection_owned) == 1;
    if (has_read)
        (void)PQisBusy(link->connection_owned); /* it looks at what was read: on_notice() */
    if (has_read && !link->has_ended)
        return true;
    (void)lose(link, has_read ? "the server has ended it" : PQerrorMessage(link->connection_owned), failure);
    return false;
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

/* By default libpq prints what the server notices on standard error. */
static void on_notice(void *context, const PGresult *notice)
{
    struct pg_link *link = context;
    const char *state = PQresultErrorField(notice, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
        link->has_ended = true;
    if (state != NULL && severity != NULL && strcmp(state, STATE_UNREPLICATED) == 0 && strcmp(severity, "WARNING") == 0)
        link->is_unreplicated = true;
}

/* Whatever the role's defaults are (F20, F21). In repeatable read a lost fence would be an error instead of no row. A
 * generic plan goes through the primary key, however the statistics of a table look whose rows come and go. */
static const char settings[] =
    "SET search_path = pg_catalog, pg_temp; SET synchronous_commit = on; "
    "SET default_transaction_isolation = 'read committed'; SET client_min_messages = warning; "
    "SET statement_timeout = 0; SET lock_timeout = 0; SET plan_cache_mode = force_generic_plan; "
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET bytea_output = hex";

/* Each may be refused: by an older server, by a hosted one, on a Unix socket. */
struct wishes {
    char texts[8][64];
    size_t count;
};

static void add_wish(struct wishes *wishes, const char *setting, unsigned value)
{
    ASSERT(wishes->count < ARRAY_LENGTH(wishes->texts));
    (void)snprintf(wishes->texts[wishes->count++], sizeof(wishes->texts[0]), "SET %s = %u", setting, value);
}

#define SILENT_PROBES 2u

/* When the server gives a silent connection up, its locks are free, and another node may serve at once. So it must not
 * do that before the lease of an owner that was cut off is over, nor much later. */
static void wish(const struct pg_link *link, struct wishes *wishes)
{
    const unsigned silence_s = (link->patience_ms + 999) / 1000, interval_s = (silence_s + 3) / 4;
    *wishes = (struct wishes){0};
    add_wish(wishes, "tcp_keepalives_idle", silence_s - SILENT_PROBES * interval_s);
    add_wish(wishes, "tcp_keepalives_interval", interval_s);
    add_wish(wishes, "tcp_keepalives_count", SILENT_PROBES);
    add_wish(wishes, "tcp_user_timeout", link->patience_ms);
    add_wish(wishes, "client_connection_check_interval", 500);
    add_wish(wishes, "idle_session_timeout", 0);
    add_wish(wishes, "idle_in_transaction_session_timeout", 0);
}

/* One that was refused changes nothing. */
static enum pg_outcome set_each(struct pg_link *link, const struct wishes *wishes, uint64_t until_ms,
                                struct failure *failure)
{
    enum pg_outcome outcome = PG_DONE;
    for (size_t i = 0; i < wishes->count && outcome != PG_UNKNOWN; i++)
        outcome = pg_link_exec(link, wishes->texts[i], until_ms, NULL, failure);
    return outcome;
}

/* Nearly always all wishes are granted: then they cost one statement together. */
static enum error set_all(struct pg_link *link, uint64_t until_ms, struct failure *failure)
{
    char text[sizeof(((struct wishes *)NULL)->texts)];
    size_t size = 0;
    struct wishes wishes;
    wish(link, &wishes);
    for (size_t i = 0; i < wishes.count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%s", i == 0 ? "" : ";", wishes.texts[i]);
    enum pg_outcome outcome = pg_link_exec(link, settings, until_ms, NULL, failure);
    if (outcome != PG_DONE)
        return failure->error;
    outcome = pg_link_exec(link, text, until_ms, NULL, failure);
    if (outcome == PG_REFUSED)
        outcome = set_each(link, &wishes, until_ms, failure);
    return outcome == PG_UNKNOWN ? failure->error : OK;
}

/* Once it is connected, a server has longer to take what is sent. */
static void be_patient(const struct pg_link *link, const PQconninfoOption *options)
{
    const unsigned timeout_ms = USER_TIMEOUT_MS;
    if (conninfo_option(options, "tcp_user_timeout") == NULL) /* a Unix socket has none */
        (void)setsockopt(PQsocket(link->connection_owned), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
                         sizeof(timeout_ms));
}

static enum error connect_to(struct pg_link *link, const PQconninfoOption *options, uint64_t until_ms,
                             struct failure *failure)
{
    char reasons[1024];
    struct pg_hosts hosts = {.options = options,
                             .application = link->application,
                             .first = link->host.number,
                             .has_passed = link->host.has_passed,
                             .is_only_first = link->is_pinned};
    link->connection_owned = pg_connect(&hosts, until_ms, reasons, sizeof(reasons));
    if (!pg_link_is_open(link)) {
        explain(failure, "PostgreSQL can't be reached", reasons);
        return failure->error;
    }
    use_host(link, hosts.first);
    be_patient(link, options);
    (void)PQsetNoticeReceiver(link->connection_owned, on_notice, link);
    if (PQsetnonblocking(link->connection_owned, 1) == 0)
        return OK;
    explain(failure, "The connection to PostgreSQL can't be used", PQerrorMessage(link->connection_owned));
    return failure->error;
}

/* One host that can't be reached says nothing about the others. */
static struct pg_gate *gate_of(const struct pg_link *link)
{
    return link->is_pinned ? NULL : link->gate;
}

enum error pg_link_open(struct pg_link *link, uint64_t until_ms, struct failure *failure)
{
    struct pg_gate *gate = gate_of(link);
    if (pg_link_is_open(link))
        return OK;
    if (gate != NULL && pg_gate_pass(gate, link->gives_way, until_ms, failure) != OK)
        return failure->error;
    if (pg_now_ms() >= until_ms) { /* no host is to blame for that */
        explain(failure, "PostgreSQL can't be reached", "there is no time left for it");
        return failure->error;
    }
    char wrong[CONNINFO_WRONG_SIZE];
    PQconninfoOption *options = conninfo_parse(link->conninfo, wrong);
    if (options == NULL)
        return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "The connection string of the log %s.", wrong);
    enum error error = connect_to(link, options, until_ms, failure);
    PQconninfoFree(options);
    /* Where all refused at once, none of them is better than the others, and the one before comes first again. */
    bool is_passed_over = error != OK && pg_now_ms() >= until_ms;
    if (error == OK) {
        error = set_all(link, until_ms, failure);
        is_passed_over = error != OK;
    }
    if (gate != NULL)
        pg_gate_note(gate, error == OK ? NULL : failure->text);
    if (error != OK)
        pg_link_close(link);
    if (is_passed_over)
        pass_host_over(link);
    return error;
}

enum pg_outcome pg_link_relax(struct pg_link *link, bool is_relaxed, uint64_t until_ms, struct failure *failure)
{
    if (link->is_relaxed == is_relaxed)
        return PG_DONE;
    const enum pg_outcome outcome = pg_link_exec(
        link, is_relaxed ? "SET synchronous_commit = off" : "SET synchronous_commit = on", until_ms, NULL, failure);
    if (outcome == PG_DONE)
        link->is_relaxed = is_relaxed;
    return outcome;
}

/* --- prepared statements ------------------------------------------------------------------------------------------ */

void pg_add_bytes(struct pg_values *values, struct bytes bytes)
{
    ASSERT((unsigned)values->count < PG_VALUES_MAX && bytes.size <= INT32_MAX);
    values->values[values->count] = bytes.ptr == NULL ? "" : (const char *)bytes.ptr;
    values->sizes[values->count++] = (int)bytes.size;
}

static void add_number(struct pg_values *values, uint64_t number, size_t size)
{
    ASSERT((unsigned)values->count < PG_VALUES_MAX);
    uint8_t *encoded = values->numbers[values->count];
    for (size_t i = 0; i < size; i++)
        encoded[i] = (uint8_t)(number >> 8 * (size - 1 - i));
    pg_add_bytes(values, bytes_make(encoded, size));
}

void pg_add_i32(struct pg_values *values, uint32_t number)
{
    add_number(values, number, 4);
}

void pg_add_i64(struct pg_values *values, uint64_t number)
{
    add_number(values, number, 8);
}

#define NAME_SIZE 16u

enum pg_outcome pg_link_run(struct pg_link *link, unsigned number, const char *text, const struct pg_values *values,
                            uint64_t until_ms, PGresult **result, struct failure *failure)
{
    ASSERT(number < 64);
    static const int binary[PG_VALUES_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t bit = UINT64_C(1) << number;
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "tally_%u", number);
    begin_step(link);
    if ((link->prepared & bit) == 0) {
        const enum pg_outcome outcome =
            finish(link, PQsendPrepare(link->connection_owned, name, text, 0, NULL), until_ms, NULL, failure);
        if (outcome != PG_DONE)
            return end_step(link, outcome);
        link->prepared |= bit;
    }
    return end_step(link, finish(link,
                                 PQsendQueryPrepared(link->connection_owned, name, values->count, values->values,
                                                     values->sizes, binary, 1),
                                 until_ms, result, failure));
}

enum pg_outcome pg_link_send(struct pg_link *link, const char *text, uint64_t until_ms, struct failure *failure)
{
    ASSERT(pg_link_is_open(link));
    link->is_unreplicated = false;
    if (PQsendQuery(link->connection_owned, text) != 1)
        return lose(link, PQerrorMessage(link->connection_owned), failure);
    return flush(link, until_ms, failure);
}

enum pg_outcome pg_link_await(struct pg_link *link, uint64_t until_ms, bool *is_over, struct failure *failure)
{
    ASSERT(pg_link_is_open(link));
    *is_over = false;
    while (PQisBusy(link->connection_owned) != 0) {
        if (!wait_for(link->connection_owned, POLLIN, until_ms))
            return PG_DONE;
        if (PQconsumeInput(link->connection_owned) != 1)
            return lose(link, PQerrorMessage(link->connection_owned), failure);
    }
    const enum pg_outcome outcome = finish(link, 1, until_ms, NULL, failure);
    *is_over = outcome == PG_DONE;
    return outcome;
}

/* --- COPY --------------------------------------------------------------------------------------------------------- */

enum pg_outcome pg_link_begin_copy(struct pg_link *link, const char *text, uint64_t until_ms, struct failure *failure)
{
    PGresult *first = NULL;
    begin_step(link);
    if (PQsendQuery(link->connection_owned, text) != 1)
        return end_step(link, lose(link, PQerrorMessage(link->connection_owned), failure));
    enum pg_outcome outcome = flush(link, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = next_result(link, until_ms, &first, failure);
    const bool has_begun = outcome == PG_DONE && PQresultStatus(first) == PGRES_COPY_IN;
    if (outcome == PG_DONE && !has_begun)
        outcome = judge(link, first, failure);
    ASSERT(has_begun || outcome != PG_DONE);
    PQclear(first);
    return has_begun ? PG_DONE : end_step(link, outcome);
}

enum pg_outcome pg_link_put_copy(struct pg_link *link, struct bytes rows, uint64_t until_ms, struct failure *failure)
{
    if (PQputCopyData(link->connection_owned, (const char *)rows.ptr, (int)rows.size) != 1)
        return end_step(link, lose(link, PQerrorMessage(link->connection_owned), failure));
    const enum pg_outcome outcome = flush(link, until_ms, failure);
    return outcome == PG_DONE ? PG_DONE : end_step(link, outcome);
}

enum pg_outcome pg_link_end_copy(struct pg_link *link, uint64_t until_ms, struct failure *failure)
{
    return end_step(link, finish(link, PQputCopyEnd(link->connection_owned, NULL), until_ms, NULL, failure));
}

void pg_link_pin(struct pg_link *link, struct pg_host host)
{
    link->host = host;
    link->is_pinned = true;
}

void pg_link_move(struct pg_link *to, struct pg_link *from)
{
    ASSERT(!pg_link_is_open(to));
    to->connection_owned = from->connection_owned;
    to->prepared = from->prepared;
    to->is_relaxed = from->is_relaxed;
    to->has_ended = from->has_ended;
    to->host = from->host;
    from->connection_owned = NULL;
    pg_link_close(from);
    if (to->connection_owned != NULL)
        (void)PQsetNoticeReceiver(to->connection_owned, on_notice, to);
}

uint64_t pg_changed(const PGresult *result)
{
    return strtoull(PQcmdTuples((PGresult *)(uintptr_t)result), NULL, 10);
}

struct bytes pg_field(const PGresult *result, int row, int column)
{
    if (PQgetisnull(result, row, column) != 0)
        return bytes_make(NULL, 0);
    return bytes_make(PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column));
}

void pg_text(const PGresult *result, int row, int column, char *text, size_t size)
{
    (void)snprintf(text, size, "%.*s", BYTES_FORMAT(pg_field(result, row, column)));
}

uint64_t pg_number(const PGresult *result, int row, int column)
{
    const struct bytes field = pg_field(result, row, column);
    uint64_t number = 0;
    for (size_t i = 0; i < field.size && i < sizeof(number); i++)
        number = number << 8 | field.ptr[i];
    return number;
}
