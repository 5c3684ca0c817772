/* The memory of all replies, over all namespaces: counted from the moment each is made until its client has taken it.
 *
 * Before making a reply that may be large, the api asks whether the budget is spent, and waits if it is. A reply that
 * was begun before may take more than is left, or more than the whole budget. So the total is at most the budget and
 * one reply; with short replies, the budget, its reserve, and one of those. */
#ifndef TALLY_API_REPLY_BUDGET_H
#define TALLY_API_REPLY_BUDGET_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

/* Requests with short replies (action.h) go on above the budget: in a part of it, and after the reply that exceeded it,
 * which is rarely larger than this. */
#define REPLY_BUDGET_RESERVE_SHARE 8u
#define REPLY_BUDGET_REPLY_SIZE ((size_t)16 * 1024 * 1024)

/* Above that, for requests about the server's health. */
#define REPLY_BUDGET_PROBE_SIZE ((size_t)8 * 1024 * 1024)

struct reply_budget {
    size_t held; /* bytes */
    size_t max;
};

static inline void reply_budget_add(struct reply_budget *budget, size_t size)
{
    budget->held += size;
}

static inline void reply_budget_subtract(struct reply_budget *budget, size_t size)
{
    ASSERT(budget->held >= size);
    budget->held -= size;
}

static inline bool reply_budget_is_spent(const struct reply_budget *budget)
{
    return budget->held > budget->max;
}

/* With the reserve. */
static inline bool reply_budget_is_exhausted(const struct reply_budget *budget)
{
    return budget->held > budget->max + budget->max / REPLY_BUDGET_RESERVE_SHARE + REPLY_BUDGET_REPLY_SIZE;
}

/* And with the part that only /health and /metrics may use: replies that are held for a disk must not hide that the
 * disk stands still. */
static inline bool reply_budget_is_closed(const struct reply_budget *budget)
{
    return budget->held >
           budget->max + budget->max / REPLY_BUDGET_RESERVE_SHARE + REPLY_BUDGET_REPLY_SIZE + REPLY_BUDGET_PROBE_SIZE;
}

#endif
