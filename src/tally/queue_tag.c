/* tally queue tag, untag and tags: what a queue is marked with. */
#include "tally/output.h"
#include "tally/queue_pairs.h"
#include <stdio.h>

static int run_tag(struct invocation *invocation)
{
    return queue_pairs_run(invocation, "Tags", "AmazonSQS.TagQueue");
}

static int run_untag(struct invocation *invocation)
{
    struct json_body body;
    yyjson_mut_val *keys;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    keys = json_add_array(&body, body.root, "TagKeys");
    for (int i = 1; i < invocation->argument_count; i++)
        yyjson_mut_arr_add_str(body.doc_owned, keys, invocation->arguments[i]);
    return output_call(invocation, &body, "AmazonSQS.UntagQueue", NULL);
}

static int run_tags(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    if (json_body_call(&body, invocation->client, "AmazonSQS.ListQueueTags", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json) {
        output_reply(&reply);
    } else {
        size_t i, max;
        yyjson_val *key, *value;
        yyjson_obj_foreach(yyjson_obj_get(json_root(&reply), "Tags"), i, max, key, value)
        {
            printf("%s=%s\n", yyjson_get_str(key), yyjson_get_str(value));
        }
    }
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

const struct command command_queue_tag = {
    .arguments = "QUEUE KEY=VALUE...",
    .text = "Gives a queue tags, in place of those it has under the same keys. They mean nothing to the server.\n",
    .examples = "  tally queue tag orders team=billing stage=test\n",
    .arguments_min = 2,
    .arguments_max = -1,
    .run = run_tag,
};

const struct command command_queue_untag = {
    .arguments = "QUEUE KEY...",
    .text = "Takes tags from a queue. Keys of no tag are passed over.\n",
    .examples = "  tally queue untag orders stage\n",
    .arguments_min = 2,
    .arguments_max = -1,
    .run = run_untag,
};

const struct command command_queue_tags = {
    .arguments = "QUEUE",
    .text = "Prints the tags of a queue, one KEY=VALUE a line.\n",
    .examples = "  tally queue tags orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_tags,
};
