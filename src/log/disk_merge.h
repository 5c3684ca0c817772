/* One log whose files stand in two folders: the newest in one, and what that one has removed since in its archive.
 * Read-only, for a restore (docs/how-to/backup.md).
 *
 * It shows one snapshot at most, and the segments that go on from it without a gap, so that a recovery takes the files
 * for a log that ended there. The segments before the snapshot are all shown. */
#ifndef TALLY_LOG_DISK_MERGE_H
#define TALLY_LOG_DISK_MERGE_H

#include "log/disk.h"

/* Both are of one kind, and borrowed; one of the two may be NULL. `older` is the archive. */
struct disk *disk_merge_create(struct disk *newer, struct disk *older);
void disk_merge_destroy(struct disk *merge);

/* Locks both, and learns which files there are. Errors as their operations. */
enum error disk_merge_begin(struct disk *merge, struct failure *failure);

/* The snapshots, newest first. */
size_t disk_merge_snapshot_count(const struct disk *merge);
uint64_t disk_merge_snapshot_at(const struct disk *merge, size_t index); /* its position */

/* What is shown from now on: the snapshot at that position (0: none), and what goes on from there. Returns where the
 * segment that is not there would start: the first one of all, or the one behind the last. UINT64_MAX: there is no
 * segment at all. */
uint64_t disk_merge_select(struct disk *merge, uint64_t position);

/* Of the segments before that snapshot only those are shown from now on for which is_needed(context, start) is true,
 * `start` being a position. */
void disk_merge_keep(struct disk *merge, bool (*is_needed)(void *context, uint64_t start), void *context);

#endif
