/* Policies of queues, the text of the attribute Policy: a JSON object whose Statement is an object or a list of them,
 * each with Effect, Principal, Action and Resource. Knows nothing of queues but their ARNs, and nothing of who asked
 * but their account.
 *
 * What a statement says that is not understood here (a Condition, NotAction, a principal that is a user) never opens a
 * queue: such an Allow allows nothing, such a Deny denies as if that part of it were met.
 *
 * Pure. Texts and trees are the arena's. Source: SQS developer guide, "Access policy language"; reference, SQS, 1 and
 * 2.1. */
#ifndef TALLY_AUTH_POLICY_H
#define TALLY_AUTH_POLICY_H

#include "base/arena.h"
#include <stdbool.h>

#define POLICY_STATEMENTS_MAX 20u
#define POLICY_SIZE_MAX 32768u /* for whoever takes and keeps one */

/* Is the text a policy with 1 to POLICY_STATEMENTS_MAX statements? Then *compact is it without blanks, else *fault says
 * in words what is wrong, in static memory. */
bool policy_parse(struct bytes text, struct arena *arena, struct bytes *compact, const char **fault);

/* May `account` call `action` ("SendMessage"; a batch form goes by the single one) on the queue of this ARN? Some
 * statement must allow it and none deny it. False for a text that is no policy. O(policy). */
bool policy_allows(struct bytes policy, struct bytes account, struct bytes action, struct bytes arn,
                   struct arena *arena);

/* --- statements under a label, as AddPermission and RemovePermission write them (policy_grant.c) ------------------ */

struct policy_grant {
    struct bytes label; /* the statement's Sid */
    const struct bytes *accounts;
    size_t account_count;
    const struct bytes *actions; /* "SendMessage", or "*" */
    size_t action_count;
};

uint32_t policy_statement_count(struct bytes policy, struct arena *arena);
bool policy_has_label(struct bytes policy, struct bytes label, struct arena *arena);

/* The policy with one more statement, which allows what the grant says on the queue of this ARN; an empty `policy`
 * becomes one with that statement. Texts of the grant are UTF-8. */
struct bytes policy_add(struct bytes policy, struct bytes arn, const struct policy_grant *grant, struct arena *arena);

/* The policy without the statements of that label; empty if none is left. */
struct bytes policy_remove(struct bytes policy, struct bytes label, struct arena *arena);

#endif
