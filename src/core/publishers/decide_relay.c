/* Decisions about the records of relays. */
#include "core/publishers/decide_relay.h"
#include "core/state.h"

enum error decide_put_relay(struct core *core, struct bytes name, struct bytes spec, const struct relay_record **record)
{
    ASSERT(relay_record_find(core, name) == NULL);
    ASSERT(name.size > 0 && name.size <= RELAY_RECORD_NAME_SIZE_MAX);
    ASSERT(spec.size > 0 && spec.size <= RELAY_RECORD_SPEC_SIZE_MAX);
    if (relay_record_count(core) >= RELAY_RECORDS_MAX)
        return ERROR_OVER_LIMIT;
    core_emit(core, &(struct event){.kind = EVENT_RELAY_PUT, .relay_put = {.name = name, .spec = spec}});
    *record = relay_record_find(core, name);
    return OK;
}

void decide_pause_relay(struct core *core, const struct relay_record *record, bool is_paused)
{
    if (record->is_paused == is_paused)
        return;
    core_emit(core, &(struct event){.kind = EVENT_RELAY_PAUSED,
                                    .relay_paused = {.name = record->name_owned, .is_paused = is_paused}});
}

void decide_delete_relay(struct core *core, const struct relay_record *record)
{
    core_emit(core, &(struct event){.kind = EVENT_RELAY_DELETED, .relay_deleted = {.name = record->name_owned}});
}
