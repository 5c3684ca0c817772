/* The tags of a queue: keys with values, which mean something to people and nothing to the server.
 *
 * Tags are one run of bytes: for each a key and a value, both u32 size and the bytes, rising by key, no key twice. So
 * they stand in memory, in events and in the snapshot alike. Owns nothing. */
#ifndef TALLY_CORE_QUEUES_TAGS_H
#define TALLY_CORE_QUEUES_TAGS_H

#include "base/buffer.h"
#include "base/cursor.h"

#define TAGS_MAX 50u

/* Takes the next tag off a cursor over a run; false at its end, and, with the cursor failed, where there is no whole
 * one. */
bool tags_next(struct cursor *run, struct bytes *key, struct bytes *value);

/* Is it a run of at most TAGS_MAX tags, in order? */
bool tags_are_sound(struct bytes tags);

uint32_t tags_count(struct bytes tags);

/* Appends `tags` and those of `added`, which stand in place of what had their keys. O(both). */
void tags_merge(struct bytes tags, struct bytes added, struct buffer *out);

/* Appends `tags` without those whose keys are among `keys`, a run of u32 size and the bytes. O(tags x keys). */
void tags_remove(struct bytes tags, struct bytes keys, struct buffer *out);

/* Is the key in such a run? */
bool tags_names(struct bytes keys, struct bytes key);

#endif
