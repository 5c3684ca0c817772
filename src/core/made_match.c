#include "core/made_match.h"

#include "core/apply.h"

bool apply_matched(struct core *core, const struct event_matched *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_confirmed(struct core *core, const struct event_confirmed *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_match_made(struct core *core, const struct event_match_made *event)
{
    (void)core;
    (void)event;
    return false;
}

bool apply_match_undone(struct core *core, const struct event_match_undone *event)
{
    (void)core;
    (void)event;
    return false;
}
