/* Makes a namespace's folder from that of a backup, so that it can be served beside whatever clients still know of the
 * log that was left behind (docs/internals/decisions/0037). Reads and writes disks; knows no paths. */
#ifndef TALLY_ENGINE_RESTORE_H
#define TALLY_ENGINE_RESTORE_H

#include "core/core.h"
#include "log/disk.h"

/* Where the log of a backup ends, or is to end. */
struct restore_end {
    uint64_t position; /* 0: there was no such namespace then */
    uint64_t segment_size;
    uint64_t time_ms; /* of the state there */
    uint64_t queues;
    uint64_t messages;
    bool is_log_end; /* nothing in the log is later */
    bool is_missing; /* what is damaged is that a segment on the way is in neither folder */
};

/* Reads the log of `from`, which is not changed, up to the last frame in which nothing happened after until_ms;
 * UINT64_MAX: up to its end. Errors as namespace_recover(), and ERROR_INVALID_PARAMETER_VALUE: its snapshot is younger
 * than that, or bodies of that time have gone since. Takes as long as a start. */
enum error restore_find_end(struct disk *from, uint64_t until_ms, struct restore_end *end, struct failure *failure);

/* The same of a log with its archive (log/disk_merge.h), which has begun: from the newest snapshot that is not younger
 * than until_ms. Afterwards `merge` shows what a copy up to there needs, and nothing else of what is before that
 * snapshot. ERROR_INVALID_PARAMETER_VALUE: also where none is that old. ERROR_LOG_DAMAGED: also where a segment on the
 * way is in neither folder. */
enum error restore_find_end_archived(struct disk *merge, uint64_t until_ms, struct restore_end *end,
                                     struct failure *failure);

#define RESTORE_TIME_SIZE 32u

/* As people write it: 2026-11-30T03:10:00.000Z. */
void restore_write_time(uint64_t time_ms, char text[RESTORE_TIME_SIZE]);

struct restore_result {
    uint64_t relays; /* that are paused now */
    uint64_t publishers;
};

/* Copies the log up to there into `to`, an empty folder, and says in it, durably, that it was restored: numbers grow,
 * and relays are paused (decide_restore()). `now_ms`: wall-clock time. */
enum error restore_write(struct disk *from, struct disk *to, const struct restore_end *end, uint64_t now_ms,
                         struct restore_result *result, struct failure *failure);

#endif
