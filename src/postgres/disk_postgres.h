/* A disk whose files are rows: the log's code runs on it as on a folder, and what it makes durable is a committed
 * transaction in PostgreSQL (docs/internals/decisions/0021).
 *
 * A local folder has a copy of each file, the cache: reads and maps come from it. lock() begins to follow the log, or
 * takes it at once where the options claim it; await() follows until it makes this node the owner. Every other node's
 * writes are refused from then on (session.h). A write whose outcome nobody knows is settled before the call returns:
 * the log is sealed again, and read. If that does not succeed within the lease, the write fails, and with it the log;
 * whoever uses it then opens it anew. An owner that bears silence waits for as long as PostgreSQL does not answer.
 *
 * Differences to the real disk: a write is durable when it returns, unless it is one of write_aside(), which a sync
 * makes durable; a file can't be written twice at one place; no spare files are kept; a forked child gets a connection
 * of its own when it first uses the disk. Threads: as for the real disk; calls wait for each other. */
#ifndef TALLY_POSTGRES_DISK_POSTGRES_H
#define TALLY_POSTGRES_DISK_POSTGRES_H

#include "log/disk.h"
#include "postgres/session.h"

#define DISK_POSTGRES_LOOK_MS 50u /* an owner that writes nothing should call confirm() so often */

/* `options` and `folder` are borrowed for the disk's life. Freed by disk_postgres_destroy(), which gives the log's
 * advisory lock back. */
struct disk *disk_postgres_create(const struct pg_options *options, const char *folder);
void disk_postgres_destroy(struct disk *disk);

/* The time of PostgreSQL's clock, milliseconds since the epoch, as it was when the log was taken, and gone on with this
 * machine's monotonic clock. By the owner. */
uint64_t disk_postgres_now_ms(struct disk *disk);

/* The node that owned the log when this one last looked, without a name if that is not known. Any thread. */
struct pg_node disk_postgres_owner(struct disk *disk);

/* The newest epoch in which this node had the log, or has seen it; 0: none yet. Any thread. */
uint64_t disk_postgres_epoch(struct disk *disk);

/* Why this node, the owner, can't go on with the log at the moment; empty: it can, as far as is known. Any thread. */
void disk_postgres_explain(struct disk *disk, char *text, size_t size);

/* Does this node leave the log alone because replicas are wanted (pg_options), and PostgreSQL waits for none? Any
 * thread. */
bool disk_postgres_lacks_replica(struct disk *disk);

/* Has this node, which follows the log, applied what there is of it, but for the newest moment? Any thread. */
bool disk_postgres_is_caught_up(struct disk *disk);

/* Says in PostgreSQL that nobody has the log from now on, and that nobody need have it until something is asked of it.
 * By the owner, who has written everything, before disk_postgres_destroy(). False: it could not say so. */
bool disk_postgres_rest(struct disk *disk);

/* Ends a wait for the log's owner (disk.h, await), with ERROR_SERVICE_UNAVAILABLE. Any thread. */
void disk_postgres_stop(struct disk *disk);

/* Whether the owner's calls wait for as long as PostgreSQL is silent. At first, and when this is taken back, they wait
 * for a lease. Any thread. */
void disk_postgres_bear_silence(struct disk *disk, bool bears);

/* When the newest statement that was acknowledged began, in milliseconds of pg_now_ms(): until a lease later no other
 * node believes that this one is gone, unless its connection ended (disk_postgres_is_whole()). Any thread. */
uint64_t disk_postgres_proved_ms(struct disk *disk);

/* May this node, the owner, answer from what it knows? Not while its connection to PostgreSQL is broken: another node
 * may have the log. Any thread; costs a system call. */
bool disk_postgres_is_whole(struct disk *disk);

/* Where what this node has written ends in the log, or what it has followed and applied: bytes since the log began. Any
 * thread. */
uint64_t disk_postgres_position(struct disk *disk);

/* Makes the tables; ERROR_INVALID_PARAMETER_VALUE if they can't be made, as where they are there already, with
 * *is_there true if they are and have this version. */
enum error disk_postgres_init_schema(const struct pg_options *options, bool *is_there, struct failure *failure);

#endif
