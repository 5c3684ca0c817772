/* What a relay from MySQL notes before it tries rows at a sink that forgets, and what the next owner finds of that
 * (P16). */
#include "relay/machine_time.h"
#include "relay/source_mysql_parts.h"

#include <inttypes.h>
#include <stdlib.h>

static enum step end_one(struct source_mysql *self, uint64_t epoch, uint64_t number, struct fault *fault)
{
    mysql_session_say(&self->session,
                      "DELETE FROM @_intent WHERE source = 'outbox' AND epoch = %" PRIu64 " AND number = %" PRIu64,
                      epoch, number);
    return mysql_session_change(&self->session, NULL, fault);
}

/* All rows of an intent are delivered. */
static enum step delete_noted(struct source_mysql *self, uint64_t epoch, uint64_t number, struct fault *fault)
{
    mysql_session_say(&self->session,
                      "DELETE o FROM @_intent i STRAIGHT_JOIN @_outbox o FORCE INDEX (PRIMARY) ON o.id = i.id "
                      "AND o.uid = i.uid WHERE i.source = 'outbox' AND i.epoch = %" PRIu64 " AND i.number = %" PRIu64,
                      epoch, number);
    return mysql_session_change(&self->session, NULL, fault);
}

/* A repeat finds the one gone and the others there. */
static enum step note_rows(struct source_mysql *self, const struct term *term, uint64_t number,
                           const struct row_name *names, size_t count, struct fault *fault)
{
    struct machine_time now;
    char moment[MACHINE_TIME_TEXT_SIZE], uid[UID_TEXT_SIZE];
    if (count == 0)
        return STEP_OK;
    machine_time_read(&now);
    machine_time_to_text(&now, moment);
    mysql_session_say(&self->session, "INSERT INTO @_intent(source, epoch, number, id, uid, moment) VALUES ");
    for (size_t i = 0; i < count; i++) {
        uid_to_text(&names[i].uid, uid);
        mysql_session_say(&self->session, "%s('outbox', %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", '%s', ",
                          i == 0 ? "" : ", ", term->epoch, number, names[i].id, uid);
        mysql_session_quote(&self->session, moment);
        mysql_session_say(&self->session, ")");
    }
    mysql_session_say(&self->session, " ON DUPLICATE KEY UPDATE uid = VALUES(uid)");
    return mysql_session_change(&self->session, NULL, fault);
}

enum step source_mysql_note(struct source *source, const struct term *term, uint64_t last, uint64_t next,
                            const struct row_name *names, size_t count, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    enum step step = source_mysql_begin(self, term, fault);
    if (step != STEP_OK)
        return step;
    if (last != 0)
        step = delete_noted(self, term->epoch, last, fault);
    if (last != 0 && step == STEP_OK)
        step = end_one(self, term->epoch, last, fault);
    if (step == STEP_OK)
        step = note_rows(self, term, next, names, count, fault);
    return mysql_session_end(&self->session, step, fault);
}

enum step source_mysql_end_intent(struct source *source, const struct term *term, const struct intent *intent,
                                  const struct row_name *done, size_t count, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    uint64_t deleted;
    enum step step = source_mysql_begin(self, term, fault);
    if (step != STEP_OK)
        return step;
    step = end_one(self, intent->epoch, intent->number, fault);
    if (step == STEP_OK)
        step = source_mysql_delete(self, done, count, &deleted, fault);
    return mysql_session_end(&self->session, step, fault);
}

/* --- what was left ------------------------------------------------------------------------------------------------ */

static enum step read_next_intent(struct source_mysql *self, const struct intent *after, struct intent *intent,
                                  bool *is_open, struct fault *fault)
{
    static const struct intent none;
    const struct intent *behind = after == NULL ? &none : after;
    struct machine_time now;
    MYSQL_RES *result;
    struct mysql_row row;
    mysql_session_say(&self->session,
                      "SELECT epoch, number, " MYSQL_AGE_MS("started") ", moment FROM @_intent WHERE source = 'outbox' "
                                                                       "AND (epoch > %" PRIu64 " OR epoch = %" PRIu64
                                                                       " AND number > %" PRIu64 ") "
                                                                       "ORDER BY epoch, number, id LIMIT 1",
                      behind->epoch, behind->epoch, behind->number);
    enum step step = mysql_session_run(&self->session, &result, fault);
    *is_open = step == STEP_OK && mysql_row_next(result, &row);
    if (*is_open) {
        const char *age = row.columns[2];
        machine_time_read(&now);
        *intent = (struct intent){
            .epoch = mysql_row_number(&row, 0),
            .number = mysql_row_number(&row, 1),
            .age_ms = machine_time_age_ms(&now, mysql_row_text(&row, 3), age == NULL ? 0 : strtoll(age, NULL, 10)),
        };
    }
    mysql_free_result(result);
    return step;
}

static enum step read_intent_rows(struct source_mysql *self, struct intent *intent, struct rows *rows,
                                  struct fault *fault)
{
    MYSQL_RES *result;
    mysql_session_say(&self->session,
                      "SELECT " MYSQL_ROW_COLUMNS " FROM @_intent i STRAIGHT_JOIN @_outbox o FORCE INDEX (PRIMARY) "
                      "ON o.id = i.id AND o.uid = i.uid "
                      "WHERE i.source = 'outbox' AND i.epoch = %" PRIu64 " AND i.number = %" PRIu64 " ORDER BY o.id",
                      intent->epoch, intent->number);
    enum step step = mysql_session_run(&self->session, &result, fault);
    if (step == STEP_OK)
        step = source_mysql_read_rows(result, rows, fault);
    mysql_free_result(result);
    if (step != STEP_OK)
        return step;
    intent->count = rows->count;
    intent->names = arena_allocate(&rows->arena, (rows->count + 1) * sizeof(*intent->names));
    for (size_t i = 0; i < rows->count; i++)
        intent->names[i] = (struct row_name){.id = rows->items_owned[i].id, .uid = rows->items_owned[i].uid};
    return STEP_OK;
}

enum step source_mysql_find_intent(struct source *source, const struct term *term, const struct intent *after,
                                   struct intent *intent, struct rows *rows, bool *is_open, struct fault *fault)
{
    (void)term; /* nothing is changed */
    struct source_mysql *self = source_mysql_of(source);
    struct intent found = {0};
    bool is_found = false;
    rows_clear(rows);
    enum step step = read_next_intent(self, after, &found, &is_found, fault);
    if (step == STEP_OK && is_found)
        step = read_intent_rows(self, &found, rows, fault);
    if (step != STEP_OK)
        return step;
    *is_open = is_found;
    if (is_found)
        *intent = found;
    return STEP_OK;
}
