/* See source_mysql.h. The other parts of it are named in source_mysql_parts.h. */
#include "relay/source_mysql.h"

#include "base/memory.h"
#include "relay/source_mysql_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 10000u
#define WHOLE_PATIENCE_MS 120000u /* for a scan past all that InnoDB could not remove yet */
#define DELETE_MAX 1000u          /* rows of one transaction */

#define SAME_COLUMNS "kind, queue, group_id, dedup_id, attributes, delay_s, created, body"

/* --- terms -------------------------------------------------------------------------------------------------------- */

/* Shared, so that the deletes of one owner do not wait for its beat; who takes over waits for their end. */
static enum step check_term(struct source_mysql *self, const struct term *term, struct fault *fault)
{
    MYSQL_RES *result;
    struct mysql_row row;
    char owner[UID_TEXT_SIZE];
    uid_to_text(&term->owner, owner);
    mysql_session_say(&self->session,
                      "SELECT @@GLOBAL.read_only NOT IN ('0', 'OFF') FROM @_lease "
                      "WHERE source = 'outbox' AND epoch = %" PRIu64 " AND owner = '%s' LOCK IN SHARE MODE",
                      term->epoch, owner);
    enum step step = mysql_session_run(&self->session, &result, fault);
    if (step != STEP_OK)
        return step;
    if (!mysql_row_next(result, &row))
        step = fault_set(fault, STEP_FENCED, "another relay has taken the source over");
    else if (mysql_row_number(&row, 0) != 0) /* a user with many rights could write all the same */
        step = fault_set(fault, STEP_UNFIT, "this server has become a replica, which takes no writes (read_only)");
    mysql_free_result(result);
    return step;
}

enum step source_mysql_begin(struct source_mysql *self, const struct term *term, struct fault *fault)
{
    enum step step = mysql_session_begin(&self->session, fault);
    if (step != STEP_OK)
        return step;
    step = check_term(self, term, fault);
    if (step == STEP_OK)
        return STEP_OK;
    step = mysql_session_end(&self->session, step, fault);
    if (step == STEP_UNFIT)
        mysql_session_close(&self->session); /* the next connection may lead to the primary */
    return step;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

/* The ids alone say where to look, and so that nothing else is looked at: a row of an open transaction would be waited
 * for. The pairs say what is deleted: after a restore an id may be another message's. */
enum step source_mysql_delete(struct source_mysql *self, const struct row_name *names, size_t count, uint64_t *deleted,
                              struct fault *fault)
{
    struct mysql_session *session = &self->session;
    char uid[UID_TEXT_SIZE];
    *deleted = 0;
    if (count == 0)
        return STEP_OK;
    mysql_session_say(session, "DELETE o FROM @_outbox o FORCE INDEX (PRIMARY) WHERE o.id IN (");
    for (size_t i = 0; i < count; i++)
        mysql_session_say(session, "%s%" PRIu64, i == 0 ? "" : ",", names[i].id);
    mysql_session_say(session, ") AND (o.id, o.uid) IN (");
    for (size_t i = 0; i < count; i++) {
        uid_to_text(&names[i].uid, uid);
        mysql_session_say(session, "%s(%" PRIu64 ",'%s')", i == 0 ? "" : ",", names[i].id, uid);
    }
    mysql_session_say(session, ")");
    return mysql_session_change(session, deleted, fault);
}

static enum step settle(struct source_mysql *self, const struct term *term, const struct row_name *done, size_t count,
                        struct fault *fault)
{
    enum step step = STEP_OK;
    for (size_t at = 0; at < count && step == STEP_OK; at += DELETE_MAX) {
        const size_t part = count - at < DELETE_MAX ? count - at : DELETE_MAX;
        uint64_t deleted = 0;
        step = source_mysql_begin(self, term, fault);
        if (step != STEP_OK)
            break;
        step = source_mysql_delete(self, done + at, part, &deleted, fault);
        step = mysql_session_end(&self->session, step, fault);
        if (step == STEP_OK && deleted == part)
            mysql_floor_note_deleted(self, done + at, part);
    }
    return step;
}

enum step source_mysql_read_rows(MYSQL_RES *result, struct rows *rows, struct fault *fault)
{
    struct mysql_row found;
    while (mysql_row_next(result, &found)) {
        struct row row = {
            .id = mysql_row_number(&found, 0),
            .kind = mysql_row_number(&found, 2) == 1 ? ROW_ACK : ROW_SEND,
            .delay_s = (uint32_t)mysql_row_number(&found, 3),
            .queue = mysql_row_text(&found, 4),
            .group = mysql_row_text(&found, 5),
            .deduplication_id = mysql_row_text(&found, 6),
            .attributes = mysql_row_text(&found, 7),
            .body = mysql_row_text(&found, 8),
            .age_ms = mysql_row_age(&found, 9),
        };
        if (row.id == 0 || row.id > INT64_MAX || !mysql_row_uid(&found, 1, &row.uid))
            return fault_set(fault, STEP_UNFIT,
                             "row %" PRIu64 " has uid '%.40s', which names no message: an id is above 0 and drawn by "
                             "the server, and a uid is 8-4-4-4-12 hexadecimal digits. Mend or delete the row",
                             row.id, found.columns[1] == NULL ? "" : found.columns[1]);
        (void)rows_append(rows, &row);
    }
    return STEP_OK;
}

/* --- the scan ----------------------------------------------------------------------------------------------------- */

/* The sizes first, so that of many large bodies only those come over the line that are wanted: the row that crosses the
 * limit is the last. */
static void say_scan(struct source_mysql *self, const struct row_name *in_flight, size_t count, unsigned limit,
                     size_t size_max)
{
    struct mysql_session *session = &self->session;
    mysql_session_say(session,
                      "SELECT " MYSQL_ROW_COLUMNS " FROM (SELECT w.id, SUM(w.size) OVER (ORDER BY w.id ROWS BETWEEN "
                      "UNBOUNDED PRECEDING AND 1 PRECEDING) AS size_before FROM (SELECT id, OCTET_LENGTH(body) + "
                      "COALESCE(OCTET_LENGTH(attributes), 0) + 100 AS size FROM @_outbox FORCE INDEX (PRIMARY) WHERE ");
    mysql_floor_say(self);
    for (size_t i = 0; i < count; i++)
        mysql_session_say(session, "%s%" PRIu64, i == 0 ? " AND id NOT IN (" : ",", in_flight[i].id);
    mysql_session_say(session,
                      "%s ORDER BY id LIMIT %u) w) s STRAIGHT_JOIN @_outbox o FORCE INDEX (PRIMARY) ON o.id = s.id "
                      "WHERE COALESCE(s.size_before, 0) < %zu ORDER BY o.id",
                      count == 0 ? "" : ")", limit, size_max == 0 ? 1 : size_max);
}

static enum step begin_scan(struct source *source, const struct term *term, const struct row_name *done,
                            size_t done_count, const struct row_name *in_flight, size_t in_flight_count, unsigned limit,
                            size_t size_max, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    ASSERT(!self->is_scanning && limit > 0 && limit <= SCAN_ROWS_MAX);
    self->session.patience_ms = PATIENCE_MS;
    enum step step = mysql_session_open(&self->session, fault);
    if (step != STEP_OK)
        return step;
    mysql_floor_begin(self, term);
    step = settle(self, term, done, done_count, fault);
    if (step == STEP_OK) {
        say_scan(self, in_flight, in_flight_count, limit, size_max);
        step = mysql_session_send(&self->session, fault);
    }
    self->is_scanning = step == STEP_OK;
    return step;
}

static enum step end_scan(struct source *source, struct rows *rows, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    MYSQL_RES *result;
    rows_clear(rows);
    if (!self->is_scanning)
        return fault_set(fault, STEP_UNREACHABLE, "the scan was not begun");
    self->is_scanning = false;
    self->session.patience_ms = self->floor.is_whole ? WHOLE_PATIENCE_MS : PATIENCE_MS;
    enum step step = mysql_session_receive(&self->session, &result, fault);
    self->session.patience_ms = PATIENCE_MS;
    if (step == STEP_OK)
        step = source_mysql_read_rows(result, rows, fault);
    mysql_free_result(result);
    if (step == STEP_OK)
        mysql_floor_note_found(self, rows);
    return step;
}

/* --- rows that go another way ------------------------------------------------------------------------------------- */

static enum step copy_to_dead(struct source_mysql *self, const struct row_name *name, const char *error,
                              bool is_doubted, struct fault *fault)
{
    struct mysql_session *session = &self->session;
    char reason[ROW_REASON_SIZE], uid[UID_TEXT_SIZE];
    (void)snprintf(reason, sizeof(reason), "%.*s", (int)sizeof(reason) - 1, error);
    text_make_plain(reason);
    uid_to_text(&name->uid, uid);
    mysql_session_say(session, "INSERT INTO @_dead(id, uid, " SAME_COLUMNS ", error, is_doubted) "
                               "SELECT id, uid, " SAME_COLUMNS ", ");
    mysql_session_quote(session, reason);
    mysql_session_say(session,
                      ", %d FROM @_outbox WHERE id = %" PRIu64 " AND uid = '%s' ON DUPLICATE KEY UPDATE "
                      "id = VALUES(id), error = VALUES(error), is_doubted = VALUES(is_doubted), "
                      "failed = UTC_TIMESTAMP(6)",
                      is_doubted, name->id, uid);
    return mysql_session_change(session, NULL, fault);
}

static enum step park(struct source *source, const struct term *term, const struct row *row, const char *error,
                      bool is_doubted, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    const struct row_name name = {row->id, row->uid};
    uint64_t deleted;
    enum step step = source_mysql_begin(self, term, fault);
    if (step != STEP_OK)
        return step;
    step = copy_to_dead(self, &name, error, is_doubted, fault);
    if (step == STEP_OK)
        step = source_mysql_delete(self, &name, 1, &deleted, fault);
    return mysql_session_end(&self->session, step, fault);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void interrupt(struct source *source)
{
    mysql_session_interrupt(&source_mysql_of(source)->session);
}

static void close_source(struct source *source)
{
    struct source_mysql *self = source_mysql_of(source);
    mysql_session_deinit(&self->session);
    free(self);
}

static const struct source_ops operations = {
    .begin_scan = begin_scan,
    .end_scan = end_scan,
    .park = park,
    .note = source_mysql_note,
    .find_intent = source_mysql_find_intent,
    .end_intent = source_mysql_end_intent,
    .check_health = source_mysql_check_health,
    .list_parked = source_mysql_list_parked,
    .resolve = source_mysql_resolve,
    .interrupt = interrupt,
    .close = close_source,
};

struct source *source_mysql_create(const struct relay_spec *spec)
{
    struct source_mysql *self = memory_allocate_zeroed(sizeof(*self));
    self->source.ops = &operations;
    mysql_session_init(&self->session, spec, "rows", PATIENCE_MS);
    return &self->source;
}
