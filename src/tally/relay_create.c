/* tally relay create: has the server run a relay. */
#include "base/assert.h"
#include "tally/output.h"
#include "tally/relay_words.h"

struct settings {
    struct relay_words words;
};

static const struct option_row options[] = {RELAY_WORDS_OPTIONS(struct settings, words)};

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    int status;
    json_body_init(&body);
    json_add_text(&body, body.root, "RelayName", invocation->arguments[0]);
    if (relay_words_write(invocation, &settings->words, &body, &status))
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        return output_call(invocation, &body, "Tally.CreateRelay", NULL);
    yyjson_mut_doc_free(body.doc_owned);
    return status;
}

const struct command command_relay_create = {
    .arguments = "NAME",
    .text =
        "Has the server carry messages from a source to a sink from now on, also after a restart. The source is an\n"
        "outbox in a database (`tally relay schema`) or a queue of the server, the sink a queue of the server, one\n"
        "behind any endpoint of SQS, or a web hook. Of several relays of one outbox, here or elsewhere (`tally relay\n"
        "run`), one works and the others stand by; they must all deliver to the same queues. The same command again\n"
        "changes nothing.\n"
        "\n"
        "The server keeps the connection and the secrets in its log as they are given, and shows no password and no\n"
        "secret. They are better kept out of the command line: --secret-file and --credentials-file are read here, "
        "and\n"
        "a password may stand in the server's ~/.pgpass.\n",
    .examples =
        "  tally relay create orders --source postgres://tally@db/shop --sink queue\n"
        "  tally relay create hooks --source queue:done --sink https://example.com/hook --secret-file hook.key\n"
        "  tally relay create aws --source sqlite:/var/lib/app/my.db --sink "
        "sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo --region eu-west-1 "
        "--credentials-file aws.key\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run,
};
