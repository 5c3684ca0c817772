/* Policies from outside: what is taken for one can be asked, added to and taken from, and stays one. */
#include "auth/policy.h"
#include "base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes arn = BYTES("arn:aws:sqs:us-east-1:000000000000:q"), label = BYTES("a label");
    const struct bytes accounts[] = {BYTES("111111111111")}, actions[] = {BYTES("SendMessage")};
    const struct policy_grant grant = {label, accounts, 1, actions, 1};
    struct arena arena;
    struct bytes compact, again;
    const char *fault = NULL;
    arena_init(&arena);
    if (policy_parse(bytes_make(data, size), &arena, &compact, &fault)) {
        bool is_allowed = policy_allows(compact, accounts[0], actions[0], arn, &arena);
        ASSERT(policy_allows(bytes_make(data, size), accounts[0], actions[0], arn, &arena) == is_allowed);
        ASSERT(policy_parse(compact, &arena, &again, &fault) && bytes_equal(compact, again));
        struct bytes more = policy_add(compact, arn, &grant, &arena);
        ASSERT(policy_has_label(more, label, &arena));
        ASSERT(policy_statement_count(more, &arena) == policy_statement_count(compact, &arena) + 1);
        struct bytes less = policy_remove(more, label, &arena);
        ASSERT(less.size == 0 || !policy_has_label(less, label, &arena));
    } else {
        ASSERT(fault != NULL);
        ASSERT(!policy_allows(bytes_make(data, size), accounts[0], actions[0], arn, &arena));
    }
    arena_deinit(&arena);
    return 0;
}
