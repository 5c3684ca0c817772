/* How long matched tickets had waited, by the level that they had reached: a histogram with an error of an eighth. In
 * memory only. */
#ifndef TALLY_CORE_POOLS_WAITS_H
#define TALLY_CORE_POOLS_WAITS_H

#include "match/rules.h"

#define WAITS_BUCKETS 320u /* eight for each doubling */

struct waits {
    uint64_t counts[RULES_LEVELS_MAX][WAITS_BUCKETS];
    uint64_t sum_ms[RULES_LEVELS_MAX];
    uint64_t max_ms[RULES_LEVELS_MAX];
};

void waits_add(struct waits *waits, uint32_t level, uint64_t waited_ms);

/* Of one level, or of all (level RULES_LEVELS_MAX): how many, and the wait that the fraction `part` (0 to 1) of them
 * did not exceed; 0 if there are none. */
uint64_t waits_count(const struct waits *waits, uint32_t level);
uint64_t waits_quantile_ms(const struct waits *waits, uint32_t level, double part);
uint64_t waits_max_ms(const struct waits *waits, uint32_t level);

/* The upper end of a bucket. */
uint64_t waits_bucket_end_ms(uint32_t bucket);

#endif
