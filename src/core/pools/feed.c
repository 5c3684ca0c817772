#include "core/pools/feed.h"

#include "base/accounted.h"
#include "base/assert.h"
#include <stdlib.h>

/* Marks places of a ring that have had no event yet. */
#define FEED_CAPACITY_MIN 64u

void feed_init(struct feed *feed)
{
    *feed = (struct feed){.first = 1};
}

void feed_deinit(struct feed *feed)
{
    accounted_free(feed->ring_owned);
    *feed = (struct feed){.first = 1};
}

void feed_go_to(struct feed *feed, uint64_t last, bool is_new)
{
    ASSERT(feed->ring_owned == NULL);
    feed->last = last;
    feed->first = last + 1;
    feed->is_whole = is_new;
}

void feed_skip(struct feed *feed, uint64_t step)
{
    feed->last += step;
    feed->first = feed->last + 1;
    feed->is_whole = false;
}

void feed_begin(struct feed *feed)
{
    if (feed->ring_owned != NULL)
        return;
    feed->capacity = FEED_CAPACITY_MIN;
    feed->ring_owned = accounted_allocate(feed->capacity * sizeof(*feed->ring_owned));
    feed->first = feed->last + 1;
}

/* Doubles the places; each event moves to the place of its number. Amortised O(1). */
static void grow(struct feed *feed)
{
    uint32_t capacity = feed->capacity * 2 < FEED_EVENTS_MAX ? feed->capacity * 2 : FEED_EVENTS_MAX;
    struct feed_event *ring = accounted_allocate(capacity * sizeof(*ring));
    for (uint64_t number = feed->first; number < feed->last; number++)
        ring[number % capacity] = feed->ring_owned[number % feed->capacity];
    accounted_free(feed->ring_owned);
    feed->ring_owned = ring;
    feed->capacity = capacity;
}

void feed_add(struct feed *feed, const struct feed_event *event)
{
    feed->last++;
    if (feed->ring_owned == NULL) {
        feed->first = feed->last + 1;
        feed->is_whole = false;
        return;
    }
    if (feed->last - feed->first == feed->capacity && feed->capacity < FEED_EVENTS_MAX)
        grow(feed);
    feed->ring_owned[feed->last % feed->capacity] = *event;
    if (feed->last - feed->first == feed->capacity) {
        feed->first++;
        feed->is_whole = false;
    }
}

const struct feed_event *feed_at(const struct feed *feed, uint64_t number)
{
    bool is_there = feed->ring_owned != NULL && number >= feed->first && number <= feed->last;
    return is_there ? &feed->ring_owned[number % feed->capacity] : NULL;
}
