#include "relay/sqlite.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/schema.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

void sqlite_init(struct sqlite *sqlite, const char *path, const char *prefix, const char *const *texts, unsigned count,
                 unsigned patience_ms)
{
    *sqlite = (struct sqlite){
        .path_owned = memory_duplicate_string(path),
        .prefix_owned = memory_duplicate_string(prefix == NULL ? SCHEMA_NAME_DEFAULT : prefix),
        .texts = texts,
        .count = count,
        .patience_ms = patience_ms,
        .statements_owned = memory_allocate_zeroed(count * sizeof(sqlite3_stmt *)),
    };
    ASSERT(sqlite->path_owned != NULL && sqlite->prefix_owned != NULL);
}

static void close_handle(struct sqlite *sqlite)
{
    for (unsigned i = 0; i < sqlite->count; i++) {
        (void)sqlite3_finalize(sqlite->statements_owned[i]);
        sqlite->statements_owned[i] = NULL;
    }
    (void)sqlite3_close_v2(sqlite->handle_owned);
    sqlite->handle_owned = NULL;
}

void sqlite_deinit(struct sqlite *sqlite)
{
    close_handle(sqlite);
    free(sqlite->statements_owned);
    free(sqlite->path_owned);
    free(sqlite->prefix_owned);
}

/* --- what failures mean ------------------------------------------------------------------------------------------- */

static const struct meaning {
    int code;
    enum step step;
    bool is_broken; /* the connection may be too: the next call opens another */
    const char *advice;
} meanings[] = {
    {SQLITE_BUSY, STEP_UNREACHABLE, false,
     "another connection holds its lock; keep transactions that write short, and locking_mode NORMAL"},
    {SQLITE_LOCKED, STEP_UNREACHABLE, false,
     "another connection holds its lock; keep transactions that write short, and locking_mode NORMAL"},
    {SQLITE_PROTOCOL, STEP_UNREACHABLE, false, "other connections come and go too fast"},
    {SQLITE_FULL, STEP_UNREACHABLE, false, "make room on its disk"},
    {SQLITE_NOMEM, STEP_UNREACHABLE, false, "there is no memory for it now"},
    {SQLITE_INTERRUPT, STEP_UNREACHABLE, false, "it was interrupted"},
    {SQLITE_IOERR, STEP_UNREACHABLE, true, "its disk does not read or write; look into the system's log"},
    {SQLITE_CANTOPEN, STEP_UNFIT, true, "let the relay's user read and write the file and its folder"},
    {SQLITE_READONLY, STEP_UNFIT, true, "let the relay's user write the file, its folder and what stands beside it"},
    {SQLITE_PERM, STEP_UNFIT, true, "let the relay's user read and write the file and its folder"},
    {SQLITE_AUTH, STEP_UNFIT, true, "let the relay's user read and write the file and its folder"},
    {SQLITE_CORRUPT, STEP_UNFIT, true,
     "the file is damaged: stop what uses it, and restore a backup or save what can be read with sqlite3's .recover"},
    {SQLITE_NOTADB, STEP_UNFIT, true, "the file is no SQLite database, or an encrypted one"},
};

static const struct meaning *find_meaning(int code)
{
    for (size_t i = 0; i < ARRAY_LENGTH(meanings); i++)
        if (meanings[i].code == (code & 0xff))
            return &meanings[i];
    return NULL;
}

enum step sqlite_failed(struct sqlite *sqlite, struct fault *fault)
{
    const int code = sqlite3_errcode(sqlite->handle_owned);
    const char *said = sqlite3_errmsg(sqlite->handle_owned);
    const struct meaning *meaning = find_meaning(code);
    sqlite->is_locked = (code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED;
    if (meaning == NULL)
        return fault_set(
            fault, STEP_UNFIT,
            "SQLite database %s: %s. Its tables are to be those of: tally relay schema --type sqlite | sqlite3 %s",
            sqlite->path_owned, said, sqlite->path_owned);
    (void)fault_set(fault, meaning->step, "SQLite database %s: %s: %s", sqlite->path_owned, said, meaning->advice);
    if (meaning->is_broken)
        close_handle(sqlite);
    return meaning->step;
}

/* Called while another connection holds a lock. SQLite's own handler sleeps for up to 100 ms between two looks, and
 * would starve beside busy writers. */
static int on_busy(void *context, int count)
{
    struct sqlite *sqlite = context;
    const uint64_t now_ms = monotonic_ms();
    if (count == 0)
        sqlite->busy_since_ms = now_ms;
    if (now_ms - sqlite->busy_since_ms >= sqlite->patience_ms)
        return 0;
    sleep_for(count < 20 ? 1 : 5);
    return 1;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

const char *sqlite_network_file_system(long type)
{
    /* The numbers of Linux's magic.h and of statfs(2). What FUSE and 9P serve may be local or not; nobody can tell. */
    static const struct {
        uint32_t type;
        const char *name;
    } known[] = {
        {0x6969, "NFS"},      {0x517b, "SMB"},     {0xff534d42, "CIFS"},   {0xfe534d42, "SMB2"},
        {0x5346414f, "AFS"},  {0x6b414653, "AFS"}, {0x00c36400, "Ceph"},   {0x0bd00bd0, "Lustre"},
        {0x73757245, "Coda"}, {0x564c, "NCP"},     {0x19830326, "BeeGFS"}, {0x47504653, "GPFS"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++)
        if (known[i].type == (uint32_t)type)
            return known[i].name;
    return NULL;
}

char *sqlite_real_path(const struct sqlite *sqlite)
{
    return realpath(sqlite->path_owned, NULL);
}

static enum step check_file(const struct sqlite *sqlite, const char *path, struct fault *fault)
{
    if (!schema_name_is_sound(sqlite->prefix_owned))
        return fault_set(
            fault, STEP_UNFIT,
            "%.80s is no prefix of tables: it is 1 to %u lower-case letters, digits and underscores, no digit first",
            sqlite->prefix_owned, SCHEMA_NAME_SIZE_MAX);
    if (path == NULL)
        return fault_set(fault, STEP_UNFIT,
                         "there is no SQLite database %s (%s): the application makes it, and then: tally relay schema "
                         "--type sqlite | sqlite3 %s",
                         sqlite->path_owned, strerrordesc_np(errno), sqlite->path_owned);
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return fault_set(fault, STEP_UNFIT, "%s is no file, so no SQLite database", path);
    struct statfs mounted;
    const char *network = statfs(path, &mounted) == 0 ? sqlite_network_file_system(mounted.f_type) : NULL;
    if (network != NULL)
        return fault_set(
            fault, STEP_UNFIT,
            "%s is on a network file system (%s), where SQLite's locks don't hold: put it on a disk of this "
            "machine, or keep the outbox in PostgreSQL",
            path, network);
    return STEP_OK;
}

static enum step prepare(struct sqlite *sqlite, const char *text, sqlite3_stmt **statement, struct fault *fault)
{
    struct buffer sql;
    buffer_init(&sql);
    schema_write(text, sqlite->prefix_owned, &sql);
    const int code = sqlite3_prepare_v3(sqlite->handle_owned, (const char *)sql.data_owned, (int)sql.size,
                                        SQLITE_PREPARE_PERSISTENT, statement, NULL);
    buffer_deinit(&sql);
    return code == SQLITE_OK ? STEP_OK : sqlite_failed(sqlite, fault);
}

static enum step check_version(struct sqlite *sqlite, struct fault *fault)
{
    sqlite3_stmt *statement = NULL;
    enum step step = prepare(sqlite, "SELECT version FROM tally_version", &statement, fault);
    bool is_row = false;
    if (step == STEP_OK)
        step = sqlite_next(sqlite, statement, &is_row, fault);
    const int version = is_row ? sqlite3_column_int(statement, 0) : 0;
    (void)sqlite3_finalize(statement);
    if (step == STEP_OK && version != SQLITE_TABLES_VERSION)
        return fault_set(fault, STEP_UNFIT,
                         "SQLite database %s: its tables %s_* have version %d, and this relay works with version %d: "
                         "tally relay schema --type sqlite | sqlite3 %s",
                         sqlite->path_owned, sqlite->prefix_owned, version, SQLITE_TABLES_VERSION, sqlite->path_owned);
    if (step == STEP_UNFIT && sqlite->handle_owned != NULL &&
        (sqlite3_errcode(sqlite->handle_owned) & 0xff) == SQLITE_ERROR)
        return fault_set(fault, STEP_UNFIT,
                         "SQLite database %s has no outbox (table %s_outbox): tally relay schema --type sqlite | "
                         "sqlite3 %s",
                         sqlite->path_owned, sqlite->prefix_owned, sqlite->path_owned);
    return step;
}

static enum step connect_to(struct sqlite *sqlite, const char *path, struct fault *fault)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(path, &sqlite->handle_owned, flags, NULL) != SQLITE_OK)
        return sqlite_failed(sqlite, fault);
    (void)sqlite3_extended_result_codes(sqlite->handle_owned, 1);
    (void)sqlite3_busy_handler(sqlite->handle_owned, on_busy, sqlite);
    /* What a relay has noted must outlive a power failure, also where the default is another. */
    if (sqlite3_exec(sqlite->handle_owned, "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK)
        return sqlite_failed(sqlite, fault);
    if (sqlite3_db_readonly(sqlite->handle_owned, "main") == 1)
        return fault_set(fault, STEP_UNFIT, "SQLite database %s can't be written: let the relay's user write it", path);
    enum step step = check_version(sqlite, fault);
    for (unsigned i = 0; i < sqlite->count && step == STEP_OK; i++)
        step = prepare(sqlite, sqlite->texts[i], &sqlite->statements_owned[i], fault);
    return step;
}

/* Whether the file was moved, deleted or replaced: what happens at the path now is not seen through the open one. */
static bool is_moved(struct sqlite *sqlite)
{
    int moved = 0;
    (void)sqlite3_file_control(sqlite->handle_owned, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved != 0;
}

enum step sqlite_open(struct sqlite *sqlite, struct fault *fault)
{
    sqlite->is_locked = false;
    if (sqlite->handle_owned != NULL && is_moved(sqlite))
        close_handle(sqlite);
    if (sqlite->handle_owned != NULL)
        return STEP_OK;
    char *path = sqlite_real_path(sqlite);
    enum step step = check_file(sqlite, path, fault);
    if (step == STEP_OK)
        step = connect_to(sqlite, path, fault);
    if (step != STEP_OK)
        close_handle(sqlite);
    free(path);
    return step;
}

/* --- statements --------------------------------------------------------------------------------------------------- */

sqlite3_stmt *sqlite_statement(struct sqlite *sqlite, unsigned index)
{
    ASSERT(sqlite->handle_owned != NULL && index < sqlite->count);
    sqlite3_stmt *statement = sqlite->statements_owned[index];
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return statement;
}

enum step sqlite_next(struct sqlite *sqlite, sqlite3_stmt *statement, bool *is_row, struct fault *fault)
{
    *is_row = false;
    const int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) {
        *is_row = true;
        return STEP_OK;
    }
    if (code == SQLITE_DONE) {
        (void)sqlite3_reset(statement); /* or else it would keep its lock */
        return STEP_OK;
    }
    (void)sqlite3_reset(statement); /* the connection still knows what was wrong */
    return sqlite_failed(sqlite, fault);
}

enum step sqlite_run(struct sqlite *sqlite, sqlite3_stmt *statement, struct fault *fault)
{
    bool is_row;
    enum step step = sqlite_next(sqlite, statement, &is_row, fault);
    ASSERT(!is_row);
    return step;
}

static enum step execute(struct sqlite *sqlite, const char *text, struct fault *fault)
{
    return sqlite3_exec(sqlite->handle_owned, text, NULL, NULL, NULL) == SQLITE_OK ? STEP_OK
                                                                                   : sqlite_failed(sqlite, fault);
}

enum step sqlite_begin(struct sqlite *sqlite, struct fault *fault)
{
    return execute(sqlite, "BEGIN IMMEDIATE", fault);
}

enum step sqlite_begin_reading(struct sqlite *sqlite, struct fault *fault)
{
    return execute(sqlite, "BEGIN", fault);
}

enum step sqlite_end(struct sqlite *sqlite, enum step step, struct fault *fault)
{
    if (sqlite->handle_owned == NULL) /* closed by a failure, and undone with it */
        return step;
    if (step == STEP_OK)
        step = execute(sqlite, "COMMIT", fault);
    if (sqlite->handle_owned != NULL && !sqlite3_get_autocommit(sqlite->handle_owned) &&
        sqlite3_exec(sqlite->handle_owned, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK)
        close_handle(sqlite);
    return step;
}

void sqlite_bind_uid(sqlite3_stmt *statement, int index, const struct uid *uid)
{
    char text[UID_TEXT_SIZE];
    uid_to_text(uid, text);
    (void)sqlite3_bind_text(statement, index, text, UID_TEXT_SIZE - 1, SQLITE_TRANSIENT);
}

void sqlite_bind_u64(sqlite3_stmt *statement, int index, uint64_t value)
{
    /* SQLite's integers have a sign. What is above them is in no row: -1 is neither. */
    (void)sqlite3_bind_int64(statement, index, value <= INT64_MAX ? (sqlite3_int64)value : -1);
}

struct bytes sqlite_column_view(sqlite3_stmt *statement, int index)
{
    const void *ptr =
        sqlite3_column_type(statement, index) == SQLITE_NULL ? NULL : sqlite3_column_text(statement, index);
    return bytes_make(ptr, ptr == NULL ? 0 : (size_t)sqlite3_column_bytes(statement, index));
}

uint64_t sqlite_column_age(sqlite3_stmt *statement, int index)
{
    const sqlite3_int64 age = sqlite3_column_int64(statement, index);
    return age > 0 ? (uint64_t)age : 0;
}
