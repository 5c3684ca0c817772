/* Bugs planted on purpose, to see that the judge of pools finds them; see plants.h. */
#ifndef TALLY_TESTS_SIM_POOL_PLANTS_H
#define TALLY_TESTS_SIM_POOL_PLANTS_H

#include <stdbool.h>

/* False: there is no such plant. */
bool pool_plant_choose(const char *name);

#endif
