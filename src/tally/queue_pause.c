/* tally queue pause: stops deliveries from a queue. */
#include "tally/output.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_queue_pause(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_queue_pause = {
    .arguments = "QUEUE",
    .text = "Stops deliveries from a queue until `tally queue resume`, also over a restart of the server. Messages are "
            "taken in\n"
            "as ever; what is in flight may be finished, and comes back to wait if it is not. Harmless if repeated.\n",
    .examples = "  tally queue pause orders\n"
                "  tally queue resume orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
