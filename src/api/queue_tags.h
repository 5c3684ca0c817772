/* Tags of queues as requests give them. Private to src/api. */
#ifndef TALLY_API_QUEUE_TAGS_H
#define TALLY_API_QUEUE_TAGS_H

#include "api/action.h"

/* Reads the map `member` of the request, {key: value}, as a run of tags (core/queues/tags.h) in the arena; empty if
 * there are none. Keys have 1 to 128 characters, values up to 256. If a key appears twice, one counts.
 * ERROR_SERIALIZATION, ERROR_INVALID_PARAMETER_VALUE. */
enum error queue_tags_read(struct call *call, const char *member, struct bytes queue_name, struct bytes *run);

/* Fails the call because the queue would have more than 50. */
enum error queue_tags_refuse_many(struct call *call, struct bytes queue_name);

#endif
