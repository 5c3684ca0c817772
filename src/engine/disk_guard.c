#include "engine/disk_guard.h"

#include "base/accounted.h"
#include "log/reserve.h"
#include "log/segment.h"
#include "log/snapshot.h"

/* The default of disk-min-free: this share of the file system, up to this size. */
#define MIN_FREE_SHARE 20u
#define MIN_FREE_MAX (UINT64_C(1) << 30)
#define HYSTERESIS_SHARE 16u /* this much more must be free before the room counts as enough again */

/* Room for a snapshot: what the next one takes and a quarter more; or what the state takes in memory, which is no
 * less, but counts all namespaces, so not more than twice the one and some. Of a small state it is known better: twice
 * its bound and some, up to the next power of two, so that it grows in few steps. And this share of a segment, for what
 * is done while the disk is full. */
#define SNAPSHOT_MARGIN 4u
#define SNAPSHOT_GUESS (UINT64_C(32) << 20)
#define SNAPSHOT_SMALL (UINT64_C(256) << 10)
#define SNAPSHOT_FLOOR_SHARE 16u

#define RETRY_MS UINT64_C(1000) /* after a snapshot that failed */

/* The log may make a new segment outside the reserve only if this many would fit. */
#define FREE_SEGMENTS 2u

void disk_guard_init(struct disk_guard *guard, struct disk *disk, const struct namespace_options *options)
{
    *guard = (struct disk_guard){.disk = disk, .options = options, .is_stale = true};
    disk->spare_segments = options->keeps_reserve ? GUARD_SEGMENTS : 0;
    disk->spare_snapshots = options->keeps_reserve ? GUARD_SNAPSHOTS : 0;
}

static uint64_t segment_bytes(const struct disk_guard *guard)
{
    return segment_room(log_segment_size(guard->log), log_frame_size_max(guard->log));
}

uint64_t disk_guard_min_free(uint64_t option, uint64_t total)
{
    if (option != NAMESPACE_MIN_FREE_AUTO)
        return option;
    const uint64_t share = total / MIN_FREE_SHARE;
    return share < MIN_FREE_MAX ? share : MIN_FREE_MAX;
}

static uint64_t min_free(const struct disk_guard *guard)
{
    return disk_guard_min_free(guard->options->disk_min_free, guard->room.total);
}

/* --- the reserve -------------------------------------------------------------------------------------------------- */

static unsigned segments_wanted(const struct guard_view *view)
{
    return view->segments > 1 ? GUARD_SEGMENTS : GUARD_SEGMENTS_LEAST;
}

static void make_segments(struct disk_guard *guard, const struct guard_view *view)
{
    const unsigned wanted = segments_wanted(view);
    /* A spare that a crash left half made is useless. */
    if (!guard->is_checked)
        (void)reserve_fill(guard->disk, RESERVE_SEGMENT, segment_bytes(guard), true, NULL);
    guard->is_checked = true;
    if (!log_recount_reserve(guard->log)) {
        guard->is_stale = true; /* the log's thread is taking one: try again next time */
        return;
    }
    enum error error = OK;
    while (error == OK && log_reserve_segments(guard->log) < wanted) {
        bool is_made;
        error = log_make_reserve(guard->log, segment_bytes(guard), &is_made, &guard->missing);
        guard->is_stale |= error == OK && !is_made;
        if (guard->is_stale)
            return;
    }
    const unsigned count = log_reserve_segments(guard->log);
    guard->missing_bytes += count < wanted ? (wanted - count) * segment_bytes(guard) : 0;
}

static uint64_t room_of_bound(uint64_t bound)
{
    uint64_t room = 2 * SNAPSHOT_SMALL;
    while (room < 2 * bound + SNAPSHOT_SMALL)
        room *= 2;
    return room;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t snapshot_room_wanted(const struct disk_guard *guard, const struct guard_view *view)
{
    const uint64_t least = view->snapshot_next + view->snapshot_next / SNAPSHOT_MARGIN;
    const uint64_t most = 2 * view->snapshot_next + SNAPSHOT_GUESS;
    uint64_t in_memory = smaller(accounted_in_use(), most);
    if (view->snapshot_bound < most)
        in_memory = smaller(in_memory, room_of_bound(view->snapshot_bound));
    return (least > in_memory ? least : in_memory) + segment_bytes(guard) / SNAPSHOT_FLOOR_SHARE;
}

/* Gives all files for snapshots the room that the next ones may need, a little more than
 * now, so that this is seldom. */
static enum error fill_snapshots(struct disk_guard *guard, const struct guard_view *view, uint64_t room)
{
    if (guard->snapshot_room >= room)
        return OK;
    const uint64_t ample = room + room / SNAPSHOT_MARGIN / 2;
    for (unsigned i = 0; i < 2; i++) {
        const uint64_t wanted = i == 0 ? ample : room;
        enum error error = reserve_fill(guard->disk, RESERVE_SNAPSHOT, wanted, false, &guard->missing);
        if (error == OK && view->snapshot_position != 0)
            error = snapshot_reserve(guard->disk, view->snapshot_position, wanted, &guard->missing);
        if (error == OK)
            guard->snapshot_room = wanted;
        if (error != ERROR_DISK_FULL)
            return error;
    }
    return ERROR_DISK_FULL;
}

static void make_snapshots(struct disk_guard *guard, const struct guard_view *view)
{
    const unsigned wanted = GUARD_SNAPSHOTS - (view->snapshot_position != 0);
    const uint64_t room = snapshot_room_wanted(guard, view);
    enum error error = reserve_count(guard->disk, RESERVE_SNAPSHOT, &guard->spare_snapshots, &guard->missing);
    if (error == OK)
        error = fill_snapshots(guard, view, room);
    while (error == OK && guard->spare_snapshots < wanted) {
        error = reserve_make(guard->disk, RESERVE_SNAPSHOT, guard->snapshot_room, &guard->missing);
        guard->spare_snapshots += error == OK;
    }
    if (error != OK)
        guard->missing_bytes += room;
}

/* --- checking ----------------------------------------------------------------------------------------------------- */

/* If the disk says that it has room for the missing spares, several attempts are made before they count as missing. */
static bool is_reserve_there(const struct disk_guard *guard)
{
    if (guard->missing_bytes == 0)
        return true;
    return !guard->is_short && guard->room.free >= guard->min_free + guard->missing_bytes &&
           guard->failed_tries < GUARD_TRIES;
}

static bool has_enough(const struct disk_guard *guard)
{
    const uint64_t least = guard->is_short ? guard->min_free + guard->min_free / HYSTERESIS_SHARE : guard->min_free;
    return is_reserve_there(guard) && guard->room.free >= least;
}

void disk_guard_check(struct disk_guard *guard, const struct guard_view *view, uint64_t now_ms)
{
    guard->checked_ms = now_ms;
    if (!guard->options->keeps_reserve)
        return;
    const bool is_complete = guard->missing_bytes == 0 && !guard->is_short && !guard->is_stale &&
                             guard->snapshot_room >= snapshot_room_wanted(guard, view) &&
                             log_reserve_segments(guard->log) >= segments_wanted(view);
    if (!view->is_busy && !is_complete) {
        guard->is_stale = false;
        guard->missing_bytes = 0;
        failure_init(&guard->missing);
        make_segments(guard, view);
        make_snapshots(guard, view);
        guard->failed_tries = guard->missing_bytes == 0 ? 0 : guard->failed_tries + 1;
    }
    guard->segments_seen = log_reserve_segments(guard->log);
    /* If the disk can't tell, the last answer stays. */
    (void)guard->disk->operations->room(guard->disk, &guard->room, NULL);
    guard->min_free = min_free(guard);
    guard->is_short = !has_enough(guard);
}

static void failure_say(struct failure *failure, const struct disk_guard *guard, const char *what, const char *why)
{
    (void)failure_set(failure, ERROR_DISK_FULL, "%s %s: %llu bytes are free, disk-min-free is %llu%s%s",
                      guard->disk->folder, what, (unsigned long long)guard->room.free,
                      (unsigned long long)guard->min_free,
                      why[0] == '\0' ? "" : "; the reserve is not complete: ", why);
}

bool disk_guard_news(struct disk_guard *guard, struct failure *failure)
{
    if (guard->is_reported == guard->is_short)
        return false;
    guard->is_reported = guard->is_short;
    if (guard->is_short)
        failure_say(failure, guard, "is short of room, requests that need more are refused", guard->missing.text);
    else
        failure_say(failure, guard, "has room again", "");
    return true;
}

bool disk_guard_is_outgrown(const struct disk_guard *guard, uint64_t snapshot_bound)
{
    return snapshot_bound != UINT64_MAX && guard->missing_bytes == 0 && guard->snapshot_room != 0 &&
           snapshot_bound > guard->snapshot_room;
}

bool disk_guard_has_given(const struct disk_guard *guard)
{
    return log_reserve_segments(guard->log) < guard->segments_seen;
}

void disk_guard_note_snapshot(struct disk_guard *guard, bool is_published)
{
    guard->failed_ms = is_published ? 0 : guard->checked_ms;
    guard->is_stale = true;
    guard->snapshot_room = 0;
    guard->checked_ms = 0;
}

bool disk_guard_may_try(const struct disk_guard *guard)
{
    return guard->failed_ms == 0 || guard->checked_ms >= guard->failed_ms + RETRY_MS;
}

/* --- what is left ------------------------------------------------------------------------------------------------- */

int64_t disk_guard_segments_ahead(const struct disk_guard *guard)
{
    return log_segments_ahead(guard->log);
}

static bool is_empty(const struct disk_guard *guard)
{
    return guard->is_short && guard->room.free < FREE_SEGMENTS * segment_bytes(guard);
}

bool disk_guard_is_spent(const struct disk_guard *guard)
{
    return is_empty(guard) && disk_guard_segments_ahead(guard) < 0;
}

bool disk_guard_is_last(const struct disk_guard *guard)
{
    return is_empty(guard) && disk_guard_segments_ahead(guard) <= 0;
}

uint64_t disk_guard_usable(const struct disk_guard *guard)
{
    return disk_guard_segments_ahead(guard) > 0 ? log_usable_bytes(guard->log) : log_usable_left(guard->log);
}

uint64_t disk_guard_bytes(const struct disk_guard *guard)
{
    if (!guard->options->keeps_reserve)
        return 0;
    return log_reserve_segments(guard->log) * segment_bytes(guard) + GUARD_SNAPSHOTS * guard->snapshot_room;
}
