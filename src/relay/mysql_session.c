/* See mysql_session.h. The checks of a new connection and the meaning of errors stand in mysql_check.c. */
#include "relay/mysql_session.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/schema.h"

#include <errmsg.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_S 3u /* as long as a host that is down may hold somebody up */
#define READ_S 10u
#define LOGINS "/../libexec/tally/mariadb" /* from the folder of the program */
#define LOOK_MS 250u                       /* how often one that waits looks whether it is interrupted */

/* --- made and unmade ---------------------------------------------------------------------------------------------- */

static void init_library(void)
{
    int failure = mysql_library_init(0, NULL, NULL);
    ASSERT(failure == 0);
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

/* Takes leave of a server that answers, so that it does not log an aborted connection. */
void mysql_session_deinit(struct mysql_session *session)
{
    if (session->handle_owned != NULL && !atomic_load(&session->is_interrupted)) {
        mysql_close(session->handle_owned);
        session->handle_owned = NULL;
    }
    mysql_session_close(session);
    mysql_url_deinit(&session->url);
    buffer_deinit(&session->text);
}

void mysql_session_interrupt(struct mysql_session *session)
{
    atomic_store(&session->is_interrupted, true);
}

void mysql_session_close(struct mysql_session *session)
{
    if (session->handle_owned == NULL)
        return;
    /* Its farewell must not wait for a server that is silent. */
    (void)shutdown(mysql_get_socket(session->handle_owned), SHUT_RDWR);
    mysql_close(session->handle_owned);
    session->handle_owned = NULL;
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

static MYSQL *make_handle(const struct mysql_session *session)
{
    const unsigned connect_s = CONNECT_S, read_s = READ_S, no = 0;
    char program[64];
    MYSQL *handle = mysql_init(NULL);
    ASSERT(handle != NULL);
    (void)snprintf(program, sizeof(program), "tally relay, %s", session->role);
    (void)mysql_optionsv(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
    (void)mysql_optionsv(handle, MYSQL_OPT_READ_TIMEOUT, &read_s);
    (void)mysql_optionsv(handle, MYSQL_OPT_WRITE_TIMEOUT, &read_s);
    (void)mysql_optionsv(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    (void)mysql_optionsv(handle, MYSQL_OPT_LOCAL_INFILE, &no); /* or the server could ask for files of this machine */
    /* No method that would send the password as it is. */
    (void)mysql_optionsv(handle, MARIADB_OPT_RESTRICTED_AUTH,
                         "mysql_native_password,client_ed25519,caching_sha2_password,sha256_password,"
                         "auth_gssapi_client,parsec");
    (void)mysql_optionsv(handle, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", program);
    set_tls(handle, &session->url);
    set_logins(handle);
    return handle;
}

static enum step connect_first(struct mysql_session *session, struct fault *fault)
{
    const struct mysql_url *url = &session->url;
    if (session->wrong[0] != '\0')
        return fault_set(fault, STEP_UNFIT, "the connection of the source %s", session->wrong);
    session->handle_owned = make_handle(session);
    if (mysql_real_connect(session->handle_owned, url->host_owned, url->user_owned, url->password_owned,
                           url->database_owned, url->port, url->socket_owned, 0) == NULL)
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
    if (atomic_load(&session->is_interrupted))
        return fault_set(fault, STEP_UNREACHABLE, "the relay ends");
    struct buffer said = session->text; /* the statement that is to be run, while the checks have theirs */
    buffer_init(&session->text);
    enum step step = connect_first(session, fault);
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

enum step mysql_session_send(struct mysql_session *session, struct fault *fault)
{
    ASSERT(session->handle_owned != NULL && session->text.size > 0);
    const int failure =
        mysql_send_query(session->handle_owned, (const char *)session->text.data_owned, session->text.size);
    buffer_truncate(&session->text, 0);
    return failure == 0 ? STEP_OK : mysql_session_failed(session, fault);
}

/* Waits for the beginning of an answer; nothing of the one before is left to be read. */
static bool await_answer(const struct mysql_session *session)
{
    const uint64_t began_ms = monotonic_ms();
    struct pollfd socket = {.fd = mysql_get_socket(session->handle_owned), .events = POLLIN};
    for (;;) {
        const uint64_t waited_ms = monotonic_ms() - began_ms;
        if (waited_ms >= session->patience_ms || atomic_load(&session->is_interrupted))
            return false;
        const uint64_t left_ms = session->patience_ms - waited_ms;
        const int ready = poll(&socket, 1, (int)(left_ms < LOOK_MS ? left_ms : LOOK_MS));
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

enum step mysql_session_receive(struct mysql_session *session, MYSQL_RES **result, struct fault *fault)
{
    *result = NULL;
    if (session->handle_owned == NULL)
        return fault_set(fault, STEP_UNREACHABLE, "the connection to MySQL broke before the answer came");
    if (!await_answer(session)) {
        mysql_session_close(session);
        return fault_set(fault, STEP_UNREACHABLE, "the connection to MySQL broke: no answer came in time");
    }
    if (mysql_read_query_result(session->handle_owned) != 0)
        return mysql_session_failed(session, fault);
    *result = mysql_store_result(session->handle_owned);
    if (*result == NULL && mysql_field_count(session->handle_owned) > 0)
        return mysql_session_failed(session, fault);
    return STEP_OK;
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
