/* The memory of requests that wait: receives, feeds, and what goes on in portions, over all namespaces.
 *
 * A connection has one request that waits at most, and what nearly all of them keep is small. So those that keep little
 * may always wait: the limit of connections bounds them. One that keeps more, such as hundreds of attribute names, may
 * wait only where there is room. */
#ifndef TALLY_API_WAIT_BUDGET_H
#define TALLY_API_WAIT_BUDGET_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

/* What is counted for each that waits, besides the names and ids that it keeps: its exchange and
 * its place among the waiting. */
#define WAIT_SIZE ((size_t)1024)

/* What a wait may keep without being asked for room. */
#define WAIT_KEPT_SMALL ((size_t)1024)

struct wait_budget {
    size_t held; /* bytes */
    size_t max;
};

static inline bool wait_budget_has_room(const struct wait_budget *budget, size_t kept_size)
{
    return kept_size <= WAIT_KEPT_SMALL || budget->held + WAIT_SIZE + kept_size <= budget->max;
}

static inline void wait_budget_add(struct wait_budget *budget, size_t kept_size)
{
    budget->held += WAIT_SIZE + kept_size;
}

static inline void wait_budget_subtract(struct wait_budget *budget, size_t kept_size)
{
    ASSERT(budget->held >= WAIT_SIZE + kept_size);
    budget->held -= WAIT_SIZE + kept_size;
}

#endif
