/* The audit: each request of an action that needs the right admin, and that has changed something or was refused, is
 * told to whoever reads FeedEvents (activity.h), and to the operator (front_options.audit). Private to src/api. */
#ifndef TALLY_API_AUDIT_H
#define TALLY_API_AUDIT_H

#include "api/action.h"
#include "api/activity.h"

/* Call it when the action of the call has run, or was refused before. `has_changed`: it has written events. */
void audit_call(const struct call *call, enum error error, bool has_changed);

/* What an item of the kind ACTIVITY_AUDIT is about. `is_whole`: also where it was refused, and may name what its
 * readers must not know. */
struct bytes audit_target(const struct activity_note *note, bool is_whole);

/* A sentence about it, in the arena; `is_whole`, too, with what a refusal says. */
struct bytes audit_words(const struct activity_note *note, bool is_whole, struct arena *arena);

#endif
