#include "relay/lease_sqlite.h"

#include "base/assert.h"
#include "base/memory.h"
#include "platform/monotonic.h"
#include "relay/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How long to wait for the application's transactions: short for a read, so that a beat is never late; longer for a
 * change of the owner. */
#define LOOK_PATIENCE_MS 100u
#define WRITE_PATIENCE_MS 1000u
#define CHECK_MS 10u  /* between two looks at the owner's lock */
#define BEAT_SIZE 21u /* bytes of a beat in the file: digits and a line's end */

enum statement { PEEK, READ_PLACE, TAKE_OVER, GIVE_UP, STATEMENT_COUNT };

static const char *const texts[STATEMENT_COUNT] = {
    [PEEK] = "SELECT source_id, epoch, owner FROM tally_lease WHERE source = 'outbox'",
    [READ_PLACE] = "SELECT path, inode FROM tally_lease WHERE source = 'outbox' AND path IS NOT NULL",
    [TAKE_OVER] = "UPDATE tally_lease SET epoch = max(epoch, ?1) + 1, owner = ?2, pid = ?3, path = ?6, inode = ?7 "
                  "WHERE source = 'outbox' AND epoch = ?4 AND owner = ?5 RETURNING epoch",
    [GIVE_UP] = "UPDATE tally_lease SET owner = '00000000-0000-0000-0000-000000000000', pid = NULL "
                "WHERE source = 'outbox' AND epoch = ?1 AND owner = ?2",
};

struct lease_sqlite {
    struct lease lease;
    struct sqlite sqlite;
    int file; /* -1: not open */
    char *file_path_owned;
    bool is_owner; /* as far as is known; then `owner` is locked */
    struct uid owner;
    bool is_free; /* wait() saw that the owner `gone` has ended, and holds its lock, so that only one stand-by tries */
    struct uid tombstones;
};

static struct lease_sqlite *lease_sqlite_of(struct lease *lease)
{
    ASSERT(lease != NULL);
    return CONTAINER_OF(lease, struct lease_sqlite, lease);
}

/* --- the file beside the database --------------------------------------------------------------------------------- */

/* Takes or gives back the byte of an owner. False: another one has it. */
static bool set_lock(const struct lease_sqlite *self, const struct uid *owner, short type)
{
    const uint64_t offset = bytes_get_u64(owner->bytes) >> 2; /* random enough that no two are the same */
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
    return fcntl(self->file, F_OFD_SETLK, &lock) == 0;
}

/* Unlocks before the descriptor is closed as well: a child process before its exec() has the descriptor, too. */
static void give_back(struct lease_sqlite *self)
{
    if (self->is_owner)
        (void)set_lock(self, &self->owner, F_UNLCK);
    if (self->is_free)
        (void)set_lock(self, &self->tombstones, F_UNLCK);
    self->is_owner = false;
    self->is_free = false;
}

static void close_file(struct lease_sqlite *self)
{
    give_back(self);
    if (self->file >= 0)
        (void)close(self->file);
    self->file = -1;
    free(self->file_path_owned);
    self->file_path_owned = NULL;
}

/* Whether the open file is still the one at its path; a clean-up may have removed it. */
static bool is_in_place(const struct lease_sqlite *self)
{
    struct stat open_one, there;
    return fstat(self->file, &open_one) == 0 && stat(self->file_path_owned, &there) == 0 &&
           open_one.st_ino == there.st_ino && open_one.st_dev == there.st_dev;
}

static enum step failed(const struct lease_sqlite *self, const char *what, struct fault *fault)
{
    const bool is_for_people = errno == EACCES || errno == EPERM || errno == EROFS || errno == EISDIR;
    return fault_set(
        fault, is_for_people ? STEP_UNFIT : STEP_UNREACHABLE,
        "%s %s, the file by which relays see each other, failed: %s. The relay's user must be able to write it", what,
        self->file_path_owned, strerrordesc_np(errno));
}

/* Gives the file the owner and mode of the database: who may write the database may write the file. */
static void share_like(int file, const char *database)
{
    struct stat status;
    if (stat(database, &status) == 0) {
        (void)fchmod(file, status.st_mode & 0666);
        if (geteuid() == 0)
            (void)!fchown(file, status.st_uid, status.st_gid);
    }
}

static enum step open_file(struct lease_sqlite *self, struct fault *fault)
{
    if (self->file >= 0 && is_in_place(self))
        return STEP_OK;
    close_file(self);
    char *database = sqlite_real_path(&self->sqlite);
    if (database == NULL)
        return fault_set(fault, STEP_UNREACHABLE, "SQLite database %s has just gone", self->sqlite.path_owned);
    const size_t size = strlen(database) + strlen(self->sqlite.prefix_owned) + 2;
    self->file_path_owned = memory_allocate(size);
    (void)snprintf(self->file_path_owned, size, "%s-%s", database, self->sqlite.prefix_owned);
    self->file = open(self->file_path_owned, O_RDWR | O_CLOEXEC);
    if (self->file < 0 && errno == ENOENT) {
        self->file = open(self->file_path_owned, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (self->file >= 0)
            share_like(self->file, database);
    }
    free(database);
    return self->file >= 0 ? STEP_OK : failed(self, "opening", fault);
}

static uint64_t read_beat(const struct lease_sqlite *self)
{
    char text[BEAT_SIZE + 1] = {0};
    const ssize_t size = pread(self->file, text, BEAT_SIZE, 0);
    return size == (ssize_t)BEAT_SIZE ? strtoull(text, NULL, 10) : 0;
}

static enum step write_beat(const struct lease_sqlite *self, struct fault *fault)
{
    char text[BEAT_SIZE + 1];
    (void)snprintf(text, sizeof(text), "%020" PRIu64 "\n", read_beat(self) + 1);
    if (pwrite(self->file, text, BEAT_SIZE, 0) != (ssize_t)BEAT_SIZE)
        return failed(self, "writing", fault);
    return STEP_OK;
}

/* --- the row ------------------------------------------------------------------------------------------------------ */

static enum step open_both(struct lease_sqlite *self, struct fault *fault)
{
    enum step step = sqlite_open(&self->sqlite, fault);
    return step == STEP_OK ? open_file(self, fault) : step;
}

static enum step read_term(struct lease_sqlite *self, struct term *term, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, PEEK);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK)
        return step;
    struct term read = {.epoch = is_row ? (uint64_t)sqlite3_column_int64(statement, 1) : 0};
    const bool is_sound = is_row && uid_from_text(sqlite_column_view(statement, 0), &read.source_id) &&
                          uid_from_text(sqlite_column_view(statement, 2), &read.owner);
    (void)sqlite3_reset(statement);
    if (!is_sound)
        return fault_set(
            fault, STEP_UNFIT,
            "SQLite database %s: %s_lease has no row for the source 'outbox', or one whose source_id or owner "
            "is no uuid: delete what is there, and then: tally relay schema --type sqlite | sqlite3 %s",
            self->sqlite.path_owned, self->sqlite.prefix_owned, self->sqlite.path_owned);
    *term = read;
    return STEP_OK;
}

static bool is_same(const struct uid *a, const struct uid *b)
{
    return memcmp(a->bytes, b->bytes, UID_SIZE) == 0;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

/* Checks once whether the owner's lock is free. If so, takes it and keeps it until take_over(), so that only one
 * stand-by tries; but only if the owner is still the same, because another stand-by may have been faster. */
static enum step look(struct lease_sqlite *self, struct term *seen, struct fault *fault)
{
    if (!set_lock(self, &seen->owner, F_WRLCK))
        return STEP_OK;
    struct term now;
    enum step step = read_term(self, &now, fault);
    if (step == STEP_OK && is_same(&now.owner, &seen->owner)) {
        self->is_free = true;
        self->tombstones = seen->owner;
        return STEP_OK;
    }
    (void)set_lock(self, &seen->owner, F_UNLCK);
    if (step == STEP_OK)
        *seen = now;
    return step;
}

static enum step wait_for_owner(struct lease *lease, unsigned wait_ms, bool *is_free, struct fault *fault)
{
    struct lease_sqlite *self = lease_sqlite_of(lease);
    const uint64_t end_ms = monotonic_ms() + wait_ms;
    struct term seen;
    enum step step = open_both(self, fault);
    if (step != STEP_OK)
        return step;
    give_back(self);
    step = read_term(self, &seen, fault);
    while (step == STEP_OK) {
        step = look(self, &seen, fault);
        if (step != STEP_OK || self->is_free || monotonic_ms() >= end_ms)
            break;
        sleep_for(CHECK_MS);
    }
    if (step == STEP_OK)
        *is_free = self->is_free;
    return step;
}

static enum step peek(struct lease *lease, struct lease_view *view, struct fault *fault)
{
    struct lease_sqlite *self = lease_sqlite_of(lease);
    struct lease_view seen = {0};
    enum step step = open_both(self, fault);
    if (step == STEP_OK)
        step = read_term(self, &seen.term, fault);
    if (step != STEP_OK)
        return step;
    seen.beat = read_beat(self);
    *view = seen;
    return STEP_OK;
}

/* Where the database is. */
struct location {
    char *path_owned;
    struct stat status;
};

static enum step find_location(const struct lease_sqlite *self, struct location *file_location, struct fault *fault)
{
    file_location->path_owned = sqlite_real_path(&self->sqlite);
    if (file_location->path_owned != NULL && stat(file_location->path_owned, &file_location->status) == 0)
        return STEP_OK;
    free(file_location->path_owned);
    return fault_set(fault, STEP_UNREACHABLE, "SQLite database %s has just gone", self->sqlite.path_owned);
}

/* Is this file a copy whose original still exists? Then two outboxes of one name would fence each other at a queue for
 * ever. A file that was moved, or restored in place, is no copy. */
static bool has_original(struct bytes recorded, uint64_t inode, const struct location *file_location)
{
    struct stat other;
    char original[PATH_MAX];
    if (recorded.size >= sizeof(original) || bytes_equal(recorded, bytes_from_string(file_location->path_owned)))
        return false;
    memcpy(original, recorded.ptr, recorded.size);
    original[recorded.size] = '\0';
    return stat(original, &other) == 0 && other.st_ino == inode &&
           (other.st_ino != file_location->status.st_ino || other.st_dev != file_location->status.st_dev);
}

static enum step check_location(struct lease_sqlite *self, const struct location *file_location, struct fault *fault)
{
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, READ_PLACE);
    bool is_row;
    enum step step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step != STEP_OK || !is_row)
        return step;
    const struct bytes recorded = sqlite_column_view(statement, 0);
    if (has_original(recorded, (uint64_t)sqlite3_column_int64(statement, 1), file_location))
        step = fault_set(
            fault, STEP_UNFIT,
            "SQLite database %.120s is a copy of %.*s, which is still there, and a queue would take both for one "
            "source. Move the original away if this one follows it, or else give this one an identity of its "
            "own, as the head of tally relay schema --type sqlite says",
            file_location->path_owned, (int)(recorded.size < 120 ? recorded.size : 120), (const char *)recorded.ptr);
    (void)sqlite3_reset(statement);
    return step;
}

/* The comparison that decides which stand-by wins. */
static enum step replace_owner(struct lease_sqlite *self, const struct lease_view *view, uint64_t epoch_min,
                               const struct location *file_location, struct term *term, bool *is_mine,
                               struct fault *fault)
{
    self->sqlite.patience_ms = WRITE_PATIENCE_MS;
    enum step step = sqlite_begin(&self->sqlite, fault);
    self->sqlite.patience_ms = LOOK_PATIENCE_MS;
    if (step != STEP_OK)
        return step;
    if (read_beat(self) !=
        view->beat) /* the owner has beaten meanwhile, perhaps while the application blocked everybody */
        return sqlite_end(&self->sqlite, STEP_OK, fault);
    sqlite3_stmt *statement = sqlite_statement(&self->sqlite, TAKE_OVER);
    sqlite_bind_u64(statement, 1, epoch_min);
    sqlite_bind_uid(statement, 2, &term->owner);
    (void)sqlite3_bind_int64(statement, 3, getpid());
    sqlite_bind_u64(statement, 4, view->term.epoch);
    sqlite_bind_uid(statement, 5, &view->term.owner);
    (void)sqlite3_bind_text(statement, 6, file_location->path_owned, -1, SQLITE_TRANSIENT);
    sqlite_bind_u64(statement, 7, file_location->status.st_ino);
    bool is_row;
    step = sqlite_next(&self->sqlite, statement, &is_row, fault);
    if (step == STEP_OK && is_row) {
        term->epoch = (uint64_t)sqlite3_column_int64(statement, 0);
        (void)sqlite3_reset(statement);
    }
    step = sqlite_end(&self->sqlite, step, fault);
    if (step == STEP_OK)
        *is_mine = is_row;
    return step;
}

static enum step take_over(struct lease *lease, const struct lease_view *view, uint64_t epoch_min, struct term *term,
                           bool *is_mine, struct fault *fault)
{
    struct lease_sqlite *self = lease_sqlite_of(lease);
    if (epoch_min >= INT64_MAX || view->term.epoch >= INT64_MAX)
        return fault_set(fault, STEP_UNFIT, "there is no epoch above %" PRIu64 ": the source needs a new source_id",
                         epoch_min > view->term.epoch ? epoch_min : view->term.epoch);
    enum step step = open_both(self, fault);
    if (step != STEP_OK)
        return step;
    *is_mine = false;
    if (self->is_free &&
        !is_same(&self->tombstones, &view->term.owner)) { /* another owner has followed already, and is alive */
        give_back(self);
        return STEP_OK;
    }
    struct location file_location;
    step = find_location(self, &file_location, fault);
    if (step != STEP_OK)
        return step;
    struct term mine = {.source_id = view->term.source_id};
    uid_generate(&mine.owner);
    step = check_location(self, &file_location, fault);
    if (step == STEP_OK &&
        !set_lock(self, &mine.owner, F_WRLCK)) /* lock first: others check it as soon as the commit is visible */
        step = failed(self, "locking", fault);
    if (step == STEP_OK)
        step = replace_owner(self, view, epoch_min, &file_location, &mine, is_mine, fault);
    free(file_location.path_owned);
    give_back(self);
    if (step != STEP_OK || !*is_mine) {
        (void)set_lock(self, &mine.owner, F_UNLCK);
        return step;
    }
    self->is_owner = true;
    self->owner = mine.owner;
    *term = mine;
    return write_beat(self, fault);
}

/* Beats first. While the application locks the database, the row can't be read, but nobody can take over either. */
static enum step beat(struct lease *lease, const struct term *term, struct fault *fault)
{
    struct lease_sqlite *self = lease_sqlite_of(lease);
    enum step step = open_both(self, fault);
    if (step == STEP_OK)
        step = write_beat(self, fault);
    struct term now;
    if (step == STEP_OK) {
        step = read_term(self, &now, fault);
        if (step == STEP_UNREACHABLE && self->sqlite.is_locked)
            return STEP_OK;
    }
    if (step != STEP_OK)
        return step;
    if (now.epoch != term->epoch || !is_same(&now.owner, &term->owner)) {
        give_back(self);
        return fault_set(fault, STEP_FENCED, "SQLite database %s: another relay has taken over, with epoch %" PRIu64,
                         self->sqlite.path_owned, now.epoch);
    }
    if (!self->is_owner) { /* the file had gone and is another one now */
        self->is_owner = set_lock(self, &term->owner, F_WRLCK);
        self->owner = term->owner;
    }
    return STEP_OK;
}

/* Releases the lock even if the row can't be changed: the lock alone tells the stand-bys. */
static void give_up(struct lease *lease, const struct term *term)
{
    struct lease_sqlite *self = lease_sqlite_of(lease);
    struct fault fault;
    if (open_both(self, &fault) == STEP_OK) {
        sqlite3_stmt *statement = sqlite_statement(&self->sqlite, GIVE_UP);
        sqlite_bind_u64(statement, 1, term->epoch);
        sqlite_bind_uid(statement, 2, &term->owner);
        self->sqlite.patience_ms = WRITE_PATIENCE_MS;
        (void)sqlite_run(&self->sqlite, statement, &fault);
        self->sqlite.patience_ms = LOOK_PATIENCE_MS;
    }
    give_back(self);
}

static void close_lease(struct lease *lease)
{
    struct lease_sqlite *self = lease_sqlite_of(lease);
    close_file(self);
    sqlite_deinit(&self->sqlite);
    free(self);
}

static const struct lease_ops operations = {
    .wait = wait_for_owner,
    .peek = peek,
    .take_over = take_over,
    .beat = beat,
    .give_up = give_up,
    .close = close_lease,
};

struct lease *lease_sqlite_create(const struct relay_spec *spec)
{
    struct lease_sqlite *self = memory_allocate_zeroed(sizeof(*self));
    self->lease.ops = &operations;
    self->file = -1;
    sqlite_init(&self->sqlite, spec->connection_owned, spec->table_owned, texts, STATEMENT_COUNT, LOOK_PATIENCE_MS);
    return &self->lease;
}
