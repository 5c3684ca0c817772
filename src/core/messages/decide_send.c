/* The decision to accept a message. */
#include "core/messages/decide_send.h"
#include "core/finish.h"

#include "core/identity.h"

/* --- duplicates --------------------------------------------------------------------------------------------------- */

struct send_identity send_identity_of(const struct send_command *command)
{
    const struct queue_settings *settings = &command->queue->settings;
    const bool is_of_group = settings->deduplication_scope == SCOPE_GROUP;
    if (command->moved_id.size > 0)
        return (struct send_identity){.id = command->moved_id, .window_ms = UID_WINDOW_MS};
    if (command->content.deduplication.size == 0)
        return (struct send_identity){0};
    return (struct send_identity){
        .group = is_of_group ? command->content.group : bytes_make(NULL, 0),
        .id = command->content.deduplication,
        .window_ms = settings->deduplication_window_s == DEDUPLICATION_WINDOW_EVER
                         ? WINDOW_EVER_MS
                         : (uint64_t)settings->deduplication_window_s * 1000,
    };
}

/* Was this accepted before? Then the result names the first one, if it is still remembered. */
static bool find_duplicate(const struct core *core, const struct send_command *command, struct send_result *result)
{
    struct produced_before before;
    const struct send_identity identity = send_identity_of(command);
    uint64_t number = 0;
    if (identity.id.size > 0) /* whatever the window is now: it was another when the id came */
        number = deduplication_find(core, command->queue, identity.group, identity.id);
    if (number == 0) {
        if (command->producer.size == 0 ||
            !deduplication_find_produced(core, command->queue, command->producer, command->sequence, &before))
            return false;
        number = before.number;
        result->is_produced = true;
        result->sequence_last = before.newest;
        result->was_passed_over = before.was_passed_over;
    }
    result->is_duplicate = true;
    result->number = number;
    if (number != 0)
        identity_message(core->digest_owned, number, result->id);
    return true;
}

static void remember(struct core *core, const struct send_command *command, uint64_t number)
{
    const struct send_identity identity = send_identity_of(command);
    const bool is_for_ever = identity.window_ms == WINDOW_EVER_MS;
    if (identity.window_ms > 0)
        core_emit(core,
                  &(struct event){
                      .kind = EVENT_DEDUPLICATED,
                      .deduplicated = {.queue = command->queue->id,
                                       .group = identity.group,
                                       .id = identity.id,
                                       .number = number,
                                       .expires_at_ms = is_for_ever ? UINT64_MAX : core->now_ms + identity.window_ms},
                  });
    if (command->producer.size > 0)
        core_emit(core, &(struct event){
                            .kind = EVENT_PRODUCED,
                            .produced = {.queue = command->queue->id,
                                         .producer = command->producer,
                                         .sequence = command->sequence,
                                         .number = number},
                        });
}

/* --- accepting ---------------------------------------------------------------------------------------------------- */

/* What connects the message with others: its type, and its antecedents. */
static void emit_dependencies(struct core *core, const struct send_command *command, const struct dependency_plan *plan,
                              uint64_t number)
{
    if (command->type.size > 0 && command->content.group.size > 0 && type_order_binds(core, command->type))
        core_emit(core, &(struct event){.kind = EVENT_TYPED, .typed = {.number = number, .type = command->type}});
    if (plan->count > 0 && !plan->is_unmet)
        core_emit(core, &(struct event){
                            .kind = EVENT_WAITED,
                            .waited = {.number = number,
                                       .policy = (uint8_t)command->after_failure,
                                       .count = plan->count,
                                       .antecedents = buffer_bytes(&plan->waits)},
                        });
}

/* If it waits for a batch that does not exist yet, it is like the parent of that batch: *batch for the search for a
 * cycle. */
static enum error find_made_batch(const struct core *core, const struct commit_context *context,
                                  const struct batch **batch)
{
    const struct batch_spec *spec = &context->made->spec;
    *batch = core_find_batch(core, context->made->parent_id);
    if (spec->has_total && context->units > spec->total)
        return ERROR_BATCH_TOTAL_EXCEEDED;
    return context->units <= LEDGER_UNITS_MAX ? OK : ERROR_OVER_LIMIT;
}

/* The batch that the message is to join, or NULL. */
static enum error find_batch(const struct core *core, const struct send_command *command,
                             const struct commit_context *context, const struct batch **batch)
{
    *batch = NULL;
    if (command->batch_id.size == 0)
        return OK;
    if (context->made != NULL)
        return find_made_batch(core, context, batch);
    *batch = core_find_batch(core, command->batch_id);
    if (*batch == NULL)
        return ERROR_BATCH_DOES_NOT_EXIST;
    return batch_check_room(*batch, context->units, command->is_growth);
}

static void accept(struct core *core, const struct send_command *command, const struct batch *batch,
                   const struct dependency_plan *plan, struct send_result *result)
{
    struct content content = command->content;
    uint64_t number = core->messages.message_number + 1;
    identity_message(core->digest_owned, number, content.id);
    if (batch != NULL && command->is_growth)
        finish_growth(core, core_find_batch_by_number(core, batch->number), 1);
    buffer_truncate(&core->scratch, 0);
    content_encode(&content, &core->scratch);
    core_emit_sent(
        core, command->queue,
        &(struct event_sent_in_group){.number = number,
                                      .queue = command->queue->id,
                                      .visible_at_ms = command->delay_ms == 0 ? 0 : core->now_ms + command->delay_ms,
                                      .batch = batch == NULL ? 0 : batch->number,
                                      .unit = batch == NULL ? 0 : batch->ledger.count,
                                      .priority = command->priority,
                                      .group = content.group,
                                      .content = buffer_bytes(&core->scratch)});
    remember(core, command, number);
    emit_dependencies(core, command, plan, number);
    if (batch != NULL)
        finish_total(core, core_find_batch_by_number(core, batch->number));
    if (plan->is_unmet)
        finish_message(core, core_find_message(core, number), END_UNMET);
    result->number = number;
    memcpy(result->id, content.id, sizeof(result->id));
}

/* Checks everything and changes nothing. The caller always calls dependency_plan_deinit() on *plan. */
static enum error look_up(const struct core *core, const struct send_command *command,
                          const struct commit_context *context, const struct batch **batch,
                          struct dependency_plan *plan, struct send_result *result)
{
    *result = (struct send_result){0};
    *plan = (struct dependency_plan){0};
    if (find_duplicate(core, command, result))
        return OK;
    enum error error = find_batch(core, command, context, batch);
    return error == OK ? dependency_plan(core, command, *batch, context, plan, result) : error;
}

static enum error send_one(struct core *core, const struct send_command *command, const struct commit_context *context,
                           struct send_result *result)
{
    const struct batch *batch;
    struct dependency_plan plan;
    enum error error = look_up(core, command, context, &batch, &plan, result);
    if (error == OK && !result->is_duplicate)
        accept(core, command, batch, &plan, result);
    buffer_deinit(&plan.waits);
    return error;
}

enum error decide_send(struct core *core, const struct send_command *command, struct send_result *result)
{
    return send_one(core, command, &(struct commit_context){.units = 1}, result);
}

enum error decide_send_checked(struct core *core, const struct send_command *command, struct send_result *result)
{
    return send_one(core, command, &(struct commit_context){.units = 1, .is_checked = true}, result);
}

enum error decide_check_send(const struct core *core, const struct send_command *command,
                             const struct commit_context *context, struct send_result *result)
{
    const struct batch *batch;
    struct dependency_plan plan;
    enum error error = look_up(core, command, context, &batch, &plan, result);
    buffer_deinit(&plan.waits);
    return error;
}
