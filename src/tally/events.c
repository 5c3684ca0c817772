/* tally events: what people and the server did. */
#include "base/assert.h"
#include "tally/output.h"

#include <stdio.h>
#include <time.h>

#define WAIT_S 20

struct settings {
    struct option_number limit;
    bool is_following;
};

static const struct setting settings_table[] = {
    {"limit", offsetof(struct settings, limit)},
    {"follow", offsetof(struct settings, is_following)},
};

static void print_event(yyjson_val *event)
{
    char at[32] = "-";
    struct tm parts;
    const time_t seconds = (time_t)json_real(event, "At");
    const char *key = output_text_of(event, "AccessKeyId"), *address = output_text_of(event, "Address");
    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S", &parts);
    printf("%s  %-6s", at, output_text_of(event, "Kind"));
    output_in_line("  ", output_text_of(event, "Text"));
    if (*key != '\0' || *address != '\0')
        printf("  (%s%s%s)", key, *key != '\0' && *address != '\0' ? " from " : "", address);
    puts("");
}

/* What the request asks for: the newest events, or those behind *after. */
static void body_init(const struct invocation *invocation, const uint64_t *after, struct json_body *body)
{
    const struct settings *settings = invocation->settings;
    json_body_init(body);
    if (after == NULL) {
        json_add_number(body, body->root, "MaxResults", settings->limit.value);
        return;
    }
    json_add_number(body, body->root, "After", *after);
    json_add_number(body, body->root, "WaitTimeSeconds", WAIT_S);
}

/* One request; *next is for the one behind it. */
static int read_some(struct invocation *invocation, const uint64_t *after, uint64_t *next)
{
    struct json_body body;
    struct tally_reply reply;
    size_t i, max;
    yyjson_val *event;
    body_init(invocation, after, &body);
    if (json_body_call(&body, invocation->client, "Tally.FeedEvents", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (after != NULL && json_is_true(json_root(&reply), "Missed"))
        complain("some events are missing here: the server keeps the newest 10,000, and none over a restart");
    yyjson_arr_foreach(yyjson_obj_get(json_root(&reply), "Events"), i, max, event)
    {
        if (invocation->is_json)
            output_value(event);
        else
            print_event(event);
    }
    fflush(stdout);
    *next = json_number(json_root(&reply), "Next");
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    uint64_t next = 0;
    int status = invocation_connect(invocation);
    if (status == EXIT_DONE)
        status = read_some(invocation, NULL, &next);
    while (status == EXIT_DONE && settings->is_following) {
        const uint64_t after = next;
        status = read_some(invocation, &after, &next);
    }
    return status;
}

const struct command command_events = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run,
};
