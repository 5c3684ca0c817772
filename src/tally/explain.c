/* tally explain: where a message is, and why it is not delivered. */
#include "tally/output.h"
#include <string.h>

static void print_text(const struct tally_explanation *explanation)
{
    bool has_ended = strcmp(explanation->state, "ended") == 0;
    output_field("state", explanation->state);
    if (has_ended && explanation->reason_count == 0)
        output_field("why", "It ended so long ago that nothing is remembered of how.");
    for (size_t i = 0; i < explanation->reason_count; i++)
        output_field(i == 0 ? "why" : "", explanation->reasons_owned[i]);
}

static int run(struct invocation *invocation)
{
    struct tally_explanation explanation;
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    if (tally_explain(invocation->client, invocation->arguments[0], invocation->arguments[1], &explanation) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (invocation->is_json)
        output_reply(&explanation.reply_owned);
    else
        print_text(&explanation);
    tally_explanation_deinit(&explanation);
    return EXIT_DONE;
}

const struct command command_explain = {
    .arguments = "QUEUE MESSAGE-ID",
    .text =
        "Says where a message is and, if it is not delivered, why: the message of its group that stands before it, a "
        "held\n"
        "or paused group, a delay, a back-off, a rate, what it depends on, or who has it in flight and until when. Of "
        "one that\n"
        "has ended it says how and when, while that is remembered; the reason of a failure is kept by dead letters "
        "only.\n"
        "States: ready, delayed, in-flight, blocked, held, ended, unknown (not a message of this queue).\n",
    .examples = "  id=$(tally send orders hello)\n"
                "  tally explain orders \"$id\"\n"
                "  tally explain orders \"$id\" --json | jq .Why\n",
    .arguments_min = 2,
    .arguments_max = 2,
    .run = run,
};
