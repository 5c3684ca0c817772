#include "base/accounted.h"

#include "base/memory.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

/* What the allocator keeps beside each block. */
#define BLOCK_OVERHEAD sizeof(size_t)

/* Relays' threads have tables of their own, so this is atomic; nothing is ordered by it. */
static atomic_size_t in_use;

static size_t block_size(void *ptr)
{
    return malloc_usable_size(ptr) + BLOCK_OVERHEAD;
}

static void add(size_t size)
{
    atomic_fetch_add_explicit(&in_use, size, memory_order_relaxed);
}

static void subtract(size_t size)
{
    atomic_fetch_sub_explicit(&in_use, size, memory_order_relaxed);
}

void *accounted_allocate(size_t size)
{
    void *ptr = memory_allocate(size);
    add(block_size(ptr));
    return ptr;
}

void *accounted_allocate_zeroed(size_t size)
{
    void *ptr = memory_allocate_zeroed(size);
    add(block_size(ptr));
    return ptr;
}

void *accounted_resize(void *ptr, size_t size)
{
    size_t before = ptr == NULL ? 0 : block_size(ptr);
    void *resized = memory_resize(ptr, size);
    add(block_size(resized) - before); /* modulo 2^64 where it shrinks */
    return resized;
}

struct bytes accounted_duplicate(struct bytes view)
{
    uint8_t *copy = accounted_allocate(view.size);
    if (view.size > 0)
        memcpy(copy, view.ptr, view.size);
    return bytes_make(copy, view.size);
}

void accounted_replace(struct bytes *owned, struct bytes view)
{
    struct bytes copy = view.size == 0 ? bytes_make(NULL, 0) : accounted_duplicate(view);
    accounted_free((void *)(uintptr_t)owned->ptr);
    *owned = copy;
}

void accounted_free(void *ptr)
{
    if (ptr != NULL)
        subtract(block_size(ptr));
    free(ptr);
}

void accounted_count_less(size_t size)
{
    subtract(size);
}

void accounted_count_more(size_t size)
{
    add(size);
}

size_t accounted_in_use(void)
{
    return atomic_load_explicit(&in_use, memory_order_relaxed);
}
