#include "core/queues/queue_counters.h"

#include "base/assert.h"

#define SPAN_MS ((uint64_t)1 << QUEUE_SPAN_SHIFT)
#define RATE_MS_MIN 1000u /* right after a start */

static_assert(QUEUE_RATE_MS <= SPAN_MS, "two spans have all of the time that a rate looks back");
static_assert(QUEUE_RATED_COUNT <= QUEUE_COUNTER_COUNT, "a rate is that of a counter");

void queue_counters_begin_span(struct queue_counters *counters, uint64_t now_ms)
{
    const uint32_t span = queue_span(now_ms);
    const bool is_next = counters->span + 1 == span;
    for (unsigned i = 0; i < QUEUE_RATED_COUNT; i++) {
        counters->before[i] = is_next ? counters->at_begin[i] : (uint32_t)counters->counts[i];
        counters->at_begin[i] = (uint32_t)counters->counts[i];
    }
    counters->span = span;
}

static uint64_t later(uint64_t one_ms, uint64_t other_ms)
{
    return one_ms > other_ms ? one_ms : other_ms;
}

/* What part of the time from begin_ms to end_ms lies behind from_ms. */
static double part_behind(uint64_t from_ms, uint64_t begin_ms, uint64_t end_ms)
{
    if (from_ms >= end_ms)
        return end_ms == begin_ms && from_ms == end_ms ? 1 : 0;
    return from_ms <= begin_ms ? 1 : (double)(end_ms - from_ms) / (double)(end_ms - begin_ms);
}

double queue_counters_rate(const struct queue_counters *counters, enum queue_counter counter, uint64_t now_ms,
                           uint64_t since_ms)
{
    ASSERT(counter < QUEUE_RATED_COUNT);
    const uint32_t span = queue_span(now_ms), count = (uint32_t)counters->counts[counter];
    const uint64_t from_ms = later(now_ms - QUEUE_RATE_MS, since_ms < now_ms ? since_ms : now_ms);
    const uint64_t begin_ms = now_ms & ~(SPAN_MS - 1);
    uint32_t now = 0, before = 0; /* what came in this span, and in the one before it */
    if (counters->span == span) {
        now = count - counters->at_begin[counter];
        before = counters->at_begin[counter] - counters->before[counter];
    } else if (counters->span + 1 == span) {
        before = count - counters->at_begin[counter];
    }
    const double came = now * part_behind(from_ms, later(begin_ms, since_ms), now_ms) +
                        before * part_behind(from_ms, later(begin_ms - SPAN_MS, since_ms), begin_ms);
    const uint64_t window_ms = later(now_ms - from_ms, RATE_MS_MIN);
    return came * 1000 / (double)window_ms;
}
