/* What a matcher outside knows of a pool: which tickets wait, in which version, as far as the feed has told. It may be
 * wrong about all of it. */
#ifndef TALLY_CAMPAIGN_POOL_VIEW_H
#define TALLY_CAMPAIGN_POOL_VIEW_H

#include <stdbool.h>
#include <stdint.h>

struct pool_view {
    uint32_t *versions_owned; /* of each ticket: the newest that was heard of; the highest bit: it waits */
    uint32_t *order_owned;    /* tickets in the order in which they came, those that wait no more among them */
    uint64_t order_first;
    uint64_t order_end;
    uint64_t order_capacity;
    uint32_t tickets;
    uint64_t next; /* the number of the feed's next event; 0: the list is to be read */
};

void pool_view_init(struct pool_view *view, uint32_t tickets);
void pool_view_deinit(struct pool_view *view);

/* Nobody waits, before a list is read. */
void pool_view_clear(struct pool_view *view);
void pool_view_offer(struct pool_view *view, uint32_t ticket, uint32_t version);
void pool_view_retire(struct pool_view *view, uint32_t ticket);

/* The oldest that wait, up to `max`. Returns how many. */
unsigned pool_view_oldest(struct pool_view *view, uint32_t *tickets, unsigned max);
uint32_t pool_view_version(const struct pool_view *view, uint32_t ticket);

#endif
