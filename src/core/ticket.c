#include "core/ticket.h"

#include "core/apply.h"

bool apply_ticket_offered(struct core *core, const struct event_ticket_offered *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_ticket_updated(struct core *core, const struct event_ticket_updated *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_tickets_widened(struct core *core, const struct event_tickets_widened *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_ticket_ended(struct core *core, const struct event_ticket_ended *event)
{
    (void)core;
    (void)event;
    return false;
}
