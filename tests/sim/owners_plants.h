/* Bugs on purpose, for the test of this simulator. The program knows nothing of them: they stand around its functions,
 * by the linker's --wrap, or in the simulated PostgreSQL, where a text of postgres/statements.h would be wrong. */
#ifndef TALLY_TESTS_SIM_OWNERS_PLANTS_H
#define TALLY_TESTS_SIM_OWNERS_PLANTS_H

#include <stdbool.h>

enum owners_plant {
    OWNERS_PLANT_NONE,
    NO_FENCE,            /* a write does not compare epoch and owner */
    SEAL_TAKES_ANY,      /* a seal does not compare whose epoch it ends */
    SEAL_DOES_NOT_WAIT,  /* the fence is taken FOR KEY SHARE: a seal does not wait for a write under way */
    SERVES_AT_ONCE,      /* a new owner answers before its first frame is durable */
    ANSWERS_FROM_MEMORY, /* replies do not wait for their frames */
    WALL_CLOCK_LEASE,    /* leases are measured by the wall clock */
    NO_LEASE,            /* an owner that proves nothing goes on answering */
    CACHE_BELIEVED,      /* what the folder has is not compared */
    WARNING_IGNORED,     /* a commit that is not replicated counts as done */
    NO_SEAL_AFTER_DOUBT, /* an unknown outcome is looked at, without a seal before */
    TAIL_NOT_COMPARED,   /* a tail that is lost is not noticed */
    EARLY_TAKEOVER,      /* a node that stands by does not wait for the lease */
    BROKEN_LINK_ANSWERS, /* an owner does not look at its connection, and answers until its lease ends */
    SHORT_PATIENCE,      /* PostgreSQL gives a silent connection up after three seconds, whatever the lease */
    OWNERS_PLANT_COUNT
};

/* False: there is none of that name. */
bool owners_plant_choose(const char *name);
const char *owners_plant_name(enum owners_plant plant);
bool owners_plant_is(enum owners_plant plant);

#endif
