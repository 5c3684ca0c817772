#include "core/siphash.h"

struct state {
    uint64_t v0, v1, v2, v3;
};

/* How often the state is mixed. */
struct rounds {
    unsigned of_word;
    unsigned at_end;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void mix(struct state *state, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        state->v0 += state->v1;
        state->v2 += state->v3;
        state->v1 = rotate(state->v1, 13) ^ state->v0;
        state->v3 = rotate(state->v3, 16) ^ state->v2;
        state->v0 = rotate(state->v0, 32);
        state->v2 += state->v1;
        state->v0 += state->v3;
        state->v1 = rotate(state->v1, 17) ^ state->v2;
        state->v3 = rotate(state->v3, 21) ^ state->v0;
        state->v2 = rotate(state->v2, 32);
    }
}

static inline void take_word(struct state *state, uint64_t word, struct rounds rounds)
{
    state->v3 ^= word;
    mix(state, rounds.of_word);
    state->v0 ^= word;
}

/* The bytes after the last whole word, with the total length in the highest byte. Reads overlapping whole numbers: most
 * inputs are short, and reading byte by byte would be half of the work. */
static uint64_t last_word(struct bytes data)
{
    size_t left = data.size % 8;
    uint64_t word = (uint64_t)data.size << 56;
    if (left == 0)
        return word;
    const uint8_t *rest = data.ptr + (data.size - left);
    if (data.size > 8)
        return word | bytes_get_u64(rest + left - 8) >> (64 - 8 * left);
    if (left >= 4)
        return word | bytes_get_u32(rest) | (uint64_t)bytes_get_u32(rest + left - 4) << (8 * (left - 4));
    return word | rest[0] | (uint64_t)rest[left / 2] << (8 * (left / 2)) | (uint64_t)rest[left - 1] << (8 * (left - 1));
}

/* Inlined, so that the rounds are constants in it. */
static inline __attribute__((always_inline)) uint64_t compute(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data,
                                                              struct rounds rounds)
{
    const uint64_t k0 = bytes_get_u64(key), k1 = bytes_get_u64(key + 8);
    /* "somepseudorandomlygeneratedbytes" */
    struct state state = {
        .v0 = k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = k1 ^ UINT64_C(0x7465646279746573),
    };
    for (size_t at = 0; data.size - at >= 8; at += 8)
        take_word(&state, bytes_get_u64(data.ptr + at), rounds);
    take_word(&state, last_word(data), rounds);
    state.v2 ^= 0xff;
    mix(&state, rounds.at_end);
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

uint64_t siphash_2_4(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data)
{
    return compute(key, data, (struct rounds){.of_word = 2, .at_end = 4});
}

uint64_t siphash_1_3(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data)
{
    return compute(key, data, (struct rounds){.of_word = 1, .at_end = 3});
}
