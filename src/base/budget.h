/* A bound on work: what is left of it. */
#ifndef TALLY_BASE_BUDGET_H
#define TALLY_BASE_BUDGET_H

#include <stdint.h>

/* Takes a cost off what is left; one that is above it leaves nothing. */
static inline void budget_spend(uint32_t *left, uint64_t cost)
{
    *left -= cost < *left ? (uint32_t)cost : *left;
}

#endif
