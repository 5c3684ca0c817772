/* See lease_postgres.h.
 *
 * The advisory lock is that of an epoch, and belongs to a connection. The owner takes it in the statement that makes
 * the epoch, so before anybody can know of it; a stand-by that gets it knows that this connection has ended. All else
 * is decided by epoch, owner and beat, each in one statement. Behind a pooler there is no lock. */
#include "relay/lease_postgres.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/keeper.h"
#include "relay/postgres.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS_MIN 1000u
#define PATIENCE_MS_MAX 3000u
/* Each epoch has its own lock: so an old connection that still hangs on a dead line can't block the next owners. */
#define LOCK_KEY(epoch) "hashtextextended('relay of @.outbox', " epoch ")"

enum {
    STATEMENT_AIM,
    STATEMENT_LOCK,
    STATEMENT_HAS_LOCK,
    STATEMENT_TRY_LOCK,
    STATEMENT_UNLOCK,
    STATEMENT_PEEK,
    STATEMENT_TAKE_OVER,
    STATEMENT_BEAT,
    STATEMENT_GIVE_UP,
    STATEMENT_COUNT,
};

static const char *const statements[STATEMENT_COUNT] = {
    [STATEMENT_AIM] = "SELECT set_config('lock_timeout', $1, false), set_config('tally.epoch', $2, false)",
    /* In a DO block, because the server's log does not show an error that is caught there; otherwise it would show four
     * a second. */
    [STATEMENT_LOCK] = "DO $do$ BEGIN PERFORM pg_advisory_lock(" LOCK_KEY(
        "current_setting('tally.epoch')::bigint") ");"
                                                  " PERFORM set_config('tally.has_lock', 'yes', false);"
                                                  " EXCEPTION WHEN lock_not_available THEN PERFORM "
                                                  "set_config('tally.has_lock', 'no', false); END $do$",
    [STATEMENT_HAS_LOCK] = "SELECT (current_setting('tally.has_lock') = 'yes')::int",
    [STATEMENT_TRY_LOCK] = "SELECT pg_try_advisory_lock(" LOCK_KEY("$1::bigint") ")::int",
    [STATEMENT_UNLOCK] = "SELECT pg_advisory_unlock(" LOCK_KEY("$1::bigint") ")",
    [STATEMENT_PEEK] = "SELECT l.source_id, l.epoch, l.owner, b.n FROM @.lease l JOIN @.beat b USING (source)"
                       " WHERE l.source = 'outbox'",
    /* $1, $2, $5: epoch, owner and beat that were seen; $3: the new owner; $4: epoch of the sink. */
    [STATEMENT_TAKE_OVER] = "UPDATE @.lease SET epoch = greatest(epoch, $4::bigint) + 1, owner = $3::uuid,"
                            " pid = pg_backend_pid(),"
                            " system_id = (SELECT system_identifier FROM pg_control_system()),"
                            " timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)"
                            " WHERE source = 'outbox' AND epoch = $1::bigint AND owner = $2::uuid"
                            " AND EXISTS (SELECT 1 FROM @.beat WHERE source = 'outbox' AND n = $5::bigint)"
                            " RETURNING source_id, epoch, CASE WHEN $6::boolean"
                            "  THEN pg_try_advisory_lock(" LOCK_KEY("epoch") ") ELSE false END",
    [STATEMENT_BEAT] =
        "UPDATE @.beat b SET n = n + 1 FROM @.lease l"
        " WHERE b.source = 'outbox' AND l.source = 'outbox' AND l.epoch = $1::bigint AND l.owner = $2::uuid"
        " RETURNING n",
    [STATEMENT_GIVE_UP] = "UPDATE @.lease SET owner = '00000000-0000-0000-0000-000000000000', pid = NULL"
                          " WHERE source = 'outbox' AND epoch = $1::bigint AND owner = $2::uuid",
};

struct lease_postgres {
    struct lease lease;
    struct postgres postgres;
    unsigned connection; /* number of the connection that the rest belongs to */
    bool has_lock;       /* that of `lock_epoch` */
    uint64_t lock_epoch;
    uint64_t aim_epoch;  /* whose lock is waited for */
    unsigned aim_ms;     /* and for how long; 0: not set yet */
    uint64_t seen_epoch; /* at the last look */
};

static struct lease_postgres *upcast(struct lease *lease)
{
    return CONTAINER_OF(lease, struct lease_postgres, lease);
}

static enum step run(struct lease_postgres *self, unsigned statement, const char *const *values, int count,
                     PGresult **result, struct fault *fault)
{
    const struct query query = {.statement = statement, .values = values, .value_count = count, .is_binary = true};
    return postgres_run(&self->postgres, &query, result, fault);
}

static enum step run_alone(struct lease_postgres *self, unsigned statement, struct fault *fault)
{
    PGresult *result;
    enum step step = run(self, statement, NULL, 0, &result, fault);
    PQclear(result);
    return step;
}

/* A new connection has no lock and no setting. */
static enum step connect_first(struct lease_postgres *self, struct fault *fault)
{
    enum step step = postgres_connect(&self->postgres, fault);
    if (step == STEP_OK && self->connection != self->postgres.connections) {
        self->connection = self->postgres.connections;
        self->has_lock = false;
        self->aim_ms = 0;
    }
    return step;
}

static void release_lock(struct lease_postgres *self)
{
    char epoch[NUMBER_TEXT_SIZE];
    postgres_number_to_text(self->lock_epoch, epoch);
    PGresult *result = NULL;
    struct fault fault;
    if (self->has_lock && self->connection == self->postgres.connections && self->postgres.connection_owned != NULL)
        (void)run(self, STATEMENT_UNLOCK, (const char *[]){epoch}, 1, &result, &fault);
    PQclear(result);
    self->has_lock = false;
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

static enum step aim(struct lease_postgres *self, unsigned wait_ms, struct fault *fault)
{
    if (self->aim_ms == wait_ms && self->aim_epoch == self->seen_epoch)
        return STEP_OK;
    char limit[NUMBER_TEXT_SIZE], epoch[NUMBER_TEXT_SIZE];
    postgres_number_to_text(wait_ms, limit);
    postgres_number_to_text(self->seen_epoch, epoch);
    PGresult *result;
    enum step step = run(self, STATEMENT_AIM, (const char *[]){limit, epoch}, 2, &result, fault);
    PQclear(result);
    self->aim_ms = wait_ms;
    self->aim_epoch = self->seen_epoch;
    return step;
}

static enum step wait_for_lock(struct lease_postgres *self, struct fault *fault)
{
    enum step step = run_alone(self, STATEMENT_LOCK, fault);
    if (step != STEP_OK)
        return step;
    PGresult *result;
    step = run(self, STATEMENT_HAS_LOCK, NULL, 0, &result, fault);
    self->has_lock = step == STEP_OK && postgres_number(result, 0, 0) != 0;
    self->lock_epoch = self->aim_epoch;
    PQclear(result);
    return step;
}

static enum step lease_wait(struct lease *lease, unsigned wait_ms, bool *is_free, struct fault *fault)
{
    struct lease_postgres *self = upcast(lease);
    *is_free = false;
    if (self->postgres.is_pooled) {
        sleep_for(wait_ms);
        return STEP_OK;
    }
    enum step step = connect_first(self, fault);
    release_lock(self);
    if (step == STEP_OK)
        step = aim(self, wait_ms, fault);
    if (step == STEP_OK)
        step = wait_for_lock(self, fault);
    *is_free = step == STEP_OK && self->has_lock;
    return step;
}

/* --- looking and taking over -------------------------------------------------------------------------------------- */

static void uid_of(struct uid *uid, const PGresult *result, int column)
{
    struct bytes field = postgres_field(result, 0, column);
    ASSERT(field.size == UID_SIZE); /* of a column that is uuid */
    memcpy(uid->bytes, field.ptr, UID_SIZE);
}

static enum step lease_peek(struct lease *lease, struct lease_view *view, struct fault *fault)
{
    PGresult *result;
    enum step step = run(upcast(lease), STATEMENT_PEEK, NULL, 0, &result, fault);
    if (step == STEP_OK && PQntuples(result) == 0) {
        step = fault_set(fault, STEP_UNFIT,
                         "table %s.lease or %s.beat has no row for the outbox. This brings it back: tally relay schema "
                         "--type postgres | psql -v ON_ERROR_STOP=1 -1",
                         upcast(lease)->postgres.schema, upcast(lease)->postgres.schema);
    } else if (step == STEP_OK) {
        uid_of(&view->term.source_id, result, 0);
        view->term.epoch = postgres_number(result, 0, 1);
        uid_of(&view->term.owner, result, 2);
        view->beat = postgres_number(result, 0, 3);
        upcast(lease)->seen_epoch = view->term.epoch;
    }
    PQclear(result);
    return step;
}

static enum step lease_take_over(struct lease *lease, const struct lease_view *view, uint64_t epoch_min,
                                 struct term *term, bool *is_mine, struct fault *fault)
{
    struct lease_postgres *self = upcast(lease);
    struct postgres_fence seen;
    char owner[UID_TEXT_SIZE], epoch[NUMBER_TEXT_SIZE], beat[NUMBER_TEXT_SIZE];
    struct uid mine;
    uid_generate(&mine); /* for this attempt only: if its answer is lost, nobody uses that owner */
    uid_to_text(&mine, owner);
    postgres_fence_of(&seen, &view->term);
    postgres_number_to_text(epoch_min, epoch);
    postgres_number_to_text(view->beat, beat);

    PGresult *result = NULL;
    const char *locks = self->postgres.is_pooled ? "no" : "yes";
    enum step step = connect_first(self, fault);
    if (step == STEP_OK)
        step = run(self, STATEMENT_TAKE_OVER, (const char *[]){seen.epoch, seen.owner, owner, epoch, beat, locks}, 6,
                   &result, fault);
    *is_mine = step == STEP_OK && PQntuples(result) == 1;
    if (*is_mine) {
        uid_of(&term->source_id, result, 0);
        term->epoch = postgres_number(result, 0, 1);
        term->owner = mine;
    }
    /* Releasing the previous owner's lock wakes the other stand-bys, which then see the new owner. */
    release_lock(self);
    if (*is_mine) {
        self->has_lock = postgres_number(result, 0, 2) != 0;
        self->lock_epoch = term->epoch;
    }
    PQclear(result);
    return step;
}

/* --- owning ------------------------------------------------------------------------------------------------------- */

/* After a reconnect the lock is gone, and a stand-by may be about to take over. If none does, the owner takes the lock
 * again. */
static enum step renew_lock(struct lease_postgres *self, const struct term *term, const struct postgres_fence *fence,
                            struct fault *fault)
{
    if (self->postgres.is_pooled || self->has_lock)
        return STEP_OK;
    PGresult *result;
    enum step step = run(self, STATEMENT_TRY_LOCK, (const char *[]){fence->epoch}, 1, &result, fault);
    self->has_lock = step == STEP_OK && postgres_number(result, 0, 0) != 0;
    self->lock_epoch = term->epoch;
    PQclear(result);
    return step;
}

static enum step lease_beat(struct lease *lease, const struct term *term, struct fault *fault)
{
    struct lease_postgres *self = upcast(lease);
    struct postgres_fence fence;
    postgres_fence_of(&fence, term);
    PGresult *result;
    enum step step = connect_first(self, fault);
    if (step != STEP_OK)
        return step;
    step = run(self, STATEMENT_BEAT, (const char *[]){fence.epoch, fence.owner}, 2, &result, fault);
    if (step == STEP_OK && PQntuples(result) == 0) {
        step = fault_set(fault, STEP_FENCED, "another relay has taken the source over");
        release_lock(self);
    } else if (step == STEP_OK) {
        step = renew_lock(self, term, &fence, fault);
    }
    PQclear(result);
    return step;
}

static void lease_give_up(struct lease *lease, const struct term *term)
{
    struct lease_postgres *self = upcast(lease);
    struct postgres_fence fence;
    postgres_fence_of(&fence, term);
    PGresult *result;
    struct fault fault;
    if (self->postgres.connection_owned == NULL)
        return; /* the connection was lost; do not wait for a new one now */
    (void)run(self, STATEMENT_GIVE_UP, (const char *[]){fence.epoch, fence.owner}, 2, &result, &fault);
    PQclear(result);
    release_lock(self);
}

static void lease_interrupt(struct lease *lease)
{
    postgres_interrupt(&upcast(lease)->postgres);
}

static void lease_close(struct lease *lease)
{
    struct lease_postgres *self = upcast(lease);
    postgres_deinit(&self->postgres);
    free(self);
}

static const struct lease_ops ops = {
    .wait = lease_wait,
    .peek = lease_peek,
    .take_over = lease_take_over,
    .beat = lease_beat,
    .give_up = lease_give_up,
    .interrupt = lease_interrupt,
    .close = lease_close,
};

struct lease *lease_postgres_create(const struct relay_spec *spec)
{
    struct lease_postgres *self = memory_allocate_zeroed(sizeof(*self));
    self->lease.ops = &ops;
    unsigned patience_ms = spec->lease_ms < PATIENCE_MS_MIN ? PATIENCE_MS_MIN : spec->lease_ms;
    postgres_init(&self->postgres, spec, "lease", statements, STATEMENT_COUNT,
                  patience_ms > PATIENCE_MS_MAX ? PATIENCE_MS_MAX : patience_ms);
    return &self->lease;
}
