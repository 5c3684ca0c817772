/* tally queue set: changes attributes of a queue. */
#include "tally/queue_pairs.h"

static int run(struct invocation *invocation)
{
    return queue_pairs_run(invocation, "Attributes", "AmazonSQS.SetQueueAttributes");
}

const struct command command_queue_set = {
    .arguments = "QUEUE ATTRIBUTE=VALUE...",
    .text = "Changes attributes of a queue, all of those given or none. `tally queue create --help` explains them; an "
            "empty\n"
            "value takes a RedrivePolicy away. A new VisibilityTimeout or DelaySeconds holds for what comes after it; "
            "a new\n"
            "MessageRetentionPeriod also for the messages that are there.\n",
    .examples = "  tally queue set orders VisibilityTimeout=120 ReceiveMessageWaitTimeSeconds=20\n"
                "  tally queue set jobs RedrivePolicy=\n",
    .arguments_min = 2,
    .arguments_max = -1,
    .run = run,
};
