/* A seed: nodes, a PostgreSQL, clients, and what happens to them, until all is over and everything must be in order. */
#ifndef TALLY_TESTS_SIM_OWNERS_WORLD_H
#define TALLY_TESTS_SIM_OWNERS_WORLD_H

#include "owners.h"

/* Sums over seeds. Nothing but uint64_t. */
struct owners_report {
    uint64_t seeds;
    uint64_t sent, taken, read, refused, unknown;
    uint64_t stale;              /* reads of an old state, within a lease */
    uint64_t takeovers, resumes; /* a node has become the owner, and has gone on as it was */
    uint64_t frames;
    uint64_t statements;
    uint64_t kills, stops, cuts, breaks, restarts, failovers, cancels;
    uint64_t losses; /* seeds in which an asynchronous failover lost frames */
    uint64_t lost;   /* acknowledged messages that were lost by those */
    uint64_t silent; /* seeds in which nobody said so, though every node had its copy */
    uint64_t snapshots;
    uint64_t milliseconds; /* of simulated time */
};

/* Adds to the report, or ends the process (fail()). */
void owners_world_run(uint64_t seed, bool is_traced, struct owners_report *report);

void owners_report_print(const struct owners_report *report);

#endif
