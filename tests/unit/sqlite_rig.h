/* A database with an outbox in a folder of its own, for the tests of source and lease. */
#ifndef TALLY_TESTS_SQLITE_RIG_H
#define TALLY_TESTS_SQLITE_RIG_H

#include "relay/schema.h"
#include "relay/spec.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
    char folder[64];
    char path[96];
    struct relay_spec spec;
    sqlite3 *db; /* the application's connection */
};

/* Runs it as the application. */
static inline void rig_run(struct rig *rig, const char *sql)
{
    char *problem = NULL;
    if (sqlite3_exec(rig->db, sql, NULL, NULL, &problem) != SQLITE_OK)
        fail_msg("%s: %s", sql, problem);
}

/* The text of the first column of the first row; "" if there is none. Borrowed until the next call. */
static inline const char *rig_ask(struct rig *rig, const char *sql)
{
    static char answer[200];
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_prepare_v2(rig->db, sql, -1, &statement, NULL), SQLITE_OK);
    answer[0] = '\0';
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
        (void)snprintf(answer, sizeof(answer), "%s", (const char *)sqlite3_column_text(statement, 0));
    (void)sqlite3_finalize(statement);
    return answer;
}

static inline void rig_open(struct rig *rig)
{
    assert_int_equal(sqlite3_open(rig->path, &rig->db), SQLITE_OK);
    (void)sqlite3_busy_timeout(rig->db, 5000);
}

static inline void rig_close(struct rig *rig)
{
    assert_int_equal(sqlite3_close(rig->db), SQLITE_OK);
    rig->db = NULL;
}

static inline int rig_setup(void **state)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    (void)snprintf(rig->folder, sizeof(rig->folder), "%.40s/tally-sqlite-XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(rig->folder));
    (void)snprintf(rig->path, sizeof(rig->path), "%s/app.db", rig->folder);
    rig->spec = (struct relay_spec){.source = SOURCE_SQLITE, .connection_owned = rig->path, .lease_ms = 1000};
    rig_open(rig);
    rig_run(rig, "PRAGMA journal_mode = WAL");
    rig_run(rig, relay_schema_text(SOURCE_SQLITE));
    *state = rig;
    return 0;
}

static inline int rig_teardown(void **state)
{
    struct rig *rig = *state;
    if (rig->db != NULL)
        rig_close(rig);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", rig->folder);
    assert_int_equal(system(command), 0);
    free(rig);
    return 0;
}

#endif
