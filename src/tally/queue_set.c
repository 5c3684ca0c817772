/* tally queue set: changes attributes of a queue. */
#include "base/memory.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include <stdio.h>
#include <stdlib.h>

static int set_attributes(struct invocation *invocation, const struct tally_pair *pairs, size_t count)
{
    struct json_body body;
    struct tally_reply reply;
    yyjson_mut_val *map;

    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    map = json_add_object(&body, body.root, "Attributes");
    for (size_t i = 0; i < count; i++)
        json_add_text(&body, map, pairs[i].name, pairs[i].value);
    if (json_body_call(&body, invocation->client, "AmazonSQS.SetQueueAttributes", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        output_reply(&reply);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    size_t count = (size_t)invocation->argument_count - 1;
    struct tally_pair *pairs = memory_allocate_zeroed(count * sizeof *pairs);
    int status = assignment_pairs(invocation, invocation->arguments + 1, count, pairs);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = set_attributes(invocation, pairs, count);
    free(pairs);
    return status;
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
