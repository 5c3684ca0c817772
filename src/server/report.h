/* Lines about a trouble that goes on: one of a kind a minute. Each kind has its own pause, so that one which a client
 * can bring about keeps no other one back. */
#ifndef TALLY_SERVER_REPORT_H
#define TALLY_SERVER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#define REPORT_PAUSE_MS 60000u

/* May it be said now? Then its pause begins. `reported_ms` is 0 at first; times are those of the loop. */
static inline bool report_may(uint64_t *reported_ms, uint64_t now_ms)
{
    if (*reported_ms != 0 && now_ms - *reported_ms < REPORT_PAUSE_MS)
        return false;
    *reported_ms = now_ms == 0 ? 1 : now_ms;
    return true;
}

#endif
