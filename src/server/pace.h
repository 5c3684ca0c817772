/* What a request costs the loop: the time in which it did not wait, divided by the number of requests in that time.
 * Knows no clock. */
#ifndef TALLY_SERVER_PACE_H
#define TALLY_SERVER_PACE_H

#include <stdint.h>

/* A measurement needs at least this many requests, because few of them say little. */
#define PACE_REQUESTS_MIN 64u

struct pace {
    uint64_t begun_ns;   /* when the present measurement began; 0: there is none */
    uint64_t idle_ns;    /* how long the loop had waited until then, in all */
    uint64_t requests;   /* and what it had taken */
    uint64_t request_ns; /* of one request, smoothed; 0 until the first measurement is over */
};

/* `now_ns` is a time that never goes back. `idle_ns` is how much of it the loop has waited for sockets, timers and the
 * log. `requests` is how many requests it has taken. Called in each turn; O(1). */
void pace_note(struct pace *pace, uint64_t now_ns, uint64_t idle_ns, uint64_t requests);

#endif
