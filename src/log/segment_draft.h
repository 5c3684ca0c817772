/* The next segment: a file that is made ahead of time, piece by piece, so that the switch to it costs no pause.
 *
 * It is allocated and filled with real zeros before use: syncing a write into blocks that were written before needs no
 * journal commit of the file system, which makes each flush about a third faster than into fresh or growing extents
 * (docs/internals/decisions/0002-log-file-engine.md). It gets its header only when it is needed; until then it holds
 * nothing. */
#ifndef TALLY_LOG_SEGMENT_DRAFT_H
#define TALLY_LOG_SEGMENT_DRAFT_H

#include "log/reserve.h"

struct segment_draft {
    struct disk *disk;
    struct reserve *reserve; /* borrowed; NULL: none */
    struct disk_file *file;  /* owned; NULL: not begun */
    uint64_t size;           /* of the segment */
    uint64_t start_position;
    uint64_t room;   /* of the file's bytes, from the first on: what is allocated and filled */
    uint64_t filled; /* bytes filled with zeros so far */
    bool is_spare;   /* a spare that was taken: has the name of one until it is filled */
    bool is_ready;   /* filled, synced, and the folder too */
};

void segment_draft_init(struct segment_draft *draft, struct disk *disk, struct reserve *reserve);

/* Closes the file and leaves it as it is. */
void segment_draft_deinit(struct segment_draft *draft);

/* Creates the file and allocates its first `room` bytes; or takes a spare, where the disk is full or no new room may be
 * taken. */
enum error segment_draft_begin(struct segment_draft *draft, uint64_t start_position, uint64_t size, uint64_t room,
                               struct failure *failure);

/* One piece of the rest: zeros of 128 KiB, or the sync when there is nothing left to fill. */
enum error segment_draft_step(struct segment_draft *draft, struct failure *failure);

/* All of the rest. */
enum error segment_draft_finish(struct segment_draft *draft, struct failure *failure);

/* Hands the ready file to the caller and is empty again. */
struct disk_file *segment_draft_take(struct segment_draft *draft);

/* Gives up: tries to remove the file, or puts the spare back. */
void segment_draft_abandon(struct segment_draft *draft);

#endif
