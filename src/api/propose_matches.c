/* ProposeMatches: matches found by programs outside of the server. Each proposal is a decision of its own. */
#include "api/text.h"
#include "api/wait.h"
#include "core/pools/decide_match.h"
#include "core/pools/made_match.h"

#define PROPOSALS_MAX 100u

/* How many are judged in one turn; the next turns judge the rest. Takes some milliseconds. */
#define STEPS_A_TURN 65536u

/* --- reading ------------------------------------------------------------------------------------------------------ */

static enum error invalid(struct call *call, const char *why)
{
    return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "%s", why);
}

static enum error read_member(struct call *call, yyjson_val *item, size_t index, struct proposed_member *member)
{
    yyjson_val *version = yyjson_obj_get(item, "Version");
    member->key = params_bytes(yyjson_obj_get(item, "TicketId"));
    if (!yyjson_is_obj(item) || !pool_call_is_id(member->key))
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Members[%zu] must be an object with TicketId, 1 to 128 letters, digits and punctuation.",
                         index);
    if (!yyjson_is_uint(version) || yyjson_get_uint(version) < 1 || yyjson_get_uint(version) > UINT32_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                         "Members[%zu].Version must be the ticket's version, a whole number from 1 on.", index);
    member->version = (uint32_t)yyjson_get_uint(version);
    return OK;
}

static enum error read_members(struct call *call, const struct params *params, struct proposal_command *command)
{
    yyjson_val *list;
    enum error error = params_list(params, "Members", &list);
    size_t index, count = yyjson_arr_size(list);
    if (error != OK)
        return error;
    if (count < 1 || count > RULES_WEIGHT_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Members holds %zu tickets; a match has 1 to %u.", count,
                         RULES_WEIGHT_MAX);
    struct proposed_member *members = arena_allocate(call->arena, count * sizeof(*members));
    yyjson_val *item;
    yyjson_arr_foreach(list, index, count, item)
    {
        error = read_member(call, item, index, &members[index]);
        if (error != OK)
            return error;
    }
    command->members = members;
    command->member_count = (uint32_t)count;
    return OK;
}

static enum error read_body(struct call *call, const struct params *params, struct proposal_command *command)
{
    enum error error = params_text(params, "Body", &command->body);
    command->has_body = command->body.ptr != NULL;
    if (error == OK && command->body.size > MATCH_BODY_SIZE_MAX)
        return call_fail(call, ERROR_INVALID_PARAMETER_VALUE, "Body is %zu bytes; the limit is %u.", command->body.size,
                         MATCH_BODY_SIZE_MAX);
    if (error == OK && !text_is_allowed(command->body))
        return call_fail(call, ERROR_INVALID_MESSAGE_CONTENTS, "Body: %s",
                         error_row(ERROR_INVALID_MESSAGE_CONTENTS)->text);
    return error;
}

static enum error read_proposal(struct call *call, const struct params *params, struct proposal_command *command)
{
    int64_t version = 0;
    *command = (struct proposal_command){.proposal = params_bytes(yyjson_obj_get(params->object, "ProposalId"))};
    if (!pool_call_is_id(command->proposal))
        return invalid(call, "ProposalId must be a text of 1 to 128 ASCII letters, digits and punctuation.");
    yyjson_val *score = yyjson_obj_get(params->object, "Score");
    if (score != NULL && !yyjson_is_null(score) && !yyjson_is_num(score))
        return invalid(call, "Score must be a number.");
    enum error error =
        params_integer_in(params, "RulesVersion", 0, UINT32_MAX, "It must be from 0 to 4294967295.", &version);
    command->rules_version = (uint32_t)version;
    if (error == OK)
        error = read_body(call, params, command);
    return error == OK ? read_members(call, params, command) : error;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static const char *const status_names[] = {
    [PROPOSAL_MATCHED] = "matched",         [PROPOSAL_KEY_REUSED] = "key-reused", [PROPOSAL_INVALID] = "invalid",
    [PROPOSAL_CONFLICT] = "conflict",       [PROPOSAL_STALE] = "stale",           [PROPOSAL_BY_RULES] = "invalid",
    [PROPOSAL_RESULT_FULL] = "result-full",
};

static const char *const fault_names[] = {
    [MEMBER_MATCHED] = "matched", [MEMBER_HELD] = "held",   [MEMBER_CANCELLED] = "cancelled",
    [MEMBER_EXPIRED] = "expired", [MEMBER_STALE] = "stale", [MEMBER_EXCLUSIVE] = "exclusive-set",
    [MEMBER_UNKNOWN] = "unknown", [MEMBER_TWICE] = "twice",
};

static void write_fault(struct call *call, const struct ticket_pool *pool, struct bytes id, enum member_fault fault,
                        uint32_t slot)
{
    writer_object_begin(call->reply, NULL);
    writer_text(call->reply, "TicketId", id);
    writer_string(call->reply, "Why", fault_names[fault]);
    if (slot != 0) {
        const struct ticket *ticket = ticket_at(&pool->tickets, slot);
        pool_write_match_of(call, ticket);
        writer_number(call->reply, "Version", ticket->version);
    }
    writer_object_end(call->reply);
}

static void write_members(struct call *call, const struct ticket_pool *pool, const struct proposal_command *command,
                          const struct proposal_result *result)
{
    bool has_begun = false;
    for (uint32_t i = 0; i < command->member_count; i++) {
        if (result->faults[i] == MEMBER_IS_GOOD)
            continue;
        if (!has_begun)
            writer_list_begin(call->reply, "Members");
        has_begun = true;
        write_fault(call, pool, command->members[i].key, (enum member_fault)result->faults[i], result->tickets[i]);
    }
    if (has_begun)
        writer_list_end(call->reply);
}

/* The rule that two members break, with the name that DescribePool gives it. */
static struct bytes rule_name(const struct ticket_pool *pool, const struct pair_check *check)
{
    switch (check->verdict) {
    case PAIR_RULE:
        return pool->rules_owned->rules[check->rule].label;
    case PAIR_EXCLUSIVE:
        return BYTES("exclusive-set");
    case PAIR_NEED_FIRST:
    case PAIR_NEED_SECOND:
        return BYTES("need");
    default:
        return BYTES("teams");
    }
}

static struct bytes why(struct call *call, const struct ticket_pool *pool, const struct proposal_result *result)
{
    switch (result->status) {
    case PROPOSAL_KEY_REUSED:
        return BYTES("The ProposalId was matched with other content.");
    case PROPOSAL_INVALID:
        if (result->check.verdict == PAIR_DEAR)
            return arena_format(call->arena, "To hold each two members against the rules takes more than %u steps.",
                                PROPOSAL_STEPS_MAX);
        if (result->is_too_large)
            return arena_format(call->arena, "What the members say is more than %u bytes together.",
                                TICKET_GROUP_SIZE_MAX);
        if (!result->is_wrong_weight)
            return BYTES("A ticket is unknown, or is named twice.");
        return pool->rules_owned->has_teams
                   ? BYTES("No division of the members into the teams has the right weights.")
                   : arena_format(call->arena, "The members' weights are not %u together.", pool->rules_owned->weight);
    case PROPOSAL_BY_RULES:
        return rule_name(pool, &result->check);
    case PROPOSAL_RESULT_FULL:
        return BYTES("The result queue holds ResultsMax messages, or has gone.");
    default:
        return BYTES("");
    }
}

static void write_result(struct call *call, const struct ticket_pool *pool, const struct proposal_command *command,
                         const struct proposal_result *result)
{
    struct writer *writer = call->reply;
    struct bytes text = why(call, pool, result);
    writer_string(writer, "Status", status_names[result->status]);
    if (result->status == PROPOSAL_MATCHED)
        pool_write_match_id(call, result->match);
    if (result->status == PROPOSAL_STALE && result->is_stale_rules)
        writer_number(writer, "RulesVersion", pool->rules_version);
    if (text.size > 0)
        writer_text(writer, "Why", text);
    bool lists_members = result->status == PROPOSAL_INVALID || result->status == PROPOSAL_CONFLICT ||
                         (result->status == PROPOSAL_STALE && !result->is_stale_rules);
    if (lists_members)
        write_members(call, pool, command, result);
}

/* --- the action --------------------------------------------------------------------------------------------------- */

/* Returns its cost, in steps. */
static uint64_t propose(struct call *call, struct ticket_pool *pool, yyjson_val *item)
{
    struct proposal_result result = {0};
    struct params params = {.object = item, .failure = call->failure};
    struct proposal_command command;
    writer_object_begin(call->reply, NULL);
    yyjson_val *id = yyjson_obj_get(item, "ProposalId");
    if (yyjson_is_str(id))
        writer_text(call->reply, "ProposalId", params_bytes(id));
    if (read_proposal(call, &params, &command) != OK) {
        writer_string(call->reply, "Status", status_names[PROPOSAL_INVALID]);
        writer_string(call->reply, "Why", call->failure->text);
    } else {
        call->core = namespace_begin(call->ns, call->now_ms);
        decide_propose(call->core, pool, &command, &result);
        write_result(call, pool, &command, &result);
    }
    writer_object_end(call->reply);
    return result.check.work / PAIR_WORK_A_STEP;
}

static enum error read_proposals(struct call *call, yyjson_val **list)
{
    enum error error = params_list(&call->params, "Proposals", list);
    if (error != OK)
        return error;
    size_t index, count = yyjson_arr_size(*list);
    if (count == 0)
        return call_fail(call, ERROR_EMPTY_BATCH_REQUEST, "Proposals must hold at least one proposal.");
    if (count > PROPOSALS_MAX)
        return call_fail(call, ERROR_TOO_MANY_ENTRIES,
                         "Proposals holds %zu proposals; ProposeMatches takes at most %u.", count, PROPOSALS_MAX);
    yyjson_val *item;
    yyjson_arr_foreach(*list, index, count, item)
    {
        if (!yyjson_is_obj(item))
            return call_fail(call, ERROR_SERIALIZATION, "Proposals[%zu]: It is not an object.", index);
    }
    return OK;
}

bool proposals_go_on(struct call *call, struct ticket_pool *pool, struct proposals *proposals)
{
    for (uint64_t steps = 0; proposals->left > 0 && steps < STEPS_A_TURN; proposals->left--) {
        steps += propose(call, pool, proposals->next);
        proposals->next = unsafe_yyjson_get_next(proposals->next);
    }
    if (proposals->left > 0)
        return false;
    writer_list_end(call->reply);
    return true;
}

enum error action_propose_matches(struct call *call)
{
    struct ticket_pool *pool;
    yyjson_val *list = NULL;
    enum error error = pool_call_find(call, &pool);
    if (error == OK)
        error = read_proposals(call, &list);
    if (error != OK)
        return error;
    struct proposals proposals = {.next = yyjson_arr_get_first(list), .left = yyjson_arr_size(list)};
    writer_list_begin(call->reply, "Results");
    if (!proposals_go_on(call, pool, &proposals))
        wait_pool_propose(call, pool, &proposals);
    return OK;
}
