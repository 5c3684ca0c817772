/* Which deduplication ids of an export were there before in the same export.
 *
 * Two messages that waited in one queue under one id were two messages: the queue had forgotten the id when the second
 * came. So the second goes without it, or the queue of the import would drop it. A Bloom filter of a fixed size: of ten
 * million ids one in four hundred is taken for a repeated one, and its message goes without the id; none is missed. */
#ifndef TALLY_TALLY_REPEATED_IDS_H
#define TALLY_TALLY_REPEATED_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct repeated_ids {
    uint64_t *bits_owned; /* NULL until the first id */
};

/* Notes an id of a queue; true if it may have been noted before. */
bool repeated_ids_note(struct repeated_ids *ids, const char *queue, const char *id);
void repeated_ids_deinit(struct repeated_ids *ids);

#endif
