/* Counts of durations, exact to about 1.5 %, from 1 us to hours, in a fixed amount of memory. */
#ifndef TALLY_TALLY_HISTOGRAM_H
#define TALLY_TALLY_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS 64 /* per power of two */
#define HISTOGRAM_SIZE (HISTOGRAM_STEPS * 36)

struct histogram {
    uint64_t counts[HISTOGRAM_SIZE];
    uint64_t count;
    uint64_t max_us;
};

void histogram_add(struct histogram *histogram, uint64_t duration_us);

/* The duration in microseconds below which `part` (0 to 1) of all lie; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double part);

#endif
