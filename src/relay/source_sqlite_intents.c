/* What a relay from SQLite notes before it tries rows at a sink that forgets, and what the next owner finds of that
 * (P16). */
#include "base/memory.h"
#include "relay/machine_time.h"
#include "relay/source_sqlite_parts.h"
#include "relay/sqlite_row.h"

#include <stdlib.h>

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
    struct machine_time now;
    char moment[MACHINE_TIME_TEXT_SIZE];
    machine_time_read(&now);
    machine_time_to_text(&now, moment);
    for (size_t i = 0; i < count && step == STEP_OK; i++) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_NOTE_ROW);
        (void)sqlite3_bind_text(statement, 5, moment, -1, SQLITE_TRANSIENT);
        sqlite_bind_u64(statement, 1, term->epoch);
        sqlite_bind_u64(statement, 2, number);
        sqlite_bind_u64(statement, 3, names[i].id);
        sqlite_bind_uid(statement, 4, &names[i].uid);
        step = sqlite_run(&self->sqlite, statement, fault);
    }
    return step;
}

/* All names of the intent, also of rows that have left; the caller must free(*names) in any case. Rows are then looked
 * for one by one. In one statement SQLite may compare each name with each row: for what it takes for an outbox of one
 * row, because that is what ANALYZE has found, it looks into no index (R59). */
static enum step list_names(struct source_sqlite *self, const struct intent *intent, struct row_name **names,
                            size_t *count, struct fault *fault)
{
    sqlite3_stmt *statement = statement_of_intent(self, STATEMENT_INTENT_NAMES, intent);
    size_t capacity = 0;
    bool is_row;
    enum step step;
    while ((step = sqlite_next(&self->sqlite, statement, &is_row, fault)) == STEP_OK && is_row) {
        ARRAY_GROW(*names, *count, capacity);
        step = sqlite_row_read_name(statement, &(*names)[*count], fault);
        if (step != STEP_OK) {
            (void)sqlite3_reset(statement);
            break;
        }
        (*count)++;
    }
    return step;
}

/* The intent is over, and so its rows are done. */
static enum step delete_noted(struct source_sqlite *self, const struct intent *intent, struct fault *fault)
{
    struct row_name *names = NULL;
    size_t count = 0;
    enum step step = list_names(self, intent, &names, &count, fault);
    if (step == STEP_OK)
        step = source_sqlite_delete(self, names, count, fault);
    if (step == STEP_OK)
        step = run_on_intent(self, STATEMENT_END_INTENT, intent->epoch, intent->number, fault);
    free(names);
    return step;
}

enum step source_sqlite_note(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                             const struct row_name *names, size_t count, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    enum step step = source_sqlite_begin(self, term, fault);
    if (step != STEP_OK)
        return step;
    if (last != 0)
        step = delete_noted(self, &(struct intent){.epoch = term->epoch, .number = last}, fault);
    if (step == STEP_OK)
        step = note_rows(self, term, next, names, count, fault);
    return sqlite_end(&self->sqlite, step, fault);
}

enum step source_sqlite_end_intent(struct source *source, const struct term *term, const struct intent *intent,
                                   const struct row_name *done, size_t count, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    enum step step = source_sqlite_begin(self, term, fault);
    if (step != STEP_OK)
        return step;
    step = run_on_intent(self, STATEMENT_END_INTENT, intent->epoch, intent->number, fault);
    if (step == STEP_OK)
        step = source_sqlite_delete(self, done, count, fault);
    return sqlite_end(&self->sqlite, step, fault);
}

static enum step read_next_intent(struct source_sqlite *self, const struct intent *after, struct intent *intent,
                                  bool *is_open, struct fault *fault)
{
    static const struct intent none;
    sqlite3_stmt *statement = statement_of_intent(self, STATEMENT_NEXT_INTENT, after == NULL ? &none : after);
    enum step step = sqlite_next(&self->sqlite, statement, is_open, fault);
    if (step != STEP_OK || !*is_open)
        return step;
    struct machine_time now;
    machine_time_read(&now);
    *intent = (struct intent){
        .epoch = (uint64_t)sqlite3_column_int64(statement, 0),
        .number = (uint64_t)sqlite3_column_int64(statement, 1),
        .age_ms = machine_time_age_ms(&now, sqlite_column_view(statement, 3), sqlite3_column_int64(statement, 2)),
    };
    (void)sqlite3_reset(statement);
    return STEP_OK;
}

static enum step read_row(struct source_sqlite *self, const struct row_name *name, struct rows *rows,
                          struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, STATEMENT_ROW);
    sqlite_bind_u64(statement, 1, name->id);
    sqlite_bind_uid(statement, 2, &name->uid);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK || !is_row)
        return step;
    struct row row;
    step = sqlite_row_read(statement, &row, fault);
    if (step == STEP_OK)
        (void)rows_append(rows, &row);
    (void)sqlite3_reset(statement);
    return step;
}

static enum step read_intent(struct source_sqlite *self, struct intent *intent, struct rows *rows, struct fault *fault)
{
    struct row_name *names = NULL;
    enum step step = list_names(self, intent, &names, &intent->count, fault);
    for (size_t i = 0; i < intent->count && step == STEP_OK; i++)
        step = read_row(self, &names[i], rows, fault);
    const struct bytes view = bytes_make(names, intent->count * sizeof(*names));
    intent->names = intent->count == 0 ? NULL : (struct row_name *)(uintptr_t)arena_copy(&rows->arena, view).ptr;
    free(names);
    return step;
}

enum step source_sqlite_find_intent(struct source *source, const struct term *term, const struct intent *after,
                                    struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault)
{
    struct source_sqlite *self = source_sqlite_of(source);
    rows_clear(rows);
    struct intent found = {0};
    bool is_found = false;
    enum step step = sqlite_open(&self->sqlite, fault);
    if (step == STEP_OK)
        step = source_sqlite_begin_reading(self, term, fault);
    if (step != STEP_OK)
        return step;
    step = read_next_intent(self, after, &found, &is_found, fault);
    if (step == STEP_OK && is_found)
        step = read_intent(self, &found, rows, fault);
    step = sqlite_end(&self->sqlite, step, fault);
    if (step != STEP_OK)
        return step;
    *is_open = is_found;
    if (is_found)
        *intent = found;
    return STEP_OK;
}
