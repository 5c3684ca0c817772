#include "core/order/type_order.h"

#include "core/apply.h"
#include "core/order/type_lane.h"

#include "base/accounted.h"
#include <stdlib.h>

void type_order_init(struct type_orders *type_orders)
{
    slab_init(&type_orders->items, sizeof(struct type_order));
    name_index_init(&type_orders->order, &type_orders->items, offsetof(struct type_order, name_owned));
    slab_init(&type_orders->groups, sizeof(struct type_group));
    slab_init(&type_orders->lanes, sizeof(struct type_lane));
    slab_init(&type_orders->typed, sizeof(struct typed));
    table_init(&type_orders->group_by_id);
    heap_init(&type_orders->memories, &type_orders->lanes, offsetof(struct type_lane, memory_index),
              offsetof(struct type_lane, number));
}

/* The i-th by name. */
static struct type_order *order_at(const struct type_orders *type_orders, uint32_t index)
{
    return slab_at(&type_orders->items, name_index_at(&type_orders->order, index));
}

static void destroy_groups(struct type_orders *type_orders)
{
    for (uint32_t slot = 1; slot < type_orders->groups.slot_end; slot++) {
        struct type_group *group = slab_at(&type_orders->groups, slot);
        if (!type_group_is_used(group))
            continue;
        for (int i = 0; i < __builtin_popcountll(group->mask); i++) {
            struct type_lane *lane = slab_at(&type_orders->lanes, group->lanes_owned[i]);
            heap_deinit(&lane->waiting);
            heap_deinit(&lane->wanting);
        }
        accounted_free(group->lanes_owned);
        accounted_free((void *)group->id_owned.ptr);
    }
}

void type_order_deinit(struct type_orders *type_orders)
{
    destroy_groups(type_orders);
    for (unsigned i = 0; i < TYPES_MAX; i++)
        accounted_free((void *)type_orders->types[i].name_owned.ptr);
    for (uint32_t i = 0; i < type_orders->order.count; i++)
        accounted_free((void *)order_at(type_orders, i)->name_owned.ptr);
    name_index_deinit(&type_orders->order);
    slab_deinit(&type_orders->items);
    heap_deinit(&type_orders->memories);
    table_deinit(&type_orders->group_by_id);
    slab_deinit(&type_orders->groups);
    slab_deinit(&type_orders->lanes);
    slab_deinit(&type_orders->typed);
}

/* --- lists of types ----------------------------------------------------------------------------------------------- */

void type_list_encode(const struct type_list *list, struct buffer *out)
{
    for (uint32_t i = 0; i < list->count; i++)
        buffer_append_sized(out, list->names[i]);
}

/* The index of a name in the list, or its count. */
static uint32_t list_index(const struct type_list *list, struct bytes name)
{
    uint32_t index = 0;
    while (index < list->count && !bytes_equal(list->names[index], name))
        index++;
    return index;
}

bool type_list_decode(struct bytes encoded, struct type_list *list)
{
    struct cursor cursor = cursor_make(encoded);
    list->count = 0;
    while (cursor.rest.size > 0) {
        struct bytes name = cursor_sized(&cursor);
        if (name.size == 0 || name.size > TYPE_NAME_SIZE_MAX || list->count == TYPES_MAX ||
            list_index(list, name) < list->count)
            return false;
        list->names[list->count++] = name;
    }
    return !cursor.is_failed && list->count >= 2;
}

/* --- types -------------------------------------------------------------------------------------------------------- */

unsigned type_find(const struct type_orders *type_orders, struct bytes name)
{
    unsigned index = 0;
    while (index < TYPES_MAX && (type_orders->types[index].name_owned.ptr == NULL ||
                                 !bytes_equal(type_orders->types[index].name_owned, name)))
        index++;
    return index;
}

static unsigned first_free(const struct type_orders *type_orders)
{
    unsigned index = 0;
    while (index < TYPES_MAX && type_orders->types[index].name_owned.ptr != NULL)
        index++;
    return index;
}

void type_release(struct type_orders *type_orders, unsigned index)
{
    struct type *type = &type_orders->types[index];
    if (type->order_count > 0 || type->message_count > 0 || type->wanted_count > 0)
        return;
    accounted_free((void *)type->name_owned.ptr);
    *type = (struct type){0};
}

bool type_order_binds(const struct core *core, struct bytes name)
{
    unsigned index = type_find(&core->type_orders, name);
    if (index == TYPE_NONE)
        return false;
    const struct type *type = &core->type_orders.types[index];
    return type->order_count > 0 || type->wanted_count > 0;
}

/* An order names this type; it may be new. */
static unsigned name_type(struct type_orders *type_orders, struct bytes name)
{
    unsigned index = type_find(type_orders, name);
    if (index == TYPE_NONE) {
        index = first_free(type_orders);
        ASSERT(index != TYPE_NONE);
        type_orders->types[index].name_owned = accounted_duplicate(name);
    }
    struct type *type = &type_orders->types[index];
    type->order_count++;
    if (type->epoch == 0)
        type->epoch = ++type_orders->epoch;
    return index;
}

/* --- what the orders amount to ------------------------------------------------------------------------------------ */

static void add_requirements(struct type_orders *type_orders, const struct type_order *order, uint32_t index)
{
    uint32_t *row = type_orders->retention_s[order->types[index]];
    for (uint32_t i = 0; i < index; i++) {
        uint32_t *strictest_s = &row[order->types[i]];
        if (*strictest_s == 0 || *strictest_s > order->retention_s)
            *strictest_s = order->retention_s;
        struct type *earlier = &type_orders->types[order->types[i]];
        if (earlier->remembered_s < order->retention_s)
            earlier->remembered_s = order->retention_s;
    }
}

static void add_masks(struct type_orders *type_orders, const struct type_order *order)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < order->count; i++) {
        struct type *type = &type_orders->types[order->types[i]];
        type->before |= before;
        if (order->retention_s > 0) {
            type->required |= before;
            add_requirements(type_orders, order, i);
        }
        before |= type_bit(order->types[i]);
    }
}

void type_order_rebuild(struct type_orders *type_orders)
{
    memset(type_orders->retention_s, 0, sizeof(type_orders->retention_s));
    for (unsigned i = 0; i < TYPES_MAX; i++) {
        type_orders->types[i].before = type_orders->types[i].required = 0;
        type_orders->types[i].remembered_s = 0;
    }
    for (uint32_t i = 0; i < type_orders->order.count; i++)
        add_masks(type_orders, order_at(type_orders, i));
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

uint32_t type_order_index(const struct core *core, struct bytes name)
{
    return name_index_place(&core->type_orders.order, name);
}

const struct type_order *type_order_find(const struct core *core, struct bytes name)
{
    uint32_t slot = name_index_find(&core->type_orders.order, name);
    return slot == 0 ? NULL : slab_at(&core->type_orders.items, slot);
}

uint32_t type_order_count(const struct core *core)
{
    return core->type_orders.order.count;
}

const struct type_order *type_order_at(const struct core *core, uint32_t index)
{
    return order_at(&core->type_orders, index);
}

struct bytes type_order_type(const struct core *core, const struct type_order *order, uint32_t index)
{
    ASSERT(index < order->count);
    return core->type_orders.types[order->types[index]].name_owned;
}

bool type_order_has_room(const struct core *core, struct bytes name, const struct type_list *list)
{
    const struct type_orders *type_orders = &core->type_orders;
    const struct type_order *replaced = type_order_find(core, name);
    if (replaced == NULL && type_orders->order.count >= TYPE_ORDERS_MAX)
        return false;
    uint32_t count = 0;
    for (unsigned i = 0; i < TYPES_MAX; i++)
        count += type_orders->types[i].name_owned.ptr != NULL;
    for (uint32_t i = 0; replaced != NULL && i < replaced->count; i++) {
        const struct type *type = &type_orders->types[replaced->types[i]];
        bool is_last_use = type->order_count == 1 && type->message_count == 0 && type->wanted_count == 0;
        count -= is_last_use && list_index(list, type->name_owned) == list->count;
    }
    for (uint32_t i = 0; i < list->count; i++)
        count += type_find(type_orders, list->names[i]) == TYPE_NONE;
    return count <= TYPES_MAX;
}

void type_order_insert(struct type_orders *type_orders, const struct type_order *order)
{
    ASSERT(order->count >= 2);
    uint32_t slot = slab_allocate(&type_orders->items);
    *(struct type_order *)slab_at(&type_orders->items, slot) = *order;
    name_index_insert(&type_orders->order, slot);
}

/* Takes an order away. Types that `kept` names are named again at once, so they stay, with whatever they remember. */
static void remove_order(struct type_orders *type_orders, uint32_t slot, const struct type_list *kept)
{
    struct type_order order = *(struct type_order *)slab_at(&type_orders->items, slot);
    name_index_remove(&type_orders->order, slot);
    slab_free(&type_orders->items, slot);
    for (uint32_t i = 0; i < order.count; i++) {
        struct type *type = &type_orders->types[order.types[i]];
        ASSERT(type->order_count > 0);
        type->order_count--;
        if (list_index(kept, type->name_owned) < kept->count)
            continue;
        if (type->order_count == 0)
            type->epoch = 0;
        type_release(type_orders, order.types[i]);
    }
    accounted_free((void *)order.name_owned.ptr);
}

bool apply_type_order_put(struct core *core, const struct event_type_order_put *put)
{
    struct type_orders *type_orders = &core->type_orders;
    struct type_list list;
    if (put->name.size == 0 || put->name.size > TYPE_NAME_SIZE_MAX || put->is_required > 1 ||
        (put->is_required != 0) != (put->retention_s != 0) || put->retention_s > TYPE_RETENTION_S_MAX ||
        !type_list_decode(put->types, &list) || !type_order_has_room(core, put->name, &list) ||
        type_order_is_conflict(core, put->name, &list, NULL))
        return false;
    uint32_t replaced = name_index_find(&type_orders->order, put->name);
    if (replaced != 0)
        remove_order(type_orders, replaced, &list);
    struct type_order order = {
        .name_owned = accounted_duplicate(put->name), .count = list.count, .retention_s = put->retention_s};
    for (uint32_t i = 0; i < list.count; i++)
        order.types[i] = (uint8_t)name_type(type_orders, list.names[i]);
    type_order_insert(type_orders, &order);
    type_order_rebuild(type_orders);
    return true;
}

bool apply_type_order_deleted(struct core *core, const struct event_type_order_deleted *deleted)
{
    uint32_t slot = name_index_find(&core->type_orders.order, deleted->name);
    if (slot == 0)
        return false;
    remove_order(&core->type_orders, slot, &(struct type_list){.count = 0});
    type_order_rebuild(&core->type_orders);
    return true;
}

/* --- contradictions ----------------------------------------------------------------------------------------------- */

/* What the search for a contradiction knows: the orders but one, and how it came to each type. */
struct search {
    const struct type_orders *type_orders;
    const struct type_order *left_out; /* or NULL */
    uint64_t after[TYPES_MAX];         /* types that stand behind it in some order */
    uint8_t from[TYPES_MAX];           /* the type before it on the way here */
};

static void search_init(struct search *search, const struct core *core, struct bytes left_out)
{
    *search = (struct search){.type_orders = &core->type_orders, .left_out = type_order_find(core, left_out)};
    for (uint32_t i = 0; i < core->type_orders.order.count; i++) {
        const struct type_order *order = type_order_at(core, i);
        uint64_t behind = 0;
        for (uint32_t k = order->count; order != search->left_out && k-- > 0;) {
            search->after[order->types[k]] |= behind;
            behind |= type_bit(order->types[k]);
        }
    }
}

/* The first type of `wanted` that the orders lead to from `start`, or TYPE_NONE; search->from then has the way. */
static unsigned search_from(struct search *search, unsigned start, uint64_t wanted)
{
    uint64_t seen = type_bit(start), open = seen;
    while (open != 0) {
        unsigned type = type_lowest(open);
        open &= open - 1;
        uint64_t found = search->after[type] & ~seen;
        for (uint64_t rest = found; rest != 0; rest &= rest - 1)
            search->from[type_lowest(rest)] = (uint8_t)type;
        if ((found & wanted) != 0)
            return type_lowest(found & wanted);
        seen |= found;
        open |= found;
    }
    return TYPE_NONE;
}

/* The first order, by name, that puts one type before another. */
static const struct type_order *order_that_puts(const struct search *search, unsigned earlier, unsigned later)
{
    for (uint32_t i = 0; i < search->type_orders->order.count; i++) {
        const struct type_order *order = order_at(search->type_orders, i);
        bool has_earlier = false;
        for (uint32_t k = 0; order != search->left_out && k < order->count; k++) {
            if (order->types[k] == later && has_earlier)
                return order;
            has_earlier = has_earlier || order->types[k] == earlier;
        }
    }
    return NULL;
}

/* Says the way from `start` to `end`, step by step. */
static void describe_path(const struct search *search, unsigned start, unsigned end, struct buffer *out)
{
    uint8_t way[TYPES_MAX];
    unsigned count = 0;
    for (unsigned type = end; type != start; type = search->from[type])
        way[count++] = (uint8_t)type;
    for (unsigned type = start; count > 0; type = way[count]) {
        unsigned next = way[--count];
        const struct type_order *order = order_that_puts(search, type, next);
        ASSERT(order != NULL);
        buffer_append_format(out, "\"%.*s\" before \"%.*s\" (order \"%.*s\")%s",
                             BYTES_FORMAT(search->type_orders->types[type].name_owned),
                             BYTES_FORMAT(search->type_orders->types[next].name_owned), BYTES_FORMAT(order->name_owned),
                             count > 0 ? ", " : "");
    }
}

/* The list itself is a line, so any ring through it and the others has a way by the others alone from one of its types
 * to one that stands before that. Types that are new are in no other order. */
bool type_order_is_conflict(const struct core *core, struct bytes name, const struct type_list *list,
                            struct buffer *path)
{
    struct search search;
    search_init(&search, core, name);
    uint64_t before = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        unsigned type = type_find(&core->type_orders, list->names[i]);
        if (type == TYPE_NONE)
            continue;
        unsigned end = search_from(&search, type, before);
        if (end != TYPE_NONE && path != NULL)
            describe_path(&search, type, end, path);
        if (end != TYPE_NONE)
            return true;
        before |= type_bit(type);
    }
    return false;
}
