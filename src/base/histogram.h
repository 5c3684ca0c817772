/* How often values of each size came: a bucket for each power of two. A few instructions a value, no memory of its own.
 * Bucket k has the values above 2^(k-1) and up to 2^k; the first one also 0, the last one whatever is larger. */
#ifndef TALLY_BASE_HISTOGRAM_H
#define TALLY_BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 28u

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t sum;
};

static inline void histogram_add(struct histogram *histogram, uint64_t value)
{
    const unsigned bucket = value <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(value - 1);
    histogram->counts[bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1]++;
    histogram->sum += value;
}

static inline uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

#endif
