/* The memory of replies that exist: counted from the moment each is made until its client has taken it, over all
 * namespaces.
 *
 * Whoever is about to make a reply that may be large asks first whether the budget is spent, and waits if it is. One
 * that was begun before may take more than is left, also more than there is, so what is held is at most the budget and
 * one reply, or with short ones the budget, its reserve, and one of those. */
#ifndef TALLY_API_REPLY_BUDGET_H
#define TALLY_API_REPLY_BUDGET_H

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

/* Requests whose replies are short (action.h) go on above it: in a part of the budget, and behind the reply that has
 * gone beyond it, which is rarely larger than this. */
#define REPLY_BUDGET_RESERVE_SHARE 8u
#define REPLY_BUDGET_REPLY_SIZE ((size_t)16 * 1024 * 1024)

/* Above that, for those who ask how the server is. */
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

/* And with what only /health and /metrics may use: held replies that wait for a disk must
 * not hide that it stands still. */
static inline bool reply_budget_is_closed(const struct reply_budget *budget)
{
    return budget->held >
           budget->max + budget->max / REPLY_BUDGET_RESERVE_SHARE + REPLY_BUDGET_REPLY_SIZE + REPLY_BUDGET_PROBE_SIZE;
}

#endif
