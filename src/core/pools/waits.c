#include "core/pools/waits.h"

/* Waits below 8 ms have a bucket each. From there on, each doubling has eight buckets of equal width. */
#define EXACT_MS 8u
#define PARTS_SHIFT 3

static uint32_t bucket_of(uint64_t waited_ms)
{
    if (waited_ms < EXACT_MS)
        return (uint32_t)waited_ms;
    unsigned doubling = 63u - (unsigned)__builtin_clzll(waited_ms); /* at least 3 */
    uint64_t part = waited_ms >> (doubling - PARTS_SHIFT) & (EXACT_MS - 1);
    uint64_t bucket = (uint64_t)(doubling - PARTS_SHIFT + 1) * EXACT_MS + part;
    return bucket < WAITS_BUCKETS ? (uint32_t)bucket : WAITS_BUCKETS - 1;
}

uint64_t waits_bucket_end_ms(uint32_t bucket)
{
    if (bucket < EXACT_MS)
        return bucket;
    unsigned shift = bucket / EXACT_MS - 1;
    uint64_t part = bucket % EXACT_MS;
    return ((EXACT_MS + part + 1) << shift) - 1;
}

void waits_add(struct waits *waits, uint32_t level, uint64_t waited_ms)
{
    if (level >= RULES_LEVELS_MAX)
        level = RULES_LEVELS_MAX - 1;
    waits->counts[level][bucket_of(waited_ms)]++;
    waits->sum_ms[level] += waited_ms;
    if (waited_ms > waits->max_ms[level])
        waits->max_ms[level] = waited_ms;
}

static uint64_t bucket_count(const struct waits *waits, uint32_t level, uint32_t bucket)
{
    if (level < RULES_LEVELS_MAX)
        return waits->counts[level][bucket];
    uint64_t count = 0;
    for (uint32_t each = 0; each < RULES_LEVELS_MAX; each++)
        count += waits->counts[each][bucket];
    return count;
}

uint64_t waits_count(const struct waits *waits, uint32_t level)
{
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < WAITS_BUCKETS; bucket++)
        count += bucket_count(waits, level, bucket);
    return count;
}

uint64_t waits_max_ms(const struct waits *waits, uint32_t level)
{
    if (level < RULES_LEVELS_MAX)
        return waits->max_ms[level];
    uint64_t max_ms = 0;
    for (uint32_t each = 0; each < RULES_LEVELS_MAX; each++)
        max_ms = waits->max_ms[each] > max_ms ? waits->max_ms[each] : max_ms;
    return max_ms;
}

uint64_t waits_quantile_ms(const struct waits *waits, uint32_t level, double part)
{
    uint64_t total = waits_count(waits, level), seen = 0, max_ms = waits_max_ms(waits, level);
    for (uint32_t bucket = 0; bucket < WAITS_BUCKETS && total > 0; bucket++) {
        seen += bucket_count(waits, level, bucket);
        if ((double)seen >= part * (double)total && seen > 0)
            return waits_bucket_end_ms(bucket) < max_ms ? waits_bucket_end_ms(bucket) : max_ms;
    }
    return max_ms;
}
