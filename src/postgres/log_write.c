/* What the owner of a log writes, and what it does when it does not know the outcome: it seals the log again, so that
 * nothing of before can still come, and then looks (L9). */
#include "postgres/log_state.h"

#include "base/assert.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REMOVED_AT_ONCE 500u /* chunks: 4 MB */
#define REST ".gone"         /* behind the name of a file that is being removed */

#define STATE_DISK_FULL "53100"
#define STATE_UNIQUE "23505"

void pg_log_init(struct pg_log *log, const struct pg_options *options, struct disk *folder)
{
    *log = (struct pg_log){.options = *options, .folder = folder};
    pg_session_init(&log->session, &log->options, "owner");
    pg_cache_init(&log->cache, folder);
    pg_standby_init(&log->standby, &log->options);
    log->marks_owned = memory_allocate_zeroed(PG_MARKS * sizeof(*log->marks_owned));
    buffer_init(&log->scratch);
}

void pg_log_deinit(struct pg_log *log)
{
    pg_session_deinit(&log->session);
    pg_cache_deinit(&log->cache);
    pg_standby_deinit(&log->standby);
    free(log->marks_owned);
    buffer_deinit(&log->scratch);
}

/* It can't use its parent's connection, nor close it politely; and what the parent knew of the files may have been half
 * changed when it was forked. */
void pg_log_become_child(struct pg_log *log)
{
    log->is_child = true;
    log->is_owner = false;
    if (pg_link_is_open(&log->session.link))
        (void)close(PQsocket(log->session.link.connection_owned));
    const struct pg_head head = log->session.head;
    pg_session_init(&log->session, &log->options, "snapshot");
    log->session.head = head;
    pg_cache_init(&log->cache, log->folder);
}

uint64_t pg_log_deadline(const struct pg_log *log)
{
    return pg_now_ms() + log->options.lease_ms;
}

static void note_proof(struct pg_log *log, uint64_t began_ms)
{
    atomic_store_explicit(&log->proved_ms, began_ms, memory_order_release);
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

/* What an operation tells its caller. */
static enum error fail(const struct pg_log *log, enum error error, const char *what, const struct failure *cause,
                       struct failure *failure)
{
    if (error == ERROR_LOG_LOCKED || error == ERROR_LOG_DAMAGED)
        return failure_set(failure, error, "log %s in PostgreSQL: %s", log->options.log, cause->text);
    const bool is_full = strcmp(log->session.link.state, STATE_DISK_FULL) == 0;
    return failure_set(failure, is_full ? ERROR_DISK_FULL : ERROR_DISK_FAILED, "log %s in PostgreSQL: %s: %s",
                       log->options.log, what, cause->text);
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

/* Writes again, from the copy, what PostgreSQL has lost: the writes behind number `from`, all of one file. Byte for
 * byte, so hashes and readers find what they expect. */
static enum error heal(struct pg_log *log, uint64_t from, uint64_t until_ms, struct failure *failure)
{
    const struct disk_operations *operations = log->folder->operations;
    const struct pg_file *file = pg_cache_find_by_id(&log->cache, mark_at(log, from)->file);
    struct disk_file *copy;
    if (file == NULL)
        return failure_set(failure, ERROR_LOG_DAMAGED, "a failover has lost a whole file.");
    enum error error = operations->open(log->folder, file->name, &copy, failure);
    if (error != OK)
        return error;
    struct buffer data;
    buffer_init(&data);
    for (uint64_t number = from + 1; number < log->mark_count && error == OK; number++) {
        const struct pg_mark *mark = mark_at(log, number);
        buffer_truncate(&data, 0);
        error = operations->read(copy, mark->at, buffer_extend(&data, mark->size), mark->size, failure);
        bool is_done = false;
        if (error == OK &&
            (run_write(log, mark, buffer_bytes(&data), until_ms, &is_done, failure) != PG_DONE || !is_done))
            error = ERROR_SERVICE_UNAVAILABLE;
    }
    buffer_deinit(&data);
    operations->close(copy);
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
    struct tail tail = {.is_empty = true};
    const enum error error = read_tail(log, file->id, until_ms, &tail, failure);
    const bool is_same = tail.is_empty
                             ? file->chain.end == 0
                             : tail.at == file->chain.last_at && memcmp(tail.hash, file->chain.hash, PG_HASH_SIZE) == 0;
    if (error != OK || is_same)
        return error;
    return failure_set(failure, ERROR_DISK_FAILED,
                       "PostgreSQL has lost writes that it had acknowledged (a failover to an asynchronous replica?): "
                       "file %s ends at offset %" PRIu64 ", and this node has read it up to %" PRIu64
                       ". It begins again.",
                       file->name, tail.is_empty ? 0 : tail.at, file->chain.end);
}

static bool is_tail(const struct pg_mark *mark, uint64_t file, const struct tail *tail)
{
    return !tail->is_empty && mark->file == file && mark->at == tail->at &&
           memcmp(mark->hash, tail->hash, PG_HASH_SIZE) == 0;
}

static enum error fail_lost(const struct pg_log *log, const struct tail *tail, struct failure *failure)
{
    const struct pg_mark *newest = mark_at(log, log->mark_count - 1);
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       "a failover has lost writes that were acknowledged (asynchronous replication?): file %" PRIu64
                       " ends at offset %" PRIu64 ", and this node has written up to offset %" PRIu64
                       " of file %" PRIu64 ". Clients were told that they are durable.",
                       newest->file, tail->is_empty ? 0 : tail->at, newest->at + newest->size, newest->file);
}

/* Does PostgreSQL have everything that it has acknowledged? What a failover has lost of the newest file is written
 * again, if this node still knows it. */
static enum error check_newest(struct pg_log *log, uint64_t until_ms, struct failure *failure)
{
    if (log->mark_count == 0)
        return OK;
    const struct pg_mark *newest = mark_at(log, log->mark_count - 1);
    struct tail tail = {.is_empty = true};
    const enum error error = read_tail(log, newest->file, until_ms, &tail, failure);
    if (error != OK || is_tail(newest, newest->file, &tail))
        return error;
    const uint64_t first = log->mark_count > PG_MARKS ? log->mark_count - PG_MARKS : 0;
    uint64_t number = log->mark_count - 1;
    while (number > first && mark_at(log, number)->file == newest->file &&
           !is_tail(mark_at(log, number), newest->file, &tail))
        number--;
    if (!is_tail(mark_at(log, number), newest->file, &tail))
        return fail_lost(log, &tail, failure);
    return heal(log, number, until_ms, failure);
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
    if (error == OK && !(*is_there && is_begun)) /* its hash covers what stands before it in the file */
        error = check_newest(log, until_ms, failure);
    if (error == OK)
        error = pg_cache_list(&log->cache, &log->session, until_ms, failure);
    if (error == OK && pending != NULL && pg_cache_find_by_id(&log->cache, pending->file) == NULL)
        error =
            failure_set(failure, ERROR_LOG_DAMAGED, "a failover has lost a whole file (asynchronous replication?).");
    if (error == ERROR_LOG_DAMAGED && pg_session_check_fence(&log->session, until_ms, &cause) == ERROR_LOG_LOCKED)
        error = failure_set(failure, ERROR_LOG_LOCKED, "%s", cause.text); /* it is another owner's writes that it saw */
    return error;
}

/* Becomes certain after an unknown outcome, as far as the time allows: ERROR_SERVICE_UNAVAILABLE. A child must not seal
 * the log, which is its parent's. */
static enum error settle(struct pg_log *log, const struct pg_mark *pending, uint64_t until_ms, bool *is_there,
                         struct failure *failure)
{
    *is_there = false;
    if (log->is_child)
        return ERROR_SERVICE_UNAVAILABLE;
    enum error error;
    do {
        error = pg_session_regain(&log->session, until_ms, failure);
        if (error == OK)
            error = look(log, pending, until_ms, is_there, failure);
    } while (error == ERROR_SERVICE_UNAVAILABLE && pg_now_ms() < until_ms);
    return error;
}

/* --- writes ------------------------------------------------------------------------------------------------------- */

/* Until the write is durable, or it is certain that it never will be, or the lease is over. */
static enum error store(struct pg_log *log, const struct pg_mark *mark, struct bytes data, struct failure *cause)
{
    const uint64_t began_ms = pg_now_ms(), until_ms = pg_log_deadline(log);
    bool is_there = false;
    enum error error = pg_log_connect(log, until_ms, cause);
    if (error == ERROR_SERVICE_UNAVAILABLE)
        error = settle(log, mark, until_ms, &is_there, cause);
    while (error == OK && !is_there) {
        const enum pg_outcome outcome = run_write(log, mark, data, until_ms, &is_there, cause);
        if (is_there)
            break;
        if (outcome == PG_DONE) /* the fence let nothing through */
            error = pg_session_check_fence(&log->session, until_ms, cause);
        else if (outcome == PG_UNKNOWN || strcmp(log->session.link.state, STATE_UNIQUE) == 0)
            error = settle(log, mark, until_ms, &is_there, cause);
        else
            error = ERROR_DISK_FAILED;
        if (outcome == PG_DONE && error == ERROR_SERVICE_UNAVAILABLE)
            error = settle(log, mark, until_ms, &is_there, cause);
    }
    if (error == OK)
        note_proof(log, began_ms);
    return error;
}

enum error pg_log_put(struct pg_log *log, struct pg_file *file, struct disk_file *copy, uint64_t at, struct bytes data,
                      bool is_relaxed, struct failure *failure)
{
    const struct bytes cut = pg_chunk_cut(data);
    if (cut.size == 0 || pg_log_follows(log)) /* a new file is zeros already */
        return OK;
    struct failure cause;
    failure_init(&cause);
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
    return log->folder->operations->write(copy, at, cut, failure);
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

static enum error settle_change(struct pg_log *log, const struct change *change, uint64_t until_ms, bool *is_done,
                                struct failure *failure)
{
    bool ignored;
    *is_done = false;
    enum error error = settle(log, NULL, until_ms, &ignored, failure);
    if (error == OK)
        error = pg_cache_list(&log->cache, &log->session, until_ms, failure);
    if (error == OK)
        *is_done = change->is_done(&log->cache, change);
    return error;
}

/* Runs a change and lists the files again if that is needed to know that it was done. `result`, where it is not NULL,
 * is NULL if the answer was lost. */
static enum error make_change(struct pg_log *log, const struct change *change, PGresult **result,
                              struct failure *failure)
{
    const uint64_t began_ms = pg_now_ms(), until_ms = pg_log_deadline(log);
    struct failure cause;
    failure_init(&cause);
    bool is_done = false;
    enum error error = pg_log_connect(log, until_ms, &cause);
    if (error == ERROR_SERVICE_UNAVAILABLE)
        error = settle_change(log, change, until_ms, &is_done, &cause);
    while (error == OK && !is_done) {
        PGresult *own = NULL;
        const enum pg_outcome outcome = run_change(log, change, until_ms, &own, &cause);
        is_done = outcome == PG_DONE && pg_changed(own) > 0;
        if (is_done && result != NULL)
            *result = own;
        else
            PQclear(own);
        if (outcome == PG_UNKNOWN)
            error = settle_change(log, change, until_ms, &is_done, &cause);
        else if (outcome == PG_REFUSED)
            error = ERROR_DISK_FAILED;
        else if (!is_done && (error = pg_session_check_fence(&log->session, until_ms, &cause)) == OK)
            error = failure_set(&cause, ERROR_DISK_FAILED, "there is no such file.");
    }
    if (error != OK)
        return fail(log, error, pg_statement_names[change->statement], &cause, failure);
    note_proof(log, began_ms);
    return OK;
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

/* Its chunks in portions, and then its row. A crash in between leaves a rest, and the next owner goes on. */
static enum error delete_rest(struct pg_log *log, struct pg_file *file, struct failure *failure)
{
    struct failure cause;
    failure_init(&cause);
    const struct change portion = {
        .statement = PG_REMOVE_CHUNKS, .id = file->id, .number = REMOVED_AT_ONCE, .has_number = true};
    for (uint64_t removed = REMOVED_AT_ONCE; removed == REMOVED_AT_ONCE;) {
        PGresult *result = NULL;
        if (run_change(log, &portion, pg_log_deadline(log), &result, &cause) != PG_DONE)
            return fail(log, ERROR_DISK_FAILED, "remove", &cause, failure);
        removed = pg_changed(result);
        PQclear(result);
    }
    const struct change change = {.statement = PG_REMOVE, .id = file->id, .is_done = is_removed};
    const enum error error = make_change(log, &change, NULL, failure);
    if (error == OK)
        pg_cache_remove(&log->cache, file);
    return error;
}

enum error pg_log_remove_file(struct pg_log *log, const char *name, struct failure *failure)
{
    struct failure cause;
    failure_init(&cause);
    const enum error error = pg_log_connect(log, pg_log_deadline(log), &cause);
    if (error != OK)
        return fail(log, error, "remove", &cause, failure);
    if (pg_cache_find(&log->cache, name) == NULL)
        return OK;
    char rest[PG_NAME_SIZE];
    (void)snprintf(rest, sizeof(rest), "%s" REST, name);
    const enum error renamed = pg_log_rename_file(log, name, rest, failure);
    struct pg_file *file = pg_cache_find(&log->cache, rest);
    return renamed != OK || file == NULL ? renamed : delete_rest(log, file, failure);
}

enum error pg_log_remove_rests(struct pg_log *log, struct failure *failure)
{
    enum error error = OK;
    for (size_t i = log->cache.count; i > 0 && error == OK; i--)
        if (pg_log_is_rest(log->cache.files_owned[i - 1]->name))
            error = delete_rest(log, log->cache.files_owned[i - 1], failure);
    return error;
}

/* --- proofs of life ----------------------------------------------------------------------------------------------- */

enum error pg_log_beat(struct pg_log *log, struct failure *failure)
{
    const uint64_t began_ms = pg_now_ms(), until_ms = pg_log_deadline(log);
    struct pg_values values = {0};
    struct failure cause;
    failure_init(&cause);
    pg_session_add_fence(&log->session, &values);
    PGresult *result = NULL;
    const enum pg_outcome outcome = pg_link_is_open(&log->session.link)
                                        ? pg_session_run(&log->session, PG_BEAT, &values, until_ms, &result, &cause)
                                        : PG_UNKNOWN;
    enum error error = outcome == PG_REFUSED ? ERROR_DISK_FAILED : OK;
    bool ignored;
    if (outcome == PG_UNKNOWN)
        error = settle(log, NULL, until_ms, &ignored, &cause);
    else if (outcome == PG_DONE && pg_changed(result) == 0)
        error = pg_session_check_fence(&log->session, until_ms, &cause);
    PQclear(result);
    if (error == OK && !log->session.has_lock) /* another node had it, or it was lost with a connection */
        (void)pg_session_try_lock(&log->session, log->session.head.epoch, &log->session.has_lock, until_ms, &cause);
    if (error != OK)
        return fail(log, error, "beat", &cause, failure);
    note_proof(log, began_ms);
    return OK;
}
