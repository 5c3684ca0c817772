/* tally schedule put: makes or changes a schedule. */
#include "base/assert.h"
#include "tally/assignment.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

struct settings {
    const char *time_zone;
    const char *catch_up;
    const char *group;
    struct option_list attributes;
};

static const struct option_row options[] = {
    {"time-zone", "ZONE", "whose clock the expression means, like Europe/Berlin; else UTC", OPTION_TEXT,
     offsetof(struct settings, time_zone), 0, 0, NULL},
    {"catch-up", "one|none|all", "what to do about times that came while no server ran; else one", OPTION_TEXT,
     offsetof(struct settings, catch_up), 0, 0, NULL},
    {"group", "ID", "MessageGroupId of the messages; a FIFO queue needs one", OPTION_TEXT,
     offsetof(struct settings, group), 0, 0, NULL},
    {"attribute", "NAME=VALUE[:TYPE]", "message attribute; TYPE String (default), Number or Binary (base64)",
     OPTION_LIST, offsetof(struct settings, attributes), 0, 0, NULL},
};

static void add_attribute(struct json_body *body, yyjson_mut_val *map, const struct tally_attribute *attribute)
{
    yyjson_mut_val *value = json_add_object(body, map, attribute->name);
    const char *type = attribute->type == NULL ? "String" : attribute->type;
    json_add_text(body, value, "DataType", type);
    json_add_text(body, value, strncmp(type, "Binary", 6) == 0 ? "BinaryValue" : "StringValue", attribute->value);
}

/* Adds the attributes given; false, with the user told, if one is none. */
static bool add_attributes(const struct invocation *invocation, struct json_body *body)
{
    const struct option_list *given = &((const struct settings *)invocation->settings)->attributes;
    if (given->count == 0)
        return true;
    yyjson_mut_val *map = json_add_object(body, body->root, "MessageAttributes");
    for (size_t i = 0; i < given->count; i++) {
        struct tally_attribute attribute;
        char *text = (char *)(uintptr_t)given->items[i]; /* words of main() may be written to */
        if (!assignment_attribute(text, &attribute)) {
            (void)complain_usage(invocation, "--attribute takes Name=Value, not \"%s\"", text);
            return false;
        }
        add_attribute(body, map, &attribute);
    }
    return true;
}

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
    int status = add_attributes(invocation, &body) ? invocation_connect(invocation) : EXIT_USAGE;
    if (status == EXIT_DONE)
        return put(invocation, &body);
    yyjson_mut_doc_free(body.doc_owned);
    return status;
}

const struct command command_schedule_put = {
    .arguments = "NAME CRON QUEUE BODY",
    .text =
        "Sends BODY to QUEUE at each time that CRON names, once, also across restarts; prints the next of these "
        "times.\n"
        "A schedule of the same name is replaced. CRON is what crontab(5) takes, or @hourly, @daily, @weekly, "
        "@monthly,\n"
        "@yearly:\n"
        "  minute 0-59, hour 0-23, day of the month 1-31, month 1-12 or jan-dec, day of the week 0-7 or sun-sat\n"
        "\n"
        "What came more than a minute ago when the server is there again was missed. --catch-up one sends one message\n"
        "for all that was missed, none sends nothing for it, all sends each (at most 1,000).\n",
    .examples = "  tally schedule put nightly '30 2 * * *' jobs 'clean up' --time-zone Europe/Berlin\n"
                "  tally schedule put rates '*/5 9-17 * * mon-fri' jobs 'fetch rates' --catch-up none\n"
                "  tally schedule put invoices @monthly billing.fifo run --group invoices --catch-up all\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 4,
    .arguments_max = 4,
    .run = run,
};
