/* tally batch create: makes a batch. */
#include "base/assert.h"
#include "tally/output.h"

#define SECONDS_MAX (100ull * 366 * 86400)

struct settings {
    struct option_number total;
    const char *tracking;
    const char *on_complete;
    const char *on_success;
    const char *on_first_failure;
    const char *body;
    const char *parent;
    struct option_number expires;
    struct option_number retention;
};

static const struct setting settings_table[] = {
    {"on-complete", offsetof(struct settings, on_complete)},
    {"on-success", offsetof(struct settings, on_success)},
    {"on-first-failure", offsetof(struct settings, on_first_failure)},
    {"body", offsetof(struct settings, body)},
    {"total", offsetof(struct settings, total)},
    {"parent", offsetof(struct settings, parent)},
    {"tracking", offsetof(struct settings, tracking)},
    {"expires", offsetof(struct settings, expires)},
    {"retention", offsetof(struct settings, retention)},
};

static const struct tally_target *make_target(struct tally_target *target, const char *queue, const char *body)
{
    *target = (struct tally_target){.queue = queue, .body = body};
    return queue == NULL ? NULL : target;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct tally_target complete, success, failure;
    struct tally_batch_options batch = {
        .id = invocation->argument_count > 0 ? invocation->arguments[0] : NULL,
        .tracking = settings->tracking,
        .parent = settings->parent,
        .has_total = settings->total.is_given,
        .total = settings->total.value,
        .on_complete = make_target(&complete, settings->on_complete, settings->body),
        .on_success = make_target(&success, settings->on_success, settings->body),
        .on_first_failure = make_target(&failure, settings->on_first_failure, settings->body),
        .expires_after_s = settings->expires.value,
        .has_retention = settings->retention.is_given,
        .retention_s = settings->retention.value,
    };
    char id[TALLY_BATCH_ID_SIZE];
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    if (tally_batch_create(invocation->client, &batch, id) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    output_text(invocation, "BatchId", id);
    return EXIT_DONE;
}

const struct command command_batch_create = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
