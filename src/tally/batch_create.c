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

static const struct option_row options[] = {
    {"on-complete", "QUEUE", "send the completion message there", OPTION_TEXT, offsetof(struct settings, on_complete),
     0, 0, NULL},
    {"on-success", "QUEUE", "… and one there if every unit succeeded", OPTION_TEXT,
     offsetof(struct settings, on_success), 0, 0, NULL},
    {"on-first-failure", "QUEUE", "… and one there, once, when a unit has failed", OPTION_TEXT,
     offsetof(struct settings, on_first_failure), 0, 0, NULL},
    {"body", "TEXT", "body of these messages; else counts and status as JSON", OPTION_TEXT,
     offsetof(struct settings, body), 0, 0, NULL},
    {"total", "N", "seal the batch by itself when it has N units", OPTION_NUMBER, offsetof(struct settings, total), 0,
     UINT64_MAX, NULL},
    {"parent", "ID", "make this batch a unit of another one", OPTION_TEXT, offsetof(struct settings, parent), 0, 0,
     NULL},
    {"tracking", "exact|xor", "how units are remembered; xor: `tally call Tally.XorUnits`", OPTION_TEXT,
     offsetof(struct settings, tracking), 0, 0, NULL},
    {"expires", "SECONDS", "complete as expired after so long; else 14 days", OPTION_NUMBER,
     offsetof(struct settings, expires), 1, SECONDS_MAX, NULL},
    {"retention", "SECONDS", "remember the batch so long after its completion", OPTION_NUMBER,
     offsetof(struct settings, retention), 0, SECONDS_MAX, NULL},
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
    .arguments = "[ID]",
    .text =
        "Makes a batch and prints its id; without ID a random one. The same command again finds the batch it made "
        "before;\n"
        "the same ID with other options is refused (BatchAlreadyExists).\n"
        "\n"
        "Then: send messages with --batch ID, or `tally batch add ID KEY...`; `tally batch seal ID` when no more will\n"
        "come. When the last unit has ended the completion message is sent: exactly one, whatever crashes.\n",
    .examples = "  tally queue create results\n"
                "  tally batch create night --on-complete results\n"
                "  tally batch create import --on-success next-step --on-first-failure alarms --expires 86400\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_max = 1,
    .run = run,
};
