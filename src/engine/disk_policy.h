/* How much disk a namespace may use, and what must be done to stay below that: pure functions of sizes.
 *
 * The bound: 2.5 x live + snapshot-bytes + 8 segments, where live is the content of live messages and the newest
 * snapshot. With the defaults that is 2.5 x live + 256 MiB at most. What is kept for a full disk comes on top of it,
 * and of what is counted. The arithmetic is in docs/internals/decisions/0011-cleaning.md. */
#ifndef TALLY_ENGINE_DISK_POLICY_H
#define TALLY_ENGINE_DISK_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct disk_policy {
    uint64_t snapshot_least; /* a snapshot is due when the log has grown by so many bytes since the last; 0: never */
    uint32_t snapshot_worth; /* and by this many times the size of the last snapshot */
    bool cleans_eagerly;     /* whatever is dead somewhere is cleaned: for tests, which have small logs */
};

/* All in bytes. */
struct disk_sizes {
    uint64_t segment;        /* what one takes up */
    uint64_t segments;       /* all of them, with the newest and the one to come */
    uint64_t idle;           /* those of them in which nothing lives: what a snapshot lets go */
    uint64_t partly;         /* those in which something lives, but for the newest */
    uint64_t partly_content; /* what lives in these */
    uint64_t content;        /* what lives in any */
    uint64_t snapshot;       /* the newest one */
    uint64_t snapshot_next;  /* about what the next one will take */
    uint64_t reserve;        /* what is kept for a full disk, on top of all that */
    uint64_t grown;          /* the log since the newest snapshot */
};

uint64_t disk_bound(const struct disk_policy *policy, const struct disk_sizes *sizes);

bool disk_snapshot_is_due(const struct disk_policy *policy, const struct disk_sizes *sizes);

/* Is the only room left the one that the running snapshot needs? Then the snapshot, and the removal after it, must
 * hurry. */
bool disk_snapshot_is_urgent(const struct disk_policy *policy, const struct disk_sizes *sizes);

/* How many dead bytes in partly live segments should be freed now; 0: there is nothing to clean. */
uint64_t disk_cleaning_due(const struct disk_policy *policy, const struct disk_sizes *sizes);

/* Are so many bytes dead in them that the cleaner should work at its full rate? */
bool disk_cleaning_is_pressed(const struct disk_policy *policy, const struct disk_sizes *sizes);

#endif
