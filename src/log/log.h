/* A log of frames: the unit of durability. Everything Tally knows is what its frames say.
 *
 * A log owns one folder: segment files that hold the frames, and at most one snapshot file that holds the state which
 * the frames up to some position lead to. Positions are logical bytes: a segment of size S with ordinal k holds
 * positions k*S up to (k+1)*S, so the segment of a position is position / S, and positions never change or come back.
 * The format is in docs/internals/formats/log.md.
 *
 * Life: log_open, log_replay_next until it says it is done, then log_next_point, log_point_taken and log_write for each
 * frame. log_write() blocks until the frame is durable; the flusher (flusher.h) calls it on a thread of its own, the
 * simulator calls it in line. log_read() may be called from the loop's thread while log_write() runs on another. */
#ifndef TALLY_LOG_LOG_H
#define TALLY_LOG_LOG_H

#include "base/buffer.h"
#include "log/disk.h"
#include "log/frame.h"

struct log;

struct log_options {
    uint64_t segment_size; /* bytes, a multiple of 4,096; used when the folder is new, else the folder's own is kept */
    /* bytes, header and padding included, a multiple of 512; at most segment_size / 2 - 1,024 */
    uint64_t frame_size_max;
};

/* Locks the folder, checks which segments and snapshots there are, and reads the snapshot if there is one. `snapshot`,
 * an empty buffer, receives the snapshot's payload, and stays empty where there is none. *is_new is true when the
 * folder holds neither a snapshot nor a whole frame, be it empty or left by a crash before the first frame was durable.
 * Errors: ERROR_LOG_LOCKED; ERROR_LOG_DAMAGED with file, offset and advice; ERROR_DISK_FULL, ERROR_DISK_FAILED. On
 * success the caller owns *log. */
enum error log_open(struct disk *disk, const struct log_options *options, struct log **log, struct buffer *snapshot,
                    bool *is_new, struct failure *failure);
void log_close(struct log *log);

/* Makes an empty log that goes on where another one ended: a folder with one segment, in whose first sector behind the
 * header `position` lies. A snapshot of that position makes it a folder that log_open() takes. Durable. Errors as
 * log_write(). */
enum error log_make(struct disk *disk, uint64_t segment_size, uint64_t sequence, uint64_t epoch, uint64_t position,
                    struct failure *failure);

/* The next whole frame behind the snapshot, in order; `frame` is borrowed until the next call. *is_end is true, and
 * `frame` untouched, behind the last one: a torn tail has then been cut (zeroed, synced) and the log can be written.
 * Any other damage: ERROR_LOG_DAMAGED, naming file, offset, what was expected and what to do. */
enum error log_replay_next(struct log *log, struct frame_view *frame, bool *is_end, struct failure *failure);

/* Position of the snapshot that the log was opened with; 0: there was none. The first frame behind it may stand further
 * on, in the next segment. */
uint64_t log_snapshot_position(const struct log *log);

/* Bytes of the log behind the snapshot, at most: the last segment counts whole, however little of it is written. */
uint64_t log_replay_size(const struct log *log);

/* Is the segment that holds `position` on the disk? After a replay this checks that every live message has its body. */
bool log_has_segment(const struct log *log, uint64_t position);

/* The ordinals of the segments, rising, up to the one where the last frame was placed. `visit` is called for each. On
 * the loop's thread. */
void log_visit_segments(const struct log *log, void (*visit)(void *context, uint64_t ordinal), void *context);

/* The disk space of the segments. The segment that is made ahead of time counts in full. The number is slightly off
 * where an earlier owner filled a segment. On the loop's thread, once the replay is done. O(1). */
struct log_usage {
    uint64_t segment_count; /* without the one to come */
    uint64_t segment_bytes; /* of one, but for frames that overhang (segment_room()) */
    uint64_t bytes;         /* without the reserve */
    uint64_t newest;        /* ordinal of the one where the last frame was placed */
};
struct log_usage log_usage(const struct log *log);

/* The segment's size of this folder; and the largest frame it takes: that of the options, unless the folder's segments
 * are too small for it. Whoever builds frames must keep to the latter. */
uint64_t log_segment_size(const struct log *log);
uint64_t log_frame_size_max(const struct log *log);

/* Epoch of this owner: one more than that of the newest frame or snapshot. Once the replay is done. */
uint64_t log_epoch(const struct log *log);

/* Sequence number and position the next frame will have. Decides about a new segment, so that a frame never spans two.
 * Changes nothing: the frame that is opened for this point counts when log_point_taken() tells its size. On the loop's
 * thread, once the replay is done; frames that were taken but not written yet are counted. */
struct log_point {
    uint64_t sequence;
    uint64_t position;
};
struct log_point log_next_point(const struct log *log);
/* Tells the log the sealed size of the frame that the loop has closed for that point: log_next_point() moves on behind
 * it. */
void log_point_taken(struct log *log, uint64_t frame_size);

/* While it `is_tight`, the log places a frame only where a frame of two fifths of the largest size has reserved room,
 * and who builds frames must keep to that size. The end of a segment is a hole (segment_room()), and a full disk can't
 * fill it. No effect where segments have no hole. Between two frames, on the loop's thread. */
void log_set_tight(struct log *log, bool is_tight);
#define LOG_TIGHT_FRAMES 5u
#define LOG_TIGHT_SHARE 2u

/* How many segments the log can still fill without free space on the disk, beyond the one where the next frame goes:
 * those that are made and those in reserve. Negative: not even that one. One too low while one is being made. On the
 * loop's thread. O(1). */
int64_t log_segments_ahead(const struct log *log);

/* The part of a segment that is certainly used while the log is tight: up to where the last frame may begin. */
uint64_t log_usable_bytes(const struct log *log);

/* What is left of that part in the segment where the next frame goes. On the loop's thread. */
uint64_t log_usable_left(const struct log *log);

/* How large a frame may become while it is tight. */
uint64_t log_tight_frame_size(const struct log *log);

/* Counts the folder's spare segments again (reserve.h). False: try again later. On the loop's thread. */
bool log_recount_reserve(struct log *log);

/* Makes one more spare segment, with so much room. *is_made is false if the log's thread is using the reserve: try
 * again later. On the loop's thread. */
enum error log_make_reserve(struct log *log, uint64_t room, bool *is_made, struct failure *failure);
unsigned log_reserve_segments(const struct log *log);

/* Writes a sealed frame at its place and makes it durable. Any error is final: the log takes no more frames and the
 * process must end (invariant R10), because what the disk then holds is unknown until it is read again. */
enum error log_write(struct log *log, struct bytes frame, struct failure *failure);

/* Are the folder and the segment that is written still where their names lead (disk.h, confirm)? log_write() asks that
 * every few milliseconds; this is for a log that nobody writes to. An error is final, as one of log_write() is. On the
 * thread of log_write(), between two frames. */
enum error log_confirm(struct log *log, struct failure *failure);

/* Does a small piece (a write of 128 KiB, or one sync) of making the next segment ahead of time, in step with how full
 * the present one is; true when it did something and more is due. Never needed: log_write() does what is left. On the
 * thread of log_write(), between two frames; a failure here shows only when the segment is needed. */
bool log_prepare(struct log *log);

/* The `size` bytes at `position`, which must lie inside one durable or at least written frame; NULL when its segment is
 * not there or can't be mapped, or the disk does not give them. Borrowed until the next call of this or
 * log_is_resident(), or until the segment may go and is released, but to be looked at now: later the system may have to
 * read them again. Waits for the disk where they are not in memory. On the loop's thread. */
const uint8_t *log_read(struct log *log, uint64_t position, size_t size);

/* Can the result of log_read() be read without waiting for the disk? If not, starts to load the bytes. True, too, where
 * log_read() returns NULL. On the loop's thread. */
bool log_is_resident(struct log *log, uint64_t position, size_t size);

/* Which segments may be removed: each one before `replay_position` for which is_needed(context, ordinal) is false.
 * Nothing reads them again once a snapshot of that position is durable, and every frame that ended or moved their
 * contents. */
struct log_cut {
    uint64_t replay_position;
    bool (*is_needed)(void *context, uint64_t ordinal);
    void *context;
};

/* Removes those segments, or puts them into the reserve. One that can't be removed, or can't be archived before that,
 * is passed over, and the first such failure returned. A forked child may call it, because it shares only the files
 * with its owner; the owner then calls log_forget(). */
enum error log_trim(struct log *log, const struct log_cut *cut, struct failure *failure);
void log_forget(struct log *log, const struct log_cut *cut);

/* Unmaps one of those segments, if any is mapped: true when it did. The memory and the disk space of a file that is
 * still mapped are freed when the last map goes, and by whoever has that map. On the loop's thread, as log_forget(). */
bool log_release(struct log *log, const struct log_cut *cut);

/* Appends file name (without the folder) and offset of a position, for messages about damage. */
void log_name_position(const struct log *log, uint64_t position, struct buffer *text);

#endif
