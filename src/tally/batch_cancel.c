/* tally batch cancel: cancels the units that have not ended. */
#include "tally/command.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_batch_cancel(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_batch_cancel = {
    .arguments = "ID",
    .text = "Cancels the units that have not ended: their messages are never delivered again, and the batch completes "
            "with\n"
            "status cancelled. What is running meanwhile is not stopped; its end is no longer counted.\n",
    .examples = "  tally batch cancel night\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
