#include "tally/request.h"

#include <ctype.h>
#include <stdio.h>

#define PAGE_SIZE 1000

/* "prefix" is the member "Prefix". */
static void add_option(const struct invocation *invocation, const char *name, struct json_body *body)
{
    const char *const *text = options_find_setting(invocation, name);
    char member[32];
    snprintf(member, sizeof member, "%c%s", toupper((unsigned char)name[0]), name + 1);
    if (*text != NULL)
        yyjson_mut_obj_add(body->root, yyjson_mut_strcpy(body->doc_owned, member),
                           yyjson_mut_str(body->doc_owned, *text));
}

static void body_init(const struct invocation *invocation, struct json_body *body)
{
    json_body_init(body);
    for (int i = 0; i < invocation->argument_count; i++)
        json_add_text(body, body->root, invocation->row->command->members[i], invocation->arguments[i]);
    for (size_t i = 0; i < invocation->row->option_count; i++)
        add_option(invocation, invocation->row->options[i].name, body);
}

/* Requests page after page until there is no NextToken. With --json each item is a line of JSON. */
static int print_pages(struct invocation *invocation)
{
    const struct command *command = invocation->row->command;
    char token[4096] = "";
    do {
        struct json_body body;
        struct tally_reply reply;
        size_t i, max;
        yyjson_val *item;
        body_init(invocation, &body);
        json_add_number(&body, body.root, "MaxResults", PAGE_SIZE);
        json_add_text(&body, body.root, "NextToken", *token == '\0' ? NULL : token);
        if (json_body_call(&body, invocation->client, command->action, &reply) != TALLY_OK)
            return invocation_failed(invocation, invocation->client);
        yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), command->list), i, max, item)
        {
            if (invocation->is_json)
                output_value(item);
            else
                command->print(item);
        }
        json_copy(json_root(&reply), "NextToken", token, sizeof token);
        tally_reply_deinit(&reply);
    } while (*token != '\0');
    return EXIT_DONE;
}

int request_run(struct invocation *invocation)
{
    const struct command *command = invocation->row->command;
    struct json_body body;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (command->list != NULL)
        return print_pages(invocation);
    body_init(invocation, &body);
    return output_call(invocation, &body, command->action, command->print);
}
