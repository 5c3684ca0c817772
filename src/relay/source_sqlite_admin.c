/* Admin queries of an outbox in SQLite: its health, its parked rows, and what to do with those. */
#include "relay/source_sqlite_parts.h"
#include "relay/sqlite_row.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define COUNT_MAX 1000            /* waiting rows that are counted; where there are more, they are estimated */
#define WAL_SIZE_MAX (256u << 20) /* a log as large as that is not emptied because somebody reads for too long */

/* --- health ------------------------------------------------------------------------------------------------------- */

static enum step read_number(struct source_sqlite *self, enum statement index, uint64_t limit, uint64_t *number,
                             uint64_t *age_ms, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, index);
    if (limit > 0)
        sqlite_bind_u64(statement, 1, limit);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK || !is_row)
        return step;
    *number = sqlite_column_age(statement, 0);
    if (age_ms != NULL)
        *age_ms = sqlite_column_age(statement, 1);
    (void)sqlite3_reset(statement);
    return STEP_OK;
}

static enum step warn(struct source_sqlite *self, struct source_health *health, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_JOURNAL_MODE);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK)
        return step;
    const bool is_wal = is_row && bytes_equal(sqlite_column_view(statement, 0), BYTES("wal"));
    (void)sqlite3_reset(statement);
    char path[PATH_MAX + 8];
    struct stat log;
    const int size = snprintf(path, sizeof(path), "%s-wal", sqlite3_db_filename(self->sqlite.handle_owned, "main"));
    if (!is_wal)
        (void)snprintf(
            health->warning, sizeof(health->warning),
            "the database is not in WAL mode, so the application's writers and the relay wait for each other: "
            "PRAGMA journal_mode = WAL");
    else if (size < (int)sizeof(path) && stat(path, &log) == 0 && log.st_size > (off_t)WAL_SIZE_MAX)
        (void)snprintf(
            health->warning, sizeof(health->warning),
            "%.300s has grown to %jd MiB: some connection keeps a transaction open, or has turned checkpoints off",
            path, (intmax_t)(log.st_size >> 20));
    return STEP_OK;
}

enum step source_sqlite_check_health(struct source *source, struct source_health *health, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    struct source_health found = {0};
    uint64_t spread = 0;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = read_number(self, STATEMENT_COUNT_WAITING, COUNT_MAX, &found.waiting_count, NULL, fault);
    if (step == STEP_OK)
        step = read_number(self, STATEMENT_ENDS_OF_OUTBOX, 0, &spread, &found.oldest_age_ms, fault);
    if (step == STEP_OK)
        step = read_number(self, STATEMENT_COUNT_PARKED, 0, &found.parked_count, NULL, fault);
    if (step == STEP_OK)
        step = warn(self, &found, fault);
    if (step != STEP_OK)
        return step;
    if (found.waiting_count == COUNT_MAX && spread > COUNT_MAX)
        found.waiting_count = spread; /* rows leave in about the order of their ids: few are missing between them */
    *health = found;
    return STEP_OK;
}

/* --- parked rows -------------------------------------------------------------------------------------------------- */

static enum step read_parked(sqlite3_stmt *statement, struct arena *arena, struct parked *parked, struct fault *fault)
{
    enum step step = sqlite_row_read_name(statement, &parked->name, fault);
    if (step != STEP_OK)
        return step;
    parked->queue = sqlite_row_copy_text(statement, 2, arena);
    parked->group = sqlite_row_copy_text(statement, 3, arena);
    parked->error = sqlite_row_copy_text(statement, 4, arena);
    parked->is_doubted = sqlite3_column_int(statement, 5) != 0;
    parked->age_ms = sqlite_column_age(statement, 6);
    return STEP_OK;
}

enum step source_sqlite_list_parked(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                                    size_t *count, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    struct parked *found = arena_allocate(arena, limit * sizeof(*found));
    size_t found_count = 0;
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_LIST_PARKED);
    (void)sqlite3_bind_int64(statement, 1, limit);
    bool is_row;
    while ((step = sqlite_next(&self->sqlite, statement, &is_row, fault)) == STEP_OK && is_row) {
        ASSERT(found_count < limit);
        step = read_parked(statement, arena, &found[found_count], fault);
        if (step != STEP_OK) {
            (void)sqlite3_reset(statement);
            return step;
        }
        found_count++;
    }
    if (step != STEP_OK)
        return step;
    *parked = found;
    *count = found_count;
    return STEP_OK;
}

enum step source_sqlite_resolve(struct source *source, const struct uid *uid, enum resolution resolution,
                                bool *is_found, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    self->is_idle = false;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = sqlite_begin(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    if (resolution == RESOLUTION_SEND) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_SEND_PARKED);
        sqlite_bind_uid(statement, 1, uid);
        step = sqlite_run(&self->sqlite, statement, fault);
    }
    bool was_there = false;
    if (step == STEP_OK) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_DROP_PARKED);
        sqlite_bind_uid(statement, 1, uid);
        step = sqlite_run(&self->sqlite, statement, fault);
        was_there = step == STEP_OK && sqlite3_changes(self->sqlite.handle_owned) > 0;
    }
    step = sqlite_end(&self->sqlite, step, fault);
    if (step == STEP_OK)
        *is_found = was_there;
    return step;
}
