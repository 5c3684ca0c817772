#include "postgres/cache.h"

#include "base/assert.h"
#include "base/memory.h"
#include "log/frame.h"
#include "log/segment.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS_AT_ONCE 500u /* about 4 MB */
#define SIZES_AT_ONCE 20000u
#define ZEROS_AT_ONCE (256u * 1024)

void pg_cache_init(struct pg_cache *cache, struct disk *folder)
{
    *cache = (struct pg_cache){.folder = folder};
    sha256_init(&cache->sha256);
}

void pg_cache_deinit(struct pg_cache *cache)
{
    for (size_t i = 0; i < cache->count; i++)
        free(cache->files_owned[i]);
    free(cache->files_owned);
    sha256_deinit(&cache->sha256);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

struct pg_file *pg_cache_find(const struct pg_cache *cache, const char *name)
{
    for (size_t i = 0; i < cache->count; i++)
        if (strcmp(cache->files_owned[i]->name, name) == 0)
            return cache->files_owned[i];
    return NULL;
}

struct pg_file *pg_cache_add(struct pg_cache *cache, uint64_t id, const char *name, uint64_t size)
{
    struct pg_file *file = memory_allocate_zeroed(sizeof(*file));
    file->id = id;
    file->size = size;
    (void)snprintf(file->name, sizeof(file->name), "%s", name);
    file->chain = pg_chain_begin(&cache->sha256, id);
    ARRAY_GROW(cache->files_owned, cache->count, cache->capacity);
    cache->files_owned[cache->count++] = file;
    return file;
}

static void remove_at(struct pg_cache *cache, size_t at)
{
    free(cache->files_owned[at]);
    cache->files_owned[at] = cache->files_owned[--cache->count];
}

void pg_cache_remove(struct pg_cache *cache, struct pg_file *file)
{
    for (size_t i = 0; i < cache->count; i++)
        if (cache->files_owned[i] == file) {
            remove_at(cache, i);
            return;
        }
}

static bool lists_id(const PGresult *rows, uint64_t id)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (pg_number(rows, i, 0) == id)
            return true;
    return false;
}

struct pg_file *pg_cache_find_by_id(const struct pg_cache *cache, uint64_t id)
{
    for (size_t i = 0; i < cache->count; i++)
        if (cache->files_owned[i]->id == id)
            return cache->files_owned[i];
    return NULL;
}

enum error pg_cache_list(struct pg_cache *cache, struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, session->head.id);
    PGresult *rows = NULL;
    if (pg_session_run(session, PG_FILES, &values, until_ms, &rows, failure) != PG_DONE)
        return failure->error;
    for (size_t i = cache->count; i > 0; i--)
        if (!lists_id(rows, cache->files_owned[i - 1]->id))
            remove_at(cache, i - 1);
    for (int i = 0; i < PQntuples(rows); i++) {
        char name[PG_NAME_SIZE];
        (void)snprintf(name, sizeof(name), "%.*s", BYTES_FORMAT(pg_field(rows, i, 1)));
        struct pg_file *file = pg_cache_find_by_id(cache, pg_number(rows, i, 0));
        if (file == NULL)
            file = pg_cache_add(cache, pg_number(rows, i, 0), name, 0);
        file->size = pg_number(rows, i, 2);
        (void)snprintf(file->name, sizeof(file->name), "%s", name); /* it may have been renamed */
    }
    PQclear(rows);
    return OK;
}

/* --- the folder --------------------------------------------------------------------------------------------------- */

struct name_list {
    const struct pg_cache *cache;
    char (*names_owned)[PG_NAME_SIZE];
    size_t count;
    size_t capacity;
};

static void on_name(void *context, const char *name)
{
    struct name_list *list = context;
    if (strlen(name) >= PG_NAME_SIZE || strcmp(name, "lock") == 0 || pg_cache_find(list->cache, name) != NULL)
        return;
    ARRAY_GROW(list->names_owned, list->count, list->capacity);
    (void)snprintf(list->names_owned[list->count++], PG_NAME_SIZE, "%s", name);
}

enum error pg_cache_clean(struct pg_cache *cache, struct failure *failure)
{
    struct name_list list = {.cache = cache};
    enum error error = cache->folder->operations->list(cache->folder, on_name, &list, failure);
    for (size_t i = 0; i < list.count && error == OK; i++)
        error = cache->folder->operations->remove(cache->folder, list.names_owned[i], failure);
    free(list.names_owned);
    return error;
}

/* --- is the copy the same? ---------------------------------------------------------------------------------------- */

/* A walk over the writes of a file, as PostgreSQL lists them. */
struct walk {
    struct pg_cache *cache;
    struct pg_session *session;
    struct pg_file *file;
    struct disk_file *copy;
    uint64_t patience_ms;
    struct pg_chain chain; /* of the writes so far */
    uint64_t matched_end;  /* up to where the copy had the same writes as PostgreSQL */
    /* The write that is being put together: its first chunk carries epoch and hash. */
    bool has_write;
    uint64_t at, epoch;
    uint8_t hash[PG_HASH_SIZE];
    struct buffer body; /* of chunks that were fetched */
    uint64_t size;      /* of those that were listed */
};

static enum error damaged(const struct walk *walk, uint64_t at, struct failure *failure)
{
    return failure_set(failure, ERROR_LOG_DAMAGED,
                       "file %s of log %s in PostgreSQL does not fit its own hash at offset %" PRIu64
                       ": a row of tally_log.chunk (file %" PRIu64
                       ") was changed. Restore the database from a backup, or "
                       "promote a replica.",
                       walk->file->name, walk->session->options->log, at, walk->file->id);
}

/* Takes what stands in the first column of a row: true if it begins a write. */
static bool begins_write(struct walk *walk, const PGresult *rows, int row)
{
    const struct bytes hash = pg_field(rows, row, 2);
    if (hash.ptr == NULL)
        return false;
    walk->has_write = true;
    walk->at = pg_number(rows, row, 0);
    walk->epoch = pg_number(rows, row, 1);
    memset(walk->hash, 0, PG_HASH_SIZE);
    memcpy(walk->hash, hash.ptr, hash.size < PG_HASH_SIZE ? hash.size : PG_HASH_SIZE);
    walk->size = 0;
    buffer_truncate(&walk->body, 0);
    return true;
}

/* Are the bytes from `from` to `to` of the copy zero? */
static bool is_zero_between(const struct walk *walk, uint64_t from, uint64_t to)
{
    uint8_t *window = memory_allocate(ZEROS_AT_ONCE);
    bool is_zero = true;
    while (from < to && is_zero) {
        const size_t piece = to - from < ZEROS_AT_ONCE ? (size_t)(to - from) : ZEROS_AT_ONCE;
        is_zero = walk->cache->folder->operations->read(walk->copy, from, window, piece, NULL) == OK &&
                  pg_chunk_cut(bytes_make(window, piece)).size == 0;
        from += piece;
    }
    free(window);
    return is_zero;
}

/* Does the copy have this write, and zeros before it? */
static bool copy_has_write(struct walk *walk)
{
    if (walk->at < walk->chain.end || walk->size == 0 || !is_zero_between(walk, walk->chain.end, walk->at))
        return false;
    buffer_truncate(&walk->body, 0);
    uint8_t *into = buffer_extend(&walk->body, walk->size);
    if (walk->cache->folder->operations->read(walk->copy, walk->at, into, walk->size, NULL) != OK ||
        into[walk->size - 1] == 0)
        return false;
    pg_chain_add(&walk->chain, &walk->cache->sha256, walk->epoch, walk->at, buffer_bytes(&walk->body));
    if (!pg_chain_has_hash(&walk->chain, bytes_make(walk->hash, PG_HASH_SIZE)))
        return false;
    walk->matched_end = walk->chain.end;
    return true;
}

static enum error fetch_rows(const struct walk *walk, enum pg_statement statement, uint64_t from, uint32_t count,
                             PGresult **rows, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i64(&values, walk->file->id);
    pg_add_i64(&values, from);
    pg_add_i32(&values, count);
    return pg_session_run(walk->session, statement, &values, pg_now_ms() + walk->patience_ms, rows, failure) == PG_DONE
               ? OK
               : failure->error;
}

static uint64_t behind(const PGresult *rows)
{
    return pg_number(rows, PQntuples(rows) - 1, 0) + 1;
}

/* *is_same: the copy is what PostgreSQL lists; walk->chain is then that of the whole file. */
static enum error compare(struct walk *walk, bool *is_same, struct failure *failure)
{
    *is_same = true;
    uint64_t from = 0, count = SIZES_AT_ONCE;
    while (*is_same && count == SIZES_AT_ONCE) {
        PGresult *rows = NULL;
        const enum error error = fetch_rows(walk, PG_SIZES, from, SIZES_AT_ONCE, &rows, failure);
        if (error != OK)
            return error;
        count = (uint64_t)PQntuples(rows);
        for (int i = 0; i < (int)count && *is_same; i++) {
            const bool had_write = walk->has_write;
            if (pg_field(rows, i, 2).ptr != NULL && had_write)
                *is_same = copy_has_write(walk);
            *is_same = (begins_write(walk, rows, i) || walk->has_write) && *is_same;
            walk->size += pg_number(rows, i, 3);
        }
        from = count == 0 ? from : behind(rows);
        PQclear(rows);
    }
    if (*is_same && walk->has_write)
        *is_same = copy_has_write(walk);
    uint64_t size = 0;
    const uint64_t wanted = walk->file->size > walk->chain.end ? walk->file->size : walk->chain.end;
    if (*is_same)
        *is_same = walk->cache->folder->operations->size(walk->copy, &size, NULL) == OK && size == wanted &&
                   is_zero_between(walk, walk->chain.end, size);
    return OK;
}

/* --- is PostgreSQL behind? ---------------------------------------------------------------------------------------- */

/* Does a whole frame of this segment begin here in the copy? */
static bool copy_has_frame(struct walk *walk, uint64_t position, uint64_t at, struct bytes sector)
{
    struct frame_header header;
    if (!frame_header_decode(sector, &header) || header.position != position)
        return false;
    buffer_truncate(&walk->body, 0);
    uint8_t *into = buffer_extend(&walk->body, header.size);
    return walk->cache->folder->operations->read(walk->copy, at, into, header.size, NULL) == OK &&
           frame_is_whole(&header, buffer_bytes(&walk->body));
}

/* The copy was written behind acknowledged commits. So where it has the same as PostgreSQL, and then a frame that
 * PostgreSQL has not, that was lost. Bytes that were only damaged are no frame. */
static bool copy_is_ahead(struct walk *walk)
{
    uint64_t start, size;
    if (!segment_name_decode(walk->file->name, &start) || walk->matched_end <= SEGMENT_HEADER_SIZE ||
        walk->cache->folder->operations->size(walk->copy, &size, NULL) != OK)
        return false;
    uint8_t sector[FRAME_SECTOR_SIZE];
    const struct bytes view = bytes_make(sector, sizeof(sector));
    uint64_t at = (walk->matched_end + FRAME_SECTOR_SIZE - 1) / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE;
    for (; at + sizeof(sector) <= size; at += sizeof(sector)) {
        if (walk->cache->folder->operations->read(walk->copy, at, sector, sizeof(sector), NULL) != OK)
            return false;
        if (!frame_bytes_are_zero(view))
            return copy_has_frame(walk, start + at, at, view);
    }
    return false;
}

static enum error fail_behind(const struct walk *walk, struct failure *failure)
{
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                       "PostgreSQL has lost writes that it had acknowledged (a failover to an asynchronous replica?): "
                       "this node's cache has frames of %s behind offset %" PRIu64
                       " that it has not. Clients may have been told that they are durable. This node goes on without "
                       "them.",
                       walk->file->name, walk->matched_end);
}

/* --- fetching ----------------------------------------------------------------------------------------------------- */

/* The write that was put together goes to the copy. */
static enum error put_write(struct walk *walk, struct failure *failure)
{
    const struct bytes body = buffer_bytes(&walk->body);
    if (walk->at < walk->chain.end || body.size == 0 || body.ptr[body.size - 1] == 0)
        return damaged(walk, walk->at, failure);
    pg_chain_add(&walk->chain, &walk->cache->sha256, walk->epoch, walk->at, body);
    if (!pg_chain_has_hash(&walk->chain, bytes_make(walk->hash, PG_HASH_SIZE)))
        return damaged(walk, walk->at, failure);
    walk->has_write = false;
    return walk->cache->folder->operations->write(walk->copy, walk->at, body, failure);
}

static enum error put_rows(struct walk *walk, const PGresult *rows, struct failure *failure)
{
    enum error error = OK;
    for (int i = 0; i < PQntuples(rows) && error == OK; i++) {
        if (pg_field(rows, i, 2).ptr != NULL && walk->has_write)
            error = put_write(walk, failure);
        const struct bytes body = pg_field(rows, i, 3);
        if (error == OK && !begins_write(walk, rows, i) &&
            (!walk->has_write || pg_number(rows, i, 0) != walk->at + walk->body.size))
            error = damaged(walk, pg_number(rows, i, 0), failure);
        if (error == OK)
            buffer_append_bytes(&walk->body, body);
    }
    return error;
}

/* From offset `from` on; what stood before is in walk->chain. */
static enum error fetch(struct walk *walk, uint64_t from, struct failure *failure)
{
    uint32_t count = ROWS_AT_ONCE;
    enum error error = OK;
    while (error == OK && count == ROWS_AT_ONCE) {
        PGresult *rows = NULL;
        error = fetch_rows(walk, PG_CHUNKS, from, ROWS_AT_ONCE, &rows, failure);
        if (error != OK)
            return error;
        error = put_rows(walk, rows, failure);
        count = (uint32_t)PQntuples(rows);
        from = count == 0 ? from : behind(rows);
        PQclear(rows);
    }
    return error == OK && walk->has_write ? put_write(walk, failure) : error;
}

static enum error open_copy(struct walk *walk, struct failure *failure)
{
    const struct disk_operations *operations = walk->cache->folder->operations;
    if (operations->open(walk->cache->folder, walk->file->name, &walk->copy, NULL) == OK)
        return OK;
    return operations->create(walk->cache->folder, walk->file->name, &walk->copy, failure);
}

static enum error fetch_whole(struct walk *walk, struct failure *failure)
{
    const struct disk_operations *operations = walk->cache->folder->operations;
    walk->chain = pg_chain_begin(&walk->cache->sha256, walk->file->id);
    walk->has_write = false;
    enum error error = operations->allocate(walk->copy, 0, 0, failure);
    if (error == OK)
        error = operations->allocate(walk->copy, walk->file->size, 0, failure);
    return error == OK ? fetch(walk, 0, failure) : error;
}

static void walk_end(struct walk *walk, enum error error)
{
    if (error == OK) {
        walk->file->chain = walk->chain;
        walk->file->is_cached = true;
    }
    if (walk->copy != NULL)
        walk->cache->folder->operations->close(walk->copy);
    buffer_deinit(&walk->body);
}

static struct walk walk_begin(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                              uint64_t patience_ms)
{
    struct walk walk = {
        .cache = cache, .session = session, .file = file, .patience_ms = patience_ms, .chain = file->chain};
    buffer_init(&walk.body);
    return walk;
}

/* A file that its owner removes while it is read is not damaged, and not empty either: it gets another name before the
 * first of its chunks goes. `error` is what reading it has come to. */
static enum error check_there(const struct walk *walk, enum error error, struct failure *failure)
{
    struct pg_values values = {0};
    pg_add_i32(&values, walk->session->head.id);
    PGresult *rows = NULL;
    struct failure cause;
    failure_init(&cause);
    if (pg_session_run(walk->session, PG_FILES, &values, pg_now_ms() + walk->patience_ms, &rows, &cause) != PG_DONE)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "%s", cause.text);
    bool is_there = false;
    for (int i = 0; i < PQntuples(rows) && !is_there; i++)
        is_there = pg_number(rows, i, 0) == walk->file->id &&
                   bytes_equal(pg_field(rows, i, 1), bytes_from_string(walk->file->name));
    PQclear(rows);
    if (is_there)
        return error;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "file %s was removed while it was read.", walk->file->name);
}

enum error pg_cache_complete(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                             uint64_t patience_ms, struct failure *failure)
{
    if (file->is_cached)
        return OK;
    struct walk walk = walk_begin(cache, session, file, patience_ms);
    walk.chain = pg_chain_begin(&cache->sha256, file->id);
    bool is_same = false, is_ahead = false;
    enum error error = open_copy(&walk, failure);
    if (error == OK)
        error = compare(&walk, &is_same, failure);
    if (error == OK && !is_same)
        is_ahead = copy_is_ahead(&walk);
    if (error == OK && !is_same)
        error = fetch_whole(&walk, failure);
    if (error == OK && is_ahead)
        error = fail_behind(&walk, failure);
    if ((error == OK && !is_same) || error == ERROR_LOG_DAMAGED)
        error = check_there(&walk, error, failure);
    walk_end(&walk, error);
    return error;
}

/* Its owner may have given it its size only after it was listed for the first time. */
static enum error grow_copy(const struct walk *walk, struct failure *failure)
{
    const struct disk_operations *operations = walk->cache->folder->operations;
    uint64_t size;
    const enum error error = operations->size(walk->copy, &size, failure);
    return error != OK || size >= walk->file->size ? error
                                                   : operations->allocate(walk->copy, walk->file->size, 0, failure);
}

enum error pg_cache_follow(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                           uint64_t patience_ms, struct failure *failure)
{
    ASSERT(file->is_cached);
    struct walk walk = walk_begin(cache, session, file, patience_ms);
    enum error error = open_copy(&walk, failure);
    if (error == OK)
        error = grow_copy(&walk, failure);
    if (error == OK)
        error = fetch(&walk, file->chain.end, failure);
    if (error == ERROR_LOG_DAMAGED && check_there(&walk, error, failure) == ERROR_LOG_DAMAGED)
        error = failure_set(failure, ERROR_DISK_FAILED,
                            "what PostgreSQL has of file %s does not go on from what this node has read (a failover to "
                            "an asynchronous replica?). It begins again.",
                            file->name);
    else if (error == ERROR_LOG_DAMAGED)
        error = ERROR_SERVICE_UNAVAILABLE;
    walk_end(&walk, error);
    return error;
}
