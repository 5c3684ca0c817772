/* tally queue show: a queue's attributes and counts. */
#include "tally/output.h"
#include <stdio.h>

static void print_attributes(const struct tally_reply *reply)
{
    size_t i, max;
    yyjson_val *name, *value;
    yyjson_obj_foreach(yyjson_obj_get(json_root(reply), "Attributes"), i, max, name, value)
    {
        printf("%-38s %s\n", yyjson_get_str(name), yyjson_is_str(value) ? yyjson_get_str(value) : "");
    }
}

static int run(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    yyjson_mut_arr_add_str(body.doc_owned, json_add_array(&body, body.root, "AttributeNames"), "All");
    if (json_body_call(&body, invocation->client, "AmazonSQS.GetQueueAttributes", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        output_reply(&reply);
    else
        print_attributes(&reply);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

const struct command command_queue_show = {
    .arguments = "QUEUE",
    .text = "Prints a queue's attributes. Three of them count its messages, exactly, in spite of their names:\n"
            "  ApproximateNumberOfMessages            may be received now\n"
            "  ApproximateNumberOfMessagesNotVisible  in flight: received, not yet deleted\n"
            "  ApproximateNumberOfMessagesDelayed     sent with a delay that has not passed\n",
    .examples = "  tally queue show orders\n"
                "  tally queue show orders --json\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
