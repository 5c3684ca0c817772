/* Admin queries of an outbox in MySQL: its health, its parked rows, and what to do with those. */
#include "platform/monotonic.h"
#include "relay/source_mysql_parts.h"

#include <inttypes.h>
#include <stdio.h>

#define COUNT_MAX 1000u /* waiting rows that are counted; where there are more, their number is estimated */
#define HORIZON_EVERY_MS 60000u
#define HORIZON_OLD_S 300u

#define SAME_COLUMNS "uid, kind, queue, group_id, dedup_id, attributes, delay_s, body"

/* --- health ------------------------------------------------------------------------------------------------------- */

/* An old transaction makes InnoDB keep what was deleted. To see those of others takes the right PROCESS; without it
 * nothing is said. */
static void check_horizon(struct source_mysql *self)
{
    MYSQL_RES *result = NULL;
    struct mysql_row row;
    struct fault fault;
    const uint64_t now_ms = boottime_ms();
    if (now_ms < self->horizon_ms)
        return;
    self->horizon_ms = now_ms + HORIZON_EVERY_MS;
    self->horizon[0] = '\0';
    mysql_session_say(&self->session,
                      "SELECT trx_mysql_thread_id, trx_age FROM (SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, "
                      "trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS trx_age FROM "
                      "information_schema.innodb_trx) t WHERE trx_age > %u ORDER BY trx_age DESC LIMIT 1",
                      HORIZON_OLD_S);
    if (mysql_session_run(&self->session, &result, &fault) == STEP_OK && mysql_row_next(result, &row))
        (void)snprintf(self->horizon, sizeof(self->horizon),
                       "connection %" PRIu64 " has had a transaction open for %" PRIu64
                       " s, and so InnoDB keeps all rows that are deleted meanwhile",
                       mysql_row_number(&row, 0), mysql_row_number(&row, 1));
    mysql_free_result(result);
}

/* Where there are many rows, every id that is not known to be gone counts as one. The highest is asked for only then:
 * behind the last row, the server would read what is left of all that were deleted. */
static enum step estimate_waiting(struct source_mysql *self, uint64_t low, uint64_t *count, struct fault *fault)
{
    MYSQL_RES *result;
    struct mysql_row row;
    mysql_session_say(&self->session, "SELECT MAX(id) FROM @_outbox");
    enum step step = mysql_session_run(&self->session, &result, fault);
    const uint64_t high = step == STEP_OK && mysql_row_next(result, &row) ? mysql_row_number(&row, 0) : 0;
    if (high >= low)
        *count = high - low + 1 - tombstones_count_in(&self->floor.tombstones, (struct id_range){low, high});
    mysql_free_result(result);
    return step;
}

static enum step ask_health(struct source_mysql *self, struct source_health *health, struct fault *fault)
{
    MYSQL_RES *result;
    struct mysql_row row;
    uint64_t low = 0;
    mysql_session_say(&self->session,
                      "SELECT w.n, w.low, (SELECT " MYSQL_AGE_MS(
                          "created") " FROM @_outbox WHERE id = w.low), "
                                     "(SELECT COUNT(*) FROM @_dead) FROM (SELECT COUNT(*) AS n, MIN(p.id) AS low FROM "
                                     "(SELECT id FROM @_outbox FORCE INDEX (PRIMARY) WHERE ");
    mysql_floor_say(self);
    mysql_session_say(&self->session, " ORDER BY id LIMIT %u) p) w", COUNT_MAX + 1);
    enum step step = mysql_session_run(&self->session, &result, fault);
    if (step == STEP_OK && mysql_row_next(result, &row)) {
        low = mysql_row_number(&row, 1);
        *health = (struct source_health){
            .waiting_count = mysql_row_number(&row, 0),
            .oldest_age_ms = mysql_row_age(&row, 2),
            .parked_count = mysql_row_number(&row, 3),
        };
    }
    mysql_free_result(result);
    if (step == STEP_OK && health->waiting_count > COUNT_MAX)
        step = estimate_waiting(self, low, &health->waiting_count, fault);
    return step;
}

enum step source_mysql_check_health(struct source *source, struct source_health *health, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    enum step step = mysql_session_open(&self->session, fault);
    if (step != STEP_OK)
        return step;
    const struct term term = self->floor.term;
    mysql_floor_renew(self, &term);
    step = ask_health(self, health, fault);
    if (step == STEP_OK) {
        check_horizon(self);
        (void)snprintf(health->warning, sizeof(health->warning), "%s", self->horizon);
    }
    return step;
}

/* --- parked rows -------------------------------------------------------------------------------------------------- */

static struct bytes copy_text(struct arena *arena, struct bytes text)
{
    return text.ptr == NULL ? text : arena_copy(arena, text);
}

static enum step read_parked(MYSQL_RES *result, unsigned limit, struct arena *arena, struct parked **parked,
                             size_t *count, struct fault *fault)
{
    struct parked *found = arena_allocate(arena, (limit + 1) * sizeof(*found));
    struct mysql_row row;
    size_t found_count = 0;
    while (found_count < limit && mysql_row_next(result, &row)) {
        struct parked *one = &found[found_count++];
        *one = (struct parked){
            .name = {.id = mysql_row_number(&row, 0)},
            .queue = copy_text(arena, mysql_row_text(&row, 2)),
            .group = copy_text(arena, mysql_row_text(&row, 3)),
            .error = copy_text(arena, mysql_row_text(&row, 4)),
            .is_doubted = mysql_row_number(&row, 5) != 0,
            .age_ms = mysql_row_age(&row, 6),
        };
        if (!mysql_row_uid(&row, 1, &one->name.uid))
            return fault_set(fault, STEP_UNFIT, "a parked row has the uid '%.40s', which names no message",
                             row.columns[1]);
    }
    *parked = found;
    *count = found_count;
    return STEP_OK;
}

enum step source_mysql_list_parked(struct source *source, unsigned limit, struct arena *arena, struct parked **parked,
                                   size_t *count, struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    MYSQL_RES *result;
    mysql_session_say(
        &self->session,
        "SELECT id, uid, queue, group_id, error, is_doubted, " MYSQL_AGE_MS("failed") " FROM @_dead "
                                                                                      "ORDER BY failed, id LIMIT %u",
        limit);
    enum step step = mysql_session_run(&self->session, &result, fault);
    if (step == STEP_OK)
        step = read_parked(result, limit, arena, parked, count, fault);
    mysql_free_result(result);
    return step;
}

enum step source_mysql_resolve(struct source *source, const struct uid *uid, enum resolution resolution, bool *is_found,
                               struct fault *fault)
{
    struct source_mysql *self = source_mysql_of(source);
    uint64_t count = 0;
    char text[UID_TEXT_SIZE];
    uid_to_text(uid, text);
    enum step step = mysql_session_begin(&self->session, fault);
    if (step != STEP_OK)
        return step;
    if (resolution == RESOLUTION_SEND) {
        mysql_session_say(&self->session,
                          "INSERT INTO @_outbox(" SAME_COLUMNS ") SELECT " SAME_COLUMNS " FROM @_dead WHERE uid = '%s'",
                          text);
        step = mysql_session_change(&self->session, NULL, fault);
    }
    if (step == STEP_OK) {
        mysql_session_say(&self->session, "DELETE FROM @_dead WHERE uid = '%s'", text);
        step = mysql_session_change(&self->session, &count, fault);
    }
    step = mysql_session_end(&self->session, step, fault);
    if (step == STEP_OK)
        *is_found = count > 0;
    return step;
}
