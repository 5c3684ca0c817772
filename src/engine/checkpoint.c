#include "engine/checkpoint.h"

#include "base/memory.h"
#include "platform/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the child may make no progress. Its own pauses end after 50 ms, but a call may take as long as the disk
 * does. The slowest calls that return (a path that fails over, a file server that restarts, a gigabyte synced to a slow
 * disk) take some minutes. */
#define CHILD_STILL_MAX_MS UINT64_C(600000)
#define CHILD_CHECK_MS UINT64_C(1000)          /* how often it is looked at */
#define CHILD_CHECK_COUNTED_MS UINT64_C(10000) /* if two checks are further apart, the owner stood still, too */

void checkpoint_claim(struct checkpoint *checkpoint, struct disk *disk)
{
    static const atomic_bool is_hurried = true, is_short = true;
    ASSERT(disk != NULL && disk->is_hurried == NULL && disk->is_short == NULL);
    *checkpoint = (struct checkpoint){.disk = disk, .word = -1};
    disk->is_hurried = &is_hurried;
    disk->is_short = &is_short;
}

void checkpoint_init(struct checkpoint *checkpoint, struct log *log, const struct core *core,
                     const struct namespace_options *options, uint64_t size)
{
    struct disk *disk = checkpoint->disk;
    ASSERT(disk != NULL && log != NULL && core != NULL);
    disk->is_hurried = disk->is_short = NULL;
    *checkpoint = (struct checkpoint){.disk = disk,
                                      .log = log,
                                      .core = core,
                                      .options = options,
                                      .position = log_snapshot_position(log),
                                      .size = size,
                                      .entries = core_index_count(core),
                                      .at_ms = size > 0 ? core_now_ms(core) : 0,
                                      .word = -1};
    void *shared = mmap(NULL, sizeof(*checkpoint->flags), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return; /* snapshots always give way then */
    checkpoint->flags = shared;
    disk->is_hurried = &checkpoint->flags->is_hurried;
    disk->is_short = &checkpoint->flags->is_short;
}

static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "two processes share one");

/* Has room for as many segments as messages need now: a segment that is not needed now will not be needed later. */
static bool shared_create(struct checkpoint *checkpoint)
{
    const size_t size = sizeof(*checkpoint->shared_owned) + core_extents(checkpoint->core)->count * sizeof(uint64_t);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    checkpoint->shared_owned = memory;
    checkpoint->shared_size = size;
    return true;
}

static void shared_destroy(struct checkpoint *checkpoint)
{
    if (checkpoint->shared_owned != NULL)
        (void)munmap(checkpoint->shared_owned, checkpoint->shared_size);
    checkpoint->shared_owned = NULL;
}

void checkpoint_deinit(struct checkpoint *checkpoint)
{
    shared_destroy(checkpoint);
    checkpoint->disk->is_hurried = checkpoint->disk->is_short = NULL;
    if (checkpoint->flags != NULL)
        (void)munmap(checkpoint->flags, sizeof(*checkpoint->flags));
    checkpoint->flags = NULL;
}

static void go_ahead_close(struct checkpoint *checkpoint)
{
    if (checkpoint->word >= 0)
        (void)close(checkpoint->word);
    checkpoint->word = -1;
}

void checkpoint_abandon(struct checkpoint *checkpoint)
{
    if (checkpoint->child == 0)
        return;
    (void)kill(checkpoint->child, SIGKILL);
    (void)waitpid(checkpoint->child, NULL, 0);
    checkpoint->child = 0;
    checkpoint->is_active = checkpoint->is_releasing = false;
    go_ahead_close(checkpoint);
}

/* --- which segments may go ---------------------------------------------------------------------------------------- */

/* Remembers which of the segments before the snapshot a message needs at this moment. It is the moment when the
 * snapshot has been written, for that may take many seconds, in which much ends and is moved; what nothing needs by
 * then may go once the frames that say so are durable. */
static void settle(struct checkpoint *checkpoint, uint64_t newest)
{
    struct checkpoint_shared *shared = checkpoint->shared_owned;
    const uint64_t end = checkpoint->point.position / log_segment_size(checkpoint->log);
    for (uint64_t ordinal = core_next_needed_segment(checkpoint->core, 0); ordinal < end;
         ordinal = core_next_needed_segment(checkpoint->core, ordinal + 1)) {
        ASSERT(sizeof(*shared) + (shared->needed_count + 1) * sizeof(ordinal) <= checkpoint->shared_size);
        shared->needed[shared->needed_count++] = ordinal;
    }
    checkpoint->settled_sequence = newest;
    checkpoint->is_settled = true;
    checkpoint->is_releasing = checkpoint->child != 0;
}

static bool was_needed(void *context, uint64_t ordinal)
{
    const struct checkpoint *checkpoint = context;
    return extent_is_among(checkpoint->shared_owned->needed, checkpoint->shared_owned->needed_count, ordinal);
}

static struct log_cut cut_of(struct checkpoint *checkpoint)
{
    return (struct log_cut){
        .replay_position = checkpoint->point.position, .is_needed = was_needed, .context = checkpoint};
}

void checkpoint_release(struct checkpoint *checkpoint)
{
    const struct log_cut cut = cut_of(checkpoint);
    if (checkpoint->is_releasing)
        checkpoint->is_releasing = log_release(checkpoint->log, &cut);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

struct snapshot_sink {
    struct snapshot_writer *writer;
    enum error error;
    struct failure *failure;
};

static void append_piece(void *context, struct bytes piece)
{
    struct snapshot_sink *sink = context;
    if (sink->error == OK)
        sink->error = snapshot_append(sink->writer, piece, sink->failure);
}

static enum error write_snapshot(const struct checkpoint *checkpoint, struct failure *failure)
{
    struct snapshot_sink sink = {.failure = failure};
    enum error error = snapshot_begin(checkpoint->disk, &checkpoint->point, &sink.writer, failure);
    if (error != OK)
        return error;
    core_encode(checkpoint->core, append_piece, &sink);
    error = snapshot_finish(sink.writer, failure);
    return sink.error != OK ? sink.error : error;
}

static void note_published(struct checkpoint *checkpoint)
{
    checkpoint->is_active = false;
    checkpoint->position = checkpoint->point.position;
    checkpoint->at_ms = checkpoint->point.time_ms;
    checkpoint->taken++;
    checkpoint->failed_end = 0;
}

/* Of the one that was published: its size, and how many entries have it. Both stay as they were where the file can't be
 * asked. */
static enum error learn_size(struct checkpoint *checkpoint, struct failure *failure)
{
    const enum error error = snapshot_size(checkpoint->disk, &checkpoint->point, &checkpoint->size, failure);
    if (error == OK)
        checkpoint->entries = checkpoint->place_entries;
    return error;
}

/* The next snapshot is due when the log has grown a little from here. The same holds after one that could not remove
 * its segments: they count as room that another snapshot would free, so without this each snapshot would be followed by
 * the next at once. */
static void note_failed(struct checkpoint *checkpoint, uint64_t end)
{
    checkpoint->is_active = false;
    checkpoint->failed_end = end;
}

/* --- the child ---------------------------------------------------------------------------------------------------- */

/* The exit statuses of the child. */
enum { CHILD_DONE = 0, CHILD_FAILED = 1, CHILD_LEFT_SEGMENTS = 2, CHILD_LEFT_SNAPSHOT = 3 };

/* Waits until the owner lets the child publish; false if the owner ended first. */
static bool go_ahead_await(int word)
{
    char byte;
    ssize_t size;
    do
        size = read(word, &byte, 1);
    while (size < 0 && errno == EINTR);
    return size == 1;
}

void checkpoint_shared_explain(struct checkpoint_shared *shared, const struct failure *failure)
{
    if (failure->error == OK)
        return;
    const char *text = failure->text[0] != '\0' ? failure->text : error_row(failure->error)->text;
    struct bytes words = bytes_from_string(text);
    while (words.size > 0 && words.ptr[words.size - 1] == '.') /* the owner's sentence goes on */
        words.size--;
    (void)snprintf(shared->reason, sizeof(shared->reason), "%.*s", BYTES_FORMAT(words));
}

/* Writes and publishes the snapshot and removes what it replaces. The child does all this because each step waits for
 * the disk. Once published, the snapshot counts, even if some of the old files can't be removed. */
static int child_work(struct checkpoint *checkpoint, int word, struct failure *failure)
{
    if (write_snapshot(checkpoint, failure) != OK)
        return CHILD_FAILED;
    atomic_store(&checkpoint->shared_owned->is_written, true);
    if (!go_ahead_await(word) || snapshot_publish(checkpoint->disk, &checkpoint->point, failure) != OK)
        return CHILD_FAILED;
    const bool is_alone = snapshot_remove_older(checkpoint->disk, &checkpoint->point, failure) == OK;
    const struct log_cut cut = cut_of(checkpoint);
    const bool is_trimmed = log_trim(checkpoint->log, &cut, failure) == OK;
    checkpoint->shared_owned->is_unarchived = checkpoint->disk->is_unarchived;
    if (!is_trimmed)
        return CHILD_LEFT_SEGMENTS;
    return is_alone ? CHILD_DONE : CHILD_LEFT_SNAPSHOT;
}

/* The main function of the child. */
__attribute__((noreturn)) static void run_snapshot_child(struct checkpoint *checkpoint, pid_t owner, int word)
{
    /* The child holds the folder's lock too: it must not outlive the owner, not even one that has died already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != owner)
        _exit(CHILD_FAILED);
    /* Where the processor is short, requests come first. */
    aside_begin();
    struct failure failure;
    failure_init(&failure);
    const int result = child_work(checkpoint, word, &failure);
    if (result != CHILD_DONE)
        checkpoint_shared_explain(checkpoint->shared_owned, &failure);
    _exit(result);
}

static enum error give_up(struct checkpoint *checkpoint, uint64_t end, struct failure *failure, const char *text)
{
    note_failed(checkpoint, end);
    return failure_set(failure, ERROR_DISK_FAILED,
                       "no snapshot was taken, the log goes on: %s: %s; it keeps growing until one works",
                       checkpoint->disk->folder, text);
}

static enum error start_child(struct checkpoint *checkpoint, struct failure *failure)
{
    const uint64_t end = checkpoint->point.position;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return give_up(checkpoint, end, failure, "a pipe for a snapshot could not be made");
    const pid_t owner = getpid();
    /* A signal to all our processes, as Ctrl-C sends it, is for the owner. In the child, libuv's handler would write to
     * the pipe that both have, and the owner would hear it twice. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = fork();
    if (child == 0) {
        (void)close(ends[1]);
        run_snapshot_child(checkpoint, owner, ends[0]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(ends[0]);
    if (child < 0) {
        (void)close(ends[1]);
        return give_up(checkpoint, end, failure, "fork for a snapshot failed");
    }
    checkpoint->child = child;
    checkpoint->used_ns = checkpoint->checked_ms = checkpoint->still_ms = 0;
    checkpoint->is_hung = checkpoint->is_hang_reported = false;
    checkpoint->word = ends[1];
    return OK;
}

/* The processor time that a child has used so far; false where the system does not tell. */
static bool child_used(pid_t child, uint64_t *used_ns)
{
    clockid_t id;
    struct timespec used;
    if (clock_getcpuclockid(child, &id) != 0 || clock_gettime(id, &used) != 0)
        return false;
    *used_ns = (uint64_t)used.tv_sec * UINT64_C(1000000000) + (uint64_t)used.tv_nsec;
    return true;
}

/* Is the child waiting to be told to publish? */
static bool child_waits(const struct checkpoint *checkpoint)
{
    return checkpoint->word >= 0 && atomic_load(&checkpoint->shared_owned->is_written);
}

void checkpoint_watch(struct checkpoint *checkpoint, uint64_t now_ms)
{
    if (checkpoint->child == 0 || checkpoint->is_hung || child_waits(checkpoint) ||
        now_ms < checkpoint->checked_ms + CHILD_CHECK_MS)
        return;
    const uint64_t passed_ms = now_ms - checkpoint->checked_ms;
    uint64_t used_ns = 0;
    const bool is_told = child_used(checkpoint->child, &used_ns);
    /* Any progress takes processor time, even asking the disk and waking up. */
    if (!is_told || used_ns != checkpoint->used_ns)
        checkpoint->still_ms = 0;
    else
        checkpoint->still_ms += passed_ms < CHILD_CHECK_COUNTED_MS ? passed_ms : CHILD_CHECK_COUNTED_MS;
    checkpoint->used_ns = used_ns;
    checkpoint->checked_ms = now_ms;
    checkpoint->is_hung = checkpoint->still_ms >= CHILD_STILL_MAX_MS;
    if (checkpoint->is_hung)
        (void)kill(checkpoint->child, SIGKILL);
}

/* Lets the child publish, once the frames that it depends on are durable and none of the segments that it will remove
 * is mapped here. */
static void send_go_ahead(struct checkpoint *checkpoint, uint64_t durable)
{
    if (checkpoint->word < 0 || checkpoint->is_pinned || !checkpoint->is_settled || checkpoint->is_releasing ||
        durable < checkpoint->settled_sequence)
        return;
    /* Writing to a child that has ended fails; reap_child() finds out how it ended. */
    (void)!write(checkpoint->word, "", 1);
    go_ahead_close(checkpoint);
}

/* A killed child leaves no exit status. If its snapshot has its final name, the snapshot counts, and only old files may
 * be left. The name is synced here, because the child may have died before it did so. */
static int result_of_killed(const struct checkpoint *checkpoint, bool was_told)
{
    uint64_t size;
    if (!was_told || snapshot_size(checkpoint->disk, &checkpoint->point, &size, NULL) != OK ||
        checkpoint->disk->operations->sync_folder(checkpoint->disk, NULL) != OK)
        return CHILD_FAILED;
    return CHILD_LEFT_SEGMENTS;
}

/* What a child that has ended says, or what its end says. */
static const char *reason_of(const struct checkpoint *checkpoint, int status, char *text, size_t size)
{
    if (checkpoint->shared_owned->reason[0] != '\0')
        return checkpoint->shared_owned->reason;
    if (WIFSIGNALED(status))
        (void)snprintf(text, size, "the process that writes it was ended by signal %d", WTERMSIG(status));
    else
        (void)snprintf(text, size, "the process that writes it ended with status %d", WEXITSTATUS(status));
    return text;
}

/* The snapshot is done, but some old files are left. */
static enum error note_left(const struct checkpoint *checkpoint, const char *what, const char *reason,
                            struct failure *failure)
{
    return failure_set(failure, ERROR_DISK_FAILED,
                       "%s: %s that nothing needs could not be removed: %s; the next snapshot tries again",
                       checkpoint->disk->folder, what, reason);
}

/* Finds out how the child ended, once it has. */
static enum error reap_child(struct checkpoint *checkpoint, uint64_t end, struct failure *failure)
{
    int status = 0;
    const pid_t ended = waitpid(checkpoint->child, &status, WNOHANG);
    if (ended == 0)
        return OK;
    int result = ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : CHILD_FAILED;
    if (ended > 0 && WIFSIGNALED(status))
        result = result_of_killed(checkpoint, checkpoint->word < 0);
    char text[80];
    const char *reason = reason_of(checkpoint, status, text, sizeof(text));
    checkpoint->child = 0;
    checkpoint->is_releasing = false;
    go_ahead_close(checkpoint);
    checkpoint->is_unarchived = checkpoint->shared_owned->is_unarchived;
    if (result != CHILD_DONE && result != CHILD_LEFT_SEGMENTS && result != CHILD_LEFT_SNAPSHOT)
        return give_up(checkpoint, end, failure, reason);
    note_published(checkpoint);
    const enum error error = learn_size(checkpoint, failure);
    /* Which ones were left is not known, so all are tried again; those that have gone do no harm. */
    if (result == CHILD_LEFT_SEGMENTS) {
        note_failed(checkpoint, end);
        return note_left(checkpoint, "segments", reason, failure);
    }
    const struct log_cut cut = cut_of(checkpoint);
    log_forget(checkpoint->log, &cut);
    return result == CHILD_LEFT_SNAPSHOT ? note_left(checkpoint, "an older snapshot", reason, failure) : error;
}

/* --- in line ------------------------------------------------------------------------------------------------------ */

static enum error publish(struct checkpoint *checkpoint, struct failure *failure)
{
    enum error error = snapshot_publish(checkpoint->disk, &checkpoint->point, failure);
    if (error != OK) {
        note_failed(checkpoint, checkpoint->point.position);
        return error;
    }
    note_published(checkpoint);
    error = learn_size(checkpoint, failure);
    const enum error older = snapshot_remove_older(checkpoint->disk, &checkpoint->point, error == OK ? failure : NULL);
    error = error == OK ? older : error;
    const struct log_cut cut = cut_of(checkpoint);
    const enum error trimmed = log_trim(checkpoint->log, &cut, error == OK ? failure : NULL);
    checkpoint->is_unarchived = checkpoint->disk->is_unarchived;
    if (trimmed != OK)
        note_failed(checkpoint, checkpoint->point.position);
    return error == OK ? trimmed : error;
}

/* --- when --------------------------------------------------------------------------------------------------------- */

/* The last snapshot tells how many bytes an entry of the index takes, if it had at least this many entries: 80 bytes
 * for a plain message, about 100 for one with a group and as much for the group. Until then a larger size is
 * assumed. */
#define TELLING_ENTRIES 1000u
#define ENTRY_BYTES 160u

struct disk_policy checkpoint_policy(const struct checkpoint *checkpoint)
{
    return (struct disk_policy){.snapshot_least = checkpoint->options->snapshot_bytes,
                                .snapshot_worth = checkpoint->options->snapshot_worth,
                                .cleans_eagerly = checkpoint->options->cleans_eagerly};
}

void checkpoint_hurry(struct checkpoint *checkpoint, const struct disk_sizes *sizes)
{
    const struct disk_policy policy = checkpoint_policy(checkpoint);
    if (checkpoint->flags != NULL)
        atomic_store_explicit(&checkpoint->flags->is_hurried,
                              disk_is_short(checkpoint->disk) || disk_snapshot_is_urgent(&policy, sizes),
                              memory_order_relaxed);
}

void checkpoint_set_short(struct checkpoint *checkpoint, bool is_short)
{
    if (checkpoint->flags != NULL)
        atomic_store_explicit(&checkpoint->flags->is_short, is_short, memory_order_relaxed);
}

uint64_t checkpoint_next_size(const struct checkpoint *checkpoint)
{
    uint64_t entries = core_index_count(checkpoint->core);
    if (checkpoint->entries >= TELLING_ENTRIES)
        return (uint64_t)((double)checkpoint->size * (double)entries / (double)checkpoint->entries);
    return checkpoint->size + (entries > checkpoint->entries ? ENTRY_BYTES * (entries - checkpoint->entries) : 0);
}

bool checkpoint_pin(struct checkpoint *checkpoint)
{
    checkpoint->is_pinned = true;
    return !checkpoint->is_active || checkpoint->child == 0 || checkpoint->word >= 0;
}

void checkpoint_unpin(struct checkpoint *checkpoint)
{
    checkpoint->is_pinned = false;
}

bool checkpoint_is_due(const struct checkpoint *checkpoint, const struct disk_sizes *sizes, uint64_t end)
{
    const struct disk_policy policy = checkpoint_policy(checkpoint);
    if (checkpoint->failed_end != 0 && end - checkpoint->failed_end < policy.snapshot_least)
        return false;
    return disk_snapshot_is_due(&policy, sizes);
}

enum error checkpoint_start(struct checkpoint *checkpoint, const struct snapshot_point *point, bool in_line,
                            struct failure *failure)
{
    ASSERT(!checkpoint->is_active && checkpoint->child == 0);
    checkpoint->point = *point;
    checkpoint->place_entries = core_index_count(checkpoint->core);
    checkpoint->is_settled = checkpoint->is_unarchived = checkpoint->disk->is_unarchived = false;
    shared_destroy(checkpoint);
    if (!shared_create(checkpoint))
        return give_up(checkpoint, point->position, failure, "there is no memory for a snapshot");
    checkpoint->is_active = true;
    if (!in_line)
        return start_child(checkpoint, failure);
    const enum error error = write_snapshot(checkpoint, failure);
    if (error != OK)
        note_failed(checkpoint, point->position);
    return error;
}

enum error checkpoint_step(struct checkpoint *checkpoint, const struct checkpoint_progress *progress,
                           struct failure *failure)
{
    ASSERT(checkpoint->is_active);
    const bool is_in_line = checkpoint->child == 0;
    if (!checkpoint->is_settled && (is_in_line || atomic_load(&checkpoint->shared_owned->is_written))) {
        settle(checkpoint, progress->newest);
        checkpoint_release(checkpoint);
    }
    if (is_in_line && (checkpoint->is_pinned || progress->durable < checkpoint->settled_sequence))
        return OK;
    if (is_in_line)
        return publish(checkpoint, failure);
    send_go_ahead(checkpoint, progress->durable);
    if (!checkpoint->is_hung)
        return reap_child(checkpoint, progress->end, failure);
    if (checkpoint->is_hang_reported) {
        (void)reap_child(checkpoint, progress->end, NULL);
        return OK;
    }
    checkpoint->is_hang_reported = true;
    return failure_set(
        failure, ERROR_DISK_FAILED,
        "no snapshot was taken, the log goes on: %s: the process that writes one, %ld, has not moved for "
        "%u minutes and is ended (does the disk answer?); the log keeps growing until one works",
        checkpoint->disk->folder, (long)checkpoint->child, (unsigned)(CHILD_STILL_MAX_MS / 60000));
}
