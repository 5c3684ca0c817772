#include "base/json_memory.h"

#include "base/memory.h"

#include <stdlib.h>

static void *take(void *context, size_t size)
{
    (void)context;
    return memory_allocate(size);
}

static void *retake(void *context, void *old, size_t old_size, size_t size)
{
    (void)context;
    (void)old_size;
    return memory_resize(old, size);
}

static void give_back(void *context, void *memory)
{
    (void)context;
    free(memory);
}

const yyjson_alc json_memory = {.malloc = take, .realloc = retake, .free = give_back};
