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

struct made_match *made_match_at(const struct core *core, uint32_t slot)
{
    ASSERT(slot != 0);
    return pool_at(&core->made_matches, slot);
}

uint64_t made_match_due_ms(const struct core *core)
{
    return core->holds.count == 0 ? UINT64_MAX : heap_top(&core->holds).key;
}

void made_match_forget(struct core *core, struct ticket_pool *pool)
{
    (void)core;
    (void)pool;
}

void made_match_forget_all(struct core *core, struct ticket_pool *pool)
{
    (void)core;
    (void)pool;
}

bool made_match_give_back(struct core *core, struct ticket_pool *pool, unsigned *left)
{
    (void)core;
    (void)pool;
    (void)left;
    return true;
}

void made_match_init(struct core *core)
{
    (void)core;
}

void made_match_deinit(struct core *core)
{
    (void)core;
}

void made_match_encode(const struct core *core, struct core_writer *writer)
{
    (void)core;
    (void)writer;
}

bool made_match_decode(struct core *core, struct cursor *cursor)
{
    (void)core;
    (void)cursor;
    return true;
}

void made_match_check(const struct core *core)
{
    (void)core;
}
