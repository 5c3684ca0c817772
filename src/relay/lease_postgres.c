/* See lease_postgres.h.
 *
 * The advisory lock belongs to the connection. The owner takes it when it can; a stand-by that gets it knows that some owner's
 * connection has ended, and that it was the owner's of now if no process of that number is left. All else is decided by epoch,
 * owner and beat, each in one statement. Behind a pooler there is no lock. */
#include "relay/lease_postgres.h"

#include "base/assert.h"
#include "base/memory.h"
#include "relay/keeper.h"
#include "relay/postgres.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_MS_MIN 1000u
#define PATIENCE_MS_MAX 3000u
/* PostgreSQL gives a dead connection's locks back a moment before its process is gone. */
#define GONE_MS 40u
#define GONE_STEP_MS 4u

#define LOCK_KEY "hashtextextended('relay of @.outbox', 0)"

enum {
    STATEMENT_LIMIT,
    STATEMENT_LOCK,
    STATEMENT_IS_FREE,
    STATEMENT_TRY_LOCK,
    STATEMENT_UNLOCK,
    STATEMENT_PEEK,
    STATEMENT_TAKE_OVER,
    STATEMENT_MARK,
    STATEMENT_BEAT,
    STATEMENT_GIVE_UP,
    STATEMENT_COUNT,
};

static const char *const statements[STATEMENT_COUNT] = {
    [STATEMENT_LIMIT] = "SELECT set_config('lock_timeout', $1, false)",
    /* In a block, since an error that is caught does not stand in the server's log, twice a second. */
    [STATEMENT_LOCK] =
        "DO $do$ BEGIN PERFORM pg_advisory_lock(" LOCK_KEY ");"
        " PERFORM set_config('tally.has_lock', 'yes', false);"
        " EXCEPTION WHEN lock_not_available THEN PERFORM set_config('tally.has_lock', 'no', false); END $do$",
    [STATEMENT_IS_FREE] =
        "SELECT (current_setting('tally.has_lock') = 'yes')::int,"
        " (NOT EXISTS (SELECT FROM pg_stat_activity a, @.lease l"
        "               WHERE l.source = 'outbox' AND a.pid = l.pid AND a.datname = current_database()))::int",
    [STATEMENT_TRY_LOCK] = "SELECT pg_try_advisory_lock(" LOCK_KEY ")::int",
    [STATEMENT_UNLOCK] = "SELECT pg_advisory_unlock(" LOCK_KEY ")",
    [STATEMENT_PEEK] = "SELECT l.source_id, l.epoch, l.owner, b.n FROM @.lease l JOIN @.beat b USING (source)"
                       " WHERE l.source = 'outbox'",
    /* $1, $2, $5: epoch, owner and beat that were seen; $3: the new owner; $4: epoch of the sink. */
    [STATEMENT_TAKE_OVER] = "UPDATE @.lease SET epoch = greatest(epoch, $4::bigint) + 1, owner = $3::uuid,"
                            " pid = pg_backend_pid(),"
                            " system_id = (SELECT system_identifier FROM pg_control_system()),"
                            " timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8)"
                            " WHERE source = 'outbox' AND epoch = $1::bigint AND owner = $2::uuid"
                            " AND EXISTS (SELECT 1 FROM @.beat WHERE source = 'outbox' AND n = $5::bigint)"
                            " RETURNING source_id, epoch",
    /* On a new connection of the same owner. */
    [STATEMENT_MARK] = "UPDATE @.lease SET pid = pg_backend_pid()"
                       " WHERE source = 'outbox' AND epoch = $1::bigint AND owner = $2::uuid",
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
    bool has_lock;         /* the connection numbered `connection` has it */
    unsigned connection;   /* the one that was looked after last */
    unsigned waits_for_ms; /* its lock_timeout; 0: as it came */
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

/* A connection that is new has no lock. */
static enum step connect_first(struct lease_postgres *self, bool *is_new, struct fault *fault)
{
    enum step step = postgres_connect(&self->postgres, fault);
    *is_new = self->connection != self->postgres.connections;
    if (step == STEP_OK && *is_new) {
        self->connection = self->postgres.connections;
        self->has_lock = false;
        self->waits_for_ms = 0;
    }
    return step;
}

static void release_lock(struct lease_postgres *self)
{
    struct fault fault;
    if (self->has_lock && self->connection == self->postgres.connections && self->postgres.connection_owned != NULL)
        (void)run_alone(self, STATEMENT_UNLOCK, &fault);
    self->has_lock = false;
}

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

/* --- waiting ------------------------------------------------------------------------------------------------------- */

static enum step wait_for_lock(struct lease_postgres *self, unsigned wait_ms, struct fault *fault)
{
    enum step step = STEP_OK;
    if (self->waits_for_ms != wait_ms) {
        char limit[NUMBER_TEXT_SIZE];
        postgres_number_to_text(wait_ms, limit);
        PGresult *result;
        step = run(self, STATEMENT_LIMIT, (const char *[]){limit}, 1, &result, fault);
        PQclear(result);
        self->waits_for_ms = wait_ms;
    }
    return step == STEP_OK ? run_alone(self, STATEMENT_LOCK, fault) : step;
}

/* Has it the lock now, and is the owner's process gone? Asks again for a moment, since the lock comes first. */
static enum step see_whether_free(struct lease_postgres *self, bool *is_free, struct fault *fault)
{
    bool is_gone = false;
    for (unsigned waited_ms = 0;; waited_ms += GONE_STEP_MS) {
        PGresult *result;
        enum step step = run(self, STATEMENT_IS_FREE, NULL, 0, &result, fault);
        if (step != STEP_OK)
            return step;
        self->has_lock = postgres_number(result, 0, 0) != 0;
        is_gone = postgres_number(result, 0, 1) != 0;
        PQclear(result);
        if (!self->has_lock || is_gone || waited_ms >= GONE_MS)
            break;
        nap(GONE_STEP_MS);
    }
    *is_free = self->has_lock && is_gone;
    return STEP_OK;
}

static enum step lease_wait(struct lease *lease, unsigned wait_ms, bool *is_free, struct fault *fault)
{
    struct lease_postgres *self = upcast(lease);
    bool is_new;
    *is_free = false;
    if (self->postgres.is_pooled) {
        nap(wait_ms);
        return STEP_OK;
    }
    uint64_t began_ms = keeper_now_ms();
    enum step step = connect_first(self, &is_new, fault);
    if (step == STEP_OK)
        step = wait_for_lock(self, wait_ms, fault);
    if (step == STEP_OK)
        step = see_whether_free(self, is_free, fault);
    if (step == STEP_OK && self->has_lock && !*is_free) {
        /* The owner lives and lost its lock, or never had it: it takes it with its next beat. */
        release_lock(self);
        uint64_t took_ms = keeper_now_ms() - began_ms;
        if (took_ms < wait_ms)
            nap(wait_ms - (unsigned)took_ms);
    }
    return step;
}

/* --- looking and taking over --------------------------------------------------------------------------------------- */

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
                         "%s.lease or %s.beat has no row for the outbox: tally relay schema --type postgres "
                         "prints what brings it",
                         upcast(lease)->postgres.schema, upcast(lease)->postgres.schema);
    } else if (step == STEP_OK) {
        uid_of(&view->term.source_id, result, 0);
        view->term.epoch = postgres_number(result, 0, 1);
        uid_of(&view->term.owner, result, 2);
        view->beat = postgres_number(result, 0, 3);
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
    uid_generate(&mine); /* of this attempt: if its answer is lost, nobody is that owner */
    uid_to_text(&mine, owner);
    postgres_fence_of(&seen, &view->term);
    postgres_number_to_text(epoch_min, epoch);
    postgres_number_to_text(view->beat, beat);

    PGresult *result;
    enum step step =
        run(self, STATEMENT_TAKE_OVER, (const char *[]){seen.epoch, seen.owner, owner, epoch, beat}, 5, &result, fault);
    *is_mine = step == STEP_OK && PQntuples(result) == 1;
    if (*is_mine) {
        uid_of(&term->source_id, result, 0);
        term->epoch = postgres_number(result, 0, 1);
        term->owner = mine;
    } else if (step == STEP_OK) {
        release_lock(self);
    }
    PQclear(result);
    return step;
}

/* --- owning -------------------------------------------------------------------------------------------------------- */

/* The owner's connection is to be known, and to have the lock, which another one may still hold for a moment. */
static enum step settle_in(struct lease_postgres *self, const struct postgres_fence *fence, bool is_new,
                           struct fault *fault)
{
    PGresult *result;
    enum step step = STEP_OK;
    if (self->postgres.is_pooled)
        return STEP_OK;
    if (is_new) {
        step = run(self, STATEMENT_MARK, (const char *[]){fence->epoch, fence->owner}, 2, &result, fault);
        PQclear(result);
    }
    if (step == STEP_OK && !self->has_lock) {
        step = run(self, STATEMENT_TRY_LOCK, NULL, 0, &result, fault);
        self->has_lock = step == STEP_OK && postgres_number(result, 0, 0) != 0;
        PQclear(result);
    }
    return step;
}

static enum step lease_beat(struct lease *lease, const struct term *term, struct fault *fault)
{
    struct lease_postgres *self = upcast(lease);
    struct postgres_fence fence;
    postgres_fence_of(&fence, term);
    bool is_new;
    PGresult *result;
    enum step step = connect_first(self, &is_new, fault);
    if (step != STEP_OK)
        return step;
    step = run(self, STATEMENT_BEAT, (const char *[]){fence.epoch, fence.owner}, 2, &result, fault);
    if (step == STEP_OK && PQntuples(result) == 0) {
        step = fault_set(fault, STEP_FENCED, "another relay has taken the source over");
        release_lock(self);
    } else if (step == STEP_OK) {
        step = settle_in(self, &fence, is_new, fault);
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
        return; /* it was lost; that is no time to wait for another one */
    (void)run(self, STATEMENT_GIVE_UP, (const char *[]){fence.epoch, fence.owner}, 2, &result, &fault);
    PQclear(result);
    release_lock(self);
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
