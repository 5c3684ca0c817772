/* Statements under a label, as AddPermission writes them. Source: reference, SQS, 1. */
#include "auth/json_tree.h"
#include "auth/policy.h"

uint32_t policy_statement_count(struct bytes policy, struct arena *arena)
{
    yyjson_val *root = yyjson_doc_get_root(json_tree_parse(policy, arena));
    yyjson_val *statements = yyjson_obj_get(root, "Statement");
    return yyjson_is_arr(statements) ? (uint32_t)yyjson_arr_size(statements) : statements != NULL;
}

static bool has_label(yyjson_val *statement, struct bytes label)
{
    yyjson_val *sid = yyjson_obj_get(statement, "Sid");
    return yyjson_is_str(sid) && bytes_equal(json_tree_text(sid), label);
}

bool policy_has_label(struct bytes policy, struct bytes label, struct arena *arena)
{
    yyjson_val *root = yyjson_doc_get_root(json_tree_parse(policy, arena));
    yyjson_val *statements = yyjson_obj_get(root, "Statement");
    if (!yyjson_is_arr(statements))
        return has_label(statements, label);
    size_t index, count;
    yyjson_val *statement;
    yyjson_arr_foreach(statements, index, count, statement)
    {
        if (has_label(statement, label))
            return true;
    }
    return false;
}

/* --- adding ------------------------------------------------------------------------------------------------------- */

static yyjson_mut_val *text_of(yyjson_mut_doc *doc, struct bytes text)
{
    return yyjson_mut_strncpy(doc, (const char *)text.ptr, text.size);
}

/* One text, between `start` and `end`, as itself, several as a list. */
static yyjson_mut_val *texts_of(yyjson_mut_doc *doc, const char *start, const struct bytes *texts, size_t count,
                                const char *end, struct arena *arena)
{
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    for (size_t i = 0; i < count; i++) {
        yyjson_mut_val *item = text_of(doc, arena_format(arena, "%s%.*s%s", start, BYTES_FORMAT(texts[i]), end));
        if (count == 1)
            return item;
        yyjson_mut_arr_append(list, item);
    }
    return list;
}

static yyjson_mut_val *statement_of(yyjson_mut_doc *doc, struct bytes arn, const struct policy_grant *grant,
                                    struct arena *arena)
{
    yyjson_mut_val *statement = yyjson_mut_obj(doc), *principal = yyjson_mut_obj(doc);
    yyjson_mut_obj_add_val(doc, principal, "AWS",
                           texts_of(doc, "arn:aws:iam::", grant->accounts, grant->account_count, ":root", arena));
    yyjson_mut_obj_add_val(doc, statement, "Sid", text_of(doc, grant->label));
    yyjson_mut_obj_add_str(doc, statement, "Effect", "Allow");
    yyjson_mut_obj_add_val(doc, statement, "Principal", principal);
    yyjson_mut_obj_add_val(doc, statement, "Action",
                           texts_of(doc, "SQS:", grant->actions, grant->action_count, "", arena));
    yyjson_mut_obj_add_val(doc, statement, "Resource", text_of(doc, arn));
    return statement;
}

/* A policy with no statement yet. */
static yyjson_mut_doc *begin_policy(struct bytes arn, struct arena *arena)
{
    yyjson_mut_doc *doc = json_tree_create(arena);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "Version", "2008-10-17");
    yyjson_mut_obj_add_val(doc, root, "Id",
                           text_of(doc, arena_format(arena, "%.*s/SQSDefaultPolicy", BYTES_FORMAT(arn))));
    yyjson_mut_obj_add_arr(doc, root, "Statement");
    return doc;
}

/* The list of statements; where there was one that stood by itself, it is put into a list. */
static yyjson_mut_val *statements_of(yyjson_mut_doc *doc)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(doc);
    yyjson_mut_val *statements = yyjson_mut_obj_get(root, "Statement");
    if (yyjson_mut_is_arr(statements))
        return statements;
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    yyjson_mut_arr_append(list, yyjson_mut_obj_remove_key(root, "Statement"));
    yyjson_mut_obj_add_val(doc, root, "Statement", list);
    return list;
}

struct bytes policy_add(struct bytes policy, struct bytes arn, const struct policy_grant *grant, struct arena *arena)
{
    yyjson_mut_doc *doc =
        policy.size == 0 ? begin_policy(arn, arena) : json_tree_copy(json_tree_parse(policy, arena), arena);
    yyjson_mut_arr_append(statements_of(doc), statement_of(doc, arn, grant, arena));
    return json_tree_write(doc, arena);
}

/* --- removing ----------------------------------------------------------------------------------------------------- */

struct bytes policy_remove(struct bytes policy, struct bytes label, struct arena *arena)
{
    yyjson_mut_doc *doc = json_tree_copy(json_tree_parse(policy, arena), arena);
    yyjson_mut_val *statements = statements_of(doc);
    for (size_t i = yyjson_mut_arr_size(statements); i > 0; i--) {
        yyjson_mut_val *sid = yyjson_mut_obj_get(yyjson_mut_arr_get(statements, i - 1), "Sid");
        if (yyjson_mut_is_str(sid) && bytes_equal(bytes_make(yyjson_mut_get_str(sid), yyjson_mut_get_len(sid)), label))
            yyjson_mut_arr_remove(statements, i - 1);
    }
    return yyjson_mut_arr_size(statements) == 0 ? bytes_make(NULL, 0) : json_tree_write(doc, arena);
}
