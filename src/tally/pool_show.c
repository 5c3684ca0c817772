/* tally pool show and delete. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <stdlib.h>

static void print_json(const char *name, yyjson_val *value)
{
    char *text = value == NULL ? NULL : json_write_value(value, NULL);
    if (text != NULL)
        output_field(name, text);
    free(text);
}

/* Texts as they are, everything else as JSON, each under its name; a list has a line for each item. */
static void print_words(yyjson_val *pool)
{
    static const char *const rows[][2] = {{"pool", "PoolName"},
                                          {"results", "ResultQueueUrl"},
                                          {"on expiry", "OnExpiryQueueUrl"},
                                          {"matcher", "Matcher"},
                                          {"attributes", "Attributes"},
                                          {"size", "Size"},
                                          {"team", "Teams"},
                                          {"rule", "Rules"},
                                          {"pick", "Pick"},
                                          {"version", "RulesVersion"},
                                          {"plan", "Plan"},
                                          {"note", "Warnings"},
                                          {"ttl s", "TicketTtlSeconds"},
                                          {"window ms", "WindowMilliseconds"},
                                          {"confirm s", "ConfirmSeconds"},
                                          {"verify", "Verify"}};
    for (size_t row = 0; row < ARRAY_LENGTH(rows); row++) {
        yyjson_val *value = yyjson_obj_get(pool, rows[row][1]);
        size_t i, max;
        yyjson_val *item;
        if (yyjson_is_str(value))
            output_field(rows[row][0], yyjson_get_str(value));
        else if (!yyjson_is_arr(value))
            print_json(rows[row][0], value);
        yyjson_arr_foreach(value, i, max, item)
        {
            if (yyjson_is_str(item))
                output_field(rows[row][0], yyjson_get_str(item));
            else
                print_json(rows[row][0], item);
        }
    }
}

static void print_counts(yyjson_val *pool)
{
    static const char *const tickets[][2] = {{"waiting", "Waiting"},     {"held", "Held"},
                                             {"matched", "Matched"},     {"expired", "Expired"},
                                             {"cancelled", "Cancelled"}, {"offered", "Offered"}};
    static const char *const others[][2] = {{"weight", "Weight"},       {"matches", "Matches"},
                                            {"put back", "PutBacks"},   {"conflicts", "Conflicts"},
                                            {"stale", "Stale"},         {"seeds", "Seeds"},
                                            {"probes", "Probes"},       {"candidates", "Candidates"},
                                            {"stopped", "BudgetStops"}, {"expr errors", "ExpressionErrors"}};
    for (size_t i = 0; i < ARRAY_LENGTH(tickets); i++)
        output_number(tickets[i][0], json_number(yyjson_obj_get(pool, "Tickets"), tickets[i][1]));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        output_number(others[i][0], json_number(pool, others[i][1]));
}

static void print_waited(const char *name, yyjson_val *waited)
{
    char text[160];
    if (json_number(waited, "Max") == 0)
        return;
    snprintf(text, sizeof text, "half within %.3f s, 90%% within %.3f s, 99%% within %.3f s, longest %.3f s",
             json_real(waited, "P50") / 1000, json_real(waited, "P90") / 1000, json_real(waited, "P99") / 1000,
             json_real(waited, "Max") / 1000);
    output_field(name, text);
}

static void print_text(yyjson_val *pool)
{
    size_t level, max;
    yyjson_val *waited;
    print_words(pool);
    print_counts(pool);
    print_waited("waited", yyjson_obj_get(pool, "WaitedMs"));
    yyjson_arr_foreach(yyjson_obj_get(pool, "Levels"), level, max, waited)
    {
        char name[32];
        snprintf(name, sizeof name, "  level %zu", level);
        print_waited(name, yyjson_obj_get(waited, "WaitedMs") == NULL ? waited : yyjson_obj_get(waited, "WaitedMs"));
    }
}

static int run_show(struct invocation *invocation)
{
    return output_named(invocation, "PoolName", "Tally.DescribePool", print_text);
}

static int run_delete(struct invocation *invocation)
{
    return output_named(invocation, "PoolName", "Tally.DeletePool", NULL);
}

const struct command command_pool_show = {
    .arguments = "NAME",
    .text =
        "Prints what a pool asks and how it is: its rules and how they are searched, how many tickets wait and what\n"
        "became of the others, how long those waited that were matched, and how much the matcher had to look at.\n",
    .examples = "  tally pool show duel\n"
                "  tally pool show duel --json | jq .WaitedMs\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_show,
};

const struct command command_pool_delete = {
    .arguments = "NAME",
    .text = "Deletes a pool and forgets its tickets. The messages of its matches stay in their queue.\n",
    .examples = "  tally pool delete duel\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_delete,
};
