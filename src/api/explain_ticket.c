/* ExplainTicket: where a ticket is, what it asks for now, and which rules keep it from the others. */
#include "api/pool_call.h"

#define STEPS_MAX 4096u /* of a search; a slot without a waiting ticket counts as one */

/* The results of a survey: counts by rule, and for reasons that are no rule. */
struct survey {
    const struct ticket_pool *pool;
    const struct entry *entry;
    uint64_t candidates;
    uint64_t fits;
    uint64_t by_rule[RULES_MAX];
    uint64_t errors[RULES_MAX];          /* of those: an expression ended in an error */
    uint32_t lacks[RULES_MAX];           /* attributes that the ticket lacks; bits */
    uint32_t candidates_lack[RULES_MAX]; /* attributes that a candidate lacks */
    uint64_t by_need;
    uint64_t by_their_need;
    uint64_t by_set;
};

static void note_rule(struct survey *survey, uint32_t slot, uint32_t rule)
{
    const struct pair_fault fault =
        pair_fault(&survey->pool->rules_owned->rules[rule], survey->entry, ticket_entry(survey->pool, slot));
    survey->by_rule[rule]++;
    survey->errors[rule] += fault.is_error;
    survey->lacks[rule] |= fault.first_lacks;
    survey->candidates_lack[rule] |= fault.second_lacks;
}

static void note(void *context, uint32_t slot, const struct pair_check *check)
{
    struct survey *survey = context;
    survey->candidates++;
    switch (check->verdict) {
    case PAIR_FITS:
        survey->fits++;
        break;
    case PAIR_RULE:
        note_rule(survey, slot, check->rule);
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

/* The names of attributes, if there are any. */
static void write_attributes(struct writer *writer, const char *name, const struct rules *rules, uint32_t attributes)
{
    if (attributes == 0)
        return;
    writer_list_begin(writer, name);
    for (uint32_t i = 0; i < rules->attribute_count; i++)
        if ((attributes >> i & 1) != 0)
            writer_text(writer, NULL, rules->attributes[i].name);
    writer_list_end(writer);
}

/* Does the entry lack what a rule asks for now? An expression may do without: its rejects tell. */
static bool rule_is_unmet(const struct rule *rule, const struct entry *entry)
{
    return rule->type != RULE_EXPRESSION && !rule->may_be_missing && rule->bound[entry->level] != RULE_OFF &&
           !facts_at(entry->facts, rule->attribute)->is_there;
}

static void write_bounds(struct call *call, const struct rules *rules, const struct entry *entry)
{
    const uint32_t level = entry->level;
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
        if (rule_is_unmet(rule, entry))
            write_attributes(writer, "Lacks", rules, 1u << rule->attribute);
        writer_object_end(writer);
    }
    writer_list_end(writer);
}

/* What a rule rejects, and what it could not judge. */
static void write_rule_reject(struct writer *writer, const struct survey *survey, uint32_t rule)
{
    const struct rules *rules = survey->pool->rules_owned;
    if (survey->by_rule[rule] == 0)
        return;
    writer_object_begin(writer, NULL);
    writer_text(writer, "Rule", rules->rules[rule].label);
    writer_number(writer, "Count", survey->by_rule[rule]);
    if (survey->errors[rule] != 0)
        writer_number(writer, "Errors", survey->errors[rule]);
    write_attributes(writer, "Lacks", rules, survey->lacks[rule]);
    write_attributes(writer, "CandidatesLack", rules, survey->candidates_lack[rule]);
    writer_object_end(writer);
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
        write_rule_reject(writer, survey, i);
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
    struct survey survey = {.pool = pool, .entry = entry};
    bool is_complete = look(pool, entry, ticket_is_free(pool, ticket), &survey);
    uint64_t step_ms = rules_step_ms(rules, entry->level);
    writer_number(call->reply, "Level", entry->level);
    write_bounds(call, rules, entry);
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
