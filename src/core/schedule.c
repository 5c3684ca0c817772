#include "core/schedule.h"

#include "core/apply.h"
#include "core/snapshot.h"

void schedule_init(struct schedules *schedules)
{
    (void)schedules;
}
void schedule_deinit(struct schedules *schedules)
{
    (void)schedules;
}
void schedule_fire_due(struct core *core, unsigned portion)
{
    (void)core;
    (void)portion;
}
uint64_t schedule_due_ms(const struct core *core)
{
    (void)core;
    return UINT64_MAX;
}
void schedule_encode(const struct core *core, struct core_writer *writer)
{
    (void)core;
    (void)writer;
}
bool schedule_decode(struct core *core, struct cursor *cursor)
{
    (void)core;
    (void)cursor;
    return true;
}
void schedule_check(const struct core *core)
{
    (void)core;
}
bool apply_schedule_put(struct core *core, const struct event_schedule_put *schedule_put)
{
    (void)core;
    (void)schedule_put;
    return false;
}
bool apply_schedule_fired(struct core *core, const struct event_schedule_fired *schedule_fired)
{
    (void)core;
    (void)schedule_fired;
    return false;
}
bool apply_schedule_deleted(struct core *core, const struct event_schedule_deleted *schedule_deleted)
{
    (void)core;
    (void)schedule_deleted;
    return false;
}
