#include "tally/pages.h"

#include <stdio.h>

#define PAGE_SIZE 1000u
#define TOKEN_SIZE 4096u

static void take_item(const struct pages *pages, yyjson_val *item)
{
    if (pages->take != NULL)
        pages->take(pages->context, item);
    else if (pages->invocation->is_json)
        output_value(item);
    else
        pages->print(item);
}

/* Takes a page of `left` items at most, and subtracts them from *left. */
static int take_page(const struct pages *pages, uint64_t *left, char token[TOKEN_SIZE])
{
    struct tally_client *client = pages->invocation->client;
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *item;
    json_body_init(&body);
    if (pages->ask != NULL)
        pages->ask(pages->context, &body);
    json_add_number(&body, body.root, "MaxResults", *left < PAGE_SIZE ? *left : PAGE_SIZE);
    json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
    if (json_body_call(&body, client, pages->action, &reply) != TALLY_OK)
        return invocation_failed(pages->invocation, client);
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), pages->list), i, max, item)
    {
        take_item(pages, item);
        *left -= *left > 0;
    }
    json_copy(json_root(&reply), "NextToken", token, TOKEN_SIZE);
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

int pages_run(const struct pages *pages)
{
    uint64_t left = pages->limit == 0 ? UINT64_MAX : pages->limit;
    char token[TOKEN_SIZE] = "";
    int status;
    do
        status = take_page(pages, &left, token);
    while (status == EXIT_DONE && *token != '\0' && left > 0 && !ferror(stdout)); /* main() tells of the error */
    if (status == EXIT_DONE && *token != '\0' && left == 0)
        complain("these are the first %llu, and there may be more; --limit 0 lists all",
                 (unsigned long long)pages->limit);
    return status;
}
