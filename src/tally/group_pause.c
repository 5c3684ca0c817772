/* tally group pause: stops deliveries from one group. */
#include "tally/output.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_group_pause(invocation->client, invocation->arguments[0], invocation->arguments[1]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_group_pause = {
    .arguments = "QUEUE GROUP",
    .text = "Stops deliveries from one group of a queue until `tally group resume`, also over a restart of the server; "
            "other\n"
            "groups go on. Messages are taken in as ever; what is in flight may be finished, and comes back to wait if "
            "it is\n"
            "not. A group may be paused before it has a message. Harmless if repeated.\n",
    .examples = "  tally group pause comments.fifo post-17\n"
                "  tally group resume comments.fifo post-17\n",
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
