/* A node that follows a log which another one owns, until it is the owner itself. */
#include "postgres/log_state.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/segment.h"
#include "platform/monotonic.h"
#include <stdlib.h>

#define POLL_MS 20u
#define IDLE_AFTER_MS 1000u   /* a log that has not grown for so long is looked at less often */
#define IDLE_POLL_MS 100u     /* at most; who waits for its lock is told at once all the same */
#define LOOKS_PER_LEASE 20u   /* at least */
#define QUIET_AFTER_MS 10000u /* and after so long even less often: */
#define QUIET_POLL_MS 400u    /* at most */
#define QUIET_LOOKS 8u        /* in a lease, at least */
#define CAUGHT_UP_MS 100u     /* whoever applies what a round has read in less is not behind */

/* --- reading what is new ------------------------------------------------------------------------------------------ */

struct followed {
    struct pg_file *file;
    uint64_t start;
};

static int compare_falling(const void *a, const void *b)
{
    const struct followed *one = a, *other = b;
    return (one->start < other->start) - (one->start > other->start);
}

/* The segments that may grow, the newest first; for the caller to free. */
static struct followed *list_growing(const struct pg_log *log, size_t *count)
{
    struct followed *found = memory_allocate((log->cache.count + 1) * sizeof(*found));
    *count = 0;
    for (size_t i = 0; i < log->cache.count; i++) {
        struct followed one = {.file = log->cache.files_owned[i]};
        if (segment_name_decode(one.file->name, &one.start) && (!log->has_newest || one.start >= log->newest))
            found[(*count)++] = one;
    }
    qsort(found, *count, sizeof(*found), compare_falling);
    return found;
}

/* Its segment was removed before this node had read all of it. */
static enum error fail_too_slow(struct failure *failure)
{
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                       "this node was too slow to follow: what it had not read yet was removed. It begins again, from "
                       "the newest snapshot.");
}

/* A segment is removed, and the next one has another position. So one of the same position that is another file was
 * made by an owner that does not know the frames which this node has applied. */
static enum error fail_another(const struct pg_file *file, struct failure *failure)
{
    return failure_set(failure, ERROR_DISK_FAILED,
                       PG_LOST "file %s is not the one that this node has read. It begins again.", file->name);
}

/* Are these segments, which were read for the last time, still there? One that was removed before it was read to its
 * end looked as if nothing had been added to it (L13): it gets another name before the first of its chunks goes. */
static enum error check_listed(struct pg_log *log, const struct followed *found, size_t count, struct failure *failure)
{
    PGresult *rows = NULL;
    if (pg_session_list_files(&log->session, pg_log_deadline(log), &rows, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    enum error error = OK;
    for (size_t i = 0; i < count && error == OK; i++)
        if (!pg_file_is_listed(found[i].file, rows))
            error = fail_too_slow(failure);
    PQclear(rows);
    return error;
}

/* The newest first: where one has frames, those before it have ended, and are read to their ends after that was
 * seen. */
static enum error read_segments(struct pg_log *log, const struct followed *found, size_t count, bool *has_grown,
                                struct failure *failure)
{
    const uint64_t patience_ms = log->options.lease_ms;
    size_t newest = count;
    for (size_t i = 0; i < count; i++) {
        struct pg_file *file = found[i].file;
        const uint64_t end = file->chain.end;
        const enum error error = file->is_cached
                                     ? pg_cache_follow(&log->cache, &log->session, file, patience_ms, failure)
                                     : pg_cache_complete(&log->cache, &log->session, file, patience_ms, failure);
        if (error != OK)
            return error;
        *has_grown = *has_grown || file->chain.end > end;
        if (newest == count && file->chain.end > SEGMENT_HEADER_SIZE)
            newest = i;
    }
    if (newest + 1 < count) {
        const enum error error = check_listed(log, &found[newest + 1], count - newest - 1, failure);
        if (error != OK)
            return error;
    }
    if (newest < count) {
        log->newest = found[newest].start;
        log->newest_id = found[newest].file->id;
    }
    log->has_newest = log->has_newest || newest < count;
    return OK;
}

/* Of a log that is on its way to another server nothing new comes, and its files go here. */
static enum error read_new(struct pg_log *log, bool *has_grown, struct failure *failure)
{
    if (log->session.head.is_away)
        return OK;
    const enum error error = pg_cache_list(&log->cache, &log->session, pg_log_deadline(log), failure);
    if (error != OK)
        return error;
    size_t count;
    struct followed *found = list_growing(log, &count);
    const bool is_behind = log->has_newest && (count == 0 || found[count - 1].start != log->newest);
    const bool is_another = log->has_newest && !is_behind && found[count - 1].file->id != log->newest_id;
    enum error read = OK;
    if (is_behind)
        read = fail_too_slow(failure);
    else if (is_another)
        read = fail_another(found[count - 1].file, failure);
    else
        read = read_segments(log, found, count, has_grown, failure);
    free(found);
    return read;
}

/* --- taking over -------------------------------------------------------------------------------------------------- */

static enum error begin_beats(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, log->session.head.id);
    return pg_session_run(&log->session, PG_BEGIN_BEAT, &values, until_ms, NULL, failure) == PG_DONE ? OK
                                                                                                     : failure->error;
}

/* Has PostgreSQL got all that this node has read (L17)? A failover to an asynchronous replica may have taken some of it
 * back, and the owner since then may have written nothing that would show it. */
static enum error check_tails(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    enum error error = OK;
    for (size_t i = 0; error == OK && i < log->cache.count; i++) {
        struct followed one = {.file = log->cache.files_owned[i]};
        if (!segment_name_decode(one.file->name, &one.start) || one.start < log->newest || !one.file->is_cached)
            continue;
        error = pg_log_check_tail(log, one.file, until_ms, failure);
        if (error == ERROR_DISK_FAILED && check_listed(log, &one, 1, failure) != OK)
            /* It was removed, and is not lost; or nobody knows. One without frames had only been prepared. */
            error = one.file->chain.end > SEGMENT_HEADER_SIZE ? ERROR_SERVICE_UNAVAILABLE : OK;
    }
    return error;
}

/* Makes this node the owner. ERROR_LOG_LOCKED: another one was faster. */
static enum error take(struct pg_log *log, struct failure *failure)
{
    const uint64_t began_ms = pg_now_ms(), until_ms = pg_log_deadline(log);
    bool has_grown = false;
    enum error error = pg_session_seal(&log->session, &log->session.head, until_ms, failure);
    if (error == OK)
        error = begin_beats(log, until_ms, failure);
    if (error == OK)
        error = read_new(log, &has_grown, failure);
    if (error == OK)
        error = check_tails(log, until_ms, failure);
    if (error == OK)
        error = pg_log_check_replicas(log, until_ms, failure);
    if (error != OK)
        return error;
    log->is_owner = true;
    pg_link_watch(&log->session.link);
    atomic_store_explicit(&log->proved_ms, began_ms, memory_order_release);
    pg_log_join_pulse(log);
    return OK;
}

/* The connection that has waited for the lock becomes the one that writes. */
static void use_waiter(struct pg_log *log)
{
    if (!log->standby.has_lock)
        return;
    pg_link_close(&log->session.link);
    pg_link_move(&log->session.link, &log->standby.waiter.link);
    log->standby.is_waiting = log->standby.has_lock = false;
}

/* Takes the log from the owner that has shown no life: if it has another one by now, or was left at rest, goes on
 * following that. */
static enum error try_to_take(struct pg_log *log, bool *is_owner, struct failure *failure)
{
    use_waiter(log);
    struct pg_session *session = &log->session;
    const uint64_t epoch = log->standby.epoch;
    if (pg_session_read_head(session, &session->head, pg_log_deadline(log), failure) != PG_DONE)
        return failure->error;
    const bool is_free = session->head.epoch == epoch && pg_standby_is_willing(session);
    const enum error error = is_free ? take(log, failure) : ERROR_LOG_LOCKED;
    *is_owner = error == OK;
    if (error == OK) {
        pg_standby_deinit(&log->standby);
        return OK;
    }
    pg_link_close(&session->link); /* with the locks that it has */
    pg_standby_note_break(&log->standby);
    return error == ERROR_LOG_LOCKED ? OK : error;
}

/* --- following ---------------------------------------------------------------------------------------------------- */

/* Many logs are followed, and most of them do not grow. */
static uint64_t poll_until(const struct pg_log *log)
{
    const uint64_t now_ms = pg_now_ms();
    const bool is_quiet = now_ms >= log->grown_ms + QUIET_AFTER_MS;
    const uint64_t most_ms = is_quiet ? QUIET_POLL_MS : IDLE_POLL_MS;
    const uint64_t idle_ms = log->options.lease_ms / (is_quiet ? QUIET_LOOKS : LOOKS_PER_LEASE);
    if (now_ms < log->grown_ms + IDLE_AFTER_MS || idle_ms < POLL_MS)
        return now_ms + POLL_MS;
    return now_ms + (idle_ms < most_ms ? idle_ms : most_ms);
}

/* One round: reads what is new, and takes the log if its owner is gone. */
static enum error follow(struct pg_log *log, bool *has_grown, bool *is_owner, struct failure *failure)
{
    const bool is_new = !pg_link_is_open(&log->session.link);
    log->round_ms = pg_now_ms();
    log->session.link.gives_way = true;
    enum error error = pg_session_open(&log->session, pg_log_deadline(log), failure);
    log->session.link.gives_way = false;
    if (error == OK)
        error = read_new(log, has_grown, failure);
    if (error == OK && is_new)
        error = check_tails(log, pg_log_deadline(log), failure);
    if (*has_grown) {
        pg_standby_note_life(&log->standby);
        log->grown_ms = pg_now_ms();
    }
    if (error != OK || *has_grown)
        return error;
    atomic_store(&log->is_caught_up, true);
    bool may_take = false;
    error = pg_standby_poll(&log->standby, &log->session, poll_until(log), &may_take, failure);
    if (error == OK)
        pg_log_note_owner(log);
    if (error == OK)
        error = pg_log_check_replicas(log, pg_log_deadline(log), failure);
    if (error == ERROR_DISK_FAILED)
        return OK; /* until there is a replica */
    return error == OK && may_take ? try_to_take(log, is_owner, failure) : error;
}

/* A round that PostgreSQL did not answer is tried again: nobody else gets an answer, either. */
static enum error follow_patiently(struct pg_log *log, bool *has_grown, bool *is_owner, struct failure *failure)
{
    const enum error error = follow(log, has_grown, is_owner, failure);
    const bool is_broken = error == ERROR_SERVICE_UNAVAILABLE && !pg_link_is_open(&log->session.link);
    if (is_broken)
        pg_standby_note_break(&log->standby);
    const bool has_waited = log->standby.is_waiting && !log->standby.has_lock;
    if (is_broken || !(*has_grown || *is_owner || has_waited))
        sleep_for(POLL_MS);
    return is_broken ? OK : error;
}

/* Whoever waits for more has applied what was there. A log that always grows has no round without anything new: there
 * the time counts that the newest one took. */
static void note_followed(struct pg_log *log)
{
    atomic_store(&log->is_caught_up, log->round_ms != 0 && pg_now_ms() < log->round_ms + CAUGHT_UP_MS);
    for (size_t i = 0; i < log->cache.count; i++)
        if (log->cache.files_owned[i]->is_cached)
            pg_log_note_position(log, log->cache.files_owned[i]);
}

enum error pg_log_await(struct pg_log *log, bool *is_owner, struct failure *failure)
{
    note_followed(log);
    struct failure cause;
    failure_init(&cause);
    *is_owner = log->is_owner;
    bool has_grown = false;
    enum error error = OK;
    while (error == OK && !*is_owner && !has_grown)
        if (atomic_load(&log->is_stopped))
            error = failure_set(&cause, ERROR_SERVICE_UNAVAILABLE, "the daemon is stopping.");
        else
            error = follow_patiently(log, &has_grown, is_owner, &cause);
    return error == OK ? OK : failure_set(failure, error, "log %s in PostgreSQL: %s", log->options.log, cause.text);
}

/* A log that nobody has written to yet has nothing to follow. */
static bool is_empty(const struct pg_log *log)
{
    uint64_t start;
    for (size_t i = 0; i < log->cache.count; i++)
        if (segment_name_decode(log->cache.files_owned[i]->name, &start))
            return false;
    return true;
}

/* ERROR_LOG_LOCKED: somebody has it. */
static enum error claim(struct pg_log *log, struct failure *failure)
{
    bool is_free = false;
    if (pg_session_try_lock(&log->session, log->session.head.epoch, &is_free, pg_log_deadline(log), failure) != PG_DONE)
        return failure->error;
    if (!is_free)
        return failure_set(failure, ERROR_LOG_LOCKED, "log %s in PostgreSQL: node %s has it; stop that one first.",
                           log->options.log, log->session.head.node.name);
    return take(log, failure);
}

/* A node of a cluster learns where the log is, and opens it there (tallyd/belonging.h). */
static enum error check_place(const struct pg_log *log, struct failure *failure)
{
    if (!log->session.head.is_away)
        return OK;
    const bool learns = log->options.may_take != NULL;
    return failure_set(failure, learns ? ERROR_SERVICE_UNAVAILABLE : ERROR_LOG_LOCKED,
                       "log %s has moved to another PostgreSQL, or is on its way there (\"tally cluster status\" says "
                       "where).%s",
                       log->options.log, learns ? "" : " Only nodes with --advertise follow it.");
}

enum error pg_log_join(struct pg_log *log, struct failure *failure)
{
    struct pg_session *session = &log->session;
    const uint64_t until_ms = pg_log_deadline(log);
    enum error error = pg_session_open(session, until_ms, failure);
    log->options.is_patient = log->options.is_patient || error == OK; /* later ones may be of another server */
    log->grown_ms = pg_now_ms();
    if (error == OK && pg_session_read_head(session, &session->head, until_ms, failure) != PG_DONE)
        error = failure->error;
    if (error == OK)
        error = check_place(log, failure);
    if (error == OK)
        error = pg_session_register_node(session, until_ms, failure);
    if (error == OK)
        error = pg_cache_list(&log->cache, session, until_ms, failure);
    if (error == OK)
        error = pg_cache_adopt(&log->cache, session, failure);
    if (error == OK && log->options.claims)
        return claim(log, failure);
    for (bool is_owner = false; error == OK && !is_owner && is_empty(log);)
        error = pg_log_await(log, &is_owner, failure);
    return error;
}
