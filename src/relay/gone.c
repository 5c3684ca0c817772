#include "relay/gone.h"

#include "base/assert.h"
#include <string.h>

static uint64_t size_of(struct id_range range)
{
    return range.last - range.first + 1;
}

static void remove_ranges(struct gone *gone, size_t at, size_t count)
{
    if (count == 0)
        return;
    for (size_t i = at; i < at + count; i++)
        gone->id_count -= size_of(gone->ranges[i]);
    memmove(&gone->ranges[at], &gone->ranges[at + count], (gone->count - at - count) * sizeof(gone->ranges[0]));
    gone->count -= count;
}

static void insert_range(struct gone *gone, size_t at, struct id_range range)
{
    ASSERT(gone->count <= GONE_RANGES_MAX && at <= gone->count);
    memmove(&gone->ranges[at + 1], &gone->ranges[at], (gone->count - at) * sizeof(gone->ranges[0]));
    gone->ranges[at] = range;
    gone->count++;
    gone->id_count += size_of(range);
}

/* Does not remove the last range, because that one still grows. */
static void remove_smallest(struct gone *gone)
{
    size_t smallest = 0;
    for (size_t i = 1; i + 1 < gone->count; i++)
        if (size_of(gone->ranges[i]) < size_of(gone->ranges[smallest]))
            smallest = i;
    remove_ranges(gone, smallest, 1);
}

/* The first range that contains `id` or lies behind it. Searches from the end, where new ids belong. */
static size_t find_at_or_behind(const struct gone *gone, uint64_t id)
{
    if (gone->count == 0 || gone->ranges[gone->count - 1].last < id)
        return gone->count;
    size_t low = 0, high = gone->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (gone->ranges[middle].last < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void gone_clear(struct gone *gone)
{
    gone->count = 0;
    gone->id_count = 0;
}

void gone_add(struct gone *gone, struct id_range range)
{
    ASSERT(range.first > 0 && range.first <= range.last && range.last < UINT64_MAX);
    size_t at = find_at_or_behind(gone, range.first - 1), end = at;
    for (; end < gone->count && gone->ranges[end].first <= range.last + 1; end++) {
        if (gone->ranges[end].first < range.first)
            range.first = gone->ranges[end].first;
        if (gone->ranges[end].last > range.last)
            range.last = gone->ranges[end].last;
    }
    remove_ranges(gone, at, end - at);
    insert_range(gone, at, range);
    if (gone->count > GONE_RANGES_MAX)
        remove_smallest(gone);
    ASSERT(gone->count > 0 && gone->count <= GONE_RANGES_MAX);
}

uint64_t gone_raise(struct gone *gone, uint64_t floor)
{
    size_t past = 0;
    for (; past < gone->count && gone->ranges[past].first <= floor + 1; past++)
        if (gone->ranges[past].last > floor)
            floor = gone->ranges[past].last;
    remove_ranges(gone, 0, past);
    ASSERT(gone->count == 0 || gone->ranges[0].first > floor + 1);
    return floor;
}

uint64_t gone_count_in(const struct gone *gone, struct id_range range)
{
    uint64_t count = 0;
    for (size_t i = find_at_or_behind(gone, range.first); i < gone->count && gone->ranges[i].first <= range.last; i++) {
        struct id_range part = gone->ranges[i];
        part.first = part.first < range.first ? range.first : part.first;
        part.last = part.last > range.last ? range.last : part.last;
        count += size_of(part);
    }
    return count;
}
