#include "tally/request.h"

#include "tally/pages.h"

#include <ctype.h>
#include <stdio.h>

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

static void add_members(void *context, struct json_body *body)
{
    const struct invocation *invocation = context;
    for (int i = 0; i < invocation->argument_count; i++)
        json_add_text(body, body->root, invocation->row->command->members[i], invocation->arguments[i]);
    for (size_t i = 0; i < invocation->row->option_count; i++)
        add_option(invocation, invocation->row->options[i].name, body);
}

int request_run(struct invocation *invocation)
{
    const struct command *command = invocation->row->command;
    struct json_body body;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (command->list != NULL)
        return pages_run(&(struct pages){.invocation = invocation,
                                         .action = command->action,
                                         .list = command->list,
                                         .ask = add_members,
                                         .print = command->print,
                                         .context = invocation});
    json_body_init(&body);
    add_members(invocation, &body);
    return output_call(invocation, &body, command->action, command->print);
}
