/* placement: what cluster/placement.h does with clusters of several sizes. Prints the figures of
 * docs/internals/scaling.md.
 *
 * usage: placement [--short]
 *
 * For each size: the most namespaces on a node and the bound; how many move when a node joins, and when one leaves or
 * dies, beside the least there can be; how many of a dead node's go to their stand-by, and how many each of the
 * others takes over at most. Every node leaves once, and as many join. The mean and the worst are printed. Exit status
 * 1: something is outside the bars that the documentation gives. */
#include "cluster/placement.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 24u
#define MOVES_PERCENT_MAX 150u /* of the least: in the mean of all cases, at 1,000 namespaces and more */

struct world {
    char (*node_names_owned)[NAME_SIZE];
    struct placement_node *nodes_owned; /* twice as many: the second half does not take at first */
    size_t node_count;                  /* of the first half */
    char (*names_owned)[NAME_SIZE];
    struct placement *before_owned;
    struct placement *after_owned;
    size_t count;
};

static void world_init(struct world *world, size_t node_count, size_t count)
{
    *world = (struct world){.node_count = node_count, .count = count};
    world->node_names_owned = memory_allocate(2 * node_count * NAME_SIZE);
    world->nodes_owned = memory_allocate(2 * node_count * sizeof(*world->nodes_owned));
    world->names_owned = memory_allocate(count * NAME_SIZE);
    world->before_owned = memory_allocate(count * sizeof(*world->before_owned));
    world->after_owned = memory_allocate(count * sizeof(*world->after_owned));
    for (size_t i = 0; i < 2 * node_count; i++) {
        (void)snprintf(world->node_names_owned[i], NAME_SIZE, "node%zu", i);
        world->nodes_owned[i] =
            (struct placement_node){.name = bytes_from_string(world->node_names_owned[i]), .takes = i < node_count};
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(world->names_owned[i], NAME_SIZE, "%012zu", i);
        world->before_owned[i] =
            (struct placement){.name = bytes_from_string(world->names_owned[i]), .pinned_to = PLACEMENT_NONE};
        world->after_owned[i] = world->before_owned[i];
    }
    placement_find(world->nodes_owned, 2 * node_count, world->before_owned, count);
}

static void world_deinit(struct world *world)
{
    free(world->node_names_owned);
    free(world->nodes_owned);
    free(world->names_owned);
    free(world->before_owned);
    free(world->after_owned);
}

/* --- counting ----------------------------------------------------------------------------------------------------- */

/* Of several cases. */
struct sample {
    uint64_t sum, most, cases;
};

static void add(struct sample *sample, uint64_t value)
{
    sample->sum += value;
    sample->most = value > sample->most ? value : sample->most;
    sample->cases++;
}

static double mean(const struct sample *sample)
{
    return sample->cases == 0 ? 0 : (double)sample->sum / (double)sample->cases;
}

struct figures {
    uint64_t most, most_followed;
    struct sample least;    /* of what a leave has to move: what the node had */
    struct sample left;     /* moved when a node leaves */
    struct sample followed; /* of those that the node had: how many go to their stand-by */
    struct sample taken;    /* the most that one of the others takes over */
    struct sample joined;   /* moved when a node joins */
    struct sample given;    /* of those: to the node that joins */
};

static uint64_t find_most(const struct world *world, bool is_stand_by)
{
    uint64_t *counts = memory_allocate_zeroed(2 * world->node_count * sizeof(*counts));
    uint64_t most = 0;
    for (size_t i = 0; i < world->count; i++) {
        const size_t node = is_stand_by ? world->before_owned[i].stand_by : world->before_owned[i].owner;
        if (node != PLACEMENT_NONE && ++counts[node] > most)
            most = counts[node];
    }
    free(counts);
    return most;
}

static void leave(struct world *world, size_t node, struct figures *figures)
{
    uint64_t *taken = memory_allocate_zeroed(2 * world->node_count * sizeof(*taken));
    uint64_t had = 0, moved = 0, followed = 0, most = 0;
    world->nodes_owned[node].takes = false;
    placement_find(world->nodes_owned, 2 * world->node_count, world->after_owned, world->count);
    world->nodes_owned[node].takes = true;
    for (size_t i = 0; i < world->count; i++) {
        const struct placement *before = &world->before_owned[i], *after = &world->after_owned[i];
        had += before->owner == node;
        moved += before->owner != after->owner;
        followed += before->owner == node && after->owner == before->stand_by;
        if (before->owner != after->owner && ++taken[after->owner] > most)
            most = taken[after->owner];
    }
    free(taken);
    add(&figures->least, had);
    add(&figures->left, moved);
    add(&figures->followed, followed);
    add(&figures->taken, most);
}

static void join(struct world *world, size_t node, struct figures *figures)
{
    uint64_t moved = 0, given = 0;
    world->nodes_owned[node].takes = true;
    placement_find(world->nodes_owned, 2 * world->node_count, world->after_owned, world->count);
    world->nodes_owned[node].takes = false;
    for (size_t i = 0; i < world->count; i++) {
        moved += world->before_owned[i].owner != world->after_owned[i].owner;
        given += world->before_owned[i].owner != world->after_owned[i].owner && world->after_owned[i].owner == node;
    }
    add(&figures->joined, moved);
    add(&figures->given, given);
}

static bool run(size_t node_count, size_t count)
{
    struct world world;
    struct figures figures = {0};
    world_init(&world, node_count, count);
    figures.most = find_most(&world, false);
    figures.most_followed = find_most(&world, true);
    for (size_t i = 0; i < node_count; i++) {
        if (node_count > 1)
            leave(&world, i, &figures);
        join(&world, node_count + i, &figures);
    }
    const uint64_t bound = placement_bound(node_count, count);
    printf("%zu namespaces on %zu nodes: mean %.1f, most %" PRIu64 ", bound %" PRIu64 ", most as stand-by %" PRIu64
           "\n",
           count, node_count, (double)count / (double)node_count, figures.most, bound, figures.most_followed);
    printf("  a node joins: %.1f move (worst %" PRIu64 "), %.1f of them to it\n", mean(&figures.joined),
           figures.joined.most, mean(&figures.given));
    printf("  a node leaves or dies: %.1f move (worst %" PRIu64 "), it had %.1f; %.1f go to their stand-by; one of the "
           "others takes %.1f (worst %" PRIu64 ")\n",
           mean(&figures.left), figures.left.most, mean(&figures.least), mean(&figures.followed), mean(&figures.taken),
           figures.taken.most);
    const bool is_calm = count < 1000 || (100 * figures.left.sum <= MOVES_PERCENT_MAX * figures.least.sum &&
                                          100 * figures.joined.sum <= MOVES_PERCENT_MAX * figures.given.sum);
    world_deinit(&world);
    if (figures.most > bound)
        printf("  that is above the bound\n");
    if (!is_calm)
        printf("  that is more than %u %% of the least\n", MOVES_PERCENT_MAX);
    return figures.most <= bound && is_calm;
}

int main(int argc, char **argv)
{
    const bool is_short = argc == 2 && strcmp(argv[1], "--short") == 0;
    if (argc > 1 && !is_short) {
        (void)fprintf(stderr, "usage: placement [--short]\n");
        return 2;
    }
    bool is_right = run(3, 50);
    is_right &= run(3, 1000);
    if (is_short) {
        is_right &= run(10, 1000);
        return is_right ? 0 : 1;
    }
    is_right &= run(4, 4000); /* a node with 1,000 dies */
    is_right &= run(10, 10000);
    is_right &= run(100, 10000);
    return is_right ? 0 : 1;
}
