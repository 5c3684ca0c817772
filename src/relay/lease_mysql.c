/* See lease_mysql.h.
 *
 * The lock is that of an epoch, and belongs to a connection. The owner takes it in the transaction that makes the
 * epoch, so before anybody can know of it; a stand-by that gets it knows that this connection has ended. All else is
 * decided by epoch, owner and beat. */
#include "relay/lease_mysql.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/mysql_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS_MIN 2000u /* a wait for the lock takes up to a second of it */
#define PATIENCE_MS_MAX 3000u
#define LOCK_NAME_SIZE 65u /* MySQL takes 64 characters; a source_id and an epoch of 20 digits just fit */

struct lease_mysql {
    struct lease lease;
    struct mysql_session session;
    unsigned connection; /* number of the connection that the rest belongs to */
    bool has_lock;       /* that of `lock_term` */
    struct term lock_term;
    struct term seen; /* at the last look; epoch 0 and no source_id: not yet */
    bool has_seen;
};

static struct lease_mysql *lease_mysql_of(struct lease *lease)
{
    ASSERT(lease != NULL);
    return CONTAINER_OF(lease, struct lease_mysql, lease);
}

/* --- the lock ----------------------------------------------------------------------------------------------------- */

static void name_lock(const struct term *term, char name[LOCK_NAME_SIZE])
{
    char source_id[UID_TEXT_SIZE];
    uid_to_text(&term->source_id, source_id);
    const int size = snprintf(name, LOCK_NAME_SIZE, "tally:%s:%" PRIu64, source_id, term->epoch);
    ASSERT(size > 0 && size < (int)LOCK_NAME_SIZE);
}

/* A new connection has no lock. */
static enum step connect_first(struct lease_mysql *self, struct fault *fault)
{
    enum step step = mysql_session_open(&self->session, fault);
    if (step == STEP_OK && self->connection != self->session.connections) {
        self->connection = self->session.connections;
        self->has_lock = false;
    }
    return step;
}

/* A single number that a statement yields; 0 for NULL. */
static enum step ask_number(struct lease_mysql *self, uint64_t *number, struct fault *fault)
{
    MYSQL_RES *result;
    struct mysql_row row;
    enum step step = mysql_session_run(&self->session, &result, fault);
    if (step == STEP_OK)
        *number = mysql_row_next(result, &row) ? mysql_row_number(&row, 0) : 0;
    mysql_free_result(result);
    return step;
}

static void release_lock(struct lease_mysql *self)
{
    char name[LOCK_NAME_SIZE];
    uint64_t is_released;
    struct fault fault;
    if (self->has_lock && self->connection == self->session.connections && self->session.handle_owned != NULL) {
        name_lock(&self->lock_term, name);
        mysql_session_say(&self->session, "SELECT RELEASE_LOCK('%s')", name);
        (void)ask_number(self, &is_released, &fault);
    }
    self->has_lock = false;
}

/* MySQL counts the wait in whole seconds. */
static enum step take_lock(struct lease_mysql *self, const struct term *term, unsigned wait_ms, struct fault *fault)
{
    char name[LOCK_NAME_SIZE];
    uint64_t is_taken = 0;
    name_lock(term, name);
    if (self->session.is_mariadb)
        mysql_session_say(&self->session, "SELECT GET_LOCK('%s', %u.%03u)", name, wait_ms / 1000, wait_ms % 1000);
    else
        mysql_session_say(&self->session, "SELECT GET_LOCK('%s', %u)", name, (wait_ms + 999) / 1000);
    enum step step = ask_number(self, &is_taken, fault);
    self->has_lock = step == STEP_OK && is_taken == 1;
    self->lock_term = *term;
    self->connection = self->session.connections;
    return step;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static enum step ask_view(struct lease_mysql *self, bool is_for_update, struct lease_view *view, struct fault *fault)
{
    MYSQL_RES *result;
    struct mysql_row row;
    mysql_session_say(&self->session,
                      "SELECT l.source_id, l.epoch, l.owner, (SELECT n FROM @_beat WHERE source = 'outbox') "
                      "FROM @_lease l WHERE l.source = 'outbox'%s",
                      is_for_update ? " FOR UPDATE" : "");
    enum step step = mysql_session_run(&self->session, &result, fault);
    if (step != STEP_OK)
        return step;
    const bool is_sound = mysql_row_next(result, &row) && row.columns[3] != NULL &&
                          mysql_row_uid(&row, 0, &view->term.source_id) && mysql_row_uid(&row, 2, &view->term.owner);
    if (is_sound) {
        view->term.epoch = mysql_row_number(&row, 1);
        view->beat = mysql_row_number(&row, 3);
    }
    mysql_free_result(result);
    if (is_sound)
        return STEP_OK;
    return fault_set(fault, STEP_UNFIT,
                     "table %slease or %sbeat has no row for the outbox, or one whose source_id or owner is no uuid. "
                     "Delete what is there, and then: tally relay schema --type mysql | mariadb %s",
                     self->session.prefix, self->session.prefix, self->session.url.database_owned);
}

static enum step lease_wait(struct lease *lease, unsigned wait_ms, bool *is_free, struct fault *fault)
{
    struct lease_mysql *self = lease_mysql_of(lease);
    struct lease_view view;
    *is_free = false;
    enum step step = connect_first(self, fault);
    release_lock(self);
    if (step == STEP_OK && !self->has_seen) {
        step = ask_view(self, false, &view, fault);
        if (step == STEP_OK)
            self->seen = view.term;
    }
    if (step == STEP_OK)
        step = take_lock(self, &self->seen, wait_ms, fault);
    *is_free = step == STEP_OK && self->has_lock;
    return step;
}

static enum step lease_peek(struct lease *lease, struct lease_view *view, struct fault *fault)
{
    struct lease_mysql *self = lease_mysql_of(lease);
    struct lease_view seen;
    enum step step = connect_first(self, fault);
    if (step == STEP_OK)
        step = ask_view(self, false, &seen, fault);
    if (step != STEP_OK)
        return step;
    *view = seen;
    self->seen = seen.term;
    self->has_seen = true;
    return STEP_OK;
}

/* --- taking over -------------------------------------------------------------------------------------------------- */

/* With the row locked: nobody else can take over before this transaction ends, and no delete of the owner is open. */
static enum step replace_owner(struct lease_mysql *self, const struct lease_view *view, uint64_t epoch_min,
                               struct term *mine, bool *is_mine, struct fault *fault)
{
    struct lease_view now;
    char owner[UID_TEXT_SIZE];
    enum step step = ask_view(self, true, &now, fault);
    if (step != STEP_OK || !term_equal(&now.term, &view->term) || now.beat != view->beat)
        return step;
    mine->source_id = now.term.source_id;
    mine->epoch = (now.term.epoch > epoch_min ? now.term.epoch : epoch_min) + 1;
    uid_generate(&mine->owner); /* for this attempt only: if its answer is lost, nobody uses that owner */
    uid_to_text(&mine->owner, owner);
    release_lock(self); /* that of the owner before, so that the other stand-bys wake and see the new one */
    step = take_lock(self, mine, 0, fault);
    if (step != STEP_OK)
        return step;
    mysql_session_say(&self->session,
                      "UPDATE @_lease SET epoch = %" PRIu64 ", owner = '%s', connection_id = CONNECTION_ID(), "
                      "place = DATABASE() WHERE source = 'outbox'",
                      mine->epoch, owner);
    step = mysql_session_change(&self->session, NULL, fault);
    *is_mine = step == STEP_OK;
    return step;
}

static enum step lease_take_over(struct lease *lease, const struct lease_view *view, uint64_t epoch_min,
                                 struct term *term, bool *is_mine, struct fault *fault)
{
    struct lease_mysql *self = lease_mysql_of(lease);
    struct term mine;
    bool is_replaced = false;
    *is_mine = false;
    if (epoch_min >= INT64_MAX || view->term.epoch >= INT64_MAX)
        return fault_set(fault, STEP_UNFIT, "there is no epoch above %" PRIu64 ": the source needs a new source_id",
                         epoch_min > view->term.epoch ? epoch_min : view->term.epoch);
    enum step step = connect_first(self, fault);
    if (step == STEP_OK)
        step = mysql_session_begin(&self->session, fault);
    if (step == STEP_OK) {
        step = replace_owner(self, view, epoch_min, &mine, &is_replaced, fault);
        step = mysql_session_end(&self->session, step, fault);
    }
    if (step != STEP_OK || !is_replaced) {
        release_lock(self);
        return step;
    }
    *is_mine = true;
    *term = mine;
    return STEP_OK;
}

/* --- owning ------------------------------------------------------------------------------------------------------- */

static enum step lease_beat(struct lease *lease, const struct term *term, struct fault *fault)
{
    struct lease_mysql *self = lease_mysql_of(lease);
    char owner[UID_TEXT_SIZE];
    uint64_t count = 0;
    uid_to_text(&term->owner, owner);
    enum step step = connect_first(self, fault);
    if (step != STEP_OK)
        return step;
    mysql_session_say(&self->session,
                      "UPDATE @_beat b JOIN @_lease l ON l.source = b.source SET b.n = b.n + 1 "
                      "WHERE b.source = 'outbox' AND l.epoch = %" PRIu64 " AND l.owner = '%s'",
                      term->epoch, owner);
    step = mysql_session_change(&self->session, &count, fault);
    if (step == STEP_OK && count == 0) {
        release_lock(self);
        return fault_set(fault, STEP_FENCED, "another relay has taken the source over");
    }
    /* After a reconnect the lock is gone, and a stand-by may be about to take over. If none does, it is taken again. */
    if (step == STEP_OK && !self->has_lock)
        step = take_lock(self, term, 0, fault);
    return step;
}

static void lease_give_up(struct lease *lease, const struct term *term)
{
    struct lease_mysql *self = lease_mysql_of(lease);
    char owner[UID_TEXT_SIZE];
    struct fault fault;
    if (self->session.handle_owned == NULL)
        return; /* the connection was lost; do not wait for a new one now */
    uid_to_text(&term->owner, owner);
    mysql_session_say(&self->session,
                      "UPDATE @_lease SET owner = '00000000-0000-0000-0000-000000000000', connection_id = NULL "
                      "WHERE source = 'outbox' AND epoch = %" PRIu64 " AND owner = '%s'",
                      term->epoch, owner);
    (void)mysql_session_change(&self->session, NULL, &fault);
    release_lock(self);
}

static void lease_interrupt(struct lease *lease)
{
    mysql_session_interrupt(&lease_mysql_of(lease)->session);
}

static void lease_close(struct lease *lease)
{
    struct lease_mysql *self = lease_mysql_of(lease);
    mysql_session_deinit(&self->session);
    free(self);
}

static const struct lease_ops operations = {
    .wait = lease_wait,
    .peek = lease_peek,
    .take_over = lease_take_over,
    .beat = lease_beat,
    .give_up = lease_give_up,
    .interrupt = lease_interrupt,
    .close = lease_close,
};

struct lease *lease_mysql_create(const struct relay_spec *spec)
{
    struct lease_mysql *self = memory_allocate_zeroed(sizeof(*self));
    self->lease.ops = &operations;
    unsigned patience_ms = spec->lease_ms < PATIENCE_MS_MIN ? PATIENCE_MS_MIN : spec->lease_ms;
    mysql_session_init(&self->session, spec, "lease", patience_ms > PATIENCE_MS_MAX ? PATIENCE_MS_MAX : patience_ms);
    return &self->lease;
}
