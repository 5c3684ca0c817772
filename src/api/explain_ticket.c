/* ExplainTicket: where a ticket is, what it asks for now, and which rules keep it from the others. */
#include "api/pool_call.h"

#define STEPS_MAX 4096u /* of a search; a slot without a waiting ticket counts as one */

/* The results of a survey: counts by rule, and for reasons that are no rule. */
struct survey {
    const struct ticket_pool *pool;
    uint64_t candidates;
    uint64_t fits;
    uint64_t by_rule[RULES_MAX];
    uint64_t by_need;
    uint64_t by_their_need;
    uint64_t by_set;
};

static void note(void *context, uint32_t slot, const struct pair_check *check)
{
    struct survey *survey = context;
    (void)slot;
    survey->candidates++;
    switch (check->verdict) {
    case PAIR_FITS:
        survey->fits++;
        break;
    case PAIR_RULE:
        survey->by_rule[check->rule]++;
        break;
    case PAIR_NEED_FIRST:
        survey->by_need++;
        break;
    case PAIR_NEED_SECOND:
        survey->by_their_need++;
        break;
    case PAIR_EXCLUSIVE:
        survey->by_set++;
        break;
    case PAIR_DEAR: /* of groups, never of two */
    case PAIR_TEAMS:
        break;
    }
}

/* Goes through the tickets one by one, without the index. A ticket whose exclusive set already has a match fits
 * nobody. */
static bool survey_all(const struct ticket_pool *pool, const struct entry *entry, bool is_free, struct survey *survey)
{
    uint32_t end = pool_slot_end(pool);
    uint64_t steps = 0;
    for (uint32_t slot = 1; slot < end; slot++) {
        if (steps >= STEPS_MAX)
            return false;
        const struct ticket *other = ticket_at(&pool->tickets, slot);
        if (!ticket_is_waiting(other) || other->entry.number == entry->number) {
            steps++;
            continue;
        }
        struct pair_check check = {.verdict = PAIR_EXCLUSIVE, .work = PAIR_WORK_A_STEP};
        if (is_free && ticket_is_free(pool, other)) {
            check = (struct pair_check){.verdict = PAIR_FITS};
            (void)pair_fits(pool->rules_owned, entry, ticket_entry(pool, slot), &check);
        }
        steps += check.work / PAIR_WORK_A_STEP;
        note(survey, slot, &check);
    }
    return true;
}

/* With few tickets it looks at each, so that every rule has its count. Otherwise it looks at those that the index
 * finds. */
static bool look(const struct ticket_pool *pool, const struct entry *entry, bool is_free, struct survey *survey)
{
    bool has_index = pool->is_awake && pool->index_next == 0;
    return has_index && pool_slot_end(pool) > STEPS_MAX ? matcher_survey(&pool->matcher, entry, STEPS_MAX, note, survey)
                                                        : survey_all(pool, entry, is_free, survey);
}

static void write_bounds(struct call *call, const struct rules *rules, uint32_t level)
{
    struct writer *writer = call->reply;
    writer_list_begin(writer, "Rules");
    for (uint32_t i = 0; i < rules->rule_count; i++) {
        const struct rule *rule = &rules->rules[i];
        bool has_bound = rule->type == RULE_NEAR || rule->type == RULE_SHARE || rule->type == RULE_TEAM_NEAR;
        writer_object_begin(writer, NULL);
        writer_text(writer, "Rule", rule->label);
        if (has_bound && rule->bound[level] == RULE_OFF)
            writer_string(writer, "Value", "off");
        else if (has_bound)
            writer_real(writer, "Value", rule->bound[level]);
        writer_object_end(writer);
    }
    writer_list_end(writer);
}

static void write_reject(struct writer *writer, struct bytes rule, uint64_t count)
{
    if (count == 0)
        return;
    writer_object_begin(writer, NULL);
    writer_text(writer, "Rule", rule);
    writer_number(writer, "Count", count);
    writer_object_end(writer);
}

static void write_survey(struct call *call, const struct survey *survey)
{
    struct writer *writer = call->reply;
    const struct rules *rules = survey->pool->rules_owned;
    writer_number(writer, "Candidates", survey->candidates);
    writer_number(writer, "Fits", survey->fits);
    writer_list_begin(writer, "Rejects");
    for (uint32_t i = 0; i < rules->rule_count; i++)
        write_reject(writer, rules->rules[i].label, survey->by_rule[i]);
    write_reject(writer, BYTES("need"), survey->by_need);
    write_reject(writer, BYTES("their-need"), survey->by_their_need);
    write_reject(writer, BYTES("exclusive-set"), survey->by_set);
    writer_list_end(writer);
}

static void write_waiting(struct call *call, const struct ticket_pool *pool, uint32_t slot)
{
    const struct rules *rules = pool->rules_owned;
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    const struct entry *entry = ticket_entry(pool, slot);
    struct survey survey = {.pool = pool};
    bool is_complete = look(pool, entry, ticket_is_free(pool, ticket), &survey);
    uint64_t step_ms = rules_step_ms(rules, entry->level);
    writer_number(call->reply, "Level", entry->level);
    write_bounds(call, rules, entry->level);
    if (step_ms != UINT64_MAX)
        writer_time(call->reply, "NextStepAt", entry->offered_at_ms + step_ms);
    if (entry->expires_at_ms != UINT64_MAX)
        writer_time(call->reply, "ExpiresAt", entry->expires_at_ms);
    write_survey(call, &survey);
    writer_number(call->reply, "Conflicts", ticket->conflicts);
    writer_boolean(call->reply, "Complete", is_complete);
}

enum error action_explain_ticket(struct call *call)
{
    struct ticket_pool *pool;
    uint32_t slot;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = pool_call_ticket(call, pool, &slot);
    if (error != OK)
        return error;
    const struct ticket *ticket = ticket_at(&pool->tickets, slot);
    writer_text(call->reply, "TicketId", ticket->key_owned);
    writer_string(call->reply, "Status", pool_ticket_status(ticket));
    pool_write_match_of(call, ticket);
    if (ticket->state == TICKET_WAITING)
        write_waiting(call, pool, slot);
    return OK;
}
