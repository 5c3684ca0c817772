/* Functions with which several parts of the core walk over its state. */
#include "core/state.h"

#include <stdlib.h>

struct cursor core_heap_slots(struct core *core, const struct heap *heap)
{
    buffer_truncate(&core->scratch, 0);
    for (uint32_t i = 0; i < heap->count; i++)
        buffer_append_u32(&core->scratch, heap->entries_owned[i].slot);
    return cursor_make(buffer_bytes(&core->scratch));
}

static int compare_ids(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

void core_sort_ids(uint32_t *ids, uint32_t count)
{
    qsort(ids, count, sizeof(*ids), compare_ids);
}
