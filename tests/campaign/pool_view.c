#include "pool_view.h"
#include "text.h"

#include <stdlib.h>

#define IS_WAITING 0x80000000u

void pool_view_init(struct pool_view *view, uint32_t tickets)
{
    *view = (struct pool_view){.tickets = tickets, .order_capacity = 1024};
    view->versions_owned = allocate(tickets * sizeof(uint32_t));
    view->order_owned = allocate(view->order_capacity * sizeof(uint32_t));
    memset(view->versions_owned, 0, tickets * sizeof(uint32_t));
}

void pool_view_deinit(struct pool_view *view)
{
    free(view->versions_owned);
    free(view->order_owned);
}

void pool_view_clear(struct pool_view *view)
{
    for (uint32_t ticket = 0; ticket < view->tickets; ticket++)
        view->versions_owned[ticket] &= ~IS_WAITING;
    view->order_first = view->order_end = 0;
}

/* Makes room at the end: what waits no more goes first. */
static void order_compact(struct pool_view *view)
{
    uint64_t count = 0;
    for (uint64_t at = view->order_first; at < view->order_end; at++)
        if (view->versions_owned[view->order_owned[at]] & IS_WAITING)
            view->order_owned[count++] = view->order_owned[at];
    view->order_first = 0;
    view->order_end = count;
    if (count * 2 <= view->order_capacity)
        return;
    view->order_capacity *= 2;
    view->order_owned = realloc(view->order_owned, view->order_capacity * sizeof(uint32_t));
    if (view->order_owned == NULL)
        fatal("no memory for %llu tickets", (unsigned long long)view->order_capacity);
}

void pool_view_offer(struct pool_view *view, uint32_t ticket, uint32_t version)
{
    if (ticket >= view->tickets)
        fatal("the feed tells of a ticket that nobody offered: %u", ticket);
    uint32_t known = view->versions_owned[ticket];
    if (version < (known & ~IS_WAITING))
        return;
    view->versions_owned[ticket] = version | IS_WAITING;
    if (known & IS_WAITING)
        return;
    if (view->order_end == view->order_capacity)
        order_compact(view);
    view->order_owned[view->order_end++] = ticket;
}

void pool_view_retire(struct pool_view *view, uint32_t ticket)
{
    if (ticket < view->tickets)
        view->versions_owned[ticket] &= ~IS_WAITING;
}

unsigned pool_view_oldest(struct pool_view *view, uint32_t *tickets, unsigned max)
{
    unsigned count = 0;
    for (uint64_t at = view->order_first; at < view->order_end && count < max; at++) {
        bool is_waiting = view->versions_owned[view->order_owned[at]] & IS_WAITING;
        if (!is_waiting && at == view->order_first)
            view->order_first++;
        if (is_waiting)
            tickets[count++] = view->order_owned[at];
    }
    return count;
}

uint32_t pool_view_version(const struct pool_view *view, uint32_t ticket)
{
    return view->versions_owned[ticket] & ~IS_WAITING;
}
