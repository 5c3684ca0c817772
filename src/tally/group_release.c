/* tally group release: lets a held group go on. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

struct settings {
    bool retries;
    bool skips;
    bool cancels_rest;
};

static const struct option_row options[] = {
    {"retry", NULL, "try the failed message again, with a fresh set of attempts", OPTION_FLAG,
     offsetof(struct settings, retries), 0, 0, NULL},
    {"skip", NULL, "give the failed message up: to the dead-letter queue, or dropped where there is none", OPTION_FLAG,
     offsetof(struct settings, skips), 0, 0, NULL},
    {"cancel-rest", NULL, "give it up, and cancel what stands behind it in the group now", OPTION_FLAG,
     offsetof(struct settings, cancels_rest), 0, 0, NULL},
};

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    enum tally_release action = settings->retries ? TALLY_RELEASE_RETRY
                                : settings->skips ? TALLY_RELEASE_SKIP
                                                  : TALLY_RELEASE_CANCEL_REST;
    int status;

    if (settings->retries + settings->skips + settings->cancels_rest != 1)
        return complain_usage(invocation,
                              "say what becomes of the failed message: one of --retry, --skip, --cancel-rest");
    status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_group_release(invocation->client, invocation->arguments[0], invocation->arguments[1], action) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_group_release = {
    .arguments = "QUEUE GROUP",
    .text = "Lets a held group go on. A group of a FIFO queue with Tally.OnGroupFailure=hold is held when its first "
            "message\n"
            "is out of attempts: nothing behind it is delivered until somebody has looked. `tally group list QUEUE "
            "--state\n"
            "held` shows which groups are, since when and why.\n",
    .examples = "  tally group list comments.fifo --state held\n"
                "  tally group release comments.fifo post-17 --retry\n"
                "  tally group release comments.fifo post-17 --skip\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
