/* Which node of a cluster should have which namespace: rendezvous hashing with a bound (Thaler and Ravishankar, "Using
 * name-based mappings to increase hit rates", 1998; the bound as in Mirrokni, Thorup and Zadimoghaddam, "Consistent
 * hashing with bounded loads", 2018).
 *
 * A pure function of names. Every node computes it for itself from the same rows, and the nodes agree without asking
 * each other. Where two of them see different rows for a moment, both may want a namespace. That costs a takeover and
 * nothing else: what keeps two owners apart is the fence (postgres/session.h).
 *
 * When a node comes or goes, the namespaces that it gets or had move, and few others: those that the bound had kept
 * from a node that has room now, or that it keeps from one that has none any more. */
#ifndef TALLY_CLUSTER_PLACEMENT_H
#define TALLY_CLUSTER_PLACEMENT_H

#include "base/bytes.h"

#define PLACEMENT_NONE SIZE_MAX

/* No node has more than 5/4 of the mean, rounded up, except by pins. It is the stand-by of no more, either, as long as
 * another one has room. */
#define PLACEMENT_BOUND_NUMERATOR 5u
#define PLACEMENT_BOUND_DENOMINATOR 4u

struct placement_node {
    struct bytes name; /* borrowed; no two are equal */
    bool takes;        /* it is alive, and does not drain */
};

struct placement {
    struct bytes name; /* of a namespace; borrowed; no two are equal */
    size_t pinned_to;  /* a node that an operator has chosen, by index; PLACEMENT_NONE: none. One that takes nothing is
                        * not minded */
    size_t owner;      /* found: who should have it; PLACEMENT_NONE: no node takes any */
    size_t stand_by;   /* found: who should follow it, and will most likely own it next; PLACEMENT_NONE: nobody */
};

/* The most that a node is given of `count` namespaces, where `takers` nodes take some; pins aside. */
size_t placement_bound(size_t takers, size_t count);

/* Finds the owner and the stand-by of each. The order of both lists makes no difference.
 * O(node_count * count + count log count). */
void placement_find(const struct placement_node *nodes, size_t node_count, struct placement *placements, size_t count);

#endif
