#include "relay/holds.h"

#include "base/assert.h"
#include "base/memory.h"
#include <stdlib.h>

#define KEYS_MIN 64u

/* The kind of a key, written before its text. */
#define KEY_GROUP 'g'
#define KEY_QUEUE 'q'

void holds_init(struct holds *holds, bool is_strict)
{
    *holds = (struct holds){.is_strict = is_strict};
    arena_init(&holds->arena);
}

void holds_deinit(struct holds *holds)
{
    arena_deinit(&holds->arena);
    free(holds->names_owned);
    free(holds->keys_owned);
}

void holds_clear(struct holds *holds)
{
    arena_reset(&holds->arena);
    holds->count = 0;
    holds->key_count = 0;
    if (holds->key_capacity > 0)
        memset(holds->keys_owned, 0, holds->key_capacity * sizeof(*holds->keys_owned));
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
static struct bytes *find_key(const struct holds *holds, char kind, struct bytes text)
{
    size_t mask = holds->key_capacity - 1;
    size_t place = (size_t)(bytes_hash(text) + (uint64_t)kind) & mask;
    while (holds->keys_owned[place].ptr != NULL && !is_key(holds->keys_owned[place], kind, text))
        place = (place + 1) & mask;
    return &holds->keys_owned[place];
}

static bool has_key(const struct holds *holds, char kind, struct bytes text)
{
    return holds->key_count > 0 && find_key(holds, kind, text)->ptr != NULL;
}

static void grow_keys(struct holds *holds)
{
    struct bytes *old = holds->keys_owned;
    size_t old_capacity = holds->key_capacity;
    holds->key_capacity = old_capacity == 0 ? KEYS_MIN : old_capacity * 2;
    holds->keys_owned = memory_allocate_zeroed(holds->key_capacity * sizeof(*holds->keys_owned));
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].ptr != NULL)
            *find_key(holds, (char)old[i].ptr[0], bytes_skip(old[i], 1)) = old[i];
    free(old);
}

static void add_key(struct holds *holds, char kind, struct bytes text)
{
    if (has_key(holds, kind, text))
        return;
    if ((holds->key_count + 1) * 2 > holds->key_capacity)
        grow_keys(holds);
    *find_key(holds, kind, text) = make_key(&holds->arena, kind, text);
    holds->key_count++;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

void holds_add(struct holds *holds, const struct row *row, bool holds_queue)
{
    ARRAY_GROW(holds->names_owned, holds->count, holds->capacity);
    holds->names_owned[holds->count++] = (struct row_name){.id = row->id, .uid = row->uid};
    if (row->group.ptr != NULL)
        add_key(holds, KEY_GROUP, row->group);
    if (holds_queue)
        add_key(holds, KEY_QUEUE, row->queue);
}

bool holds_take(struct holds *holds, const struct row *row)
{
    if (holds->count == 0)
        return false;
    bool is_held = holds->is_strict || (row->group.ptr != NULL && has_key(holds, KEY_GROUP, row->group)) ||
                   (row->kind == ROW_SEND && has_key(holds, KEY_QUEUE, row->queue));
    if (is_held)
        holds_add(holds, row, false);
    return is_held;
}

bool holds_are_full(const struct holds *holds)
{
    return holds->count >= HOLDS_MAX || (holds->is_strict && holds->count > 0);
}
