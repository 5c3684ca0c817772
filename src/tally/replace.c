/* tally replace: puts a changed copy in the place of a message. */
#include "base/assert.h"
#include "tally/assignment.h"
#include "tally/editor.h"
#include "tally/input.h"
#include "tally/output.h"

#include <stdio.h>
#include <string.h>

#define BODY_SIZE_MAX (2u << 20) /* the server's limit is half of this, and its error message is better */

struct settings {
    const char *file;
    struct option_list attributes;
};

static const struct setting settings_table[] = {
    {"file", offsetof(struct settings, file)},
    {"attribute", offsetof(struct settings, attributes)},
};

static void print_id(yyjson_val *answer)
{
    puts(output_text_of(answer, "MessageId"));
}

/* `text` is the new body; NULL: the old one stays. */
static int replace(struct invocation *invocation, const char *text)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    json_add_text(&body, body.root, "MessageId", invocation->arguments[1]);
    json_add_text(&body, body.root, "MessageBody", text);
    if (assignment_add_members(invocation, &settings->attributes, &body) == EXIT_DONE)
        return output_call(invocation, &body, "Tally.ReplaceMessage", print_id);
    yyjson_mut_doc_free(body.doc_owned);
    return EXIT_USAGE;
}

static int replace_by_file(struct invocation *invocation, const char *path)
{
    struct buffer text;
    buffer_init(&text);
    const int status =
        input_read_file(path, &text, BODY_SIZE_MAX) ? replace(invocation, (const char *)text.data_owned) : EXIT_LOCAL;
    buffer_deinit(&text);
    return status;
}

/* --- in an editor ------------------------------------------------------------------------------------------------- */

static int edit(struct invocation *invocation, const char *before)
{
    struct edited edited;
    int status = editor_change(invocation, before, BODY_SIZE_MAX, &edited);
    if (status != EXIT_DONE)
        return status;
    const char *text = (const char *)edited.text.data_owned;
    const bool is_same = strcmp(text, before) == 0;
    if (is_same)
        complain("the body is as it was; nothing was replaced");
    else
        status = replace(invocation, text);
    editor_end(&edited, status != EXIT_DONE);
    return status;
}

static int edit_body(struct invocation *invocation)
{
    struct tally_reply reply;
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "MessageId", invocation->arguments[1]);
    if (json_body_call(&body, invocation->client, "Tally.GetMessage", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    const char *before = json_text(json_root(&reply), "Body");
    int status = EXIT_REFUSED;
    if (before != NULL)
        status = edit(invocation, before);
    else
        complain("there is no message %s to edit: its state is %s", invocation->arguments[1],
                 output_text_of(json_root(&reply), "State"));
    tally_reply_deinit(&reply);
    return status;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    const char *body = invocation->argument_count > 2 ? invocation->arguments[2] : NULL;
    if (body != NULL && settings->file != NULL)
        return complain_usage(invocation, "give a body or --file, not both");
    const int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    if (settings->file != NULL || (body != NULL && strcmp(body, "-") == 0))
        return replace_by_file(invocation, settings->file != NULL ? settings->file : "-");
    const bool keeps_body = body == NULL && settings->attributes.count > 0;
    return body != NULL || keeps_body ? replace(invocation, body) : edit_body(invocation);
}

const struct command command_replace = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
