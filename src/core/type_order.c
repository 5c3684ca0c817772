#include "core/type_order.h"

#include "core/apply.h"
#include "core/snapshot.h"

void type_order_init(struct type_orders *type_orders)
{
    (void)type_orders;
}
void type_order_deinit(struct type_orders *type_orders)
{
    (void)type_orders;
}
bool type_order_binds(const struct core *core, struct bytes type)
{
    (void)core;
    (void)type;
    return false;
}
void type_order_message_ended(struct core *core, uint32_t message, enum unit_state outcome)
{
    (void)core;
    (void)message;
    (void)outcome;
}
void type_order_encode(const struct core *core, struct core_writer *writer)
{
    (void)core;
    (void)writer;
}
bool type_order_decode(struct core *core, struct cursor *cursor)
{
    (void)core;
    (void)cursor;
    return true;
}
void type_order_check(const struct core *core)
{
    (void)core;
}
bool apply_type_order_put(struct core *core, const struct event_type_order_put *type_order_put)
{
    (void)core;
    (void)type_order_put;
    return false;
}
bool apply_type_order_deleted(struct core *core, const struct event_type_order_deleted *type_order_deleted)
{
    (void)core;
    (void)type_order_deleted;
    return false;
}
bool apply_typed(struct core *core, const struct event_typed *typed)
{
    (void)core;
    (void)typed;
    return false;
}
