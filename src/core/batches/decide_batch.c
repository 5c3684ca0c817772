/* Decisions about batches. */
#include "core/finish.h"
#include "core/size_bound.h"

static uint32_t slot_of(const struct core *core, const struct batch *batch)
{
    uint32_t slot = core_find_batch_by_number(core, batch->number);
    ASSERT(slot != 0);
    return slot;
}

/* --- creating ----------------------------------------------------------------------------------------------------- */

/* Was the batch created with these very arguments? core->scratch holds the encoded spec. */
static bool is_same_batch(const struct core *core, const struct batch *batch, struct bytes parent_id)
{
    struct bytes parent = batch->parent == 0 ? bytes_make(NULL, 0) : core_batch(core, batch->parent)->id_owned;
    return bytes_equal(batch->spec_encoded_owned, buffer_bytes(&core->scratch)) && bytes_equal(parent, parent_id);
}

static enum error check_parent(const struct core *core, const struct create_batch_command *command, uint32_t children,
                               const struct batch **parent)
{
    *parent = NULL;
    if (command->parent_id.size == 0)
        return OK;
    *parent = core_find_batch(core, command->parent_id);
    if (*parent == NULL)
        return ERROR_BATCH_DOES_NOT_EXIST;
    enum error error = batch_check_room(*parent, (uint64_t)children + 1, command->is_growth);
    if (error != OK)
        return error;
    if ((*parent)->depth + 1 >= BATCH_DEPTH_MAX)
        return ERROR_OVER_LIMIT;
    char path[DEPENDENCY_PATH_SIZE];
    return dependency_check_child(core, *parent, &command->spec, command->path == NULL ? path : command->path);
}

void decide_next_batch_id(const struct core *core, uint8_t id[MESSAGE_ID_SIZE])
{
    identity_batch(core->digest_owned, core->batches.batch_number + 1, id);
}

enum error decide_check_create_batch(struct core *core, const struct create_batch_command *command, uint32_t children,
                                     const struct batch **known)
{
    buffer_truncate(&core->scratch, 0);
    batch_spec_encode(&command->spec, &core->scratch);
    const struct batch *existing = core_find_batch(core, command->id);
    if (existing != NULL && !is_same_batch(core, existing, command->parent_id))
        return ERROR_BATCH_ALREADY_EXISTS;
    const struct batch *parent;
    enum error error = existing != NULL ? OK : check_parent(core, command, children, &parent);
    if (error == OK)
        *known = existing;
    return error;
}

const struct batch *decide_create_checked_batch(struct core *core, const struct create_batch_command *command)
{
    buffer_truncate(&core->scratch, 0);
    batch_spec_encode(&command->spec, &core->scratch);
    const struct batch *parent = core_find_batch(core, command->parent_id);
    uint64_t number = core->batches.batch_number + 1;
    if (parent != NULL && command->is_growth)
        finish_growth(core, slot_of(core, parent), 1);
    core_emit(core, &(struct event){
                        .kind = EVENT_BATCH_CREATED,
                        .batch_created = {.batch = number,
                                          .parent = parent == NULL ? 0 : parent->number,
                                          .parent_unit = parent == NULL ? 0 : parent->ledger.count,
                                          .id = command->id,
                                          .spec = buffer_bytes(&core->scratch)},
                    });
    if (parent != NULL)
        finish_total(core, slot_of(core, parent));
    /* A batch of no units (Total 0) has them all. */
    uint32_t slot = core_find_batch_by_number(core, number);
    finish_total(core, slot);
    finish_step(core, slot, false, BATCH_NO_STATUS);
    return core_batch(core, slot);
}

enum error decide_create_batch(struct core *core, const struct create_batch_command *command,
                               const struct batch **batch)
{
    const struct batch *known;
    enum error error = decide_check_create_batch(core, command, 0, &known);
    if (error == OK)
        *batch = known != NULL ? known : decide_create_checked_batch(core, command);
    return error;
}

/* --- units -------------------------------------------------------------------------------------------------------- */

/* Writes the keys that are not units yet, each once, into core->scratch; returns how many. */
static uint32_t collect_new_keys(struct core *core, const struct batch *batch, const struct add_units_command *command)
{
    struct table seen; /* of indexes into command->keys, plus 1 */
    table_init(&seen);
    buffer_truncate(&core->scratch, 0);
    uint32_t added = 0;
    for (uint32_t i = 0; i < command->key_count; i++) {
        struct bytes key = command->keys[i];
        bool is_known = batch != NULL && ledger_find(&batch->ledger, key) != LEDGER_NO_UNIT;
        uint64_t hash = digest_name(core->digest_owned, key);
        for (struct table_probe probe = table_probe_start(&seen, hash); !is_known && table_probe_next(&seen, &probe);)
            is_known = bytes_equal(command->keys[probe.slot - 1], key);
        if (is_known)
            continue;
        table_insert(&seen, hash, i + 1);
        buffer_append_sized(&core->scratch, key);
        added++;
    }
    table_deinit(&seen);
    return added;
}

enum error decide_check_add_units(struct core *core, const struct batch *batch, const struct add_units_command *command,
                                  uint32_t children, uint32_t *added)
{
    if (batch->spec.tracking == BATCH_XOR)
        return ERROR_UNSUPPORTED_OPERATION;
    if (batch_check_room(batch, 1, command->is_growth) == ERROR_BATCH_SEALED)
        return ERROR_BATCH_SEALED;
    uint32_t count = command->key_count > 0 ? collect_new_keys(core, batch, command)
                                            : ledger_count_would_add(&batch->ledger, command->count);
    /* Where the children are the last of its Total it is sealed by then, though nothing were to be added. */
    uint64_t wanted = (uint64_t)children + (children > 0 && count == 0 ? 1 : count);
    enum error error = batch_check_room(batch, wanted, command->is_growth);
    if (error == OK)
        *added = count;
    return error;
}

enum error decide_check_first_units(struct core *core, const struct batch_spec *spec,
                                    const struct add_units_command *command, uint32_t *added)
{
    if (spec->tracking == BATCH_XOR)
        return ERROR_UNSUPPORTED_OPERATION;
    uint32_t count = command->key_count > 0 ? collect_new_keys(core, NULL, command) : command->count;
    if (spec->has_total &&
        (count > spec->total || spec->total == 0)) /* one with Total 0 is sealed as soon as it is made */
        return ERROR_BATCH_TOTAL_EXCEEDED;
    *added = count;
    return OK;
}

enum error decide_add_units(struct core *core, const struct batch *batch, const struct add_units_command *command,
                            uint32_t *added)
{
    uint32_t count;
    enum error error = decide_check_add_units(core, batch, command, 0, &count);
    if (error != OK)
        return error;
    *added = count;
    if (count == 0)
        return OK;
    if (command->is_growth)
        finish_growth(core, slot_of(core, batch), count);
    struct event event;
    if (command->key_count > 0)
        event = (struct event){
            .kind = EVENT_UNITS_ADDED,
            .units_added = {.batch = batch->number, .count = count, .keys = buffer_bytes(&core->scratch)},
        };
    else
        event = (struct event){
            .kind = EVENT_UNITS_COUNTED,
            .units_counted = {.batch = batch->number, .count = command->count},
        };
    core_emit(core, &event);
    finish_total(core, slot_of(core, batch));
    finish_step(core, slot_of(core, batch), false, BATCH_NO_STATUS);
    return OK;
}

enum error decide_complete_units(struct core *core, const struct batch *batch, struct unit_report *reports,
                                 uint32_t report_count, uint64_t size_max, uint32_t *unknown, bool *is_completed)
{
    if (batch->spec.tracking == BATCH_XOR)
        return ERROR_UNSUPPORTED_OPERATION;
    for (uint32_t i = 0; i < report_count; i++) {
        if (ledger_find(&batch->ledger, reports[i].key) == LEDGER_NO_UNIT) {
            *unknown = i;
            return ERROR_UNIT_DOES_NOT_EXIST;
        }
    }
    bool was_completed = batch->state == BATCH_COMPLETED;
    uint32_t slot = slot_of(core, batch);
    if (size_bound_of_reports(core, slot, reports, report_count) > size_max)
        return ERROR_OVER_LIMIT;
    for (uint32_t i = 0; i < report_count; i++)
        reports[i].is_recorded = finish_unit(core, slot, ledger_find(&batch->ledger, reports[i].key), 0,
                                             reports[i].outcome, reports[i].detail);
    *is_completed = !was_completed && batch->state == BATCH_COMPLETED;
    return OK;
}

static enum error check_xor(const struct batch *batch, const struct xor_command *command)
{
    uint64_t registered = batch->xor_registered + command->registered;
    if (batch->xor_finished + command->finished > registered)
        return ERROR_INVALID_PARAMETER_VALUE;
    bool adds = command->registered > 0 || (command->finished == 0 && batch->state == BATCH_COMPLETED);
    return adds ? batch_check_room(batch, command->registered > 0 ? command->registered : 1, false) : OK;
}

enum error decide_xor_units(struct core *core, const struct batch *batch, const struct xor_command *command,
                            bool *is_zero, bool *is_completed)
{
    if (batch->spec.tracking != BATCH_XOR)
        return ERROR_UNSUPPORTED_OPERATION;
    uint8_t asked[16];
    bytes_put_u64(asked, command->value);
    bytes_put_u32(asked + 8, command->registered);
    bytes_put_u32(asked + 12, command->finished);
    uint64_t check = digest_keyed(core->digest_owned, bytes_make(asked, sizeof(asked)));
    uint32_t token = batch_find_token(batch, command->token);
    *is_completed = false;
    if (token != UINT32_MAX) {
        *is_zero = batch->xor_value == 0;
        return batch->tokens_owned[token].check == check ? OK : ERROR_INVALID_PARAMETER_VALUE;
    }
    enum error error = check_xor(batch, command);
    if (error != OK)
        return error;
    *is_zero = batch->xor_value == 0;
    if (batch->is_cancelled)
        return OK; /* the cancel has ended every unit: what is reported later counts as little as in CompleteUnits */
    bool was_completed = batch->state == BATCH_COMPLETED;
    core_emit(core, &(struct event){
                        .kind = EVENT_XOR_APPLIED,
                        .xor_applied = {.batch = batch->number,
                                        .value = command->value,
                                        .registered = command->registered,
                                        .finished = command->finished,
                                        .check = check,
                                        .token = command->token},
                    });
    finish_total(core, slot_of(core, batch));
    finish_step(core, slot_of(core, batch), false, BATCH_NO_STATUS);
    *is_zero = batch->xor_value == 0;
    *is_completed = !was_completed && batch->state == BATCH_COMPLETED;
    return OK;
}

/* --- sealing and ending ------------------------------------------------------------------------------------------- */

void decide_seal_batch(struct core *core, const struct batch *batch, bool *is_completed)
{
    *is_completed = false;
    if (batch->state != BATCH_OPEN)
        return;
    core_emit(core, &(struct event){.kind = EVENT_BATCH_SEALED, .batch_sealed = {.batch = batch->number}});
    finish_step(core, slot_of(core, batch), false, BATCH_NO_STATUS);
    *is_completed = batch->state == BATCH_COMPLETED;
}

void decide_cancel_batch(struct core *core, const struct batch *batch)
{
    if (batch->state != BATCH_COMPLETED)
        finish_step(core, slot_of(core, batch), false, BATCH_CANCELLED);
}

enum error decide_delete_batch(struct core *core, const struct batch *batch)
{
    if (batch->state != BATCH_COMPLETED)
        return ERROR_BATCH_NOT_COMPLETED;
    core_emit(core, &(struct event){.kind = EVENT_BATCH_DELETED, .batch_deleted = {.batch = batch->number}});
    return OK;
}
