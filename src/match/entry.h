/* An entry: what the matcher knows of a waiting ticket. It is embedded in the ticket's record, in the server
 * (core/pools/ticket.h) and in programs that match from outside. */
#ifndef TALLY_MATCH_ENTRY_H
#define TALLY_MATCH_ENTRY_H

#include "match/facts.h"

#define ENTRY_PRIORITY_MAX 9u
#define ENTRY_PRIORITY_URGENT 10u /* the priority during the last tenth of a ttl */

struct entry {
    uint64_t number;           /* of the ticket in its pool, rising in order of the first offer: breaks every tie */
    uint64_t offered_at_ms;    /* first offer: ages are counted from it */
    uint64_t expires_at_ms;    /* UINT64_MAX: never */
    uint64_t exclusive_set;    /* two tickets of one set never fit; 0: none */
    const struct facts *facts; /* borrowed as long as it is in a matcher */
    uint32_t weight;           /* 1 to RULES_WEIGHT_MAX */
    uint8_t priority;          /* 0 to ENTRY_PRIORITY_MAX */
    uint8_t level;             /* how many widening steps it has taken */

    /* The matcher's own. */
    bool is_urgent;
    uint32_t generation; /* the matcher's: it is in it */
    uint32_t seed_index; /* in the heap of seeds; 0: it is none */
    uint32_t step_index; /* in the heap of steps */
    uint32_t probe;      /* slot of the look that stopped at its budget; 0: none */
};

#endif
