/* Random numbers for tests: the same on every machine for one seed (splitmix64). */
#ifndef TALLY_TESTS_UNIT_RANDOM_H
#define TALLY_TESTS_UNIT_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state; /* the seed, to begin */
};

static inline uint64_t random_u64(struct random *random)
{
    uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

/* A number below `end`, which is small against 2^64. */
static inline uint32_t random_below(struct random *random, uint32_t end)
{
    return (uint32_t)(random_u64(random) % end);
}

static inline void random_fill(struct random *random, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)random_u64(random);
}

#endif
