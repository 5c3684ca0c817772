#include "tally/unit_map.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory.h"
#include "worker/text.h"
#include <stdio.h>
#include <stdlib.h>

#define HASH_TEXT_SIZE 17 /* "~" and 16 digits */

void unit_map_init(struct unit_map *map)
{
    *map = (struct unit_map){.count = 0};
    slab_init(&map->pool, sizeof(struct unit));
    table_init(&map->by_key);
}

void unit_map_deinit(struct unit_map *map)
{
    for (uint32_t i = 0; i < map->count; i++) {
        struct unit *unit = unit_map_at(map, i);
        free(unit->text_owned);
        free(unit->key_owned);
    }
    free(map->order_owned);
    table_deinit(&map->by_key);
    slab_deinit(&map->pool);
}

char *unit_key(const char *text)
{
    size_t size = strlen(text);
    size_t kept = 0;
    char *key;

    if (size <= UNIT_KEY_SIZE_MAX)
        return memory_duplicate_string(text);
    for (;;) { /* whole characters only */
        size_t character = text_character_size(text + kept);
        ASSERT(character > 0); /* the text was escaped */
        if (kept + character > UNIT_KEY_SIZE_MAX - HASH_TEXT_SIZE)
            break;
        kept += character;
    }
    key = memory_allocate(kept + HASH_TEXT_SIZE + 1);
    memcpy(key, text, kept);
    snprintf(key + kept, HASH_TEXT_SIZE + 1, "~%016llx", (unsigned long long)bytes_hash(bytes_make(text, size)));
    return key;
}

struct unit *unit_map_find(const struct unit_map *map, const char *key)
{
    uint64_t hash = bytes_hash(bytes_from_string(key));
    for (struct table_probe probe = table_probe_start(&map->by_key, hash); table_probe_next(&map->by_key, &probe);) {
        struct unit *unit = slab_at(&map->pool, probe.slot);
        if (strcmp(unit->key_owned, key) == 0)
            return unit;
    }
    return NULL;
}

struct unit *unit_map_add(struct unit_map *map, char *text)
{
    char *key = unit_key(text);
    struct unit *unit = unit_map_find(map, key);
    uint32_t slot;

    if (unit != NULL) {
        free(key);
        free(text);
        return unit;
    }
    if (map->count == map->capacity) {
        map->capacity = map->capacity == 0 ? 256 : map->capacity * 2;
        map->order_owned = memory_resize(map->order_owned, map->capacity * sizeof *map->order_owned);
    }
    slot = slab_allocate(&map->pool);
    map->order_owned[map->count++] = slot;
    unit = slab_at(&map->pool, slot);
    *unit = (struct unit){.text_owned = text, .key_owned = key, .state = UNIT_NEW};
    table_insert(&map->by_key, bytes_hash(bytes_from_string(key)), slot);
    return unit;
}

struct unit *unit_map_at(const struct unit_map *map, uint32_t index)
{
    ASSERT(index < map->count);
    return slab_at(&map->pool, map->order_owned[index]);
}
