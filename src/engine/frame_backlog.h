/* The memory of frames that wait for the disk, over all namespaces: what requests have written and is not durable yet.
 * It grows when the disk is slower than the clients, or stands still. Before new work begins, the caller asks whether
 * it is full. Work that has begun may exceed the limit, by at most what one decision writes. The open frame is not
 * counted; it is small, because it is closed when it holds NAMESPACE_FULL_SHARE of a frame. */
#ifndef TALLY_ENGINE_FRAME_BACKLOG_H
#define TALLY_ENGINE_FRAME_BACKLOG_H

#include "base/assert.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Above this size requests wait. A disk of 100 MB/s writes this much in less than a second, so more would not make the
 * disk faster. */
#define FRAME_BACKLOG_MAX ((size_t)64 * 1024 * 1024)

/* Work that time makes due may use this much more; otherwise clients that keep the disk busy would block it for
 * ever. */
#define FRAME_BACKLOG_RESERVE (FRAME_BACKLOG_MAX / 2)

struct frame_backlog {
    atomic_size_t held; /* bytes; logs that are being taken over are written to by threads of their own */
};

static inline void frame_backlog_add(struct frame_backlog *backlog, size_t size)
{
    atomic_fetch_add_explicit(&backlog->held, size, memory_order_relaxed);
}

static inline void frame_backlog_subtract(struct frame_backlog *backlog, size_t size)
{
    const size_t before = atomic_fetch_sub_explicit(&backlog->held, size, memory_order_relaxed);
    ASSERT(before >= size);
}

static inline bool frame_backlog_is_full(const struct frame_backlog *backlog)
{
    return atomic_load_explicit(&backlog->held, memory_order_relaxed) >= FRAME_BACKLOG_MAX;
}

/* With the reserve. */
static inline bool frame_backlog_is_exhausted(const struct frame_backlog *backlog)
{
    return atomic_load_explicit(&backlog->held, memory_order_relaxed) >= FRAME_BACKLOG_MAX + FRAME_BACKLOG_RESERVE;
}

#endif
