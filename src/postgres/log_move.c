#include "postgres/log_move.h"

#include "platform/monotonic.h"
#include "platform/random.h"
#include "postgres/log_transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_MS 10000u       /* of a statement */
#define COPY_PATIENCE_MS 600000u /* of one that looks at all of a file, or removes all */
#define LEAVE_MS 10000u          /* so long an owner may take to give the log up; then it is taken from him */
#define LEAVE_STEP_MS 20u
#define LOCK_STEP_MS 100u
#define TEXT_SIZE 256u

struct base {
    struct pg_options options;
    char *conninfo_owned; /* NULL: borrowed */
    struct pg_session session;
};

/* A head, as PG_MOVE_FIND has it. */
struct place_of_log {
    uint32_t id;
    uint64_t epoch;
    uint8_t owner[PG_OWNER_SIZE];
    char moved_to[PG_PLACE_SIZE];
    uint32_t lease_ms; /* the longest of the nodes that have registered there */
    bool is_foreign;   /* it was written on another server: this one is a copy */
    bool is_free;      /* a copy may replace what is there */
    bool is_there;     /* there is such a head */
};

struct move {
    const char *place;
    struct base home, source, target;
    struct place_of_log led; /* where it is, by the cluster's own database; `owner` is the mark of this command */
    struct place_of_log aim; /* what the target had of it before */
    bool is_there;           /* source and target are one database; */
    bool is_from_home;       /* home and source are; */
    bool is_to_home;         /* home and target are */
    bool may_have_arrived;   /* the copy was committed, or nobody knows */
    bool is_others;          /* somebody else moves it, or has moved it */
    struct log_moved *moved;
};

/* --- databases ---------------------------------------------------------------------------------------------------- */

static enum error exec(struct base *base, const char *text, uint64_t patience_ms, PGresult **result,
                       struct failure *failure)
{
    const enum pg_outcome outcome = pg_link_exec(&base->session.link, text, pg_now_ms() + patience_ms, result, failure);
    return outcome == PG_DONE ? OK : failure->error;
}

static enum error run(struct base *base, enum pg_statement statement, const struct pg_values *values,
                      uint64_t patience_ms, PGresult **result, struct failure *failure)
{
    const enum pg_outcome outcome =
        pg_session_run(&base->session, statement, values, pg_now_ms() + patience_ms, result, failure);
    return outcome == PG_DONE ? OK : failure->error;
}

/* `place` NULL: that of `options`. */
static enum error open_base(struct base *base, const struct pg_options *options, const char *place,
                            struct failure *failure)
{
    base->options = *options;
    if (place != NULL)
        base->options.conninfo = base->conninfo_owned = pg_place_complete(place, options->conninfo);
    pg_session_init(&base->session, &base->options, "move");
    return pg_session_open(&base->session, pg_now_ms() + PATIENCE_MS, failure);
}

static void close_base(struct base *base)
{
    if (base->session.options != NULL)
        pg_session_deinit(&base->session);
    free(base->conninfo_owned);
    *base = (struct base){0};
}

static enum error ask(struct base *base, const char *text, bool *is_true, struct failure *failure)
{
    PGresult *row = NULL;
    const enum error error = exec(base, text, PATIENCE_MS, &row, failure);
    *is_true = error == OK && PQgetvalue(row, 0, 0)[0] == 't';
    PQclear(row);
    return error;
}

/* Are they one database, however they are written? Then a lock that one connection has is not given to the other. Its
 * key is drawn, so no other command has it. Two that only look alike are a server and its copy (pg_basebackup, a
 * snapshot of its disk). */
static enum error compare_bases(struct base *one, struct base *other, bool *is_same, struct failure *failure)
{
    int64_t key;
    char lock[TEXT_SIZE], unlock[TEXT_SIZE];
    bool is_mine = false, is_given = false, ignored;
    *is_same = false;
    if (one->session.server_id != other->session.server_id ||
        strcmp(PQdb(one->session.link.connection_owned), PQdb(other->session.link.connection_owned)) != 0)
        return OK;
    random_fill(&key, sizeof(key));
    (void)snprintf(lock, sizeof(lock), "SELECT pg_try_advisory_lock(%" PRIi64 ")", key);
    (void)snprintf(unlock, sizeof(unlock), "SELECT pg_advisory_unlock(%" PRIi64 ")", key);
    enum error error = ask(one, lock, &is_mine, failure);
    if (error == OK)
        error = ask(other, lock, &is_given, failure);
    if (error == OK && is_given)
        error = ask(other, unlock, &ignored, failure);
    if (error == OK && is_mine)
        error = ask(one, unlock, &ignored, failure);
    *is_same = error == OK && is_mine && !is_given;
    if (error != OK || *is_same)
        return error;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "One of the two servers is a copy of the other: both have the system identifier %" PRIu64
                       ". A log can't move between these.",
                       one->session.server_id);
}

static void add_log(const struct move *move, struct pg_values *values)
{
    pg_add_bytes(values, bytes_from_string(move->home.options.log));
}

static void take_owner(const PGresult *row, int column, struct place_of_log *head)
{
    const struct bytes owner = pg_field(row, 0, column);
    memcpy(head->owner, owner.ptr, owner.size < PG_OWNER_SIZE ? owner.size : PG_OWNER_SIZE);
}

static enum error find(const struct move *move, struct base *base, struct place_of_log *found, struct failure *failure)
{
    struct pg_values values = {0};
    add_log(move, &values);
    PGresult *row = NULL;
    *found = (struct place_of_log){0};
    const enum error error = run(base, PG_MOVE_FIND, &values, PATIENCE_MS, &row, failure);
    if (error == OK && PQntuples(row) == 1) {
        *found = (struct place_of_log){.id = (uint32_t)pg_number(row, 0, 0),
                                       .epoch = pg_number(row, 0, 1),
                                       .is_foreign = pg_number(row, 0, 4) != 0,
                                       .is_free = pg_number(row, 0, 5) != 0,
                                       .lease_ms = (uint32_t)pg_number(row, 0, 6),
                                       .is_there = true};
        take_owner(row, 2, found);
        pg_text(row, 0, 3, found->moved_to, sizeof(found->moved_to));
    }
    PQclear(row);
    return error;
}

/* --- may it be there? --------------------------------------------------------------------------------------------- */

static const char cluster_row[] = "SELECT encode(salt, 'hex'), cost, encode(fingerprint, 'hex'), node, address"
                                  " FROM tally_log.cluster";

static enum error read_cluster(struct base *base, PGresult **row, struct failure *failure)
{
    return exec(base, cluster_row, PATIENCE_MS, row, failure);
}

/* A database that has logs of the cluster says so, so that no other cluster takes them. */
static enum error write_cluster(struct base *target, const PGresult *row, struct failure *failure)
{
    const char *values[5];
    for (int i = 0; i < 5; i++)
        values[i] = PQgetvalue(row, 0, i);
    char *node = PQescapeLiteral(target->session.link.connection_owned, values[3], strlen(values[3]));
    char *address = PQescapeLiteral(target->session.link.connection_owned, values[4], strlen(values[4]));
    char text[TEXT_SIZE + 2048];
    (void)snprintf(text, sizeof(text),
                   "INSERT INTO tally_log.cluster (salt, cost, fingerprint, node, address) VALUES"
                   " (decode('%s', 'hex'), %s, decode('%s', 'hex'), %s, %s) ON CONFLICT DO NOTHING",
                   values[0], values[1], values[2], node, address);
    PQfreemem(node);
    PQfreemem(address);
    return exec(target, text, PATIENCE_MS, NULL, failure);
}

static bool is_same_cluster(const PGresult *one, const PGresult *other)
{
    return strcmp(PQgetvalue(one, 0, 0), PQgetvalue(other, 0, 0)) == 0 &&
           strcmp(PQgetvalue(one, 0, 2), PQgetvalue(other, 0, 2)) == 0;
}

/* With `claims` a target that says nothing says from here on that it has logs of this cluster. */
static enum error check_cluster(struct move *move, bool claims, struct failure *failure)
{
    PGresult *home = NULL, *target = NULL;
    enum error error = read_cluster(&move->home, &home, failure);
    if (error == OK && PQntuples(home) == 0)
        error =
            failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                        "No node with --advertise has registered in the database of --log, and only such nodes find "
                        "a log that is elsewhere.");
    if (error == OK && claims)
        error = write_cluster(&move->target, home, failure);
    if (error == OK)
        error = read_cluster(&move->target, &target, failure);
    if (error == OK && PQntuples(target) > 0 && !is_same_cluster(home, target))
        error = failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                            "The database at %s belongs to another cluster: its first node was %s, at %s.", move->place,
                            PQgetvalue(target, 0, 3), PQgetvalue(target, 0, 4));
    PQclear(home);
    PQclear(target);
    return error;
}

/* Some server without --advertise may have a namespace of that name there. */
static enum error check_aim(struct move *move, struct failure *failure)
{
    const enum error error = find(move, &move->target, &move->aim, failure);
    if (error != OK || move->is_there || !move->aim.is_there || move->aim.is_free)
        return error;
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE,
                       "The database at %s has a log of its own for a namespace %s, which did not come from this "
                       "cluster. It would be lost, so nothing was moved.",
                       move->place, move->home.options.log);
}

/* Two who move it at a time would copy what the other one is removing. The lock lasts as long as the connection to the
 * cluster's own database. A command that stalls may lose it, and go on later: so each of its steps asks for what an
 * earlier one has left (log_move.h). */
static enum error exclude_others(struct move *move, uint64_t wait_ms, struct failure *failure)
{
    const uint64_t until_ms = pg_now_ms() + wait_ms;
    bool is_mine = false;
    char text[TEXT_SIZE];
    (void)snprintf(text, sizeof(text), "SELECT pg_try_advisory_lock(hashtext('tally log move'), %" PRIu32 ")",
                   move->led.id);
    for (;;) {
        const enum error error = ask(&move->home, text, &is_mine, failure);
        if (error != OK || is_mine)
            return error;
        if (pg_now_ms() >= until_ms)
            break;
        sleep_for(LOCK_STEP_MS);
    }
    return failure_set(failure, ERROR_INVALID_PARAMETER_VALUE, "Another \"tally log move\" is at work on namespace %s.",
                       move->home.options.log);
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

static enum error fail_changed(struct move *move, struct failure *failure)
{
    move->is_others = true;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                       "Somebody else has moved namespace %s at the same time. Look at the status, and try again.",
                       move->home.options.log);
}

/* Runs what returns a row if the row of the log still says what this command expects. */
static enum error run_expecting(struct move *move, struct base *base, enum pg_statement statement,
                                const struct pg_values *values, PGresult **row, struct failure *failure)
{
    PGresult *result = NULL;
    const enum error error = run(base, statement, values, PATIENCE_MS, &result, failure);
    const bool is_expected = error == OK && PQntuples(result) == 1;
    if (is_expected && row != NULL)
        *row = result;
    else
        PQclear(result);
    return error != OK || is_expected ? error : fail_changed(move, failure);
}

static struct pg_values where_it_is(const struct move *move)
{
    struct pg_values values = {0};
    add_log(move, &values);
    pg_add_bytes(&values, bytes_from_string(move->led.moved_to));
    pg_add_bytes(&values, bytes_make(move->led.owner, PG_OWNER_SIZE));
    return values;
}

static enum error mark(struct move *move, struct failure *failure)
{
    struct pg_values values = {0};
    add_log(move, &values);
    pg_add_bytes(&values, bytes_from_string(move->led.moved_to));
    PGresult *row = NULL;
    const enum error error = run_expecting(move, &move->home, PG_MOVE_MARK, &values, &row, failure);
    if (error == OK)
        take_owner(row, 0, &move->led);
    PQclear(row);
    return error;
}

/* Is it still this command that moves the log? In a transaction nobody else moves it before that ends. */
static enum error hold(struct move *move, struct base *base, struct failure *failure)
{
    const struct pg_values values = where_it_is(move);
    return run_expecting(move, base, PG_MOVE_HOLD, &values, NULL, failure);
}

/* Ends the epoch of `head`; *is_sealed false: it has ended before. In the cluster's own database the mark keeps
 * everybody off; in another one the head says that the log is elsewhere. */
static enum error seal(struct move *move, struct place_of_log *head, bool *is_sealed, struct failure *failure)
{
    struct pg_values values = {0};
    add_log(move, &values);
    pg_add_i64(&values, head->epoch);
    pg_add_bytes(&values, bytes_make(head->owner, PG_OWNER_SIZE));
    pg_add_bytes(&values, bytes_from_string(move->is_from_home ? "" : move->place));
    PGresult *row = NULL;
    const enum error error = run(&move->source, PG_MOVE_SEAL, &values, PATIENCE_MS, &row, failure);
    *is_sealed = error == OK && PQntuples(row) == 1;
    if (*is_sealed) {
        head->epoch = pg_number(row, 0, 0);
        take_owner(row, 1, head);
    }
    PQclear(row);
    if (*is_sealed && move->is_from_home)
        memcpy(move->led.owner, head->owner, PG_OWNER_SIZE);
    return error;
}

/* Has the process ended, or given up, that has the log in this epoch? */
static enum error has_left(struct move *move, const struct place_of_log *head, bool *has_gone, struct failure *failure)
{
    move->source.session.head.id = head->id;
    const uint64_t until_ms = pg_now_ms() + PATIENCE_MS;
    const enum pg_outcome outcome =
        pg_session_try_lock(&move->source.session, head->epoch, has_gone, until_ms, failure);
    return outcome == PG_DONE ? OK : failure->error;
}

/* Waits for the owner to leave, and seals the log from him on. An owner that does not leave is fenced off: requests
 * that are under way there may or may not have happened, as when its machine had failed. It may answer what it knows
 * until its lease is over, so nobody else opens the log before. */
static enum error stop(struct move *move, struct place_of_log *head, struct failure *failure)
{
    const uint64_t until_ms = pg_now_ms() + LEAVE_MS;
    bool is_sealed = false, has_gone = false;
    enum error error = OK;
    while (error == OK && !is_sealed) {
        error = find(move, &move->source, head, failure);
        if (error == OK && (!head->is_there || head->is_foreign))
            return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                               "The log of namespace %s is not where it should be: %s.", move->home.options.log,
                               head->is_there ? "that database is a copy of the one where it was written"
                                              : "that database does not have it");
        if (error == OK)
            error = has_left(move, head, &has_gone, failure);
        const bool is_time = has_gone || pg_now_ms() >= until_ms;
        if (error == OK && is_time)
            error = hold(move, &move->home, failure);
        if (error == OK && is_time)
            error = seal(move, head, &is_sealed, failure);
        if (error == OK && !is_sealed)
            sleep_for(LEAVE_STEP_MS);
    }
    if (error == OK && !has_gone)
        sleep_for(move->led.lease_ms);
    return error;
}

/* --- copying ------------------------------------------------------------------------------------------------------ */

/* `is_elsewhere`: only if the head says so, for whoever moves it next may have brought it back by now. */
static enum error clean(const struct move *move, struct base *base, bool is_elsewhere, struct failure *failure)
{
    struct pg_values values = {0};
    add_log(move, &values);
    pg_add_bytes(&values, is_elsewhere ? BYTES("true") : BYTES("false"));
    return run(base, PG_MOVE_CLEAN, &values, COPY_PATIENCE_MS, NULL, failure);
}

/* The row of the log at the target, in the transaction that replaces it: as it was when this command began, for another
 * one may have brought the log there since. In the cluster's own database the mark says so. */
static enum error hold_aim(struct move *move, struct failure *failure)
{
    if (move->is_to_home)
        return hold(move, &move->target, failure);
    struct pg_values values = {0};
    add_log(move, &values);
    pg_add_i64(&values, move->aim.epoch);
    return run_expecting(move, &move->target, PG_MOVE_AIM, &values, NULL, failure);
}

/* What was copied is what was sealed: nobody has had the log since. */
static enum error check_source(struct move *move, const struct place_of_log *sealed, struct failure *failure)
{
    struct place_of_log head;
    const enum error error = find(move, &move->source, &head, failure);
    return error != OK || head.epoch == sealed->epoch ? error : fail_changed(move, failure);
}

/* Nobody has it, and whoever wants it may take it. *epoch becomes one behind every one that it ever had. */
static enum error open_there(const struct move *move, struct base *base, uint64_t *epoch, struct failure *failure)
{
    struct pg_values values = {0};
    add_log(move, &values);
    pg_add_i64(&values, *epoch);
    PGresult *row = NULL;
    const enum error error = run(base, PG_MOVE_OPEN, &values, PATIENCE_MS, &row, failure);
    if (error == OK)
        *epoch = pg_number(row, 0, 0);
    PQclear(row);
    return error;
}

/* All or nothing. What the target still has of an earlier time goes. */
static enum error copy(struct move *move, const struct place_of_log *head, uint64_t *epoch, struct failure *failure)
{
    struct pg_session *source = &move->source.session, *target = &move->target.session;
    struct pg_head there;
    PGresult *files = NULL;
    source->head.id = head->id;
    const uint64_t until_ms = pg_now_ms() + PATIENCE_MS;
    enum error error = pg_session_list_files(source, until_ms, &files, failure) == PG_DONE ? OK : failure->error;
    if (error == OK && pg_session_read_head(target, &there, until_ms, failure) != PG_DONE)
        error = failure->error;
    if (error == OK)
        error = exec(&move->target, "BEGIN", PATIENCE_MS, NULL, failure);
    if (error == OK)
        error = hold_aim(move, failure);
    if (error == OK)
        error = clean(move, &move->target, false, failure);
    for (int i = 0; error == OK && i < PQntuples(files); i++)
        error = log_transfer_file(source, target, there.id, files, i, &move->moved->bytes, failure);
    if (error == OK)
        error = check_source(move, head, failure);
    if (error == OK)
        error = open_there(move, &move->target, epoch, failure);
    move->may_have_arrived = error == OK;
    if (error == OK)
        error = exec(&move->target, "COMMIT", COPY_PATIENCE_MS, NULL, failure);
    move->moved->files = error == OK ? (uint64_t)PQntuples(files) : 0;
    PQclear(files);
    return error;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* From here on nodes open it there. In the cluster's own database they did so when the copy was committed. */
static enum error lead(struct move *move, uint64_t epoch, struct failure *failure)
{
    struct pg_values values = where_it_is(move);
    if (move->is_to_home)
        return OK;
    pg_add_bytes(&values, bytes_from_string(move->place));
    pg_add_i64(&values, epoch);
    return run_expecting(move, &move->home, PG_MOVE_LEAD, &values, NULL, failure);
}

/* It stays where it is, in `base`. What was marked or sealed may be had again. */
static enum error stay(struct move *move, struct base *base, const char *place, struct failure *failure)
{
    struct place_of_log head;
    uint64_t epoch = move->led.epoch;
    enum error error = find(move, base, &head, failure);
    if (error == OK && !move->is_from_home && head.moved_to[0] != '\0')
        error = open_there(move, base, &epoch, failure);
    struct pg_values values = where_it_is(move);
    pg_add_bytes(&values, bytes_from_string(move->is_from_home ? "" : place));
    return error == OK ? run_expecting(move, &move->home, PG_MOVE_STAY, &values, NULL, failure) : error;
}

/* Where the mark stands may have changed without an answer. */
static enum error find_again(struct move *move, struct failure *failure)
{
    const struct place_of_log led = move->led;
    const enum error error = find(move, &move->home, &move->led, failure);
    return error != OK || strcmp(led.moved_to, move->led.moved_to) == 0 ? error : fail_changed(move, failure);
}

/* On connections of its own, for those of before may have broken. The lock is free when PostgreSQL has noticed that. */
static enum error undo(struct move *move, const struct pg_options *options, struct failure *failure)
{
    const char *place = move->led.moved_to[0] == '\0' ? NULL : move->led.moved_to;
    close_base(&move->target); /* it may have rows locked */
    close_base(&move->source);
    close_base(&move->home);
    enum error error = open_base(&move->home, options, NULL, failure);
    if (error == OK)
        error = exclude_others(move, options->lease_ms + LEAVE_MS, failure);
    if (error == OK)
        error = find_again(move, failure);
    if (error == OK)
        error = open_base(&move->source, options, place, failure);
    return error == OK ? stay(move, &move->source, place, failure) : error;
}

/* Adds to what has failed what became of the log. */
static enum error give_up(struct move *move, const struct pg_options *options, struct failure *failure)
{
    struct failure cause;
    failure_init(&cause);
    if (move->is_others)
        return failure->error;
    const char *state = "It may still be marked, so that nobody can have it: type the same command again.";
    if (!move->may_have_arrived && undo(move, options, &cause) == OK)
        state = "It stays where it was.";
    else if (move->is_others)
        state = "Somebody else has moved it at the same time.";
    char said[sizeof(failure->text)];
    (void)snprintf(said, sizeof(said), "%s", failure->text);
    return failure_set(failure, failure->error, "%s %s", said, state);
}

static enum error stop_and_copy(struct move *move, struct failure *failure)
{
    struct place_of_log head = {0};
    enum error error = stop(move, &head, failure);
    const uint64_t closed_ms = pg_now_ms();
    uint64_t epoch = move->led.epoch > head.epoch ? move->led.epoch : head.epoch;
    if (error == OK)
        error = copy(move, &head, &epoch, failure);
    if (error == OK)
        error = lead(move, epoch, failure);
    move->moved->closed_ms = pg_now_ms() - closed_ms;
    if (error != OK)
        return error;
    move->moved->is_clean = clean(move, &move->source, true, failure) == OK;
    return OK;
}

static enum error open_all(struct move *move, const struct pg_options *options, struct failure *failure)
{
    enum error error = open_base(&move->home, options, NULL, failure);
    if (error == OK)
        error = find(move, &move->home, &move->led, failure);
    if (error == OK && !move->led.is_there)
        return failure_set(failure, ERROR_RESOURCE_NOT_FOUND,
                           "There is no namespace %s: \"tally cluster status\" lists them all.", options->log);
    if (error == OK)
        error = open_base(&move->target, options, move->place, failure);
    if (error == OK)
        error = check_cluster(move, false, failure);
    if (error == OK)
        error = exclude_others(move, 0, failure);
    if (error == OK)
        error = find(move, &move->home, &move->led, failure);
    const char *place = move->led.moved_to[0] == '\0' ? NULL : move->led.moved_to;
    if (error == OK)
        error = open_base(&move->source, options, place, failure);
    if (error == OK)
        error = compare_bases(&move->source, &move->target, &move->is_there, failure);
    if (error == OK)
        error = compare_bases(&move->home, &move->source, &move->is_from_home, failure);
    if (error == OK)
        error = compare_bases(&move->home, &move->target, &move->is_to_home, failure);
    return error == OK ? check_aim(move, failure) : error;
}

static enum error move_it(struct move *move, const struct pg_options *options, struct failure *failure)
{
    enum error error = open_all(move, options, failure);
    if (error != OK)
        return error;
    move->moved->was_there = move->is_there;
    if (move->moved->was_there)
        return stay(move, &move->target, move->place, failure);
    error = check_cluster(move, true, failure);
    if (error == OK)
        error = mark(move, failure);
    if (error != OK)
        return error;
    return stop_and_copy(move, failure) == OK ? OK : give_up(move, options, failure);
}

enum error log_move(const struct pg_options *options, const char *place, struct log_moved *moved,
                    struct failure *failure)
{
    struct move move = {.place = place, .moved = moved};
    *moved = (struct log_moved){.is_clean = true};
    enum error error = pg_place_check(place, failure);
    if (error == OK)
        error = move_it(&move, options, failure);
    close_base(&move.target);
    close_base(&move.source);
    close_base(&move.home);
    return error;
}
