/* How often tests repeat what is random: TALLY_TEST_SCALE=0.1 plays a tenth, for programs that run many times slower
 * under a tool, where it is the paths that count. */
#ifndef TALLY_TESTS_SUPPORT_SCALE_H
#define TALLY_TESTS_SUPPORT_SCALE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* `count` rounds, or fewer; at least one. */
static inline uint64_t scaled(uint64_t count)
{
    const char *text = getenv("TALLY_TEST_SCALE");
    double scale = text == NULL ? 1 : strtod(text, NULL);
    uint64_t rounds = (uint64_t)((double)count * scale);
    return rounds > 0 ? rounds : 1;
}

/* Under such a tool: what is about a size of millions, or about the memory that the program takes, says nothing
 * there. */
static inline bool is_scaled_down(void)
{
    return scaled(1000) < 1000;
}

#endif
