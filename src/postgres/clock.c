#include "postgres/clock.h"

#include <time.h>

uint64_t pg_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now); /* a machine that was suspended finds its lease over */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void pg_pause(unsigned ms)
{
    const struct timespec pause = {.tv_nsec = (long)ms * 1000000};
    (void)nanosleep(&pause, NULL);
}
