/* The time by which leases of logs in PostgreSQL are counted. */
#ifndef TALLY_POSTGRES_CLOCK_H
#define TALLY_POSTGRES_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* Milliseconds since this machine was booted, also those in which it was suspended. */
uint64_t pg_now_ms(void);

/* A time that several threads set, of which the latest counts. */
static inline void pg_raise_ms(_Atomic uint64_t *time_ms, uint64_t to_ms)
{
    uint64_t had_ms = atomic_load(time_ms);
    while (had_ms < to_ms && !atomic_compare_exchange_weak(time_ms, &had_ms, to_ms))
        continue;
}

#endif
