/* tally delete: ends a message that was received. */
#include "tally/command.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (tally_delete(invocation->client, invocation->arguments[0], invocation->arguments[1]) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        puts("{}");
    return EXIT_DONE;
}

const struct command command_delete = {
    .arguments = "QUEUE RECEIPT-HANDLE",
    .text = "Deletes a message that was received: its work is done. The receipt handle is what `tally receive --json` "
            "shows;\n"
            "only the newest one of a message counts.\n",
    .examples = "  handle=$(tally receive orders --json | jq -r .ReceiptHandle)\n"
                "  tally delete orders \"$handle\"\n",
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
