#include "relay/tombstones.h"

#include "base/assert.h"
#include <string.h>

static uint64_t size_of(struct id_range range)
{
    return range.last - range.first + 1;
}

static void remove_ranges(struct tombstones *tombstones, size_t at, size_t count)
{
    if (count == 0)
        return;
    for (size_t i = at; i < at + count; i++)
        tombstones->id_count -= size_of(tombstones->ranges[i]);
    memmove(&tombstones->ranges[at], &tombstones->ranges[at + count],
            (tombstones->count - at - count) * sizeof(tombstones->ranges[0]));
    tombstones->count -= count;
}

static void insert_range(struct tombstones *tombstones, size_t at, struct id_range range)
{
    ASSERT(tombstones->count <= TOMBSTONES_RANGES_MAX && at <= tombstones->count);
    memmove(&tombstones->ranges[at + 1], &tombstones->ranges[at],
            (tombstones->count - at) * sizeof(tombstones->ranges[0]));
    tombstones->ranges[at] = range;
    tombstones->count++;
    tombstones->id_count += size_of(range);
}

/* Does not remove the last range, because that one still grows. */
static void remove_smallest(struct tombstones *tombstones)
{
    size_t smallest = 0;
    for (size_t i = 1; i + 1 < tombstones->count; i++)
        if (size_of(tombstones->ranges[i]) < size_of(tombstones->ranges[smallest]))
            smallest = i;
    remove_ranges(tombstones, smallest, 1);
}

/* The first range that contains `id` or lies behind it. Searches from the end, where new ids belong. */
static size_t find_at_or_behind(const struct tombstones *tombstones, uint64_t id)
{
    if (tombstones->count == 0 || tombstones->ranges[tombstones->count - 1].last < id)
        return tombstones->count;
    size_t low = 0, high = tombstones->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tombstones->ranges[middle].last < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void tombstones_clear(struct tombstones *tombstones)
{
    tombstones->count = 0;
    tombstones->id_count = 0;
}

void tombstones_add(struct tombstones *tombstones, struct id_range range)
{
    ASSERT(range.first > 0 && range.first <= range.last && range.last < UINT64_MAX);
    size_t at = find_at_or_behind(tombstones, range.first - 1), end = at;
    for (; end < tombstones->count && tombstones->ranges[end].first <= range.last + 1; end++) {
        if (tombstones->ranges[end].first < range.first)
            range.first = tombstones->ranges[end].first;
        if (tombstones->ranges[end].last > range.last)
            range.last = tombstones->ranges[end].last;
    }
    remove_ranges(tombstones, at, end - at);
    insert_range(tombstones, at, range);
    if (tombstones->count > TOMBSTONES_RANGES_MAX)
        remove_smallest(tombstones);
    ASSERT(tombstones->count > 0 && tombstones->count <= TOMBSTONES_RANGES_MAX);
}

uint64_t tombstones_raise(struct tombstones *tombstones, uint64_t floor)
{
    size_t past = 0;
    for (; past < tombstones->count && tombstones->ranges[past].first <= floor + 1; past++)
        if (tombstones->ranges[past].last > floor)
            floor = tombstones->ranges[past].last;
    remove_ranges(tombstones, 0, past);
    ASSERT(tombstones->count == 0 || tombstones->ranges[0].first > floor + 1);
    return floor;
}

uint64_t tombstones_count_in(const struct tombstones *tombstones, struct id_range range)
{
    uint64_t count = 0;
    for (size_t i = find_at_or_behind(tombstones, range.first);
         i < tombstones->count && tombstones->ranges[i].first <= range.last; i++) {
        struct id_range part = tombstones->ranges[i];
        part.first = part.first < range.first ? range.first : part.first;
        part.last = part.last > range.last ? range.last : part.last;
        count += size_of(part);
    }
    return count;
}
