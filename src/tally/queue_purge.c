/* tally queue purge: deletes all messages of a queue. */
#include "tally/command.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_queue_purge(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_queue_purge = {
    .arguments = "QUEUE",
    .text =
        "Deletes all messages of a queue: waiting, delayed and in flight. They can't be brought back. Those that are\n"
        "units of a batch count as failed.\n",
    .examples = "  tally queue purge orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
