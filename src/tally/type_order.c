/* tally type-order put, list and delete: which types of messages come before which. */
#include "base/assert.h"
#include "tally/pages.h"
#include <stdio.h>

struct settings {
    bool is_required;
    struct option_number retention;
};

static const struct option_row options[] = {
    {"require", NULL, "a message also waits until one of each type before its own has succeeded in its group",
     OPTION_FLAG, offsetof(struct settings, is_required), 0, 0, NULL},
    {"retention", "SECONDS", "with --require: for how long such a success counts; else 14 days", OPTION_NUMBER,
     offsetof(struct settings, retention), 1, 31536000, NULL},
};

/* "posts            create-post < create-comment  (required)" */
static void print(yyjson_val *order)
{
    const char *name = json_text(order, "Name");
    size_t i, max;
    yyjson_val *type;
    printf("%-24s", name == NULL ? "" : name);
    yyjson_arr_foreach(yyjson_obj_get(order, "Types"), i, max, type)
    {
        printf("%s%s", i == 0 ? " " : " < ", yyjson_is_str(type) ? yyjson_get_str(type) : "");
    }
    if (json_is_true(order, "Require"))
        printf("  (required, for %llu s)", (unsigned long long)json_number(order, "RetentionSeconds"));
    puts("");
}

static int run_put(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    int status;
    if (settings->retention.is_given && !settings->is_required)
        return complain_usage(invocation, "--retention goes with --require");
    status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "Name", invocation->arguments[0]);
    yyjson_mut_val *types = json_add_array(&body, body.root, "Types");
    for (int i = 1; i < invocation->argument_count; i++)
        yyjson_mut_arr_add_str(body.doc_owned, types, invocation->arguments[i]);
    yyjson_mut_obj_add_bool(body.doc_owned, body.root, "Require", settings->is_required);
    if (settings->retention.is_given)
        json_add_number(&body, body.root, "RetentionSeconds", settings->retention.value);
    return output_call(invocation, &body, "Tally.PutTypeOrder", print);
}

static int run_list(struct invocation *invocation)
{
    const struct pages pages = {.target = "Tally.ListTypeOrders", .list = "TypeOrders", .print = print};
    return pages_print(invocation, &pages);
}

static int run_delete(struct invocation *invocation)
{
    return output_named(invocation, "Name", "Tally.DeleteTypeOrder", NULL);
}

const struct command command_type_order_put = {
    .arguments = "NAME TYPE TYPE...",
    .text = "Fixes an order of types, the first to come first: a message with a group and a type (`tally send --group "
            "--type`)\n"
            "waits while an unfinished message of the same group that was sent before it, in whatever queue, has a "
            "type that\n"
            "stands before its own. An order of the same name is replaced; what waits by then goes on waiting. An "
            "order that\n"
            "contradicts another one is refused (TypeOrderConflict). `tally explain` says what a message waits for.\n",
    .examples = "  tally type-order put posts create-post create-comment\n"
                "  tally send posts 'a post' --group post-17 --type create-post\n"
                "  tally send comments 'first!' --group post-17 --type create-comment\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 3,
    .arguments_max = -1,
    .run = run_put,
};

const struct command command_type_order_list = {
    .arguments = "",
    .text = "Prints a line for each type order, in the order of their names: its name, and its types in their order. "
            "With\n"
            "--json each is one line of JSON.\n",
    .examples = "  tally type-order list\n",
    .run = run_list,
};

const struct command command_type_order_delete = {
    .arguments = "NAME",
    .text =
        "Deletes a type order. Messages that wait because of it go on waiting for what they wait for; those sent from "
        "now\n"
        "on don't.\n",
    .examples = "  tally type-order delete posts\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_delete,
};
