/* tally queue create: makes a queue. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include <stdlib.h>
#include <string.h>

struct settings {
    struct option_list attributes;
};

static const struct option_row options[] = {
    {"attribute", "NAME=VALUE", "an attribute; the same as one behind the queue's name", OPTION_LIST,
     offsetof(struct settings, attributes), 0, 0, NULL},
};

/* No other queue may have such a name. */
static bool is_fifo_name(const char *name)
{
    size_t size = strlen(name);
    return size >= 5 && strcmp(name + size - 5, ".fifo") == 0;
}

static bool has_pair(const struct tally_pair *pairs, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].name, name) == 0)
            return true;
    return false;
}

/* Makes the queue; `pairs` has room for the attributes of both forms and one more. */
static int create(struct invocation *invocation, struct tally_pair *pairs)
{
    const struct option_list *given = &((const struct settings *)invocation->settings)->attributes;
    size_t count = (size_t)invocation->argument_count - 1;
    char *texts[OPTION_LIST_MAX];
    char *url;
    int status;

    for (size_t i = 0; i < given->count; i++)
        texts[i] = (char *)(uintptr_t)given->items[i]; /* words of main() may be written to */
    status = assignment_pairs(invocation, texts, given->count, pairs);
    if (status == EXIT_DONE)
        status = assignment_pairs(invocation, invocation->arguments + 1, count, pairs + given->count);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    count += given->count;
    if (is_fifo_name(invocation->arguments[0]) && !has_pair(pairs, count, "FifoQueue"))
        pairs[count++] = (struct tally_pair){.name = "FifoQueue", .value = "true"};
    if (tally_queue_create(invocation->client, invocation->arguments[0], pairs, count, &url) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    output_text(invocation, "QueueUrl", url);
    free(url);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    size_t count = settings->attributes.count + (size_t)invocation->argument_count;
    struct tally_pair *pairs = memory_allocate_zeroed(count * sizeof *pairs);
    int status = create(invocation, pairs);
    free(pairs);
    return status;
}

const struct command command_queue_create = {
    .arguments = "NAME [ATTRIBUTE=VALUE...]",
    .text =
        "Makes a queue and prints its URL. A queue that exists already with the same values of the attributes "
        "given is\n"
        "found instead, so the command may be repeated. Attributes, all optional:\n"
        "  VisibilityTimeout=30             seconds a received message is hidden from other workers\n"
        "  MessageRetentionPeriod=345600    seconds a message is kept\n"
        "  DelaySeconds=0                   seconds before a message sent is delivered\n"
        "  ReceiveMessageWaitTimeSeconds=0  seconds a receive waits for a message\n"
        "  MaximumMessageSize=1048576       bytes\n"
        "  RedrivePolicy={\"deadLetterTargetArn\": ARN, \"maxReceiveCount\": N}\n"
        "                                   where a message goes that was received N times in vain\n"
        "  FifoQueue=true                   order inside each MessageGroupId; goes with a name that ends with .fifo,\n"
        "                                   and is understood there\n"
        "  Tally.OnGroupFailure=skip        FIFO: skip, hold or cancel-rest when a message is out of attempts\n"
        "  Tally.DeduplicationWindow=300    seconds; 0 none, -1 for ever\n"
        "  Tally.StaleReceipts=accept       or refuse: older receipt handles of a message do nothing\n"
        "  Tally.DeliveryMode=at-least-once or at-most-once: the receive ends the message\n"
        "  Tally.Backoff={\"min\": 1, \"max\": 900, \"factor\": 2, \"jitter\": 0.2}\n"
        "                                   seconds before a failed message is tried again\n"
        "  Tally.RateLimit={\"queue\": {\"rate\": 100}, \"group\": {\"rate\": 1, \"burst\": 5}}\n"
        "                                   deliveries a second\n"
        "docs/protocol.md has them all.\n",
    .examples = "  tally queue create orders\n"
                "  tally queue create slow-jobs VisibilityTimeout=600\n"
                "  tally queue create comments.fifo Tally.OnGroupFailure=hold\n"
                "\n"
                "  # A queue whose messages go to another one after five failed attempts:\n"
                "  tally queue create dead\n"
                "  tally queue create jobs RedrivePolicy='{\"deadLetterTargetArn\":\n"
                "    \"arn:aws:sqs:us-east-1:000000000000:dead\", \"maxReceiveCount\": 5}'\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = -1,
    .run = run,
};
