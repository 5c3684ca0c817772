/* tally queue delete: deletes a queue and its messages. */
#include "tally/command.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_queue_delete(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_queue_delete = {
    .arguments = "QUEUE",
    .text = "Deletes a queue with all its messages, which can't be brought back. Refused (QueueInUse) while a batch "
            "that has\n"
            "not completed, or a schedule, will send messages there.\n",
    .examples = "  tally queue delete orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
