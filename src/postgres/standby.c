#include "postgres/standby.h"

#include "base/assert.h"
#include "postgres/gate.h"
#include <inttypes.h>
#include <stdio.h>

#define READS_MIN 4u /* in a lease without a sign of life */
#define WAITER_PAUSE_MS 500u
#define SILENT_MS 1000u /* a server that did not answer for so long before the connection broke went silent */

void pg_standby_init(struct pg_standby *standby, const struct pg_options *options)
{
    *standby = (struct pg_standby){.seen_ms = pg_now_ms(), .heard_ms = pg_now_ms()};
    pg_session_init(&standby->waiter, options, "stand-by");
}

void pg_standby_deinit(struct pg_standby *standby)
{
    pg_session_deinit(&standby->waiter);
}

void pg_standby_note_life(struct pg_standby *standby)
{
    standby->seen_ms = pg_now_ms();
    standby->reads = 0;
}

/* The lock of an epoch that has ended says nothing about the owner of now. */
static void drop_lock(struct pg_standby *standby)
{
    pg_link_close(&standby->waiter.link);
    standby->is_waiting = standby->has_lock = false;
}

static void drop_session_lock(struct pg_standby *standby, struct pg_session *session)
{
    if (standby->session_has_lock)
        pg_link_close(&session->link); /* with the lock; the next round opens it again */
    standby->session_has_lock = false;
}

void pg_standby_note_break(struct pg_standby *standby)
{
    const uint32_t lease_ms = standby->waiter.options->lease_ms;
    pg_standby_note_life(standby);
    drop_lock(standby);
    standby->session_has_lock = false;
    const bool was_silent = standby->seen_ms - standby->heard_ms >= SILENT_MS;
    standby->yields_until = standby->seen_ms + (was_silent ? lease_ms : lease_ms / 2);
    standby->heard_ms = standby->seen_ms;
}

static enum error look_for_life(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms,
                                struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, session->head.id);
    PGresult *row = NULL;
    const uint64_t asked_ms = pg_now_ms(); /* the answer may have lain here while this process was stopped */
    if (pg_session_run(session, PG_SIGNS, &values, until_ms, &row, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    const bool is_there = PQntuples(row) == 1;
    const uint64_t epoch = is_there ? pg_number(row, 0, 0) : 0, number = is_there ? pg_number(row, 0, 1) : 0;
    if (is_there) {
        pg_text(row, 0, 2, session->head.node.name, sizeof(session->head.node.name));
        pg_text(row, 0, 3, session->head.node.address, sizeof(session->head.node.address));
        session->head.is_away = pg_number(row, 0, 4) != 0;
    }
    PQclear(row);
    if (!is_there)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "The row of the log is gone from tally_log.head.");
    standby->reads++;
    standby->heard_ms = asked_ms;
    if (epoch != standby->epoch || number != standby->number)
        pg_standby_note_life(standby);
    standby->epoch = epoch;
    standby->number = number;
    return OK;
}

/* Sends the statement that waits for the lock, unless it is under way. */
static enum error begin_waiting(struct pg_standby *standby, const struct pg_session *session, uint64_t until_ms,
                                struct failure *failure)
{
    if (standby->is_waiting)
        return OK;
    pg_link_pin(&standby->waiter.link, session->link.host); /* another server's lock says nothing of this one */
    const enum error error = pg_session_open(&standby->waiter, until_ms, failure);
    if (error != OK)
        return error;
    char text[96];
    (void)snprintf(text, sizeof(text), "SELECT pg_advisory_lock(%d, %" PRIu64 ")",
                   PG_LOCK_CLASS + (int)session->head.id, standby->epoch % PG_LOCK_EPOCHS);
    if (pg_link_send(&standby->waiter.link, text, until_ms, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    standby->is_waiting = true;
    standby->lock_epoch = standby->epoch;
    return OK;
}

/* Without the lock a node follows all the same, and the lease tells it when the owner is gone. */
static void wait_for_lock(struct pg_standby *standby, const struct pg_session *session, uint64_t until_ms)
{
    struct failure ignored;
    bool is_over = false;
    const uint64_t opens_until = until_ms + session->options->lease_ms / 2;
    if (begin_waiting(standby, session, opens_until, &ignored) != OK ||
        pg_link_await(&standby->waiter.link, until_ms, &is_over, &ignored) != PG_DONE) {
        drop_lock(standby);
        standby->waits_from = pg_now_ms() + WAITER_PAUSE_MS;
        return;
    }
    standby->has_lock = is_over;
}

/* Until when the owner goes first, also before a stand-by that has begun while PostgreSQL was away. A log at rest has
 * none. */
static uint64_t yields_until(const struct pg_standby *standby, const struct pg_session *session)
{
    const struct pg_options *options = session->options;
    const bool has_owner = session->head.node.name[0] != '\0';
    const uint64_t back_ms = options->gate == NULL || !has_owner ? 0 : pg_gate_back_ms(options->gate);
    const uint64_t first_ms = back_ms == 0 ? 0 : back_ms + options->lease_ms / 2;
    return standby->yields_until > first_ms ? standby->yields_until : first_ms;
}

/* A log without an owner, because it rests or he has ended, needs no second connection to wait for him. The lock stays
 * with `session`. */
static enum error try_at_once(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms,
                              struct failure *failure)
{
    if (standby->is_waiting || standby->has_lock || standby->session_has_lock ||
        pg_now_ms() < yields_until(standby, session))
        return OK;
    standby->lock_epoch = standby->epoch;
    return pg_session_try_lock(session, standby->epoch, &standby->session_has_lock, until_ms, failure) == PG_DONE
               ? OK
               : ERROR_SERVICE_UNAVAILABLE;
}

bool pg_standby_is_willing(const struct pg_session *session)
{
    const struct pg_options *options = session->options;
    if (session->head.is_away)
        return false;
    return options->may_take == NULL ||
           options->may_take(options->context, options->log, session->head.node.name[0] == '\0');
}

enum error pg_standby_poll(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms, bool *may_take,
                           struct failure *failure)
{
    *may_take = false;
    const uint32_t lease_ms = session->options->lease_ms;
    const enum error error = look_for_life(standby, session, pg_now_ms() + lease_ms, failure);
    if (error != OK)
        return error;
    if (!pg_standby_is_willing(session)) {
        drop_lock(standby); /* it must not keep the log from those who want it */
        drop_session_lock(standby, session);
        return OK;
    }
    if (session->options->leads != NULL) { /* whether the owner is gone is found out by another log's stand-by */
        *may_take = atomic_load(session->options->leads);
        return OK;
    }
    if (standby->session_has_lock && standby->lock_epoch != standby->epoch) {
        drop_session_lock(standby, session);
        return OK;
    }
    const enum error tried = try_at_once(standby, session, pg_now_ms() + lease_ms, failure);
    *may_take = standby->session_has_lock;
    if (tried != OK || *may_take)
        return tried;
    if (standby->is_waiting && standby->lock_epoch != standby->epoch)
        drop_lock(standby);
    if (!standby->has_lock && pg_now_ms() >= standby->waits_from)
        wait_for_lock(standby, session, until_ms);
    const bool is_over = standby->heard_ms >= standby->seen_ms + lease_ms && standby->reads >= READS_MIN;
    *may_take = pg_now_ms() >= yields_until(standby, session) && (standby->has_lock || is_over);
    return OK;
}
