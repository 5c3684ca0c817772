/* AddPermission and RemovePermission: statements of the queue's policy under a label. Source: reference, SQS, 1 and
 * 5.2. */
#include "api/state.h"
#include "api/text.h"
#include "api/wait.h"
#include "auth/policy.h"
#include "core/queues/decide_queue.h"

#define LABEL_SIZE_MAX 80u
#define ACTIONS_MAX 7u
#define ACCOUNT_SIZE 12u

/* The actions that an owner can allow to others, and those that only the owner may do. */
static const char *const grantable[] = {
    "*",           "ChangeMessageVisibility",    "DeleteMessage", "GetQueueAttributes",
    "GetQueueUrl", "ListDeadLetterSourceQueues", "PurgeQueue",    "ReceiveMessage",
    "SendMessage",
};

static enum error read_label(struct call *call, struct bytes *label)
{
    enum error error = params_required_text(&call->params, "Label", label);
    if (error == OK && !text_is_word(*label, LABEL_SIZE_MAX))
        return params_invalid(&call->params, "Label", *label,
                              "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length");
    return error;
}

/* A list of texts that must not be empty. `shown` is SQS's name of it. */
static enum error read_texts(struct call *call, const char *name, const char *shown, const struct bytes **texts,
                             size_t *text_count)
{
    yyjson_val *list;
    enum error error = params_names(&call->params, name, &list);
    if (error == OK && yyjson_arr_size(list) == 0)
        error = call_fail(call, ERROR_MISSING_PARAMETER, "The request must contain the parameter %s.", shown);
    if (error != OK)
        return error;
    struct bytes *read = arena_allocate(call->arena, yyjson_arr_size(list) * sizeof(*read));
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(list, index, count, item)
    {
        read[index] = params_bytes(item);
    }
    *texts = read;
    *text_count = count;
    return OK;
}

static enum error check_accounts(struct call *call, const struct policy_grant *grant)
{
    for (size_t i = 0; i < grant->account_count; i++) {
        struct bytes account = grant->accounts[i];
        bool is_number = account.size == ACCOUNT_SIZE;
        for (size_t k = 0; k < account.size; k++)
            is_number = is_number && account.ptr[k] >= '0' && account.ptr[k] <= '9';
        if (!is_number)
            return call_fail(call, ERROR_INVALID_PARAMETER_VALUE,
                             "Value [%.*s] for parameter PrincipalId is invalid. Reason: Unable to verify.",
                             (int)(account.size < 120 ? account.size : 120), (const char *)account.ptr);
    }
    return OK;
}

static enum error check_actions(struct call *call, const struct policy_grant *grant)
{
    if (grant->action_count > ACTIONS_MAX)
        return call_fail(call, ERROR_OVER_LIMIT, "%zu Actions were found, maximum allowed is %u.", grant->action_count,
                         ACTIONS_MAX);
    for (size_t i = 0; i < grant->action_count; i++) {
        bool is_known = false;
        for (size_t k = 0; k < ARRAY_LENGTH(grantable); k++)
            is_known = is_known || bytes_equal(grant->actions[i], bytes_from_string(grantable[k]));
        if (!is_known)
            return params_invalid(&call->params, "ActionName",
                                  arena_format(call->arena, "SQS:%.*s", BYTES_FORMAT(grant->actions[i])),
                                  "Only the queue owner is allowed to invoke this action.");
    }
    return OK;
}

static enum error read_grant(struct call *call, struct policy_grant *grant)
{
    enum error error = read_label(call, &grant->label);
    if (error == OK)
        error = read_texts(call, "AWSAccountIds", "AWSAccountIds", &grant->accounts, &grant->account_count);
    if (error == OK)
        error = read_texts(call, "Actions", "ActionName", &grant->actions, &grant->action_count);
    if (error == OK)
        error = check_actions(call, grant);
    return error == OK ? check_accounts(call, grant) : error;
}

static void set_policy(struct call *call, struct queue *queue, struct bytes policy)
{
    struct queue_settings settings = queue->settings;
    settings.policy = policy;
    decide_set_queue(call->core, queue, &settings);
    wait_receive_check_again(call->api, queue);
}

enum error action_add_permission(struct call *call)
{
    struct queue *queue;
    struct policy_grant grant = {.label = {NULL, 0}};
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = read_grant(call, &grant);
    if (error != OK)
        return error;
    struct bytes policy = queue->settings.policy;
    if (policy.size > 0 && policy_has_label(policy, grant.label, call->arena))
        return params_invalid(&call->params, "Label", grant.label, "Already exists.");
    if (policy.size > 0 && policy_statement_count(policy, call->arena) >= POLICY_STATEMENTS_MAX)
        return call_fail(call, ERROR_OVER_LIMIT, "The policy has %u statements, the most that are allowed.",
                         POLICY_STATEMENTS_MAX);
    policy = policy_add(policy, call_queue_arn(call, queue->name_owned), &grant, call->arena);
    if (policy.size > POLICY_SIZE_MAX)
        return call_fail(call, ERROR_OVER_LIMIT, "The policy would have %zu bytes, maximum allowed is %u.", policy.size,
                         POLICY_SIZE_MAX);
    set_policy(call, queue, policy);
    return OK;
}

enum error action_remove_permission(struct call *call)
{
    struct queue *queue;
    struct bytes label = {NULL, 0};
    enum error error = call_queue(call, &queue);
    if (error == OK)
        error = params_required_text(&call->params, "Label", &label);
    if (error != OK)
        return error;
    struct bytes policy = queue->settings.policy;
    if (policy.size == 0)
        return params_invalid(&call->params, "Label", label, "can't find label.");
    if (!policy_has_label(policy, label, call->arena))
        return params_invalid(&call->params, "Label", label, "can't find label on existing policy.");
    set_policy(call, queue, policy_remove(policy, label, call->arena));
    return OK;
}
