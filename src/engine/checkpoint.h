/* The snapshots of a namespace: when one is due, who writes it, and what may be removed after it.
 *
 * At most one is being written at a time. It holds the state as it was after a closed frame; it counts when it is whole
 * and has its name. Then the older one goes, and the segments before it that nothing needed when it had been written
 * (docs/internals/decisions/0004). */
#ifndef TALLY_ENGINE_CHECKPOINT_H
#define TALLY_ENGINE_CHECKPOINT_H

#include "engine/disk_policy.h"
#include "engine/namespace.h"
#include "log/log.h"
#include "log/snapshot.h"
#include <sys/types.h>

#define CHECKPOINT_REASON_SIZE 600u

/* What the owner and the child tell each other during a snapshot, in memory that they share. */
struct checkpoint_shared {
    atomic_bool is_written;              /* set by the child: it waits until it is told to publish */
    char reason[CHECKPOINT_REASON_SIZE]; /* set by the child before it ends: why it failed; empty: it does not say */
    bool is_unarchived;                  /* likewise: a file stays because it is not in the archive */
    size_t needed_count; /* set by the owner before it lets the child publish: how many segments must stay */
    uint64_t needed[];   /* their ordinals, rising */
};

/* See struct disk. Only the checkpoint sets them. */
struct checkpoint_flags {
    atomic_bool is_hurried;
    atomic_bool is_short;
};

/* How far the log has come. */
struct checkpoint_progress {
    uint64_t durable; /* sequence of the newest durable frame */
    uint64_t newest;  /* of the newest frame that has events; it may still be open */
    uint64_t end;     /* position behind the newest closed frame */
};

struct checkpoint {
    struct disk *disk;
    struct log *log;
    const struct core *core;
    const struct namespace_options *options;
    uint64_t position;              /* of the newest published snapshot */
    uint64_t size;                  /* of that, in bytes, with or without its file's framing */
    uint64_t entries;               /* of the index when that was taken (core_index_count()) */
    uint64_t at_ms;                 /* the time of the state that it holds; 0: there is none */
    uint64_t taken;                 /* how many were published since the start */
    bool is_unarchived;             /* the last one left a file because it could not be archived */
    struct checkpoint_flags *flags; /* the disk's, in memory that a child shares; NULL: could not be had */

    bool is_pinned; /* checkpoint_pin() */

    /* the one that is being taken */
    bool is_active;
    pid_t child;     /* writes it, publishes it and removes what may go; 0: all that is done in line */
    int word;        /* the pipe through which the child is told to publish; -1: it was told, or there is none */
    bool is_settled; /* it has been written, and it is known which segments may go */
    /* they may be removed when this frame is durable: the frames up to it say what ended in them */
    uint64_t settled_sequence;
    bool is_releasing;     /* segments that the child will remove may still be mapped here */
    uint64_t used_ns;      /* processor time that the child had used when it was last looked at */
    uint64_t checked_ms;   /* when that was; 0: not yet */
    uint64_t still_ms;     /* for how long it has used none */
    bool is_hung;          /* it stood still for too long and was killed; it ends when the system lets it */
    bool is_hang_reported; /* checkpoint_step() has said so */
    struct snapshot_point point;
    uint64_t place_entries;
    uint64_t failed_end;                    /* end of the log when the last attempt failed; 0: it did not */
    struct checkpoint_shared *shared_owned; /* NULL: none was taken yet */
    size_t shared_size;
};

/* Before the log is opened: takes the disk's flags until checkpoint_deinit(). The files of a killed process are then
 * removed as fast as possible, because no client waits for a sync yet. */
void checkpoint_claim(struct checkpoint *checkpoint, struct disk *disk);

/* When the log is open, behind checkpoint_claim(): a child gives way to its syncs from now on. All is borrowed. `size`:
 * of the snapshot that the log was opened with, 0: none. The core has just been read from it. */
void checkpoint_init(struct checkpoint *checkpoint, struct log *log, const struct core *core,
                     const struct namespace_options *options, uint64_t size);

/* Behind checkpoint_claim(), with or without checkpoint_init(). */
void checkpoint_deinit(struct checkpoint *checkpoint);

/* Ends the child that writes, if there is one, and waits for that: the next start removes its file. */
void checkpoint_abandon(struct checkpoint *checkpoint);

static inline bool checkpoint_is_active(const struct checkpoint *checkpoint)
{
    return checkpoint->is_active;
}

struct disk_policy checkpoint_policy(const struct checkpoint *checkpoint);

/* About how many bytes a snapshot of the present state takes. */
uint64_t checkpoint_next_size(const struct checkpoint *checkpoint);

/* Decides whether a running snapshot, and the removal after it, may give way to the log's syncs. Call it whenever sizes
 * change. */
void checkpoint_hurry(struct checkpoint *checkpoint, const struct disk_sizes *sizes);

/* Tells it whether the disk is short of room. If not, a running snapshot takes its time and gives back the room that it
 * does not need. */
void checkpoint_set_short(struct checkpoint *checkpoint, bool is_short);

/* Should one be taken now? `end`: position behind the newest closed frame. */
bool checkpoint_is_due(const struct checkpoint *checkpoint, const struct disk_sizes *sizes, uint64_t end);

/* Begins one of the present state, which is that at `point`: no frame is open. `in_line`: it is written here and now,
 * else by a forked child. After an error none is active, and the next is due after as much log as the first. */
enum error checkpoint_start(struct checkpoint *checkpoint, const struct snapshot_point *point, bool in_line,
                            struct failure *failure);

/* Unmaps one of the segments that the child will remove, which takes up to half a millisecond: the child waits until
 * none is left. To be called again soon while `is_releasing`. */
void checkpoint_release(struct checkpoint *checkpoint);

/* Ends a child that has stood still for 10 minutes, but for its wait to be told to publish, which checkpoint_step()
 * then says, once. Such a child is stopped, or waits in a call that the disk does not answer. While it exists, no other
 * snapshot begins. Call it with the present time at each step. */
void checkpoint_watch(struct checkpoint *checkpoint, uint64_t now_ms);

/* For the child, before it ends: why it failed. */
void checkpoint_shared_explain(struct checkpoint_shared *shared, const struct failure *failure);

/* Until checkpoint_unpin() no snapshot begins, and one that has been written is not published: the newest stays the
 * newest, and no segment goes. False: the child of one is doing that just now. It is pinned nevertheless; ask again
 * when checkpoint_step() has met its end. */
bool checkpoint_pin(struct checkpoint *checkpoint);
void checkpoint_unpin(struct checkpoint *checkpoint);

/* Advances the active snapshot as far as possible without waiting. */
enum error checkpoint_step(struct checkpoint *checkpoint, const struct checkpoint_progress *progress,
                           struct failure *failure);

#endif
