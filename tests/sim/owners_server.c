#include "owners_server.h"

#include "base/assert.h"
#include "base/memory.h"
#include "fail.h"
#include "owners.h"
#include "owners_fiber.h"
#include "owners_judge.h"
#include "owners_libpq.h"
#include "owners_plants.h"
#include "owners_tables.h"
#include "random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKENDS_MAX 64u
#define LOCKS_MAX 8u
#define CLOCK_BEGIN_MS UINT64_C(1700000000000)

/* --- backends ----------------------------------------------------------------------------------------------------- */

enum stage {
    STAGE_IDLE,
    STAGE_RUNS,       /* the statement is on its way to the tables */
    STAGE_LOCK_WAIT,  /* for the row of the log */
    STAGE_KEY_WAIT,   /* for an advisory lock */
    STAGE_COMMITS,    /* its changes are made, and nobody sees them */
    STAGE_FLUSHES,    /* its commit is in the log, and nobody sees it */
    STAGE_REPLICATES, /* its commit is durable, and waits for the replica */
};

struct backend {
    struct pg_conn *connection;
    int pid;
    bool is_over;
    bool is_left; /* the client is gone */
    enum stage stage;
    uint64_t step; /* of its newest call: an older one does nothing */
    uint64_t stopped_until;
    struct statement statement;
    struct commit *commit;
    bool has_shared, has_exclusive; /* the row of the log */
    bool is_relaxed;
    unsigned patience_ms;
    bool is_cancelled; /* its wait for the replica */
    bool is_ended;     /* and its connection with it */
    uint64_t keys[LOCKS_MAX];
    unsigned key_count;
    uint64_t wanted_key;
};

static struct {
    struct server_settings settings;
    struct random random;
    struct tables tables;
    struct commit **log_owned;
    size_t log_count, log_capacity;
    size_t flushed, replicated; /* of the log */
    uint64_t commits;
    uint64_t next_file;
    struct backend *backends[BACKENDS_MAX];
    unsigned backend_count;
    int pids;
    bool is_down;
    int64_t clock_ms;
    uint64_t slow_until, full_until, replica_stalled_until;
    uint32_t more_ms;
    bool has_lost, has_lost_frames;
    uint64_t statements;
    uint64_t lives; /* of the server: a call of a former one does nothing */
} server;

void server_init(const struct server_settings *settings)
{
    server.settings = *settings;
    server.random = random_stream(settings->seed, STREAM_DISK);
    server.next_file = 1;
    server.pids = 100;
}

uint64_t server_wall_ms(void)
{
    return CLOCK_BEGIN_MS + sim_now() / MS + (uint64_t)server.clock_ms;
}

uint64_t server_statements(void)
{
    return server.statements;
}

uint64_t server_commits(void)
{
    return server.commits;
}

bool server_is_up(void)
{
    return !server.is_down;
}

bool server_has_lost(void)
{
    return server.has_lost;
}

bool server_has_lost_frames(void)
{
    return server.has_lost_frames;
}

bool server_is_durable(uint64_t commit)
{
    for (size_t i = server.log_count; i > 0; i--)
        if (server.log_owned[i - 1]->number == commit)
            return i <= server.flushed && (server.settings.replication != REPLICATION_SYNC || i <= server.replicated);
    return false;
}

/* --- the tables --------------------------------------------------------------------------------------------------- */

static void apply_seen(const struct commit *commit)
{
    if (commit->has_fence)
        judge_fence(commit->fence.epoch, commit->fence.owner, server.tables.fence.epoch, server.tables.fence.owner,
                    commit->statement == PG_SEAL);
    tables_apply(&server.tables, commit);
}

/* After a crash: the tables are what the log says. */
static void rebuild(void)
{
    tables_clear(&server.tables);
    judge_forget_appends();
    for (size_t i = 0; i < server.log_count; i++)
        tables_apply(&server.tables, server.log_owned[i]);
}

/* --- calls that come later ---------------------------------------------------------------------------------------- */

static void go_on(void *context, uint64_t step);

static uint64_t delay(uint32_t least_us, uint32_t most_us)
{
    const uint64_t more = sim_now() < server.slow_until ? random_below(&server.random, server.more_ms + 1) * MS : 0;
    return random_between(&server.random, least_us, most_us) + more;
}

static void go_on_in(struct backend *backend, uint64_t wait)
{
    sim_at(sim_now() + wait, go_on, backend, ++backend->step);
}

static void trace(const struct backend *backend, const char *text)
{
    if (!server.settings.is_traced)
        return;
    const int number = backend->statement.number;
    owners_trace("backend %d: %s: %s", backend->pid, number >= 0 ? pg_statement_names[number] : backend->statement.text,
                 text);
}

/* --- locks -------------------------------------------------------------------------------------------------------- */

/* May this backend have the row of the log? */
static bool is_row_free(const struct backend *backend, bool is_exclusive)
{
    for (unsigned i = 0; i < server.backend_count; i++) {
        const struct backend *other = server.backends[i];
        if (other != backend && !other->is_over &&
            (other->has_exclusive || (is_exclusive && other->has_shared && !owners_plant_is(SEAL_DOES_NOT_WAIT))))
            return false;
    }
    return true;
}

static void wake_waiters(void)
{
    for (unsigned i = 0; i < server.backend_count; i++)
        if (!server.backends[i]->is_over && server.backends[i]->stage == STAGE_LOCK_WAIT) {
            server.backends[i]->stage = STAGE_RUNS;
            go_on_in(server.backends[i], random_between(&server.random, 10, 200));
        }
}

static void release_row(struct backend *backend)
{
    if (!backend->has_shared && !backend->has_exclusive)
        return;
    backend->has_shared = backend->has_exclusive = false;
    wake_waiters();
}

static bool has_key(const struct backend *backend, uint64_t key)
{
    for (unsigned i = 0; i < backend->key_count; i++)
        if (backend->keys[i] == key)
            return true;
    return false;
}

static bool is_key_free(const struct backend *backend, uint64_t key)
{
    for (unsigned i = 0; i < server.backend_count; i++)
        if (server.backends[i] != backend && !server.backends[i]->is_over && has_key(server.backends[i], key))
            return false;
    return true;
}

static void add_key(struct backend *backend, uint64_t key)
{
    if (has_key(backend, key))
        return;
    ASSERT(backend->key_count < LOCKS_MAX);
    backend->keys[backend->key_count++] = key;
}

/* --- the ends of statements --------------------------------------------------------------------------------------- */

static void end_backend(struct backend *backend)
{
    if (backend->is_over)
        return;
    backend->is_over = true;
    backend->step++;
    backend->key_count = 0;
    release_row(backend);
    if (!backend->is_left)
        connection_end(backend->connection);
    for (unsigned i = 0; i < server.backend_count; i++) {
        struct backend *other = server.backends[i];
        if (!other->is_over && other->stage == STAGE_KEY_WAIT && is_key_free(other, other->wanted_key)) {
            other->stage = STAGE_RUNS;
            go_on_in(other, random_between(&server.random, 100, 2000));
            break;
        }
    }
}

static void answer(struct backend *backend, struct pg_result *result)
{
    backend->stage = STAGE_IDLE;
    backend->commit = NULL;
    release_row(backend);
    if (backend->is_left) {
        end_backend(backend);
        return;
    }
    connection_answer(backend->connection, result);
    if (backend->is_ended)
        end_backend(backend);
}

static void answer_changed(struct backend *backend, uint64_t changed)
{
    struct pg_result *result = result_create(PGRES_COMMAND_OK, 0);
    (void)snprintf(result->changed, sizeof(result->changed), "%" PRIu64, changed);
    answer(backend, result);
}

static void refuse(struct backend *backend, const char *state, const char *text)
{
    trace(backend, text);
    answer(backend, result_refuse(state, text));
}

/* --- parameters --------------------------------------------------------------------------------------------------- */

static uint64_t number_of(const struct backend *backend, int index)
{
    ASSERT(index < backend->statement.count);
    const struct bytes value = backend->statement.values[index];
    uint64_t number = 0;
    for (size_t i = 0; i < value.size; i++)
        number = number << 8 | value.ptr[i];
    return number;
}

static void text_of(const struct backend *backend, int index, char *text, size_t size)
{
    ASSERT(index < backend->statement.count && backend->statement.values[index].size < size);
    (void)snprintf(text, size, "%.*s", BYTES_FORMAT(backend->statement.values[index]));
}

static struct fence fence_of(const struct backend *backend)
{
    struct fence fence = {.epoch = number_of(backend, 1)};
    ASSERT(backend->statement.values[2].size == PG_OWNER_SIZE);
    memcpy(fence.owner, backend->statement.values[2].ptr, PG_OWNER_SIZE);
    return fence;
}

/* --- what only reads ---------------------------------------------------------------------------------------------- */

static void add_bool(struct pg_result *result, bool is_true)
{
    result_add_number(result, is_true ? 1 : 0, 1);
}

static void run_check(struct backend *backend)
{
    struct pg_result *row = result_create(PGRES_TUPLES_OK, 10);
    add_bool(row, false);
    for (int i = 1; i <= 6; i++)
        add_bool(row, true);
    result_add_number(row, 150000, 4);
    result_add_number(row, SYSTEM_ID, 8);
    result_add_number(row, (uint64_t)backend->pid, 4);
    answer(backend, row);
}

static void run_head(struct backend *backend)
{
    const struct tables *tables = &server.tables;
    struct pg_result *row = result_create(PGRES_TUPLES_OK, 8);
    if (tables->has_head) {
        result_add_number(row, 1, 4);
        result_add_number(row, tables->fence.epoch, 8);
        result_add_bytes(row, bytes_make(tables->fence.owner, PG_OWNER_SIZE));
        result_add_bytes(row, bytes_from_string(tables->node));
        if (tables->system_id == 0)
            result_add_bytes(row, bytes_make(NULL, 0));
        else
            result_add_number(row, tables->system_id, 8);
        result_add_number(row, server_wall_ms(), 8);
        result_add_bytes(row, BYTES("")); /* the node's address */
        result_add_number(row, 0, 1);     /* it is not away */
    }
    answer(backend, row);
}

static void run_signs(struct backend *backend)
{
    struct pg_result *row = result_create(PGRES_TUPLES_OK, 5);
    if (server.tables.has_head) {
        result_add_number(row, server.tables.fence.epoch, 8);
        if (server.tables.has_beat)
            result_add_number(row, server.tables.beats, 8);
        else
            result_add_bytes(row, bytes_make(NULL, 0));
        result_add_bytes(row, bytes_from_string(server.tables.node));
        result_add_bytes(row, BYTES("")); /* its address */
        result_add_number(row, 0, 1);     /* it is not away */
    }
    answer(backend, row);
}

static int compare_names(const void *one, const void *other)
{
    return strcmp(((const struct row_of_file *)one)->name, ((const struct row_of_file *)other)->name);
}

static void run_files(struct backend *backend)
{
    struct pg_result *rows = result_create(PGRES_TUPLES_OK, 3);
    if (server.tables.file_count > 0)
        qsort(server.tables.files_owned, server.tables.file_count, sizeof(struct row_of_file), compare_names);
    for (size_t i = 0; i < server.tables.file_count; i++) {
        result_add_number(rows, server.tables.files_owned[i].id, 8);
        result_add_bytes(rows, bytes_from_string(server.tables.files_owned[i].name));
        result_add_number(rows, server.tables.files_owned[i].size, 8);
    }
    answer(backend, rows);
}

static void run_tail(struct backend *backend)
{
    const uint64_t file = number_of(backend, 0);
    struct pg_result *row = result_create(PGRES_TUPLES_OK, 2);
    for (size_t i = tables_chunk_index(&server.tables, file + 1, 0); i > 0; i--) {
        const struct row_of_chunk *chunk = &server.tables.chunks_owned[i - 1];
        if (chunk->file != file)
            break;
        if (chunk->hash.ptr == NULL)
            continue;
        result_add_number(row, chunk->at, 8);
        result_add_bytes(row, chunk->hash);
        break;
    }
    answer(backend, row);
}

static void run_chunks(struct backend *backend, bool wants_bodies)
{
    const uint64_t file = number_of(backend, 0), limit = number_of(backend, 2);
    struct pg_result *rows = result_create(PGRES_TUPLES_OK, 4);
    size_t index = tables_chunk_index(&server.tables, file, number_of(backend, 1));
    for (uint64_t i = 0; i < limit && index < server.tables.chunk_count; i++, index++) {
        const struct row_of_chunk *chunk = &server.tables.chunks_owned[index];
        if (chunk->file != file)
            break;
        result_add_number(rows, chunk->at, 8);
        result_add_number(rows, chunk->epoch, 8);
        result_add_bytes(rows, chunk->hash);
        if (wants_bodies)
            result_add_bytes(rows, chunk->body);
        else
            result_add_number(rows, chunk->body.size, 4);
    }
    answer(backend, rows);
}

static uint64_t key_of(uint64_t class, uint64_t key)
{
    return class << 32 | (key & UINT32_MAX);
}

static void run_try_lock(struct backend *backend)
{
    const uint64_t key = key_of(PG_LOCK_CLASS + number_of(backend, 0), number_of(backend, 1) % PG_LOCK_EPOCHS);
    struct pg_result *row = result_create(PGRES_TUPLES_OK, 1);
    const bool is_free = is_key_free(backend, key);
    if (is_free)
        add_key(backend, key);
    add_bool(row, is_free);
    answer(backend, row);
}

static void run_lock(struct backend *backend, uint64_t key)
{
    backend->wanted_key = key;
    if (!is_key_free(backend, key)) {
        backend->stage = STAGE_KEY_WAIT;
        return;
    }
    add_key(backend, key);
    trace(backend, "has the lock");
    answer(backend, result_create(PGRES_TUPLES_OK, 1));
}

static void run_text(struct backend *backend)
{
    const char *text = backend->statement.text;
    unsigned class, key;
    if (sscanf(text, "SELECT pg_advisory_lock(%u, %u)", &class, &key) == 2) {
        run_lock(backend, key_of(class, key));
        return;
    }
    if (strcmp(text, "SELECT number FROM tally_log.version") == 0) {
        struct pg_result *row = result_create(PGRES_TUPLES_OK, 1);
        char version[16];
        (void)snprintf(version, sizeof(version), "%d", PG_SCHEMA_VERSION);
        result_add_bytes(row, bytes_from_string(version));
        answer(backend, row);
        return;
    }
    if (strncmp(text, "SET ", 4) != 0)
        fail("a statement that this PostgreSQL does not know: %s", text);
    if (strncmp(text, "SET synchronous_commit", 22) == 0)
        backend->is_relaxed = strstr(text, "off") != NULL;
    const char *patience = strstr(text, "SET tcp_user_timeout = "); /* several may stand in a text */
    if (patience != NULL)
        (void)sscanf(patience, "SET tcp_user_timeout = %u", &backend->patience_ms);
    answer(backend, result_create(PGRES_COMMAND_OK, 0));
}

/* --- what changes something --------------------------------------------------------------------------------------- */

static struct commit *make_commit(enum pg_statement statement)
{
    struct commit *commit = memory_allocate_zeroed(sizeof(*commit));
    commit->statement = statement;
    return commit;
}

static uint32_t read_be32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static struct bytes copy(struct bytes bytes)
{
    uint8_t *own = memory_allocate(bytes.size + 1);
    memcpy(own, bytes.ptr, bytes.size);
    return bytes_make(own, bytes.size);
}

/* The rows of an array of type bytea[]. */
static void decode_chunks(const struct backend *backend, struct commit *commit)
{
    struct bytes array = backend->statement.values[6];
    commit->file = number_of(backend, 3);
    commit->chunk_count = read_be32(array.ptr + 12);
    commit->chunks_owned = memory_allocate_zeroed(commit->chunk_count * sizeof(*commit->chunks_owned));
    array = bytes_skip(array, 20);
    for (size_t i = 0; i < commit->chunk_count; i++) {
        const uint32_t size = read_be32(array.ptr);
        ASSERT(size <= PG_CHUNK_SIZE && size + 4 <= array.size);
        commit->chunks_owned[i] =
            (struct row_of_chunk){.file = commit->file,
                                  .at = number_of(backend, 4) + i * PG_CHUNK_SIZE,
                                  .epoch = number_of(backend, 7),
                                  .hash = i == 0 ? copy(backend->statement.values[5]) : bytes_make(NULL, 0),
                                  .body = copy(bytes_make(array.ptr + 4, size))};
        array = bytes_skip(array, size + 4);
    }
}

static void choose_chunks(const struct backend *backend, struct commit *commit)
{
    const uint64_t limit = number_of(backend, 4);
    commit->file = number_of(backend, 3);
    commit->chunks_owned = memory_allocate_zeroed((size_t)limit * sizeof(*commit->chunks_owned));
    for (size_t i = tables_chunk_index(&server.tables, commit->file, 0);
         i < server.tables.chunk_count && commit->chunk_count < limit; i++) {
        if (server.tables.chunks_owned[i].file != commit->file)
            break;
        commit->chunks_owned[commit->chunk_count++] = server.tables.chunks_owned[i];
    }
}

/* What a fenced statement changes; NULL: nothing. *changed: how many rows. */
static struct commit *make_fenced(struct backend *backend, uint64_t *changed)
{
    struct commit *commit = make_commit((enum pg_statement)backend->statement.number);
    const struct row_of_file *file = NULL;
    char name[FILE_NAME_SIZE];
    *changed = 1;
    switch (commit->statement) {
    case PG_APPEND:
        decode_chunks(backend, commit);
        *changed = commit->chunk_count;
        return commit;
    case PG_REMOVE_CHUNKS:
        choose_chunks(backend, commit);
        *changed = commit->chunk_count;
        return commit->chunk_count > 0 ? commit : NULL;
    case PG_BEAT:
        return server.tables.has_beat ? commit : NULL;
    case PG_CREATE:
        commit->file = server.next_file++;
        text_of(backend, 3, commit->name, sizeof(commit->name));
        return commit;
    case PG_RENAME:
        text_of(backend, 3, name, sizeof(name));
        text_of(backend, 4, commit->name, sizeof(commit->name));
        file = tables_find_file_by_name(&server.tables, name);
        break;
    default:
        file = tables_find_file(&server.tables, number_of(backend, 3));
        commit->size = commit->statement == PG_RESIZE ? number_of(backend, 4) : 0;
        break;
    }
    commit->file = file == NULL ? 0 : file->id;
    return file == NULL ? NULL : commit;
}

static void begin_commit(struct backend *backend, struct commit *commit)
{
    backend->commit = commit;
    backend->stage = STAGE_COMMITS;
    go_on_in(backend, delay(50, 1500));
}

static void run_fenced(struct backend *backend)
{
    const struct fence fence = fence_of(backend);
    if (!fence_is_same(&fence, &server.tables.fence) && !owners_plant_is(NO_FENCE)) {
        trace(backend, "the fence lets nothing through");
        answer_changed(backend, 0);
        return;
    }
    if (!is_row_free(backend, false)) {
        trace(backend, "waits for the row");
        backend->stage = STAGE_LOCK_WAIT;
        return;
    }
    backend->has_shared = true;
    uint64_t changed;
    struct commit *commit = make_fenced(backend, &changed);
    if (commit == NULL) {
        answer_changed(backend, 0);
        return;
    }
    if (tables_refuse(&server.tables, commit)) {
        refuse(backend, "23505", "duplicate key");
        return;
    }
    commit->fence = fence;
    commit->has_fence = true;
    begin_commit(backend, commit);
}

static void run_seal(struct backend *backend)
{
    struct fence fence = fence_of(backend);
    const bool holds = fence_is_same(&fence, &server.tables.fence) ||
                       (owners_plant_is(SEAL_TAKES_ANY) && fence.epoch + 2 > server.tables.fence.epoch);
    if (!holds) {
        trace(backend, "another owner was faster");
        answer(backend, result_create(PGRES_TUPLES_OK, 1));
        return;
    }
    if (!is_row_free(backend, true)) {
        trace(backend, "waits for the row");
        backend->stage = STAGE_LOCK_WAIT;
        return;
    }
    backend->has_exclusive = true;
    struct commit *commit = make_commit(PG_SEAL);
    commit->fence = fence;
    commit->has_fence = true;
    commit->sealed.epoch = fence.epoch + 1;
    memcpy(commit->sealed.owner, backend->statement.values[3].ptr, PG_OWNER_SIZE);
    text_of(backend, 4, commit->name, PG_NODE_SIZE);
    begin_commit(backend, commit);
}

static void run_register(struct backend *backend)
{
    if (server.tables.has_head) {
        answer_changed(backend, 0);
        return;
    }
    if (!is_row_free(backend, true)) { /* another one inserts the same key */
        backend->stage = STAGE_LOCK_WAIT;
        return;
    }
    backend->has_exclusive = true;
    struct commit *commit = make_commit(PG_REGISTER);
    memcpy(commit->sealed.owner, backend->statement.values[1].ptr, PG_OWNER_SIZE);
    begin_commit(backend, commit);
}

static void run_begin_beat(struct backend *backend)
{
    if (server.tables.has_beat)
        answer_changed(backend, 0);
    else
        begin_commit(backend, make_commit(PG_BEGIN_BEAT));
}

static void run_write(struct backend *backend)
{
    if (sim_now() < server.full_until) {
        refuse(backend, "53100", "no space left on device");
        return;
    }
    switch (backend->statement.number) {
    case PG_REGISTER:
        run_register(backend);
        break;
    case PG_BEGIN_BEAT:
        run_begin_beat(backend);
        break;
    case PG_SEAL:
        run_seal(backend);
        break;
    default:
        run_fenced(backend);
        break;
    }
}

static void run(struct backend *backend)
{
    switch (backend->statement.number) {
    case STATEMENT_PREPARE:
        answer(backend, result_create(PGRES_COMMAND_OK, 0));
        break;
    case STATEMENT_TEXT:
        run_text(backend);
        break;
    case PG_CHECK:
        run_check(backend);
        break;
    case PG_HEAD:
        run_head(backend);
        break;
    case PG_SIGNS:
        run_signs(backend);
        break;
    case PG_FILES:
        run_files(backend);
        break;
    case PG_TAIL:
        run_tail(backend);
        break;
    case PG_CHUNKS:
    case PG_SIZES:
        run_chunks(backend, backend->statement.number == PG_CHUNKS);
        break;
    case PG_TRY_LOCK:
        run_try_lock(backend);
        break;
    default:
        run_write(backend);
        break;
    }
}

/* --- commits ------------------------------------------------------------------------------------------------------ */

static void finish(struct backend *backend)
{
    const struct commit *commit = backend->commit;
    struct pg_result *result;
    if (commit->statement == PG_SEAL || commit->statement == PG_CREATE) {
        result = result_create(PGRES_TUPLES_OK, 1);
        result_add_number(result, commit->statement == PG_SEAL ? commit->sealed.epoch : commit->file, 8);
        (void)snprintf(result->changed, sizeof(result->changed), "1");
    } else {
        const bool has_chunks = commit->statement == PG_APPEND || commit->statement == PG_REMOVE_CHUNKS;
        result = result_create(PGRES_COMMAND_OK, 0);
        (void)snprintf(result->changed, sizeof(result->changed), "%zu", has_chunks ? commit->chunk_count : 1);
    }
    result->is_unreplicated = backend->is_cancelled && !owners_plant_is(WARNING_IGNORED);
    if (server.settings.is_traced)
        owners_trace("backend %d: %s of file %" PRIu64 " %s is seen%s", backend->pid,
                     pg_statement_names[commit->statement], commit->file, commit->name,
                     backend->is_cancelled ? ", and perhaps not replicated" : "");
    apply_seen(backend->commit);
    backend->is_cancelled = false;
    answer(backend, result);
}

static bool is_replicated(const struct commit *commit)
{
    for (size_t i = 0; i < server.replicated; i++)
        if (server.log_owned[i] == commit)
            return true;
    return false;
}

/* The replica has the first `count` commits of the log. */
static void note_replicated(void *context, uint64_t count)
{
    if (*(const uint64_t *)context != server.lives)
        return;
    if (sim_now() < server.replica_stalled_until) {
        sim_at(server.replica_stalled_until, note_replicated, context, count);
        return;
    }
    if (count <= server.replicated)
        return;
    server.replicated = count;
    for (unsigned i = 0; i < server.backend_count; i++) {
        struct backend *backend = server.backends[i];
        if (!backend->is_over && backend->stage == STAGE_REPLICATES && is_replicated(backend->commit))
            go_on_in(backend, random_between(&server.random, 50, 300));
    }
}

static void send_to_replica(void)
{
    if (server.settings.replication == REPLICATION_NONE)
        return;
    const uint32_t lag_us = server.settings.lag_ms_max * 1000;
    uint64_t *life = memory_allocate(sizeof(*life));
    *life = server.lives;
    sim_at(sim_now() + random_between(&server.random, 200, 500 + lag_us), note_replicated, life, server.flushed);
}

static void flush(void)
{
    if (server.flushed == server.log_count)
        return;
    server.flushed = server.log_count;
    send_to_replica();
}

static void flush_later(void *context, uint64_t number)
{
    (void)number;
    if (*(const uint64_t *)context == server.lives)
        flush();
}

static void write_to_log(struct backend *backend)
{
    struct commit *commit = backend->commit;
    if (tables_refuse(&server.tables, commit)) {
        refuse(backend, "23505", "duplicate key");
        return;
    }
    commit->number = ++server.commits;
    ARRAY_GROW(server.log_owned, server.log_count, server.log_capacity);
    server.log_owned[server.log_count++] = commit;
    if (!backend->is_relaxed) {
        backend->stage = STAGE_FLUSHES;
        go_on_in(backend, delay(100, 3000));
        return;
    }
    uint64_t *life = memory_allocate(sizeof(*life));
    *life = server.lives;
    sim_at(sim_now() + 200 * MS, flush_later, life, 0);
    finish(backend);
}

static void go_on(void *context, uint64_t step)
{
    struct backend *backend = context;
    if (backend->is_over || backend->step != step)
        return;
    if (backend->stopped_until > sim_now()) {
        sim_at(backend->stopped_until, go_on, backend, step);
        return;
    }
    switch (backend->stage) {
    case STAGE_RUNS:
        run(backend);
        break;
    case STAGE_COMMITS:
        write_to_log(backend);
        break;
    case STAGE_FLUSHES:
        flush();
        if (server.settings.replication == REPLICATION_SYNC && !is_replicated(backend->commit))
            backend->stage = STAGE_REPLICATES;
        else
            finish(backend);
        break;
    case STAGE_REPLICATES:
        finish(backend);
        break;
    default:
        break;
    }
}

/* --- connections -------------------------------------------------------------------------------------------------- */

struct backend *server_accept(struct pg_conn *connection)
{
    if (server.is_down)
        return NULL;
    unsigned at = 0;
    while (at < server.backend_count && !server.backends[at]->is_over)
        at++;
    if (at == BACKENDS_MAX)
        return NULL;
    struct backend *backend = memory_allocate_zeroed(sizeof(*backend));
    backend->connection = connection;
    backend->pid = ++server.pids;
    server.backends[at] = backend;
    if (at == server.backend_count)
        server.backend_count++;
    return backend;
}

int server_pid(const struct backend *backend)
{
    return backend->pid;
}

uint64_t server_patience_ms(const struct backend *backend)
{
    return owners_plant_is(SHORT_PATIENCE) ? 3000 : backend->patience_ms;
}

void server_take(struct backend *backend, const struct statement *statement)
{
    if (backend->is_over)
        return;
    if (backend->stage != STAGE_IDLE)
        fail("a second statement on a connection whose first is not over: %s",
             statement->number >= 0 ? pg_statement_names[statement->number] : statement->text);
    server.statements++;
    backend->statement = *statement;
    trace(backend, "arrives");
    backend->stage = STAGE_RUNS;
    go_on_in(backend, delay(20, 300));
}

/* One that works does not notice. One that waits for a lock looks now and then. */
void server_hang_up(struct backend *backend)
{
    backend->is_left = true;
    const bool waits = backend->stage == STAGE_KEY_WAIT || backend->stage == STAGE_LOCK_WAIT;
    if (backend->stage == STAGE_IDLE || (waits && random_chance(&server.random, 80)))
        end_backend(backend);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

static void come_back(void *context, uint64_t number)
{
    (void)context;
    (void)number;
    server.is_down = false;
    owners_trace("PostgreSQL is back");
}

static void end_all(uint64_t down_ms)
{
    server.is_down = true;
    server.lives++;
    for (unsigned i = 0; i < server.backend_count; i++)
        end_backend(server.backends[i]);
    sim_at(sim_now() + down_ms * MS, come_back, NULL, 0);
}

static void drop_from(size_t count)
{
    for (size_t i = count; i < server.log_count; i++) {
        const struct commit *commit = server.log_owned[i];
        if (commit->statement == PG_APPEND)
            judge_drop(commit->number);
    }
    server.log_count = count;
    server.flushed = count;
}

void server_restart(uint64_t down_ms)
{
    owners_trace("PostgreSQL restarts: %zu commits, %zu are flushed, %zu replicated", server.log_count, server.flushed,
                 server.replicated);
    end_all(down_ms);
    drop_from(server.flushed);
    rebuild();
    send_to_replica();
}

void server_fail_over(uint64_t down_ms, int64_t clock_ms)
{
    owners_trace("PostgreSQL fails over: %zu commits, %zu are flushed, %zu replicated", server.log_count,
                 server.flushed, server.replicated);
    end_all(down_ms);
    for (size_t i = server.replicated; i < server.log_count; i++) {
        server.has_lost = true;
        server.has_lost_frames = server.has_lost_frames || judge_is_frame(server.log_owned[i]->number);
    }
    drop_from(server.replicated);
    rebuild();
    server.clock_ms += clock_ms;
    /* A sequence is logged some numbers ahead, and that may be lost as well. */
    if (random_chance(&server.random, 50)) {
        server.next_file = 1;
        for (size_t i = 0; i < server.log_count; i++)
            if (server.log_owned[i]->statement == PG_CREATE && server.log_owned[i]->file >= server.next_file)
                server.next_file = server.log_owned[i]->file + 1;
    }
}

void server_stall_replica(uint64_t until)
{
    server.replica_stalled_until = until;
}

void server_slow_down(uint64_t until, uint32_t more_ms)
{
    server.slow_until = until;
    server.more_ms = more_ms;
}

/* One of those that are at that stage or a later one, drawn. */
static struct backend *draw_backend(enum stage least)
{
    struct backend *found[BACKENDS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < server.backend_count; i++)
        if (!server.backends[i]->is_over && server.backends[i]->stage >= least)
            found[count++] = server.backends[i];
    return count == 0 ? NULL : found[random_below(&server.random, count)];
}

bool server_stop_backend(uint64_t until)
{
    struct backend *backend = draw_backend(random_chance(&server.random, 80) ? STAGE_COMMITS : STAGE_RUNS);
    if (backend == NULL)
        return false;
    owners_trace("backend %d stands still", backend->pid);
    backend->stopped_until = until;
    return true;
}

bool server_cancel_wait(bool ends_connection)
{
    struct backend *backend = draw_backend(STAGE_REPLICATES);
    if (backend == NULL)
        return false;
    owners_trace("the wait of backend %d is cancelled", backend->pid);
    backend->is_cancelled = true;
    backend->is_ended = ends_connection;
    go_on_in(backend, 10);
    return true;
}

void server_terminate_backend(void)
{
    struct backend *backend = draw_backend(STAGE_IDLE);
    if (backend == NULL || backend->stage == STAGE_REPLICATES)
        return;
    owners_trace("backend %d is terminated", backend->pid);
    /* From the moment when its commit is in the log it does not look any more. */
    if (backend->stage == STAGE_FLUSHES)
        backend->is_ended = true;
    else
        end_backend(backend);
}

void server_fill_disk(uint64_t until)
{
    server.full_until = until;
}

void server_calm(void)
{
    server.slow_until = server.full_until = server.replica_stalled_until = sim_now();
}
