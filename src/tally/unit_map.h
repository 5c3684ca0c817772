/* The units of a run: the key of each in the batch, and what this process knows about it.
 *
 * The server's ledger decides what counts. This map only saves work. It knows which units were registered when the run
 * began, which one a worker of ours has now, and which have ended, so that a second message for a unit is
 * recognised. */
#ifndef TALLY_TALLY_UNIT_MAP_H
#define TALLY_TALLY_UNIT_MAP_H

#include "base/slab.h"
#include "base/table.h"
#include <stdbool.h>

enum unit_state { UNIT_NEW, UNIT_OUTSTANDING, UNIT_RUNNING, UNIT_ENDED };

struct worker_slot;

struct unit {
    char *text_owned;         /* the text in its message: the path or line, escaped */
    char *key_owned;          /* its key in the batch: the text, or a short form of a long one */
    struct worker_slot *slot; /* the worker that has it while it runs */
    uint32_t failures;        /* attempts that failed, in this process */
    uint32_t repeats;         /* how often the same line came again; each is a unit of its own */
    enum unit_state state;
};

struct unit_map {
    struct slab pool;
    struct table by_key;
    uint32_t *order_owned; /* slots in the order they were added */
    uint32_t count;
    uint32_t capacity;
};

#define UNIT_KEY_SIZE_MAX 256 /* of the server; bytes without a NUL */

void unit_map_init(struct unit_map *map);
void unit_map_deinit(struct unit_map *map);

/* The key of an escaped text (text_is_escaped()), owned by the caller. It is the text itself if that is short enough;
 * otherwise its beginning, "~" and a hash. */
char *unit_key(const char *text);

/* The unit with this key; NULL if there is none. O(1). */
struct unit *unit_map_find(const struct unit_map *map, const char *key);

/* Adds a unit in state UNIT_NEW; takes over `text`. If a unit with this key exists already, returns that one and frees
 * `text`. */
struct unit *unit_map_add(struct unit_map *map, char *text);

/* The unit number `index` in the order of adding; index < map->count. */
struct unit *unit_map_at(const struct unit_map *map, uint32_t index);

#endif
