#include "api/checkpoint.h"

#include "base/memory.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the process that writes a snapshot: a tenth of the owner's share of a core they compete for. */
#define SNAPSHOT_NICENESS 10

void checkpoint_init(struct checkpoint *checkpoint, struct disk *disk, struct log *log, const struct core *core,
                     const struct namespace_options *options, uint64_t size)
{
    ASSERT(disk != NULL && log != NULL && core != NULL);
    *checkpoint = (struct checkpoint){.disk = disk, .log = log, .core = core, .options = options, .size = size};
}

void checkpoint_deinit(struct checkpoint *checkpoint)
{
    free(checkpoint->needed_owned);
    checkpoint->needed_owned = NULL;
}

void checkpoint_abandon(struct checkpoint *checkpoint)
{
    if (checkpoint->child == 0)
        return;
    (void)kill(checkpoint->child, SIGKILL);
    (void)waitpid(checkpoint->child, NULL, 0);
    checkpoint->child = 0;
    checkpoint->is_active = false;
}

/* --- which segments may go ---------------------------------------------------------------------------------------- */

/* Remembers which segments a message needs at this moment: only what nothing needed then may be removed later, because an
 * ending after this moment may not be durable yet. */
static void remember_needed(struct checkpoint *checkpoint)
{
    size_t capacity = 0;
    checkpoint->needed_count = 0;
    for (uint64_t ordinal = core_next_needed_segment(checkpoint->core, 0); ordinal != UINT64_MAX;
         ordinal = core_next_needed_segment(checkpoint->core, ordinal + 1)) {
        if (checkpoint->needed_count == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            checkpoint->needed_owned =
                memory_resize(checkpoint->needed_owned, capacity * sizeof(*checkpoint->needed_owned));
        }
        checkpoint->needed_owned[checkpoint->needed_count++] = ordinal;
    }
}

static bool was_needed(void *context, uint64_t ordinal)
{
    const struct checkpoint *checkpoint = context;
    size_t low = 0, high = checkpoint->needed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (checkpoint->needed_owned[middle] < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low < checkpoint->needed_count && checkpoint->needed_owned[low] == ordinal;
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
    enum error error = snapshot_begin(checkpoint->disk, &checkpoint->place, &sink.writer, failure);
    if (error != OK)
        return error;
    core_encode(checkpoint->core, append_piece, &sink);
    error = snapshot_finish(sink.writer, failure);
    return sink.error != OK ? sink.error : error;
}

/* The child's whole life. */
__attribute__((noreturn)) static void be_snapshot_child(const struct checkpoint *checkpoint, pid_t owner)
{
    /* The child holds the folder's lock too: it must not outlive the owner, not even one that has died already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != owner)
        _exit(1);
    /* Where the processor is short, requests come first. */
    (void)setpriority(PRIO_PROCESS, 0, SNAPSHOT_NICENESS);
    struct failure failure;
    _exit(write_snapshot(checkpoint, &failure) == OK ? 0 : 1);
}

static enum error start_child(struct checkpoint *checkpoint, struct failure *failure)
{
    pid_t owner = getpid();
    /* A signal to all our processes, as Ctrl-C sends it, is for the owner. In the child, libuv's handler would write to the
     * pipe that both have, and the owner would hear it twice. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        be_snapshot_child(checkpoint, owner);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) {
        checkpoint->is_active = false;
        checkpoint->position = checkpoint->place.position; /* try again after as much log */
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                           "fork for a snapshot failed; the log keeps growing until one works");
    }
    checkpoint->child = child;
    return OK;
}

/* Has the child finished? Notes whether it did well. */
static enum error reap_child(struct checkpoint *checkpoint, uint64_t end, struct failure *failure)
{
    int status = 0;
    if (checkpoint->child == 0 || waitpid(checkpoint->child, &status, WNOHANG) != checkpoint->child)
        return OK;
    checkpoint->child = 0;
    checkpoint->is_written = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    checkpoint->is_active = checkpoint->is_written;
    if (checkpoint->is_written)
        return OK;
    snapshot_discard(checkpoint->disk, &checkpoint->place);
    checkpoint->position = end; /* try again after as much log */
    return failure_set(failure, ERROR_DISK_FAILED,
                       "%s: a snapshot could not be written (is the disk full?); the log keeps growing until one works",
                       checkpoint->disk->folder);
}

static enum error publish(struct checkpoint *checkpoint, struct failure *failure)
{
    checkpoint->is_active = false;
    checkpoint->position = checkpoint->place.position;
    enum error error = snapshot_publish(checkpoint->disk, &checkpoint->place, &checkpoint->size, failure);
    if (error != OK)
        return error;
    return log_trim(checkpoint->log, checkpoint->place.position, was_needed, checkpoint, failure);
}

/* --- when --------------------------------------------------------------------------------------------------------- */

/* A snapshot costs as much as it holds, so a large one must serve for longer: taking them costs a bounded part of writing the log,
 * however much is waiting. */
bool checkpoint_is_due(const struct checkpoint *checkpoint, uint64_t end)
{
    uint64_t least = checkpoint->options->snapshot_bytes;
    uint64_t worthwhile = checkpoint->options->snapshot_worth * checkpoint->size;
    uint64_t grown = end - checkpoint->position;
    return least > 0 && grown >= (worthwhile > least ? worthwhile : least);
}

enum error checkpoint_start(struct checkpoint *checkpoint, const struct snapshot_place *place, bool in_line,
                            struct failure *failure)
{
    ASSERT(!checkpoint->is_active && checkpoint->child == 0);
    checkpoint->place = *place;
    remember_needed(checkpoint);
    checkpoint->is_active = true;
    checkpoint->is_written = false;
    if (!in_line)
        return start_child(checkpoint, failure);
    enum error error = write_snapshot(checkpoint, failure);
    checkpoint->is_written = error == OK;
    checkpoint->is_active = error == OK;
    return error;
}

enum error checkpoint_step(struct checkpoint *checkpoint, uint64_t durable, uint64_t end, struct failure *failure)
{
    ASSERT(checkpoint->is_active);
    enum error error = reap_child(checkpoint, end, failure);
    if (error != OK || !checkpoint->is_written || durable < checkpoint->place.sequence)
        return error;
    return publish(checkpoint, failure);
}
