/* tally schedule put: makes or changes a schedule. */
#include "base/assert.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include <stdio.h>

struct settings {
    const char *time_zone;
    const char *catch_up;
    const char *group;
    struct option_list attributes;
};

static const struct setting settings_table[] = {
    {"time-zone", offsetof(struct settings, time_zone)},
    {"catch-up", offsetof(struct settings, catch_up)},
    {"group", offsetof(struct settings, group)},
    {"attribute", offsetof(struct settings, attributes)},
};

static int put(struct invocation *invocation, struct json_body *body)
{
    struct tally_reply reply;
    if (json_body_call(body, invocation->client, "Tally.PutSchedule", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    double next = json_real(json_root(&reply), "NextAt");
    bool is_paused = json_is_true(json_root(&reply), "Paused");
    if (invocation->is_json)
        output_reply(&reply);
    else if (next > 0)
        output_time("next", next);
    else
        output_field("next", is_paused ? "paused" : "never");
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    struct json_body body;
    json_body_init(&body);
    json_add_text(&body, body.root, "Name", invocation->arguments[0]);
    json_add_text(&body, body.root, "Cron", invocation->arguments[1]);
    json_add_text(&body, body.root, "QueueUrl", invocation->arguments[2]);
    json_add_text(&body, body.root, "MessageBody", invocation->arguments[3]);
    json_add_text(&body, body.root, "TimeZone", settings->time_zone);
    json_add_text(&body, body.root, "CatchUp", settings->catch_up);
    json_add_text(&body, body.root, "MessageGroupId", settings->group);
    int status = assignment_add_members(invocation, &settings->attributes, &body);
    if (status == EXIT_DONE)
        status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        return put(invocation, &body);
    yyjson_mut_doc_free(body.doc_owned);
    return status;
}

const struct command command_schedule_put = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
