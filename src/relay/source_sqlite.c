#include "relay/source_sqlite.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/moment.h"
#include "relay/sqlite.h"
#include "relay/sqlite_row.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PATIENCE_MS 5000u         /* for the application's transactions */
#define DELETE_MAX 1000u          /* rows of one transaction: a writer waits some milliseconds for it, not more */
#define COUNT_MAX 1000            /* waiting rows that are counted; where there are more, they are estimated */
#define WAL_SIZE_MAX (256u << 20) /* a log as large as that is not emptied because somebody reads for too long */

#define SAME_COLUMNS "kind, queue, group_id, dedup_id, attributes, delay_s, created, body"
#define OF_INTENT "source = 'outbox' AND epoch = ?1 AND number = ?2"

enum statement {
    IS_HELD,
    DATA_VERSION,
    SCAN,
    DELETE_ROW,
    PARK,
    NOTE_ROW,
    DELETE_NOTED,
    END_INTENT,
    NEXT_INTENT,
    INTENT_NAMES,
    INTENT_ROWS,
    COUNT_WAITING,
    ENDS_OF_OUTBOX,
    COUNT_PARKED,
    JOURNAL_MODE,
    LIST_PARKED,
    SEND_PARKED,
    DROP_PARKED,
    STATEMENT_COUNT,
};

static const char *const texts[STATEMENT_COUNT] = {
    [IS_HELD] = "SELECT count(*) FROM tally_lease WHERE source = 'outbox' AND epoch = ?1 AND owner = ?2",
    [DATA_VERSION] = "PRAGMA data_version",
    [SCAN] = "SELECT " SQLITE_ROW_COLUMNS " FROM tally_outbox o ORDER BY o.id",
    [DELETE_ROW] = "DELETE FROM tally_outbox WHERE id = ?1 AND uid = ?2",
    [PARK] = "INSERT INTO tally_dead(id, uid, " SAME_COLUMNS ", error, is_doubted) "
             "SELECT id, uid, " SAME_COLUMNS ", ?3, ?4 FROM tally_outbox WHERE id = ?1 AND uid = ?2 "
             "ON CONFLICT (uid) DO UPDATE SET id = excluded.id, error = excluded.error, "
             "is_doubted = excluded.is_doubted, failed = excluded.failed",
    [NOTE_ROW] =
        "INSERT INTO tally_intent(source, epoch, number, id, uid, moment) VALUES ('outbox', ?1, ?2, ?3, ?4, ?5) "
        "ON CONFLICT DO NOTHING",
    [DELETE_NOTED] = "DELETE FROM tally_outbox WHERE id IN (SELECT id FROM tally_intent WHERE " OF_INTENT ") AND uid = "
                     "(SELECT i.uid FROM tally_intent i WHERE " OF_INTENT " AND i.id = tally_outbox.id)",
    [END_INTENT] = "DELETE FROM tally_intent WHERE " OF_INTENT,
    [NEXT_INTENT] = "SELECT epoch, number, " SQLITE_AGE_MS(
        "started") ", moment FROM tally_intent "
                   "WHERE source = 'outbox' AND (epoch, number) > (?1, ?2) ORDER BY epoch, number LIMIT 1",
    [INTENT_NAMES] = "SELECT id, uid FROM tally_intent WHERE " OF_INTENT " ORDER BY id",
    [INTENT_ROWS] =
        "SELECT " SQLITE_ROW_COLUMNS " FROM tally_intent i CROSS JOIN tally_outbox o ON o.id = i.id AND o.uid = i.uid "
        "WHERE i.source = 'outbox' AND i.epoch = ?1 AND i.number = ?2 ORDER BY i.id",
    [COUNT_WAITING] = "SELECT count(*) FROM (SELECT 1 FROM tally_outbox LIMIT ?1)",
    [ENDS_OF_OUTBOX] = "SELECT (SELECT max(id) FROM tally_outbox) - o.id + 1, " SQLITE_AGE_MS(
        "o.created") " FROM tally_outbox o ORDER BY o.id LIMIT 1",
    [COUNT_PARKED] = "SELECT count(*) FROM tally_dead",
    [JOURNAL_MODE] = "PRAGMA journal_mode",
    [LIST_PARKED] =
        "SELECT id, uid, queue, group_id, error, is_doubted, " SQLITE_AGE_MS("failed") " FROM tally_dead "
                                                                                       "ORDER BY failed, id LIMIT ?1",
    [SEND_PARKED] =
        "INSERT INTO tally_outbox(uid, " SAME_COLUMNS ") SELECT uid, " SAME_COLUMNS " FROM tally_dead WHERE uid = ?1",
    [DROP_PARKED] = "DELETE FROM tally_dead WHERE uid = ?1",
};

struct source_sqlite {
    struct source source;
    struct sqlite sqlite;
    /* From begin_scan() for end_scan(). */
    struct term term;
    struct row_name *in_flight_owned; /* by id */
    size_t in_flight_count;
    unsigned limit;
    size_t size_max;
    /* A scan that found nothing need not be repeated while nobody has written: the database as it was then, and what was in flight. */
    bool is_idle;
    int64_t idle_version;
    uint64_t idle_hash;
};

static struct source_sqlite *source_sqlite_of(struct source *source)
{
    ASSERT(source != NULL);
    return CONTAINER_OF(source, struct source_sqlite, source);
}

/* --- terms -------------------------------------------------------------------------------------------------------- */

static enum step check_term(struct source_sqlite *self, const struct term *term, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, IS_HELD);
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

/* A transaction that writes, begun by its owner: since nobody else can write now, the term stays true until the commit. */
static enum step begin_as_owner(struct source_sqlite *self, const struct term *term, struct fault *fault)
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

static enum step begin_reading_as_owner(struct source_sqlite *self, const struct term *term, struct fault *fault)
{
    enum step step = sqlite_begin_reading(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    step = check_term(self, term, fault);
    return step == STEP_OK ? STEP_OK : sqlite_end(&self->sqlite, step, fault);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static enum step delete_rows(struct source_sqlite *self, const struct row_name *names, size_t count,
                             struct fault *fault)
{
    enum step step = STEP_OK;
    for (size_t i = 0; i < count && step == STEP_OK; i++) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, DELETE_ROW);
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
        step = begin_as_owner(self, term, fault);
        if (step != STEP_OK)
            break;
        step = delete_rows(self, done + at, count - at < DELETE_MAX ? count - at : DELETE_MAX, fault);
        step = sqlite_end(&self->sqlite, step, fault);
    }
    return step;
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
    /* The rows are read in end_scan(): what came in meanwhile is among them, and there is nobody to do it here meanwhile. */
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

/* Reads rows until there are enough. `unsound` gets the names of those that can't be delivered as they are, to be parked. */
static enum step read_rows(struct source_sqlite *self, struct rows *rows, struct row_name *unsound, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, SCAN);
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
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, DATA_VERSION);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK)
        return step;
    *version = is_row ? sqlite3_column_int64(statement, 0) : 0;
    (void)sqlite3_reset(statement);
    return STEP_OK;
}

static enum step park_name(struct source_sqlite *self, const struct term *term, const struct row_name *name,
                           const char *error, bool is_doubted, struct fault *fault);

static enum step scan(struct source_sqlite *self, struct rows *rows, struct fault *fault)
{
    struct row_name unsound = {0};
    enum step step = begin_reading_as_owner(self, &self->term, fault);
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

/* --- parked rows -------------------------------------------------------------------------------------------------- */

static enum step park_name(struct source_sqlite *self, const struct term *term, const struct row_name *name,
                           const char *error, bool is_doubted, struct fault *fault)
{
    enum step step = begin_as_owner(self, term, fault);
    if (step != STEP_OK)
        return step;
    char reason[ROW_REASON_SIZE];
    snprintf(reason, sizeof(reason), "%.*s", (int)sizeof(reason) - 1, error);
    text_make_plain(reason);
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, PARK);
    sqlite_bind_u64(statement, 1, name->id);
    sqlite_bind_uid(statement, 2, &name->uid);
    (void)sqlite3_bind_text(statement, 3, reason, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int(statement, 4, is_doubted);
    step = sqlite_run(&self->sqlite, statement, fault);
    if (step == STEP_OK)
        step = delete_rows(self, name, 1, fault);
    return sqlite_end(&self->sqlite, step, fault);
}

static enum step park(struct source *source, const struct term *term, const struct row *row, const char *error,
                      bool is_doubted, struct fault *fault)
{
    const struct row_name name = {row->id, row->uid};
    return park_name(source_sqlite_of(source), term, &name, error, is_doubted, fault);
}

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

static enum step list_parked(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                             size_t *count, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    struct parked *found = arena_allocate(arena, limit * sizeof(*found));
    size_t found_count = 0;
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, LIST_PARKED);
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

static enum step resolve(struct source *source, const struct uid *uid, enum resolution resolution, bool *is_found,
                         struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    self->is_idle = false;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = sqlite_begin(&self->sqlite, fault);
    if (step != STEP_OK)
        return step;
    if (resolution == RESOLUTION_SEND) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, SEND_PARKED);
        sqlite_bind_uid(statement, 1, uid);
        step = sqlite_run(&self->sqlite, statement, fault);
    }
    bool was_there = false;
    if (step == STEP_OK) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, DROP_PARKED);
        sqlite_bind_uid(statement, 1, uid);
        step = sqlite_run(&self->sqlite, statement, fault);
        was_there = step == STEP_OK && sqlite3_changes(self->sqlite.handle_owned) > 0;
    }
    step = sqlite_end(&self->sqlite, step, fault);
    if (step == STEP_OK)
        *is_found = was_there;
    return step;
}

/* --- intents ------------------------------------------------------------------------------------------------------ */

static sqlite3_stmt *statement_of_intent(struct source_sqlite *self, enum statement index, const struct intent *intent)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, index);
    sqlite_bind_u64(statement, 1, intent->epoch);
    sqlite_bind_u64(statement, 2, intent->number);
    return statement;
}

static enum step run_on_intent(struct source_sqlite *self, enum statement index, uint64_t epoch, uint64_t number,
                               struct fault *fault)
{
    const struct intent intent = {.epoch = epoch, .number = number};
    return sqlite_run(&self->sqlite, statement_of_intent(self, index, &intent), fault);
}

static enum step note_rows(struct source_sqlite *self, const struct term *term, uint64_t number,
                           const struct row_name *names, size_t count, struct fault *fault)
{
    enum step step = STEP_OK;
    struct moment now;
    char moment[MOMENT_TEXT_SIZE];
    moment_read(&now);
    moment_to_text(&now, moment);
    for (size_t i = 0; i < count && step == STEP_OK; i++) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, NOTE_ROW);
        (void)sqlite3_bind_text(statement, 5, moment, -1, SQLITE_TRANSIENT);
        sqlite_bind_u64(statement, 1, term->epoch);
        sqlite_bind_u64(statement, 2, number);
        sqlite_bind_u64(statement, 3, names[i].id);
        sqlite_bind_uid(statement, 4, &names[i].uid);
        step = sqlite_run(&self->sqlite, statement, fault);
    }
    return step;
}

static enum step note(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                      const struct row_name *names, size_t count, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    enum step step = begin_as_owner(self, term, fault);
    if (step != STEP_OK)
        return step;
    if (last != 0)
        step = run_on_intent(self, DELETE_NOTED, term->epoch, last, fault);
    if (last != 0 && step == STEP_OK)
        step = run_on_intent(self, END_INTENT, term->epoch, last, fault);
    if (step == STEP_OK)
        step = note_rows(self, term, next, names, count, fault);
    return sqlite_end(&self->sqlite, step, fault);
}

static enum step end_intent(struct source *source, const struct term *term, const struct intent *intent,
                            const struct row_name *done, size_t count, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    enum step step = begin_as_owner(self, term, fault);
    if (step != STEP_OK)
        return step;
    step = run_on_intent(self, END_INTENT, intent->epoch, intent->number, fault);
    if (step == STEP_OK)
        step = delete_rows(self, done, count, fault);
    return sqlite_end(&self->sqlite, step, fault);
}

static enum step read_next_intent(struct source_sqlite *self, const struct intent *after, struct intent *intent,
                                  bool *is_open, struct fault *fault)
{
    static const struct intent none;
    sqlite3_stmt *statement = statement_of_intent(self, NEXT_INTENT, after == NULL ? &none : after);
    enum step step = sqlite_next(&self->sqlite, statement, is_open, fault);
    if (step != STEP_OK || !*is_open)
        return step;
    struct moment now;
    moment_read(&now);
    *intent = (struct intent){
        .epoch = (uint64_t)sqlite3_column_int64(statement, 0),
        .number = (uint64_t)sqlite3_column_int64(statement, 1),
        .age_ms = moment_age_ms(&now, sqlite_column_view(statement, 3), sqlite3_column_int64(statement, 2)),
    };
    (void)sqlite3_reset(statement);
    return STEP_OK;
}

/* All names of the intent, also of rows that have left. */
static enum step read_intent_names(struct source_sqlite *self, struct intent *intent, struct rows *rows,
                                   struct fault *fault)
{
    sqlite3_stmt *statement = statement_of_intent(self, INTENT_NAMES, intent);
    size_t capacity = 0;
    struct row_name *names = NULL;
    bool is_row;
    enum step step;
    while ((step = sqlite_next(&self->sqlite, statement, &is_row, fault)) == STEP_OK && is_row) {
        if (intent->count == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            names = memory_resize(names, capacity * sizeof(*names));
        }
        step = sqlite_row_read_name(statement, &names[intent->count], fault);
        if (step != STEP_OK) {
            (void)sqlite3_reset(statement);
            break;
        }
        intent->count++;
    }
    const struct bytes view = bytes_make(names, intent->count * sizeof(*names));
    intent->names = intent->count == 0 ? NULL : (struct row_name *)(uintptr_t)arena_copy(&rows->arena, view).ptr;
    free(names);
    return step;
}

static enum step read_intent_rows(struct source_sqlite *self, const struct intent *intent, struct rows *rows,
                                  struct fault *fault)
{
    sqlite3_stmt *statement = statement_of_intent(self, INTENT_ROWS, intent);
    bool is_row;
    enum step step;
    while ((step = sqlite_next(&self->sqlite, statement, &is_row, fault)) == STEP_OK && is_row) {
        struct row row;
        step = sqlite_row_read(statement, &row, fault);
        if (step != STEP_OK) {
            (void)sqlite3_reset(statement);
            return step;
        }
        (void)rows_append(rows, &row);
    }
    return step;
}

static enum step find_intent(struct source *source, const struct term *term, const struct intent *after,
                             struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    rows_clear(rows);
    struct intent found = {0};
    bool is_found = false;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = begin_reading_as_owner(self, term, fault);
    if (step != STEP_OK)
        return step;
    step = read_next_intent(self, after, &found, &is_found, fault);
    if (step == STEP_OK && is_found)
        step = read_intent_names(self, &found, rows, fault);
    if (step == STEP_OK && is_found)
        step = read_intent_rows(self, &found, rows, fault);
    step = sqlite_end(&self->sqlite, step, fault);
    if (step != STEP_OK)
        return step;
    *is_open = is_found;
    if (is_found)
        *intent = found;
    return STEP_OK;
}

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
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, JOURNAL_MODE);
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

static enum step check_health(struct source *source, struct source_health *health, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    struct source_health found = {0};
    uint64_t spread = 0;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = read_number(self, COUNT_WAITING, COUNT_MAX, &found.waiting_count, NULL, fault);
    if (step == STEP_OK)
        step = read_number(self, ENDS_OF_OUTBOX, 0, &spread, &found.oldest_age_ms, fault);
    if (step == STEP_OK)
        step = read_number(self, COUNT_PARKED, 0, &found.parked_count, NULL, fault);
    if (step == STEP_OK)
        step = warn(self, &found, fault);
    if (step != STEP_OK)
        return step;
    if (found.waiting_count == COUNT_MAX && spread > COUNT_MAX)
        found.waiting_count = spread; /* rows leave in about the order of their ids: few are missing between them */
    *health = found;
    return STEP_OK;
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
    .note = note,
    .find_intent = find_intent,
    .end_intent = end_intent,
    .check_health = check_health,
    .list_parked = list_parked,
    .resolve = resolve,
    .close = close_source,
};

struct source *source_sqlite_create(const struct relay_spec *spec)
{
    struct source_sqlite *self = memory_allocate_zeroed(sizeof(*self));
    self->source.ops = &operations;
    sqlite_init(&self->sqlite, spec->connection_owned, spec->table_owned, texts, STATEMENT_COUNT, PATIENCE_MS);
    return &self->source;
}
