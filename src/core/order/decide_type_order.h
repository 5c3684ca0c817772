/* Decisions (docs/internals/architecture.md, "Decide and apply"). Type orders. */
#ifndef TALLY_CORE_ORDER_DECIDE_TYPE_ORDER_H
#define TALLY_CORE_ORDER_DECIDE_TYPE_ORDER_H

#include "core/core.h"
#include "core/order/type_order.h"

struct type_order_command {
    struct bytes name;
    struct type_list types;
    uint32_t retention_s; /* of Require; 0: the order does not require anything */
};

/* Puts an order under its name, replacing a former one; with the same list nothing happens. Errors, in order:
 * ERROR_OVER_LIMIT: more than TYPES_MAX types or TYPE_ORDERS_MAX orders; ERROR_TYPE_ORDER_CONFLICT: `conflict` then
 * says in words which order it contradicts. */
enum error decide_put_type_order(struct core *core, const struct type_order_command *command, struct buffer *conflict);

/* ERROR_TYPE_ORDER_DOES_NOT_EXIST. */
enum error decide_delete_type_order(struct core *core, struct bytes name);

#endif
