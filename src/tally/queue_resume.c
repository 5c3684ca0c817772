/* tally queue resume: lets a paused queue deliver again. */
#include "tally/output.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_queue_resume(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_queue_resume = {
    .arguments = "QUEUE",
    .text = "Lets a queue that was paused deliver again, at once. Does nothing to one that was not.\n",
    .examples = "  tally queue resume orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
