#include "tally/pages.h"

static void print_item(yyjson_val *item)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_doc_set_root(doc, yyjson_val_mut_copy(doc, item));
    output_document(doc);
    yyjson_mut_doc_free(doc);
}

static enum tally_status call_page(struct invocation *invocation, const struct pages *pages, const char *token,
                                   struct tally_reply *reply)
{
    struct json_body body;
    json_body_init(&body);
    for (size_t i = 0; i < pages->parameter_count; i++)
        json_add_text(&body, body.root, pages->parameters[i][0], pages->parameters[i][1]);
    json_add_number(&body, body.root, "MaxResults", 1000);
    json_add_text(&body, body.root, "NextToken", token);
    return json_body_call(&body, invocation->client, pages->target, reply);
}

int pages_print(struct invocation *invocation, const struct pages *pages)
{
    char token[4096] = "";
    int status = invocation_connect(invocation);

    if (status != EXIT_DONE)
        return status;
    do {
        struct tally_reply reply;
        size_t i, max;
        yyjson_val *item;
        if (call_page(invocation, pages, *token == '\0' ? NULL : token, &reply) != TALLY_OK)
            return invocation_failed(invocation, invocation->client);
        yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), pages->list), i, max, item)
        {
            if (invocation->is_json)
                print_item(item);
            else
                pages->print(item);
        }
        json_copy(json_root(&reply), "NextToken", token, sizeof token);
        tally_reply_deinit(&reply);
    } while (*token != '\0');
    return EXIT_DONE;
}
