#include "server/clock.h"

#include <time.h>

static uint64_t clock_read_ms(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void clock_init(struct clock *clock)
{
    clock->base_ms = clock_read_ms(CLOCK_REALTIME);
    clock->started_at_ms = clock_read_ms(CLOCK_MONOTONIC);
}

void clock_raise(struct clock *clock, uint64_t floor_ms)
{
    uint64_t now_ms = clock_now_ms(clock);
    if (now_ms < floor_ms)
        clock->base_ms += floor_ms - now_ms;
}

void clock_set(struct clock *clock, uint64_t now_ms)
{
    clock->base_ms += now_ms - clock_now_ms(clock);
}

uint64_t clock_at_ms(const struct clock *clock, uint64_t monotonic_ns)
{
    return clock->base_ms + (monotonic_ns / 1000000 - clock->started_at_ms);
}

uint64_t clock_now_ms(const struct clock *clock)
{
    return clock->base_ms + (clock_read_ms(CLOCK_MONOTONIC) - clock->started_at_ms);
}
