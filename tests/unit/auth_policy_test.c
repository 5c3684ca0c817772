/* Policies: who is let in, what never lets anybody in, and the statements of AddPermission (Q25). */
#include "auth/policy.h"

#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ARN "arn:aws:sqs:us-east-1:000000000000:q"
#define ANNA "111111111111"

/* A text in which ' stands for ", in the arena. */
static struct bytes text_of(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
static struct bytes text_of(struct arena *arena, const char *format, ...)
{
    char text[4000];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    assert_true(size >= 0 && (size_t)size < sizeof(text));
    for (char *at = text; *at != '\0'; at++)
        if (*at == '\'')
            *at = '"';
    return arena_copy(arena, bytes_make(text, (size_t)size));
}

static bool allows_anna(struct bytes policy, const char *action, struct arena *arena)
{
    return policy_allows(policy, BYTES(ANNA), bytes_from_string(action), BYTES(ARN), arena);
}

/* --- one statement ------------------------------------------------------------------------------------------------ */

static void expect_one(const char *effect, const char *member, const char *value, bool is_expected)
{
    static const char *const usual[][2] = {{"Principal", "'*'"}, {"Action", "'SQS:*'"}, {"Resource", "'*'"}};
    struct arena arena;
    arena_init(&arena);
    struct bytes statement = text_of(&arena, "{'Effect':'%s'", effect);
    for (size_t i = 0; i < ARRAY_LENGTH(usual); i++) {
        bool is_other = strcmp(usual[i][0], member) == 0;
        if (is_other && value[0] == '\0')
            continue;
        statement =
            text_of(&arena, "%.*s,'%s':%s", BYTES_FORMAT(statement), usual[i][0], is_other ? value : usual[i][1]);
    }
    bool is_usual =
        strcmp(member, "Principal") == 0 || strcmp(member, "Action") == 0 || strcmp(member, "Resource") == 0;
    if (!is_usual)
        statement = text_of(&arena, "%.*s,'%s':%s", BYTES_FORMAT(statement), member, value);
    /* A Deny is seen beside an Allow for everybody. */
    bool is_deny = strcmp(effect, "Deny") == 0;
    struct bytes policy = text_of(&arena, "{'Statement':[%s%s%.*s}]}",
                                  is_deny ? "{'Effect':'Allow','Principal':'*','Action':'*','Resource':'*'}" : "",
                                  is_deny ? "," : "", BYTES_FORMAT(statement));
    bool is_allowed = allows_anna(policy, "SendMessage", &arena);
    if (is_allowed != (is_deny ? !is_expected : is_expected))
        fail_msg("%s with %s %s: %s", effect, member, value, is_allowed ? "allowed" : "not allowed");
    arena_deinit(&arena);
}

static void a_statement_fits_who_what_and_where(void **state)
{
    (void)state;
    static const struct {
        const char *member;
        const char *value;
        bool fits_allow;
        bool fits_deny; /* what is not understood denies and never allows */
    } rows[] = {
        {"Principal", "'*'", true, true},
        {"Principal", "{'AWS':'*'}", true, true},
        {"Principal", "{'AWS':'" ANNA "'}", true, true},
        {"Principal", "{'AWS':'arn:aws:iam::" ANNA ":root'}", true, true},
        {"Principal", "{'AWS':['222222222222','arn:aws:iam::" ANNA ":root']}", true, true},
        {"Principal", "{'AWS':['222222222222','arn:aws:iam::333333333333:root']}", false, false},
        {"Principal", "{'AWS':'222222222222'}", false, false},
        {"Principal", "{'AWS':[]}", false, false},
        {"Principal", "{'Service':'sns.amazonaws.com'}", false, false},
        {"Principal", "{'AWS':'arn:aws:iam::" ANNA ":user/anna'}", false, true},
        {"Principal", "{'AWS':'11111111111*'}", false, true},
        {"Principal", "{'AWS':7}", false, true},
        {"Principal", "{'AWS':[7]}", false, true},
        {"Principal", "{'CanonicalUser':'x'}", false, true},
        {"Principal", "'" ANNA "'", false, true},
        {"Principal", "['*']", false, true},
        {"Action", "'*'", true, true},
        {"Action", "'SendMessage'", true, true},
        {"Action", "'sqs:sendmessage'", true, true},
        {"Action", "'SQS:Send*'", true, true},
        {"Action", "'SQS:*Mess?ge'", true, true},
        {"Action", "['SQS:DeleteMessage','SQS:SendMessage']", true, true},
        {"Action", "'SQS:ReceiveMessage'", false, false},
        {"Action", "'SQS:Send'", false, false},
        {"Action", "'s3:*'", false, false},
        {"Action", "''", false, false},
        {"Action", "7", false, true},
        {"Resource", "'" ARN "'", true, true},
        {"Resource", "'arn:aws:sqs:*:000000000000:*'", true, true},
        {"Resource", "'arn:*:q'", true, true},
        {"Resource", "'arn:aws:sqs:us-east-1:000000000000:Q'", false, false},
        {"Resource", "'" ARN "x'", false, false},
        {"Resource", "''", false, false},
        {"Resource", "", false, true}, /* absent */
        {"Resource", "{}", false, true},
        {"Condition", "{'Bool':{'aws:SecureTransport':'false'}}", false, true},
        {"NotAction", "'SQS:SendMessage'", false, true},
        {"NotPrincipal", "{'AWS':'222222222222'}", false, true},
        {"Sid", "'a label'", true, true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++) {
        expect_one("Allow", rows[i].member, rows[i].value, rows[i].fits_allow);
        expect_one("Deny", rows[i].member, rows[i].value, rows[i].fits_deny);
    }
}

static void a_batch_form_goes_by_the_single_one(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    struct bytes policy = text_of(
        &arena, "{'Statement':{'Effect':'Allow','Principal':'*','Action':'SQS:SendMessage','Resource':'" ARN "'}}");
    assert_true(allows_anna(policy, "SendMessageBatch", &arena));
    assert_false(allows_anna(policy, "DeleteMessageBatch", &arena));
    arena_deinit(&arena);
}

static void a_deny_wins_wherever_it_stands(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    const char *allow = "{'Effect':'Allow','Principal':'*','Action':'*','Resource':'*'}";
    const char *deny = "{'Effect':'Deny','Principal':{'AWS':'" ANNA "'},'Action':'SQS:SendMessage','Resource':'*'}";
    assert_false(allows_anna(text_of(&arena, "{'Statement':[%s,%s]}", allow, deny), "SendMessage", &arena));
    assert_false(allows_anna(text_of(&arena, "{'Statement':[%s,%s]}", deny, allow), "SendMessage", &arena));
    assert_true(allows_anna(text_of(&arena, "{'Statement':[%s,%s]}", deny, allow), "ReceiveMessage", &arena));
    assert_false(allows_anna(text_of(&arena, "{'Statement':%s}", deny), "SendMessage", &arena));
    arena_deinit(&arena);
}

/* --- the form ----------------------------------------------------------------------------------------------------- */

#define GOOD "{'Effect':'Allow','Principal':'*','Action':'*','Resource':'*'}"

static void what_is_no_policy_is_refused_and_allows_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "x",
        "[]",
        "null",
        "'*'",
        "{}",
        "{'Statement':[]}",
        "{'Statement':'x'}",
        "{'Statement':[" GOOD ",7]}",
        "{'Statement':[" GOOD "]",
        "{'Statement':[" GOOD "]}}",
        "{'Version':'2020-01-01','Statement':[" GOOD "]}",
        "{'Version':7,'Statement':[" GOOD "]}",
        "{'Statement':[{'Effect':'allow','Principal':'*','Action':'*','Resource':'*'}]}",
        "{'Statement':[{'Principal':'*','Action':'*','Resource':'*'}]}",
        "{'Statement':[{'Effect':'Allow','Action':'*','Resource':'*'}]}",
        "{'Statement':[{'Effect':'Allow','Principal':'*','Resource':'*'}]}",
        "{'Statement':[{'Sid':7,'Effect':'Allow','Principal':'*','Action':'*','Resource':'*'}]}",
        "{'Statement':[" GOOD "],'Statement':[]}",
        "{'a':1,'b':1,'c':1,'d':1,'e':1,'f':1,'g':1,'h':1,'i':1,'j':1,'k':1,'l':1,'m':1,'n':1,'o':1,'p':1,'q':1,'r':1,"
        "'s':1,'t':1,'Statement':[" GOOD "]}",
        "{'Statement':[{'Effect':'Deny','Effect':'Allow','Principal':'*','Action':'*','Resource':'*'}]}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct arena arena;
        struct bytes compact;
        const char *fault = NULL;
        arena_init(&arena);
        struct bytes text = text_of(&arena, "%s", texts[i]);
        if (policy_parse(text, &arena, &compact, &fault) || fault == NULL)
            fail_msg("%s is taken for a policy", texts[i]);
        assert_false(allows_anna(text, "SendMessage", &arena));
        arena_deinit(&arena);
    }
}

static void twenty_statements_are_the_most(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    struct bytes list = text_of(&arena, "%s", GOOD), compact;
    const char *fault;
    for (unsigned count = 1; count <= 21; count++) {
        bool is_good =
            policy_parse(text_of(&arena, "{'Statement':[%.*s]}", BYTES_FORMAT(list)), &arena, &compact, &fault);
        assert_int_equal(is_good, count <= POLICY_STATEMENTS_MAX);
        if (is_good)
            assert_int_equal(policy_statement_count(compact, &arena), count);
        list = text_of(&arena, "%.*s,%s", BYTES_FORMAT(list), GOOD);
    }
    arena_deinit(&arena);
}

static void a_policy_is_kept_without_blanks(void **state)
{
    (void)state;
    struct arena arena;
    struct bytes compact;
    const char *fault;
    arena_init(&arena);
    struct bytes text =
        text_of(&arena, " {\n 'Version' : '2012-10-17', 'Id':'\\u00e9 x',\t'Statement' : [ " GOOD " ] } ");
    assert_true(policy_parse(text, &arena, &compact, &fault));
    struct bytes expected = text_of(&arena, "{'Version':'2012-10-17','Id':'\xc3\xa9 x','Statement':[" GOOD "]}");
    assert_true(bytes_equal(compact, expected));
    arena_deinit(&arena);
}

/* --- labels ------------------------------------------------------------------------------------------------------- */

static void Q25_a_grant_is_written_as_sqs_writes_it_and_taken_back(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    const struct bytes accounts[] = {BYTES(ANNA), BYTES("222222222222")},
                       actions[] = {BYTES("SendMessage"), BYTES("*")};
    struct policy_grant grant = {BYTES("one"), accounts, 1, actions, 1};
    struct bytes policy = policy_add(bytes_make(NULL, 0), BYTES(ARN), &grant, &arena);
    struct bytes expected = text_of(
        &arena, "{'Version':'2008-10-17','Id':'" ARN "/SQSDefaultPolicy','Statement':[{'Sid':'one','Effect':'Allow',"
                "'Principal':{'AWS':'arn:aws:iam::" ANNA ":root'},'Action':'SQS:SendMessage','Resource':'" ARN "'}]}");
    assert_true(bytes_equal(policy, expected));
    assert_true(allows_anna(policy, "SendMessage", &arena));
    assert_false(allows_anna(policy, "ReceiveMessage", &arena));
    assert_false(policy_allows(policy, accounts[1], actions[0], BYTES(ARN), &arena));

    grant = (struct policy_grant){BYTES("two"), accounts, 2, actions, 2};
    struct bytes two = policy_add(policy, BYTES(ARN), &grant, &arena);
    struct bytes second = text_of(
        &arena, "{'Sid':'two','Effect':'Allow','Principal':{'AWS':['arn:aws:iam::" ANNA ":root',"
                "'arn:aws:iam::222222222222:root']},'Action':['SQS:SendMessage','SQS:*'],'Resource':'" ARN "'}]}");
    assert_true(bytes_ends_with(two, second));
    assert_true(policy_allows(two, accounts[1], BYTES("ReceiveMessage"), BYTES(ARN), &arena));
    assert_true(policy_has_label(two, BYTES("one"), &arena) && policy_has_label(two, BYTES("two"), &arena));
    assert_false(policy_has_label(two, BYTES("thre"), &arena));
    assert_int_equal(policy_statement_count(two, &arena), 2);

    assert_true(bytes_equal(policy_remove(two, BYTES("two"), &arena), policy));
    assert_int_equal(policy_remove(policy, BYTES("one"), &arena).size, 0);
    assert_true(bytes_equal(policy_remove(policy, BYTES("none"), &arena), policy));
    arena_deinit(&arena);
}

static void a_grant_joins_a_policy_whose_statement_stands_by_itself(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    const struct bytes account = BYTES(ANNA), action = BYTES("SendMessage");
    const struct policy_grant grant = {BYTES("one"), &account, 1, &action, 1};
    struct bytes policy =
        text_of(&arena, "{'Version':'2012-10-17','Statement':{'Sid':'old','Effect':'Deny','Principal':"
                        "'*','Action':'SQS:PurgeQueue','Resource':'*'}}");
    assert_true(policy_has_label(policy, BYTES("old"), &arena));
    assert_int_equal(policy_statement_count(policy, &arena), 1);
    struct bytes both = policy_add(policy, BYTES(ARN), &grant, &arena), compact;
    const char *fault;
    assert_true(policy_parse(both, &arena, &compact, &fault) && bytes_equal(both, compact));
    assert_true(bytes_starts_with(both, text_of(&arena, "{'Version':'2012-10-17','Statement':[{'Sid':'old'")));
    assert_true(allows_anna(both, "SendMessage", &arena));
    assert_true(policy_has_label(policy_remove(both, BYTES("old"), &arena), BYTES("one"), &arena));
    assert_int_equal(policy_remove(policy, BYTES("old"), &arena).size, 0);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_statement_fits_who_what_and_where),
        cmocka_unit_test(a_batch_form_goes_by_the_single_one),
        cmocka_unit_test(a_deny_wins_wherever_it_stands),
        cmocka_unit_test(what_is_no_policy_is_refused_and_allows_nothing),
        cmocka_unit_test(twenty_statements_are_the_most),
        cmocka_unit_test(a_policy_is_kept_without_blanks),
        cmocka_unit_test(Q25_a_grant_is_written_as_sqs_writes_it_and_taken_back),
        cmocka_unit_test(a_grant_joins_a_policy_whose_statement_stands_by_itself),
    };
    return cmocka_run_group_tests_name("auth policy", tests, NULL, NULL);
}
