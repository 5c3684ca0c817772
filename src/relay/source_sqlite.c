/* See source_sqlite.h. The other parts of it are named in source_sqlite_parts.h. */
#include "relay/source_sqlite.h"

#include "base/memory.h"
#include "relay/source_sqlite_parts.h"
#include "relay/sqlite_row.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 5000u /* for the application's transactions */
#define DELETE_MAX 1000u  /* rows of one transaction: a writer waits some milliseconds for it, not more */

#define SAME_COLUMNS "kind, queue, group_id, dedup_id, attributes, delay_s, created, body"
#define OF_INTENT "source = 'outbox' AND epoch = ?1 AND number = ?2"

static const char *const texts[STATEMENT_COUNT] = {
    [STATEMENT_IS_HELD] = "SELECT count(*) FROM tally_lease WHERE source = 'outbox' AND epoch = ?1 AND owner = ?2",
    [STATEMENT_DATA_VERSION] = "PRAGMA data_version",
    [STATEMENT_SCAN] = "SELECT " SQLITE_ROW_COLUMNS " FROM tally_outbox o ORDER BY o.id",
    [STATEMENT_DELETE_ROW] = "DELETE FROM tally_outbox WHERE id = ?1 AND uid = ?2",
    [STATEMENT_PARK] = "INSERT INTO tally_dead(id, uid, " SAME_COLUMNS ", error, is_doubted) "
                       "SELECT id, uid, " SAME_COLUMNS ", ?3, ?4 FROM tally_outbox WHERE id = ?1 AND uid = ?2 "
                       "ON CONFLICT (uid) DO UPDATE SET id = excluded.id, error = excluded.error, "
                       "is_doubted = excluded.is_doubted, failed = excluded.failed",
    [STATEMENT_NOTE_ROW] =
        "INSERT INTO tally_intent(source, epoch, number, id, uid, moment) VALUES ('outbox', ?1, ?2, ?3, ?4, ?5) "
        "ON CONFLICT DO NOTHING",
    [STATEMENT_END_INTENT] = "DELETE FROM tally_intent WHERE " OF_INTENT,
    [STATEMENT_NEXT_INTENT] = "SELECT epoch, number, " SQLITE_AGE_MS(
        "started") ", moment FROM tally_intent "
                   "WHERE source = 'outbox' AND (epoch, number) > (?1, ?2) ORDER BY epoch, number LIMIT 1",
    [STATEMENT_INTENT_NAMES] = "SELECT id, uid FROM tally_intent WHERE " OF_INTENT " ORDER BY id",
    [STATEMENT_ROW] = "SELECT " SQLITE_ROW_COLUMNS " FROM tally_outbox o WHERE o.id = ?1 AND o.uid = ?2",
    [STATEMENT_COUNT_WAITING] = "SELECT count(*) FROM (SELECT 1 FROM tally_outbox LIMIT ?1)",
    [STATEMENT_ENDS_OF_OUTBOX] = "SELECT (SELECT max(id) FROM tally_outbox) - o.id + 1, " SQLITE_AGE_MS(
        "o.created") " FROM tally_outbox o ORDER BY o.id LIMIT 1",
    [STATEMENT_COUNT_PARKED] = "SELECT count(*) FROM tally_dead",
    [STATEMENT_JOURNAL_MODE] = "PRAGMA journal_mode",
    [STATEMENT_LIST_PARKED] =
        "SELECT id, uid, queue, group_id, error, is_doubted, " SQLITE_AGE_MS("failed") " FROM tally_dead "
                                                                                       "ORDER BY failed, id LIMIT ?1",
    [STATEMENT_SEND_PARKED] =
        "INSERT INTO tally_outbox(uid, " SAME_COLUMNS ") SELECT uid, " SAME_COLUMNS " FROM tally_dead WHERE uid = ?1",
    [STATEMENT_DROP_PARKED] = "DELETE FROM tally_dead WHERE uid = ?1",
};

/* --- terms -------------------------------------------------------------------------------------------------------- */

static enum step check_term(struct source_sqlite *self, const struct term *term, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_IS_HELD);
    sqlite_bind_u64(statement, 1, term->epoch);
    sqlite_bind_uid(statement, 2, &term->owner);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK)
        return step;
    const bool is_held = is_row && sqlite3_column_int(statement, 0) > 0;
    (void)sqlite3_reset(statement);
    if (is_held)
        return STEP_OK;
    return fault_set(fault, STEP_FENCED, "SQLite database %s: another relay has taken over from epoch %" PRIu64,
                     self->sqlite.path_owned, term->epoch);
}

enum step source_sqlite_begin(struct source_sqlite *self, const struct term *term, struct fault *fault)
{
    self->is_idle = false;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = sqlite_begin(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    step = check_term(self, term, fault);
    return step == STEP_OK ? STEP_OK : sqlite_end(&self->sqlite, step, fault);
}

enum step source_sqlite_begin_reading(struct source_sqlite *self, const struct term *term, struct fault *fault)
{
    enum step step = sqlite_begin_reading(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    step = check_term(self, term, fault);
    return step == STEP_OK ? STEP_OK : sqlite_end(&self->sqlite, step, fault);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

enum step source_sqlite_delete(struct source_sqlite *self, const struct row_name *names, size_t count,
                               struct fault *fault)
{
    enum step step = STEP_OK;
    for (size_t i = 0; i < count && step == STEP_OK; i++) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_DELETE_ROW);
        sqlite_bind_u64(statement, 1, names[i].id);
        sqlite_bind_uid(statement, 2, &names[i].uid); /* the id may be another message's, after a restore */
        step = sqlite_run(&self->sqlite, statement, fault);
    }
    return step;
}

static enum step settle(struct source_sqlite *self, const struct term *term, const struct row_name *done, size_t count,
                        struct fault *fault)
{
    enum step step = STEP_OK;
    for (size_t at = 0; at < count && step == STEP_OK; at += DELETE_MAX) {
        step = source_sqlite_begin(self, term, fault);
        if (step != STEP_OK)
            break;
        step = source_sqlite_delete(self, done + at, count - at < DELETE_MAX ? count - at : DELETE_MAX, fault);
        step = sqlite_end(&self->sqlite, step, fault);
    }
    return step;
}

static enum step park_name(struct source_sqlite *self, const struct term *term, const struct row_name *name,
                           const char *error, bool is_doubted, struct fault *fault)
{
    enum step step = source_sqlite_begin(self, term, fault);
    if (step != STEP_OK)
        return step;
    char reason[ROW_REASON_SIZE];
    snprintf(reason, sizeof(reason), "%.*s", (int)sizeof(reason) - 1, error);
    text_make_plain(reason);
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_PARK);
    sqlite_bind_u64(statement, 1, name->id);
    sqlite_bind_uid(statement, 2, &name->uid);
    (void)sqlite3_bind_text(statement, 3, reason, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int(statement, 4, is_doubted);
    step = sqlite_run(&self->sqlite, statement, fault);
    if (step == STEP_OK)
        step = source_sqlite_delete(self, name, 1, fault);
    return sqlite_end(&self->sqlite, step, fault);
}

static enum step park(struct source *source, const struct term *term, const struct row *row, const char *error,
                      bool is_doubted, struct fault *fault)
{
    const struct row_name name = {row->id, row->uid};
    return park_name(source_sqlite_of(source), term, &name, error, is_doubted, fault);
}

static int compare_names(const void *a, const void *b)
{
    const struct row_name *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

static enum step begin_scan(struct source *source, const struct term *term, const struct row_name *done,
                            size_t done_count, const struct row_name *in_flight, size_t in_flight_count, unsigned limit,
                            size_t size_max, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    ASSERT(limit > 0 && limit <= SCAN_ROWS_MAX);
    enum step step = settle(self, term, done, done_count, fault);
    if (step != STEP_OK)
        return step;
    /* The rows are read in end_scan(): what came in meanwhile is among them, and there is nobody to do it here
     * meanwhile. */
    const size_t size = in_flight_count * sizeof(*in_flight);
    self->in_flight_owned = memory_resize(self->in_flight_owned, size + 1);
    if (size > 0)
        memcpy(self->in_flight_owned, in_flight, size);
    qsort(self->in_flight_owned, in_flight_count, sizeof(*in_flight), compare_names);
    self->in_flight_count = in_flight_count;
    self->term = *term;
    self->limit = limit;
    self->size_max = size_max;
    return STEP_OK;
}

static bool is_in_flight(const struct source_sqlite *self, const struct row_name *name)
{
    const struct row_name *found =
        self->in_flight_count == 0
            ? NULL
            : bsearch(name, self->in_flight_owned, self->in_flight_count, sizeof(*name), compare_names);
    return found != NULL && memcmp(&found->uid, &name->uid, UID_SIZE) == 0;
}

/* Reads rows until there are enough. `unsound` gets the names of those that can't be delivered as they are, to be
 * parked. */
static enum step read_rows(struct source_sqlite *self, struct rows *rows, struct row_name *unsound, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_SCAN);
    bool is_row;
    enum step step;
    while ((step = sqlite_next(&self->sqlite, statement, &is_row, fault)) == STEP_OK && is_row) {
        struct row row;
        step = sqlite_row_read(statement, &row, fault);
        if (step != STEP_OK)
            break;
        const struct row_name name = {row.id, row.uid};
        if (is_in_flight(self, &name))
            continue;
        if (!sqlite_row_is_utf8(&row)) {
            *unsound = name;
            break; /* it alone is parked; the next scan goes on behind it */
        }
        (void)rows_append(rows, &row);
        if (rows->count == self->limit || rows->size >= self->size_max)
            break;
    }
    if (self->sqlite.handle_owned != NULL)
        (void)sqlite3_reset(statement);
    return step;
}

static enum step read_version(struct source_sqlite *self, int64_t *version, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_DATA_VERSION);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK)
        return step;
    *version = is_row ? sqlite3_column_int64(statement, 0) : 0;
    (void)sqlite3_reset(statement);
    return STEP_OK;
}

static enum step scan(struct source_sqlite *self, struct rows *rows, struct fault *fault)
{
    struct row_name unsound = {0};
    enum step step = source_sqlite_begin_reading(self, &self->term, fault);
    if (step != STEP_OK)
        return step;
    step = read_rows(self, rows, &unsound, fault);
    step = sqlite_end(&self->sqlite, step, fault);
    if (step == STEP_OK && unsound.id != 0)
        step = park_name(self, &self->term, &unsound, "a text of the row is not UTF-8", false, fault);
    return step;
}

static enum step end_scan(struct source *source, struct rows *rows, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    rows_clear(rows);
    const sqlite3 *before = self->sqlite.handle_owned;
    enum step step = sqlite_open(&self->sqlite, fault);
    int64_t version = 0;
    if (step == STEP_OK)
        step = read_version(self, &version, fault);
    if (step != STEP_OK)
        return step;
    const uint64_t hash =
        bytes_hash(bytes_make(self->in_flight_owned, self->in_flight_count * sizeof(*self->in_flight_owned)));
    /* Neither a row nor a takeover can have come: both change the version. */
    if (self->is_idle && before == self->sqlite.handle_owned && version == self->idle_version &&
        hash == self->idle_hash)
        return STEP_OK;
    self->is_idle = true; /* unless something is parked */
    step = scan(self, rows, fault);
    self->is_idle = self->is_idle && step == STEP_OK && rows->count == 0;
    self->idle_version = version;
    self->idle_hash = hash;
    return step;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void close_source(struct source *source)
{
    struct source_sqlite *self = source_sqlite_of(source);
    sqlite_deinit(&self->sqlite);
    free(self->in_flight_owned);
    free(self);
}

static const struct source_ops operations = {
    .begin_scan = begin_scan,
    .end_scan = end_scan,
    .park = park,
    .note = source_sqlite_note,
    .find_intent = source_sqlite_find_intent,
    .end_intent = source_sqlite_end_intent,
    .check_health = source_sqlite_check_health,
    .list_parked = source_sqlite_list_parked,
    .resolve = source_sqlite_resolve,
    .close = close_source,
};

struct source *source_sqlite_create(const struct relay_spec *spec)
{
    struct source_sqlite *self = memory_allocate_zeroed(sizeof(*self));
    self->source.ops = &operations;
    sqlite_init(&self->sqlite, spec->connection_owned, spec->table_owned, texts, STATEMENT_COUNT, PATIENCE_MS);
    return &self->source;
}
