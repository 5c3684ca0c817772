#include "core/messages/extent.h"

#include "base/accounted.h"
#include "base/assert.h"
#include <string.h>

void extents_deinit(struct extents *extents)
{
    accounted_free(extents->items_owned);
    *extents = (struct extents){0};
}

size_t extents_index(const struct extents *extents, uint64_t ordinal)
{
    size_t low = 0, high = extents->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (extents->items_owned[middle].ordinal < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The extent of a segment, made if there is none. New content goes to the newest segment, so its extent is the last one
 * or comes after it. Only a decode inserts in the middle. */
static struct extent *extent_at(struct extents *extents, uint64_t ordinal)
{
    if (extents->count > 0 && extents->items_owned[extents->count - 1].ordinal == ordinal)
        return &extents->items_owned[extents->count - 1];
    size_t index = extents_index(extents, ordinal);
    if (index < extents->count && extents->items_owned[index].ordinal == ordinal)
        return &extents->items_owned[index];
    ACCOUNTED_GROW(extents->items_owned, extents->count, extents->capacity, 16);
    struct extent *extent = &extents->items_owned[index];
    memmove(extent + 1, extent, (extents->count - index) * sizeof(*extent));
    extents->count++;
    *extent = (struct extent){.ordinal = ordinal};
    return extent;
}

void extents_enter(struct extents *extents, uint64_t ordinal, uint32_t size)
{
    struct extent *extent = extent_at(extents, ordinal);
    extent->live_count++;
    extent->live_bytes += size;
    extents->live_bytes += size;
}

/* A segment without a live content is forgotten. */
void extents_leave(struct extents *extents, uint64_t ordinal, uint32_t size)
{
    size_t index = extents_index(extents, ordinal);
    ASSERT(index < extents->count && extents->items_owned[index].ordinal == ordinal);
    struct extent *extent = &extents->items_owned[index];
    ASSERT(extent->live_count > 0 && extent->live_bytes >= size && extents->live_bytes >= size);
    extent->live_count--;
    extent->live_bytes -= size;
    extents->live_bytes -= size;
    if (extent->live_count > 0)
        return;
    extents->count--;
    memmove(extent, extent + 1, (extents->count - index) * sizeof(*extent));
}

bool extent_is_among(const uint64_t *ordinals, size_t count, uint64_t ordinal)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ordinals[middle] < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ordinals[low] == ordinal;
}

void extents_check(const struct extents *extents, const struct extents *expected)
{
    ASSERT(extents->count == expected->count && extents->live_bytes == expected->live_bytes);
    for (size_t i = 0; i < extents->count; i++) {
        const struct extent *extent = &extents->items_owned[i];
        const struct extent *other = &expected->items_owned[i];
        ASSERT(i == 0 || extents->items_owned[i - 1].ordinal < extent->ordinal);
        ASSERT(extent->live_count > 0 && extent->ordinal == other->ordinal);
        ASSERT(extent->live_count == other->live_count && extent->live_bytes == other->live_bytes);
    }
}
