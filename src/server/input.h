/* Bytes read from a connection and not yet used up, and the pool of blocks they are read into.
 *
 * A connection has a block only while it reads: idle connections hold none, and the block that was used last, still in
 * the processor's cache, is used first. What stays until more comes, or until it may be begun, moves to memory of its
 * size. Requests larger than a block get memory of their own, which is freed behind them. One thread. */
#ifndef TALLY_SERVER_INPUT_H
#define TALLY_SERVER_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INPUT_BLOCK_SIZE ((size_t)16 * 1024)

struct input_block;

struct input_cache {
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

void input_cache_init(struct input_cache *cache);
void input_cache_deinit(struct input_cache *cache);

/* Room for more bytes behind the ones there are: the place, and how much in *size. `wanted` is how many bytes the
 * request is expected to have, 0 if unknown. With `is_bounded` there is no more memory than a block or what there is
 * already: *size is 0 if that is full. When that begins there is room. */
uint8_t *input_room(struct input *input, struct input_cache *cache, size_t wanted, bool is_bounded, size_t *size);

/* Would that be some, with `is_bounded`? */
bool input_has_room(const struct input *input);

/* Moves the bytes, which nobody reads for now, to memory of their size if they fill less than half of what there is. */
void input_fit(struct input *input, struct input_cache *cache);

/* Gives the memory back. */
void input_release(struct input *input, struct input_cache *cache);

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
