/* tally type-order put, list and delete: the orders in which types of messages are delivered. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>

struct settings {
    bool is_required;
    struct option_number retention;
};

static const struct setting settings_table[] = {
    {"require", offsetof(struct settings, is_required)},
    {"retention", offsetof(struct settings, retention)},
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

const struct command command_type_order_put = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run_put,
};

const struct command command_type_order_list = {.action = "Tally.ListTypeOrders", .list = "TypeOrders", .print = print};
const struct command command_type_order_delete = {.action = "Tally.DeleteTypeOrder", .members = {"Name"}};
