/* tally batch delete: forgets a completed batch. */
#include "tally/command.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_batch_delete(invocation->client, invocation->arguments[0]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_batch_delete = {
    .arguments = "ID",
    .text =
        "Forgets a completed batch; its id may be used again. Batches that were completed some time ago are forgotten "
        "by\n"
        "themselves. Refused while the batch has not completed (BatchNotCompleted): `tally batch cancel` ends it.\n",
    .examples = "  tally batch delete night\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
