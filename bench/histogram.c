#include "histogram.h"

#include <string.h>

void histogram_reset(struct histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

/* Values below 128 have a bucket each; above, the top eight bits of the value choose the bucket. */
static unsigned bucket_of(uint64_t value_ns)
{
    if (value_ns < HISTOGRAM_STEPS)
        return (unsigned)value_ns;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value_ns) - 7;
    return (shift + 1) * HISTOGRAM_STEPS + (unsigned)((value_ns >> shift) - HISTOGRAM_STEPS);
}

/* The largest value that falls into a bucket. */
static uint64_t bucket_end_ns(unsigned bucket)
{
    if (bucket < HISTOGRAM_STEPS)
        return bucket;
    unsigned shift = bucket / HISTOGRAM_STEPS - 1;
    uint64_t top = bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS;
    return (top << shift) + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t value_ns)
{
    histogram->count++;
    histogram->sum_ns += value_ns;
    if (value_ns > histogram->max_ns)
        histogram->max_ns = value_ns;
    histogram->buckets[bucket_of(value_ns)]++;
}

uint64_t histogram_percentile_ns(const struct histogram *histogram, double fraction)
{
    uint64_t wanted = (uint64_t)((double)histogram->count * fraction + 0.999999);
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= wanted && seen > 0)
            return bucket_end_ns(bucket) < histogram->max_ns ? bucket_end_ns(bucket) : histogram->max_ns;
    }
    return histogram->max_ns;
}

uint64_t histogram_mean_ns(const struct histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->sum_ns / histogram->count;
}
