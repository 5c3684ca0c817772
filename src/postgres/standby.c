#include "postgres/standby.h"

#include "base/assert.h"
#include <inttypes.h>
#include <stdio.h>

#define READS_MIN 4u /* in a lease without a sign of life */

void pg_standby_init(struct pg_standby *standby, const struct pg_options *options)
{
    *standby = (struct pg_standby){.seen_ms = pg_now_ms()};
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

void pg_standby_note_break(struct pg_standby *standby)
{
    const uint64_t half_ms = standby->waiter.options->lease_ms / 2;
    pg_standby_note_life(standby);
    drop_lock(standby);
    standby->yields_until = standby->seen_ms + half_ms;
}

static enum error look_for_life(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms,
                                struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, session->head.id);
    PGresult *row = NULL;
    if (pg_session_run(session, PG_SIGNS, &values, until_ms, &row, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    const bool is_there = PQntuples(row) == 1;
    const uint64_t epoch = is_there ? pg_number(row, 0, 0) : 0, number = is_there ? pg_number(row, 0, 1) : 0;
    if (is_there)
        (void)snprintf(session->head.node, sizeof(session->head.node), "%.*s", BYTES_FORMAT(pg_field(row, 0, 2)));
    PQclear(row);
    if (!is_there)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "The row of the log is gone from tally_log.head.");
    standby->reads++;
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

static enum error wait_for_lock(struct pg_standby *standby, const struct pg_session *session, uint64_t until_ms,
                                struct failure *failure)
{
    const enum error error = begin_waiting(standby, session, until_ms + session->options->lease_ms, failure);
    if (error != OK)
        return error;
    if (pg_link_await(&standby->waiter.link, until_ms, &standby->has_lock, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    return OK;
}

enum error pg_standby_poll(struct pg_standby *standby, struct pg_session *session, uint64_t until_ms, bool *may_take,
                           struct failure *failure)
{
    *may_take = false;
    const uint32_t lease_ms = session->options->lease_ms;
    enum error error = look_for_life(standby, session, pg_now_ms() + lease_ms, failure);
    if (error == OK && standby->is_waiting && standby->lock_epoch != standby->epoch)
        drop_lock(standby);
    if (error == OK && !standby->has_lock)
        error = wait_for_lock(standby, session, until_ms, failure);
    if (error != OK)
        return error;
    const uint64_t now_ms = pg_now_ms();
    const bool is_over = now_ms - standby->seen_ms >= lease_ms && standby->reads >= READS_MIN;
    *may_take = now_ms >= standby->yields_until && (standby->has_lock || is_over);
    return OK;
}
