/* Pools themselves: tally pool list, show and delete. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>

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
    output_members(pool, rows, ARRAY_LENGTH(rows));
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
    output_numbers(yyjson_obj_get(pool, "Tickets"), tickets, ARRAY_LENGTH(tickets));
    output_time("oldest", json_real(pool, "OldestOfferedAt"));
    output_numbers(pool, others, ARRAY_LENGTH(others));
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

static void print_pool(yyjson_val *pool)
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

static void print_line(yyjson_val *pool)
{
    printf("%10llu waiting  %s\n", (unsigned long long)json_number(pool, "Waiting"), output_text_of(pool, "PoolName"));
}

struct settings {
    const char *prefix;
};

static const struct setting settings_table[] = {
    {"prefix", offsetof(struct settings, prefix)},
};

const struct command command_pool_list = {.settings = settings_table,
                                          .setting_count = ARRAY_LENGTH(settings_table),
                                          .settings_size = sizeof(struct settings),
                                          .action = "Tally.ListPools",
                                          .list = "Pools",
                                          .print = print_line};
const struct command command_pool_show = {.action = "Tally.DescribePool", .members = {"PoolName"}, .print = print_pool};
const struct command command_pool_delete = {.action = "Tally.DeletePool", .members = {"PoolName"}};
