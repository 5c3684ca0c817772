/* tally batch seal: says that no more units will come. */
#include "tally/output.h"
#include <stdio.h>

static int run(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "BatchId", invocation->arguments[0]);
    if (json_body_call(&body, invocation->client, "Tally.SealBatch", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        output_reply(&reply);
    else
        printf("remaining %llu%s\n", (unsigned long long)json_number(json_root(&reply), "Remaining"),
               json_is_true(json_root(&reply), "Completed") ? ", the batch is complete" : "");
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

const struct command command_batch_seal = {
    .arguments = "ID",
    .text = "Says that no more units will come. The batch completes when its last unit has ended, or now if that has "
            "happened\n"
            "already. May be repeated.\n",
    .examples = "  tally batch seal night\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
