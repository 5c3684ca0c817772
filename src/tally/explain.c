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
    .run = run,
};
