/* tally queue list: the names of the queues. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

struct settings {
    const char *prefix;
    bool has_urls;
};

static const struct option_row options[] = {
    {"prefix", "TEXT", "only queues whose name begins so", OPTION_TEXT, offsetof(struct settings, prefix), 0, 0, NULL},
    {"urls", NULL, "print URLs instead of names", OPTION_FLAG, offsetof(struct settings, has_urls), 0, 0, NULL},
};

/* Adds a page to `all` or prints it, and copies the token of the next page, "" where there is none. */
static void take_page(const struct settings *settings, const struct tally_reply *reply, yyjson_mut_doc *doc,
                      yyjson_mut_val *all, char *token, size_t token_size)
{
    yyjson_val *root = json_root(reply);
    size_t i, max;
    yyjson_val *value;

    yyjson_arr_foreach(yyjson_obj_get(root, "QueueUrls"), i, max, value)
    {
        const char *url = yyjson_get_str(value);
        const char *slash = url == NULL ? NULL : strrchr(url, '/');
        if (all != NULL)
            yyjson_mut_arr_add_strcpy(doc, all, url);
        else if (url != NULL)
            puts(settings->has_urls || slash == NULL ? url : slash + 1);
    }
    json_copy(root, "NextToken", token, token_size);
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct json_body answer;
    yyjson_mut_val *all;
    char token[4096] = "";
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    json_body_init(&answer);
    all = json_add_array(&answer, answer.root, "QueueUrls");
    do {
        struct json_body body;
        struct tally_reply reply;
        json_body_init(&body);
        json_add_text(&body, body.root, "QueueNamePrefix", settings->prefix);
        json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
        json_add_number(&body, body.root, "MaxResults", 1000);
        if (json_body_call(&body, invocation->client, "AmazonSQS.ListQueues", &reply) != TALLY_OK) {
            status = invocation_failed(invocation, invocation->client);
            break;
        }
        take_page(settings, &reply, answer.doc_owned, invocation->is_json ? all : NULL, token, sizeof token);
        tally_reply_deinit(&reply);
    } while (*token != '\0');
    if (status == EXIT_DONE && invocation->is_json)
        output_document(answer.doc_owned);
    yyjson_mut_doc_free(answer.doc_owned);
    return status;
}

const struct command command_queue_list = {
    .arguments = "",
    .text = "Prints the names of all queues, one a line, in the order of their names.\n",
    .examples = "  tally queue list\n"
                "  tally queue list --prefix test- | xargs -n 1 tally queue delete\n"
                "  tally queue list --json\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .run = run,
};
