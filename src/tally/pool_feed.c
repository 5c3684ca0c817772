/* tally pool feed and tickets: the changes of a pool's tickets, and the waiting tickets. */
#include "base/assert.h"
#include "tally/output.h"
#include <stdio.h>
#include <string.h>

#define WAIT_S 20

struct settings {
    struct option_number from;
    bool is_following;
};

static const struct setting settings_table[] = {
    {"from", offsetof(struct settings, from)},
    {"follow", offsetof(struct settings, is_following)},
};

/* The most important facts of an event; --json has them all. */
static void print_event(yyjson_val *event)
{
    const char *type = output_text_of(event, "Type");
    char facts[400] = "";
    if (strcmp(type, "offer") == 0)
        snprintf(facts, sizeof facts, "version %llu, level %llu", (unsigned long long)json_number(event, "Version"),
                 (unsigned long long)json_number(event, "Level"));
    else if (strcmp(type, "retire") == 0)
        snprintf(facts, sizeof facts, "%s %s", output_text_of(event, "Reason"), output_text_of(event, "MatchId"));
    else if (strcmp(type, "widen") == 0)
        snprintf(facts, sizeof facts, "level %llu", (unsigned long long)json_number(event, "Level"));
    else if (strcmp(type, "rules") == 0)
        snprintf(facts, sizeof facts, "version %llu", (unsigned long long)json_number(event, "RulesVersion"));
    printf("%10llu  %-7s %s %s\n", (unsigned long long)json_number(event, "Sequence"), type,
           output_text_of(event, "TicketId"), facts);
}

static void print_events(const struct invocation *invocation, yyjson_val *events)
{
    size_t i, max;
    yyjson_val *event;
    yyjson_arr_foreach(events, i, max, event)
    {
        if (invocation->is_json)
            output_value(event);
        else
            print_event(event);
    }
    fflush(stdout);
}

/* One request. *from moves on; *is_over: nothing was left. */
static int read_some(struct invocation *invocation, uint64_t *from, unsigned wait_s, bool *is_over)
{
    struct json_body body;
    struct tally_reply reply;
    json_body_init(&body);
    json_add_text(&body, body.root, "PoolName", invocation->arguments[0]);
    json_add_number(&body, body.root, "From", *from);
    json_add_number(&body, body.root, "WaitTimeSeconds", wait_s);
    if (json_body_call(&body, invocation->client, "Tally.FeedTickets", &reply) != TALLY_OK)
        return invocation_failed(invocation, invocation->client);
    if (json_is_true(json_root(&reply), "Resync") && *from != TALLY_FEED_NOW)
        complain("event %llu is not to be had: read `tally pool tickets`, the feed goes on at %llu",
                 (unsigned long long)*from, (unsigned long long)json_number(json_root(&reply), "Next"));
    print_events(invocation, yyjson_obj_get(json_root(&reply), "Events"));
    *is_over = yyjson_arr_size(yyjson_obj_get(json_root(&reply), "Events")) == 0;
    *from = json_number(json_root(&reply), "Next");
    tally_reply_deinit(&reply);
    return EXIT_DONE;
}

static int run_feed(struct invocation *invocation)
{
    const struct settings *settings = invocation->settings;
    uint64_t from = settings->from.is_given ? settings->from.value : TALLY_FEED_NOW;
    bool is_over;
    int status = invocation_connect(invocation);
    if (status == EXIT_DONE && !settings->from.is_given)
        status = read_some(invocation, &from, 0, &is_over);
    if (status == EXIT_DONE && !settings->from.is_given)
        complain("from event %llu on", (unsigned long long)from);
    if (status == EXIT_DONE && !settings->from.is_given && !settings->is_following)
        return read_some(invocation, &from, WAIT_S, &is_over);
    while (status == EXIT_DONE) {
        status = read_some(invocation, &from, settings->is_following ? WAIT_S : 0, &is_over);
        if (is_over && !settings->is_following)
            break;
    }
    return status;
}

static void print_ticket(yyjson_val *ticket)
{
    printf("level %-2llu  version %-3llu  %s\n", (unsigned long long)json_number(ticket, "Level"),
           (unsigned long long)json_number(ticket, "Version"), output_text_of(ticket, "TicketId"));
}

const struct command command_pool_feed = {
    .settings = settings_table,
    .setting_count = ARRAY_LENGTH(settings_table),
    .settings_size = sizeof(struct settings),
    .run = run_feed,
};

const struct command command_pool_tickets = {
    .action = "Tally.ListTickets", .members = {"PoolName"}, .list = "Tickets", .print = print_ticket};
