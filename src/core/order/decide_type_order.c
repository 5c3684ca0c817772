/* Decisions about type orders. */
#include "core/order/decide_type_order.h"
#include "core/state.h"

/* Does the order already say exactly this? */
static bool is_same_order(const struct core *core, const struct type_order *order,
                          const struct type_order_command *command)
{
    if (order->count != command->types.count || order->retention_s != command->retention_s)
        return false;
    for (uint32_t i = 0; i < order->count; i++)
        if (!bytes_equal(core->type_orders.types[order->types[i]].name_owned, command->types.names[i]))
            return false;
    return true;
}

enum error decide_put_type_order(struct core *core, const struct type_order_command *command, struct buffer *conflict)
{
    const struct type_order *order = type_order_find(core, command->name);
    if (order != NULL && is_same_order(core, order, command))
        return OK;
    if (!type_order_has_room(core, command->name, &command->types))
        return ERROR_OVER_LIMIT;
    if (type_order_is_conflict(core, command->name, &command->types, conflict))
        return ERROR_TYPE_ORDER_CONFLICT;
    struct buffer types;
    buffer_init(&types);
    type_list_encode(&command->types, &types);
    core_emit(core, &(struct event){
                        .kind = EVENT_TYPE_ORDER_PUT,
                        .type_order_put = {.name = command->name,
                                           .types = buffer_bytes(&types),
                                           .is_required = command->retention_s > 0,
                                           .retention_s = command->retention_s},
                    });
    buffer_deinit(&types);
    return OK;
}

enum error decide_delete_type_order(struct core *core, struct bytes name)
{
    if (type_order_find(core, name) == NULL)
        return ERROR_TYPE_ORDER_DOES_NOT_EXIST;
    core_emit(core, &(struct event){.kind = EVENT_TYPE_ORDER_DELETED, .type_order_deleted = {.name = name}});
    return OK;
}
