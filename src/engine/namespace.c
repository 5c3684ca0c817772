#include "engine/namespace.h"

#include "base/list.h"
#include "base/memory.h"
#include "core/decide_namespace.h"
#include "core/messages/holder.h"
#include "engine/checkpoint.h"
#include "engine/cleaner.h"
#include "engine/disk_guard.h"
#include "engine/grant.h"
#include "engine/snapshot_measure.h"
#include "log/flusher.h"
#include "log/log.h"
#include "log/segment.h"
#include <stdlib.h>

#define RECOVERY_TOLD_EACH ((uint64_t)1 << 20)

/* A frame, from its opening until it is durable. */
struct open_frame {
    struct buffer bytes;
    struct log_point point;
    uint64_t time_ms;      /* at which it was opened */
    struct list_link link; /* among the closed */
};

struct namespace
{
    struct namespace_options options;
    struct disk *disk;
    struct log *log;
    struct flusher *flusher; /* NULL: frames are written in line */
    struct core *core;
    struct open_frame *frame; /* the open one; NULL: none */
    struct list closed;       /* frames that wait for the log, oldest first; the first is with the flusher */
    uint64_t closed_bytes;    /* of them */
    bool is_flushing;         /* the first of `closed` is with the flusher */
    bool is_new;              /* the folder held nothing when it was opened */
    struct open_frame *spare; /* one kept for reuse */
    struct grants grants;     /* of replies that are held */
    uint64_t closed_sequence; /* of the newest closed frame */
    uint64_t closed_end;      /* log position behind it */
    uint64_t closed_time_ms;
    uint64_t logged_ms;        /* the time of the core as the frames up to that one say it */
    uint64_t durable_sequence; /* of frames written in line */
    enum error failed;         /* writing in line */
    struct failure failure;
    struct checkpoint checkpoint;
    struct cleaner cleaner;
    struct disk_guard guard;
    struct snapshot_measure measure;
    uint64_t stepped_ms;            /* when namespace_disk_step() last did something */
    uint64_t snapshot_succeeded_ms; /* of struct namespace_snapshot, like the next two */
    uint64_t snapshots_failed;
    bool snapshot_is_failing;
};

/* --- frames ------------------------------------------------------------------------------------------------------- */

/* While the disk is short, a frame must end where there is room (log_set_tight()). */
static size_t frame_size_max(const struct namespace *ns)
{
    return ns->guard.is_short ? log_tight_frame_size(ns->log) : log_frame_size_max(ns->log);
}

static size_t frame_full_size(const struct namespace *ns)
{
    return frame_size_max(ns) / NAMESPACE_FULL_SHARE;
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

/* A sealed frame keeps its memory until it is recycled. */
static void closed_add(struct namespace *ns, struct open_frame *frame)
{
    list_append(&ns->closed, &frame->link);
    ns->closed_bytes += frame->bytes.size;
    if (ns->options.backlog != NULL)
        frame_backlog_add(ns->options.backlog, frame->bytes.capacity);
}

/* Takes the oldest one out. */
static struct open_frame *closed_take(struct namespace *ns)
{
    struct open_frame *frame = CONTAINER_OF(list_first(&ns->closed), struct open_frame, link);
    list_remove(&frame->link);
    ns->closed_bytes -= frame->bytes.size;
    if (ns->options.backlog != NULL)
        frame_backlog_subtract(ns->options.backlog, frame->bytes.capacity);
    return frame;
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
    ns->frame->point = log_next_point(ns->log);
    ns->frame->time_ms = now_ms;
    frame_begin(&ns->frame->bytes);
    core_frame_open(ns->core, &ns->frame->bytes, ns->frame->point.position + FRAME_HEADER_SIZE, now_ms,
                    frame_full_size(ns));
}

/* Closes the open frame: one without events is forgotten, as if it had never been opened. */
static void close_frame(struct namespace *ns)
{
    struct open_frame *frame = ns->frame;
    grants_note_holds(&ns->grants, ns->core, frame->point.sequence);
    core_frame_close(ns->core);
    ns->frame = NULL;
    if (frame_is_empty(frame)) {
        frame_recycle(ns, frame);
        return;
    }
    ns->logged_ms = core_now_ms(ns->core);
    frame_seal(&frame->bytes, FRAME_EVENTS, log_epoch(ns->log), frame->point.sequence, frame->point.position,
               frame->time_ms);
    ASSERT(frame->bytes.size <= log_frame_size_max(ns->log));
    log_point_taken(ns->log, frame->bytes.size);
    closed_add(ns, frame);
    ns->closed_sequence = frame->point.sequence;
    ns->closed_end = frame->point.position + frame->bytes.size;
    ns->closed_time_ms = frame->time_ms;
}

/* In the open frame, which has events. */
static void pass_time(struct namespace *ns, uint64_t now_ms)
{
    grants_note_holds(&ns->grants, ns->core, ns->frame->point.sequence);
    decide_pass_time(ns->core, now_ms);
}

struct core *namespace_begin(struct namespace *ns, uint64_t now_ms)
{
    if (namespace_disk_level(ns) == DISK_SPENT)
        now_ms = core_now_ms(ns->core); /* without room for a frame, what time does could not be logged */
    if (ns->grants.due_ms <= now_ms)
        grants_keep(&ns->grants, ns, now_ms);
    /* A frame without events takes the present time; in one with events time goes on when
     * a decision comes much later. */
    if (ns->frame != NULL && (frame_is_empty(ns->frame) || ns->frame->bytes.size >= frame_full_size(ns)))
        close_frame(ns);
    if (ns->frame == NULL)
        open_frame(ns, now_ms > core_now_ms(ns->core) ? now_ms : core_now_ms(ns->core));
    else if (now_ms > core_now_ms(ns->core) + FRAME_TIME_MS_MAX)
        pass_time(ns, now_ms);
    return ns->core;
}

void namespace_note_durable(struct namespace *ns, uint64_t now_ms)
{
    if (ns->grants.hold_count > 0 && namespace_disk_level(ns) != DISK_SPENT)
        grants_show_holds(&ns->grants, ns, namespace_durable(ns), now_ms);
}

bool namespace_has_unseen(const struct namespace *ns)
{
    return ns->grants.hold_count > 0;
}

struct grants *namespace_grants(struct namespace *ns)
{
    return &ns->grants;
}

uint64_t namespace_decision_size_max(const struct namespace *ns)
{
    return frame_size_max(ns) - frame_full_size(ns) - FRAME_HEADER_SIZE - FRAME_SECTOR_SIZE;
}

uint64_t namespace_hold_sequence(const struct namespace *ns)
{
    if (ns->frame != NULL && !frame_is_empty(ns->frame))
        return ns->frame->point.sequence;
    return ns->closed_sequence;
}

void namespace_reap(struct namespace *ns)
{
    if (!ns->is_flushing || !flusher_is_idle(ns->flusher))
        return;
    frame_recycle(ns, closed_take(ns));
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
        ns->durable_sequence = frame->point.sequence;
        frame_recycle(ns, closed_take(ns));
    }
    return ns->failed;
}

/* Does a closed frame wait behind the one that is being written, which is also in the list? */
static bool has_frame_behind(const struct namespace *ns)
{
    return ns->is_flushing && list_first(&ns->closed)->next != &ns->closed.head;
}

/* This much waits only if the disk is slower than the writers. A frame or two may wait now and then, as during a
 * snapshot. */
#define BEHIND_BYTES (16u * 1024 * 1024)

static bool is_behind(const struct namespace *ns)
{
    return ns->closed_bytes >= BEHIND_BYTES;
}

bool namespace_can_flush(const struct namespace *ns)
{
    bool has_frame = ns->frame != NULL && !frame_is_empty(ns->frame);
    if (ns->flusher == NULL || !ns->is_flushing)
        return has_frame || !list_is_empty(&ns->closed);
    return (has_frame || has_frame_behind(ns)) && flusher_is_idle(ns->flusher);
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
    namespace_reap(ns);
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
    uint64_t start = frame->point.position;
    if (position < start || position + size > start + frame->bytes.size)
        return NULL;
    return frame->bytes.data_owned + (position - start);
}

/* The bytes, if they are in a frame that may not be written yet. */
static const uint8_t *read_frames(const struct namespace *ns, uint64_t position, size_t size)
{
    if (ns->frame != NULL && position >= ns->frame->point.position)
        return read_frame(ns->frame, position, size);
    const uint8_t *found = NULL;
    for (struct list_link *link = list_first(&ns->closed); link != NULL && found == NULL;
         link = list_next(&ns->closed, link))
        found = read_frame(CONTAINER_OF(link, struct open_frame, link), position, size);
    return found;
}

const uint8_t *namespace_read(struct namespace *ns, uint64_t position, size_t size)
{
    const uint8_t *found = read_frames(ns, position, size);
    bool is_open = ns->frame != NULL && position >= ns->frame->point.position;
    return found != NULL || is_open ? found : log_read(ns->log, position, size);
}

bool namespace_is_resident(struct namespace *ns, uint64_t position, size_t size)
{
    return read_frames(ns, position, size) != NULL || log_is_resident(ns->log, position, size);
}

/* --- recovery ----------------------------------------------------------------------------------------------------- */

static void report_progress(const struct namespace *ns, const struct namespace_recovery *recovery)
{
    if (ns->options.progress != NULL)
        ns->options.progress(ns->options.progress_context, recovery);
}

/* Every frame behind the snapshot, in order. */
static enum error replay(struct namespace *ns, struct failure *failure)
{
    struct namespace_recovery told = {.snapshot_size = ns->checkpoint.size, .log_size = log_replay_size(ns->log)};
    report_progress(ns, &told);
    for (;;) {
        struct frame_view frame;
        bool is_end = false;
        enum error error = log_replay_next(ns->log, &frame, &is_end, failure);
        if (error != OK)
            return error;
        if (is_end)
            return OK;
        if (frame.position - ns->checkpoint.position >= told.replayed + RECOVERY_TOLD_EACH) {
            told.replayed = frame.position - ns->checkpoint.position;
            report_progress(ns, &told);
        }
        struct failure found;
        failure_init(&found);
        if (!core_replay(ns->core, frame.payload, frame.position + FRAME_HEADER_SIZE, frame.time_ms, &found)) {
            struct buffer scratch;
            buffer_init(&scratch);
            log_name_position(ns->log, frame.position, &scratch);
            failure_set(
                failure, ERROR_LOG_DAMAGED,
                "%s/%.*s: %s. The frame's checksum is right, so either a newer version of tallyd wrote it (start that "
                "version) or the folder was changed by hand. " SEGMENT_ADVICE,
                ns->disk->folder, BYTES_FORMAT(buffer_bytes(&scratch)), found.text, ns->disk->folder, ns->disk->folder);
            buffer_deinit(&scratch);
            return ERROR_LOG_DAMAGED;
        }
    }
}

/* Checks that each live message still has the segment with its content. */
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
        failure_set(failure, ERROR_LOG_DAMAGED,
                    "%s/%.*s: this segment is missing although waiting messages have their bodies in it; put the file "
                    "back. " SEGMENT_ADVICE,
                    ns->disk->folder, BYTES_FORMAT(buffer_bytes(&name)), ns->disk->folder, ns->disk->folder);
        buffer_deinit(&name);
        return ERROR_LOG_DAMAGED;
    }
    return OK;
}

/* Gives the memory of the snapshot that the core has read back to the system at once; otherwise a restart would need
 * memory for the whole snapshot and the index. `context`: where the rest begins. */
static void give_back(void *context, const uint8_t *end)
{
    uint8_t **begin = context;
    *begin = memory_give_back(*begin, end);
}

/* Says how much room is missing when the disk is too full for a start. */
static enum error explain_full(const struct namespace *ns, struct failure *failure)
{
    struct disk_room room;
    if (ns->disk->operations->room(ns->disk, &room, NULL) != OK)
        return ERROR_DISK_FULL;
    const uint64_t wanted = segment_room(ns->options.segment_size, ns->options.frame_size_max);
    const struct failure cause = *failure;
    return failure_set(
        failure, ERROR_DISK_FULL,
        "%s The log needs a segment to go on with, about %llu bytes, and %llu are free: make room for %llu more.",
        cause.text, (unsigned long long)wanted, (unsigned long long)room.free,
        (unsigned long long)(wanted > room.free ? wanted - room.free : 0));
}

static enum error recover(struct namespace *ns, struct failure *failure)
{
    struct log_options options = {.segment_size = ns->options.segment_size,
                                  .frame_size_max = ns->options.frame_size_max};
    struct buffer snapshot;
    buffer_init(&snapshot);
    checkpoint_claim(&ns->checkpoint, ns->disk);
    disk_guard_init(&ns->guard, ns->disk, &ns->options);
    enum error error = log_open(ns->disk, &options, &ns->log, &snapshot, &ns->is_new, failure);
    uint8_t *begin = snapshot.data_owned;
    if (error == OK && snapshot.size > 0 && !core_decode(ns->core, buffer_bytes(&snapshot), give_back, &begin))
        error = failure_set(
            failure, ERROR_LOG_DAMAGED,
            "%s: the snapshot's checksums are right but this version can't read it; start the newer version of "
            "tallyd that wrote it.",
            ns->disk->folder);
    ns->guard.log = ns->log;
    if (error == OK)
        checkpoint_init(&ns->checkpoint, ns->log, ns->core, &ns->options, snapshot.size);
    snapshot_measure_note(&ns->measure, snapshot.size, ns->checkpoint.position);
    buffer_deinit(&snapshot);
    if (error == OK)
        error = replay(ns, failure);
    if (error == OK && !ns->is_new)
        error = check_segments(ns, failure);
    return error == ERROR_DISK_FULL ? explain_full(ns, failure) : error;
}

static void namespace_free(struct namespace *ns)
{
    if (ns->flusher != NULL)
        flusher_destroy(ns->flusher);
    if (ns->frame != NULL)
        core_frame_close(ns->core);
    frame_destroy(ns->frame);
    frame_destroy(ns->spare);
    while (!list_is_empty(&ns->closed))
        frame_destroy(closed_take(ns));
    core_destroy(ns->core);
    grants_deinit(&ns->grants);
    if (ns->log != NULL)
        log_close(ns->log);
    checkpoint_deinit(&ns->checkpoint);
    free(ns);
}

enum error namespace_recover(struct disk *disk, const struct namespace_options *options, struct namespace **recovered,
                             struct failure *failure)
{
    struct namespace *ns = memory_allocate_zeroed(sizeof(*ns));
    ns->options = *options;
    ns->disk = disk;
    ns->core = core_create();
    list_init(&ns->closed);
    grants_init(&ns->grants);
    enum error error = recover(ns, failure);
    if (error == OK)
        *recovered = ns;
    else
        namespace_free(ns);
    return error;
}

/* --- room --------------------------------------------------------------------------------------------------------- */

/* How many bytes have been written between two positions, without the unused ends of segments. */
static uint64_t written_between(const struct namespace *ns, uint64_t from, uint64_t to)
{
    uint64_t size = log_segment_size(ns->log);
    uint64_t unused = (to / size - from / size) * (size - log_usage(ns->log).segment_bytes);
    return to - from > unused ? to - from - unused : 0; /* the last frame may reach into the end of its segment */
}

/* Since the state was last measured, at least 1 if anything was written; 0 before the log is taken over. */
static uint64_t grown_since_measure(const struct namespace *ns)
{
    const uint64_t end = namespace_end(ns);
    if (end <= ns->measure.end)
        return 0;
    const uint64_t grown = written_between(ns, ns->measure.end, end);
    return grown > 0 ? grown : 1;
}

/* Asks the disk now and then, and at once if a segment was taken from the reserve, or if the state outgrows it. */
static void check_disk(struct namespace *ns, uint64_t now_ms)
{
    struct disk_guard *guard = &ns->guard;
    const bool is_recent =
        guard->checked_ms != 0 && now_ms >= guard->checked_ms && now_ms < guard->checked_ms + GUARD_CHECK_MS;
    if (!ns->options.keeps_reserve)
        return;
    const uint64_t grown = grown_since_measure(ns), next = checkpoint_next_size(&ns->checkpoint);
    const uint64_t bound = snapshot_measure_bound(&ns->measure, grown);
    if (is_recent && !disk_guard_has_given(guard) && !disk_guard_is_outgrown(guard, bound))
        return;
    snapshot_measure_renew(&ns->measure, ns->core, next, grown, namespace_end(ns), now_ms);
    const struct guard_view view = {.snapshot_position = ns->checkpoint.size == 0 ? 0 : ns->checkpoint.position,
                                    .snapshot_next = next,
                                    .snapshot_bound = snapshot_measure_bound(&ns->measure, grown_since_measure(ns)),
                                    .segments = log_usage(ns->log).segment_count,
                                    .is_busy = checkpoint_is_active(&ns->checkpoint)};
    const bool was_short = guard->is_short;
    disk_guard_check(guard, &view, now_ms);
    if (guard->is_short == was_short)
        return;
    if (ns->frame != NULL)
        close_frame(ns); /* its position was chosen by the other rule */
    log_set_tight(ns->log, guard->is_short);
    checkpoint_set_short(&ns->checkpoint, guard->is_short);
    ns->cleaner.slot = 0; /* a round that began with enough room is too large now */
}

/* While the disk is short: with more segments left than this, nothing needs to be done. */
#define SEGMENTS_LEFT 2

/* While a segment is being emptied into the last one left, nobody else may take its room. */
enum disk_level namespace_disk_level(const struct namespace *ns)
{
    if (!ns->guard.is_short)
        return DISK_AMPLE;
    if (disk_guard_is_spent(&ns->guard))
        return DISK_SPENT;
    const bool is_last = disk_guard_is_last(&ns->guard);
    return is_last && cleaner_is_active(&ns->cleaner) ? DISK_SPENT : DISK_SHORT;
}

bool namespace_has_little_room(const struct namespace *ns)
{
    const struct disk_guard *guard = &ns->guard;
    if (!guard->is_short || disk_guard_segments_ahead(guard) >= SEGMENTS_LEFT)
        return true;
    return guard->missing_bytes == 0 && guard->room.free > 0 && guard->room.free >= guard->min_free / 2;
}

bool namespace_disk_news(struct namespace *ns, struct failure *failure)
{
    return disk_guard_news(&ns->guard, failure);
}

uint64_t namespace_short_request_max(const struct namespace *ns)
{
    const uint64_t tight = log_tight_frame_size(ns->log);
    return tight < log_frame_size_max(ns->log) ? tight / NAMESPACE_FULL_SHARE / 4 : UINT64_MAX;
}

enum error namespace_take_over(struct namespace *ns, uint64_t now_ms, const uint8_t key[CORE_KEY_SIZE],
                               struct failure *failure)
{
    ASSERT(ns->flusher == NULL && ns->closed_sequence == 0);
    const uint64_t last_ms = core_now_ms(ns->core);
    check_disk(ns, now_ms);
    open_frame(ns, ns->is_new ? now_ms : last_ms);
    if (ns->is_new)
        decide_found(ns->core, bytes_from_string(ns->options.name), key, log_segment_size(ns->log));
    decide_restart(ns->core, log_epoch(ns->log), now_ms > last_ms ? now_ms : last_ms);
    core_restart_counters(ns->core, now_ms > last_ms ? now_ms : last_ms);
    enum error error = namespace_flush(ns, failure);
    if (error == ERROR_DISK_FULL)
        error = explain_full(ns, failure);
    if (error == OK && ns->options.flushers != NULL)
        ns->flusher = flusher_create(ns->options.flushers, ns->log, ns->options.wake, ns->options.wake_context);
    return error;
}

enum error namespace_open(struct disk *disk, const struct namespace_options *options, uint64_t now_ms,
                          const uint8_t key[CORE_KEY_SIZE], struct namespace **opened, struct failure *failure)
{
    struct namespace *ns;
    enum error error = namespace_recover(disk, options, &ns, failure);
    if (error != OK)
        return error;
    error = namespace_take_over(ns, now_ms, key, failure);
    if (error == OK)
        *opened = ns;
    else
        namespace_free(ns);
    return error;
}

bool namespace_is_written(const struct namespace *ns)
{
    return !ns->is_flushing && list_is_empty(&ns->closed) && (ns->frame == NULL || frame_is_empty(ns->frame));
}

void namespace_resume(struct namespace *ns, uint64_t now_ms)
{
    struct core *core = namespace_begin(ns, namespace_time(ns)); /* while they last: time passes afterwards */
    decide_restart(core, log_epoch(ns->log), now_ms > core_now_ms(core) ? now_ms : core_now_ms(core));
}

uint64_t namespace_waiting_memory(const struct namespace *ns)
{
    uint64_t memory = 0;
    for (struct list_link *link = list_first(&ns->closed); link != NULL; link = list_next(&ns->closed, link))
        memory += CONTAINER_OF(link, struct open_frame, link)->bytes.capacity;
    return memory;
}

/* The replies that have them are the loop's. */
static void forget_grants(struct namespace *ns)
{
    grants_deinit(&ns->grants);
    grants_init(&ns->grants);
}

void namespace_retire(struct namespace *ns)
{
    ASSERT(namespace_is_written(ns));
    if (ns->frame != NULL)
        close_frame(ns);
    forget_grants(ns);
}

void namespace_leave_backlog(struct namespace *ns)
{
    if (ns->options.backlog != NULL)
        frame_backlog_subtract(ns->options.backlog, namespace_waiting_memory(ns));
    ns->options.backlog = NULL;
}

void namespace_abandon(struct namespace *ns)
{
    namespace_leave_backlog(ns);
    if (ns->flusher != NULL)
        flusher_abandon(ns->flusher);
    if (ns->failed == OK)
        ns->failed = failure_set(&ns->failure, ERROR_SERVICE_UNAVAILABLE, "the log was given up.");
    forget_grants(ns);
}

void namespace_close(struct namespace *ns)
{
    checkpoint_abandon(&ns->checkpoint);
    if (ns->flusher != NULL) {
        flusher_destroy(ns->flusher); /* waits for the frame in work */
        ns->flusher = NULL;
        if (ns->is_flushing)
            frame_recycle(ns, closed_take(ns));
    }
    /* A failed log takes no more frames; nobody needs to be told at this point. */
    struct failure ignored;
    (void)namespace_flush(ns, &ignored);
    namespace_free(ns);
}

/* --- the disk ----------------------------------------------------------------------------------------------------- */

static struct disk_sizes measure(const struct namespace *ns)
{
    const struct log_usage usage = log_usage(ns->log);
    const struct extents *extents = core_extents(ns->core);
    struct disk_sizes sizes = {.segment = usage.segment_bytes,
                               .segments = usage.bytes,
                               .reserve = disk_guard_bytes(&ns->guard),
                               .content = extents->live_bytes,
                               .partly_content = extents->live_bytes,
                               .snapshot = ns->checkpoint.size,
                               .snapshot_next = checkpoint_next_size(&ns->checkpoint),
                               .grown = written_between(ns, ns->checkpoint.position, ns->closed_end)};
    size_t partly_count = extents->count;
    for (; partly_count > 0 && extents->items_owned[partly_count - 1].ordinal >= usage.newest; partly_count--)
        sizes.partly_content -= extents->items_owned[partly_count - 1].live_bytes;
    ASSERT(partly_count < usage.segment_count);
    sizes.partly = partly_count * usage.segment_bytes;
    sizes.idle = (usage.segment_count - 1 - partly_count) * usage.segment_bytes;
    return sizes;
}

struct namespace_usage namespace_usage(const struct namespace *ns)
{
    const struct disk_sizes sizes = measure(ns);
    const struct disk_policy policy = checkpoint_policy(&ns->checkpoint);
    uint64_t being_written = checkpoint_is_active(&ns->checkpoint) ? sizes.snapshot_next : 0;
    return (struct namespace_usage){.disk_bytes = sizes.segments + sizes.snapshot + being_written + sizes.reserve,
                                    .live_bytes = sizes.content + sizes.snapshot,
                                    .bound_bytes =
                                        policy.snapshot_least == 0 ? 0 : disk_bound(&policy, &sizes) + sizes.reserve,
                                    .segments = log_usage(ns->log).segment_count,
                                    .cleaning_rounds = ns->cleaner.rounds,
                                    .moved_bytes = ns->cleaner.moved_bytes,
                                    .reserve_bytes = sizes.reserve,
                                    .missing_bytes = ns->guard.missing_bytes,
                                    .free_bytes = ns->guard.room.free,
                                    .min_free_bytes = ns->guard.min_free};
}

uint64_t namespace_end(const struct namespace *ns)
{
    return ns->frame != NULL && !frame_is_empty(ns->frame) ? ns->frame->point.position + ns->frame->bytes.size
                                                           : ns->closed_end;
}

bool namespace_is_ample(const struct namespace *ns)
{
    return ns->frame != NULL && ns->frame->bytes.size >= frame_full_size(ns);
}

/* While the disk is short: could a snapshot free a segment, and is that needed, or worth half of what the snapshot
 * takes? */
static bool is_snapshot_wanted(const struct namespace *ns, const struct disk_sizes *sizes)
{
    if (!ns->guard.is_short || sizes->idle == 0 || ns->options.snapshot_bytes == 0 || !disk_guard_may_try(&ns->guard))
        return false;
    return disk_guard_segments_ahead(&ns->guard) < SEGMENTS_LEFT || sizes->idle >= sizes->snapshot_next / 2;
}

/* While the disk is short: should a segment be emptied? If few are left, only if a snapshot alone would free none. */
static bool is_cleaning_wanted(const struct namespace *ns, const struct disk_policy *policy,
                               const struct disk_sizes *sizes)
{
    const int64_t ahead = disk_guard_segments_ahead(&ns->guard);
    if (ahead >= SEGMENTS_LEFT)
        return disk_cleaning_due(policy, sizes) > 0;
    return ahead >= 0 && sizes->idle == 0 && policy->snapshot_least > 0 && !checkpoint_is_active(&ns->checkpoint);
}

/* While the disk is short, one segment at a time: what is moved takes room before it frees any. */
static void begin_cleaning(struct namespace *ns, const struct disk_policy *policy, const struct disk_sizes *sizes)
{
    const struct extents *extents = core_extents(ns->core);
    const uint64_t newest = log_usage(ns->log).newest;
    const uint64_t wanted_bytes = disk_cleaning_due(policy, sizes);
    if (!ns->guard.is_short && wanted_bytes > 0)
        cleaner_begin(&ns->cleaner, extents, newest, sizes->segment, wanted_bytes);
    else if (ns->guard.is_short && is_cleaning_wanted(ns, policy, sizes))
        cleaner_begin_one(&ns->cleaner, extents, newest, disk_guard_usable(&ns->guard));
}

static enum error clean(struct namespace *ns, const struct disk_sizes *sizes, uint64_t now_ms, struct failure *failure)
{
    const struct disk_policy policy = checkpoint_policy(&ns->checkpoint);
    if (!cleaner_is_active(&ns->cleaner))
        begin_cleaning(ns, &policy, sizes);
    const bool is_pressed = ns->guard.is_short || disk_cleaning_is_pressed(&policy, sizes);
    cleaner_add_budget(&ns->cleaner, namespace_end(ns), now_ms,
                       (struct cleaner_load){.is_pressed = is_pressed, .is_behind = is_behind(ns)});
    if (!cleaner_is_active(&ns->cleaner) || disk_guard_is_spent(&ns->guard))
        return OK;
    return cleaner_step(&ns->cleaner, ns, now_ms, failure);
}

enum error namespace_disk_step(struct namespace *ns, uint64_t now_ms, struct failure *failure)
{
    if (now_ms == ns->stepped_ms)
        return OK;
    ns->stepped_ms = now_ms;
    checkpoint_release(&ns->checkpoint);
    checkpoint_watch(&ns->checkpoint, now_ms);
    check_disk(ns, now_ms);
    const struct disk_sizes sizes = measure(ns);
    checkpoint_hurry(&ns->checkpoint, &sizes);
    return clean(ns, &sizes, now_ms, failure);
}

/* While the disk is short, everybody may be waiting for a snapshot, or for a segment to be freed. */
#define SHORT_STEP_MS 10u

uint64_t namespace_disk_due_ms(const struct namespace *ns)
{
    if ((cleaner_is_active(&ns->cleaner) && !disk_guard_is_spent(&ns->guard)) || ns->checkpoint.is_releasing)
        return ns->stepped_ms + 1;
    return ns->guard.is_short ? ns->stepped_ms + SHORT_STEP_MS : UINT64_MAX;
}

bool namespace_is_at_rest(const struct namespace *ns)
{
    return namespace_is_written(ns) && !namespace_has_unseen(ns) && !checkpoint_is_active(&ns->checkpoint) &&
           namespace_disk_due_ms(ns) == UINT64_MAX;
}

bool namespace_is_vacant(const struct namespace *ns)
{
    return core_is_vacant(ns->core);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

/* Time that passed in frames without events is in no frame, and a snapshot has it. A node that follows the log does not
 * load that snapshot: as the next owner it would write frames that are older than it, and nobody could read both. So
 * the time is written down before. */
static void log_time(struct namespace *ns)
{
    const uint64_t now_ms = core_now_ms(ns->core);
    if (ns->disk->operations->await == NULL || now_ms <= ns->logged_ms)
        return;
    open_frame(ns, now_ms);
    pass_time(ns, now_ms);
    close_frame(ns);
}

/* An attempt to take a snapshot has ended. */
static void note_snapshot(struct namespace *ns, bool is_done)
{
    disk_guard_note_snapshot(&ns->guard, is_done);
    ns->snapshot_is_failing = !is_done;
    ns->snapshots_failed += !is_done;
    if (is_done)
        ns->snapshot_succeeded_ms = core_now_ms(ns->core);
}

bool namespace_pin(struct namespace *ns)
{
    return checkpoint_pin(&ns->checkpoint);
}

void namespace_unpin(struct namespace *ns)
{
    checkpoint_unpin(&ns->checkpoint);
}

struct namespace_instant namespace_settle(struct namespace *ns)
{
    if (ns->frame != NULL)
        close_frame(ns);
    return (struct namespace_instant){.sequence = ns->closed_sequence,
                                      .epoch = log_epoch(ns->log),
                                      .position = ns->closed_end,
                                      .time_ms = core_now_ms(ns->core),
                                      .segment_size = log_segment_size(ns->log),
                                      .snapshot_position = ns->checkpoint.position};
}

enum error namespace_snapshot_step(struct namespace *ns, bool in_line, struct failure *failure)
{
    if (checkpoint_is_active(&ns->checkpoint)) {
        const struct checkpoint_progress progress = {
            .durable = namespace_durable(ns), .newest = namespace_hold_sequence(ns), .end = ns->closed_end};
        const enum error error = checkpoint_step(&ns->checkpoint, &progress, failure);
        if (checkpoint_is_active(&ns->checkpoint)) {
            ns->snapshot_is_failing |= error != OK;
            return error;
        }
        note_snapshot(ns, error == OK);
        if (error == OK && (ns->checkpoint.position > ns->measure.end || ns->measure.size > SNAPSHOT_MEASURE_MAX))
            snapshot_measure_note(&ns->measure, ns->checkpoint.size, ns->checkpoint.position);
        return error;
    }
    const struct disk_sizes sizes = measure(ns);
    if (ns->checkpoint.is_pinned ||
        (!checkpoint_is_due(&ns->checkpoint, &sizes, ns->closed_end) && !is_snapshot_wanted(ns, &sizes)))
        return OK;
    if (ns->frame != NULL)
        close_frame(ns);
    log_time(ns); /* the state is now that of all closed frames */
    const struct snapshot_point point = {.epoch = log_epoch(ns->log),
                                         .sequence = ns->closed_sequence,
                                         .position = ns->closed_end,
                                         .time_ms = ns->closed_time_ms}; /* the state's own may be later */
    const enum error error = checkpoint_start(&ns->checkpoint, &point, in_line, failure);
    if (error != OK)
        note_snapshot(ns, false);
    return error;
}

struct namespace_snapshot namespace_snapshot(const struct namespace *ns)
{
    const struct checkpoint *checkpoint = &ns->checkpoint;
    return (struct namespace_snapshot){.taken = checkpoint->taken,
                                       .at_ms = checkpoint->at_ms,
                                       .size = checkpoint->size,
                                       .succeeded_ms = ns->snapshot_succeeded_ms,
                                       .failed_count = ns->snapshots_failed,
                                       .is_failing = ns->snapshot_is_failing,
                                       .is_unarchived = checkpoint->is_unarchived};
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

const struct core *namespace_core(const struct namespace *ns)
{
    return ns->core;
}

void namespace_release_holder(struct namespace *ns, uint32_t holder)
{
    holder_release(ns->core, holder);
}

uint64_t namespace_time(const struct namespace *ns)
{
    return core_now_ms(ns->core);
}

uint32_t namespace_in_flight_max(const struct namespace *ns)
{
    return ns->options.in_flight_max;
}

struct log *namespace_log(struct namespace *ns)
{
    return ns->log;
}
