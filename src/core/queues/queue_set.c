#include "core/queues/queue_set.h"

#include "base/accounted.h"
#include "base/assert.h"

#define OPEN_COUNT UINT32_MAX

void queue_set_deinit(struct queue_set *set)
{
    accounted_free(set->many_owned);
}

const uint32_t *queue_set_ids(const struct queue_set *set)
{
    return set->many_owned != NULL ? set->many_owned : set->few;
}

/* The index of the first id that is not below `queue`. */
static uint32_t find_index(const struct queue_set *set, uint32_t queue)
{
    const uint32_t *ids = queue_set_ids(set);
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ids[middle] < queue)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool queue_set_has(const struct queue_set *set, uint32_t queue)
{
    uint32_t index = find_index(set, queue);
    return set->is_open || (index < set->count && queue_set_ids(set)[index] == queue);
}

/* Room for one more id. It is full where `count` is a power of two from QUEUE_SET_FEW on. */
static uint32_t *make_room(struct queue_set *set)
{
    bool is_full = set->count >= QUEUE_SET_FEW && (set->count & (set->count - 1)) == 0;
    if (is_full && set->many_owned == NULL) {
        set->many_owned = accounted_allocate(2 * QUEUE_SET_FEW * sizeof(*set->many_owned));
        memcpy(set->many_owned, set->few, sizeof(set->few));
    } else if (is_full) {
        set->many_owned = accounted_resize(set->many_owned, 2 * (size_t)set->count * sizeof(*set->many_owned));
    }
    return set->many_owned != NULL ? set->many_owned : set->few;
}

bool queue_set_add(struct queue_set *set, uint32_t queue)
{
    ASSERT(queue != 0);
    if (queue_set_has(set, queue))
        return false;
    if (set->count == QUEUE_SET_MAX) {
        queue_set_open(set);
        return true;
    }
    uint32_t index = find_index(set, queue);
    uint32_t *ids = make_room(set);
    memmove(ids + index + 1, ids + index, (set->count - index) * sizeof(*ids));
    ids[index] = queue;
    set->count++;
    return true;
}

void queue_set_open(struct queue_set *set)
{
    queue_set_deinit(set);
    *set = (struct queue_set){.is_open = true};
}

void queue_set_encode(const struct queue_set *set, struct buffer *out)
{
    buffer_append_u32(out, set->is_open ? OPEN_COUNT : set->count);
    for (uint32_t i = 0; i < set->count; i++)
        buffer_append_u32(out, queue_set_ids(set)[i]);
}

bool queue_set_decode(struct queue_set *set, uint32_t id_max, struct cursor *cursor)
{
    ASSERT(set->count == 0 && !set->is_open);
    uint32_t count = cursor_u32(cursor);
    if (count == OPEN_COUNT)
        queue_set_open(set);
    else if (count > QUEUE_SET_MAX)
        return false;
    for (uint32_t i = 0, last = 0; i < count && !set->is_open; i++) {
        uint32_t queue = cursor_u32(cursor);
        if (cursor->is_failed || queue <= last || queue > id_max)
            return false;
        queue_set_add(set, queue);
        last = queue;
    }
    return !cursor->is_failed;
}
