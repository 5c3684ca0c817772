/* The cleaner: moves what still lives in mostly dead segments of the log to its end, so that those segments can go with
 * the next snapshot. In rounds: it chooses segments, then walks once over the index and moves each content that stands
 * in one of them.
 *
 * It does a bounded piece at a time, at most one in a millisecond, and what it writes is bounded by what others write,
 * and by a trickle: docs/internals/decisions/0011-cleaning.md. disk_policy.h says when there is something to do. */
#ifndef TALLY_ENGINE_CLEANER_H
#define TALLY_ENGINE_CLEANER_H

#include "engine/disk_policy.h"
#include "engine/namespace.h"

#define CLEANER_SEGMENTS_MAX 64u /* that one round empties */
#define CLEANER_DAMAGED_MAX 16u  /* segments remembered because something in them can't be read */

struct cleaner {
    uint64_t chosen[CLEANER_SEGMENTS_MAX]; /* ordinals, rising */
    unsigned chosen_count;
    uint32_t slot;   /* where the walk goes on; 0: no round is going on */
    unsigned waited; /* milliseconds, for a content to come from the disk */

    int64_t credit; /* bytes that it may write now */
    uint64_t credited_end;
    uint64_t credited_ms;

    uint64_t damaged[CLEANER_DAMAGED_MAX]; /* ordinals: what can't be read is not moved, so they stay */
    unsigned damaged_count;                /* ever noted; the newest of them are remembered */

    uint64_t rounds;
    uint64_t moved_count;
    uint64_t moved_bytes; /* of contents */
};

static inline bool cleaner_is_active(const struct cleaner *cleaner)
{
    return cleaner->slot != 0;
}

/* Chooses the segments before `newest` with the fewest live bytes, until they free `wanted_bytes`, and begins the walk.
 * Segments in which nearly everything lives are never chosen, so a round may not begin at all. O(segments). */
void cleaner_begin(struct cleaner *cleaner, const struct extents *extents, uint64_t newest, uint64_t segment_bytes,
                   uint64_t wanted_bytes);

/* Chooses the segment before `newest` with the fewest live bytes, if these take at most `room` bytes at the log's
 * end. */
void cleaner_begin_one(struct cleaner *cleaner, const struct extents *extents, uint64_t newest, uint64_t room);

/* The load that its rate depends on. */
struct cleaner_load {
    bool is_pressed; /* more is trapped than should be */
    bool is_behind;  /* much waits for the disk: only writes of others add to the budget, time does not */
};

/* Adds to the budget of writes. `end`: position behind the last byte of the log. */
void cleaner_add_budget(struct cleaner *cleaner, uint64_t end, uint64_t now_ms, struct cleaner_load load);

/* Moves the next few contents, in the open frame, and in one that it opens if none is. ERROR_LOG_DAMAGED, once for a
 * segment (of the newest CLEANER_DAMAGED_MAX), if a content in it can't be read back or is not what it was: it is not
 * moved, and the segment stays. */
enum error cleaner_step(struct cleaner *cleaner, struct namespace *ns, uint64_t now_ms, struct failure *failure);

#endif
