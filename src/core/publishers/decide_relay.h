/* Decisions (docs/internals/architecture.md, "Decide and apply"). What the core keeps of relays. */
#ifndef TALLY_CORE_PUBLISHERS_DECIDE_RELAY_H
#define TALLY_CORE_PUBLISHERS_DECIDE_RELAY_H

#include "core/core.h"
#include "core/publishers/relay_record.h"

/* A relay of a name that none has. `spec` as in relay_record.h. ERROR_OVER_LIMIT: there are RELAY_RECORDS_MAX. */
enum error decide_put_relay(struct core *core, struct bytes name, struct bytes spec,
                            const struct relay_record **record);
void decide_pause_relay(struct core *core, const struct relay_record *record, bool is_paused);
void decide_delete_relay(struct core *core, const struct relay_record *record);

#endif
