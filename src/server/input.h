/* Bytes read from a connection and not yet used up, and the pool of blocks they are read into.
 *
 * A connection has a block only while bytes of an unfinished request lie in it: idle connections hold none, and the block
 * that was used last, still in the processor's cache, is used first. Requests larger than a block get memory of their
 * own, which is freed behind them. One thread. */
#ifndef TALLY_SERVER_INPUT_H
#define TALLY_SERVER_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INPUT_BLOCK_SIZE ((size_t)16 * 1024)

struct input_block;

struct input_pool {
    struct input_block *free_owned;
    size_t free_count;
    uint64_t memory; /* bytes that inputs have now beyond a block of each (input_memory) */
};

struct input {
    uint8_t *memory_owned; /* NULL: holds nothing */
    size_t capacity;
    size_t begin; /* the bytes are memory[begin..end) */
    size_t end;
};

void input_pool_init(struct input_pool *pool);
void input_pool_deinit(struct input_pool *pool);

/* Room for more bytes behind the ones there are: the place, and how much in *size, which is 0 only if there is no room and `is_pinned`
 * forbids to move what is there; when that begins there is some. `wanted` is how many bytes the request is expected to have, 0 if unknown. */
uint8_t *input_room(struct input *input, struct input_pool *pool, size_t wanted, bool is_pinned, size_t *size);

/* Gives the memory back. */
void input_release(struct input *input, struct input_pool *pool);

/* What it has beyond a block, which every connection may have. */
static inline size_t input_memory(const struct input *input)
{
    return input->capacity > INPUT_BLOCK_SIZE ? input->capacity - INPUT_BLOCK_SIZE : 0;
}

static inline size_t input_size(const struct input *input)
{
    return input->end - input->begin;
}

#endif
