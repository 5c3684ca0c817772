/* Clocks that nobody sets, and waiting for a time that they show. Any thread. */
#ifndef TALLY_PLATFORM_MONOTONIC_H
#define TALLY_PLATFORM_MONOTONIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Milliseconds. It stands still while the machine is asleep. */
uint64_t monotonic_ms(void);

/* Milliseconds since the machine was booted, also those in which it was asleep: for leases, which others count on. */
uint64_t boottime_ms(void);

/* The thread sleeps; a signal ends that early. */
void sleep_for(uint64_t ms);

/* A condition whose waits end by monotonic_ms(). */
void condition_init(pthread_cond_t *condition);

/* Waits, with the mutex held, until the condition is signalled or it is `at_ms` of monotonic_ms(). False: it is. As
 * with any condition, the caller looks again at what it waits for. */
bool condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t at_ms);

/* The same, for at most `wait_ms`. */
bool condition_wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t wait_ms);

#endif
