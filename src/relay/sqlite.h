/* A connection to a user's SQLite database, for a source or for a lease.
 *
 * It is opened when it is first needed, and anew when the file at its path is another one than it was. Transactions are
 * short and end within the call that began them, so that the application's writers hardly ever wait. One thread at a
 * time. */
#ifndef TALLY_RELAY_SQLITE_H
#define TALLY_RELAY_SQLITE_H

#include "relay/row.h"
#include "relay/step.h"

#include <sqlite3.h>

/* The version of src/relay/schema/sqlite.sql that this relay works with. */
#define SQLITE_TABLES_VERSION 1

struct sqlite {
    char *path_owned;
    char *prefix_owned;       /* of the tables' names, without the underscore */
    const char *const *texts; /* of the statements, with tables named as if the prefix were "tally" */
    unsigned count;
    unsigned patience_ms; /* how long it waits for another connection's lock */
    uint64_t busy_since_ms;
    bool is_locked; /* the last failure was another connection's lock: nothing is wrong but the time */
    sqlite3 *handle_owned;
    sqlite3_stmt **statements_owned;
};

/* Keeps `texts` borrowed: they live as long as the program. Opens nothing yet. */
void sqlite_init(struct sqlite *sqlite, const char *path, const char *prefix, const char *const *texts, unsigned count,
                 unsigned patience_ms);
void sqlite_deinit(struct sqlite *sqlite);

/* Makes sure that it is open, and open on the file that is now at the path. STEP_UNFIT: there is no database, or none
 * with these tables, or one that can't be written. */
enum step sqlite_open(struct sqlite *sqlite, struct fault *fault);

/* The whole path of the database, without symbolic links; of the caller, to be freed. NULL: there is no such file. */
char *sqlite_real_path(const struct sqlite *sqlite);

/* The statement of `texts`, ready to be bound. The connection is open. */
sqlite3_stmt *sqlite_statement(struct sqlite *sqlite, unsigned index);

/* A transaction that writes: from the first statement on nobody else does, so what it checks stays true until it
 * ends. */
enum step sqlite_begin(struct sqlite *sqlite, struct fault *fault);
/* One that reads: all its statements see the same. */
enum step sqlite_begin_reading(struct sqlite *sqlite, struct fault *fault);
/* Ends either: commits if `step` is STEP_OK, or else undoes it. Returns `step`, or how the commit failed: then it was
 * undone, or the file system has failed and nobody knows. */
enum step sqlite_end(struct sqlite *sqlite, enum step step, struct fault *fault);

/* Runs a statement to its end that yields nothing. */
enum step sqlite_run(struct sqlite *sqlite, sqlite3_stmt *statement, struct fault *fault);
/* Steps to its next row. After the last one, and on failure, the statement is over. */
enum step sqlite_next(struct sqlite *sqlite, sqlite3_stmt *statement, bool *is_row, struct fault *fault);

/* What the connection's last failure means. Closes it where only a fresh one can help. */
enum step sqlite_failed(struct sqlite *sqlite, struct fault *fault);

void sqlite_bind_uid(sqlite3_stmt *statement, int index, const struct uid *uid);
void sqlite_bind_u64(sqlite3_stmt *statement, int index, uint64_t value);

/* A column as a view, borrowed until the statement goes on; NULL: ptr is NULL. */
struct bytes sqlite_column_view(sqlite3_stmt *statement, int index);

/* Milliseconds of a column with an age, never negative: a clock that was set back made nothing younger than now. */
uint64_t sqlite_column_age(sqlite3_stmt *statement, int index);

/* The name of a kind of file system (statfs f_type) on which SQLite's locks don't hold among machines; NULL: any
 * other. */
const char *sqlite_network_file_system(long type);

/* How old a time of these tables is; for texts. */
#define SQLITE_AGE_MS(column) "CAST(round((julianday('now') - julianday(" column ")) * 86400000) AS INTEGER)"

#endif
