#include "core/publishers/id_ranges.h"

#include "base/accounted.h"
#include "base/assert.h"
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 4u

void id_ranges_deinit(struct id_ranges *ranges)
{
    accounted_free(ranges->items_owned);
    *ranges = (struct id_ranges){0};
}

static struct id_range *items(const struct id_ranges *ranges)
{
    return ranges->items_owned + ranges->start;
}

/* The index of the first range that ends at `id` or above it. */
static uint32_t index_of(const struct id_ranges *ranges, uint64_t id)
{
    uint32_t low = 0, high = ranges->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (id_ranges_at(ranges, middle)->last < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool id_ranges_contain(const struct id_ranges *ranges, uint64_t id)
{
    uint32_t index = index_of(ranges, id);
    return index < ranges->count && id_ranges_at(ranges, index)->first <= id;
}

/* Room for one more at the end; what was freed at the front is used again once it is as much as what is in use. */
static void make_room(struct id_ranges *ranges)
{
    if (ranges->start == 0 || ranges->start < ranges->count) {
        ACCOUNTED_GROW(ranges->items_owned, ranges->start + ranges->count, ranges->capacity, CAPACITY_MIN);
        return;
    }
    if (ranges->start + ranges->count < ranges->capacity)
        return;
    memmove(ranges->items_owned, items(ranges), ranges->count * sizeof(struct id_range));
    ranges->start = 0;
}

/* Opens a place: whichever side is the shorter one moves. */
static void insert(struct id_ranges *ranges, uint32_t index, struct id_range range)
{
    if (ranges->start > 0 && index < ranges->count / 2) {
        ranges->start--;
        memmove(items(ranges), items(ranges) + 1, index * sizeof(range));
    } else {
        make_room(ranges);
        memmove(items(ranges) + index + 1, items(ranges) + index, (ranges->count - index) * sizeof(range));
    }
    items(ranges)[index] = range;
    ranges->count++;
}

static void remove_at(struct id_ranges *ranges, uint32_t index)
{
    ASSERT(index < ranges->count);
    ranges->count--;
    if (index < ranges->count / 2) {
        memmove(items(ranges) + 1, items(ranges), index * sizeof(struct id_range));
        ranges->start++;
    } else {
        memmove(items(ranges) + index, items(ranges) + index + 1, (ranges->count - index) * sizeof(struct id_range));
    }
}

void id_ranges_add(struct id_ranges *ranges, uint64_t id, uint32_t count_max)
{
    ASSERT(count_max > 0);
    uint32_t index = index_of(ranges, id);
    struct id_range *above = index < ranges->count ? items(ranges) + index : NULL;
    struct id_range *below = index > 0 ? items(ranges) + index - 1 : NULL;
    if (above != NULL && above->first <= id)
        return;
    bool is_below_next = above != NULL && above->first == id + 1;
    if (below != NULL && below->last + 1 == id) {
        below->last = is_below_next ? above->last : id;
        if (is_below_next)
            remove_at(ranges, index);
        return;
    }
    if (is_below_next) {
        above->first = id;
        return;
    }
    insert(ranges, index, (struct id_range){id, id});
    if (ranges->count <= count_max)
        return;
    items(ranges)[1].first = items(ranges)[0].first;
    ranges->start++;
    ranges->count--;
}

bool id_ranges_append(struct id_ranges *ranges, struct id_range range)
{
    uint64_t last = ranges->count == 0 ? 0 : id_ranges_at(ranges, ranges->count - 1)->last;
    if (range.first > range.last || (ranges->count > 0 && (range.first <= last || range.first - last < 2)))
        return false;
    insert(ranges, ranges->count, range);
    return true;
}

void id_ranges_copy(struct id_ranges *to, const struct id_ranges *from)
{
    *to = (struct id_ranges){.count = from->count, .capacity = from->count};
    if (from->count == 0)
        return;
    to->items_owned = accounted_allocate_zeroed(from->count * sizeof(struct id_range));
    memcpy(to->items_owned, items(from), from->count * sizeof(struct id_range));
}

void id_ranges_check(const struct id_ranges *ranges, uint32_t count_max)
{
    ASSERT(ranges->count <= count_max && ranges->start + ranges->count <= ranges->capacity);
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct id_range *range = id_ranges_at(ranges, i);
        ASSERT(range->first <= range->last);
        ASSERT(i == 0 || range->first - id_ranges_at(ranges, i - 1)->last >= 2);
    }
}
