#include "core/feed.h"

#include "base/assert.h"
#include "base/kept.h"
#include <stdlib.h>

void feed_init(struct feed *feed)
{
    *feed = (struct feed){.first = 1};
}

void feed_deinit(struct feed *feed)
{
    kept_free(feed->ring_owned);
    *feed = (struct feed){.first = 1};
}

void feed_go_to(struct feed *feed, uint64_t last)
{
    ASSERT(feed->ring_owned == NULL);
    feed->last = last;
    feed->first = last + 1;
}

void feed_begin(struct feed *feed)
{
    if (feed->ring_owned != NULL)
        return;
    feed->ring_owned = kept_allocate(FEED_EVENTS_MAX * sizeof(*feed->ring_owned));
    feed->first = feed->last + 1;
}

void feed_add(struct feed *feed, const struct feed_event *event)
{
    feed->last++;
    if (feed->ring_owned == NULL) {
        feed->first = feed->last + 1;
        return;
    }
    feed->ring_owned[feed->last % FEED_EVENTS_MAX] = *event;
    if (feed->last - feed->first == FEED_EVENTS_MAX)
        feed->first++;
}

const struct feed_event *feed_at(const struct feed *feed, uint64_t number)
{
    bool is_there = feed->ring_owned != NULL && number >= feed->first && number <= feed->last;
    return is_there ? &feed->ring_owned[number % FEED_EVENTS_MAX] : NULL;
}
