/* Why the messages of a queue failed: their newest failure reasons, and how many messages have each. Looks at a bounded
 * number of messages and touches none. Pure. */
#ifndef TALLY_CORE_MESSAGES_FAILURES_H
#define TALLY_CORE_MESSAGES_FAILURES_H

#include "base/arena.h"
#include <stdbool.h>
#include <stdint.h>

struct core;
struct queue;

#define FAILURES_LOOKED_MAX 10000u /* messages */
#define FAILURE_TEXT_SIZE_MAX 256u /* of a reason; what begins alike so far is one reason */
#define FAILURE_SAMPLES_MAX 3u     /* messages that are named for each */

struct failure_reason {
    struct bytes text; /* until the next decision */
    bool is_cut;       /* some of the reasons go on */
    uint32_t count;
    uint64_t oldest_ms; /* when these messages were received last: the first time and the newest */
    uint64_t newest_ms;
    uint64_t samples[FAILURE_SAMPLES_MAX]; /* numbers of messages, the first `count` of them */
};

struct failures {
    struct failure_reason *reasons; /* in the arena; the most frequent first, of equal ones the newest */
    uint32_t reason_count;
    uint32_t looked;         /* messages */
    uint32_t failed;         /* of these, with a reason */
    uint32_t without_reason; /* dead letters, and messages that came back, of which nobody said why */
    bool is_complete;        /* it looked at every message of the queue */
};

/* Looks at dead letters, the newest first, and at messages that were sent to the queue, the oldest first: receives
 * begin there, so these fail first. Each kind has half of the messages that are looked at, and what the other one
 * leaves. In any state, but for those that were purged or cancelled. O(FAILURES_LOOKED_MAX). */
void failures_summarize(const struct core *core, const struct queue *queue, struct arena *arena,
                        struct failures *failures);

#endif
