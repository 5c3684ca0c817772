#include "core/siphash.h"

#include "base/assert.h"

#define ROUNDS_OF_WORD 2u
#define ROUNDS_AT_END 4u

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(struct state *state, unsigned rounds)
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

static void take_word(struct state *state, uint64_t word)
{
    state->v3 ^= word;
    mix(state, ROUNDS_OF_WORD);
    state->v0 ^= word;
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY_SIZE], struct bytes data)
{
    const uint64_t k0 = bytes_get_u64(key), k1 = bytes_get_u64(key + 8);
    /* "somepseudorandomlygeneratedbytes" */
    struct state state = {
        .v0 = k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t at = 0;
    for (; data.size - at >= 8; at += 8)
        take_word(&state, bytes_get_u64(data.ptr + at));
    /* What is left, and in the highest byte how much there was. */
    uint8_t rest[8] = {0};
    ASSERT(data.size - at < sizeof(rest));
    for (size_t i = 0; at + i < data.size; i++)
        rest[i] = data.ptr[at + i];
    rest[7] = (uint8_t)data.size;
    take_word(&state, bytes_get_u64(rest));
    state.v2 ^= 0xff;
    mix(&state, ROUNDS_AT_END);
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}
