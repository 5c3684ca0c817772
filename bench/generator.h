/* The generator: one thread, one epoll, N connections, each with one write in flight.
 *
 * In a closed loop a connection asks again as soon as it is answered. With a rate, requests are due at fixed times,
 * wait for a free connection, and their latency counts from when they were due: a pause of the server then shows in
 * full instead of only holding back the questions that would have met it. */
#ifndef TALLY_BENCH_GENERATOR_H
#define TALLY_BENCH_GENERATOR_H

#include "histogram.h"
#include "workload.h"

enum { SECONDS_MAX = 600 };

struct result {
    double seconds;           /* of the measured window */
    struct counters window;   /* confirmed inside it */
    struct counters total;    /* confirmed in the whole run, warm-up and draining included */
    struct histogram latency; /* of the writes answered inside it, or due inside it where there is a rate */
    uint64_t max_ns_by_second[SECONDS_MAX]; /* the longest of those answered in each second of it */
    double generator_cpu_s;                 /* user + system of this process inside it */
    double server_cpu_s;                    /* of plan->cpu_pids, likewise; 0 without */
};

/* Runs the plan: connects, warms up, measures, then lets every write in flight be answered and closes. Ends the program
 * if a connection breaks, a reply is wrong or nothing is answered for 30 s. */
void generator_run(const struct plan *plan, const struct workload *workload, struct result *result);

#endif
