/* tally pool create and update: a pool and the rules that decide which tickets fit. */
#include "base/assert.h"
#include "tally/pool_arguments.h"
#include <stdio.h>

static const struct setting settings_table[] = {
    {"rules", offsetof(struct pool_arguments, file)},
    {"result", offsetof(struct pool_arguments, result)},
    {"matcher", offsetof(struct pool_arguments, matcher)},
    {"size", offsetof(struct pool_arguments, size)},
    {"pick", offsetof(struct pool_arguments, pick)},
    {"ttl", offsetof(struct pool_arguments, ttl)},
    {"on-expiry", offsetof(struct pool_arguments, on_expiry)},
    {"window", offsetof(struct pool_arguments, window)},
    {"confirm", offsetof(struct pool_arguments, confirm)},
    {"verify", offsetof(struct pool_arguments, verify)},
    {"results-max", offsetof(struct pool_arguments, results_max)},
    {"retention", offsetof(struct pool_arguments, retention)},
};

/* The server's warnings about the rules are for people; they are no errors. */
static void print_warnings(yyjson_val *pool)
{
    size_t i, max;
    yyjson_val *warning;
    yyjson_arr_foreach(yyjson_obj_get(pool, "Warnings"), i, max, warning)
    {
        if (yyjson_is_str(warning))
            complain("note: %s", yyjson_get_str(warning));
    }
}

static int call(struct invocation *invocation, const char *action)
{
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    int status = pool_arguments_write(invocation, invocation->settings, &body);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status != EXIT_DONE) {
        yyjson_mut_doc_free(body.doc_owned);
        return status;
    }
    return output_call(invocation, &body, action, print_warnings);
}

static int run_create(struct invocation *invocation)
{
    return call(invocation, "Tally.CreatePool");
}

static int run_update(struct invocation *invocation)
{
    return call(invocation, "Tally.UpdatePool");
}

const struct command command_pool_create = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct pool_arguments),
    .run = run_create,
};

const struct command command_pool_update = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct pool_arguments),
    .run = run_update,
};
