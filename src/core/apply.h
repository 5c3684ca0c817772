/* One function for each kind of event: what it changes. False, with nothing changed unless its comment says otherwise,
 * if the event does not fit the state. Each function stands in the file of the thing that it changes: messages and
 * batches in apply.c, groups in group.c, and so on. Private to src/core. */
#ifndef TALLY_CORE_APPLY_H
#define TALLY_CORE_APPLY_H

#include "core/state.h"

#define APPLY_DECLARE(KIND, kind, number) bool apply_##kind(struct core *core, const struct event_##kind *kind);
EVENT_LIST(APPLY_DECLARE)
#undef APPLY_DECLARE

/* Can the message be what the event says of its batch, in this slot (0: there is none)? */
bool sent_fits_batch(const struct core *core, const struct event_sent *sent, uint32_t batch_slot);

/* Can the batch be a unit of this parent, the next one? */
bool batch_fits_parent(const struct batch *parent, const struct event_batch_created *created);

#endif
