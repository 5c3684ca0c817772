/* tally group resume: lets a paused group deliver again. */
#include "tally/output.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_group_resume(invocation->client, invocation->arguments[0], invocation->arguments[1]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_group_resume = {
    .arguments = "QUEUE GROUP",
    .text = "Lets a group that was paused deliver again, at once. Does nothing to one that was not. A group that is "
            "*held*\n"
            "because a message of it failed goes on by `tally group release`.\n",
    .examples = "  tally group resume comments.fifo post-17\n",
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
