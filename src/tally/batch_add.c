/* tally batch add: registers external units of a batch. */
#include "base/assert.h"
#include "tally/keys.h"
#include <stdio.h>

#define UNITS_MAX UINT32_MAX

struct settings {
    struct option_number count;
};

static const struct setting settings_table[] = {
    {"count", offsetof(struct settings, count)},
};

static int add(struct invocation *invocation, const struct keys *keys)
{
    const struct settings *settings = invocation->settings;
    const char *id = invocation->arguments[0];
    struct tally_added added = {.added = 0};
    enum tally_status result;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    if (settings->count.is_given)
        result = tally_batch_add_count(invocation->client, id, settings->count.value, &added);
    else
        result = tally_batch_add(invocation->client, id, (const char *const *)keys->items, keys->count, &added);
    if (result != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    printf(invocation->is_json ? "{\"Added\":%llu,\"Total\":%llu}\n" : "added %llu, total %llu\n",
           (unsigned long long)added.added, (unsigned long long)added.total);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct keys keys;
    int status;

    if (settings->count.is_given == (invocation->argument_count > 1))
        return complain_usage(invocation, "give either keys, or - for keys on standard input, or --count");
    status = keys_init(&keys, invocation, 1);
    if (status == EXIT_DONE && !settings->count.is_given && keys.count == 0) {
        complain("standard input has no keys: nothing was added");
        status = EXIT_USAGE;
    }
    if (status == EXIT_DONE)
        status = add(invocation, &keys);
    keys_deinit(&keys);
    return status;
}

const struct command command_batch_add = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
