/* The decision to send, count and consume in one step. Nothing can be taken back once it is emitted, so everything is checked
 * before, as it will be when its turn comes: units that earlier sends take, duplicates of earlier sends, failures that are forgotten for
 * those of earlier sends, and how much the frame must hold in the end. */
#include "core/decide.h"
#include "core/finish.h"

#include "core/identity.h"
#include "core/type_lane.h"
#include "core/yield.h"

/* --- deletes ------------------------------------------------------------------------------------------------------ */

static enum error check_deletes(const struct core *core, const struct commit_command *command,
                                struct commit_fault *fault)
{
    uint64_t numbers[COMMIT_DELETES_MAX];
    fault->part = COMMIT_DELETES;
    for (uint32_t i = 0; i < command->delete_count; i++) {
        fault->index = i;
        numbers[i] = decide_held_message(core, command->deletes[i].queue, command->deletes[i].handle);
        if (numbers[i] == 0)
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        for (uint32_t earlier = 0; earlier < i; earlier++)
            if (numbers[earlier] == numbers[i])
                return ERROR_INVALID_PARAMETER_VALUE;
    }
    return OK;
}

/* --- sends -------------------------------------------------------------------------------------------------------- */

/* Will the earlier send, once it is accepted, make the later one a duplicate? */
static bool is_repeat(const struct send_command *earlier, const struct send_command *later)
{
    if (earlier->queue != later->queue)
        return false;
    bool has_same_producer = later->producer.size > 0 && bytes_equal(earlier->producer, later->producer);
    if (has_same_producer && later->sequence <= earlier->sequence)
        return true;
    const struct queue_settings *settings = &later->queue->settings;
    return later->content.deduplication.size > 0 && settings->deduplication_window_s > 0 &&
           bytes_equal(earlier->content.deduplication, later->content.deduplication) &&
           (settings->deduplication_scope != SCOPE_GROUP || bytes_equal(earlier->content.group, later->content.group));
}

/* Will it wait for messages of earlier types in its group? */
static bool waits_by_type(const struct core *core, const struct send_command *send)
{
    unsigned type = send->type.size == 0 ? TYPE_NONE : type_find(&core->type_orders, send->type);
    uint32_t group = type == TYPE_NONE ? 0 : type_group_find(core, send->content.group);
    return group != 0 && (type_group_at(core, group)->busy & core->type_orders.types[type].before) != 0;
}

/* Might the message fail as soon as it is accepted? */
static bool may_end_at_once(const struct send_command *send)
{
    return send->antecedent_count > 0 && send->after_failure == AFTER_FAILURE_CANCEL;
}

/* Might the message have to wait: for what it names, in a line in which something waits, or by its type? */
static bool may_wait(const struct core *core, const struct send_command *send)
{
    if (send->antecedent_count > 0 || waits_by_type(core, send))
        return true;
    uint32_t group = send->queue->settings.is_fifo ? group_find(core, send->queue->shelf, send->content.group) : 0;
    return group != 0 && core_group(core, group)->waiting_count > 0;
}

/* Might it wait for the earlier one, in its line or by its type, or for one of this commit that does? */
static bool may_stand_behind(const struct send_command *earlier, const struct send_command *later)
{
    return (later->queue->settings.is_fifo || later->type.size > 0) && later->content.group.size > 0 &&
           bytes_equal(earlier->content.group, later->content.group);
}

/* Might the later one wait for itself by way of the earlier one, which the search for a cycle does not see yet? Only if both
 * wait, and if something can wait for the later one: its batch, or a batch whose message will stand behind it. */
static bool might_close_cycle(const struct core *core, const struct send_command *earlier,
                              const struct send_command *later)
{
    bool is_awaited = later->batch_id.size > 0 || (later->queue->settings.is_fifo && later->queue->target_count > 0);
    return is_awaited && may_wait(core, earlier) && (may_wait(core, later) || may_stand_behind(earlier, later));
}

/* The first i sends have been checked; is_new says which of them will be accepted. */
static enum error check_send(const struct core *core, struct commit_command *command, uint32_t i, bool *is_new)
{
    const struct send_command *send = &command->sends[i].command;
    struct send_turn turn = {.units = 1};
    for (uint32_t earlier = 0; earlier < i; earlier++) {
        const struct send_command *other = &command->sends[earlier].command;
        if (!is_new[earlier])
            continue;
        if (is_repeat(other, send))
            return OK;
        turn.failures += may_end_at_once(other);
        turn.units += send->batch_id.size > 0 && bytes_equal(other->batch_id, send->batch_id);
    }
    enum error error = decide_check_send(core, send, &turn, &command->sends[i].result);
    if (error != OK || command->sends[i].result.is_duplicate)
        return error;
    is_new[i] = true;
    for (uint32_t earlier = 0; earlier < i; earlier++)
        if (is_new[earlier] && might_close_cycle(core, &command->sends[earlier].command, send))
            return ERROR_UNSUPPORTED_OPERATION;
    return OK;
}

static enum error check_sends(const struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    bool is_new[COMMIT_SENDS_MAX] = {false};
    fault->part = COMMIT_SENDS;
    for (uint32_t i = 0; i < command->send_count; i++) {
        fault->index = i;
        enum error error = check_send(core, command, i, is_new);
        if (error != OK)
            return error;
    }
    return OK;
}

/* --- units -------------------------------------------------------------------------------------------------------- */

static enum error check_units(const struct commit_command *command, struct commit_fault *fault)
{
    fault->part = COMMIT_UNITS;
    for (uint32_t i = 0; i < command->unit_count; i++) {
        const struct commit_unit *unit = &command->units[i];
        fault->index = i;
        if (unit->batch->spec.tracking == BATCH_XOR)
            return ERROR_UNSUPPORTED_OPERATION;
        if (ledger_find(&unit->batch->ledger, unit->report.key) == LEDGER_NO_UNIT)
            return ERROR_UNIT_DOES_NOT_EXIST;
    }
    return OK;
}

/* --- what the frame must hold -------------------------------------------------------------------------------------- */

static uint32_t slot_of_batch(const struct core *core, const struct batch *batch)
{
    return batch == NULL ? 0 : core_find_batch_by_number(core, batch->number);
}

static uint64_t size_of_all(const struct core *core, const struct commit_command *command)
{
    uint64_t size = 0;
    struct table seen; /* batches, by slot */
    table_init(&seen);
    for (uint32_t i = 0; i < command->send_count; i++)
        size += yield_of_send(core, &command->sends[i].command, &seen);
    for (uint32_t i = 0; i < command->unit_count; i++)
        size += command->units[i].report.detail.size +
                yield_of_unit(core, slot_of_batch(core, command->units[i].batch), &seen);
    for (uint32_t i = 0; i < command->delete_count; i++) {
        const struct commit_delete *entry = &command->deletes[i];
        uint32_t slot = core_find_message(core, decide_held_message(core, entry->queue, entry->handle));
        size += yield_of_unit(core, core_message(core, slot)->batch, &seen);
    }
    table_deinit(&seen);
    return size;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static enum error check_all(const struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    enum error error = check_deletes(core, command, fault);
    if (error == OK)
        error = check_sends(core, command, fault);
    if (error == OK)
        error = check_units(command, fault);
    if (error != OK)
        return error;
    fault->part = COMMIT_WHOLE;
    fault->size = size_of_all(core, command);
    return fault->size <= command->size_max ? OK : ERROR_OVER_LIMIT;
}

/* What was checked stands: each was looked at as it is when its turn comes. Only the search for a cycle has more to walk
 * through once earlier sends are accepted, and might give up; might_close_cycle() has seen to it that there is none. */
static void expect_good(enum error error)
{
    ASSERT(error == OK);
}

enum error decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    ASSERT(command->send_count <= COMMIT_SENDS_MAX && command->delete_count <= COMMIT_DELETES_MAX);
    *fault = (struct commit_fault){0};
    enum error error = check_all(core, command, fault);
    if (error != OK)
        return error;
    size_t size_before = core->frame->size;
    for (uint32_t i = 0; i < command->unit_count; i++)
        command->units[i].is_completed = command->units[i].batch->state != BATCH_COMPLETED;
    for (uint32_t i = 0; i < command->send_count; i++)
        expect_good(decide_send_checked(core, &command->sends[i].command, &command->sends[i].result));
    for (uint32_t i = 0; i < command->unit_count; i++) {
        struct commit_unit *unit = &command->units[i];
        uint32_t unknown;
        bool is_completed;
        expect_good(
            decide_complete_units(core, unit->batch, &unit->report, 1, command->size_max, &unknown, &is_completed));
    }
    for (uint32_t i = 0; i < command->delete_count; i++)
        expect_good(decide_delete(core, command->deletes[i].queue, command->deletes[i].handle, NULL));
    for (uint32_t i = 0; i < command->unit_count; i++)
        command->units[i].is_completed =
            command->units[i].is_completed && command->units[i].batch->state == BATCH_COMPLETED;
    ASSERT(core->frame->size - size_before <= fault->size);
    return OK;
}
