/* The antecedents of a new message: looks up the names that its sender gives. */
#include "core/order/dependency.h"

#include "core/messages/decide_send.h"
#include "core/order/type_lane.h"
#include "core/state.h"

#include "base/accounted.h"
#include <stdlib.h>

/* --- looking up --------------------------------------------------------------------------------------------------- */

static bool find_message(const struct core *core, uint64_t number, uint32_t failures_before,
                         struct antecedent_found *found, bool *is_forgotten)
{
    *found = (struct antecedent_found){.kind = ANTECEDENT_MESSAGE, .number = number};
    uint32_t slot = core_find_message(core, number);
    if (slot != 0) {
        found->outcome = core_message(core, slot)->is_moved ? UNIT_FAILED : UNIT_OUTSTANDING;
        return true;
    }
    uint64_t forgotten_number;
    const struct outcome *failure = outcomes_find_after(
        &core->dependencies.failures, (struct digest_tag){.low = number}, failures_before, &forgotten_number);
    found->outcome = failure == NULL ? UNIT_SUCCEEDED : (enum unit_state)failure->state;
    *is_forgotten = failure == NULL && number <= forgotten_number;
    return !*is_forgotten;
}

static bool find_batch(const struct core *core, struct bytes id, struct antecedent_found *found)
{
    *found = (struct antecedent_found){.kind = ANTECEDENT_BATCH};
    const struct batch *batch = core_find_batch(core, id);
    const struct outcome *outcome = batch == NULL ? dependency_batch_outcome(core, id) : NULL;
    if (batch == NULL && outcome == NULL)
        return false;
    found->number = batch != NULL ? batch->number : outcome->number;
    if (batch == NULL)
        found->outcome = (enum unit_state)outcome->state;
    else if (batch->state == BATCH_COMPLETED)
        found->outcome = dependency_outcome_of_batch(batch);
    return true;
}

/* The number in a MessageId that this namespace made, or 0. */
static uint64_t number_of_id(const struct core *core, struct bytes text)
{
    uint8_t id[MESSAGE_ID_SIZE];
    uint64_t number = identity_from_text(text, id) ? identity_message_number(core->digest_owned, id) : 0;
    return number <= core->messages.message_number ? number : 0;
}

/* The message that a queue remembers under a deduplication id, or 0. If ids belong to groups, an id alone does not
 * identify a message. */
static uint64_t number_of_deduplication(const struct core *core, struct bytes queue_name, struct bytes id)
{
    const struct queue *queue = core_find_queue(core, queue_name);
    if (queue == NULL || queue->settings.deduplication_scope == SCOPE_GROUP)
        return 0;
    return deduplication_find(core, queue, bytes_make(NULL, 0), id);
}

static bool find_named(const struct core *core, const struct antecedent_name *name, uint32_t failures_before,
                       struct antecedent_found *found, bool *is_forgotten)
{
    uint64_t number = 0;
    switch (name->kind) {
    case NAMED_BATCH:
        return find_batch(core, name->text, found);
    case NAMED_MESSAGE:
        number = number_of_id(core, name->text);
        break;
    case NAMED_DEDUPLICATION:
        number = number_of_deduplication(core, name->queue, name->text);
        break;
    }
    return number != 0 && find_message(core, number, failures_before, found, is_forgotten);
}

/* --- the plan ----------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const struct antecedent_found *one = a, *other = b;
    if (one->kind != other->kind)
        return one->kind < other->kind ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* Sorts them and removes repeats (invariant D6: named twice, waited for once). Returns how many are left. */
static uint32_t make_distinct(struct antecedent_found *found, uint32_t count)
{
    if (count > 1)
        qsort(found, count, sizeof(*found), compare);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || compare(&found[kept - 1], &found[i]) != 0)
            found[kept++] = found[i];
    return kept;
}

/* Looks up all names and keeps those that the message must wait for, or that hold it. */
static enum error find_all(const struct core *core, const struct send_command *command, uint32_t failures_before,
                           struct antecedent_found *found, struct dependency_plan *plan, struct send_result *result)
{
    for (uint32_t i = 0; i < command->antecedent_count; i++) {
        struct antecedent_found *next = &found[plan->count];
        if (!find_named(core, &command->antecedents[i], failures_before, next, &result->is_forgotten)) {
            result->failed = i;
            return ERROR_DEPENDENCY_DOES_NOT_EXIST;
        }
        bool is_bad = next->outcome == UNIT_FAILED || next->outcome == UNIT_CANCELLED;
        plan->is_unmet = plan->is_unmet || (is_bad && command->after_failure == AFTER_FAILURE_CANCEL);
        if (next->outcome == UNIT_OUTSTANDING || (is_bad && command->after_failure == AFTER_FAILURE_HOLD))
            plan->count++;
    }
    plan->count = make_distinct(found, plan->count);
    return OK;
}

static void write_waits(const struct antecedent_found *found, struct dependency_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        buffer_append_u8(&plan->waits, (uint8_t)found[i].kind);
        buffer_append_u64(&plan->waits, found[i].number);
        buffer_append_u8(&plan->waits, (uint8_t)found[i].outcome);
    }
    ASSERT(plan->waits.size == (size_t)plan->count * WAITED_ENTRY_SIZE);
}

/* Sets the line of the message, and the types of its group that come before it. */
static void find_order(const struct core *core, const struct send_command *command, struct newcomer *newcomer)
{
    struct bytes group = command->content.group;
    if (command->queue->settings.is_fifo) {
        newcomer->queue = core_find_queue_slot(core, command->queue->id);
        newcomer->group = group_find(core, command->queue->message_list, group);
        newcomer->group_id = group;
    }
    unsigned type = command->type.size > 0 && group.size > 0 ? type_find(&core->type_orders, command->type) : TYPE_NONE;
    if (type == TYPE_NONE)
        return;
    newcomer->type_group = type_group_find(core, group);
    newcomer->types_before = core->type_orders.types[type].before;
}

static enum error check_cycle(const struct core *core, const struct send_command *command, const struct batch *batch,
                              const struct antecedent_found *found, uint32_t count, struct send_result *result)
{
    bool is_in_line = command->queue->settings.is_fifo;
    if (batch == NULL && !(is_in_line && !list_is_empty(&command->queue->awaited)))
        return OK; /* nothing can wait for a new message */
    struct newcomer newcomer = {
        .batch = batch, .antecedents = found, .antecedent_count = count, .visits = &result->visits};
    find_order(core, command, &newcomer);
    return dependency_find_cycle(core, &newcomer, result->path);
}

enum error dependency_plan(const struct core *core, const struct send_command *command, const struct batch *batch,
                           const struct commit_context *context, struct dependency_plan *plan,
                           struct send_result *result)
{
    *plan = (struct dependency_plan){0};
    buffer_init(&plan->waits);
    struct antecedent_found *found = NULL;
    if (command->antecedent_count > 0)
        found = accounted_allocate_zeroed((size_t)command->antecedent_count * sizeof(*found));
    enum error error = find_all(core, command, context->failures, found, plan, result);
    if (error == OK && !context->is_checked && !plan->is_unmet) /* else it ends at once */
        error = check_cycle(core, command, batch, found, plan->count, result);
    if (error == OK)
        write_waits(found, plan);
    accounted_free(found);
    return error;
}
