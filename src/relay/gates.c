#include "relay/gates.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

void gates_init(struct gates *gates)
{
    *gates = (struct gates){0};
    table_init(&gates->by_id);
    table_init(&gates->by_key);
}

void gates_deinit(struct gates *gates)
{
    table_deinit(&gates->by_id);
    table_deinit(&gates->by_key);
    free(gates->rows_owned);
    free(gates->gates_owned);
}

/* --- gates -------------------------------------------------------------------------------------------------------- */

struct gate *gates_find_gate(const struct gates *gates, uint64_t key)
{
    for (struct table_probe probe = table_probe_start(&gates->by_key, key); table_probe_next(&gates->by_key, &probe);)
        if (gates->gates_owned[probe.slot - 1].key == key)
            return &gates->gates_owned[probe.slot - 1];
    return NULL;
}

struct gate *gates_close(struct gates *gates, uint64_t key, uint64_t head)
{
    struct gate *gate = gates_find_gate(gates, key);
    if (gate != NULL)
        return gate;
    ARRAY_GROW(gates->gates_owned, gates->gate_count, gates->gate_capacity);
    gate = &gates->gates_owned[gates->gate_count++];
    *gate = (struct gate){.key = key, .head = head};
    table_insert(&gates->by_key, key, (uint32_t)gates->gate_count);
    return gate;
}

void gates_open(struct gates *gates, uint64_t key)
{
    struct gate *gate = gates_find_gate(gates, key);
    if (gate == NULL)
        return;
    uint32_t slot = (uint32_t)(gate - gates->gates_owned) + 1;
    uint32_t last = (uint32_t)gates->gate_count;
    table_remove(&gates->by_key, key, slot);
    if (slot != last) {
        *gate = gates->gates_owned[last - 1];
        table_remove(&gates->by_key, gate->key, last);
        table_insert(&gates->by_key, gate->key, slot);
    }
    gates->gate_count--;
}

static void open_if_head(struct gates *gates, uint64_t key, uint64_t id)
{
    const struct gate *gate = gates_find_gate(gates, key);
    if (gate != NULL && gate->head == id)
        gates_open(gates, key);
}

static bool is_passable(const struct gate *gate, uint64_t id, uint64_t now_ms)
{
    return gate == NULL || (gate->head == id && gate->due_ms <= now_ms);
}

bool gates_admits(const struct gates *gates, const struct way *way, uint64_t id, uint64_t now_ms)
{
    return is_passable(gates_find_gate(gates, way->queue), id, now_ms) &&
           is_passable(gates_find_gate(gates, way->group), id, now_ms);
}

bool gates_have_blocked(const struct gates *gates)
{
    for (size_t i = 0; i < gates->gate_count; i++)
        if (gates->gates_owned[i].is_blocked)
            return true;
    return false;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static struct held *find_id(const struct gates *gates, uint64_t id)
{
    uint64_t hash = table_hash_u64(id);
    for (struct table_probe probe = table_probe_start(&gates->by_id, hash); table_probe_next(&gates->by_id, &probe);)
        if (gates->rows_owned[probe.slot - 1].name.id == id)
            return &gates->rows_owned[probe.slot - 1];
    return NULL;
}

static bool is_same_uid(const struct uid *a, const struct uid *b)
{
    return memcmp(a->bytes, b->bytes, UID_SIZE) == 0;
}

struct held *gates_find(const struct gates *gates, const struct row_name *name)
{
    struct held *held = find_id(gates, name->id);
    return held != NULL && is_same_uid(&held->name.uid, &name->uid) ? held : NULL;
}

static void remove_held(struct gates *gates, struct held *held)
{
    uint32_t slot = (uint32_t)(held - gates->rows_owned) + 1;
    uint32_t last = (uint32_t)gates->count;
    ASSERT(slot >= 1 && slot <= last);
    table_remove(&gates->by_id, table_hash_u64(held->name.id), slot);
    if (slot != last) {
        *held = gates->rows_owned[last - 1];
        table_remove(&gates->by_id, table_hash_u64(held->name.id), last);
        table_insert(&gates->by_id, table_hash_u64(held->name.id), slot);
    }
    gates->count--;
}

void gates_remove(struct gates *gates, const struct row_name *name)
{
    struct held *held = gates_find(gates, name);
    if (held == NULL)
        return;
    struct way way = held->way;
    remove_held(gates, held);
    open_if_head(gates, way.queue, name->id);
    open_if_head(gates, way.group, name->id);
}

struct held *gates_add(struct gates *gates, const struct row_name *name, const struct way *way)
{
    struct held *held = find_id(gates, name->id);
    if (held != NULL && is_same_uid(&held->name.uid, &name->uid))
        return held;
    if (held != NULL)
        remove_held(gates, held);
    ARRAY_GROW(gates->rows_owned, gates->count, gates->capacity);
    held = &gates->rows_owned[gates->count++];
    *held = (struct held){.name = *name, .way = *way};
    table_insert(&gates->by_id, table_hash_u64(name->id), (uint32_t)gates->count);
    return held;
}

bool gates_are_full(const struct gates *gates)
{
    return gates->count >= GATES_ROWS_MAX;
}

bool gates_are_packed(const struct gates *gates)
{
    return gates->count >= GATES_ROWS_MAX + GATES_ROWS_SPARE;
}

static bool is_head(const struct gates *gates, const struct held *held)
{
    const struct gate *queue = gates_find_gate(gates, held->way.queue),
                      *group = gates_find_gate(gates, held->way.group);
    return (queue != NULL && queue->head == held->name.id) || (group != NULL && group->head == held->name.id);
}

size_t gates_list(struct gates *gates, uint64_t now_ms, struct row_name *names)
{
    size_t count = 0;
    for (size_t i = gates->count; i > 0; i--) {
        struct held *held = &gates->rows_owned[i - 1];
        held->is_seen = false;
        held->is_offered = gates_admits(gates, &held->way, held->name.id, now_ms);
        if (!held->is_offered)
            names[count++] = held->name;
        else if (held->intent == 0 && !held->is_doubted && !is_head(gates, held))
            remove_held(gates, held); /* backwards, so that the entry that moves into the gap has been visited */
    }
    return count;
}

const struct held *gates_find_gone(const struct gates *gates, uint64_t last)
{
    for (size_t i = 0; i < gates->count; i++) {
        const struct held *held = &gates->rows_owned[i];
        if (held->is_offered && !held->is_seen && (last == 0 || held->name.id < last))
            return held;
    }
    return NULL;
}
