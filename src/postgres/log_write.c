/* What the owner of a log writes, and what it does when it does not know the outcome: it seals the log again, so that
 * nothing of before can still come, and then looks (L9). */
#include "postgres/log_state.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/segment.h"
#include "platform/monotonic.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REMOVED_AT_ONCE 500u /* chunks: 4 MB */
#define REST ".gone"         /* behind the name of a file that is being removed */
#define SETTLE_PAUSE_MS 20u  /* from one try to become certain to the next */
#define SEALS_MAX 5u         /* one operation may seal the log so often behind a silence, and then gets no more time */
#define ROOM_PAUSE_MS 50u    /* from a statement for which PostgreSQL had no room to the next try */

#define STATE_DISK_FULL "53100"
#define STATE_UNIQUE "23505"

void pg_log_init(struct pg_log *log, const struct pg_options *options, struct disk *folder)
{
    *log = (struct pg_log){.options = *options, .folder = folder};
    pg_session_init(&log->session, &log->options, "owner");
    pg_cache_init(&log->cache, folder);
    pg_standby_init(&log->standby, &log->options);
    (void)pthread_mutex_init(&log->owner_mutex, NULL);
    log->marks_owned = memory_allocate_zeroed(PG_MARKS * sizeof(*log->marks_owned));
    buffer_init(&log->scratch);
    log->pulse_entry.proved_ms = &log->proved_ms;
    log->pulse_entry.seen_ms = &log->seen_ms;
}

void pg_log_join_pulse(struct pg_log *log)
{
    log->has_pulse = log->options.pulse != NULL && !log->is_child;
    if (log->has_pulse)
        pg_pulse_join(log->options.pulse, &log->pulse_entry, &log->session);
}

static void leave_pulse(struct pg_log *log)
{
    if (log->has_pulse && !log->is_child)
        pg_pulse_leave(log->options.pulse, &log->pulse_entry);
    log->has_pulse = false;
}

void pg_log_deinit(struct pg_log *log)
{
    leave_pulse(log);
    pg_session_deinit(&log->session);
    pg_cache_deinit(&log->cache);
    pg_standby_deinit(&log->standby);
    free(log->marks_owned);
    buffer_deinit(&log->scratch);
    (void)pthread_mutex_destroy(&log->owner_mutex);
}

bool pg_log_rest(struct pg_log *log)
{
    struct failure ignored;
    failure_init(&ignored);
    struct pg_values values = {0};
    pg_session_add_fence(&log->session, &values);
    PGresult *result = NULL;
    leave_pulse(log);
    const bool is_done =
        log->is_owner && pg_link_is_open(&log->session.link) &&
        pg_session_run(&log->session, PG_REST, &values, pg_log_deadline(log), &result, &ignored) == PG_DONE &&
        pg_changed(result) == 1;
    PQclear(result);
    return is_done;
}

void pg_log_note_owner(struct pg_log *log)
{
    (void)pthread_mutex_lock(&log->owner_mutex);
    log->owner = log->session.head.node;
    log->epoch = log->session.head.epoch;
    (void)pthread_mutex_unlock(&log->owner_mutex);
}

/* It can't use its parent's connection, nor close it politely; and what the parent knew of the files, and was just
 * writing, may have been half changed when it was forked. */
void pg_log_become_child(struct pg_log *log)
{
    log->is_child = true;
    log->is_owner = false;
    if (pg_link_is_open(&log->session.link))
        (void)close(PQsocket(log->session.link.connection_owned));
    const struct pg_head head = log->session.head;
    const struct pg_host host = log->session.link.host;
    log->options.gate = NULL; /* its mutex may have been locked when this process was made */
    pg_session_init(&log->session, &log->options, "snapshot");
    log->session.head = head;
    pg_link_pin(&log->session.link, host); /* to the server that has the parent's writes */
    pg_cache_init(&log->cache, log->folder);
    buffer_init(&log->scratch);
    log->mark_count = 0;
}

uint64_t pg_log_deadline(const struct pg_log *log)
{
    return pg_now_ms() + log->options.lease_ms;
}

/* The time of an operation of the owner. */
struct effort {
    uint64_t began_ms; /* when it began, or, if that was later, when the log was sealed again */
    uint64_t until_ms; /* then it is over, unless PostgreSQL is silent (settle()) */
    unsigned seals;    /* how often it has sealed the log again behind a silence */
};

static struct effort effort_begin(const struct pg_log *log)
{
    return (struct effort){.began_ms = pg_now_ms(), .until_ms = pg_log_deadline(log)};
}

enum error pg_log_check_replicas(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    const enum error error = pg_session_check_replicas(&log->session, until_ms, failure);
    if (error != ERROR_SERVICE_UNAVAILABLE)
        atomic_store(&log->lacks_replica, error != OK);
    return error;
}

static void note_proof(struct pg_log *log, uint64_t began_ms)
{
    pg_raise_ms(&log->proved_ms, began_ms);
}

/* A statement that began then is done. It counts only if commits still wait for the replicas that are wanted: when the
 * last standby is taken off the list, PostgreSQL lets those go that wait, as if they were replicated. What a child
 * writes counts with its parent's next write. */
static enum error prove(struct pg_log *log, const struct effort *effort, struct failure *cause)
{
    const enum error error = log->is_child ? OK : pg_log_check_replicas(log, effort->until_ms, cause);
    if (error == OK)
        note_proof(log, effort->began_ms);
    return error;
}

enum error pg_log_connect(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    const bool is_new = !pg_link_is_open(&log->session.link);
    if (is_new && log->is_owner)
        return ERROR_SERVICE_UNAVAILABLE; /* it broke, so first the log is sealed anew */
    enum error error = pg_session_open(&log->session, until_ms, failure);
    if (error == OK && is_new)
        error = pg_cache_list(&log->cache, &log->session, until_ms, failure);
    return error;
}

/* What an operation tells its caller. A child ends with its epoch, also where its own parent began the next one. */
static enum error fail(struct pg_log *log, enum error error, const char *what, const struct failure *cause,
                       struct failure *failure)
{
    log->has_just_failed = true;
    leave_pulse(log); /* until it has proved itself by what it does */
    if (error == ERROR_LOG_LOCKED && log->is_child)
        return failure_set(failure, error, "log %s in PostgreSQL: it was taken anew after this had begun: %s",
                           log->options.log, cause->text);
    if (error == ERROR_LOG_LOCKED || error == ERROR_LOG_DAMAGED)
        return failure_set(failure, error, "log %s in PostgreSQL: %s", log->options.log, cause->text);
    return failure_set(failure, error == ERROR_DISK_FULL ? error : ERROR_DISK_FAILED, "log %s in PostgreSQL: %s: %s",
                       log->options.log, what, cause->text);
}

/* PostgreSQL has refused a statement, and done nothing. OK: its disk was full, and the caller may try again, after this
 * pause; until half a lease after began_ms. */
static enum error bear_refusal(const struct pg_log *log, uint64_t began_ms)
{
    if (strcmp(log->session.link.state, STATE_DISK_FULL) != 0)
        return ERROR_DISK_FAILED;
    if (log->is_child || pg_now_ms() >= began_ms + log->options.lease_ms / 2)
        return ERROR_DISK_FULL;
    sleep_for(ROOM_PAUSE_MS);
    return OK;
}

/* --- the newest writes -------------------------------------------------------------------------------------------- */

/* The ring is for what a failover of an asynchronous replica takes back. */
static const struct pg_mark *mark_at(const struct pg_log *log, uint64_t number)
{
    return &log->marks_owned[number % PG_MARKS];
}

static void add_mark(struct pg_log *log, const struct pg_mark *mark)
{
    log->marks_owned[log->mark_count++ % PG_MARKS] = *mark;
}

static enum pg_outcome run_write(struct pg_log *log, const struct pg_mark *mark, struct bytes data, uint64_t until_ms,
                                 bool *is_done, struct failure *failure)
{
    buffer_truncate(&log->scratch, 0);
    const uint32_t count = pg_chunks_encode(data, &log->scratch);
    struct pg_values values = {0};
    pg_session_add_fence(&log->session, &values);
    pg_add_i64(&values, mark->file);
    pg_add_i64(&values, mark->at);
    pg_add_bytes(&values, bytes_make(mark->hash, PG_HASH_SIZE));
    pg_add_bytes(&values, buffer_bytes(&log->scratch));
    pg_add_i64(&values, mark->epoch);
    PGresult *result = NULL;
    const enum pg_outcome outcome = pg_session_run(&log->session, PG_APPEND, &values, until_ms, &result, failure);
    *is_done = outcome == PG_DONE && pg_changed(result) == count;
    PQclear(result);
    return outcome;
}

static enum error fail_lost_file(struct failure *failure)
{
    return failure_set(failure, ERROR_LOG_DAMAGED, PG_LOST "a file that this node has written to is not there.");
}

static enum error open_copy(const struct pg_log *log, uint64_t id, struct disk_file **copy, struct failure *failure)
{
    const struct pg_file *file = pg_cache_find_by_id(&log->cache, id);
    if (file == NULL)
        return fail_lost_file(failure);
    return log->folder->operations->open(log->folder, file->name, copy, failure);
}

static enum error write_again(struct pg_log *log, const struct pg_mark *mark, struct disk_file *copy, uint64_t until_ms,
                              struct failure *failure)
{
    struct buffer data;
    buffer_init(&data);
    bool is_done = false;
    enum error error =
        log->folder->operations->read(copy, mark->at, buffer_extend(&data, mark->size), mark->size, failure);
    if (error == OK && (run_write(log, mark, buffer_bytes(&data), until_ms, &is_done, failure) != PG_DONE || !is_done))
        error = ERROR_SERVICE_UNAVAILABLE;
    buffer_deinit(&data);
    return error;
}

/* Writes again, from the copies, what PostgreSQL has lost: the writes behind number `from`. Byte for byte, so hashes
 * and readers find what they expect. */
static enum error heal(struct pg_log *log, uint64_t from, uint64_t until_ms, struct failure *failure)
{
    enum error error = OK;
    for (uint64_t number = from + 1; number < log->mark_count && error == OK; number++) {
        struct disk_file *copy;
        error = open_copy(log, mark_at(log, number)->file, &copy, failure);
        if (error != OK)
            return error;
        error = write_again(log, mark_at(log, number), copy, until_ms, failure);
        log->folder->operations->close(copy);
    }
    return error;
}

/* The newest write of a file, as PostgreSQL has it. */
struct tail {
    bool is_empty;
    uint64_t at;
    uint8_t hash[PG_HASH_SIZE];
};

static enum error read_tail(struct pg_log *log, uint64_t file, uint64_t until_ms, struct tail *tail,
                            struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i64(&values, file);
    PGresult *row = NULL;
    if (pg_session_run(&log->session, PG_TAIL, &values, until_ms, &row, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    *tail = (struct tail){.is_empty = PQntuples(row) == 0};
    if (!tail->is_empty) {
        const struct bytes hash = pg_field(row, 0, 1);
        tail->at = pg_number(row, 0, 0);
        memcpy(tail->hash, hash.ptr, hash.size < PG_HASH_SIZE ? hash.size : PG_HASH_SIZE);
    }
    PQclear(row);
    return OK;
}

enum error pg_log_check_tail(struct pg_log *log, const struct pg_file *file, uint64_t until_ms, struct failure *failure)
{
    if (file->chain.end == 0)
        return OK;
    struct pg_values values = {0};
    pg_add_i64(&values, file->id);
    pg_add_i64(&values, file->chain.last_at);
    pg_add_i32(&values, 1);
    PGresult *row = NULL;
    if (pg_session_run(&log->session, PG_SIZES, &values, until_ms, &row, failure) != PG_DONE)
        return ERROR_SERVICE_UNAVAILABLE;
    const bool has_it = PQntuples(row) == 1 && pg_number(row, 0, 0) == file->chain.last_at &&
                        bytes_equal(pg_field(row, 0, 2), bytes_make(file->chain.hash, PG_HASH_SIZE));
    PQclear(row);
    return has_it
               ? OK
               : failure_set(failure, ERROR_DISK_FAILED,
                             PG_LOST "this node has read file %s up to offset %" PRIu64
                                     ", and PostgreSQL does not have the write at offset %" PRIu64 ". It begins again.",
                             file->name, file->chain.end, file->chain.last_at);
}

static bool is_tail(const struct pg_mark *mark, uint64_t file, const struct tail *tail)
{
    return !tail->is_empty && mark->file == file && mark->at == tail->at &&
           memcmp(mark->hash, tail->hash, PG_HASH_SIZE) == 0;
}

static enum error fail_lost(const struct pg_log *log, uint64_t file, const struct tail *tail, struct failure *failure)
{
    const struct pg_mark *newest = mark_at(log, log->mark_count - 1);
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       PG_LOST "file %" PRIu64 " ends at offset %" PRIu64
                               ", and this node has written up to offset %" PRIu64 " of file %" PRIu64
                               ". Clients were told that they are durable.",
                       file, tail->is_empty ? 0 : tail->at, newest->at + newest->size, newest->file);
}

/* Does PostgreSQL have everything that it has acknowledged? What a failover has lost is written again, if this node
 * still knows it. Of a file of which nothing is left, the writes before it tell: its header may be all that is lost. */
static enum error check_newest(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    if (log->mark_count == 0)
        return OK;
    const uint64_t first = log->mark_count > PG_MARKS ? log->mark_count - PG_MARKS : 0;
    const uint64_t newest = log->mark_count - 1;
    for (uint64_t number = newest;;) {
        const uint64_t file = mark_at(log, number)->file;
        struct tail tail = {.is_empty = true};
        const enum error error = read_tail(log, file, until_ms, &tail, failure);
        if (error != OK)
            return error;
        if (number == newest && log->has_doubtful && is_tail(&log->doubtful, file, &tail))
            return OK; /* its hash covers the newest one */
        while (number > first && mark_at(log, number)->file == file && !is_tail(mark_at(log, number), file, &tail))
            number--;
        if (is_tail(mark_at(log, number), file, &tail))
            return heal(log, number, until_ms, failure);
        if (!tail.is_empty || mark_at(log, number)->file == file)
            return fail_lost(log, file, &tail, failure);
    }
}

/* Lists the files anew. A failover may have taken back the size of a segment: its frames would not fit. It is given
 * again. */
static enum error list_again(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    const size_t count = log->cache.count;
    struct {
        uint64_t id, size;
    } *known = memory_allocate_zeroed((count + 1) * sizeof(*known));
    for (size_t i = 0; i < count; i++) {
        known[i].id = log->cache.files_owned[i]->id;
        known[i].size = log->cache.files_owned[i]->size;
    }
    enum error error = pg_cache_list(&log->cache, &log->session, until_ms, failure);
    for (size_t i = 0; i < count; i++) {
        struct pg_file *file = pg_cache_find_by_id(&log->cache, known[i].id);
        uint64_t start;
        if (file == NULL || file->size >= known[i].size || !segment_name_decode(file->name, &start))
            continue;
        struct pg_values values = {0};
        pg_session_add_fence(&log->session, &values);
        pg_add_i64(&values, file->id);
        pg_add_i64(&values, known[i].size);
        file->size = known[i].size; /* also where PostgreSQL does not answer: it is given again then */
        if (error == OK && pg_session_run(&log->session, PG_RESIZE, &values, until_ms, NULL, failure) != PG_DONE)
            error = ERROR_SERVICE_UNAVAILABLE;
    }
    free(known);
    return error;
}

/* After an unknown outcome, when the log is sealed: is `pending`, where it is not NULL, in the log, and everything
 * before it? */
static enum error look(struct pg_log *log, const struct pg_mark *pending, uint64_t until_ms, bool *is_there,
                       struct failure *failure)
{
    *is_there = false;
    struct tail tail;
    struct failure cause;
    failure_init(&cause);
    enum error error = OK;
    if (pending != NULL) {
        error = read_tail(log, pending->file, until_ms, &tail, failure);
        *is_there = error == OK && is_tail(pending, pending->file, &tail);
    }
    const bool is_begun =
        log->mark_count > 0 && (pending == NULL || mark_at(log, log->mark_count - 1)->file == pending->file);
    if (error == OK)
        error = list_again(log, until_ms, failure);
    if (error == OK && !(*is_there && is_begun)) /* its hash covers what stands before it in the file */
        error = check_newest(log, until_ms, failure);
    if (error == OK && pending != NULL && pg_cache_find_by_id(&log->cache, pending->file) == NULL)
        error = fail_lost_file(failure);
    if (error == ERROR_LOG_DAMAGED && pg_session_check_fence(&log->session, until_ms, &cause) == ERROR_LOG_LOCKED)
        error = failure_set(failure, ERROR_LOG_LOCKED, "%s", cause.text); /* it is another owner's writes that it saw */
    return error;
}

/* Has PostgreSQL neither sealed the log for this node, which tries it again and again, nor refused to, for a while? */
static bool is_silent(const struct pg_log *log)
{
    const uint64_t refused_ms = log->session.refused_ms;
    const uint64_t heard_ms = refused_ms > log->regained_ms ? refused_ms : log->regained_ms;
    return pg_now_ms() >= heard_ms + log->options.lease_ms / 2;
}

/* The time for an operation of the owner is over. While PostgreSQL is silent, to give the log up would only mean to
 * read it all again: the operation gets as much time once more. It gets none where the log was sealed again, just now
 * or often, and the operation fails nevertheless. */
static bool waits_on(const struct pg_log *log, struct effort *effort)
{
    if (!atomic_load(&log->bears_silence) || !is_silent(log) || effort->seals >= SEALS_MAX)
        return false;
    effort->until_ms = pg_log_deadline(log);
    return true;
}

/* Seals the log again. Behind a silence the operation has all its time before it. */
static enum error regain(struct pg_log *log, struct effort *effort, struct failure *failure)
{
    const bool was_silent = is_silent(log);
    const enum error error = pg_session_regain(&log->session, effort->until_ms, failure);
    if (error != OK)
        return error;
    log->regained_ms = pg_now_ms();
    effort->began_ms = log->session.sealed_ms;
    if (was_silent && effort->seals++ < SEALS_MAX)
        effort->until_ms = pg_log_deadline(log);
    return OK;
}

/* For other threads; NULL: there is none any more. */
static void note_trouble(struct pg_log *log, const struct failure *failure)
{
    (void)pthread_mutex_lock(&log->owner_mutex);
    (void)snprintf(log->trouble, sizeof(log->trouble), "%.511s", failure == NULL ? "" : failure->text);
    (void)pthread_mutex_unlock(&log->owner_mutex);
}

/* Becomes certain after an unknown outcome. While PostgreSQL is silent, and the log bears that, this waits, and the
 * effort lasts longer. ERROR_SERVICE_UNAVAILABLE: the time did not suffice. A child must not
 * seal the log, which is its parent's. After an error there is no connection: whoever wants to write nevertheless,
 * because what failed did not matter to it, comes here first, and does not write behind what is missing. */
static enum error settle(struct pg_log *log, const struct pg_mark *pending, struct effort *effort, bool *is_there,
                         struct failure *failure)
{
    *is_there = false;
    if (log->is_child)
        return ERROR_SERVICE_UNAVAILABLE;
    enum error error;
    for (;;) {
        error = regain(log, effort, failure);
        if (error == OK)
            error = look(log, pending, effort->until_ms, is_there, failure);
        note_trouble(log, error == OK ? NULL : failure);
        if (error != ERROR_SERVICE_UNAVAILABLE || (pg_now_ms() >= effort->until_ms && !waits_on(log, effort)))
            break;
        sleep_for(SETTLE_PAUSE_MS);
    }
    if (error == OK) {
        pg_link_watch(&log->session.link);
        pg_log_note_owner(log);
        pg_log_join_pulse(log);
    } else {
        pg_link_close(&log->session.link);
        log->session.has_lock = false;
    }
    return error;
}

void pg_log_note_position(struct pg_log *log, const struct pg_file *file)
{
    uint64_t start;
    const bool has_frames = segment_name_decode(file->name, &start) && file->chain.end > SEGMENT_HEADER_SIZE;
    if (has_frames && start + file->chain.end > atomic_load(&log->position))
        atomic_store(&log->position, start + file->chain.end);
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

/* ERROR_SERVICE_UNAVAILABLE: nobody knows whether it was written. OK, and it is not there: it may be tried again. */
static enum error try_to_store(struct pg_log *log, const struct pg_mark *mark, struct bytes data,
                               const struct effort *effort, bool *is_there, struct failure *cause)
{
    const enum pg_outcome outcome = run_write(log, mark, data, effort->until_ms, is_there, cause);
    if (*is_there)
        return OK;
    if (outcome == PG_DONE) /* the fence let nothing through */
        return pg_session_check_fence(&log->session, effort->until_ms, cause);
    const bool is_unknown = outcome == PG_UNKNOWN || strcmp(log->session.link.state, STATE_UNIQUE) == 0;
    return is_unknown ? ERROR_SERVICE_UNAVAILABLE : bear_refusal(log, effort->began_ms);
}

/* Until the write is durable, or it is certain that it never will be, or the time is over. */
static enum error store(struct pg_log *log, const struct pg_mark *mark, struct bytes data, struct failure *cause)
{
    struct effort effort = effort_begin(log);
    bool is_there = false, is_proved = false;
    enum error error = pg_log_connect(log, effort.until_ms, cause);
    if (error == ERROR_SERVICE_UNAVAILABLE)
        error = settle(log, mark, &effort, &is_there, cause);
    while (error == OK && !is_proved) {
        const bool was_there = is_there;
        error = was_there ? prove(log, &effort, cause) : try_to_store(log, mark, data, &effort, &is_there, cause);
        is_proved = was_there && error == OK;
        if (error == ERROR_SERVICE_UNAVAILABLE)
            error = settle(log, mark, &effort, &is_there, cause);
    }
    log->has_doubtful = error != OK;
    log->doubtful = *mark;
    return error;
}

/* The file ends where a write of zeros ends, too. */
static enum error extend_copy(const struct pg_log *log, struct disk_file *copy, uint64_t end, struct failure *failure)
{
    uint64_t size = 0;
    const enum error error = log->folder->operations->size(copy, &size, failure);
    return error != OK || size >= end ? error : log->folder->operations->allocate(copy, end, 0, failure);
}

enum error pg_log_put(struct pg_log *log, struct pg_file *file, struct disk_file *copy, uint64_t at, struct bytes data,
                      bool is_relaxed, struct failure *failure)
{
    const struct bytes cut = pg_chunk_cut(data);
    if (pg_log_follows(log))
        return OK;
    if (cut.size == 0) /* a new file is zeros already */
        return extend_copy(log, copy, at + data.size, failure);
    struct failure cause;
    failure_init(&cause);
    if (file->is_gone) {
        (void)fail_lost_file(&cause);
        return fail(log, ERROR_LOG_DAMAGED, "write", &cause, failure);
    }
    if (at < file->chain.end) {
        (void)failure_set(&cause, ERROR_DISK_FAILED, "what was written can't be written again.");
        return fail(log, ERROR_DISK_FAILED, "write", &cause, failure);
    }
    struct pg_chain chain = file->chain;
    struct pg_mark mark = {.file = file->id, .at = at, .size = cut.size, .epoch = log->session.head.epoch};
    pg_chain_add(&chain, &log->cache.sha256, mark.epoch, at, cut);
    memcpy(mark.hash, chain.hash, PG_HASH_SIZE);
    if (is_relaxed) {
        enum error error = pg_log_connect(log, pg_log_deadline(log), &cause);
        if (error == OK && pg_link_relax(&log->session.link, true, pg_log_deadline(log), &cause) != PG_DONE)
            error = ERROR_SERVICE_UNAVAILABLE;
        if (error != OK)
            return fail(log, error, "write", &cause, failure);
    }
    const enum error error = store(log, &mark, cut, &cause);
    if (error != OK)
        return fail(log, error, "write", &cause, failure);
    file->chain = chain;
    add_mark(log, &mark);
    pg_log_note_position(log, file);
    return log->folder->operations->write(copy, at, data, failure);
}

/* --- changes ------------------------------------------------------------------------------------------------------ */

/* A fenced statement. Its outcome may have to be found out, so it must be seen in the list of files whether it was
 * done. */
struct change {
    enum pg_statement statement;
    const char *name;    /* $4; NULL: `id` */
    uint64_t id;         /* $4 */
    const char *name_to; /* $5; NULL: `number` if `has_number` */
    uint64_t number;
    bool has_number;
    bool (*is_done)(const struct pg_cache *cache, const struct change *change);
};

static enum pg_outcome run_change(struct pg_log *log, const struct change *change, uint64_t until_ms, PGresult **result,
                                  struct failure *failure)
{
    struct pg_values values = {0};
    pg_session_add_fence(&log->session, &values);
    if (change->name != NULL)
        pg_add_bytes(&values, bytes_from_string(change->name));
    else
        pg_add_i64(&values, change->id);
    if (change->name_to != NULL)
        pg_add_bytes(&values, bytes_from_string(change->name_to));
    else if (change->has_number)
        pg_add_i64(&values, change->number);
    enum pg_outcome outcome = pg_link_relax(&log->session.link, false, until_ms, failure);
    if (outcome == PG_DONE)
        outcome = pg_session_run(&log->session, change->statement, &values, until_ms, result, failure);
    return outcome;
}

static enum error settle_change(struct pg_log *log, const struct change *change, struct effort *effort, bool *is_done,
                                struct failure *failure)
{
    bool ignored;
    *is_done = false;
    enum error error = settle(log, NULL, effort, &ignored, failure);
    if (error == OK)
        error = pg_cache_list(&log->cache, &log->session, effort->until_ms, failure);
    if (error == OK)
        *is_done = change->is_done(&log->cache, change);
    return error;
}

/* ERROR_SERVICE_UNAVAILABLE: nobody knows whether it was done. OK, and it is not: it may be tried again. */
static enum error try_to_change(struct pg_log *log, const struct change *change, const struct effort *effort,
                                bool *is_done, PGresult **result, struct failure *cause)
{
    const enum pg_outcome outcome = run_change(log, change, effort->until_ms, result, cause);
    *is_done = outcome == PG_DONE && pg_changed(*result) > 0;
    if (*is_done)
        return OK;
    PQclear(*result);
    *result = NULL;
    if (outcome != PG_DONE)
        return outcome == PG_UNKNOWN ? ERROR_SERVICE_UNAVAILABLE : bear_refusal(log, effort->began_ms);
    const enum error error = pg_session_check_fence(&log->session, effort->until_ms, cause);
    return error == OK ? failure_set(cause, ERROR_DISK_FAILED, "there is no such file.") : error;
}

/* Runs a change and lists the files again if that is needed to know that it was done. `result`, where it is not NULL,
 * is NULL if the answer was lost. */
static enum error make_change(struct pg_log *log, const struct change *change, PGresult **result,
                              struct failure *failure)
{
    struct effort effort = effort_begin(log);
    struct failure cause;
    failure_init(&cause);
    bool is_done = false, is_proved = false;
    PGresult *own = NULL;
    enum error error = pg_log_connect(log, effort.until_ms, &cause);
    if (error == ERROR_SERVICE_UNAVAILABLE)
        error = settle_change(log, change, &effort, &is_done, &cause);
    while (error == OK && !is_proved) {
        const bool was_done = is_done;
        error = was_done ? prove(log, &effort, &cause) : try_to_change(log, change, &effort, &is_done, &own, &cause);
        is_proved = was_done && error == OK;
        if (error != ERROR_SERVICE_UNAVAILABLE)
            continue;
        PQclear(own); /* the list of files is read anew */
        own = NULL;
        error = settle_change(log, change, &effort, &is_done, &cause);
    }
    if (error == OK && result != NULL)
        *result = own;
    else
        PQclear(own);
    return error == OK ? OK : fail(log, error, pg_statement_names[change->statement], &cause, failure);
}

static bool has_name(const struct pg_cache *cache, const struct change *change)
{
    return pg_cache_find(cache, change->name) != NULL;
}

enum error pg_log_create_file(struct pg_log *log, const char *name, struct pg_file **file, struct failure *failure)
{
    ASSERT(strlen(name) + sizeof(REST) <= PG_NAME_SIZE);
    const struct change change = {.statement = PG_CREATE, .name = name, .is_done = has_name};
    PGresult *row = NULL;
    const enum error error = make_change(log, &change, &row, failure);
    if (error != OK)
        return error;
    if (row != NULL)
        (void)pg_cache_add(&log->cache, pg_number(row, 0, 0), name, 0);
    PQclear(row);
    *file = pg_cache_find(&log->cache, name);
    ASSERT(*file != NULL);
    (*file)->is_cached = true;
    return OK;
}

static bool is_renamed(const struct pg_cache *cache, const struct change *change)
{
    return pg_cache_find(cache, change->name_to) != NULL && pg_cache_find(cache, change->name) == NULL;
}

enum error pg_log_rename_file(struct pg_log *log, const char *from, const char *to, struct failure *failure)
{
    const struct change change = {.statement = PG_RENAME, .name = from, .name_to = to, .is_done = is_renamed};
    const enum error error = make_change(log, &change, NULL, failure);
    struct pg_file *file = pg_cache_find(&log->cache, from);
    if (error == OK && file != NULL)
        (void)snprintf(file->name, sizeof(file->name), "%s", to);
    return error;
}

static bool has_size(const struct pg_cache *cache, const struct change *change)
{
    const struct pg_file *file = pg_cache_find_by_id(cache, change->id);
    return file != NULL && file->size == change->number;
}

enum error pg_log_resize_file(struct pg_log *log, struct pg_file *file, uint64_t size, struct failure *failure)
{
    const struct change change = {
        .statement = PG_RESIZE, .id = file->id, .number = size, .has_number = true, .is_done = has_size};
    const enum error error = make_change(log, &change, NULL, failure);
    if (error == OK)
        file->size = size;
    return error;
}

/* --- removing ----------------------------------------------------------------------------------------------------- */

bool pg_log_is_rest(const char *name)
{
    return bytes_ends_with(bytes_from_string(name), BYTES(REST));
}

static bool is_removed(const struct pg_cache *cache, const struct change *change)
{
    return pg_cache_find_by_id(cache, change->id) == NULL;
}

/* Only who finds no chunk knows that all are gone. The statement of a child that was killed may still be removing some:
 * a portion waits for that, and then removes none of those, nor any behind them. */
static enum error find_chunk(struct pg_log *log, const struct pg_file *file, bool *is_found, struct failure *cause)
{
    const uint64_t until_ms = pg_log_deadline(log);
    struct pg_values values = {0};
    pg_add_i64(&values, file->id);
    pg_add_i64(&values, 0);
    pg_add_i32(&values, 1);
    PGresult *row = NULL;
    if (pg_session_run(&log->session, PG_SIZES, &values, until_ms, &row, cause) != PG_DONE)
        return ERROR_DISK_FAILED;
    *is_found = PQntuples(row) > 0;
    PQclear(row);
    return *is_found ? pg_session_check_fence(&log->session, until_ms, cause) : OK;
}

static enum error delete_chunks(struct pg_log *log, const struct pg_file *file, struct failure *cause)
{
    const struct change portion = {
        .statement = PG_REMOVE_CHUNKS, .id = file->id, .number = REMOVED_AT_ONCE, .has_number = true};
    enum error error = OK;
    for (bool is_found = true; error == OK && is_found;) {
        PGresult *result = NULL;
        if (run_change(log, &portion, pg_log_deadline(log), &result, cause) != PG_DONE)
            return ERROR_DISK_FAILED;
        if (pg_changed(result) < REMOVED_AT_ONCE)
            error = find_chunk(log, file, &is_found, cause);
        PQclear(result);
    }
    return error;
}

/* Its chunks in portions, and then its row. Where that breaks off, a rest is left, and the next child that removes
 * a file goes on. A new owner does not: its clients wait, and a rest may be gigabytes. */
static enum error delete_rest(struct pg_log *log, struct pg_file *file, struct failure *failure)
{
    struct failure cause;
    failure_init(&cause);
    pg_file_hold(file); /* the list may be read anew meanwhile */
    enum error error = delete_chunks(log, file, &cause);
    if (error != OK)
        error = fail(log, error, "remove", &cause, failure);
    const struct change change = {.statement = PG_REMOVE, .id = file->id, .is_done = is_removed};
    if (error == OK)
        error = make_change(log, &change, NULL, failure);
    if (error == OK)
        pg_cache_remove(&log->cache, file);
    pg_file_let_go(file);
    return error;
}

static struct pg_file *find_rest(const struct pg_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++)
        if (pg_log_is_rest(cache->files_owned[i]->name))
            return cache->files_owned[i];
    return NULL;
}

/* Each is looked for anew: to remove one may read the list again. */
static enum error remove_rests(struct pg_log *log, struct failure *failure)
{
    enum error error = OK;
    for (struct pg_file *rest; error == OK && (rest = find_rest(&log->cache)) != NULL;)
        error = delete_rest(log, rest, failure);
    return error;
}

/* Where there is a rest of an earlier file of this name, that goes first. */
static enum error remove_under(struct pg_log *log, const char *name, const char *rest, struct failure *failure)
{
    struct pg_file *file = pg_cache_find(&log->cache, rest);
    enum error error = file == NULL ? OK : delete_rest(log, file, failure);
    if (error == OK)
        error = pg_log_rename_file(log, name, rest, failure);
    file = pg_cache_find(&log->cache, rest);
    return error != OK || file == NULL ? error : delete_rest(log, file, failure);
}

enum error pg_log_remove_file(struct pg_log *log, const char *name, struct failure *failure)
{
    struct failure cause;
    failure_init(&cause);
    enum error error = pg_log_connect(log, pg_log_deadline(log), &cause);
    if (error != OK)
        return fail(log, error, "remove", &cause, failure);
    if (log->is_child)
        error = remove_rests(log, failure);
    if (error != OK || pg_cache_find(&log->cache, name) == NULL)
        return error;
    char rest[PG_NAME_SIZE];
    (void)snprintf(rest, sizeof(rest), "%s" REST, name);
    return remove_under(log, name, rest, failure);
}

/* --- proofs of life ----------------------------------------------------------------------------------------------- */

/* ERROR_SERVICE_UNAVAILABLE: nobody knows whether it was done. OK, and it is not: it may be tried again. */
static enum error try_to_beat(struct pg_log *log, const struct effort *effort, bool *is_done, struct failure *cause)
{
    if (!pg_link_is_open(&log->session.link))
        return ERROR_SERVICE_UNAVAILABLE;
    struct pg_values values = {0};
    pg_session_add_fence(&log->session, &values);
    PGresult *result = NULL;
    const enum pg_outcome outcome = pg_session_run(&log->session, PG_BEAT, &values, effort->until_ms, &result, cause);
    const bool has_changed = outcome == PG_DONE && pg_changed(result) > 0;
    PQclear(result);
    *is_done = outcome == PG_DONE;
    if (outcome == PG_DONE)
        return has_changed ? OK : pg_session_check_fence(&log->session, effort->until_ms, cause);
    return outcome == PG_UNKNOWN ? ERROR_SERVICE_UNAVAILABLE : bear_refusal(log, effort->began_ms);
}

enum error pg_log_beat(struct pg_log *log, struct failure *failure)
{
    struct effort effort = effort_begin(log);
    struct failure cause;
    failure_init(&cause);
    bool is_done = false, ignored;
    enum error error = OK;
    while (error == OK && !is_done)
        error = try_to_beat(log, &effort, &is_done, &cause);
    if (error == ERROR_SERVICE_UNAVAILABLE)
        error = settle(log, NULL, &effort, &ignored, &cause);
    if (error == OK && !log->session.has_lock) /* another node had it, or it was lost with a connection */
        (void)pg_session_try_lock(&log->session, log->session.head.epoch, &log->session.has_lock, effort.until_ms,
                                  &cause);
    if (error == OK && (error = prove(log, &effort, &cause)) == ERROR_SERVICE_UNAVAILABLE)
        error = settle(log, NULL, &effort, &ignored, &cause); /* the next beat proves it */
    if (error == OK)
        pg_log_join_pulse(log);
    return error == OK ? OK : fail(log, error, "beat", &cause, failure);
}
