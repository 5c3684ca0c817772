/* tally relay doubts and resolve: the rows that a relay has put aside. */
#include "base/bytes.h"
#include "tally/output.h"
#include <stdio.h>
#include <stdlib.h>

/* Carries out `action` and frees the body, whatever comes. */
static int call(struct invocation *invocation, struct json_body *body, const char *action, struct tally_reply *reply)
{
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE) {
        yyjson_mut_doc_free(body->doc_owned);
        return status;
    }
    if (json_body_call(body, invocation->client, action, reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    return EXIT_DONE;
}

static void print_doubt(yyjson_val *doubt)
{
    const char *queue = json_text(doubt, "QueueName"), *error = json_text(doubt, "Error");
    printf("%s %-8s %s: %s\n", json_text(doubt, "Uid"), json_is_true(doubt, "IsInDoubt") ? "doubted" : "refused",
           queue == NULL ? "-" : queue, error == NULL ? "" : error);
}

static int run_doubts(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    int status = call(invocation, &body, "Tally.ListDoubts", &reply);
    if (status != EXIT_DONE)
        return status;
    size_t i, max;
    yyjson_val *doubt;
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Doubts"), i, max, doubt)
    {
        char *line = invocation->is_json ? json_write_value(doubt, NULL) : NULL;
        if (line != NULL)
            puts(line);
        else
            print_doubt(doubt);
        free(line);
    }
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run_resolve(struct invocation *invocation)
{
    struct json_body body;
    struct tally_reply reply;
    uint64_t id;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    if (bytes_to_u64(bytes_from_string(invocation->arguments[1]), &id))
        json_add_number(&body, body.root, "Id", id);
    else
        json_add_text(&body, body.root, "Uid", invocation->arguments[1]);
    json_add_text(&body, body.root, "Action", invocation->arguments[2]);
    int status = call(invocation, &body, "Tally.ResolveDoubt", &reply);
    if (status != EXIT_DONE)
        return status;
    if (invocation->is_json)
        output_reply(&reply);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

const struct command command_relay_doubts = {
    .arguments = "NAME",
    .text =
        "Prints the rows that a relay has put aside, the oldest first: the id of the message, whether it was refused\n"
        "or may have been delivered (doubted), its queue, and why. With --json each is one line of JSON.\n",
    .examples = "  tally relay doubts orders\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_doubts,
};

const struct command command_relay_resolve = {
    .arguments = "NAME ID send|drop",
    .text = "Ends the wait of a row that a relay has put aside: send delivers it (again), behind the rows that are "
            "there,\n"
            "under its old id; drop lets it go. ID is that of the message or the number of the row, as `tally relay "
            "doubts`\n"
            "shows them. It is done soon, by the relay.\n",
    .examples = "  tally relay resolve orders 3f0c6b1a-7d3e-4a52-9c1b-0d7c2c1e9a10 send\n"
                "  tally relay resolve orders 1042 drop\n",
    .arguments_min = 3,
    .arguments_max = 3,
    .run = run_resolve,
};
