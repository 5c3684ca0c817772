/* Runs a fuzz target on inputs that a seed draws, always the same ones, without libFuzzer: drive_<target> [INPUTS].
 *
 * What the target saw becomes its history (support/history.h), so a decoder that takes or refuses something else than
 * before is noticed. Inputs that nobody guides reach what lies near the surface; `make fuzz` goes deeper. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUTS 1000u
#define SIZE_MAX_DRAWN 256u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t draw(uint64_t *state, uint64_t end)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % end;
}

/* Mostly small bytes in one input, all of them in another: small ones are lengths, counts and choices that exist. */
static size_t draw_input(uint64_t *state, uint8_t input[SIZE_MAX_DRAWN])
{
    const uint64_t end = draw(state, 2) == 0 ? 256 : 2 + draw(state, 40);
    const size_t size = 2 + draw(state, draw(state, 4) == 0 ? SIZE_MAX_DRAWN - 1 : 30);
    for (size_t i = 0; i < size; i++)
        input[i] = (uint8_t)draw(state, draw(state, 8) == 0 ? 256 : end);
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
    uint64_t state = 1;
    for (unsigned long i = 0; i < count; i++) {
        uint8_t input[SIZE_MAX_DRAWN];
        (void)LLVMFuzzerTestOneInput(input, draw_input(&state, input));
    }
    return 0;
}
