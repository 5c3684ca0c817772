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
#define ORIGIN "origin" /* a file of the folder: which log it is a cache of */

void pg_cache_init(struct pg_cache *cache, struct disk *folder)
{
    *cache = (struct pg_cache){.folder = folder};
    sha256_init(&cache->sha256);
}

void pg_file_hold(struct pg_file *file)
{
    (void)atomic_fetch_add_explicit(&file->holders, 1, memory_order_relaxed);
}

void pg_file_let_go(struct pg_file *file)
{
    const unsigned holders = atomic_fetch_sub_explicit(&file->holders, 1, memory_order_acq_rel);
    ASSERT(holders > 0);
    if (holders == 1)
        free(file);
}

static void remove_at(struct pg_cache *cache, size_t at)
{
    struct pg_file *file = cache->files_owned[at];
    cache->files_owned[at] = cache->files_owned[--cache->count];
    file->is_gone = true;
    pg_file_let_go(file);
}

void pg_cache_deinit(struct pg_cache *cache)
{
    while (cache->count > 0)
        remove_at(cache, cache->count - 1);
    free(cache->files_owned);
    sha256_deinit(&cache->sha256);
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

bool pg_file_is_listed(const struct pg_file *file, const PGresult *rows)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (pg_number(rows, i, 0) == file->id)
            return bytes_equal(pg_field(rows, i, 1), bytes_from_string(file->name));
    return false;
}

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
    atomic_init(&file->holders, 1); /* the list */
    ARRAY_GROW(cache->files_owned, cache->count, cache->capacity);
    cache->files_owned[cache->count++] = file;
    return file;
}

void pg_cache_remove(struct pg_cache *cache, struct pg_file *file)
{
    for (size_t i = 0; i < cache->count; i++)
        if (cache->files_owned[i] == file) {
            remove_at(cache, i);
            return;
        }
}

/* Looks first behind the last one that was found: both lists have nearly the same order, and a log may have thousands
 * of files. NULL: there is none. */
static struct pg_file *find_near(const struct pg_cache *cache, uint64_t id, size_t *next)
{
    for (size_t i = 0; i < cache->count; i++) {
        const size_t at = (*next + i) % cache->count;
        if (cache->files_owned[at]->id != id)
            continue;
        *next = at + 1;
        return cache->files_owned[at];
    }
    return NULL;
}

struct pg_file *pg_cache_find_by_id(const struct pg_cache *cache, uint64_t id)
{
    size_t next = 0;
    return find_near(cache, id, &next);
}

enum error pg_cache_list(struct pg_cache *cache, struct pg_session *session, uint64_t until_ms, struct failure *failure)
{
    PGresult *rows = NULL;
    if (pg_session_list_files(session, until_ms, &rows, failure) != PG_DONE)
        return failure->error;
    size_t next = 0;
    cache->listings++;
    for (int i = 0; i < PQntuples(rows); i++) {
        const uint64_t id = pg_number(rows, i, 0);
        char name[PG_NAME_SIZE];
        pg_text(rows, i, 1, name, sizeof(name));
        struct pg_file *file = find_near(cache, id, &next);
        if (file == NULL)
            file = pg_cache_add(cache, id, name, 0);
        file->size = pg_number(rows, i, 2);
        (void)snprintf(file->name, sizeof(file->name), "%s", name); /* it may have been renamed */
        file->listed = cache->listings;
    }
    PQclear(rows);
    for (size_t i = cache->count; i > 0; i--)
        if (cache->files_owned[i - 1]->listed != cache->listings)
            remove_at(cache, i - 1);
    return OK;
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
    struct buffer body;   /* of chunks that were fetched */
    struct buffer newest; /* the newest frame that the copy had, and where */
    uint64_t newest_at;
    uint64_t size; /* of those that were listed */
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

/* Are the bytes from `from` to `to` of the copy zero? Most of a segment is a hole. */
static bool is_zero_between(const struct walk *walk, uint64_t from, uint64_t to)
{
    const struct disk_operations *operations = walk->cache->folder->operations;
    uint8_t *window = memory_allocate(ZEROS_AT_ONCE);
    bool is_zero = true;
    while (from < to && is_zero) {
        from = operations->next_data == NULL ? from : operations->next_data(walk->copy, from);
        if (from >= to)
            break;
        const size_t piece = to - from < ZEROS_AT_ONCE ? (size_t)(to - from) : ZEROS_AT_ONCE;
        is_zero = operations->read(walk->copy, from, window, piece, NULL) == OK &&
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

/* Does a whole frame of this segment begin here in the copy? Its bytes are then in walk->newest. */
static bool copy_has_frame(struct walk *walk, uint64_t position, uint64_t at, struct bytes sector)
{
    struct frame_header header;
    if (!frame_header_decode(sector, &header) || header.position != position)
        return false;
    buffer_truncate(&walk->newest, 0);
    uint8_t *into = buffer_extend(&walk->newest, header.size);
    return walk->cache->folder->operations->read(walk->copy, at, into, header.size, NULL) == OK &&
           frame_is_whole(&header, buffer_bytes(&walk->newest));
}

/* The newest frame of the copy in a window of it that begins at `at`. */
static bool window_has_frame(struct walk *walk, uint64_t start, uint64_t at, struct bytes window)
{
    for (size_t end = window.size; end >= FRAME_SECTOR_SIZE; end -= FRAME_SECTOR_SIZE) {
        const uint64_t offset = at + end - FRAME_SECTOR_SIZE;
        const struct bytes sector = bytes_make(window.ptr + end - FRAME_SECTOR_SIZE, FRAME_SECTOR_SIZE);
        if (frame_bytes_are_zero(sector) || !copy_has_frame(walk, start + offset, offset, sector))
            continue;
        walk->newest_at = offset;
        return true;
    }
    return false;
}

/* Is the copy one of this log, and not of another one that the folder was used for? Frames tell, or the header: it has
 * a checksum of the frame before it, but not in the first segment. */
static bool is_of_this_log(const struct walk *walk, uint64_t start)
{
    return walk->cache->is_own || walk->matched_end > SEGMENT_HEADER_SIZE ||
           (walk->matched_end == SEGMENT_HEADER_SIZE && start > 0);
}

/* Finds the newest frame of the copy behind what it has in common with PostgreSQL. The copy was written behind
 * acknowledged commits. So where both have the same, and PostgreSQL then lacks that frame, that was lost. Bytes that
 * were only damaged are no frame; and a frame behind them may well be in PostgreSQL. */
static bool find_newest(struct walk *walk)
{
    uint64_t start, size;
    if (!segment_name_decode(walk->file->name, &start) || !is_of_this_log(walk, start) ||
        walk->cache->folder->operations->size(walk->copy, &size, NULL) != OK)
        return false;
    const uint64_t least = (walk->matched_end + FRAME_SECTOR_SIZE - 1) / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE;
    uint8_t *window = memory_allocate(ZEROS_AT_ONCE);
    bool is_found = false, is_read = true;
    for (uint64_t end = size / FRAME_SECTOR_SIZE * FRAME_SECTOR_SIZE; end > least && is_read && !is_found;) {
        const size_t piece = end - least < ZEROS_AT_ONCE ? (size_t)(end - least) : ZEROS_AT_ONCE;
        end -= piece;
        is_read = walk->cache->folder->operations->read(walk->copy, end, window, piece, NULL) == OK;
        is_found = is_read && window_has_frame(walk, start, end, bytes_make(window, piece));
    }
    free(window);
    return is_found;
}

/* A file that its owner removes while it is read is not damaged, and not empty either: it gets another name before the
 * first of its chunks goes. `error` is what reading it has come to. */
static enum error judge_reading(const struct walk *walk, enum error error, struct failure *failure)
{
    PGresult *rows = NULL;
    struct failure cause;
    failure_init(&cause);
    if (pg_session_list_files(walk->session, pg_now_ms() + walk->patience_ms, &rows, &cause) != PG_DONE)
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE, "%s", cause.text);
    const bool is_there = pg_file_is_listed(walk->file, rows);
    PQclear(rows);
    if (is_there)
        return error;
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                       "file %s was removed while this node read it. It begins again, from the newest snapshot.",
                       walk->file->name);
}

/* What of a row's bytes belongs to the newest frame. */
static void take_part(const struct walk *walk, uint64_t at, struct bytes body, uint8_t *frame)
{
    const uint64_t begin = at > walk->newest_at ? at : walk->newest_at;
    const uint64_t end = walk->newest_at + walk->newest.size;
    const uint64_t body_end = at + body.size < end ? at + body.size : end;
    if (begin < body_end)
        memcpy(frame + (begin - walk->newest_at), body.ptr + (begin - at), body_end - begin);
}

/* Has PostgreSQL that frame? Of a file that is being removed nobody can say it. */
static enum error look_for_newest(const struct walk *walk, bool *is_there, struct failure *failure)
{
    const uint64_t from = walk->newest_at < PG_CHUNK_SIZE ? 0 : walk->newest_at - PG_CHUNK_SIZE + 1;
    const uint64_t count = PG_CHUNK_SIZE / FRAME_SECTOR_SIZE + walk->newest.size / PG_CHUNK_SIZE + 2;
    PGresult *rows = NULL;
    const enum error error = fetch_rows(walk, PG_CHUNKS, from, (uint32_t)count, &rows, failure);
    if (error != OK)
        return error;
    uint8_t *frame = memory_allocate_zeroed(walk->newest.size);
    for (int i = 0; i < PQntuples(rows); i++)
        take_part(walk, pg_number(rows, i, 0), pg_field(rows, i, 3), frame);
    *is_there = bytes_equal(bytes_make(frame, walk->newest.size), buffer_bytes(&walk->newest));
    free(frame);
    PQclear(rows);
    return *is_there ? OK : judge_reading(walk, OK, failure);
}

static enum error fail_lost_tail(const struct walk *walk, struct failure *failure)
{
    return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                       PG_LOST
                       "this node's cache has frames of %s behind offset %" PRIu64 ", the newest at offset %" PRIu64
                       ", that it has not. Clients may have been told that they are durable. This node goes on without "
                       "them.",
                       walk->file->name, walk->matched_end, walk->newest_at);
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
    buffer_deinit(&walk->newest);
}

static struct walk walk_begin(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                              uint64_t patience_ms)
{
    struct walk walk = {
        .cache = cache, .session = session, .file = file, .patience_ms = patience_ms, .chain = file->chain};
    buffer_init(&walk.body);
    buffer_init(&walk.newest);
    return walk;
}

enum error pg_cache_complete(struct pg_cache *cache, struct pg_session *session, struct pg_file *file,
                             uint64_t patience_ms, struct failure *failure)
{
    if (file->is_cached)
        return OK;
    struct walk walk = walk_begin(cache, session, file, patience_ms);
    walk.chain = pg_chain_begin(&cache->sha256, file->id);
    bool is_same = false, has_newest = true;
    enum error error = open_copy(&walk, failure);
    if (error == OK)
        error = compare(&walk, &is_same, failure);
    if (error == OK && !is_same && find_newest(&walk))
        error = look_for_newest(&walk, &has_newest, failure);
    const bool is_behind = error == OK && !has_newest;
    if (error == OK && !is_same)
        error = fetch_whole(&walk, failure);
    if (is_behind) /* even where the copy could not be made anew: it does not show the loss any more */
        error = fail_lost_tail(&walk, failure);
    const bool is_empty = walk.chain.end == 0; /* or its chunks have gone, and a copy that has none is the same */
    if ((error == OK && (!is_same || is_empty)) || error == ERROR_LOG_DAMAGED)
        error = judge_reading(&walk, error, failure);
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
    if (error == ERROR_LOG_DAMAGED && judge_reading(&walk, error, failure) == ERROR_LOG_DAMAGED)
        error = failure_set(
            failure, ERROR_DISK_FAILED,
            PG_LOST "what it has of file %s does not go on from what this node has read. It begins again.", file->name);
    else if (error == ERROR_LOG_DAMAGED)
        error = ERROR_SERVICE_UNAVAILABLE;
    walk_end(&walk, error);
    return error;
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
    const bool is_kept = strcmp(name, "lock") == 0 || strcmp(name, ORIGIN) == 0;
    if (is_kept || strlen(name) >= PG_NAME_SIZE || (list->cache->is_own && pg_cache_find(list->cache, name) != NULL))
        return;
    ARRAY_GROW(list->names_owned, list->count, list->capacity);
    (void)snprintf(list->names_owned[list->count++], PG_NAME_SIZE, "%s", name);
}

/* Which log the connection goes to. */
static void write_origin(const struct pg_session *session, struct buffer *text)
{
    buffer_append_format(text, "log %s, number %" PRIu32 " of database %s on the server %" PRIu64 "\n",
                         session->options->log, session->head.id, PQdb(session->link.connection_owned),
                         session->server_id);
}

static bool has_origin(const struct pg_cache *cache, struct bytes origin)
{
    const struct disk_operations *operations = cache->folder->operations;
    struct disk_file *file;
    if (operations->open(cache->folder, ORIGIN, &file, NULL) != OK)
        return false;
    uint64_t size;
    struct buffer found;
    buffer_init(&found);
    const bool is_same = operations->size(file, &size, NULL) == OK && size == origin.size &&
                         operations->read(file, 0, buffer_extend(&found, size), size, NULL) == OK &&
                         bytes_equal(buffer_bytes(&found), origin);
    buffer_deinit(&found);
    operations->close(file);
    return is_same;
}

static enum error put_origin(const struct pg_cache *cache, struct bytes origin, struct failure *failure)
{
    const struct disk_operations *operations = cache->folder->operations;
    struct disk_file *file;
    enum error error = operations->remove(cache->folder, ORIGIN, failure);
    if (error == OK)
        error = operations->create(cache->folder, ORIGIN, &file, failure);
    if (error != OK)
        return error;
    error = operations->write(file, 0, origin, failure);
    if (error == OK)
        error = operations->sync(file, failure);
    operations->close(file);
    return error == OK ? operations->sync_folder(cache->folder, failure) : error;
}

static bool has_frames(struct pg_cache *cache, const char *name, uint64_t start)
{
    struct walk walk = {.cache = cache};
    if (cache->folder->operations->open(cache->folder, name, &walk.copy, NULL) != OK)
        return false;
    uint8_t sector[FRAME_SECTOR_SIZE];
    buffer_init(&walk.newest);
    const uint64_t at = SEGMENT_HEADER_SIZE; /* of the first frame */
    const bool has = cache->folder->operations->read(walk.copy, at, sector, sizeof(sector), NULL) == OK &&
                     copy_has_frame(&walk, start + at, at, bytes_make(sector, sizeof(sector)));
    buffer_deinit(&walk.newest);
    cache->folder->operations->close(walk.copy);
    return has;
}

/* A segment behind all that PostgreSQL has, with frames: of this log that is what a failover has lost. Those before it
 * were removed in order. NULL: there is none. */
static const char *find_lost(struct pg_cache *cache, const struct name_list *list)
{
    uint64_t newest = 0, start;
    for (size_t i = 0; i < cache->count; i++)
        if (segment_name_decode(cache->files_owned[i]->name, &start) && start > newest)
            newest = start;
    for (size_t i = 0; i < list->count; i++)
        if (segment_name_decode(list->names_owned[i], &start) && start >= newest &&
            has_frames(cache, list->names_owned[i], start))
            return list->names_owned[i];
    return NULL;
}

enum error pg_cache_adopt(struct pg_cache *cache, const struct pg_session *session, struct failure *failure)
{
    struct buffer origin;
    struct name_list list = {.cache = cache};
    buffer_init(&origin);
    write_origin(session, &origin);
    cache->is_own = has_origin(cache, buffer_bytes(&origin));
    enum error error = cache->folder->operations->list(cache->folder, on_name, &list, failure);
    const char *lost = error == OK && cache->is_own ? find_lost(cache, &list) : NULL;
    for (size_t i = 0; i < list.count && error == OK; i++)
        error = cache->folder->operations->remove(cache->folder, list.names_owned[i], failure);
    if (error == OK && !cache->is_own)
        error = put_origin(cache, buffer_bytes(&origin), failure);
    if (lost != NULL)
        error = failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                            PG_LOST "this node's cache has frames in %s, and there is no such file. Clients may have "
                                    "been told that they are durable. This node goes on without them.",
                            lost);
    buffer_deinit(&origin);
    free(list.names_owned);
    return error;
}
