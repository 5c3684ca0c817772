#include "core/messages/explain.h"

#include "core/finish.h"
#include "core/identity.h"

void explain_message_id(const struct core *core, uint64_t number, uint8_t id[MESSAGE_ID_SIZE])
{
    uint32_t slot = core_find_message(core, number);
    const struct message *message = slot == 0 ? NULL : core_message(core, slot);
    const uint32_t match = message == NULL || !message->is_result ? 0 : made_match_find_message(core, number);
    if (match != 0)
        identity_match(core->digest_owned, made_match_at(core, match)->number, id);
    else if (message != NULL && message->completes != 0)
        core_completion_id(core, slot, id);
    else
        identity_message(core->digest_owned, number, id);
}

/* Reasons beyond this number are left out: a message may wait for thousands. */
static void add(struct explanation *explanation, const struct why *why)
{
    ASSERT(explanation->count <= WHYS_MAX);
    if (explanation->count < WHYS_MAX)
        explanation->whys[explanation->count++] = *why;
}

/* --- what it waits for by itself ---------------------------------------------------------------------------------- */

struct why explain_lease(const struct message *message, enum why_code code)
{
    return (struct why){.code = code,
                        .head_state = (enum message_state)message->state,
                        .number = message->number,
                        .since_ms = message->sent_at_ms + message->received_after_ms,
                        .until_ms = message->visible_at_ms,
                        .delivery = message->delivery};
}

/* When the failed antecedent that holds the message ended; 0: not remembered. */
static uint64_t failed_at_ms(const struct core *core, const struct antecedent_view *view, uint32_t batch)
{
    if (view->kind == ANTECEDENT_BATCH)
        return batch == 0 ? 0 : core_batch(core, batch)->completed_at_ms;
    const struct outcome *failure =
        outcomes_find(&core->dependencies.failures, (struct digest_tag){.low = view->number});
    return failure == NULL ? 0 : failure->ended_at_ms;
}

/* An ended antecedent is named until its edge is resolved, because dependents are told in portions. */
static void add_antecedents(const struct core *core, uint32_t slot, struct explanation *explanation)
{
    uint32_t edge = 0;
    struct antecedent_view view;
    while (explanation->count < WHYS_MAX && dependency_next(core, slot, &edge, &view)) {
        bool is_batch = view.kind == ANTECEDENT_BATCH;
        struct why why = {.number = is_batch ? 0 : view.number,
                          .text = view.batch_id,
                          .outcome = view.outcome,
                          .since_ms = core_message(core, slot)->sent_at_ms};
        uint32_t batch = is_batch ? core_find_batch_by_number(core, view.number) : 0;
        if (view.is_holding) {
            why.code = WHY_ANTECEDENT_FAILED;
            why.since_ms = failed_at_ms(core, &view, batch);
        } else if (is_batch) {
            why.code = WHY_BATCH;
            why.count = batch == 0 ? 0 : batch_counts(core_batch(core, batch)).remaining;
        } else {
            why.code = WHY_MESSAGE;
        }
        add(explanation, &why);
    }
}

static void add_types(const struct core *core, uint32_t slot, struct explanation *explanation)
{
    struct type_blocker blockers[TYPES_MAX];
    if (core_extra_of(core, core_message(core, slot))->typed == 0 || !type_order_is_blocked(core, slot))
        return;
    unsigned count = type_order_blockers(core, slot, blockers);
    uint64_t since_ms = core_message(core, slot)->sent_at_ms;
    for (unsigned i = 0; i < count; i++) {
        if (blockers[i].message != 0)
            add(explanation, &(struct why){.code = WHY_TYPE,
                                           .text = blockers[i].type,
                                           .since_ms = since_ms,
                                           .number = core_message(core, blockers[i].message)->number});
        if (blockers[i].needs_a_success)
            add(explanation, &(struct why){.code = WHY_TYPE_REQUIRED, .text = blockers[i].type, .since_ms = since_ms});
    }
}

/* Its past: how many deliveries failed, and why the newest attempt failed. */
static struct why of_returns(const struct core *core, const struct message *message, enum why_code code)
{
    const struct message_extra *extra = core_extra_of(core, message);
    return (struct why){.code = code,
                        .count = message->receive_count - (message->state == MESSAGE_IN_FLIGHT),
                        .reason = extra == NULL ? bytes_make(NULL, 0) : extra->reason_owned};
}

static struct why of_delay(const struct core *core, const struct message *message)
{
    struct why why = {.code = WHY_DELAYED, .since_ms = message->sent_at_ms};
    if (message->receive_count > 0)
        why = of_returns(core, message, WHY_BACK_OFF);
    why.until_ms = message->visible_at_ms;
    return why;
}

static void add_own(const struct core *core, uint32_t slot, struct explanation *explanation)
{
    const struct message *message = core_message(core, slot);
    switch ((enum message_state)message->state) {
    case MESSAGE_IN_FLIGHT: {
        struct why why = explain_lease(message, WHY_IN_FLIGHT);
        add(explanation, &why);
        explanation->condition = CONDITION_IN_FLIGHT;
        break;
    }
    case MESSAGE_DELAYED: {
        struct why why = of_delay(core, message);
        add(explanation, &why);
        explanation->condition = CONDITION_DELAYED;
        break;
    }
    case MESSAGE_WAITING:
        explanation->condition = core_extra_of(core, message)->is_held ? CONDITION_HELD : CONDITION_BLOCKED;
        add_antecedents(core, slot, explanation);
        add_types(core, slot, explanation);
        if (message->visible_at_ms > core->now_ms)
            add(explanation, &(struct why){.code = WHY_DELAYED,
                                           .since_ms = message->sent_at_ms,
                                           .until_ms = message->visible_at_ms});
        break;
    case MESSAGE_FRESH:
    case MESSAGE_RETURNED:
        break;
    }
}

/* --- what its group and its queue make it wait for ---------------------------------------------------------------- */

static void add_group(const struct core *core, const struct queue *queue, uint32_t slot, uint32_t group_slot,
                      struct explanation *explanation)
{
    const struct group *group = core_group(core, group_slot);
    const struct queue_settings *settings = &queue->settings;
    if (group->is_line && group->first != slot) {
        struct why why = explain_lease(core_message(core, group->first), WHY_GROUP_HEAD);
        add(explanation, &why);
    }
    if (group->is_held)
        add(explanation,
            &(struct why){.code = WHY_GROUP_HELD, .since_ms = group->since_ms, .text = group->reason_owned});
    if (group->is_paused)
        add(explanation, &(struct why){.code = WHY_GROUP_PAUSED});
    if (!group->is_line && settings->group_concurrency > 0 && group->in_flight_count >= settings->group_concurrency)
        add(explanation, &(struct why){.code = WHY_GROUP_CONCURRENCY,
                                       .count = group->in_flight_count,
                                       .limit = settings->group_concurrency});
    if (!group_has_token(core, group))
        add(explanation, &(struct why){.code = WHY_GROUP_RATE,
                                       .until_ms = rate_allows_at_ms(&settings->group_rate, group->rate_tat_us)});
}

static void add_queue(const struct core *core, const struct queue *queue, struct explanation *explanation)
{
    uint64_t open_at_ms = rate_allows_at_ms(&queue->settings.queue_rate, queue->rate_tat_us);
    if (queue->is_paused)
        add(explanation, &(struct why){.code = WHY_QUEUE_PAUSED});
    if (open_at_ms > core->now_ms)
        add(explanation, &(struct why){.code = WHY_QUEUE_RATE, .until_ms = open_at_ms});
}

/* Comes last, because it explains no wait, except by a back-off, which was already named. */
static void add_returns(const struct core *core, const struct message *message, struct explanation *explanation)
{
    const struct message_extra *extra = core_extra_of(core, message);
    struct why why = of_returns(core, message, WHY_RETURNED);
    bool is_told = message->state == MESSAGE_DELAYED || (extra != NULL && extra->is_final);
    if (why.count > 0 && !is_told)
        add(explanation, &why);
}

static void add_attempts(const struct core *core, const struct queue *queue, const struct message *message,
                         struct explanation *explanation)
{
    uint32_t attempts = core_attempt_count(core, message);
    uint32_t attempts_max = queue->settings.receive_count_max;
    const struct message_extra *extra = core_extra_of(core, message);
    if (extra != NULL && extra->is_final)
        add(explanation, &(struct why){.code = WHY_FAILED_FOR_GOOD, .text = extra->reason_owned});
    else if (attempts >= attempts_max && finish_dead_letter_queue(core, queue) != NULL)
        add(explanation, &(struct why){.code = WHY_OUT_OF_ATTEMPTS, .count = attempts, .limit = attempts_max});
}

void explain_slot(const struct core *core, const struct queue *queue, uint32_t slot, struct explanation *explanation)
{
    const struct message *message = core_message(core, slot);
    ASSERT(message->message_list == queue->message_list);
    explanation->condition = CONDITION_READY;
    explanation->is_received = message->receive_count > 0;
    explanation->count = 0;
    if (core_message_is_dead(core, message)) {
        explanation->condition = CONDITION_ENDED;
        add(explanation, &(struct why){.code = WHY_CANCELLED});
        return;
    }
    add_own(core, slot, explanation);
    if (explanation->condition == CONDITION_IN_FLIGHT) {
        add_returns(core, message, explanation);
        return;
    }
    uint32_t group = core_group_of(core, message);
    if (group != 0)
        add_group(core, queue, slot, group, explanation);
    add_queue(core, queue, explanation);
    if (group != 0 && core_group(core, group)->is_held)
        explanation->condition = CONDITION_HELD;
    else if (explanation->condition == CONDITION_READY && explanation->count > 0)
        explanation->condition = CONDITION_BLOCKED;
    bool is_held = explanation->condition == CONDITION_HELD; /* which says why already */
    if (!is_held)
        add_attempts(core, queue, message, explanation);
    add_returns(core, message, explanation);
}

enum message_condition explain_condition(const struct core *core, const struct queue *queue, uint32_t slot)
{
    const struct message *message = core_message(core, slot);
    const uint32_t group = core_group_of(core, message);
    struct explanation explanation;
    if (core_message_is_dead(core, message))
        return CONDITION_ENDED;
    if (message->state == MESSAGE_IN_FLIGHT)
        return CONDITION_IN_FLIGHT;
    if (group != 0 && core_group(core, group)->is_held)
        return CONDITION_HELD;
    if (message->state == MESSAGE_WAITING)
        return core_extra_of(core, message)->is_held ? CONDITION_HELD : CONDITION_BLOCKED;
    if (message->state == MESSAGE_DELAYED)
        return CONDITION_DELAYED;
    explain_slot(core, queue, slot, &explanation);
    return explanation.condition;
}

/* --- messages that are gone --------------------------------------------------------------------------------------- */

static void explain_end(const struct core *core, uint64_t number, struct explanation *explanation)
{
    const struct outcomes *failures = &core->dependencies.failures;
    const struct outcome *failure = outcomes_find(failures, (struct digest_tag){.low = number});
    explanation->condition = CONDITION_ENDED;
    if (failure == NULL && number <= failures->forgotten_number)
        return; /* it may have failed so long ago that this is forgotten */
    add(explanation, &(struct why){.code = WHY_OUTCOME,
                                   .outcome = failure == NULL ? UNIT_SUCCEEDED : (enum unit_state)failure->state,
                                   .since_ms = failure == NULL ? 0 : failure->ended_at_ms});
}

/* A result message has the id of its match, which knows the message as long as it exists. So long is the message of a
 * batch event known, too. */
uint64_t explain_find_number(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE])
{
    uint64_t number = identity_message_number(core->digest_owned, id);
    if (number != 0)
        return number;
    const uint32_t match = made_match_find(core, identity_match_number(core->digest_owned, id));
    if (match != 0)
        return made_match_at(core, match)->message;
    const uint32_t completion = core_find_completion(core, id);
    return completion == 0 ? 0 : core_message(core, completion)->number;
}

uint32_t explain_find(const struct core *core, const uint8_t id[MESSAGE_ID_SIZE], struct queue **queue)
{
    const uint64_t number = explain_find_number(core, id);
    const uint32_t slot = number == 0 ? 0 : core_find_message(core, number);
    const uint32_t there = slot == 0 ? 0 : core_message_list_at(core, core_message(core, slot)->message_list)->queue;
    *queue = there == 0 ? NULL : core_queue(core, there);
    return there == 0 ? 0 : slot;
}

void explain_message(const struct core *core, const struct queue *queue, const uint8_t id[MESSAGE_ID_SIZE],
                     struct explanation *explanation)
{
    *explanation = (struct explanation){.condition = CONDITION_UNKNOWN};
    uint64_t number = explain_find_number(core, id);
    if (number == 0 || number > core->messages.message_number)
        return;
    uint32_t slot = core_find_message(core, number);
    if (slot == 0) {
        explanation->is_gone = explanation->is_received = true;
        explain_end(core, number, explanation);
        return;
    }
    const struct message *message = core_message(core, slot);
    uint32_t other = core_message_list_at(core, message->message_list)->queue;
    if (queue == NULL ? other != 0 : message->message_list == queue->message_list) {
        explain_slot(core, core_queue(core, other), slot, explanation);
    } else if (other == 0) {
        explanation->is_gone = true; /* of a queue that was purged or deleted */
        explanation->condition = CONDITION_ENDED;
        add(explanation, &(struct why){.code = WHY_CANCELLED});
    } else if (message->origin != 0 && core_queue(core, message->origin) == queue) {
        struct why why = of_returns(core, message, WHY_OTHER_QUEUE);
        why.text = core_queue(core, other)->name_owned;
        explanation->condition = CONDITION_ENDED;
        add(explanation, &why);
    }
}
