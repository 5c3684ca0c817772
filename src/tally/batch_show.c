/* tally batch show: how far a batch is. */
#include "tally/output.h"
#include <stdio.h>

static void print_text(yyjson_val *batch)
{
    static const char *const counts[][2] = {
        {"total", "Total"},         {"succeeded", "Succeeded"}, {"failed", "Failed"},
        {"cancelled", "Cancelled"}, {"remaining", "Remaining"},
    };
    const char *status = json_text(batch, "Status");
    const char *message = json_text(batch, "CompletionMessageId");

    output_field("batch", json_text(batch, "BatchId") == NULL ? "" : json_text(batch, "BatchId"));
    output_field("state", json_text(batch, "State") == NULL ? "" : json_text(batch, "State"));
    if (status != NULL)
        output_field("status", status);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        output_number(counts[i][0], json_number(batch, counts[i][1]));
    output_time("created", json_real(batch, "CreatedAt"));
    output_time("sealed", json_real(batch, "SealedAt"));
    output_time("completed", json_real(batch, "CompletedAt"));
    if (message != NULL)
        output_field("message", message);
}

static int run(struct invocation *invocation)
{
    return output_named(invocation, "BatchId", "Tally.DescribeBatch", print_text);
}

const struct command command_batch_show = {
    .arguments = "ID",
    .text =
        "Prints a batch's state (open, sealed or completed), how its units ended and how many have not; when it is\n"
        "complete, also its status (succeeded, failed, cancelled or expired) and the id of its completion message.\n",
    .examples = "  tally batch show night\n"
                "  tally batch show night --json | jq .Remaining\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
