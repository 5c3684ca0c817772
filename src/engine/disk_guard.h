/* The guard of the disk's room: checks how much is free, keeps the reserve (log/reserve.h) complete, and says what may
 * still be used.
 *
 * Pure bookkeeping and file operations; it takes no decisions of the core. docs/internals/decisions/0016 has the
 * arithmetic. */
#ifndef TALLY_ENGINE_DISK_GUARD_H
#define TALLY_ENGINE_DISK_GUARD_H

#include "engine/namespace.h"
#include "log/log.h"

/* How many spare files are kept: enough to go on writing the log, and to empty one segment, without a free byte on the
 * disk. */
#define GUARD_SEGMENTS_LEAST 2u /* while the log is a single segment */
#define GUARD_SEGMENTS 3u
#define GUARD_SNAPSHOTS 2u /* the newest one counts */

struct disk_guard {
    struct disk *disk;
    struct log *log;
    const struct namespace_options *options;
    bool is_short;
    bool is_reported;    /* that it is short (disk_guard_news()) */
    bool is_stale;       /* files may have changed their names: they are to be counted anew */
    bool is_checked;     /* each spare segment of an earlier owner has all of its room, or was removed */
    uint64_t checked_ms; /* when the disk was last asked; 0: never */
    uint64_t failed_ms;  /* when it was last asked before a snapshot failed; 0: none has since one was published */
    struct disk_room room;
    uint64_t min_free;
    uint64_t snapshot_room;   /* that each file for a snapshot has, as far as is known */
    unsigned spare_snapshots; /* there are */
    unsigned segments_seen;   /* in the reserve, at the last check */
    uint64_t missing_bytes;   /* of the reserve: bytes that could not be reserved */
    unsigned failed_tries;    /* to get that, in a row */
    struct failure missing;   /* why */
};

/* What the guard is told of the namespace. */
struct guard_view {
    uint64_t snapshot_position; /* of the newest published one; 0: there is none */
    uint64_t snapshot_next;     /* about what the next one takes */
    uint64_t snapshot_bound;    /* what it takes at most (snapshot_measure.h); UINT64_MAX: not known */
    uint64_t segments;          /* in the table */
    bool is_busy;               /* a snapshot is being taken: do not touch its files */
};

/* For how long an answer of the disk is used. */
#define GUARD_CHECK_MS UINT64_C(250)

/* If the reserve is incomplete although the disk says it has room, this many attempts in a row may fail by chance, each
 * with a new answer of the disk. More mean a quota, or a folder that has become read-only. */
#define GUARD_TRIES 4u

/* What must stay free of a file system of `total` bytes, as the option disk-min-free says it. */
uint64_t disk_guard_min_free(uint64_t option, uint64_t total);

/* Tells the disk what to keep. To be called before the log is opened. */
void disk_guard_init(struct disk_guard *guard, struct disk *disk, const struct namespace_options *options);

/* Asks the disk, and makes what the reserve lacks. `is_short` may change, so no frame may be open. */
void disk_guard_check(struct disk_guard *guard, const struct guard_view *view, uint64_t now_ms);

/* Has `is_short` changed since this was last asked? Then `failure` says what the disk has, for whoever runs the
 * daemon. */
bool disk_guard_news(struct disk_guard *guard, struct failure *failure);

/* Could a snapshot of that size, which is a bound of it, need more room than is kept, where there was enough? */
bool disk_guard_is_outgrown(const struct disk_guard *guard, uint64_t snapshot_bound);

/* Was a segment taken from the reserve since then? */
bool disk_guard_has_given(const struct disk_guard *guard);

/* A snapshot has been published, and the file that it replaced is now a spare; or it has failed. */
void disk_guard_note_snapshot(struct disk_guard *guard, bool is_published);

/* Has enough time passed since the last failure? */
bool disk_guard_may_try(const struct disk_guard *guard);

/* How many segments can be filled without free space, beyond the one where the next frame goes. Negative: not even that
 * frame can be written. */
int64_t disk_guard_segments_ahead(const struct disk_guard *guard);
bool disk_guard_is_spent(const struct disk_guard *guard);
bool disk_guard_is_last(const struct disk_guard *guard); /* is none left beyond it? */

/* How many bytes may be moved to the log's end: the room that is certain even if others fill the present segment. */
uint64_t disk_guard_usable(const struct disk_guard *guard);

/* The bytes that the reserve takes up. */
uint64_t disk_guard_bytes(const struct disk_guard *guard);

#endif
