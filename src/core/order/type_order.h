/* Type orders, fixed beforehand: in a group (by its id, in whatever queues of the namespace) a message of a type waits
 * while an earlier-sent, unfinished one has a type that stands before its own in some order (invariants D10, D11). With
 * `Require` it waits, besides, until a message of each type before its own has succeeded in the group.
 *
 * Here are the orders themselves and the types that they name. A type has an index below 64, so that "the types before
 * it" is a mask of 64 bits; the index is given back when no order and no message uses the type. What a message has to
 * wait for is fixed when it is accepted: an order that is put, replaced or deleted later does not touch it. type_lane.h
 * has the messages. */
#ifndef TALLY_CORE_ORDER_TYPE_ORDER_H
#define TALLY_CORE_ORDER_TYPE_ORDER_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/heap.h"
#include "base/name_index.h"
#include "base/slab.h"
#include "base/table.h"
#include "core/batches/ledger.h"

struct core;
struct core_writer;

#define TYPES_MAX 64u
#define TYPE_NAME_SIZE_MAX 128u
#define TYPE_ORDERS_MAX 1000u
#define TYPE_NONE TYPES_MAX
#define TYPE_RETENTION_S_MAX 31536000u /* a year */

struct type {
    struct bytes name_owned; /* NULL: the index is free */
    uint64_t epoch;          /* another one each time that an order comes to name it: successes before do not count */
    uint64_t before;         /* types that stand before it in some order */
    uint64_t required;       /* those of them of which a message must have succeeded */
    uint64_t message_count;  /* unfinished messages that have it */
    uint64_t wanted_count;   /* unfinished messages that were accepted lacking a success of it */
    uint32_t order_count;    /* orders that name it */
    uint32_t remembered_s;   /* how long a success of it counts, at most, by the orders of now; 0: nobody asks */
};

struct type_order {
    struct bytes name_owned;
    uint32_t count;
    uint32_t retention_s; /* 0: not required */
    uint8_t types[TYPES_MAX];
};

struct type_orders {
    struct type types[TYPES_MAX];
    uint32_t retention_s[TYPES_MAX][TYPES_MAX]; /* [later][earlier]: how old a success may be; 0: none is required */
    uint64_t epoch;                             /* the newest given to a type */
    struct slab items;                          /* orders */
    struct name_index order;

    struct slab groups; /* type_lane.h */
    struct slab lanes;
    struct slab typed;
    struct table group_by_id;
    struct heap memories; /* lanes that remember a success, by the time when it is over */
    uint64_t lane_number; /* the newest; it only tells lanes apart */
};

/* A list of types as a command or an event names it: the first to come first. */
struct type_list {
    struct bytes names[TYPES_MAX];
    uint32_t count;
};

void type_order_init(struct type_orders *type_orders);
void type_order_deinit(struct type_orders *type_orders);

/* A run of u32 size + bytes. False: not 2 to 64 different names of 1 to 128 bytes. */
void type_list_encode(const struct type_list *list, struct buffer *out);
bool type_list_decode(struct bytes encoded, struct type_list *list);

/* --- the types ---------------------------------------------------------------------------------------------------- */

/* The index of a type that is in use, or TYPE_NONE. O(types). */
unsigned type_find(const struct type_orders *type_orders, struct bytes name);

/* Gives the index back if nothing uses the type any more. */
void type_release(struct type_orders *type_orders, unsigned index);

/* Is a message of this type bound: does an order name it, or is a message unfinished that was accepted lacking a
 * success of it? */
bool type_order_binds(const struct core *core, struct bytes type);

/* --- the orders --------------------------------------------------------------------------------------------------- */

/* Orders stand by name: the index of the first whose name is not below `name`; the order of that name, or NULL. */
uint32_t type_order_index(const struct core *core, struct bytes name);
const struct type_order *type_order_find(const struct core *core, struct bytes name);

uint32_t type_order_count(const struct core *core);
const struct type_order *type_order_at(const struct core *core, uint32_t index);
struct bytes type_order_type(const struct core *core, const struct type_order *order, uint32_t index);

/* Would this order find room beside the others, in place of the one that has its name now? */
bool type_order_has_room(const struct core *core, struct bytes name, const struct type_list *list);

/* Does the order contradict the others (less the one of its name)? Then says in `path`, if that is not NULL, which
 * chain of them leads from a type to one that the new order puts before it: `"b" before "a" (order "x")`. O(orders *
 * types). */
bool type_order_is_conflict(const struct core *core, struct bytes name, const struct type_list *list,
                            struct buffer *path);

/* For apply and decode: links an order whose types are in use, puts up the masks anew. */
void type_order_insert(struct type_orders *type_orders, const struct type_order *order);
void type_order_rebuild(struct type_orders *type_orders);

void type_order_encode(const struct core *core, struct core_writer *writer);
bool type_order_decode(struct core *core, struct cursor *cursor);
void type_order_check(const struct core *core);

/* --- the messages (type_lane.c) ----------------------------------------------------------------------------------- */

/* For apply: a typed message ended or was dead-lettered; whoever waited for it alone is let go. */
void type_order_message_ended(struct core *core, uint32_t message, enum unit_state outcome);

/* Does a type order hold the message back now? It then counts for one in place->wait_count. */
bool type_order_is_blocked(const struct core *core, uint32_t message);

/* A type that a message waits for. */
struct type_blocker {
    struct bytes type;    /* borrowed until the next decision */
    uint32_t message;     /* the oldest unfinished one of it that was sent before; 0: none */
    bool needs_a_success; /* an order requires that one succeeds, and none has */
};

/* What the message waits for by type orders, in order of type indexes; returns how many. */
unsigned type_order_blockers(const struct core *core, uint32_t message, struct type_blocker blockers[TYPES_MAX]);

/* Gives back the memory of up to `portion` successes that no longer count. That changes nothing anyone can see. */
void type_order_forget(struct core *core, unsigned portion);
uint64_t type_order_due_ms(const struct core *core);

#endif
