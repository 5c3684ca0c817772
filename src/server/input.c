#include "server/input.h"

#include "base/assert.h"
#include "base/memory.h"
#include "base/poison.h"

#include <stdlib.h>
#include <string.h>

/* Less room than this is not worth a system call. */
#define INPUT_ROOM_MIN ((size_t)4 * 1024)

/* How much memory is reserved because a client announces bytes. Beyond it, memory grows with the bytes that have
 * come. */
#define INPUT_TRUSTED_SIZE ((size_t)1024 * 1024)

/* How many free blocks are kept; the rest goes back to the system. A block is usually in use only while it is read
 * into. */
#define INPUT_FREE_MAX 64u

/* Kept free in a buffer that may still grow. After a request that is put off, there must be room to notice that the
 * client goes. */
#define INPUT_SPARE 1u

struct input_block {
    struct input_block *next;
};

void input_cache_init(struct input_cache *cache)
{
    *cache = (struct input_cache){0};
}

void input_cache_deinit(struct input_cache *cache)
{
    ASSERT(cache->memory == 0);
    while (cache->free_owned != NULL) {
        struct input_block *block = cache->free_owned;
        poison_lift(block, INPUT_BLOCK_SIZE);
        cache->free_owned = block->next;
        free(block);
    }
    *cache = (struct input_cache){0};
}

static void input_take_block(struct input *input, struct input_cache *cache)
{
    struct input_block *block = cache->free_owned;
    if (block != NULL) {
        poison_lift(block, INPUT_BLOCK_SIZE);
        cache->free_owned = block->next;
        cache->free_count--;
    } else {
        block = memory_allocate(INPUT_BLOCK_SIZE);
    }
    *input = (struct input){.memory_owned = (uint8_t *)block, .capacity = INPUT_BLOCK_SIZE};
}

static void input_grow(struct input *input, struct input_cache *cache, size_t wanted)
{
    size_t capacity = input->capacity * 2;
    if (wanted > capacity) {
        size_t trusted = capacity > INPUT_TRUSTED_SIZE ? capacity : INPUT_TRUSTED_SIZE;
        capacity = wanted < trusted ? wanted : trusted;
    }
    cache->memory += capacity - input->capacity;
    input->memory_owned = memory_resize(input->memory_owned, capacity);
    input->capacity = capacity;
}

static void input_move_to_front(struct input *input)
{
    if (input->begin == 0)
        return;
    memmove(input->memory_owned, input->memory_owned + input->begin, input_size(input));
    input->end -= input->begin;
    input->begin = 0;
}

/* Moves bytes that have less memory than a block into a block. */
static void input_unfit(struct input *input, struct input_cache *cache)
{
    struct input fitted = *input;
    input_take_block(input, cache);
    input->end = input_size(&fitted);
    memcpy(input->memory_owned, fitted.memory_owned + fitted.begin, input->end);
    free(fitted.memory_owned);
}

uint8_t *input_room(struct input *input, struct input_cache *cache, size_t wanted, bool is_bounded, size_t *size)
{
    if (input->memory_owned == NULL)
        input_take_block(input, cache);
    else if (input->capacity < INPUT_BLOCK_SIZE)
        input_unfit(input, cache);
    if (is_bounded) {
        if (input->end == input->capacity)
            input_move_to_front(input);
        *size = input->capacity - input->end;
        return input->memory_owned + input->end;
    }
    size_t needed = wanted + INPUT_SPARE;
    if (input->capacity - input->end < INPUT_ROOM_MIN || input->begin + needed > input->capacity) {
        input_move_to_front(input);
        if (input->end + INPUT_SPARE >= input->capacity || needed > input->capacity)
            input_grow(input, cache, needed);
    }
    *size = input->capacity - INPUT_SPARE - input->end;
    return input->memory_owned + input->end;
}

bool input_has_room(const struct input *input)
{
    return input_size(input) < (input->capacity > INPUT_BLOCK_SIZE ? input->capacity : INPUT_BLOCK_SIZE);
}

void input_fit(struct input *input, struct input_cache *cache)
{
    size_t size = input_size(input);
    if (size >= input->capacity / 2)
        return;
    struct input fitted = {.memory_owned = memory_allocate(size), .capacity = size, .end = size};
    memcpy(fitted.memory_owned, input->memory_owned + input->begin, size);
    input_release(input, cache);
    cache->memory += input_memory(&fitted);
    *input = fitted;
}

void input_release(struct input *input, struct input_cache *cache)
{
    if (input->memory_owned == NULL)
        return;
    ASSERT(cache->memory >= input_memory(input));
    cache->memory -= input_memory(input);
    if (input->capacity == INPUT_BLOCK_SIZE && cache->free_count < INPUT_FREE_MAX) {
        struct input_block *block = (struct input_block *)(void *)input->memory_owned;
        block->next = cache->free_owned;
        poison_put(block, INPUT_BLOCK_SIZE);
        cache->free_owned = block;
        cache->free_count++;
    } else {
        free(input->memory_owned);
    }
    *input = (struct input){0};
}
