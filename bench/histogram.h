/* A histogram of latencies with buckets that grow with the value: each is at most 1/128 wide of what it holds, so every
 * percentile is exact to 0.8 %, from 1 ns to centuries, in fixed memory. O(1) to add. */
#ifndef TALLY_BENCH_HISTOGRAM_H
#define TALLY_BENCH_HISTOGRAM_H

#include <stdint.h>

enum {
    HISTOGRAM_STEPS = 128, /* buckets for each power of two */
    HISTOGRAM_BUCKETS = (64 - 7 + 1) * HISTOGRAM_STEPS,
};

struct histogram {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Forgets everything. */
void histogram_reset(struct histogram *histogram);

void histogram_add(struct histogram *histogram, uint64_t value_ns);

/* The smallest bucket's upper end below which at least `fraction` (0 to 1) of the values lie; 0 without values. */
uint64_t histogram_percentile_ns(const struct histogram *histogram, double fraction);

uint64_t histogram_mean_ns(const struct histogram *histogram);

#endif
