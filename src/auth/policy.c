#include "auth/policy.h"

#include "auth/json_tree.h"
#include "auth/patterns.h"

/* --- the form ----------------------------------------------------------------------------------------------------- */

#define MEMBERS_MAX 20u /* a statement has eight kinds */

/* A member that stands twice would let two readers see two policies. O(members squared), so there may not be many. */
static bool has_member_twice(yyjson_val *object)
{
    if (yyjson_obj_size(object) > MEMBERS_MAX)
        return true;
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(object, index, count, key, value)
    {
        if (yyjson_obj_getn(object, yyjson_get_str(key), yyjson_get_len(key)) != value)
            return true;
    }
    return false;
}

static const char *statement_fault(yyjson_val *statement)
{
    if (!yyjson_is_obj(statement))
        return "A statement is not an object.";
    if (has_member_twice(statement))
        return "A statement has the same member twice, or more than 20.";
    yyjson_val *effect = yyjson_obj_get(statement, "Effect");
    if (!yyjson_equals_str(effect, "Allow") && !yyjson_equals_str(effect, "Deny"))
        return "The Effect of a statement must be Allow or Deny.";
    if (yyjson_obj_get(statement, "Principal") == NULL && yyjson_obj_get(statement, "NotPrincipal") == NULL)
        return "A statement has no Principal.";
    if (yyjson_obj_get(statement, "Action") == NULL && yyjson_obj_get(statement, "NotAction") == NULL)
        return "A statement has no Action.";
    yyjson_val *sid = yyjson_obj_get(statement, "Sid");
    return sid != NULL && !yyjson_is_str(sid) ? "The Sid of a statement is not a text." : NULL;
}

static const char *policy_fault(yyjson_val *policy)
{
    if (!yyjson_is_obj(policy))
        return "The policy is not a JSON object.";
    if (has_member_twice(policy))
        return "The policy has the same member twice, or more than 20.";
    yyjson_val *version = yyjson_obj_get(policy, "Version");
    if (version != NULL && !yyjson_equals_str(version, "2008-10-17") && !yyjson_equals_str(version, "2012-10-17"))
        return "The Version must be 2008-10-17 or 2012-10-17.";
    yyjson_val *statements = yyjson_obj_get(policy, "Statement");
    if (yyjson_is_obj(statements))
        return statement_fault(statements);
    size_t index, count;
    yyjson_val *statement;
    const char *fault = yyjson_arr_size(statements) == 0 ? "The policy has no Statement."
                        : yyjson_arr_size(statements) > POLICY_STATEMENTS_MAX
                            ? "The policy has more than 20 statements."
                            : NULL;
    yyjson_arr_foreach(statements, index, count, statement)
    {
        if (fault == NULL)
            fault = statement_fault(statement);
    }
    return fault;
}

bool policy_parse(struct bytes text, struct arena *arena, struct bytes *compact, const char **fault)
{
    yyjson_doc *doc = json_tree_parse(text, arena);
    const char *found = policy_fault(yyjson_doc_get_root(doc));
    if (found != NULL) {
        *fault = found;
        return false;
    }
    *compact = json_tree_compact(doc, arena);
    return true;
}

/* --- does a statement fit a request? ------------------------------------------------------------------------------ */

struct policy_request {
    struct bytes account;
    struct bytes action;
    struct bytes arn;
};

static bool arn_fits(struct bytes pattern, const struct policy_request *request, bool if_unclear)
{
    (void)if_unclear;
    return pattern_fits(pattern, request->arn, false);
}

/* "*", "SendMessage", "SQS:Send*": names of services and actions have no case. */
static bool action_fits(struct bytes pattern, const struct policy_request *request, bool if_unclear)
{
    (void)if_unclear;
    const uint8_t *colon = pattern.size == 0 ? NULL : memchr(pattern.ptr, ':', pattern.size);
    if (colon == NULL)
        return pattern_fits(pattern, request->action, true);
    size_t service_size = (size_t)(colon - pattern.ptr);
    return pattern_fits(bytes_make(pattern.ptr, service_size), BYTES("sqs"), true) &&
           pattern_fits(bytes_skip(pattern, service_size + 1), request->action, true);
}

static bool is_account(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    return text.size == 12;
}

/* Anyone, an account, or its root. Of an account's users nothing is known here. */
static bool account_fits(struct bytes text, const struct policy_request *request, bool if_unclear)
{
    const struct bytes start = BYTES("arn:aws:iam::"), end = BYTES(":root");
    if (bytes_equal(text, BYTES("*")))
        return true;
    struct bytes account = text;
    if (bytes_starts_with(text, start) && bytes_ends_with(text, end) && text.size > start.size + end.size)
        account = bytes_make(text.ptr + start.size, text.size - start.size - end.size);
    if (bytes_equal(account, request->account))
        return true;
    return is_account(account) ? false : if_unclear;
}

typedef bool fits_function(struct bytes text, const struct policy_request *request, bool if_unclear);

/* A text or a list of texts, of which one must fit. What is neither is unclear. */
static bool any_fits(yyjson_val *value, fits_function *text_fits, const struct policy_request *request, bool if_unclear)
{
    if (yyjson_is_str(value))
        return text_fits(json_tree_text(value), request, if_unclear);
    if (!yyjson_is_arr(value))
        return if_unclear;
    size_t index, count;
    yyjson_val *item;
    yyjson_arr_foreach(value, index, count, item)
    {
        if (yyjson_is_str(item) ? text_fits(json_tree_text(item), request, if_unclear) : if_unclear)
            return true;
    }
    return false;
}

/* "*", or an object by kind of principal. Services and federated users are never accounts. */
static bool principal_fits(yyjson_val *principal, const struct policy_request *request, bool if_unclear)
{
    if (yyjson_is_str(principal))
        return yyjson_equals_str(principal, "*") || if_unclear;
    if (!yyjson_is_obj(principal))
        return if_unclear;
    size_t index, count;
    yyjson_val *key, *value;
    yyjson_obj_foreach(principal, index, count, key, value)
    {
        bool is_known = yyjson_equals_str(key, "Service") || yyjson_equals_str(key, "Federated");
        if (yyjson_equals_str(key, "AWS") ? any_fits(value, account_fits, request, if_unclear)
                                          : !is_known && if_unclear)
            return true;
    }
    return false;
}

/* Has it members that are not heeded here, as a Condition? */
static bool is_understood(yyjson_val *statement)
{
    static const char *const known[] = {"Sid", "Effect", "Principal", "Action", "Resource"};
    size_t known_count = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        known_count += yyjson_obj_get(statement, known[i]) != NULL;
    return known_count == yyjson_obj_size(statement);
}

/* What does the statement say to this request? */
static enum answer {
    SILENT,
    ALLOWS,
    DENIES
} statement_answer(yyjson_val *statement, const struct policy_request *request)
{
    bool allows = yyjson_equals_str(yyjson_obj_get(statement, "Effect"), "Allow");
    if (allows && !is_understood(statement))
        return SILENT;
    if (!principal_fits(yyjson_obj_get(statement, "Principal"), request, !allows) ||
        !any_fits(yyjson_obj_get(statement, "Action"), action_fits, request, !allows) ||
        !any_fits(yyjson_obj_get(statement, "Resource"), arn_fits, request, !allows))
        return SILENT;
    return allows ? ALLOWS : DENIES;
}

bool policy_allows(struct bytes policy, struct bytes account, struct bytes action, struct bytes arn,
                   struct arena *arena)
{
    const struct bytes batch = BYTES("Batch");
    yyjson_val *root = yyjson_doc_get_root(json_tree_parse(policy, arena));
    if (policy_fault(root) != NULL)
        return false;
    struct policy_request request = {.account = account, .action = action, .arn = arn};
    if (bytes_ends_with(action, batch))
        request.action.size -= batch.size;
    yyjson_val *statements = yyjson_obj_get(root, "Statement");
    if (yyjson_is_obj(statements))
        return statement_answer(statements, &request) == ALLOWS;
    bool is_allowed = false;
    size_t index, count;
    yyjson_val *statement;
    yyjson_arr_foreach(statements, index, count, statement)
    {
        enum answer answer = statement_answer(statement, &request);
        if (answer == DENIES)
            return false;
        is_allowed = is_allowed || answer == ALLOWS;
    }
    return is_allowed;
}
