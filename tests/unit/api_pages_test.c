/* NextToken: nobody reads one, makes one or bends one. What a list holds is in the tests of its action. */
#include "scenario.h"

#define TOKEN_SIZE 200u

/* A batch with five units, and five queues. */
static struct world *open_world(void)
{
    struct world *world = world_create(&(struct world_options){.way = WORLD_PLAIN, .seed = 1});
    world_call(world, "Tally.CreateBatch", "{'BatchId':'b'}");
    world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':['a','b','c','d','e']}");
    for (unsigned i = 0; i < 5; i++)
        world_call(world, "CreateQueue", "{'QueueName':'queue-%u'}", i);
    return world;
}

static void page(struct world *world, const char *action, unsigned size, char token[TOKEN_SIZE])
{
    struct answer answer = world_call(world, action, "{'BatchId':'b','MaxResults':%u}", size);
    EXPECT(world, answer.status == 200 && strlen(answer_text(answer, "NextToken")) < TOKEN_SIZE);
    snprintf(token, TOKEN_SIZE, "%s", answer_text(answer, "NextToken"));
}

static bool is_refused(struct world *world, const char *action, const char *token)
{
    struct answer answer = world_call(world, action, "{'BatchId':'b','NextToken':'%s'}", token);
    const bool is = answer_fails(answer, "InvalidParameterValueException") &&
                    strcmp(answer_text(answer, "message"), "Invalid or expired next token.") == 0;
    world_forget(world);
    return is;
}

static void a_changed_token_is_refused(void **state)
{
    (void)state;
    static const char *const actions[] = {"Tally.ListUnits", "ListQueues"};
    struct world *world = open_world();
    for (size_t i = 0; i < ARRAY_LENGTH(actions); i++) {
        char token[TOKEN_SIZE];
        page(world, actions[i], 2, token);
        EXPECT(world, !is_refused(world, actions[i], token));
        for (char *at = token; *at != '\0'; at++) {
            const char digit = *at;
            *at = digit == 'A' ? 'B' : 'A';
            EXPECT(world, is_refused(world, actions[i], token));
            *at = digit;
        }
        token[strlen(token) - 1] = '\0';
        EXPECT(world, is_refused(world, actions[i], token));
    }
    static const char *const made_up[] = {"2", "7175657565", "0", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "a.b", "="};
    for (size_t i = 0; i < ARRAY_LENGTH(made_up); i++)
        EXPECT(world, is_refused(world, "Tally.ListUnits", made_up[i]) && is_refused(world, "ListQueues", made_up[i]));
    world_destroy(world);
}

static void a_token_is_of_its_action(void **state)
{
    (void)state;
    struct world *world = open_world();
    char token[TOKEN_SIZE];
    page(world, "ListQueues", 2, token);
    EXPECT(world, !is_refused(world, "ListQueues", token));
    EXPECT(world, is_refused(world, "Tally.ListQueueStats", token));
    page(world, "Tally.ListUnits", 2, token);
    EXPECT(world, is_refused(world, "Tally.ListBatches", token));
    world_destroy(world);
}

/* Not by its digits, nor by how many there are. */
static void a_token_does_not_show_its_place(void **state)
{
    (void)state;
    struct world *world = open_world();
    char first[TOKEN_SIZE], second[TOKEN_SIZE];
    page(world, "Tally.ListUnits", 1, first);
    page(world, "Tally.ListUnits", 2, second);
    EXPECT(world, strlen(first) == 32 && strlen(second) == 32 && strncmp(first, second, 8) != 0);
    EXPECT(world, strncmp(first + 22, second + 22, 8) != 0);
    char units[800] = "'0'";
    for (unsigned i = 1; i < 100; i++)
        sprintf(units + strlen(units), ",'%u'", i);
    world_call(world, "Tally.AddUnits", "{'BatchId':'b','Units':[%s]}", units);
    page(world, "Tally.ListUnits", 100, second);
    EXPECT(world, strlen(second) == 32);
    world_destroy(world);
}

static void a_token_outlives_a_restart(void **state)
{
    (void)state;
    struct world *world = open_world();
    char token[TOKEN_SIZE];
    page(world, "Tally.ListUnits", 2, token);
    world_kill(world);
    struct answer answer = world_call(world, "Tally.ListUnits", "{'BatchId':'b','NextToken':'%s'}", token);
    EXPECT(world, yyjson_arr_size(yyjson_obj_get(answer.root, "Units")) == 3 && !answer_has(answer, "NextToken"));
    world_destroy(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_token_is_refused),
        cmocka_unit_test(a_token_is_of_its_action),
        cmocka_unit_test(a_token_does_not_show_its_place),
        cmocka_unit_test(a_token_outlives_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
