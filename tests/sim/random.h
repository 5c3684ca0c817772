/* Chance, from one 64-bit seed: a separate stream for each component, so that a change in what one draws leaves what
 * the others draw as it was. SplitMix64. */
#ifndef TALLY_TESTS_SIM_RANDOM_H
#define TALLY_TESTS_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

enum stream {
    STREAM_CLIENTS = 1,
    STREAM_DISK,
    STREAM_CLOCK,
    STREAM_NETWORK,
    STREAM_FAULTS,
    STREAM_SETTINGS,
    STREAM_ONLOOKERS
};

static inline uint64_t random_u64(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline struct random random_stream(uint64_t seed, enum stream stream)
{
    struct random random = {.state = seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)stream};
    random.state = random_u64(&random);
    return random;
}

/* From 0 to limit - 1. */
static inline uint32_t random_below(struct random *random, uint32_t limit)
{
    return (uint32_t)(random_u64(random) % limit);
}

/* From `low` to `high`, both included. */
static inline uint32_t random_between(struct random *random, uint32_t low, uint32_t high)
{
    return low + random_below(random, high - low + 1);
}

static inline bool random_chance(struct random *random, uint32_t percent)
{
    return random_below(random, 100) < percent;
}

#endif
