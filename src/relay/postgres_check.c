#include "relay/postgres_check.h"

#include "base/assert.h"
#include "relay/schema.h"
#include <stdio.h>
#include <stdlib.h>

#define VERSION_MIN 130000
#define SCHEMA_VERSION "1"

/* --- errors ------------------------------------------------------------------------------------------------------- */

enum step postgres_fault(struct fault *fault, enum step step, const char *what, const char *reason)
{
    char line[FAULT_TEXT_SIZE];
    size_t size = 0;
    for (const char *at = reason; *at != '\0' && size + 2 < sizeof(line); at++) {
        bool is_blank = *at == '\n' || *at == '\t' || *at == ' ';
        bool is_apart = size == 0 || line[size - 1] == ' ';
        if (*at == '\n' && !is_apart) /* libpq has a line for each server that it tried */
            line[size++] = ';';
        if (!is_blank)
            line[size++] = *at;
        else if (!is_apart)
            line[size++] = ' ';
    }
    while (size > 0 && (line[size - 1] == ' ' || line[size - 1] == ';'))
        size--;
    line[size] = '\0';
    return fault_set(fault, step, "%s: %s", what, line);
}

/* What an SQLSTATE, or a prefix of SQLSTATEs, means, and what to do. The first row that fits counts. */
struct meaning {
    const char *state;
    enum step step;
    const char *what;
    const char *advice;
};

#define SHAPE "the outbox is missing or of another shape"
#define ADVICE_SCHEMA "Create or renew it"
#define POOLER "the connection seems to go through a pooler in transaction mode"
#define ADVICE_POOLER "Say so (--pooler transaction), or connect to PostgreSQL itself"

static const struct meaning meanings[] = {
    {"08", STEP_UNREACHABLE, "the connection to PostgreSQL broke", NULL},
    {"25006", STEP_UNFIT, "a relay works on the primary only, and this server takes no writes",
     "Connect to the primary, or name all servers in the connection and add target_session_attrs=read-write"},
    {"26000", STEP_UNFIT, POOLER, ADVICE_POOLER},
    {"42P05", STEP_UNFIT, POOLER, ADVICE_POOLER},
    {"3D000", STEP_UNFIT, "there is no such database", NULL},
    {"3F000", STEP_UNFIT, SHAPE, ADVICE_SCHEMA},
    {"42501", STEP_UNFIT, "the relay's role lacks a right",
     "The last part of what tally relay schema --type postgres prints has the grants of a relay"},
    {"42", STEP_UNFIT, SHAPE, ADVICE_SCHEMA},
    {"0A", STEP_UNFIT, "this PostgreSQL can't do that", NULL},
    {"22", STEP_UNFIT, "PostgreSQL refused a statement of the relay", NULL},
    {"23", STEP_UNFIT, "PostgreSQL refused a statement of the relay", NULL},
    {"", STEP_UNREACHABLE, "PostgreSQL could not do this now", NULL},
};

/* Appends to the fault how the schema is made: the command, for this database and this name. */
static void add_command(const struct postgres *postgres, const char *advice, struct fault *fault)
{
    bool is_usual = strcmp(postgres->schema, SCHEMA_NAME_DEFAULT) == 0;
    size_t size = strlen(fault->text);
    snprintf(fault->text + size, sizeof(fault->text) - size,
             ". %s: tally relay schema --type postgres%s%s | psql -v ON_ERROR_STOP=1 -1 %s", advice,
             is_usual ? "" : " --schema ", is_usual ? "" : postgres->schema, PQdb(postgres->connection_owned));
}

enum step postgres_judge(const struct postgres *postgres, const PGresult *result, struct fault *fault)
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_PIPELINE_SYNC)
        return STEP_OK;
    const char *state = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *reason = result == NULL ? NULL : PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (reason == NULL)
        reason = PQerrorMessage(postgres->connection_owned);
    if (reason[0] == '\0')
        reason = "no answer came in time";
    if (state == NULL)
        return postgres_fault(fault, STEP_UNREACHABLE, "the connection to PostgreSQL broke", reason);
    const struct meaning *meaning = meanings;
    while (strncmp(state, meaning->state, strlen(meaning->state)) != 0)
        meaning++; /* the last one fits all */
    postgres_fault(fault, meaning->step, meaning->what, reason);
    size_t size = strlen(fault->text);
    if (meaning->advice != NULL && strcmp(meaning->advice, ADVICE_SCHEMA) == 0)
        add_command(postgres, meaning->advice, fault);
    else if (meaning->advice != NULL)
        snprintf(fault->text + size, sizeof(fault->text) - size, ". %s", meaning->advice);
    return meaning->step;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

/* Generic plans, by index: `done` goes through the primary key, and the scan in its order, whatever the statistics of a
 * table say whose rows live for milliseconds; a custom plan was seen to read the whole table. What is switched off
 * costs more than anything on paper, for which the server would compile the statement to machine code: half a second,
 * at each connection. No time-outs of the server's own for statements, whatever the role's default is; locks of others
 * are not waited for long (P18). */
static const char settings[] =
    "SET search_path = pg_catalog, pg_temp; SET default_transaction_isolation = 'read committed'; SET "
    "statement_timeout = 0; "
    "SET lock_timeout = 900; SET client_min_messages = warning; "
    "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off";

/* Each may be refused: by an older server (13 does not know the last two), by a hosted one, on a Unix socket. They let
 * the server notice within about three seconds that this machine is gone, and let a stand-by's connection rest for as
 * long as it must. */
static const char *const wishes[] = {
    "SET tcp_keepalives_idle = 1",
    "SET tcp_keepalives_interval = 1",
    "SET tcp_keepalives_count = 2",
    "SET tcp_user_timeout = 3000",
    "SET client_connection_check_interval = 500",
    "SET idle_session_timeout = 0",
};

static enum step set_all(const struct postgres *postgres, struct fault *fault)
{
    PGconn *connection = postgres->connection_owned;
    PGresult *result = postgres_exec(postgres, connection, settings);
    enum step step = postgres_judge(postgres, result, fault);
    PQclear(result);
    for (size_t i = 0; i < ARRAY_LENGTH(wishes) && step == STEP_OK; i++)
        PQclear(postgres_exec(postgres, connection, wishes[i]));
    return step;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

enum column {
    COLUMN_IS_REPLICA,
    COLUMN_VERSION,
    COLUMN_SYSTEM_ID,
    COLUMN_SYSTEM_ID_STORED,
    COLUMN_IS_ALWAYS,
    COLUMN_CACHE,
    COLUMN_INCREMENT,
    COLUMN_CYCLES,
    COLUMN_MISSING_RIGHTS,
    COLUMN_SEES_REPLICAS,
};

/* What the relay's role may not do yet, as statements; NULL: nothing. Asks the catalogs only, for which no right is
 * needed. */
#define RIGHTS                                                                                                         \
    "(SELECT string_agg(g.text, '; ' ORDER BY g.place) FROM ("                                                         \
    " SELECT 0 AS place, format('GRANT USAGE ON SCHEMA %I TO %I', n.nspname, current_user) AS text"                    \
    "   FROM pg_namespace n WHERE n.nspname = rtrim('@.', '.') AND NOT has_schema_privilege(n.oid, 'USAGE')"           \
    " UNION ALL"                                                                                                       \
    " SELECT r.place, format('GRANT %s ON %s@.%s TO %I', string_agg(k.kind, ', ' ORDER BY k.place), r.sort, r.name,"   \
    "        current_user)"                                                                                            \
    "   FROM (VALUES (1, '', 'version', '{SELECT}'::text[]), (2, '', 'outbox', '{SELECT,INSERT,DELETE}'),"             \
    "                (3, '', 'dead', '{SELECT,INSERT,UPDATE,DELETE}'), (4, '', 'lease', '{SELECT,UPDATE}'),"           \
    "                (5, '', 'beat', '{SELECT,UPDATE}'), (6, '', 'intent', '{SELECT,INSERT,DELETE}'),"                 \
    "                (7, 'SEQUENCE ', 'outbox_id_seq', '{SELECT}')) AS r(place, sort, name, kinds)"                    \
    "   JOIN pg_namespace n ON n.nspname = rtrim('@.', '.')"                                                           \
    "   JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = r.name"                                              \
    "   CROSS JOIN LATERAL unnest(r.kinds) WITH ORDINALITY AS k(kind, place)"                                          \
    "  WHERE NOT has_table_privilege(c.oid, k.kind) GROUP BY r.place, r.sort, r.name) g)"

static const char question[] =
    "SELECT pg_is_in_recovery(), (SELECT number FROM @.version),"
    " (SELECT system_identifier FROM pg_control_system()), l.system_id,"
    " coalesce(a.attidentity = 'a', false), s.seqcache, s.seqincrement, s.seqcycle, " RIGHTS ","
    " pg_has_role('pg_read_all_stats', 'USAGE') FROM @.lease l"
    " LEFT JOIN pg_attribute a ON a.attrelid = '@.outbox'::regclass AND a.attname = 'id'"
    " LEFT JOIN pg_sequence s ON s.seqrelid = pg_get_serial_sequence('@.outbox', 'id')::regclass"
    " WHERE l.source = 'outbox'";

static const char question_of_rights[] = "SELECT " RIGHTS;

static PGresult *ask(const struct postgres *postgres, const char *about)
{
    char *text = postgres_with_schema(about, postgres->schema);
    PGresult *answer = postgres_exec(postgres, postgres->connection_owned, text);
    free(text);
    return answer;
}

static bool is_true(const PGresult *answer, enum column column)
{
    return strcmp(PQgetvalue(answer, 0, column), "t") == 0;
}

/* Checks that the ids give the order: the server must draw them one by one, in the inserting transaction, and nowhere
 * else. */
static enum step check_ids(const struct postgres *postgres, const PGresult *answer, struct fault *fault)
{
    if (!is_true(answer, COLUMN_IS_ALWAYS))
        return fault_set(
            fault, STEP_UNFIT,
            "column id of %s.outbox must be GENERATED ALWAYS AS IDENTITY, since the order of the rows is that of "
            "ids which nobody chooses: ALTER TABLE %s.outbox ALTER id SET GENERATED ALWAYS",
            postgres->schema, postgres->schema);
    const char *cache = PQgetvalue(answer, 0, COLUMN_CACHE), *increment = PQgetvalue(answer, 0, COLUMN_INCREMENT);
    if (strcmp(cache, "1") != 0 || strcmp(increment, "1") != 0 || is_true(answer, COLUMN_CYCLES))
        return fault_set(
            fault, STEP_UNFIT,
            "the sequence of %s.outbox has CACHE %s, INCREMENT BY %s, %s: the order of the rows needs CACHE 1, "
            "INCREMENT BY 1, NO CYCLE: ALTER TABLE %s.outbox ALTER id SET CACHE 1 SET INCREMENT BY 1 SET NO CYCLE",
            postgres->schema, cache, increment, is_true(answer, COLUMN_CYCLES) ? "CYCLE" : "NO CYCLE",
            postgres->schema);
    return STEP_OK;
}

static enum step fault_missing_rights(const struct postgres *postgres, const char *grants, struct fault *fault)
{
    return fault_set(fault, STEP_UNFIT, "the role %s lacks rights. As the owner of the schema: %s",
                     PQuser(postgres->connection_owned), grants);
}

static enum step check_answer(const struct postgres *postgres, const PGresult *answer, struct fault *fault)
{
    if (PQntuples(answer) == 0) {
        fault_set(fault, STEP_UNFIT, "table %s.lease has no row for the outbox", postgres->schema);
        add_command(postgres, "This brings it back", fault);
        return STEP_UNFIT;
    }
    if (is_true(answer, COLUMN_IS_REPLICA))
        return fault_set(
            fault, STEP_UNFIT,
            "a relay works on the primary only, and the server at %s, port %s is a replica: connect to the "
            "primary, or name all servers in the connection and add target_session_attrs=read-write",
            PQhost(postgres->connection_owned), PQport(postgres->connection_owned));
    const char *version = PQgetvalue(answer, 0, COLUMN_VERSION);
    if (strcmp(version, SCHEMA_VERSION) != 0) {
        fault_set(fault, STEP_UNFIT,
                  "the schema %s has version %s, and this relay works with version " SCHEMA_VERSION
                  ". If yours is newer, use the tally that printed it",
                  postgres->schema, *version == '\0' ? "(none)" : version);
        add_command(postgres, "If it is older, renew it", fault);
        return STEP_UNFIT;
    }
    const char *id = PQgetvalue(answer, 0, COLUMN_SYSTEM_ID), *stored = PQgetvalue(answer, 0, COLUMN_SYSTEM_ID_STORED);
    if (*stored != '\0' && strcmp(id, stored) != 0)
        return fault_set(
            fault, STEP_UNFIT,
            "this outbox was copied here, or restored from a backup: it belongs to the database cluster %s, "
            "and this is %s. If both go on, this one needs an identity of its own: SELECT %s.rekey(). If it takes the "
            "other's place: SELECT %s.rekey(is_copy => false)",
            stored, id, postgres->schema, postgres->schema);
    if (!PQgetisnull(answer, 0, COLUMN_MISSING_RIGHTS))
        return fault_missing_rights(postgres, PQgetvalue(answer, 0, COLUMN_MISSING_RIGHTS), fault);
    if (postgres->sees_replicas && !is_true(answer, COLUMN_SEES_REPLICAS))
        return fault_set(fault, STEP_UNFIT,
                         "the role %s can't see what replicas have flushed, which PublishAfterReplicas is about: "
                         "GRANT pg_read_all_stats TO %s",
                         PQuser(postgres->connection_owned), PQuser(postgres->connection_owned));
    return check_ids(postgres, answer, fault);
}

/* The server names only the first right that is missing; this lists all of them. */
static void name_missing_rights(const struct postgres *postgres, const PGresult *answer, struct fault *fault)
{
    const char *state = PQresultErrorField(answer, PG_DIAG_SQLSTATE);
    if (state == NULL || strcmp(state, "42501") != 0)
        return;
    PGresult *rights = ask(postgres, question_of_rights);
    if (PQntuples(rights) == 1 && !PQgetisnull(rights, 0, 0))
        fault_missing_rights(postgres, PQgetvalue(rights, 0, 0), fault);
    PQclear(rights);
}

/* --- poolers ------------------------------------------------------------------------------------------------------ */

/* 0: no answer. */
static long process_of(const struct postgres *postgres, PGconn *connection)
{
    PGresult *result = postgres_exec(postgres, connection, "SELECT pg_backend_pid()");
    long pid = PQntuples(result) == 1 ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return pid;
}

/* A pooler in transaction mode gives the server process that just served us to the next one who begins a transaction.
 * One in session mode keeps it for us. */
static bool shares_process(const struct postgres *postgres, long pid)
{
    struct fault fault;
    enum step step;
    bool is_shared = false;
    PGconn *other = postgres_open(postgres, &fault, &step);
    for (int i = 0; i < 3 && other != NULL && !is_shared; i++) {
        PQclear(postgres_exec(postgres, other, "BEGIN"));
        long taken = process_of(postgres, other);
        long mine = process_of(postgres, postgres->connection_owned);
        is_shared = taken == pid || (mine != 0 && mine != pid);
        PQclear(postgres_exec(postgres, other, "ROLLBACK"));
    }
    PQfinish(other);
    return is_shared;
}

/* A pooler shows itself by a process id of its own for the connection. */
static enum step check_pooler(const struct postgres *postgres, long pid, struct fault *fault)
{
    if (postgres->is_pooled || pid == PQbackendPID(postgres->connection_owned) || !shares_process(postgres, pid))
        return STEP_OK;
    return fault_set(
        fault, STEP_UNFIT,
        "the server at %s, port %s is a pooler in transaction mode (PgBouncer: pool_mode = transaction), which "
        "gives each transaction another process: say so (--pooler transaction), use session mode, or connect to "
        "PostgreSQL itself",
        PQhost(postgres->connection_owned), PQport(postgres->connection_owned));
}

enum step postgres_check(const struct postgres *postgres, struct fault *fault)
{
    int version = PQserverVersion(postgres->connection_owned);
    if (version < VERSION_MIN)
        return fault_set(fault, STEP_UNFIT, "a relay needs PostgreSQL 13 or newer; this is %d.%d", version / 10000,
                         version % 10000);
    long pid = process_of(postgres, postgres->connection_owned);
    if (pid == 0)
        return postgres_judge(postgres, NULL, fault);
    enum step step = check_pooler(postgres, pid, fault);
    if (step == STEP_OK && !postgres->is_pooled)
        step = set_all(postgres, fault);
    if (step != STEP_OK)
        return step;
    PGresult *answer = ask(postgres, question);
    step = postgres_judge(postgres, answer, fault);
    if (step == STEP_OK)
        step = check_answer(postgres, answer, fault);
    else if (step == STEP_UNFIT)
        name_missing_rights(postgres, answer, fault);
    PQclear(answer);
    return step;
}
