/* Whether a connection to MySQL or MariaDB suits a relay, and what its errors mean. */
#include "relay/mysql_session.h"

#include "base/assert.h"
#include "relay/schema.h"

#include <errmsg.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>

#define VERSION_MIN_MARIADB 101100ul /* 10.11 */
#define VERSION_MIN_MYSQL 80029ul    /* 8.0.29 */
#define TABLES_VERSION 1u

/* --- errors ------------------------------------------------------------------------------------------------------- */

#define CLIENT_ERROR_MIN 2000u
#define CLIENT_ERROR_MAX 2999u
#define CLIENT_ERROR_MARIADB_MIN 5000u

/* What an error number means, and what to do. */
struct meaning {
    unsigned number;
    enum step step;
    bool is_broken; /* a fresh connection is needed */
    const char *what;
    const char *advice; /* NULL: the command that makes the tables */
};

#define RIGHTS "the relay's user lacks a right"
#define ADVICE_RIGHTS "The head of what tally relay schema --type mysql prints has the grants of a relay"
#define REPLICA "a relay works on the primary only, and this server takes no writes"
#define ADVICE_PRIMARY "Connect to the primary"
#define SHAPE "the outbox is missing or of another shape"

static const struct meaning meanings[] = {
    {ER_ACCESS_DENIED_ERROR, STEP_UNFIT, true, "MySQL does not let this user in",
     "Check the user, its password and its way to log in"},
    {ER_ACCESS_DENIED_NO_PASSWORD_ERROR, STEP_UNFIT, true, "MySQL does not let this user in",
     "Check the user, its password and its way to log in"},
    {ER_HOST_NOT_PRIVILEGED, STEP_UNFIT, true, "MySQL does not let this machine in",
     "Let the relay's user connect from it"},
    {ER_DBACCESS_DENIED_ERROR, STEP_UNFIT, true, RIGHTS, ADVICE_RIGHTS},
    {ER_BAD_DB_ERROR, STEP_UNFIT, true, "there is no such database", "Check the last part of the connection"},
    {CR_AUTH_PLUGIN_CANNOT_LOAD, STEP_UNFIT, true, "MySQL wants a way to log in that is not known here",
     "Give the relay's user another one, such as mysql_native_password or caching_sha2_password"},
    {ER_TABLEACCESS_DENIED_ERROR, STEP_UNFIT, false, RIGHTS, ADVICE_RIGHTS},
    {ER_COLUMNACCESS_DENIED_ERROR, STEP_UNFIT, false, RIGHTS, ADVICE_RIGHTS},
    {ER_NO_SUCH_TABLE, STEP_UNFIT, false, SHAPE, NULL},
    {ER_BAD_FIELD_ERROR, STEP_UNFIT, false, SHAPE, NULL},
    {ER_OPTION_PREVENTS_STATEMENT, STEP_UNFIT, true, REPLICA, ADVICE_PRIMARY},
    {ER_READ_ONLY_MODE, STEP_UNFIT, true, REPLICA, ADVICE_PRIMARY},
    {ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, STEP_UNFIT, true, REPLICA, ADVICE_PRIMARY},
    {ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, STEP_UNFIT, true, "the server's binary log has a form that a relay can't use",
     "Set binlog_format to ROW or MIXED"},
    {ER_SERVER_SHUTDOWN, STEP_UNREACHABLE, true, "MySQL could not do this now", ""},
    {ER_CON_COUNT_ERROR, STEP_UNREACHABLE, true, "MySQL could not do this now", ""},
};

static const struct meaning otherwise = {0, STEP_UNREACHABLE, false, "MySQL could not do this now", ""};
static const struct meaning broken = {0, STEP_UNREACHABLE, true, "the connection to MySQL broke", ""};
static const struct meaning away = {0, STEP_UNREACHABLE, true, "the MySQL of the source can't be reached", ""};

static bool is_of_client(unsigned number)
{
    return (number >= CLIENT_ERROR_MIN && number <= CLIENT_ERROR_MAX) || number >= CLIENT_ERROR_MARIADB_MIN;
}

static bool is_of_connecting(unsigned number)
{
    return number == CR_CONNECTION_ERROR || number == CR_CONN_HOST_ERROR || number == CR_UNKNOWN_HOST ||
           number == CR_SSL_CONNECTION_ERROR;
}

static const struct meaning *find_meaning(unsigned number)
{
    for (size_t i = 0; i < ARRAY_LENGTH(meanings); i++)
        if (meanings[i].number == number)
            return &meanings[i];
    if (is_of_connecting(number))
        return &away;
    return is_of_client(number) ? &broken : &otherwise;
}

/* Appends how the tables are made: the command, for this database and this prefix. */
static void add_command(const struct mysql_session *session, const char *advice, struct fault *fault)
{
    const size_t prefix_size = strlen(session->prefix) - 1;
    const bool is_usual =
        prefix_size == strlen(SCHEMA_NAME_DEFAULT) && memcmp(session->prefix, SCHEMA_NAME_DEFAULT, prefix_size) == 0;
    const size_t size = strlen(fault->text);
    (void)snprintf(fault->text + size, sizeof(fault->text) - size,
                   ". %s: tally relay schema --type mysql%s%.*s | mariadb %s", advice, is_usual ? "" : " --schema ",
                   is_usual ? 0 : (int)prefix_size, session->prefix, session->url.database_owned);
}

enum step mysql_session_failed(struct mysql_session *session, struct fault *fault)
{
    const unsigned number = mysql_errno(session->handle_owned);
    const struct meaning *meaning = find_meaning(number);
    const char *said = mysql_error(session->handle_owned);
    (void)fault_set(fault, meaning->step, "%s: %.300s", meaning->what, said[0] == '\0' ? "no answer came" : said);
    if (meaning->advice == NULL) {
        add_command(session, "Create or renew it", fault);
    } else if (meaning->advice[0] != '\0') {
        const size_t size = strlen(fault->text);
        (void)snprintf(fault->text + size, sizeof(fault->text) - size, ". %s", meaning->advice);
    }
    text_make_plain(fault->text);
    if (meaning->is_broken)
        mysql_session_close(session);
    return meaning->step;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

/* READ COMMITTED: a delete locks the rows that it deletes, and no gap between them where the application inserts. Locks
 * of others are not waited for long. */
static const char *const settings[] = {
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION autocommit = 1, SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    "SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 5",
};

/* Each may belong to one kind of server, and the other one refuses it: no time-outs of the server's own for statements,
 * whatever is set for all; and a list of many ids stays a list.
 *
 * A relay that is gone without a word may leave a transaction open, whose lock of the lease keeps the others out (R23).
 * So the server ends it. MySQL can end only each connection that rests; MariaDB takes the last line, too. */
static const char *const wishes[] = {
    "SET SESSION max_statement_time = 0",
    "SET SESSION max_execution_time = 0",
    "SET SESSION in_predicate_conversion_threshold = 0",
    "SET SESSION wait_timeout = 30",
    "SET SESSION wait_timeout = 86400, SESSION idle_transaction_timeout = 3",
};

static enum step set_all(struct mysql_session *session, struct fault *fault)
{
    enum step step = STEP_OK;
    for (size_t i = 0; i < ARRAY_LENGTH(settings) && step == STEP_OK; i++) {
        mysql_session_say(session, "%s", settings[i]);
        step = mysql_session_change(session, NULL, fault);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(wishes) && step == STEP_OK && session->handle_owned != NULL; i++) {
        mysql_session_say(session, "%s", wishes[i]);
        (void)mysql_session_change(session, NULL, fault);
    }
    return session->handle_owned == NULL && step == STEP_OK ? STEP_UNREACHABLE : step;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

enum column { VERSION, IS_READ_ONLY, INCREMENT, PLACE, DATABASE_NAME, IS_COPY };

static enum step check_server(struct mysql_session *session, struct fault *fault)
{
    const unsigned long version = mysql_get_server_version(session->handle_owned);
    const unsigned long least = session->is_mariadb ? VERSION_MIN_MARIADB : VERSION_MIN_MYSQL;
    if (version >= least)
        return STEP_OK;
    return fault_set(fault, STEP_UNFIT,
                     "this server is %s %lu.%lu.%lu, and a relay needs MariaDB 10.11 or MySQL 8.0.29",
                     session->is_mariadb ? "MariaDB" : "MySQL", version / 10000, version / 100 % 100, version % 100);
}

static enum step check_answer(struct mysql_session *session, const struct mysql_row *row, struct fault *fault)
{
    if (mysql_row_number(row, IS_READ_ONLY) != 0)
        return fault_set(fault, STEP_UNFIT, REPLICA " (read_only). " ADVICE_PRIMARY);
    if (mysql_row_number(row, VERSION) != TABLES_VERSION) {
        (void)fault_set(fault, STEP_UNFIT,
                        "the tables %s* have version %llu, and this relay works with version %u. If yours is newer, "
                        "use the tally that printed it",
                        session->prefix, (unsigned long long)mysql_row_number(row, VERSION), TABLES_VERSION);
        add_command(session, "If it is older, renew it", fault);
        return STEP_UNFIT;
    }
    if (mysql_row_number(row, INCREMENT) != 1)
        return fault_set(
            fault, STEP_UNFIT,
            "auto_increment_increment of this server is %llu: several servers take writes, or may, and then the order "
            "of ids is not that of the commits. The order of the rows needs 1, and one server that takes writes",
            (unsigned long long)mysql_row_number(row, INCREMENT));
    if (mysql_row_number(row, IS_COPY) != 0)
        return fault_set(
            fault, STEP_UNFIT,
            "this outbox was copied here: it was last relayed from the database %.64s, and this is %.64s. If both go "
            "on, this one needs an identity of its own: CALL %srekey(TRUE). If it takes the other's place: "
            "CALL %srekey(FALSE)",
            row->columns[PLACE], row->columns[DATABASE_NAME], session->prefix, session->prefix);
    return STEP_OK;
}

/* A rollback must take the message along; MyISAM and others don't know any. And the id must be drawn by the server. */
static enum step check_tables(struct mysql_session *session, struct fault *fault)
{
    MYSQL_RES *result;
    struct mysql_row row;
    mysql_session_say(session,
                      "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE() AND "
                      "table_name IN ('@_outbox', '@_dead', '@_lease', '@_beat', '@_intent') AND engine <> 'InnoDB'");
    enum step step = mysql_session_run(session, &result, fault);
    if (step == STEP_OK && mysql_row_next(result, &row))
        step = fault_set(fault, STEP_UNFIT,
                         "table %.64s has the engine %.64s, where a rollback takes nothing back: ALTER TABLE %.64s "
                         "ENGINE = InnoDB",
                         row.columns[0], row.columns[1], row.columns[0]);
    mysql_free_result(result);
    if (step != STEP_OK)
        return step;
    mysql_session_say(session, "SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND "
                               "table_name = '@_outbox' AND column_name = 'id' AND extra LIKE '%%auto_increment%%'");
    step = mysql_session_run(session, &result, fault);
    if (step == STEP_OK && !mysql_row_next(result, &row)) {
        step = fault_set(fault, STEP_UNFIT,
                         "column id of %soutbox must be AUTO_INCREMENT, since the order of the rows "
                         "is that of ids which the server draws",
                         session->prefix);
        add_command(session, "The table as it is to be", fault);
    }
    mysql_free_result(result);
    return step;
}

enum step mysql_session_check(struct mysql_session *session, struct fault *fault)
{
    MYSQL_RES *result = NULL;
    struct mysql_row row;
    enum step step = check_server(session, fault);
    if (step == STEP_OK)
        step = set_all(session, fault);
    if (step != STEP_OK)
        return step;
    mysql_session_say(session, "SELECT (SELECT version FROM @_version), @@GLOBAL.read_only NOT IN ('0', 'OFF'), "
                               "@@GLOBAL.auto_increment_increment, place, DATABASE(), "
                               "COALESCE(CAST(place AS BINARY) <> CAST(DATABASE() AS BINARY), 0) "
                               "FROM @_lease WHERE source = 'outbox'");
    step = mysql_session_run(session, &result, fault);
    if (step == STEP_OK && !mysql_row_next(result, &row)) {
        step = fault_set(fault, STEP_UNFIT, "table %slease has no row for the outbox", session->prefix);
        add_command(session, "This brings it back", fault);
    } else if (step == STEP_OK) {
        step = check_answer(session, &row, fault);
    }
    mysql_free_result(result);
    return step == STEP_OK ? check_tables(session, fault) : step;
}
