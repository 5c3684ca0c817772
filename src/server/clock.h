/* Log time: milliseconds since the epoch that never go back.
 *
 * It is the wall clock read once at the start, advanced by the monotonic clock. So a change of the wall clock moves no
 * visibility timeout and no deadline (invariant R12). One thread. */
#ifndef TALLY_SERVER_CLOCK_H
#define TALLY_SERVER_CLOCK_H

#include <stdint.h>

struct clock {
    uint64_t base_ms;       /* log time at the start */
    uint64_t started_at_ms; /* monotonic time at the start */
};

/* Reads the wall clock. */
void clock_init(struct clock *clock);

/* From now on the clock shows at least `floor_ms`, the time of the newest recovered frame. That time lies ahead if the
 * wall clock was set back while the daemon was down. */
void clock_raise(struct clock *clock, uint64_t floor_ms);

/* The same, but it shows just this from now on: the time of a log that other machines write to as well, whose clocks
 * this one's has nothing to do with. */
void clock_set(struct clock *clock, uint64_t now_ms);

/* Log time now. About 25 ns. */
uint64_t clock_now_ms(const struct clock *clock);

/* Log time at a moment of the monotonic clock. */
uint64_t clock_at_ms(const struct clock *clock, uint64_t monotonic_ns);

#endif
