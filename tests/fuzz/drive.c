/* Runs a fuzz target on inputs that a seed draws, always the same ones, without libFuzzer: drive_<target> [INPUTS].
 *
 * What the target saw becomes its history (support/history.h), so a decoder that takes or refuses something else than
 * before is noticed. Inputs that nobody guides reach what lies near the surface; `make fuzz` goes deeper. */
#include "unit/random.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUTS 1000u
#define SIZE_MAX_DRAWN 256u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Mostly small bytes in one input, all of them in another: small ones are lengths, counts and choices that exist. */
static size_t draw_input(struct random *random, uint8_t input[SIZE_MAX_DRAWN])
{
    const uint32_t end = random_below(random, 2) == 0 ? 256 : 2 + random_below(random, 40);
    const size_t size = 2 + random_below(random, random_below(random, 4) == 0 ? SIZE_MAX_DRAWN - 1 : 30);
    for (size_t i = 0; i < size; i++)
        input[i] = (uint8_t)random_below(random, random_below(random, 8) == 0 ? 256 : end);
    return size;
}

int main(int argument_count, char **arguments)
{
    char *end = NULL;
    errno = 0;
    const unsigned long count = argument_count > 1 ? strtoul(arguments[1], &end, 10) : INPUTS;
    if (argument_count > 2 || errno != 0 || (end != NULL && (end == arguments[1] || *end != '\0'))) {
        fprintf(stderr, "usage: %s [INPUTS]\n", arguments[0]);
        return 2;
    }
    struct random random = {.state = 1};
    for (unsigned long i = 0; i < count; i++) {
        uint8_t input[SIZE_MAX_DRAWN];
        (void)LLVMFuzzerTestOneInput(input, draw_input(&random, input));
    }
    return 0;
}
