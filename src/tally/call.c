/* tally call: any action of the server, with a JSON body. */
#include "tally/input.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

#define BODY_SIZE_MAX (16u << 20)

static bool is_unknown(const struct tally_client *client)
{
    const struct tally_error *error = tally_client_error(client);
    return error->status == TALLY_REFUSED && strstr(error->code, "UnknownOperation") != NULL;
}

static int call(struct invocation *invocation, const char *body)
{
    struct tally_reply reply;
    const char *action = invocation->arguments[0];
    char target[160];
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    snprintf(target, sizeof target, "%s%s", strchr(action, '.') == NULL ? "AmazonSQS." : "", action);
    enum tally_status answer = tally_call(invocation->client, target, body, &reply);
    /* No action of SQS has the name of one of Tally's own, and what is no action did nothing. */
    if (answer != TALLY_OK && strchr(action, '.') == NULL && is_unknown(invocation->client)) {
        snprintf(target, sizeof target, "Tally.%s", action);
        answer = tally_call(invocation->client, target, body, &reply);
    }
    if (answer != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    output_reply(&reply);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const char *body = invocation->argument_count > 1 ? invocation->arguments[1] : "{}";
    struct buffer input;
    int status = EXIT_LOCAL;

    if (strcmp(body, "-") != 0)
        return call(invocation, body);
    buffer_init(&input);
    if (input_read(&input, BODY_SIZE_MAX))
        status = call(invocation, (const char *)input.data_owned);
    buffer_deinit(&input);
    return status;
}

const struct command command_call = {
    .run = run,
};
