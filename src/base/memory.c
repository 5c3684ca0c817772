#include "base/memory.h"

#include "base/abort_message.h"
#include "base/assert.h"

#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noreturn, cold)) static void memory_exhausted(size_t size)
{
    abort_message_write("out of memory: %zu bytes were refused by the system; give the server more memory\n", size);
    abort();
}

/* malloc(0) may return NULL, which the callers must not see. */
static size_t memory_size_asked(size_t size)
{
    return size == 0 ? 1 : size;
}

void *memory_allocate(size_t size)
{
    void *ptr = malloc(memory_size_asked(size));
    if (ptr == NULL)
        memory_exhausted(size);
    return ptr;
}

void *memory_allocate_zeroed(size_t size)
{
    /* calloc and not memset: a large block comes from the system already zero and costs nothing until it is touched. */
    void *ptr = calloc(1, memory_size_asked(size));
    if (ptr == NULL)
        memory_exhausted(size);
    return ptr;
}

void *memory_allocate_huge(size_t size)
{
    ASSERT(size > 0 && size % MEMORY_HUGE_PAGE_SIZE == 0);
    void *ptr = aligned_alloc(MEMORY_HUGE_PAGE_SIZE, size);
    if (ptr == NULL)
        memory_exhausted(size);
    (void)madvise(ptr, size, MADV_HUGEPAGE); /* a hint: without it the memory is as good as any */
    return ptr;
}

uint8_t *memory_give_back(uint8_t *begin, const uint8_t *end)
{
    size_t size = (size_t)(end - begin);
    size_t skipped = -(uintptr_t)begin % MEMORY_HUGE_PAGE_SIZE; /* others may have a part of that page */
    if (size < skipped + MEMORY_HUGE_PAGE_SIZE)
        return begin;
    size_t given = size - skipped - (size - skipped) % MEMORY_HUGE_PAGE_SIZE;
    (void)madvise(begin + skipped, given, MADV_DONTNEED); /* a hint, too */
    return begin + skipped + given;
}

void *memory_resize(void *ptr, size_t size)
{
    void *resized = realloc(ptr, memory_size_asked(size));
    if (resized == NULL)
        memory_exhausted(size);
    return resized;
}

struct bytes memory_duplicate(struct bytes view)
{
    uint8_t *copy = memory_allocate(view.size);
    if (view.size > 0)
        memcpy(copy, view.ptr, view.size);
    return bytes_make(copy, view.size);
}

char *memory_duplicate_string(const char *string)
{
    const size_t size = strlen(string) + 1;
    return memcpy(memory_allocate(size), string, size);
}
