/* tally pool list: a line for each pool. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>

struct settings {
    const char *prefix;
};

static const struct option_row options[] = {
    {"prefix", "TEXT", "only pools whose names begin with it", OPTION_TEXT, offsetof(struct settings, prefix), 0, 0,
     NULL},
};

static void print(yyjson_val *pool)
{
    const char *name = json_text(pool, "PoolName");
    printf("%10llu waiting  %s\n", (unsigned long long)json_number(pool, "Waiting"), name == NULL ? "" : name);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *const parameters[][2] = {{"Prefix", settings->prefix}};
    const struct pages pages = {.target = "Tally.ListPools",
                                .list = "Pools",
                                .parameters = parameters,
                                .parameter_count = ARRAY_LENGTH(parameters),
                                .print = print};
    return pages_print(invocation, &pages);
}

const struct command command_pool_list = {
    .arguments = "",
    .text = "Prints a line for each pool, in the order of their names: how many tickets wait in it, and its name. With "
            "--json\n"
            "each pool is one line of JSON.\n",
    .examples = "  tally pool list\n"
                "  tally pool list --json | jq 'select(.Waiting > 1000)'\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
