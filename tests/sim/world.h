/* The simulated world of one seed: the real server (core, log, engine, api, without sockets) on a disk in memory,
 * clients, a clock, a network that loses replies, and the oracle that watches. */
#ifndef TALLY_TESTS_SIM_WORLD_H
#define TALLY_TESTS_SIM_WORLD_H

#include "clients.h"
#include "plants.h"
#include "support/salvage_rig.h"

struct world_report {
    uint64_t operations;
    uint64_t crashes;
    uint64_t segments;         /* how many the log went through */
    uint64_t refused_for_room; /* requests, for a full disk */
    uint64_t full_seeds;       /* that were drained on one */
    uint64_t moved_bytes;      /* of contents, by the cleaner; and in how many seeds it moved any */
    uint64_t cleaned_seeds;
    uint64_t messages;
    uint64_t completions;
    uint64_t stalls;       /* of the disk */
    uint64_t renewals;     /* of leases whose replies it held up */
    uint64_t history;      /* of all seeds (support/history.h) */
    bool is_looked_at;     /* or may be: the disk's reads are left out of faults and of the history */
    unsigned looks_a_turn; /* of onlookers; 0: none, for the history that others must have, too */
    uint64_t looks;
    uint64_t looks_refused; /* about things that are not there, and the like */
    bool wants_salvage;     /* each folder that a crash leaves is damaged and salvaged, too; on a copy */
    struct salvage_rig_report salvage;
};

/* Runs a seed to its end; fail()s if the server does anything wrong. */
void world_run(uint64_t seed, bool is_traced, struct world_report *report);

/* Where the running seed stands, for fail(). */
struct world_where {
    uint64_t seed;
    unsigned step;
    uint64_t now_ms;
};
struct world_where world_where(void);

#endif
