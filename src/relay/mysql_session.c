/* See mysql_session.h. The checks of a new connection and the meaning of errors stand in mysql_check.c. */
#include "relay/mysql_session.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/schema.h"

#include <errmsg.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_PART_MS 3000u /* as long as a host that is down may hold somebody up */
#define OPEN_MS 10000u        /* a host may have several addresses, and then come the checks */
#define FAREWELL_MS 250u
#define LOGINS "/../libexec/tally/mariadb" /* from the folder of the program */

/* --- made and unmade ---------------------------------------------------------------------------------------------- */

static void init_library(void)
{
    int failure = mysql_library_init(0, NULL, NULL);
    ASSERT(failure == 0);
    mysql_wait_init_library();
}

void mysql_session_init(struct mysql_session *session, const struct relay_spec *spec, const char *role,
                        unsigned patience_ms)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ASSERT(patience_ms > 0);
    int failure = pthread_once(&once, init_library); /* the library does not lock its own beginning */
    ASSERT(failure == 0);
    const char *prefix = spec->table_owned == NULL ? SCHEMA_NAME_DEFAULT : spec->table_owned;
    *session = (struct mysql_session){.role = role, .patience_ms = patience_ms};
    if (mysql_url_parse(&session->url, spec->connection_owned == NULL ? "" : spec->connection_owned, session->wrong))
        session->wrong[0] = '\0';
    if (!schema_name_is_sound(prefix))
        prefix = SCHEMA_NAME_DEFAULT; /* relay_spec_check() has refused it; here it must not become SQL */
    (void)snprintf(session->prefix, sizeof(session->prefix), "%s_", prefix);
    buffer_init(&session->text);
}

static void close_handle(struct mysql_session *session, unsigned farewell_ms)
{
    session->wait.is_sending = true;
    mysql_wait_begin(&session->wait, monotonic_ms() + farewell_ms);
    mysql_close(session->handle_owned);
    mysql_wait_end(&session->wait);
    session->wait.is_sending = false;
    session->handle_owned = NULL;
}

/* Takes leave of a server that answers, so that it does not log an aborted connection. */
void mysql_session_deinit(struct mysql_session *session)
{
    if (session->handle_owned != NULL && !atomic_load(&session->wait.is_interrupted))
        close_handle(session, FAREWELL_MS);
    mysql_session_close(session);
    mysql_url_deinit(&session->url);
    buffer_deinit(&session->text);
}

void mysql_session_interrupt(struct mysql_session *session)
{
    atomic_store(&session->wait.is_interrupted, true);
}

void mysql_session_close(struct mysql_session *session)
{
    if (session->handle_owned == NULL)
        return;
    /* Its farewell must not wait for a server that is silent. */
    (void)shutdown(mysql_get_socket(session->handle_owned), SHUT_RDWR);
    close_handle(session, 0);
}

/* --- connecting --------------------------------------------------------------------------------------------------- */

/* Lets the machine notice within about three seconds that the other one is gone. A Unix socket knows nothing of it. */
static void set_keepalive(MYSQL *handle)
{
    static const struct {
        int level, name, value;
    } wishes[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 1},        {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_KEEPCNT, 2}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 3000},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wishes); i++)
        (void)setsockopt(mysql_get_socket(handle), wishes[i].level, wishes[i].name, &wishes[i].value,
                         sizeof(wishes[i].value));
}

/* Where the library's version knows better defaults than these, it gets these all the same: what they do must not
 * depend on it. */
static void set_tls(MYSQL *handle, const struct mysql_url *url)
{
    const my_bool is_enforced = url->tls != MYSQL_TLS_DISABLED, verifies = url->tls == MYSQL_TLS_VERIFY_IDENTITY;
    if (is_enforced)
        (void)mysql_ssl_set(handle, url->key_owned, url->cert_owned, url->ca_owned, NULL, NULL);
    (void)mysql_optionsv(handle, MYSQL_OPT_SSL_ENFORCE, &is_enforced);
    (void)mysql_optionsv(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verifies);
}

/* The archive of packaging/dist carries the library's ways to log in, which it loads when a server asks for one. */
static void set_logins(MYSQL *handle)
{
    char path[PATH_MAX + sizeof(LOGINS)];
    const ssize_t size = readlink("/proc/self/exe", path, PATH_MAX);
    char *name = size <= 0 ? NULL : memrchr(path, '/', (size_t)size);
    if (name == NULL)
        return;
    memcpy(name, LOGINS, sizeof(LOGINS));
    if (access(path, X_OK) == 0)
        (void)mysql_optionsv(handle, MYSQL_PLUGIN_DIR, path);
}

static MYSQL *make_handle(struct mysql_session *session)
{
    const unsigned connect_s = CONNECT_PART_MS / 1000, no = 0;
    char program[64];
    MYSQL *handle = mysql_init(NULL);
    ASSERT(handle != NULL);
    (void)snprintf(program, sizeof(program), "tally relay, %s", session->role);
    /* How often it repeats a look-up that fails for now; all else is bounded by mysql_wait.h. */
    (void)mysql_optionsv(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    (void)mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    (void)mysql_optionsv(handle, MYSQL_OPT_LOCAL_INFILE, &no); /* or the server could ask for files of this machine */
    /* No method that would send the password as it is. */
    (void)mysql_optionsv(handle, MARIADB_OPT_RESTRICTED_AUTH,
                         "mysql_native_password,client_ed25519,caching_sha2_password,sha256_password,"
                         "auth_gssapi_client,parsec");
    (void)mysql_optionsv(handle, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", program);
    set_tls(handle, &session->url);
    set_logins(handle);
    mysql_wait_watch(&session->wait, handle);
    return handle;
}

static bool connect_to_url(struct mysql_session *session)
{
    const struct mysql_url *url = &session->url;
    session->wait.part_ms_max = CONNECT_PART_MS;
    mysql_wait_begin(&session->wait, session->open_until_ms);
    const bool is_connected =
        mysql_real_connect(session->handle_owned, url->host_owned, url->user_owned, url->password_owned,
                           url->database_owned, url->port, url->socket_owned, 0) != NULL;
    mysql_wait_end(&session->wait);
    session->wait.part_ms_max = 0;
    return is_connected;
}

static enum step connect_first(struct mysql_session *session, struct fault *fault)
{
    if (session->wrong[0] != '\0')
        return fault_set(fault, STEP_UNFIT, "the connection of the source %s", session->wrong);
    session->handle_owned = make_handle(session);
    if (!connect_to_url(session))
        return mysql_session_failed(session, fault);
    set_keepalive(session->handle_owned);
    session->connections++;
    session->is_mariadb = mariadb_connection(session->handle_owned) != 0;
    return mysql_session_check(session, fault);
}

enum step mysql_session_open(struct mysql_session *session, struct fault *fault)
{
    if (session->handle_owned != NULL)
        return STEP_OK;
    if (session->is_in_transaction)
        return fault_set(fault, STEP_UNREACHABLE, "the connection to MySQL broke in the middle of a transaction");
    if (atomic_load(&session->wait.is_interrupted))
        return fault_set(fault, STEP_UNREACHABLE, "the relay ends");
    struct buffer said = session->text; /* the statement that is to be run, while the checks have theirs */
    buffer_init(&session->text);
    session->open_until_ms = monotonic_ms() + OPEN_MS;
    enum step step = connect_first(session, fault);
    session->open_until_ms = 0;
    if (step != STEP_OK)
        mysql_session_close(session);
    buffer_deinit(&session->text);
    session->text = said;
    return step;
}

/* --- statements --------------------------------------------------------------------------------------------------- */

/* The format with the prefix in it. */
static char *with_prefix(const struct mysql_session *session, const char *format)
{
    struct buffer out;
    buffer_init(&out);
    for (const char *at; (at = strstr(format, "@_")) != NULL; format = at + 2) {
        buffer_append(&out, format, (size_t)(at - format));
        buffer_append(&out, session->prefix, strlen(session->prefix));
    }
    buffer_append(&out, format, strlen(format) + 1);
    return (char *)out.data_owned;
}

void mysql_session_say(struct mysql_session *session, const char *format, ...)
{
    char *own = with_prefix(session, format);
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const int size = vsnprintf(NULL, 0, own, arguments);
    ASSERT(size >= 0);
    char *room = (char *)buffer_extend(&session->text, (size_t)size + 1);
    (void)vsnprintf(room, (size_t)size + 1, own, again);
#pragma GCC diagnostic pop
    va_end(again);
    va_end(arguments);
    buffer_truncate(&session->text, session->text.size - 1);
    free(own);
}

void mysql_session_quote(struct mysql_session *session, const char *value)
{
    ASSERT(session->handle_owned != NULL);
    const size_t size = strlen(value);
    char *room = memory_allocate(size * 2 + 1);
    const unsigned long escaped = mysql_real_escape_string(session->handle_owned, room, value, size);
    buffer_append_u8(&session->text, '\'');
    buffer_append(&session->text, room, escaped);
    buffer_append_u8(&session->text, '\'');
    free(room);
}

/* A statement of the checks has no more time than what is left for all of them. */
static uint64_t deadline_ms(const struct mysql_session *session)
{
    const uint64_t until_ms = monotonic_ms() + session->patience_ms;
    return session->open_until_ms > 0 && session->open_until_ms < until_ms ? session->open_until_ms : until_ms;
}

/* What the last call that failed means. */
static enum step failed_call(struct mysql_session *session, struct fault *fault)
{
    if (!session->wait.is_late)
        return mysql_session_failed(session, fault);
    mysql_session_close(session);
    return fault_set(fault, STEP_UNREACHABLE, "the connection to MySQL broke: no answer came in time");
}

enum step mysql_session_send(struct mysql_session *session, struct fault *fault)
{
    ASSERT(session->handle_owned != NULL && session->text.size > 0);
    session->wait.is_sending = true;
    mysql_wait_begin(&session->wait, deadline_ms(session));
    const int failure =
        mysql_send_query(session->handle_owned, (const char *)session->text.data_owned, session->text.size);
    mysql_wait_end(&session->wait);
    session->wait.is_sending = false;
    buffer_truncate(&session->text, 0);
    return failure == 0 ? STEP_OK : failed_call(session, fault);
}

/* All of an answer. False: none came. */
static bool read_answer(struct mysql_session *session, MYSQL_RES **result)
{
    mysql_wait_begin(&session->wait, deadline_ms(session));
    bool is_read = mysql_read_query_result(session->handle_owned) == 0;
    if (is_read) {
        *result = mysql_store_result(session->handle_owned);
        is_read = *result != NULL || mysql_field_count(session->handle_owned) == 0;
    }
    mysql_wait_end(&session->wait);
    return is_read;
}

enum step mysql_session_receive(struct mysql_session *session, MYSQL_RES **result, struct fault *fault)
{
    *result = NULL;
    if (session->handle_owned == NULL)
        return fault_set(fault, STEP_UNREACHABLE, "the connection to MySQL broke before the answer came");
    return read_answer(session, result) ? STEP_OK : failed_call(session, fault);
}

enum step mysql_session_run(struct mysql_session *session, MYSQL_RES **result, struct fault *fault)
{
    *result = NULL;
    enum step step = mysql_session_open(session, fault);
    if (step == STEP_OK)
        step = mysql_session_send(session, fault);
    if (step == STEP_OK)
        step = mysql_session_receive(session, result, fault);
    buffer_truncate(&session->text, 0);
    return step;
}

enum step mysql_session_change(struct mysql_session *session, uint64_t *count, struct fault *fault)
{
    MYSQL_RES *result;
    enum step step = mysql_session_run(session, &result, fault);
    if (step == STEP_OK && count != NULL)
        *count = mysql_affected_rows(session->handle_owned);
    mysql_free_result(result);
    return step;
}

enum step mysql_session_begin(struct mysql_session *session, struct fault *fault)
{
    ASSERT(!session->is_in_transaction);
    mysql_session_say(session, "START TRANSACTION");
    const enum step step = mysql_session_change(session, NULL, fault);
    session->is_in_transaction = step == STEP_OK;
    return step;
}

enum step mysql_session_end(struct mysql_session *session, enum step step, struct fault *fault)
{
    struct fault other;
    ASSERT(session->is_in_transaction);
    session->is_in_transaction = false;
    buffer_truncate(&session->text, 0);
    if (session->handle_owned == NULL) { /* it ended with its connection */
        ASSERT(step != STEP_OK);
        return step;
    }
    if (step == STEP_OK) {
        mysql_session_say(session, "COMMIT");
        step = mysql_session_change(session, NULL, fault);
        if (step == STEP_OK)
            return STEP_OK;
    }
    if (session->handle_owned != NULL) {
        mysql_session_say(session, "ROLLBACK");
        if (mysql_session_change(session, NULL, &other) != STEP_OK)
            mysql_session_close(session);
    }
    return step;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

bool mysql_row_next(MYSQL_RES *result, struct mysql_row *row)
{
    row->columns = result == NULL ? NULL : mysql_fetch_row(result);
    row->sizes = row->columns == NULL ? NULL : mysql_fetch_lengths(result);
    return row->columns != NULL;
}

struct bytes mysql_row_text(const struct mysql_row *row, unsigned column)
{
    return bytes_make(row->columns[column], row->columns[column] == NULL ? 0 : row->sizes[column]);
}

uint64_t mysql_row_number(const struct mysql_row *row, unsigned column)
{
    return row->columns[column] == NULL ? 0 : strtoull(row->columns[column], NULL, 10);
}

uint64_t mysql_row_age(const struct mysql_row *row, unsigned column)
{
    const char *text = row->columns[column];
    return text == NULL || text[0] == '-' ? 0 : strtoull(text, NULL, 10);
}

bool mysql_row_uid(const struct mysql_row *row, unsigned column, struct uid *uid)
{
    return uid_from_text(mysql_row_text(row, column), uid);
}
