/* Snapshot files: the state of the core at one position of the log, so that a restart reads it and the tail only.
 *
 * A snapshot is written beside the old one under a temporary name, in blocks that carry a checksum each, synced,
 * renamed and the folder synced; only then is the old one removed. A crash at any point leaves one whole snapshot.
 *
 * Where the disk keeps spare snapshots (reserve.h), it is written into one of those, and
 * the old one becomes the next. */
#ifndef TALLY_LOG_SNAPSHOT_H
#define TALLY_LOG_SNAPSHOT_H

#include "base/buffer.h"
#include "log/disk.h"

struct snapshot_point {
    uint64_t epoch;
    uint64_t sequence; /* newest frame whose effect it contains */
    uint64_t position; /* where the replay goes on: the first byte behind that frame */
    uint64_t time_ms;
};

struct snapshot_writer;

#define SNAPSHOT_NAME_SIZE 26u /* 16 digits, ".snapshot", NUL */

/* The name of the published one of that position; and back, false if `name` is not the name of one. */
void snapshot_name(uint64_t position, char name[SNAPSHOT_NAME_SIZE]);
bool snapshot_name_decode(const char *name, uint64_t *position);

/* Step one: write the payload. snapshot_append() may be called any number of times; after an error it does nothing more
 * and snapshot_finish() reports the first one. A forked child does this: plain system calls and one block of memory.
 * The child inherits the folder's lock, so it should ask to die with its parent (PR_SET_PDEATHSIG), or the next owner
 * waits for it. */
enum error snapshot_begin(struct disk *disk, const struct snapshot_point *point, struct snapshot_writer **writer,
                          struct failure *failure);
enum error snapshot_append(struct snapshot_writer *writer, struct bytes data, struct failure *failure);
/* Writes the last block and syncs the file, still under its temporary name; frees the writer, also on error. On error
 * the temporary file is removed if possible. */
enum error snapshot_finish(struct snapshot_writer *writer, struct failure *failure);

/* Step two, when the frame `point->sequence` is durable: give it its name, durably. From then on it is the one that
 * counts. */
enum error snapshot_publish(struct disk *disk, const struct snapshot_point *point, struct failure *failure);

/* Step three: removes what was published before it. One that can't be removed is passed over, and does no harm but for
 * its room; the first such failure is returned. */
enum error snapshot_remove_older(struct disk *disk, const struct snapshot_point *point, struct failure *failure);

/* Reads of the published one at `position` where it stands in the log, from its header. Errors as snapshot_load(). */
enum error snapshot_read_point(struct disk *disk, uint64_t position, struct snapshot_point *point,
                               struct failure *failure);

/* *size: of a published one, in bytes; its file may be longer. */
enum error snapshot_size(struct disk *disk, const struct snapshot_point *point, uint64_t *size,
                         struct failure *failure);

/* Gets so much room for the file of the one published at `position`, which becomes a spare when it is replaced. */
enum error snapshot_reserve(struct disk *disk, uint64_t position, uint64_t room, struct failure *failure);

/* Instead of step two: removes temporary files, also those that a killed child left. snapshot_begin() does so too,
 * because at most one snapshot is being written. */
void snapshot_discard(struct disk *disk);

/* Reads the newest published snapshot of the folder into `payload`; *is_found is false where there is none. Removes
 * temporary files and, where that is possible, older snapshots that were left. Damage: ERROR_LOG_DAMAGED with file and
 * offset. */
enum error snapshot_load(struct disk *disk, struct snapshot_point *point, struct buffer *payload, bool *is_found,
                         struct failure *failure);

/* For a salvage, which changes nothing: reads the newest whole snapshot; *is_found is false where there is none. Calls
 * `damaged` for each newer one that is not whole, with its position, what is wrong, and the payload before the damage,
 * borrowed until it returns. */
enum error
snapshot_load_readable(struct disk *disk, struct snapshot_point *point, struct buffer *payload, bool *is_found,
                       void (*damaged)(void *context, uint64_t position, const char *text, struct bytes payload),
                       void *context, struct failure *failure);

#endif
