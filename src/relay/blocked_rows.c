#include "relay/blocked_rows.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

#define KEYS_MIN 64u

/* The kind of a key, written before its text. */
#define KEY_GROUP 'g'
#define KEY_QUEUE 'q'

void blocked_rows_init(struct blocked_rows *blocked, bool is_strict)
{
    *blocked = (struct blocked_rows){.is_strict = is_strict};
    arena_init(&blocked->arena);
}

void blocked_rows_deinit(struct blocked_rows *blocked)
{
    arena_deinit(&blocked->arena);
    free(blocked->names_owned);
    free(blocked->keys_owned);
}

void blocked_rows_clear(struct blocked_rows *blocked)
{
    arena_reset(&blocked->arena);
    blocked->count = 0;
    blocked->key_count = 0;
    if (blocked->key_capacity > 0)
        memset(blocked->keys_owned, 0, blocked->key_capacity * sizeof(*blocked->keys_owned));
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static struct bytes make_key(struct arena *arena, char kind, struct bytes text)
{
    uint8_t *key = arena_allocate(arena, text.size + 1);
    key[0] = (uint8_t)kind;
    if (text.size > 0)
        memcpy(key + 1, text.ptr, text.size);
    return bytes_make(key, text.size + 1);
}

static bool is_key(struct bytes key, char kind, struct bytes text)
{
    return key.ptr[0] == (uint8_t)kind && bytes_equal(bytes_skip(key, 1), text);
}

/* The cell of the key, or the free cell where it belongs. */
static struct bytes *find_key(const struct blocked_rows *blocked, char kind, struct bytes text)
{
    size_t mask = blocked->key_capacity - 1;
    size_t cell = (size_t)(bytes_hash(text) + (uint64_t)kind) & mask;
    while (blocked->keys_owned[cell].ptr != NULL && !is_key(blocked->keys_owned[cell], kind, text))
        cell = (cell + 1) & mask;
    return &blocked->keys_owned[cell];
}

static bool has_key(const struct blocked_rows *blocked, char kind, struct bytes text)
{
    return blocked->key_count > 0 && find_key(blocked, kind, text)->ptr != NULL;
}

static void grow_keys(struct blocked_rows *blocked)
{
    struct bytes *old = blocked->keys_owned;
    size_t old_capacity = blocked->key_capacity;
    blocked->key_capacity = old_capacity == 0 ? KEYS_MIN : old_capacity * 2;
    blocked->keys_owned = memory_allocate_zeroed(blocked->key_capacity * sizeof(*blocked->keys_owned));
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].ptr != NULL)
            *find_key(blocked, (char)old[i].ptr[0], bytes_skip(old[i], 1)) = old[i];
    free(old);
}

static void add_key(struct blocked_rows *blocked, char kind, struct bytes text)
{
    if (has_key(blocked, kind, text))
        return;
    if ((blocked->key_count + 1) * 2 > blocked->key_capacity)
        grow_keys(blocked);
    *find_key(blocked, kind, text) = make_key(&blocked->arena, kind, text);
    blocked->key_count++;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

void blocked_rows_add(struct blocked_rows *blocked, const struct row *row, bool holds_queue)
{
    ARRAY_GROW(blocked->names_owned, blocked->count, blocked->capacity);
    blocked->names_owned[blocked->count++] = (struct row_name){.id = row->id, .uid = row->uid};
    if (row->group.ptr != NULL)
        add_key(blocked, KEY_GROUP, row->group);
    if (holds_queue)
        add_key(blocked, KEY_QUEUE, row->queue);
}

bool blocked_rows_take(struct blocked_rows *blocked, const struct row *row)
{
    if (blocked->count == 0)
        return false;
    bool is_held = blocked->is_strict || (row->group.ptr != NULL && has_key(blocked, KEY_GROUP, row->group)) ||
                   (row->kind == ROW_SEND && has_key(blocked, KEY_QUEUE, row->queue));
    if (is_held)
        blocked_rows_add(blocked, row, false);
    return is_held;
}

bool blocked_rows_are_full(const struct blocked_rows *blocked)
{
    return blocked->count >= BLOCKED_ROWS_MAX || (blocked->is_strict && blocked->count > 0);
}
