/* Type orders, fixed beforehand: in a group (by its id, in whatever queues of the namespace) a message of a type waits while an
 * earlier-sent, unfinished one has a type that stands before its own (invariants D10, D11). No edges are stored: for each group
 * and type there is a list of unfinished messages by number, and the end of the first of a list lets go whoever waits for it. */
#ifndef TALLY_CORE_TYPE_ORDER_H
#define TALLY_CORE_TYPE_ORDER_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/pool.h"
#include "base/table.h"
#include "core/ledger.h"

struct core;
struct core_writer;

#define TYPES_MAX 64u
#define TYPE_NAME_SIZE_MAX 128u

struct type_orders {
    struct pool orders;
    struct pool typed;  /* unfinished messages with a type */
    struct pool groups; /* group ids that have some */
    struct table group_by_id;
    void *types_owned; /* the names that orders know */
    uint32_t type_count;
};

void type_order_init(struct type_orders *type_orders);
void type_order_deinit(struct type_orders *type_orders);

/* Does any order name the type? */
bool type_order_binds(const struct core *core, struct bytes type);

/* For apply: a typed message ended; whoever waited for it alone is let go. */
void type_order_message_ended(struct core *core, uint32_t message, enum unit_state outcome);

void type_order_encode(const struct core *core, struct core_writer *writer);
bool type_order_decode(struct core *core, struct cursor *cursor);
void type_order_check(const struct core *core);

#endif
