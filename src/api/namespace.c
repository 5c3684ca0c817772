#include "api/namespace.h"

#include "api/calendar.h"
#include "base/list.h"
#include "base/memory.h"
#include "core/decide.h"
#include "log/flusher.h"
#include "log/log.h"
#include "log/snapshot.h"
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of the process that writes a snapshot: a tenth of the owner's share of a core they compete for. */
#define SNAPSHOT_NICENESS 10

/* A frame between its opening and the moment it is durable. */
struct open_frame {
    struct buffer bytes;
    struct log_place place;
    struct list_link link; /* among the closed */
};

/* A snapshot that is being taken. */
struct snapshot_job {
    bool is_active;
    bool is_written; /* the file is whole; it waits for its last frame to be durable */
    pid_t child;     /* 0: written in line */
    struct snapshot_place place;
    uint64_t *needed_owned; /* ordinals of segments that a message needed then, rising */
    size_t needed_count;
};

struct namespace
{
    struct namespace_options options;
    struct disk *disk;
    struct log *log;
    struct flusher *flusher; /* NULL: frames are written in line */
    struct core *core;
    struct calendar *calendar;
    struct open_frame *frame; /* the open one; NULL: none */
    struct list closed;       /* frames that wait for the log, oldest first; the first is with the flusher */
    bool is_flushing;         /* the first of `closed` is with the flusher */
    struct open_frame *spare; /* one kept for reuse */
    uint64_t closed_sequence; /* of the newest closed frame */
    uint64_t closed_end;      /* log position behind it */
    uint64_t closed_time_ms;
    uint64_t durable_sequence; /* of frames written in line */
    enum error failed;         /* writing in line */
    struct failure failure;
    uint64_t snapshot_position; /* of the newest published snapshot */
    uint64_t snapshot_size;     /* bytes, with or without its file's framing */
    struct snapshot_job job;
};

/* --- frames ------------------------------------------------------------------------------------------------------- */

static size_t frame_full_size(const struct namespace *ns)
{
    return log_frame_size_max(ns->log) / NAMESPACE_FULL_SHARE;
}

static struct open_frame *frame_create(struct namespace *ns)
{
    struct open_frame *frame = ns->spare;
    ns->spare = NULL;
    if (frame == NULL) {
        frame = memory_allocate_zeroed(sizeof(*frame));
        buffer_init(&frame->bytes);
    }
    return frame;
}

static void frame_destroy(struct open_frame *frame)
{
    if (frame == NULL)
        return;
    buffer_deinit(&frame->bytes);
    free(frame);
}

/* Keeps a frame of ordinary size for the next one; a huge one gives its memory back. */
static void frame_recycle(struct namespace *ns, struct open_frame *frame)
{
    if (ns->spare != NULL || frame->bytes.capacity > 2 * frame_full_size(ns)) {
        frame_destroy(frame);
        return;
    }
    buffer_truncate(&frame->bytes, 0);
    ns->spare = frame;
}

static bool frame_is_empty(const struct open_frame *frame)
{
    return frame->bytes.size <= FRAME_HEADER_SIZE;
}

static void open_frame(struct namespace *ns, uint64_t now_ms)
{
    ASSERT(ns->frame == NULL);
    ns->frame = frame_create(ns);
    ns->frame->place = log_next_place(ns->log);
    frame_begin(&ns->frame->bytes);
    core_frame_open(ns->core, &ns->frame->bytes, ns->frame->place.position + FRAME_HEADER_SIZE, now_ms,
                    frame_full_size(ns));
}

/* Closes the open frame: one without events is forgotten, as if it had never been opened. */
static void close_frame(struct namespace *ns)
{
    struct open_frame *frame = ns->frame;
    core_frame_close(ns->core);
    ns->frame = NULL;
    if (frame_is_empty(frame)) {
        frame_recycle(ns, frame);
        return;
    }
    frame_seal(&frame->bytes, FRAME_EVENTS, log_epoch(ns->log), frame->place.sequence, frame->place.position,
               core_now_ms(ns->core));
    ASSERT(frame->bytes.size <= log_frame_size_max(ns->log));
    log_place_taken(ns->log, frame->bytes.size);
    list_append(&ns->closed, &frame->link);
    ns->closed_sequence = frame->place.sequence;
    ns->closed_end = frame->place.position + frame->bytes.size;
    ns->closed_time_ms = core_now_ms(ns->core);
}

struct core *namespace_begin(struct namespace *ns, uint64_t now_ms)
{
    /* A frame without events takes the present time; one with events keeps its own. */
    if (ns->frame != NULL && (frame_is_empty(ns->frame) || ns->frame->bytes.size >= frame_full_size(ns)))
        close_frame(ns);
    if (ns->frame == NULL)
        open_frame(ns, now_ms > core_now_ms(ns->core) ? now_ms : core_now_ms(ns->core));
    return ns->core;
}

uint64_t namespace_decision_size_max(const struct namespace *ns)
{
    return log_frame_size_max(ns->log) - frame_full_size(ns) - FRAME_HEADER_SIZE - FRAME_SECTOR_SIZE;
}

uint64_t namespace_hold_sequence(const struct namespace *ns)
{
    if (ns->frame != NULL && !frame_is_empty(ns->frame))
        return ns->frame->place.sequence;
    return ns->closed_sequence;
}

/* Takes back the frame that the flusher has made durable. */
static void reap_flushed(struct namespace *ns)
{
    if (!ns->is_flushing || !flusher_is_idle(ns->flusher))
        return;
    struct open_frame *frame = CONTAINER_OF(list_first(&ns->closed), struct open_frame, link);
    list_remove(&frame->link);
    frame_recycle(ns, frame);
    ns->is_flushing = false;
}

/* Writes every closed frame here and now. */
static enum error write_closed(struct namespace *ns)
{
    while (ns->failed == OK && !list_is_empty(&ns->closed)) {
        struct open_frame *frame = CONTAINER_OF(list_first(&ns->closed), struct open_frame, link);
        ns->failed = log_write(ns->log, buffer_bytes(&frame->bytes), &ns->failure);
        if (ns->failed != OK)
            break;
        ns->durable_sequence = frame->place.sequence;
        list_remove(&frame->link);
        frame_recycle(ns, frame);
    }
    return ns->failed;
}

bool namespace_can_flush(const struct namespace *ns)
{
    bool has_frame = ns->frame != NULL && !frame_is_empty(ns->frame);
    if (ns->flusher == NULL || !ns->is_flushing)
        return has_frame || !list_is_empty(&ns->closed);
    /* The frame in work is still among the closed. */
    bool has_more = has_frame || list_first(&ns->closed)->next != &ns->closed.head;
    return has_more && flusher_is_idle(ns->flusher);
}

enum error namespace_flush(struct namespace *ns, struct failure *failure)
{
    if (ns->flusher == NULL) {
        if (ns->frame != NULL)
            close_frame(ns);
        if (write_closed(ns) != OK)
            *failure = ns->failure;
        return ns->failed;
    }
    reap_flushed(ns);
    if (ns->is_flushing || flusher_failure(ns->flusher, failure) != OK)
        return flusher_failure(ns->flusher, failure);
    if (list_is_empty(&ns->closed) && ns->frame != NULL && !frame_is_empty(ns->frame))
        close_frame(ns);
    if (!list_is_empty(&ns->closed)) {
        struct open_frame *frame = CONTAINER_OF(list_first(&ns->closed), struct open_frame, link);
        flusher_submit(ns->flusher, buffer_bytes(&frame->bytes));
        ns->is_flushing = true;
    }
    return OK;
}

uint64_t namespace_durable(const struct namespace *ns)
{
    uint64_t flushed = ns->flusher == NULL ? 0 : flusher_durable(ns->flusher);
    return flushed > ns->durable_sequence ? flushed : ns->durable_sequence;
}

enum error namespace_failure(const struct namespace *ns, struct failure *failure)
{
    if (ns->flusher != NULL)
        return flusher_failure(ns->flusher, failure);
    if (ns->failed != OK)
        *failure = ns->failure;
    return ns->failed;
}

static const uint8_t *read_frame(const struct open_frame *frame, uint64_t position, size_t size)
{
    uint64_t start = frame->place.position;
    if (position < start || position + size > start + frame->bytes.size)
        return NULL;
    return frame->bytes.data_owned + (position - start);
}

const uint8_t *namespace_read(struct namespace *ns, uint64_t position, size_t size)
{
    if (ns->frame != NULL && position >= ns->frame->place.position)
        return read_frame(ns->frame, position, size);
    for (struct list_link *link = list_first(&ns->closed); link != NULL; link = list_next(&ns->closed, link)) {
        const uint8_t *found = read_frame(CONTAINER_OF(link, struct open_frame, link), position, size);
        if (found != NULL)
            return found;
    }
    return log_read(ns->log, position, size);
}

/* --- recovery ----------------------------------------------------------------------------------------------------- */

/* Every frame behind the snapshot, in order. */
static enum error replay(struct namespace *ns, struct failure *failure)
{
    for (bool is_first = true;; is_first = false) {
        struct frame_view frame;
        bool is_end = false;
        enum error error = log_replay_next(ns->log, &frame, &is_end, failure);
        if (error != OK)
            return error;
        if (is_first)
            ns->snapshot_position = is_end ? log_next_place(ns->log).position : frame.position;
        if (is_end)
            return OK;
        struct failure found = {.error = OK};
        if (!core_replay(ns->core, frame.payload, frame.position + FRAME_HEADER_SIZE, frame.time_ms, &found)) {
            struct buffer place;
            buffer_init(&place);
            log_name_position(ns->log, frame.position, &place);
            failure_set(
                failure, ERROR_LOG_DAMAGED,
                "%s/%.*s: %s. The frame's checksum is right, so either a newer version of tallyd wrote it (start that "
                "version) or the folder was changed by hand (restore it from a backup).",
                ns->disk->folder, BYTES_FORMAT(buffer_bytes(&place)), found.text);
            buffer_deinit(&place);
            return ERROR_LOG_DAMAGED;
        }
    }
}

/* No live message may have lost the segment with its content. */
static enum error check_segments(struct namespace *ns, struct failure *failure)
{
    uint64_t size = core_segment_size(ns->core);
    for (uint64_t ordinal = core_next_needed_segment(ns->core, 0); ordinal != UINT64_MAX;
         ordinal = core_next_needed_segment(ns->core, ordinal + 1)) {
        if (log_has_segment(ns->log, ordinal * size))
            continue;
        struct buffer name;
        buffer_init(&name);
        log_name_position(ns->log, ordinal * size, &name);
        failure_set(
            failure, ERROR_LOG_DAMAGED,
            "%s/%.*s: this segment is missing although waiting messages have their bodies in it; put the file back "
            "from a backup of the folder.",
            ns->disk->folder, BYTES_FORMAT(buffer_bytes(&name)));
        buffer_deinit(&name);
        return ERROR_LOG_DAMAGED;
    }
    return OK;
}

/* Says in the log that this owner has taken over, in a frame with the time of the last one. */
static enum error take_over(struct namespace *ns, bool is_new, uint64_t now_ms, const uint8_t key[CORE_KEY_SIZE],
                            struct failure *failure)
{
    uint64_t last_ms = core_now_ms(ns->core);
    open_frame(ns, is_new ? now_ms : last_ms);
    if (is_new)
        decide_found(ns->core, bytes_from_string(ns->options.name), key, log_segment_size(ns->log));
    decide_restart(ns->core, log_epoch(ns->log), now_ms > last_ms ? now_ms : last_ms);
    return namespace_flush(ns, failure);
}

static enum error recover(struct namespace *ns, uint64_t now_ms, const uint8_t key[CORE_KEY_SIZE],
                          struct failure *failure)
{
    struct log_options options = {.segment_size = ns->options.segment_size,
                                  .frame_size_max = ns->options.frame_size_max};
    struct buffer snapshot;
    buffer_init(&snapshot);
    bool is_new = false;
    enum error error = log_open(ns->disk, &options, &ns->log, &snapshot, &is_new, failure);
    if (error == OK && snapshot.size > 0 && !core_decode(ns->core, buffer_bytes(&snapshot)))
        error = failure_set(
            failure, ERROR_LOG_DAMAGED,
            "%s: the snapshot's checksums are right but this version can't read it; start the newer version of "
            "tallyd that wrote it.",
            ns->disk->folder);
    ns->snapshot_size = snapshot.size;
    buffer_deinit(&snapshot);
    if (error == OK)
        error = replay(ns, failure);
    if (error == OK && !is_new)
        error = check_segments(ns, failure);
    return error == OK ? take_over(ns, is_new, now_ms, key, failure) : error;
}

static void namespace_free(struct namespace *ns)
{
    if (ns->flusher != NULL)
        flusher_destroy(ns->flusher);
    if (ns->frame != NULL)
        core_frame_close(ns->core);
    frame_destroy(ns->frame);
    frame_destroy(ns->spare);
    while (!list_is_empty(&ns->closed)) {
        struct open_frame *frame = CONTAINER_OF(list_first(&ns->closed), struct open_frame, link);
        list_remove(&frame->link);
        frame_destroy(frame);
    }
    core_destroy(ns->core);
    calendar_destroy(ns->calendar);
    if (ns->log != NULL)
        log_close(ns->log);
    free(ns->job.needed_owned);
    free(ns);
}

enum error namespace_open(struct disk *disk, const struct namespace_options *options, uint64_t now_ms,
                          const uint8_t key[CORE_KEY_SIZE], struct namespace **opened, struct failure *failure)
{
    struct namespace *ns = memory_allocate_zeroed(sizeof(*ns));
    ns->options = *options;
    ns->disk = disk;
    ns->core = core_create();
    ns->calendar = calendar_create();
    core_set_calendar(ns->core, calendar_next, ns->calendar);
    list_init(&ns->closed);
    enum error error = recover(ns, now_ms, key, failure);
    if (error != OK) {
        namespace_free(ns);
        return error;
    }
    if (options->has_flusher)
        ns->flusher = flusher_create(ns->log, options->wake, options->wake_context);
    *opened = ns;
    return OK;
}

void namespace_close(struct namespace *ns)
{
    if (ns->job.child != 0) {
        /* Nobody would give the child's file its name any more; the next start removes it. */
        (void)kill(ns->job.child, SIGKILL);
        (void)waitpid(ns->job.child, NULL, 0);
        ns->job.child = 0;
    }
    if (ns->flusher != NULL) {
        flusher_destroy(ns->flusher); /* waits for the frame in work */
        ns->flusher = NULL;
        if (ns->is_flushing) {
            struct open_frame *frame = CONTAINER_OF(list_first(&ns->closed), struct open_frame, link);
            list_remove(&frame->link);
            frame_recycle(ns, frame);
        }
    }
    /* A log that has failed takes nothing more and says so; there is nobody left to tell. */
    struct failure ignored;
    (void)namespace_flush(ns, &ignored);
    namespace_free(ns);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

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

static enum error write_snapshot(const struct namespace *ns, struct failure *failure)
{
    struct snapshot_sink sink = {.failure = failure};
    enum error error = snapshot_begin(ns->disk, &ns->job.place, &sink.writer, failure);
    if (error != OK)
        return error;
    core_encode(ns->core, append_piece, &sink);
    error = snapshot_finish(sink.writer, failure);
    return sink.error != OK ? sink.error : error;
}

/* Remembers which segments a message needs at this moment: only what nothing needed then may be removed later, because an
 * ending after this moment may not be durable yet. */
static void remember_needed(struct namespace *ns)
{
    struct snapshot_job *job = &ns->job;
    size_t capacity = 0;
    job->needed_count = 0;
    for (uint64_t ordinal = core_next_needed_segment(ns->core, 0); ordinal != UINT64_MAX;
         ordinal = core_next_needed_segment(ns->core, ordinal + 1)) {
        if (job->needed_count == capacity) {
            capacity = capacity == 0 ? 64 : capacity * 2;
            job->needed_owned = memory_resize(job->needed_owned, capacity * sizeof(*job->needed_owned));
        }
        job->needed_owned[job->needed_count++] = ordinal;
    }
}

static bool was_needed(void *context, uint64_t ordinal)
{
    const struct snapshot_job *job = context;
    size_t low = 0, high = job->needed_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (job->needed_owned[middle] < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low < job->needed_count && job->needed_owned[low] == ordinal;
}

/* The child's whole life. */
__attribute__((noreturn)) static void be_snapshot_child(const struct namespace *ns, pid_t owner)
{
    /* The child holds the folder's lock too: it must not outlive the owner, not even one that has died already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != owner)
        _exit(1);
    /* Where the processor is short, requests come first. */
    (void)setpriority(PRIO_PROCESS, 0, SNAPSHOT_NICENESS);
    struct failure failure;
    _exit(write_snapshot(ns, &failure) == OK ? 0 : 1);
}

static enum error start_snapshot(struct namespace *ns, bool in_line, struct failure *failure)
{
    if (ns->frame != NULL)
        close_frame(ns); /* the state is now that of all closed frames */
    ns->job.place = (struct snapshot_place){.epoch = log_epoch(ns->log),
                                            .sequence = ns->closed_sequence,
                                            .position = ns->closed_end,
                                            .time_ms = ns->closed_time_ms}; /* the state's own may be later */
    remember_needed(ns);
    ns->job.is_active = true;
    ns->job.is_written = false;
    if (in_line) {
        enum error error = write_snapshot(ns, failure);
        ns->job.is_written = error == OK;
        ns->job.is_active = error == OK;
        return error;
    }
    pid_t owner = getpid();
    /* A signal to all our processes, as Ctrl-C sends it, is for the owner. In the child, libuv's handler would write to the
     * pipe that both have, and the owner would hear it twice. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child == 0)
        be_snapshot_child(ns, owner);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) {
        ns->job.is_active = false;
        ns->snapshot_position = ns->closed_end; /* try again after as much log */
        return failure_set(failure, ERROR_SERVICE_UNAVAILABLE,
                           "fork for a snapshot failed; the log keeps growing until one works");
    }
    ns->job.child = child;
    return OK;
}

/* Has the child finished? Notes whether it did well. */
static enum error reap_child(struct namespace *ns, struct failure *failure)
{
    int status = 0;
    if (ns->job.child == 0 || waitpid(ns->job.child, &status, WNOHANG) != ns->job.child)
        return OK;
    ns->job.child = 0;
    ns->job.is_written = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ns->job.is_active = ns->job.is_written;
    if (ns->job.is_written)
        return OK;
    snapshot_discard(ns->disk, &ns->job.place);
    ns->snapshot_position = ns->closed_end; /* try again after as much log */
    return failure_set(failure, ERROR_DISK_FAILED,
                       "%s: a snapshot could not be written (is the disk full?); the log keeps growing until one works",
                       ns->disk->folder);
}

static enum error publish(struct namespace *ns, struct failure *failure)
{
    ns->job.is_active = false;
    ns->snapshot_position = ns->job.place.position;
    enum error error = snapshot_publish(ns->disk, &ns->job.place, &ns->snapshot_size, failure);
    if (error != OK)
        return error;
    return log_trim(ns->log, ns->job.place.position, was_needed, &ns->job, failure);
}

/* A snapshot costs as much as it holds, so a large one must serve for longer: taking them costs a bounded part of writing the log,
 * however much is waiting. */
static bool snapshot_is_due(const struct namespace *ns)
{
    uint64_t least = ns->options.snapshot_bytes;
    uint64_t worthwhile = ns->options.snapshot_worth * ns->snapshot_size;
    uint64_t grown = ns->closed_end - ns->snapshot_position;
    return least > 0 && grown >= (worthwhile > least ? worthwhile : least);
}

enum error namespace_snapshot_step(struct namespace *ns, bool in_line, struct failure *failure)
{
    if (!ns->job.is_active)
        return snapshot_is_due(ns) ? start_snapshot(ns, in_line, failure) : OK;
    enum error error = reap_child(ns, failure);
    if (error != OK || !ns->job.is_written || namespace_durable(ns) < ns->job.place.sequence)
        return error;
    return publish(ns, failure);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

const struct core *namespace_core(const struct namespace *ns)
{
    return ns->core;
}

uint64_t namespace_time(const struct namespace *ns)
{
    return core_now_ms(ns->core);
}

uint32_t namespace_in_flight_max(const struct namespace *ns)
{
    return ns->options.in_flight_max;
}

struct calendar *namespace_calendar(struct namespace *ns)
{
    return ns->calendar;
}

struct log *namespace_log(struct namespace *ns)
{
    return ns->log;
}
