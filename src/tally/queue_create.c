/* tally queue create: makes a queue. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include <stdio.h>
#include <stdlib.h>

static int run(struct invocation *invocation)
{
    size_t count = (size_t)invocation->argument_count - 1;
    struct tally_pair *pairs = memory_allocate_zeroed(count * sizeof *pairs);
    int status = assignment_pairs(invocation, invocation->arguments + 1, count, pairs);
    char *url;

    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE) {
        if (tally_queue_create(invocation->client, invocation->arguments[0], pairs, count, &url) != TALLY_OK) {
            status = invocation_failed(invocation, invocation->client);
        } else {
            printf(invocation->is_json ? "{\"QueueUrl\":\"%s\"}\n" : "%s\n", url);
            free(url);
        }
    }
    free(pairs);
    return status;
}

const struct command command_queue_create = {
    .arguments = "NAME [ATTRIBUTE=VALUE...]",
    .text = "Makes a queue and prints its URL. A queue that exists already with the same values of the attributes "
            "given is\n"
            "found instead, so the command may be repeated. Attributes, all optional:\n"
            "  VisibilityTimeout=30             seconds a received message is hidden from other workers\n"
            "  MessageRetentionPeriod=345600    seconds a message is kept\n"
            "  DelaySeconds=0                   seconds before a message sent is delivered\n"
            "  ReceiveMessageWaitTimeSeconds=0  seconds a receive waits for a message\n"
            "  MaximumMessageSize=1048576       bytes\n"
            "  RedrivePolicy={\"deadLetterTargetArn\": ARN, \"maxReceiveCount\": N}\n"
            "                                   where a message goes that was received N times in vain\n",
    .examples = "  tally queue create orders\n"
                "  tally queue create slow-jobs VisibilityTimeout=600\n"
                "\n"
                "  # A queue whose messages go to another one after five failed attempts:\n"
                "  tally queue create dead\n"
                "  tally queue create jobs RedrivePolicy='{\"deadLetterTargetArn\":\n"
                "    \"arn:aws:sqs:us-east-1:000000000000:dead\", \"maxReceiveCount\": 5}'\n",
    .arguments_min = 1,
    .arguments_max = -1,
    .run = run,
};
