#include "relay/blocked_keys.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

void blocked_keys_init(struct blocked_keys *keys)
{
    *keys = (struct blocked_keys){0};
    table_init(&keys->by_id);
    table_init(&keys->by_key);
}

void blocked_keys_deinit(struct blocked_keys *keys)
{
    table_deinit(&keys->by_id);
    table_deinit(&keys->by_key);
    free(keys->rows_owned);
    free(keys->keys_owned);
}

/* --- blocked keys ------------------------------------------------------------------------------------------------- */

struct blocked_key *blocked_keys_find_key(const struct blocked_keys *keys, uint64_t key)
{
    for (struct table_probe probe = table_probe_start(&keys->by_key, key); table_probe_next(&keys->by_key, &probe);)
        if (keys->keys_owned[probe.slot - 1].key == key)
            return &keys->keys_owned[probe.slot - 1];
    return NULL;
}

struct blocked_key *blocked_keys_close(struct blocked_keys *keys, uint64_t key, uint64_t head)
{
    struct blocked_key *blocked = blocked_keys_find_key(keys, key);
    if (blocked != NULL)
        return blocked;
    ARRAY_GROW(keys->keys_owned, keys->key_count, keys->key_capacity);
    blocked = &keys->keys_owned[keys->key_count++];
    *blocked = (struct blocked_key){.key = key, .head = head};
    table_insert(&keys->by_key, key, (uint32_t)keys->key_count);
    return blocked;
}

void blocked_keys_open(struct blocked_keys *keys, uint64_t key)
{
    struct blocked_key *blocked = blocked_keys_find_key(keys, key);
    if (blocked == NULL)
        return;
    uint32_t slot = (uint32_t)(blocked - keys->keys_owned) + 1;
    uint32_t last = (uint32_t)keys->key_count;
    table_remove(&keys->by_key, key, slot);
    if (slot != last) {
        *blocked = keys->keys_owned[last - 1];
        table_remove(&keys->by_key, blocked->key, last);
        table_insert(&keys->by_key, blocked->key, slot);
    }
    keys->key_count--;
}

static void open_if_head(struct blocked_keys *keys, uint64_t key, uint64_t id)
{
    const struct blocked_key *blocked = blocked_keys_find_key(keys, key);
    if (blocked != NULL && blocked->head == id)
        blocked_keys_open(keys, key);
}

static bool is_passable(const struct blocked_key *key, uint64_t id, uint64_t now_ms)
{
    return key == NULL || (key->head == id && key->due_ms <= now_ms);
}

bool blocked_keys_admits(const struct blocked_keys *keys, const struct row_keys *row_keys, uint64_t id, uint64_t now_ms)
{
    return is_passable(blocked_keys_find_key(keys, row_keys->queue), id, now_ms) &&
           is_passable(blocked_keys_find_key(keys, row_keys->group), id, now_ms);
}

bool blocked_keys_have_blocked(const struct blocked_keys *keys)
{
    for (size_t i = 0; i < keys->key_count; i++)
        if (keys->keys_owned[i].is_blocked)
            return true;
    return false;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static struct held *find_id(const struct blocked_keys *keys, uint64_t id)
{
    uint64_t hash = table_hash_u64(id);
    for (struct table_probe probe = table_probe_start(&keys->by_id, hash); table_probe_next(&keys->by_id, &probe);)
        if (keys->rows_owned[probe.slot - 1].name.id == id)
            return &keys->rows_owned[probe.slot - 1];
    return NULL;
}

static bool is_same_uid(const struct uid *a, const struct uid *b)
{
    return memcmp(a->bytes, b->bytes, UID_SIZE) == 0;
}

struct held *blocked_keys_find(const struct blocked_keys *keys, const struct row_name *name)
{
    struct held *held = find_id(keys, name->id);
    return held != NULL && is_same_uid(&held->name.uid, &name->uid) ? held : NULL;
}

static void remove_held(struct blocked_keys *keys, struct held *held)
{
    uint32_t slot = (uint32_t)(held - keys->rows_owned) + 1;
    uint32_t last = (uint32_t)keys->count;
    ASSERT(slot >= 1 && slot <= last);
    table_remove(&keys->by_id, table_hash_u64(held->name.id), slot);
    if (slot != last) {
        *held = keys->rows_owned[last - 1];
        table_remove(&keys->by_id, table_hash_u64(held->name.id), last);
        table_insert(&keys->by_id, table_hash_u64(held->name.id), slot);
    }
    keys->count--;
}

void blocked_keys_remove(struct blocked_keys *keys, const struct row_name *name)
{
    struct held *held = blocked_keys_find(keys, name);
    if (held == NULL)
        return;
    struct row_keys row_keys = held->keys;
    remove_held(keys, held);
    open_if_head(keys, row_keys.queue, name->id);
    open_if_head(keys, row_keys.group, name->id);
}

struct held *blocked_keys_add(struct blocked_keys *keys, const struct row_name *name, const struct row_keys *row_keys)
{
    struct held *held = find_id(keys, name->id);
    if (held != NULL && is_same_uid(&held->name.uid, &name->uid))
        return held;
    if (held != NULL)
        remove_held(keys, held);
    ARRAY_GROW(keys->rows_owned, keys->count, keys->capacity);
    held = &keys->rows_owned[keys->count++];
    *held = (struct held){.name = *name, .keys = *row_keys};
    table_insert(&keys->by_id, table_hash_u64(name->id), (uint32_t)keys->count);
    return held;
}

bool blocked_keys_are_full(const struct blocked_keys *keys)
{
    return keys->count >= BLOCKED_KEYS_ROWS_MAX;
}

bool blocked_keys_are_packed(const struct blocked_keys *keys)
{
    return keys->count >= BLOCKED_KEYS_ROWS_MAX + BLOCKED_KEYS_ROWS_SPARE;
}

static bool is_head(const struct blocked_keys *keys, const struct held *held)
{
    const struct blocked_key *queue = blocked_keys_find_key(keys, held->keys.queue),
                             *group = blocked_keys_find_key(keys, held->keys.group);
    return (queue != NULL && queue->head == held->name.id) || (group != NULL && group->head == held->name.id);
}

size_t blocked_keys_list(struct blocked_keys *keys, uint64_t now_ms, struct row_name *names)
{
    size_t count = 0;
    for (size_t i = keys->count; i > 0; i--) {
        struct held *held = &keys->rows_owned[i - 1];
        held->is_seen = false;
        held->is_offered = blocked_keys_admits(keys, &held->keys, held->name.id, now_ms);
        if (!held->is_offered)
            names[count++] = held->name;
        else if (held->intent == 0 && !held->is_doubted && !is_head(keys, held))
            remove_held(keys, held); /* backwards, so that the entry that moves into the gap has been visited */
    }
    return count;
}

const struct held *blocked_keys_find_deleted(const struct blocked_keys *keys, uint64_t last)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct held *held = &keys->rows_owned[i];
        if (held->is_offered && !held->is_seen && (last == 0 || held->name.id < last))
            return held;
    }
    return NULL;
}
