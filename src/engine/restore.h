/* Makes a namespace's folder from that of a backup, so that it can be served beside whatever clients still know of the
 * log that was left behind (docs/decisions/0037). Reads and writes disks; knows no paths. */
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
};

/* Reads the log of `from`, which is not changed, up to the last frame in which nothing happened after until_ms;
 * UINT64_MAX: up to its end. Errors as namespace_recover(), and ERROR_INVALID_PARAMETER_VALUE: its snapshot is younger
 * than that, or bodies of that time have gone since. Takes as long as a start. */
enum error restore_find_end(struct disk *from, uint64_t until_ms, struct restore_end *end, struct failure *failure);

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
