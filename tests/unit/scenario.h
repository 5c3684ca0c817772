/* Plays one scenario in every way: undisturbed, killed behind each step, with snapshots, and with a disk that stops at
 * each of its operations in turn. */
#ifndef TALLY_TESTS_UNIT_SCENARIO_H
#define TALLY_TESTS_UNIT_SCENARIO_H

#include "support/scale.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Places at which the disk stops, in one scenario; all of them where it has fewer operations. */
#define SCENARIO_STOPS_MAX 150u

struct scenario {
    void (*play)(struct world *world);
};

/* A row of a cmocka table, named like the scenario's function. */
#define SCENARIO(function) scenario_row(#function, &(struct scenario){function})

/* Fails the test, saying how the scenario was interrupted. */
#define EXPECT(world, claim) ((claim) ? (void)0 : scenario_fail(world, #claim, __FILE__, __LINE__))

static inline void scenario_fail(const struct world *world, const char *claim, const char *file, int line)
{
    char text[160];
    print_error("%s: %s\n", world_describe(world, text), claim);
    _fail(file, line);
}

/* Plays it once; returns how many operations the disk was asked for. */
static inline uint64_t scenario_play(const struct scenario *scenario, const struct world_options *options)
{
    struct world *world = world_create(options);
    scenario->play(world);
    world_audit(world);
    uint64_t operations = memory_disk_operations(world->disk);
    world_destroy(world);
    return operations;
}

static inline void scenario_test(void **state)
{
    const struct scenario *scenario = *state;
    uint64_t operations = scenario_play(scenario, &(struct world_options){.way = WORLD_PLAIN, .seed = 1});
    scenario_play(scenario, &(struct world_options){.way = WORLD_KILLS, .seed = 2});
    scenario_play(scenario, &(struct world_options){.way = WORLD_SNAPSHOTS, .seed = 3});
    uint64_t step = operations / scaled(SCENARIO_STOPS_MAX) + 1;
    for (uint64_t stop_at = 0; stop_at < operations; stop_at += step)
        scenario_play(scenario, &(struct world_options){
                                    .way = WORLD_STOPS, .seed = 100 + stop_at, .stop_at = stop_at + stop_at % step});
}

static inline struct CMUnitTest scenario_row(const char *name, struct scenario *scenario)
{
    return (struct CMUnitTest){.name = name, .test_func = scenario_test, .initial_state = scenario};
}

#endif
