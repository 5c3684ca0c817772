#include "postgres/clock.h"

#include "platform/monotonic.h"

uint64_t pg_now_ms(void)
{
    return boottime_ms(); /* a machine that was suspended finds its lease over */
}
