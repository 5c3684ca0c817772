#include "tally/histogram.h"

/* Below HISTOGRAM_STEPS one place each; above, HISTOGRAM_STEPS places for each power of two. */
static uint32_t place_of(uint64_t duration_us)
{
    uint32_t shift = 0;
    while (duration_us >> shift >= 2 * HISTOGRAM_STEPS)
        shift++;
    uint64_t place = duration_us < HISTOGRAM_STEPS ? duration_us : shift * HISTOGRAM_STEPS + (duration_us >> shift);
    return place < HISTOGRAM_SIZE ? (uint32_t)place : HISTOGRAM_SIZE - 1;
}

/* The largest duration that has this place. */
static uint64_t duration_at(uint32_t place)
{
    uint32_t shift = place < 2 * HISTOGRAM_STEPS ? 0 : place / HISTOGRAM_STEPS - 1;
    return ((place - (uint64_t)shift * HISTOGRAM_STEPS + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t duration_us)
{
    histogram->counts[place_of(duration_us)]++;
    histogram->count++;
    if (duration_us > histogram->max_us)
        histogram->max_us = duration_us;
}

uint64_t histogram_quantile(const struct histogram *histogram, double part)
{
    uint64_t wanted = (uint64_t)((double)histogram->count * part);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_SIZE; i++) {
        seen += histogram->counts[i];
        if (seen > wanted || (seen == histogram->count && seen > 0))
            return duration_at(i) < histogram->max_us ? duration_at(i) : histogram->max_us;
    }
    return 0;
}
