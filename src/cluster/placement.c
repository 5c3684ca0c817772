#include "cluster/placement.h"

#include "base/memory.h"

#include <stdlib.h>

/* What is known of a node while namespaces are placed. */
struct candidate {
    uint64_t hash;
    struct bytes name;
    size_t owns_left; /* how many more it may have */
    size_t follows_left;
    bool takes;
};

struct candidates {
    struct candidate *all_owned;
    size_t count;
};

/* A namespace, in the order in which they choose. */
struct chooser {
    struct placement *placement;
    uint64_t hash;
};

/* How much the namespace wants that node: as good as random, and the same everywhere. The mixer is the finalizer of
 * SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t score(uint64_t name_hash, uint64_t node_hash)
{
    uint64_t x = name_hash ^ node_hash;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int compare_choosers(const void *a, const void *b)
{
    const struct chooser *one = a, *other = b;
    if (one->hash != other->hash)
        return one->hash < other->hash ? -1 : 1;
    return bytes_compare(one->placement->name, other->placement->name);
}

enum role { OWNS, OWNS_BEYOND_BOUND, FOLLOWS, FOLLOWS_BEYOND_BOUND };

static bool has_room(const struct candidate *candidate, enum role role)
{
    switch (role) {
    case OWNS:
        return candidate->owns_left > 0;
    case FOLLOWS:
        return candidate->follows_left > 0;
    default:
        return true;
    }
}

/* The node that the namespace wants most, of those with room, but not `except`. */
static size_t find_best(const struct candidates *candidates, uint64_t hash, enum role role, size_t except)
{
    size_t found = PLACEMENT_NONE;
    uint64_t most = 0;
    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->all_owned[i];
        if (!candidate->takes || i == except || !has_room(candidate, role))
            continue;
        const uint64_t wanted = score(hash, candidate->hash);
        const bool is_tie = found != PLACEMENT_NONE && wanted == most;
        if (found == PLACEMENT_NONE || wanted > most ||
            (is_tie && bytes_compare(candidate->name, candidates->all_owned[found].name) < 0)) {
            found = i;
            most = wanted;
        }
    }
    return found;
}

size_t placement_bound(size_t takers, size_t count)
{
    const size_t shares = takers * PLACEMENT_BOUND_DENOMINATOR;
    return takers == 0 ? 0 : (count * PLACEMENT_BOUND_NUMERATOR + shares - 1) / shares;
}

static void candidates_init(struct candidates *candidates, const struct placement_node *nodes, size_t node_count,
                            size_t count)
{
    candidates->all_owned = memory_allocate((node_count + 1) * sizeof(*candidates->all_owned));
    candidates->count = node_count;
    size_t takers = 0;
    for (size_t i = 0; i < node_count; i++)
        takers += nodes[i].takes;
    const size_t bound = placement_bound(takers, count);
    for (size_t i = 0; i < node_count; i++)
        candidates->all_owned[i] = (struct candidate){.hash = bytes_hash(nodes[i].name),
                                                      .name = nodes[i].name,
                                                      .takes = nodes[i].takes,
                                                      .owns_left = bound,
                                                      .follows_left = bound};
}

static void take_room(size_t *left)
{
    if (*left > 0)
        (*left)--;
}

/* Pins come first, so that what is not pinned finds the room that they leave. */
static void place_pinned(const struct candidates *candidates, struct placement *placement)
{
    const size_t pinned_to = placement->pinned_to;
    placement->owner = PLACEMENT_NONE;
    if (pinned_to >= candidates->count || !candidates->all_owned[pinned_to].takes)
        return;
    placement->owner = pinned_to;
    take_room(&candidates->all_owned[pinned_to].owns_left);
}

static void place_owner(const struct candidates *candidates, const struct chooser *chooser)
{
    struct placement *placement = chooser->placement;
    if (placement->owner != PLACEMENT_NONE)
        return;
    placement->owner = find_best(candidates, chooser->hash, OWNS, PLACEMENT_NONE);
    if (placement->owner == PLACEMENT_NONE) /* pins have taken the room */
        placement->owner = find_best(candidates, chooser->hash, OWNS_BEYOND_BOUND, PLACEMENT_NONE);
    if (placement->owner != PLACEMENT_NONE)
        take_room(&candidates->all_owned[placement->owner].owns_left);
}

static void place_stand_by(const struct candidates *candidates, const struct chooser *chooser)
{
    struct placement *placement = chooser->placement;
    placement->stand_by = find_best(candidates, chooser->hash, FOLLOWS, placement->owner);
    if (placement->stand_by == PLACEMENT_NONE) /* the last ones, where the only node with room owns them */
        placement->stand_by = find_best(candidates, chooser->hash, FOLLOWS_BEYOND_BOUND, placement->owner);
    if (placement->stand_by != PLACEMENT_NONE)
        take_room(&candidates->all_owned[placement->stand_by].follows_left);
}

void placement_find(const struct placement_node *nodes, size_t node_count, struct placement *placements, size_t count)
{
    struct candidates candidates;
    struct chooser *choosers = memory_allocate((count + 1) * sizeof(*choosers));
    candidates_init(&candidates, nodes, node_count, count);
    for (size_t i = 0; i < count; i++) {
        choosers[i] = (struct chooser){.placement = &placements[i], .hash = bytes_hash(placements[i].name)};
        place_pinned(&candidates, &placements[i]);
    }
    qsort(choosers, count, sizeof(*choosers), compare_choosers);
    for (size_t i = 0; i < count; i++)
        place_owner(&candidates, &choosers[i]);
    for (size_t i = 0; i < count; i++)
        place_stand_by(&candidates, &choosers[i]);
    free(choosers);
    free(candidates.all_owned);
}
