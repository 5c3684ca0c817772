#include "platform/monotonic.h"

#include "base/assert.h"
#include <errno.h>
#include <time.h>

static uint64_t read_ms(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t monotonic_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

uint64_t boottime_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

static struct timespec as_timespec(uint64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

void sleep_for(uint64_t ms)
{
    const struct timespec pause = as_timespec(ms);
    (void)nanosleep(&pause, NULL);
}

void condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int status = pthread_condattr_init(&attributes);
    ASSERT(status == 0);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    status = pthread_cond_init(condition, &attributes);
    ASSERT(status == 0);
    (void)pthread_condattr_destroy(&attributes);
}

bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t at_ms)
{
    const struct timespec at = as_timespec(at_ms);
    const int status = pthread_cond_timedwait(condition, mutex, &at);
    ASSERT(status == 0 || status == ETIMEDOUT);
    return status == 0;
}

bool condition_wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t wait_ms)
{
    return condition_wait_until(condition, mutex, monotonic_ms() + wait_ms);
}
