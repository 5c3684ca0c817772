/* The reserve: files of the log's folder that hold room, so that the log goes on when the disk is full
 * (docs/internals/decisions/0016).
 *
 * Two kinds, numbered from 0. A spare segment ("0000000000000000.spare") becomes the next segment where no other can be
 * made. A spare snapshot ("0000000000000000.reserve") is what the next snapshot is written into. Their content means
 * nothing. Others could take room that is given back at once, so files are renamed instead: a dead segment becomes a
 * spare segment, a replaced snapshot a spare snapshot.
 *
 * The disk says how many of each kind are kept (disk.h). Functions without a struct reserve only list the folder and
 * rename files, so a forked child may call them. */
#ifndef TALLY_LOG_RESERVE_H
#define TALLY_LOG_RESERVE_H

#include "log/disk.h"
#include <pthread.h>

enum reserve_kind { RESERVE_SEGMENT, RESERVE_SNAPSHOT, RESERVE_KIND_COUNT };

/* *count: how many spare files of this kind the folder has. */
enum error reserve_count(struct disk *disk, enum reserve_kind kind, unsigned *count, struct failure *failure);

/* Turns the file `name` into a spare, durably, if the folder needs one. *is_kept is false, and the file unchanged, if
 * it has enough, or if somebody else has the file, too: a spare is overwritten. */
enum error reserve_put(struct disk *disk, enum reserve_kind kind, const char *name, bool *is_kept,
                       struct failure *failure);

/* The same, but removes the file if the folder has enough, or if the file can't become a spare. */
enum error reserve_put_or_remove(struct disk *disk, enum reserve_kind kind, const char *name, struct failure *failure);

/* The same for a file whose content counted until now: it gets its second name in the archive first, where the disk has
 * one. An error of that: the file stays as it is. What has a name in the archive never becomes a spare. */
enum error reserve_retire(struct disk *disk, enum reserve_kind kind, const char *name, struct failure *failure);

/* Gives a spare of this kind the name `name`, durably. *is_taken is false if there is none. */
enum error reserve_take(struct disk *disk, enum reserve_kind kind, const char *name, bool *is_taken,
                        struct failure *failure);

/* Reserves so much room for an existing file. */
enum error reserve_fill_file(struct disk *disk, const char *name, uint64_t room, struct failure *failure);

/* Makes a spare with so much room. */
enum error reserve_make(struct disk *disk, enum reserve_kind kind, uint64_t room, struct failure *failure);

/* Reserves so much room for each spare of this kind. If `removes`, removes a spare that can't get the room. Returns the
 * first error. */
enum error reserve_fill(struct disk *disk, enum reserve_kind kind, uint64_t room, bool removes,
                        struct failure *failure);

/* Call it at the start, before any spare is taken. Puts back or removes what a crash left half taken
 * ("….segment.tmp"). */
enum error reserve_restore(struct disk *disk, struct failure *failure);

/* How many segments a log still has in reserve. The thread that writes takes them, the loop's counts them anew. */
struct reserve {
    struct disk *disk;
    pthread_mutex_t mutex; /* held while one is renamed, or the folder is counted */
    atomic_uint segments;
};

void reserve_init(struct reserve *reserve, struct disk *disk);
void reserve_deinit(struct reserve *reserve);

/* reserve_take() of a segment, and reserve_put() of one that was taken and is not needed; both count. */
enum error reserve_take_segment(struct reserve *reserve, const char *name, bool *is_taken, struct failure *failure);
enum error reserve_put_segment(struct reserve *reserve, const char *name, bool *is_kept, struct failure *failure);

static inline unsigned reserve_segments(const struct reserve *reserve)
{
    return atomic_load_explicit(&reserve->segments, memory_order_acquire);
}

/* reserve_make() for a segment, and counts it. *is_made is false if the other thread is using the reserve: try again
 * later. Never waits. */
enum error reserve_make_segment(struct reserve *reserve, uint64_t room, bool *is_made, struct failure *failure);

/* Counts the spares in the folder, after somebody else added or removed some. False if one is being taken now or the
 * folder can't be read: try again later. Never waits. */
bool reserve_recount(struct reserve *reserve);

#endif
