#include "match/walk.h"

#include "base/accounted.h"
#include "base/assert.h"
#include <math.h>
#include <stdlib.h>

/* Reads the entry at the cursor; false: the cursor is beyond the end of the stream. */
static bool head_read(struct walk_head *head, bool is_down)
{
    if (head->cursor.leaf == NULL)
        return false;
    const struct ordered_key *key = ordered_key(head->cursor);
    if (key->bucket != head->bucket || (is_down ? key->sort_key < head->end : key->sort_key > head->end))
        return false;
    head->sort_key = key->sort_key;
    head->number = key->number;
    return true;
}

/* Moves the cursor to the lowest number at its sort key: tickets at one sort key are visited in the order of their
 * numbers. */
static bool head_settle_down(const struct ordered *ordered, struct walk_head *head)
{
    if (!head_read(head, true))
        return false;
    head->first = head->cursor;
    struct ordered_cursor before = ordered_previous(head->cursor);
    if (before.leaf == NULL || ordered_key(before)->sort_key != head->sort_key ||
        ordered_key(before)->bucket != head->bucket)
        return true;
    head->first = head->cursor = ordered_seek(ordered, &(struct ordered_key){head->bucket, head->sort_key, 0});
    return head_read(head, true);
}

static bool head_next_down(const struct ordered *ordered, struct walk_head *head)
{
    head->cursor = ordered_next(head->cursor);
    uint64_t sort_key = head->sort_key;
    if (head_read(head, true) && head->sort_key == sort_key)
        return true;
    head->cursor = ordered_previous(head->first);
    return head_settle_down(ordered, head);
}

static bool head_next_up(struct walk_head *head)
{
    head->cursor = ordered_next(head->cursor);
    return head_read(head, false);
}

static bool head_start_up(const struct walk *walk, struct walk_head *head, uint64_t low)
{
    struct ordered_key key = {head->bucket, low, 0};
    const struct walk_mark *mark = &walk->marks.up;
    if (mark->is_set && mark->sort_key >= low)
        key = (struct ordered_key){head->bucket, mark->sort_key, mark->number + 1};
    head->cursor = ordered_seek(walk->ordered, &key);
    return head_read(head, false);
}

/* Downwards from below `high`, or on from the mark. */
static bool head_start_down(const struct walk *walk, struct walk_head *head, uint64_t high)
{
    const struct walk_mark *mark = &walk->marks.down;
    struct ordered_key key = {head->bucket, high, 0};
    if (mark->is_set && mark->sort_key < high) {
        key.sort_key = mark->sort_key;
        struct ordered_key behind = {head->bucket, mark->sort_key, mark->number + 1};
        head->cursor = ordered_seek(walk->ordered, &behind);
        if (head_read(head, true) && head->sort_key == mark->sort_key) {
            head->first = ordered_seek(walk->ordered, &key);
            return true;
        }
    }
    head->cursor = ordered_seek_below(walk->ordered, &key);
    return head_settle_down(walk->ordered, head);
}

static double walk_distance(const struct walk *walk, uint64_t sort_key)
{
    return sort_key == PLAN_SORT_KEY_MISSING ? INFINITY : fabs(walk->center - ordered_number(sort_key));
}

/* The head with the next candidate of one side; NULL: none. */
static struct walk_head *walk_least(const struct walk *walk, bool is_down)
{
    struct walk_head *heads = walk->heads_owned + (is_down ? walk->up_count : 0);
    uint32_t count = is_down ? walk->down_count : walk->up_count;
    struct walk_head *least = count > 0 ? heads : NULL;
    for (uint32_t i = 1; i < count; i++)
        if (heads[i].sort_key == least->sort_key ? heads[i].number < least->number
                                                 : (heads[i].sort_key < least->sort_key) != is_down)
            least = &heads[i];
    return least;
}

/* Chooses the next candidate among the heads. */
static void walk_choose(struct walk *walk)
{
    struct walk_head *up = walk_least(walk, false), *down = walk_least(walk, true);
    struct walk_head *head = up != NULL ? up : down;
    walk->has_next = head != NULL;
    if (head == NULL)
        return;
    double distance = walk->is_outward ? walk_distance(walk, head->sort_key) : 0;
    if (up != NULL && down != NULL) {
        double below = walk_distance(walk, down->sort_key);
        if (below < distance || (below == distance && down->number < up->number)) {
            head = down;
            distance = below;
        }
    }
    walk->next = (struct candidate){.slot = ordered_slot(head->cursor),
                                    .sort_key = head->sort_key,
                                    .number = head->number,
                                    .distance = distance,
                                    .is_down = head == down};
}

/* Steps a head on, and takes it out if it has ended. */
static bool walk_step(struct walk *walk, struct walk_head *head, bool is_down)
{
    if (is_down ? head_next_down(walk->ordered, head) : head_next_up(head))
        return true;
    uint32_t index = (uint32_t)(head - walk->heads_owned);
    uint32_t count = walk->up_count + walk->down_count;
    memmove(head, head + 1, (count - index - 1) * sizeof(*head));
    if (is_down)
        walk->down_count--;
    else
        walk->up_count--;
    return false;
}

void walk_take(struct walk *walk)
{
    ASSERT(walk->has_next);
    const struct candidate taken = walk->next;
    struct walk_mark *mark = taken.is_down ? &walk->marks.down : &walk->marks.up;
    *mark = (struct walk_mark){.is_set = true, .sort_key = taken.sort_key, .number = taken.number};
    uint32_t index = taken.is_down ? walk->up_count : 0;
    while (index < (taken.is_down ? walk->up_count + walk->down_count : walk->up_count)) {
        struct walk_head *head = &walk->heads_owned[index];
        bool is_it = head->sort_key == taken.sort_key && head->number == taken.number;
        if (!is_it || walk_step(walk, head, taken.is_down))
            index++;
    }
    walk_choose(walk);
}

static void walk_reserve(struct walk *walk, uint32_t count)
{
    if (count <= walk->capacity)
        return;
    walk->capacity = count;
    walk->heads_owned = accounted_resize(walk->heads_owned, count * sizeof(struct walk_head));
}

void walk_start(struct walk *walk, const struct ticket_index *index, const struct streams *streams, uint32_t class,
                const double *center, const struct walk_marks *marks)
{
    walk->ordered = &index->ordered;
    walk->is_outward = center != NULL;
    walk->center = center != NULL ? *center : 0;
    walk->marks = *marks;
    walk->up_count = walk->down_count = 0;
    walk_reserve(walk, streams->count * 2);
    uint64_t middle = center != NULL ? ordered_sort_key(*center) : PLAN_SORT_KEY_MISSING;
    for (uint32_t i = 0; i < streams->count; i++) {
        const struct stream *stream = &streams->items_owned[i];
        struct walk_head *head = &walk->heads_owned[walk->up_count];
        *head = (struct walk_head){.bucket = stream->bucket | class, .end = stream->high};
        walk->up_count += head_start_up(walk, head, stream->low > middle ? stream->low : middle);
    }
    for (uint32_t i = 0; center != NULL && i < streams->count; i++) {
        const struct stream *stream = &streams->items_owned[i];
        struct walk_head *head = &walk->heads_owned[walk->up_count + walk->down_count];
        *head = (struct walk_head){.bucket = stream->bucket | class, .end = stream->low};
        /* A stream that ends below the center begins at its own end. */
        uint64_t high = stream->high < middle ? stream->high + 1 : middle;
        walk->down_count += head_start_down(walk, head, high);
    }
    walk_choose(walk);
}

void walk_deinit(struct walk *walk)
{
    accounted_free(walk->heads_owned);
    *walk = (struct walk){.heads_owned = NULL};
}
