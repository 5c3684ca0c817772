/* tally batch list: a line for each batch. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>

struct settings {
    const char *state;
    const char *prefix;
};

static const struct option_row options[] = {
    {"state", "STATE", "only these: open, sealed or completed", OPTION_TEXT, offsetof(struct settings, state), 0, 0,
     NULL},
    {"prefix", "TEXT", "only batches whose id begins so", OPTION_TEXT, offsetof(struct settings, prefix), 0, 0, NULL},
};

static void print(yyjson_val *batch)
{
    const char *id = json_text(batch, "BatchId");
    const char *state = json_text(batch, "State");
    const char *status = json_text(batch, "Status");
    uint64_t total = json_number(batch, "Total");
    printf("%-40s %-10s %-10s %llu of %llu\n", id == NULL ? "" : id, state == NULL ? "" : state,
           status == NULL ? "-" : status, (unsigned long long)(total - json_number(batch, "Remaining")),
           (unsigned long long)total);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *const parameters[][2] = {{"State", settings->state}, {"Prefix", settings->prefix}};
    const struct pages pages = {
        .target = "Tally.ListBatches",
        .list = "Batches",
        .parameters = parameters,
        .parameter_count = ARRAY_LENGTH(parameters),
        .print = print,
    };
    return pages_print(invocation, &pages);
}

const struct command command_batch_list = {
    .arguments = "",
    .text =
        "Prints a line for each batch: id, state, status when it is complete, how many of its units have ended. With\n"
        "--json each batch is one line of JSON, with what `tally batch show --json` shows.\n",
    .examples = "  tally batch list\n"
                "  tally batch list --state open --prefix import-\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
