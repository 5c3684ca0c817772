#include "postgres/clock.h"

#include "base/monotonic.h"

#include <time.h>

uint64_t pg_now_ms(void)
{
    return boottime_ms(); /* a machine that was suspended finds its lease over */
}

void pg_pause(unsigned ms)
{
    const struct timespec pause = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&pause, NULL);
}
