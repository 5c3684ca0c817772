/* The time by which leases of logs in PostgreSQL are counted. */
#ifndef TALLY_POSTGRES_CLOCK_H
#define TALLY_POSTGRES_CLOCK_H

#include <stdint.h>

/* Milliseconds since this machine was booted, also those in which it was suspended. */
uint64_t pg_now_ms(void);

/* The thread sleeps for `ms` < 1000. */
void pg_pause(unsigned ms);

#endif
