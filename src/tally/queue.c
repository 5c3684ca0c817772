/* Commands about an existing queue: tally queue show, set, tag, untag, tags, pause, resume, purge and delete. */
#include "base/assert.h"
#include "base/memory.h"
#include "tally/assignment.h"
#include "tally/selection.h"
#include <stdio.h>
#include <stdlib.h>

/* --- Attributes and tags ------------------------------------------------------------------------------------------ */

static void print_attributes(yyjson_val *answer)
{
    size_t i, max;
    yyjson_val *name, *value;
    yyjson_obj_foreach(yyjson_obj_get(answer, "Attributes"), i, max, name, value)
    {
        printf("%-38s ", yyjson_get_str(name));
        output_in_line("", yyjson_is_str(value) ? yyjson_get_str(value) : "");
        puts("");
    }
}

static void print_tags(yyjson_val *answer)
{
    size_t i, max;
    yyjson_val *key, *value;
    yyjson_obj_foreach(yyjson_obj_get(answer, "Tags"), i, max, key, value)
    {
        output_in_line("", yyjson_get_str(key));
        output_in_line("=", yyjson_get_str(value));
        puts("");
    }
}

/* Calls the action with the queue and a list of texts. */
static int call_with_list(struct invocation *invocation, const char *action, const char *member,
                          const char *const *texts, size_t count, void (*print)(yyjson_val *answer))
{
    struct json_body body;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    yyjson_mut_val *list = json_add_array(&body, body.root, member);
    for (size_t i = 0; i < count; i++)
        yyjson_mut_arr_add_str(body.doc_owned, list, texts[i]);
    return output_call(invocation, &body, action, print);
}

static int run_show(struct invocation *invocation)
{
    static const char *const all[] = {"All"};
    return call_with_list(invocation, "AmazonSQS.GetQueueAttributes", "AttributeNames", all, 1, print_attributes);
}

static int run_untag(struct invocation *invocation)
{
    return call_with_list(invocation, "AmazonSQS.UntagQueue", "TagKeys", (const char *const *)invocation->arguments + 1,
                          (size_t)invocation->argument_count - 1, NULL);
}

/* Calls the action with the queue and the assignments in the other arguments, each Name=Value. */
static int call_with_pairs(struct invocation *invocation, const char *action, const char *member)
{
    size_t count = (size_t)invocation->argument_count - 1;
    struct tally_pair *pairs = memory_allocate_zeroed(count * sizeof *pairs);
    int status = assignment_pairs(invocation, invocation->arguments + 1, count, pairs);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE) {
        struct json_body body;
        json_body_init(&body);
        json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
        yyjson_mut_val *map = json_add_object(&body, body.root, member);
        for (size_t i = 0; i < count; i++)
            json_add_text(&body, map, pairs[i].name, pairs[i].value);
        status = output_call(invocation, &body, action, NULL);
    }
    free(pairs);
    return status;
}

static int run_set(struct invocation *invocation)
{
    return call_with_pairs(invocation, "AmazonSQS.SetQueueAttributes", "Attributes");
}

static int run_tag(struct invocation *invocation)
{
    return call_with_pairs(invocation, "AmazonSQS.TagQueue", "Tags");
}

/* --- Ends --------------------------------------------------------------------------------------------------------- */

struct end_settings {
    bool is_dry_run;
};

static const struct setting end_table[] = {
    {"dry-run", offsetof(struct end_settings, is_dry_run)},
};

static int call_end(struct invocation *invocation, const char *action)
{
    const struct end_settings *settings = invocation->settings;
    struct json_body body;
    int status = invocation_connect(invocation);
    if (status != EXIT_DONE)
        return status;
    json_body_init(&body);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[0]);
    return selection_call(invocation, &body, action, settings->is_dry_run);
}

static int run_purge(struct invocation *invocation)
{
    return call_end(invocation, "AmazonSQS.PurgeQueue");
}

static int run_delete(struct invocation *invocation)
{
    return call_end(invocation, "AmazonSQS.DeleteQueue");
}

/* --- Commands ----------------------------------------------------------------------------------------------------- */

const struct command command_queue_show = {.run = run_show};
const struct command command_queue_set = {.run = run_set};
const struct command command_queue_tag = {.run = run_tag};
const struct command command_queue_untag = {.run = run_untag};
const struct command command_queue_tags = {
    .action = "AmazonSQS.ListQueueTags", .members = {"QueueUrl"}, .print = print_tags};
const struct command command_queue_pause = {.action = "Tally.PauseQueue", .members = {"QueueUrl"}};
const struct command command_queue_resume = {.action = "Tally.ResumeQueue", .members = {"QueueUrl"}};
const struct command command_queue_purge = {.settings = end_table,
                                            .setting_count = ARRAY_LENGTH(end_table),
                                            .settings_size = sizeof(struct end_settings),
                                            .run = run_purge};
const struct command command_queue_delete = {.settings = end_table,
                                             .setting_count = ARRAY_LENGTH(end_table),
                                             .settings_size = sizeof(struct end_settings),
                                             .run = run_delete};
