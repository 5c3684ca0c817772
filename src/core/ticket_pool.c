#include "core/ticket_pool.h"

#include "core/apply.h"

bool apply_pool_put(struct core *core, const struct event_pool_put *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_pool_deleted(struct core *core, const struct event_pool_deleted *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_tickets_forgotten(struct core *core, const struct event_tickets_forgotten *event)
{
    (void)core;
    (void)event;
    return false;
}
