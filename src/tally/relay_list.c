/* tally relay list: a line for each relay. */
#include "tally/pages.h"
#include <stdio.h>
#include <string.h>

static const char *text_of(yyjson_val *object, const char *name)
{
    const char *text = json_text(object, name);
    return text == NULL ? "" : text;
}

static void print(yyjson_val *relay)
{
    printf("%-10s %s %s to %s, %llu waiting", text_of(relay, "State"), text_of(relay, "RelayName"),
           text_of(yyjson_obj_get(relay, "Source"), "Type"), text_of(yyjson_obj_get(relay, "Sink"), "Type"),
           (unsigned long long)json_number(yyjson_obj_get(relay, "Lag"), "Rows"));
    if (json_number(relay, "Parked") > 0)
        printf(", %llu parked", (unsigned long long)json_number(relay, "Parked"));
    bool has_trouble =
        strcmp(text_of(relay, "State"), "failed") == 0 || strcmp(text_of(relay, "State"), "blocked") == 0;
    if (has_trouble && json_text(relay, "LastError") != NULL)
        printf(": %s", json_text(relay, "LastError"));
    puts("");
}

static int run(struct invocation *invocation)
{
    const struct pages pages = {.target = "Tally.ListRelays", .list = "Relays", .print = print};
    return pages_print(invocation, &pages);
}

const struct command command_relay_list = {
    .arguments = "",
    .text =
        "Prints a line for each relay of the server, in the order of their names: its state, its name, where it\n"
        "carries messages, how many wait and how many were put aside, and what is wrong. With --json each relay is\n"
        "one line of JSON.\n",
    .examples = "  tally relay list\n"
                "  tally relay list --json | jq 'select(.State != \"active\")'\n",
    .run = run,
};
