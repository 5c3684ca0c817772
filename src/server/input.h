/* Bytes read from a connection and not yet used up, and the pool of blocks into which they are read.
 *
 * A connection has a block only while it reads, so idle connections hold none. The block that was used last is used
 * first, because it is still in the processor's cache. Bytes that must wait, for more bytes or for admission, move to
 * memory of their size. A request larger than a block gets its own memory, which is freed after it. One thread. */
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
    uint64_t memory; /* memory of all inputs beyond one block each (input_memory) */
};

struct input {
    uint8_t *memory_owned; /* NULL: holds nothing */
    size_t capacity;
    size_t begin; /* the bytes are memory[begin..end) */
    size_t end;
};

void input_cache_init(struct input_cache *cache);
void input_cache_deinit(struct input_cache *cache);

/* Room for more bytes after the present ones: where it is, and its size in *size. `wanted` is the expected size of the
 * request, 0 if unknown. With `is_bounded` it takes no more memory than a block or the present memory: *size is 0 if
 * that is full. There is always room at first. */
uint8_t *input_room(struct input *input, struct input_cache *cache, size_t wanted, bool is_bounded, size_t *size);

/* Would input_room() find room with `is_bounded`? */
bool input_has_room(const struct input *input);

/* Nobody reads the bytes for now. Moves them to memory of their size if they fill less than half of theirs. */
void input_fit(struct input *input, struct input_cache *cache);

/* Gives the memory back. */
void input_release(struct input *input, struct input_cache *cache);

/* Its memory beyond the one block that every connection may have. */
static inline size_t input_memory(const struct input *input)
{
    return input->capacity > INPUT_BLOCK_SIZE ? input->capacity - INPUT_BLOCK_SIZE : 0;
}

static inline size_t input_size(const struct input *input)
{
    return input->end - input->begin;
}

#endif
