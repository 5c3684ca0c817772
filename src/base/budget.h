/* A budget of work: how much may still be done. */
#ifndef TALLY_BASE_BUDGET_H
#define TALLY_BASE_BUDGET_H

#include <stdint.h>

/* Takes a cost off the budget; a cost above it leaves 0. */
static inline void budget_spend(uint32_t *left, uint64_t cost)
{
    *left -= cost < *left ? (uint32_t)cost : *left;
}

#endif
