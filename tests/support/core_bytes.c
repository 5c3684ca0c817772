#include "support/core_bytes.h"

#include "base/assert.h"
#include "base/memory.h"
#include "support/history.h"
#include <stdlib.h>

#define OVERWRITTEN 0xa5

/* `context`: what the core may still look at. */
static void overwrite(void *context, const uint8_t *end)
{
    struct bytes *rest = context;
    ASSERT(end >= rest->ptr && end <= rest->ptr + rest->size);
    size_t size = (size_t)(end - rest->ptr);
    history_note_number(size);
    memset((void *)(uintptr_t)rest->ptr, OVERWRITTEN, size);
    *rest = bytes_skip(*rest, size);
}

bool core_bytes_decode(struct core *core, struct bytes encoded)
{
    struct bytes copy = memory_duplicate(encoded), rest = copy;
    bool is_good = core_decode(core, copy, overwrite, &rest);
    free((void *)(uintptr_t)copy.ptr);
    history_note_number(is_good);
    return is_good;
}
