/* The decision to send, count and consume in one step. An emitted event can't be taken back, so everything is checked
 * first, in the state that it will have in its turn. This includes units taken by earlier sends, duplicates of earlier
 * sends, failures that are forgotten because of earlier sends, and the final size of the frame. */
#include "core/messages/decide_commit.h"
#include "core/finish.h"

#include "core/identity.h"
#include "core/order/type_lane.h"
#include "core/size_bound.h"

/* The results of the checks: the messages to delete, then those to hold, and the batches that may grow. Slots. */
struct commit_plan {
    uint32_t messages[COMMIT_DELETES_MAX + COMMIT_HOLDS_MAX];
    uint32_t message_count;
    uint32_t growing[COMMIT_DELETES_MAX + COMMIT_HOLDS_MAX + COMMIT_UNITS_MAX];
    uint32_t growing_count;
};

static uint32_t slot_of_batch(const struct core *core, const struct batch *batch)
{
    return batch == NULL ? 0 : core_find_batch_by_number(core, batch->number);
}

/* --- deletes and holds -------------------------------------------------------------------------------------------- */

static enum error check_messages(const struct core *core, struct commit_message *entries, uint32_t count,
                                 struct commit_plan *plan, struct commit_fault *fault)
{
    for (uint32_t i = 0; i < count; i++) {
        fault->index = i;
        uint64_t number = decide_held_message(core, entries[i].queue, entries[i].handle, &entries[i].use);
        if (number == 0)
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        uint32_t slot = core_find_message(core, number);
        if (fault->part == COMMIT_HOLDS && core_message(core, slot)->state != MESSAGE_IN_FLIGHT)
            return ERROR_RECEIPT_HANDLE_IS_INVALID;
        for (uint32_t earlier = 0; earlier < plan->message_count; earlier++)
            if (plan->messages[earlier] == slot)
                return ERROR_INVALID_PARAMETER_VALUE;
        plan->messages[plan->message_count++] = slot;
    }
    return OK;
}

static enum error check_deletes_and_holds(const struct core *core, const struct commit_command *command,
                                          struct commit_plan *plan, struct commit_fault *fault)
{
    fault->part = COMMIT_DELETES;
    enum error error = check_messages(core, command->deletes, command->delete_count, plan, fault);
    if (error != OK)
        return error;
    fault->part = COMMIT_HOLDS;
    return check_messages(core, command->holds, command->hold_count, plan, fault);
}

/* --- who may grow ------------------------------------------------------------------------------------------------- */

/* The batch of which the message is an outstanding unit, or 0. For a completion message for which a parent waits, it is
 * the parent. */
static uint32_t batch_of_unit(const struct core *core, const struct message *message)
{
    if (message->batch == 0 || message->is_moved)
        return 0;
    const struct batch *batch = core_batch(core, message->batch);
    if (message->completes == 0)
        return batch_unit_is_outstanding(batch, message->unit) ? message->batch : 0;
    if (batch->parent == 0 || !batch_is_awaited(batch, message->completes))
        return 0;
    return batch_unit_is_outstanding(core_batch(core, batch->parent), batch->parent_unit) ? batch->parent : 0;
}

static bool may_grow(const struct core *core, const struct commit_plan *plan, struct bytes batch_id)
{
    const struct batch *batch = batch_id.size == 0 ? NULL : core_find_batch(core, batch_id);
    for (uint32_t i = 0; batch != NULL && i < plan->growing_count; i++)
        if (core_batch(core, plan->growing[i]) == batch)
            return true;
    return false;
}

/* Additions come before ends in the frame. So a member that names an outstanding unit may rely on it, and added units
 * are outstanding. */
static void find_growing(const struct core *core, struct commit_command *command, struct commit_plan *plan)
{
    for (uint32_t i = 0; i < plan->message_count; i++) {
        uint32_t slot = batch_of_unit(core, core_message(core, plan->messages[i]));
        if (slot != 0)
            plan->growing[plan->growing_count++] = slot;
    }
    for (uint32_t i = 0; i < command->unit_count; i++) {
        const struct batch *batch = command->units[i].batch;
        uint32_t unit = batch->spec.tracking == BATCH_XOR ? LEDGER_NO_UNIT
                                                          : ledger_find(&batch->ledger, command->units[i].report.key);
        if (unit != LEDGER_NO_UNIT && batch_unit_is_outstanding(batch, unit))
            plan->growing[plan->growing_count++] = slot_of_batch(core, batch);
    }
    for (uint32_t i = 0; i < command->child_count; i++)
        command->children[i].command.is_growth = may_grow(core, plan, command->children[i].command.parent_id);
    for (uint32_t i = 0; i < command->addition_count; i++)
        command->additions[i].command.is_growth = may_grow(core, plan, command->additions[i].batch_id);
    for (uint32_t i = 0; i < command->send_count; i++)
        command->sends[i].command.is_growth = may_grow(core, plan, command->sends[i].command.batch_id);
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

/* The batch of this id that the commit makes, or NULL. */
static const struct create_batch_command *find_made(const struct commit_command *command, struct bytes id)
{
    for (uint32_t i = 0; i < command->child_count; i++)
        if (command->children[i].is_new && bytes_equal(command->children[i].command.id, id))
            return &command->children[i].command;
    return NULL;
}

/* How many of the first `count` batches are new children of that one? */
static uint32_t count_children(const struct commit_command *command, uint32_t count, struct bytes parent_id)
{
    uint32_t children = 0;
    for (uint32_t i = 0; i < count; i++)
        children += command->children[i].is_new && bytes_equal(command->children[i].command.parent_id, parent_id);
    return children;
}

/* The group in which a child's parent will wait for its completion message, if that goes to a FIFO queue; or NULL. */
static const struct batch_target *line_of_child(const struct core *core, const struct create_batch_command *child,
                                                const struct queue **queue)
{
    const struct batch_target *target = &child->spec.targets[batch_awaited_event(&child->spec) - 1];
    *queue = target->queue == 0 || child->parent_id.size == 0 ? NULL : core_find_queue_by_id(core, target->queue);
    return *queue != NULL && (*queue)->settings.is_fifo ? target : NULL;
}

/* Does a message of that group wait already? */
static bool might_wait_in_line(const struct core *core, const struct create_batch_command *child)
{
    const struct queue *queue;
    const struct batch_target *target = line_of_child(core, child, &queue);
    uint32_t group = target == NULL ? 0 : group_find(core, queue->message_list, target->group);
    return group != 0 && core_group(core, group)->waiting_count > 0;
}

static enum error check_children(struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    uint32_t waiting_count = 0;
    fault->part = COMMIT_CHILDREN;
    for (uint32_t i = 0; i < command->child_count; i++) {
        struct commit_child *child = &command->children[i];
        const struct batch *known;
        fault->index = i;
        child->is_new = false;
        for (uint32_t earlier = 0; earlier < i; earlier++)
            if (bytes_equal(command->children[earlier].command.id, child->command.id))
                return ERROR_INVALID_PARAMETER_VALUE;
        uint32_t siblings = count_children(command, i, child->command.parent_id);
        enum error error = decide_check_create_batch(core, &child->command, siblings, &known);
        if (error != OK)
            return error;
        child->is_new = known == NULL;
        /* Each might wait for the other, through the messages in front of its completion message. */
        waiting_count += child->is_new && might_wait_in_line(core, &child->command);
        if (waiting_count > 1)
            return ERROR_UNSUPPORTED_OPERATION;
    }
    return OK;
}

/* --- units that join ---------------------------------------------------------------------------------------------- */

static enum error check_addition(struct core *core, const struct commit_command *command,
                                 struct commit_addition *addition)
{
    const struct create_batch_command *made = find_made(command, addition->batch_id);
    if (made != NULL)
        return decide_check_first_units(core, &made->spec, &addition->command, &addition->added);
    const struct batch *batch = core_find_batch(core, addition->batch_id);
    if (batch == NULL)
        return ERROR_BATCH_DOES_NOT_EXIST;
    uint32_t children = count_children(command, command->child_count, addition->batch_id);
    return decide_check_add_units(core, batch, &addition->command, children, &addition->added);
}

static enum error check_additions(struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    fault->part = COMMIT_ADDITIONS;
    for (uint32_t i = 0; i < command->addition_count; i++) {
        fault->index = i;
        for (uint32_t earlier = 0; earlier < i; earlier++)
            if (bytes_equal(command->additions[earlier].batch_id, command->additions[i].batch_id))
                return ERROR_INVALID_PARAMETER_VALUE;
        enum error error = check_addition(core, command, &command->additions[i]);
        if (error != OK)
            return error;
    }
    return OK;
}

/* How many units join the batch before the first send does. */
static uint64_t units_before_sends(const struct commit_command *command, struct bytes batch_id)
{
    uint64_t units = count_children(command, command->child_count, batch_id);
    for (uint32_t i = 0; i < command->addition_count; i++)
        if (bytes_equal(command->additions[i].batch_id, batch_id))
            units += command->additions[i].added;
    return units;
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
    const struct send_identity first = send_identity_of(earlier), second = send_identity_of(later);
    return first.window_ms > 0 && second.window_ms > 0 && bytes_equal(first.id, second.id) &&
           bytes_equal(first.group, second.group);
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

/* Might the message have to wait: for an antecedent, in a group with a waiting message, or because of its type? */
static bool may_wait(const struct core *core, const struct send_command *send)
{
    if (send->antecedent_count > 0 || waits_by_type(core, send))
        return true;
    uint32_t group =
        send->queue->settings.is_fifo ? group_find(core, send->queue->message_list, send->content.group) : 0;
    return group != 0 && core_group(core, group)->waiting_count > 0;
}

/* Might it wait for the earlier one, in its group or because of its type, or for one of this commit that does? */
static bool may_stand_behind(const struct send_command *earlier, const struct send_command *later)
{
    return (later->queue->settings.is_fifo || later->type.size > 0) && later->content.group.size > 0 &&
           bytes_equal(earlier->content.group, later->content.group);
}

/* Might the later one wait for itself through the earlier one? The search for a cycle does not see the earlier one yet.
 * Only if both wait, and something can wait for the later one: its batch, or a batch whose message will come after
 * it. */
static bool might_close_cycle(const struct core *core, const struct send_command *earlier,
                              const struct send_command *later)
{
    bool is_awaited = later->batch_id.size > 0 || (later->queue->settings.is_fifo && later->queue->target_count > 0);
    return is_awaited && may_wait(core, earlier) && (may_wait(core, later) || may_stand_behind(earlier, later));
}

/* A batch that the commit makes has a parent. Might that parent wait for the send, while the send waits through a
 * group? The searches see neither of the two. */
static bool might_hold_up_parent(const struct core *core, const struct commit_command *command,
                                 const struct send_command *send)
{
    for (uint32_t i = 0; i < command->child_count; i++) {
        const struct create_batch_command *child = &command->children[i].command;
        const struct queue *queue;
        const struct batch_target *target = line_of_child(core, child, &queue);
        if (!command->children[i].is_new || target == NULL || !may_wait(core, send))
            continue;
        bool is_in_line = queue == send->queue && bytes_equal(target->group, send->content.group);
        if (is_in_line || might_wait_in_line(core, child))
            return true;
    }
    return false;
}

/* The first i sends have been checked; is_new says which of them will be accepted. */
static enum error check_send(const struct core *core, struct commit_command *command, uint32_t i, bool *is_new)
{
    const struct send_command *send = &command->sends[i].command;
    struct commit_context context = {.made = find_made(command, send->batch_id)};
    context.units = 1 + (send->batch_id.size == 0 ? 0 : units_before_sends(command, send->batch_id));
    for (uint32_t earlier = 0; earlier < i; earlier++) {
        const struct send_command *other = &command->sends[earlier].command;
        if (!is_new[earlier])
            continue;
        if (is_repeat(other, send))
            return OK;
        context.failures += may_end_at_once(other);
        context.units += send->batch_id.size > 0 && bytes_equal(other->batch_id, send->batch_id);
    }
    enum error error = decide_check_send(core, send, &context, &command->sends[i].result);
    if (error != OK || command->sends[i].result.is_duplicate)
        return error;
    is_new[i] = true;
    if (might_hold_up_parent(core, command, send))
        return ERROR_UNSUPPORTED_OPERATION;
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

/* --- what the frame must hold ------------------------------------------------------------------------------------- */

static uint64_t size_of_all(const struct core *core, const struct commit_command *command,
                            const struct commit_plan *plan)
{
    uint64_t size = 0;
    struct table seen; /* batches, by slot */
    table_init(&seen);
    for (uint32_t i = 0; i < command->child_count; i++)
        size += size_bound_of_create(core, &command->children[i].command, &seen);
    for (uint32_t i = 0; i < command->addition_count; i++)
        size += size_bound_of_addition(core, command->additions[i].batch_id, &command->additions[i].command, &seen);
    for (uint32_t i = 0; i < command->send_count; i++)
        size += size_bound_of_send(core, &command->sends[i].command, &seen);
    for (uint32_t i = 0; i < command->unit_count; i++)
        size += command->units[i].report.detail.size +
                size_bound_of_unit(core, slot_of_batch(core, command->units[i].batch), &seen);
    for (uint32_t i = 0; i < command->delete_count; i++)
        size += size_bound_of_unit(core, core_message(core, plan->messages[i])->batch, &seen);
    table_deinit(&seen);
    return size;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static enum error check_all(struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    struct commit_plan plan = {0};
    enum error error = check_deletes_and_holds(core, command, &plan, fault);
    if (error != OK)
        return error;
    find_growing(core, command, &plan);
    error = check_children(core, command, fault);
    if (error == OK)
        error = check_additions(core, command, fault);
    if (error == OK)
        error = check_sends(core, command, fault);
    if (error == OK)
        error = check_units(command, fault);
    if (error != OK)
        return error;
    fault->part = COMMIT_WHOLE;
    fault->size = size_of_all(core, command, &plan);
    return fault->size <= command->size_max ? OK : ERROR_OVER_LIMIT;
}

/* The checks stay valid, because each was made in the state of its turn. Only the search for a cycle would have more to
 * walk through after earlier sends, and might give up; might_close_cycle() has excluded cycles. */
static void expect_good(enum error error)
{
    ASSERT(error == OK);
}

/* Joins batches before anything ends, so that no batch can complete in between. */
static void add_all(struct core *core, struct commit_command *command)
{
    for (uint32_t i = 0; i < command->child_count; i++)
        if (command->children[i].is_new)
            (void)decide_create_checked_batch(core, &command->children[i].command);
    for (uint32_t i = 0; i < command->addition_count; i++) {
        struct commit_addition *addition = &command->additions[i];
        const struct batch *batch = core_find_batch(core, addition->batch_id);
        ASSERT(batch != NULL);
        expect_good(decide_add_units(core, batch, &addition->command, &addition->added));
    }
    for (uint32_t i = 0; i < command->send_count; i++)
        expect_good(decide_send_checked(core, &command->sends[i].command, &command->sends[i].result));
}

static void end_all(struct core *core, struct commit_command *command)
{
    for (uint32_t i = 0; i < command->unit_count; i++) {
        struct commit_unit *unit = &command->units[i];
        uint32_t unknown;
        bool is_completed;
        expect_good(
            decide_complete_units(core, unit->batch, &unit->report, 1, command->size_max, &unknown, &is_completed));
    }
    for (uint32_t i = 0; i < command->delete_count; i++)
        expect_good(decide_delete(core, command->deletes[i].queue, command->deletes[i].handle, NULL));
}

enum error decide_commit(struct core *core, struct commit_command *command, struct commit_fault *fault)
{
    ASSERT(command->send_count <= COMMIT_SENDS_MAX && command->delete_count <= COMMIT_DELETES_MAX);
    ASSERT(command->hold_count <= COMMIT_HOLDS_MAX && command->unit_count <= COMMIT_UNITS_MAX);
    *fault = (struct commit_fault){0};
    enum error error = check_all(core, command, fault);
    if (error != OK)
        return error;
    size_t size_before = core->frame.events->size;
    for (uint32_t i = 0; i < command->unit_count; i++)
        command->units[i].is_completed = command->units[i].batch->state != BATCH_COMPLETED;
    add_all(core, command);
    end_all(core, command);
    for (uint32_t i = 0; i < command->unit_count; i++)
        command->units[i].is_completed =
            command->units[i].is_completed && command->units[i].batch->state == BATCH_COMPLETED;
    ASSERT(core->frame.events->size - size_before <= fault->size);
    return OK;
}
