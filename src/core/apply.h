/* One function for each kind of event: what it changes. False, with nothing changed unless its comment says otherwise, if the
 * event does not fit the state. They stand beside what they change: messages and batches in apply.c, groups in group.c, and so
 * on. Private to src/core. */
#ifndef TALLY_CORE_APPLY_H
#define TALLY_CORE_APPLY_H

#include "core/state.h"

#define APPLY_DECLARE(KIND, kind, number) bool apply_##kind(struct core *core, const struct event_##kind *kind);
EVENT_LIST(APPLY_DECLARE)
#undef APPLY_DECLARE

#endif
