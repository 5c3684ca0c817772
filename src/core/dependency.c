#include "core/dependency.h"

#include "core/apply.h"
#include "core/snapshot.h"

void dependency_init(struct dependencies *dependencies)
{
    list_init(&dependencies->resolving);
}
void dependency_deinit(struct dependencies *dependencies)
{
    (void)dependencies;
}
void dependency_message_ended(struct core *core, uint32_t message, enum unit_state outcome)
{
    (void)core;
    (void)message;
    (void)outcome;
}
void dependency_batch_completed(struct core *core, uint32_t batch)
{
    (void)core;
    (void)batch;
}
void dependency_batch_forgotten(struct core *core, uint32_t batch)
{
    (void)core;
    (void)batch;
}
void dependency_forget_dependent(struct core *core, uint32_t message)
{
    (void)core;
    (void)message;
}
bool dependency_resolve(struct core *core, unsigned portion)
{
    (void)core;
    (void)portion;
    return false;
}
bool dependency_is_resolving(const struct core *core)
{
    (void)core;
    return false;
}
void dependency_encode(const struct core *core, struct core_writer *writer)
{
    (void)core;
    (void)writer;
}
bool dependency_decode(struct core *core, struct cursor *cursor)
{
    (void)core;
    (void)cursor;
    return true;
}
void dependency_check(const struct core *core)
{
    (void)core;
}
bool apply_waited(struct core *core, const struct event_waited *waited)
{
    (void)core;
    (void)waited;
    return false;
}
bool apply_resolved(struct core *core, const struct event_resolved *resolved)
{
    (void)core;
    (void)resolved;
    return false;
}
enum error dependency_plan(const struct core *core, const struct send_command *command, const struct batch *batch,
                           struct dependency_plan *plan, struct send_result *result)
{
    (void)core;
    (void)command;
    (void)batch;
    (void)result;
    *plan = (struct dependency_plan){0};
    buffer_init(&plan->waits);
    return OK;
}
