/* A namespace: one core, one log, atomic inside. Joins the two: opens and closes frames, hands them to the log, takes
 * snapshots, recovers at the start.
 *
 * With flushers (the daemon) frames are made durable on log threads; without one (the simulator, tools)
 * namespace_flush() writes in line. One thread. */
#ifndef TALLY_ENGINE_NAMESPACE_H
#define TALLY_ENGINE_NAMESPACE_H

#include "base/error.h"
#include "core/core.h"
#include "engine/frame_backlog.h"
#include "log/disk.h"

struct flushers;
struct namespace;

/* A frame that holds this share of frame_size_max is closed before the next decision; the rest is room for that one. */
#define NAMESPACE_FULL_SHARE 8u

/* The time of a decision is at most this old. If the disk keeps up, a frame is open for less than this, has a single
 * time, and needs no event for it. */
#define FRAME_TIME_MS_MAX 5u

/* The progress of a recovery. */
struct namespace_recovery {
    uint64_t snapshot_size; /* bytes read; 0: there is none */
    uint64_t log_size;      /* bytes of the log behind it, at most */
    uint64_t replayed;      /* of those */
};

#define NAMESPACE_MIN_FREE_AUTO UINT64_MAX /* the smaller of a twentieth of the file system and 1 GiB */

struct namespace_options {
    const char *name;              /* 12 digits, the account id; borrowed */
    uint64_t segment_size;         /* bytes */
    uint64_t frame_size_max;       /* bytes */
    uint64_t snapshot_bytes;       /* a snapshot is due when the log grew by this much since the last; 0: never */
    uint32_t snapshot_worth;       /* and by this many times the size of the last one */
    bool cleans_eagerly;           /* for tests: see engine/disk_policy.h */
    bool keeps_reserve;            /* for a full disk (engine/disk_guard.h) */
    uint64_t disk_min_free;        /* bytes of the file system; below: the disk is short. NAMESPACE_MIN_FREE_AUTO */
    uint32_t in_flight_max;        /* messages in flight per queue */
    struct frame_backlog *backlog; /* counts the frames that wait for the disk, or NULL; borrowed */
    struct flushers *flushers;     /* the log threads (log/flusher.h); NULL: frames are written in line; borrowed */
    void (*wake)(void *context);   /* with flushers: called on a log thread when something became durable */
    void *wake_context;
    /* NULL, or told while namespace_recover() works: when the snapshot was read, and for each MiB of log. */
    void (*progress)(void *context, const struct namespace_recovery *recovery);
    void *progress_context;
};

/* Step one: reads the namespace from its folder, which may take as long as it likes. Only namespace_core() and
 * namespace_time() (0 if the folder is new), namespace_log(), step two and namespace_close() may follow;
 * namespace_close() leaves the log unchanged, but for a torn end that was cut. Errors as log_open() and
 * log_replay_next(). */
enum error namespace_recover(struct disk *disk, const struct namespace_options *options, struct namespace **ns,
                             struct failure *failure);

/* Step two: says in the log, durably, that this owner has taken over, in a frame with the time of the last one. Leases
 * in flight get their grace from `now_ms` on (wall-clock time), so nothing that takes long may come between this and
 * serving. `key` is fresh random, used if the folder is new. After an error only namespace_close() may follow. Errors
 * as log_write(). */
enum error namespace_take_over(struct namespace *ns, uint64_t now_ms, const uint8_t key[CORE_KEY_SIZE],
                               struct failure *failure);

/* Both steps. */
enum error namespace_open(struct disk *disk, const struct namespace_options *options, uint64_t now_ms,
                          const uint8_t key[CORE_KEY_SIZE], struct namespace **ns, struct failure *failure);

/* Makes everything durable (unless the log has failed), then frees. */
void namespace_close(struct namespace *ns);

/* Is every frame durable, and none open that has events? */
bool namespace_is_written(const struct namespace *ns);

/* For a close that must not keep the loop waiting, when namespace_is_written(): nothing is decided any more, and
 * replies that give leases leave as they are: who opens the namespace again lets those leases last. Behind this
 * namespace_close() may be called on any thread. It ends a snapshot that is being taken. */
void namespace_retire(struct namespace *ns);

/* The same for one whose log is lost, at any time: what is not with a log thread yet is never written. Nobody may be
 * told anything of it. */
void namespace_abandon(struct namespace *ns);

/* The log has been silent for long, and nobody could send a heartbeat meanwhile: the leases in flight get their grace
 * from now_ms on, as at a takeover. In the open frame. */
void namespace_resume(struct namespace *ns, uint64_t now_ms);

/* The bytes that frames hold which wait for the log (frame_backlog.h). O(frames). */
uint64_t namespace_waiting_memory(const struct namespace *ns);

/* Its frames count in no backlog any more, so that namespace_close() may write them on any thread while nobody decides
 * anything. */
void namespace_leave_backlog(struct namespace *ns);

/* Before a decision: opens a frame if none is open, and lets time pass to now_ms, or to FRAME_TIME_MS_MAX before it.
 * Leases of replies that are held do not end by that (grant.h). While the disk has no room for a frame (DISK_SPENT) no
 * time passes. Returns the core. */
struct core *namespace_begin(struct namespace *ns, uint64_t now_ms);

/* The leases that replies which have not left give. */
struct grants *namespace_grants(struct namespace *ns);

/* The core for reading only. */
const struct core *namespace_core(const struct namespace *ns);

/* A receive has ended: ends its use of that holder (core/messages/holder.h), which no frame needs to know. */
void namespace_release_holder(struct namespace *ns, uint32_t holder);

/* How many bytes of events one decision may write, whatever the open frame already holds. */
uint64_t namespace_decision_size_max(const struct namespace *ns);

/* After a decision: the sequence whose durability its reply must wait for (the open frame's if it carries events). */
uint64_t namespace_hold_sequence(const struct namespace *ns);

/* Would namespace_flush() hand anything over now? */
bool namespace_can_flush(const struct namespace *ns);

/* Hands the open frame over if it carries events and the log is idle (with a flusher), or writes it (without). */
enum error namespace_flush(struct namespace *ns, struct failure *failure);

/* Takes back the memory of the frame that the flusher has made durable, if it has. namespace_flush() does it, too. */
void namespace_reap(struct namespace *ns);

/* The newest durable sequence number. An error is final: end the process. */
uint64_t namespace_durable(const struct namespace *ns);
enum error namespace_failure(const struct namespace *ns, struct failure *failure);

/* Call it soon after frames have become durable, if namespace_has_unseen(): the time for confirming a match begins only
 * when others can see the match. */
void namespace_note_durable(struct namespace *ns, uint64_t now_ms);
bool namespace_has_unseen(const struct namespace *ns);

/* For a backup. Until namespace_unpin() no file of the log is removed or replaced, and no snapshot begins. False: files
 * are being removed just now; it is pinned nevertheless, ask again. Hold it for moments only: nothing comes free on the
 * disk meanwhile. O(1). */
bool namespace_pin(struct namespace *ns);
void namespace_unpin(struct namespace *ns);

/* Where the log of a backup ends. */
struct namespace_instant {
    uint64_t sequence; /* of the newest frame in it, which namespace_durable() may not have reached yet */
    uint64_t epoch;
    uint64_t position; /* behind that frame */
    uint64_t time_ms;  /* of the state */
    uint64_t segment_size;
    uint64_t snapshot_position; /* 0: there is none */
};

/* Closes the open frame: all that was decided so far is in the log up to this instant, and nothing later is. Between
 * two requests. O(1). */
struct namespace_instant namespace_settle(struct namespace *ns);

/* Starts, continues or finishes a snapshot if one is due. The daemon lets a forked child write it; `in_line` writes it
 * here. Failing to take one is not fatal: the text says why. */
enum error namespace_snapshot_step(struct namespace *ns, bool in_line, struct failure *failure);

/* Regular work on the disk, at most once in a millisecond and for a few tenths of one. Advances a running snapshot,
 * checks the room left, and moves a few contents out of mostly dead segments. A failure is not fatal: the text says
 * what can't be cleaned. */
enum error namespace_disk_step(struct namespace *ns, uint64_t now_ms, struct failure *failure);

/* How much room the disk has for the log. */
enum disk_level {
    DISK_AMPLE,
    DISK_SHORT, /* too little: only work that frees room, or takes hardly any, may use the reserve */
    DISK_SPENT, /* none, until a snapshot frees a segment: nothing may be decided */
};
enum disk_level namespace_disk_level(const struct namespace *ns);

/* Is there room for work that frees about as much as it takes? While the disk is short, true if half of disk-min-free
 * is free, or if the log can fill two more segments. */
bool namespace_has_little_room(const struct namespace *ns);

/* The largest body of a request that may run while the disk is short: a larger one could need room that is not
 * there. */
uint64_t namespace_short_request_max(const struct namespace *ns);

/* Is there nothing to be written or freed, and nothing to be looked after? Then, until something is decided, there is
 * nothing to do for it but what falls due. */
bool namespace_is_at_rest(const struct namespace *ns);

/* core_is_vacant(). O(batches and pools). */
bool namespace_is_vacant(const struct namespace *ns);

/* When namespace_disk_step() next has something to do; UINT64_MAX: nothing is being cleaned, and the disk has room. */
uint64_t namespace_disk_due_ms(const struct namespace *ns);

/* What the namespace uses on the disk, and what the cleaner has done. */
struct namespace_usage {
    uint64_t disk_bytes;  /* segments and snapshots */
    uint64_t live_bytes;  /* content of live messages, and the newest snapshot */
    uint64_t bound_bytes; /* that disk_bytes keeps under (engine/disk_policy.h); 0: nothing is ever freed */
    uint64_t segments;
    uint64_t cleaning_rounds; /* since the start, as the next one */
    uint64_t moved_bytes;     /* of contents, by cleaning */
    uint64_t reserve_bytes;   /* what is kept for a full disk; of disk_bytes and bound_bytes */
    uint64_t missing_bytes;   /* of it, that could not be reserved */
    uint64_t free_bytes;      /* of the file system, when it was last asked */
    uint64_t min_free_bytes;  /* below which the disk is short */
};
struct namespace_usage namespace_usage(const struct namespace *ns);

/* The newest snapshot. */
struct namespace_snapshot {
    uint64_t taken;        /* how many were taken since the start */
    uint64_t at_ms;        /* the time of the state that the newest holds; 0: there is none */
    uint64_t size;         /* bytes */
    uint64_t succeeded_ms; /* when an attempt last went well, since the start, in log time; 0: none has */
    uint64_t failed_count; /* attempts that did not, since the start */
    /* The last attempt did not: none was taken, or what it replaces could not be removed, or who takes it stands still.
     * Nothing comes free on the disk meanwhile. */
    bool is_failing;
    bool is_unarchived; /* and the archive is to blame: a file has no name in it, and stays */
};
struct namespace_snapshot namespace_snapshot(const struct namespace *ns);

/* True if the disk has become short of room, or has enough again, since the last call. `failure` then says so, for the
 * operator. */
bool namespace_disk_news(struct namespace *ns, struct failure *failure);

/* The position behind the last byte of the log, including the open frame; and whether that frame is so full that work
 * which can wait should wait. */
uint64_t namespace_end(const struct namespace *ns);
bool namespace_is_ample(const struct namespace *ns);

/* The time of the newest frame or of now_ms, whichever is later: log time never goes back. */
uint64_t namespace_time(const struct namespace *ns);

/* Bytes of the log at `position`, or NULL; borrowed until the next call of namespace_begin(), namespace_flush() or
 * namespace_reap(). */
const uint8_t *namespace_read(struct namespace *ns, uint64_t position, size_t size);

/* Can these bytes be read without waiting for the disk? If not, starts to load them. */
bool namespace_is_resident(struct namespace *ns, uint64_t position, size_t size);

/* The configured limit of messages in flight per queue. */
uint32_t namespace_in_flight_max(const struct namespace *ns);

struct log *namespace_log(struct namespace *ns);

#endif
