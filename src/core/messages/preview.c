#include "core/messages/preview.h"

#include "core/finish.h"
#include "core/messages/move.h"
#include "core/state.h"

void preview_init(struct preview *preview, const struct core *core)
{
    *preview = (struct preview){.core = core, .visits_left = PREVIEW_VISITS_MAX, .is_complete = true};
    number_map_init(&preview->batches);
    number_map_init(&preview->groups);
    number_map_init(&preview->leaving);
    number_map_init(&preview->queues);
}

void preview_deinit(struct preview *preview)
{
    number_map_deinit(&preview->batches);
    number_map_deinit(&preview->groups);
    number_map_deinit(&preview->leaving);
    number_map_deinit(&preview->queues);
}

/* Numbers are counted once. */
static void note(struct number_map *map, uint64_t number)
{
    if (number_map_find(map, number) == 0)
        number_map_insert(map, number, 1);
}

/* May it look at one more? */
static bool look(struct preview *preview)
{
    preview->is_complete = preview->visits_left > 0;
    preview->visits_left -= preview->is_complete;
    return preview->is_complete;
}

/* The batch that loses a unit when the message ends, and that unit; NULL: none does. A batch's message is, if the
 * batch's parent waits for it, a unit of that. */
static const struct batch *batch_of_unit(const struct core *core, const struct message *message, uint32_t *unit)
{
    const struct batch *batch = message->batch == 0 ? NULL : core_batch(core, message->batch);
    if (batch == NULL)
        return NULL;
    *unit = message->completes == 0 ? message->unit : batch->parent_unit;
    if (message->completes == 0)
        return batch;
    return batch->parent == 0 || !batch_is_awaited(batch, message->completes) ? NULL : core_batch(core, batch->parent);
}

/* --- what ends ---------------------------------------------------------------------------------------------------- */

/* A dead letter has failed already: its unit has ended, and its dependents were told. */
static void count_failure(struct preview *preview, const struct message *message)
{
    uint32_t unit;
    const struct antecedent *antecedent =
        antecedent_get(&preview->core->dependencies, ANTECEDENT_MESSAGE, message->number);
    const struct batch *batch = batch_of_unit(preview->core, message, &unit);
    if (message->is_moved)
        return;
    if (antecedent != NULL)
        preview->dependents += antecedent->untold_count;
    if (batch == NULL || batch->is_cancelled ||
        (batch->spec.tracking == BATCH_EXACT && ledger_state(&batch->ledger, unit) != UNIT_OUTSTANDING))
        return;
    preview->units++;
    note(&preview->batches, batch->number);
}

/* A group ends with its last message. */
static void count_leaving(struct preview *preview, const struct message *message)
{
    const uint32_t slot = core_group_of(preview->core, message);
    const struct group *group = slot == 0 ? NULL : core_group(preview->core, slot);
    if (group == NULL || group->id_owned.size == 0)
        return;
    const uint32_t before = number_map_find(&preview->leaving, group->number);
    if (before != 0)
        number_map_remove(&preview->leaving, group->number);
    number_map_insert(&preview->leaving, group->number, before + 1);
    preview->ending_groups += before + 1 == group->count;
}

static void count_end(struct preview *preview, uint32_t slot)
{
    const struct message *message = core_message(preview->core, slot);
    preview->messages++;
    preview->in_flight += message->state == MESSAGE_IN_FLIGHT;
    count_leaving(preview, message);
    count_failure(preview, message);
}

void preview_purge(struct preview *preview, const struct queue *queue)
{
    struct message_walk walk;
    message_walk_begin(&walk, preview->core, queue, (struct message_place){0});
    for (uint32_t slot; (slot = message_walk_next(&walk)) != 0 && look(preview);)
        count_end(preview, slot);
    preview->messages = core_message_list(preview->core, queue)->count;
    preview->in_flight = core_message_list(preview->core, queue)->in_flight_count;
}

/* The head of a group, or a message in none, is given up; with what stands behind it. */
static void count_given_up(struct preview *preview, const struct queue *queue, uint32_t head, bool with_rest)
{
    const struct core *core = preview->core;
    if (finish_dead_letter_queue(core, queue) == NULL) {
        count_end(preview, head);
    } else {
        preview->dead_lettered = 1;
        count_leaving(preview, core_message(core, head));
        count_failure(preview, core_message(core, head));
    }
    uint32_t slot = with_rest ? core_extra_of(core, core_message(core, head))->next : 0;
    for (; slot != 0 && look(preview); slot = core_extra_of(core, core_message(core, slot))->next)
        count_end(preview, slot);
}

void preview_release_message(struct preview *preview, const struct queue *queue, uint32_t slot,
                             const struct release_outlook *outlook)
{
    if (outlook->outcome == FAILURE_DEAD_LETTERED)
        count_given_up(preview, queue, slot, outlook->cancels_rest);
}

enum error preview_release(struct preview *preview, const struct queue *queue, struct bytes id,
                           enum group_release action)
{
    const struct core *core = preview->core;
    const uint32_t group = group_find(core, queue->message_list, id);
    if (group == 0 || !core_group(core, group)->is_held)
        return ERROR_GROUP_NOT_HELD;
    const uint32_t head = core_group(core, group)->first;
    if (action != RELEASE_RETRY)
        count_given_up(preview, queue, head, action == RELEASE_CANCEL_REST);
    return OK;
}

/* Its units end, whatever they are; messages among them, too. */
void preview_cancel(struct preview *preview, const struct batch *batch)
{
    const struct core *core = preview->core;
    const struct antecedent *antecedent = antecedent_get(&preview->core->dependencies, ANTECEDENT_BATCH, batch->number);
    if (batch->state == BATCH_COMPLETED)
        return;
    for (uint32_t i = 0; i < batch->ledger.reference_count && look(preview); i++) {
        const struct ledger_reference *reference = &batch->ledger.references_owned[i];
        const uint32_t slot = reference->kind == UNIT_MESSAGE ? core_find_message(core, reference->value) : 0;
        if (slot != 0 && !core_message_is_dead(core, core_message(core, slot)))
            count_end(preview, slot);
    }
    preview->units = batch_counts(batch).remaining;
    if (antecedent != NULL)
        preview->dependents += antecedent->untold_count;
    if (batch->spec.tracking == BATCH_XOR)
        preview->is_complete = false;
}

/* --- what a task does --------------------------------------------------------------------------------------------- */

static void refuse(struct preview *preview, uint64_t number, enum refusal_reason reason)
{
    preview->refused++;
    if (preview->refusal_count < REFUSALS_MAX)
        preview->refusals[preview->refusal_count++] = (struct refusal){.number = number, .reason = (uint8_t)reason};
}

static void count_queue(struct preview *preview, uint32_t id)
{
    uint32_t index = number_map_find(&preview->queues, id);
    if (index == 0 && preview->queue_count == PREVIEW_QUEUES_MAX)
        return;
    if (index == 0) {
        preview->queue_counts[preview->queue_count++] = (struct preview_queue){.id = id};
        index = preview->queue_count;
        number_map_insert(&preview->queues, id, index);
    }
    preview->queue_counts[index - 1].messages++;
}

/* A dead letter's unit is outstanding again, and who is held because of it waits for the new message. */
static void count_move(struct preview *preview, uint32_t slot, const struct queue *target)
{
    const struct core *core = preview->core;
    const struct message *message = core_message(core, slot);
    const uint32_t line = move_find_line(core, message, target);
    const struct antecedent *antecedent =
        antecedent_get(&preview->core->dependencies, ANTECEDENT_MESSAGE, message->number);
    uint32_t unit;
    const struct batch *batch = batch_of_unit(core, message, &unit);
    preview->messages++;
    count_queue(preview, target->id);
    if (line != 0 && core_group(core, line)->is_held)
        note(&preview->groups, core_group(core, line)->number);
    if (antecedent != NULL)
        preview->dependents += antecedent->untold_count + antecedent->told_count;
    if (batch != NULL && message->is_moved && !batch->is_cancelled)
        note(&preview->batches, batch->number);
}

static void count_act(struct preview *preview, const struct queue *source, struct bytes destination,
                      enum selection_act act, uint32_t slot)
{
    enum move_failure failure;
    const struct message *message = core_message(preview->core, slot);
    const enum refusal_reason reason = selection_why_not(preview->core, act, slot);
    if (reason != NOT_REFUSED) {
        refuse(preview, message->number, reason);
    } else if (act == SELECTION_DELETES) {
        count_end(preview, slot);
    } else {
        const struct queue *target = move_find_target(preview->core, source, destination, message, &failure);
        if (target == NULL)
            refuse(preview, message->number, failure == MOVE_NO_ORIGIN ? REFUSED_NO_ORIGIN : REFUSED_NO_QUEUE);
        else
            count_move(preview, slot, target);
    }
}

static void preview_numbers(struct preview *preview, const struct queue *source, struct bytes destination,
                            uint64_t messages_max, const struct selection_command *selection)
{
    const struct core *core = preview->core;
    for (uint32_t i = 0; i < selection->number_count && preview->messages < messages_max; i++) {
        const uint32_t slot = core_find_message(core, selection->numbers[i]);
        const struct message *message = slot == 0 ? NULL : core_message(core, slot);
        if (message == NULL || message->message_list != source->message_list || core_message_is_dead(core, message))
            refuse(preview, selection->numbers[i], REFUSED_ABSENT);
        else
            count_act(preview, source, destination, selection->act, slot);
    }
}

void preview_selection(struct preview *preview, const struct queue *source, struct bytes destination,
                       uint64_t messages_max, const struct selection_command *selection)
{
    struct message_walk walk;
    if (selection->number_count > 0) {
        preview_numbers(preview, source, destination, messages_max, selection);
        return;
    }
    message_walk_begin(&walk, preview->core, source, (struct message_place){0});
    while (preview->messages < messages_max) {
        const uint32_t slot = message_walk_next(&walk);
        if (slot == 0 || !look(preview))
            return;
        if (!core_message_is_dead(preview->core, core_message(preview->core, slot)) &&
            message_filter_takes(&selection->filter, preview->core, source, slot))
            count_act(preview, source, destination, selection->act, slot);
    }
}
