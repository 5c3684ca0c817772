/* The memory of frames that wait for the disk, over all namespaces: what requests have written and is not durable yet.
 * A disk that is slower than its clients, or stands still, makes it grow; whoever is about to begin something asks
 * first whether it is full. What was begun before may take more, so what is held is at most the limit and what one
 * decision writes. The frame that is open is not counted, which is a small one: it is closed when it holds
 * NAMESPACE_FULL_SHARE of a frame. */
#ifndef TALLY_ENGINE_FRAME_BACKLOG_H
#define TALLY_ENGINE_FRAME_BACKLOG_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

/* Requests wait from here on. A disk that writes 100 MB/s has it written in less than a second, so no disk that could
 * be faster waits for more. */
#define FRAME_BACKLOG_MAX ((size_t)64 * 1024 * 1024)

/* What is due by itself goes on above that, or clients who keep the disk busy would hold it up for ever. */
#define FRAME_BACKLOG_RESERVE (FRAME_BACKLOG_MAX / 2)

struct frame_backlog {
    size_t held; /* bytes */
};

static inline void frame_backlog_add(struct frame_backlog *backlog, size_t size)
{
    backlog->held += size;
}

static inline void frame_backlog_subtract(struct frame_backlog *backlog, size_t size)
{
    ASSERT(backlog->held >= size);
    backlog->held -= size;
}

static inline bool frame_backlog_is_full(const struct frame_backlog *backlog)
{
    return backlog->held >= FRAME_BACKLOG_MAX;
}

/* With the reserve. */
static inline bool frame_backlog_is_exhausted(const struct frame_backlog *backlog)
{
    return backlog->held >= FRAME_BACKLOG_MAX + FRAME_BACKLOG_RESERVE;
}

#endif
