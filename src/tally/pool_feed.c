/* tally pool feed and tickets: what happens to the tickets of a pool, and who waits. */
#include "base/assert.h"
#include "tally/output.h"
#include "tally/pages.h"
#include <stdio.h>
#include <string.h>

#define WAIT_S 20

struct settings {
    struct option_number from;
    bool is_following;
};

static const struct option_row options[] = {
    {"from", "N", "number of the first event wanted, 0: the first there was; else what happens from now on",
     OPTION_NUMBER, offsetof(struct settings, from), 0, INT64_MAX - 1, NULL},
    {"follow", NULL, "go on, until it is interrupted", OPTION_FLAG, offsetof(struct settings, is_following), 0, 0,
     NULL},
};

static const char *text_of(yyjson_val *object, const char *name)
{
    const char *text = json_text(object, name);
    return text == NULL ? "" : text;
}

/* The facts of an event that people ask for first; --json has them all. */
static void print_event(yyjson_val *event)
{
    const char *type = text_of(event, "Type");
    char facts[400] = "";
    if (strcmp(type, "offer") == 0)
        snprintf(facts, sizeof facts, "version %llu, level %llu", (unsigned long long)json_number(event, "Version"),
                 (unsigned long long)json_number(event, "Level"));
    else if (strcmp(type, "retire") == 0)
        snprintf(facts, sizeof facts, "%s %s", text_of(event, "Reason"), text_of(event, "MatchId"));
    else if (strcmp(type, "widen") == 0)
        snprintf(facts, sizeof facts, "level %llu", (unsigned long long)json_number(event, "Level"));
    else if (strcmp(type, "rules") == 0)
        snprintf(facts, sizeof facts, "version %llu", (unsigned long long)json_number(event, "RulesVersion"));
    printf("%10llu  %-7s %s %s\n", (unsigned long long)json_number(event, "Sequence"), type, text_of(event, "TicketId"),
           facts);
}

static void print_whole(yyjson_val *item)
{
    yyjson_mut_doc *doc = json_document();
    yyjson_mut_doc_set_root(doc, yyjson_val_mut_copy(doc, item));
    output_document(doc);
    yyjson_mut_doc_free(doc);
}

static void print_events(const struct invocation *invocation, yyjson_val *events)
{
    size_t i, max;
    yyjson_val *event;
    yyjson_arr_foreach(events, i, max, event)
    {
        if (invocation->is_json)
            print_whole(event);
        else
            print_event(event);
    }
    fflush(stdout);
}

/* One request. *from moves on; *is_over: there was nothing more. */
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
           (unsigned long long)json_number(ticket, "Version"), text_of(ticket, "TicketId"));
}

static int run_tickets(struct invocation *invocation)
{
    const char *const parameters[][2] = {{"PoolName", invocation->arguments[0]}};
    const struct pages pages = {.target = "Tally.ListTickets",
                                .list = "Tickets",
                                .parameters = parameters,
                                .parameter_count = ARRAY_LENGTH(parameters),
                                .print = print_ticket};
    return pages_print(invocation, &pages);
}

const struct command command_pool_feed = {
    .arguments = "POOL",
    .text =
        "Prints what happens to the tickets of a pool, a line for each event: its number, offer, retire, widen or "
        "rules,\n"
        "and the ticket. Without --from it waits up to 20 seconds for something new, with --from it prints what there "
        "is.\n"
        "With --json each event is one line of JSON. Of a pool for matchers outside the newest 100,000 events are "
        "kept, "
        "of\n"
        "another those since its first reading; a restart may forget them. What is said of a ticket that was retired "
        "before its offer was read is only that.\n",
    .examples = "  tally pool feed duel --follow\n"
                "  tally pool feed duel --follow --json | jq -r 'select(.Reason == \"ttl\") | .TicketId'\n",
    .options = options,
    .option_count = ARRAY_LENGTH(options),
    .settings_size = sizeof(struct settings),
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_feed,
};

const struct command command_pool_tickets = {
    .arguments = "POOL",
    .text =
        "Prints a line for each ticket that waits: its level, its version and its id. With --json each ticket is one "
        "line\n"
        "of JSON, with all that it says.\n",
    .examples = "  tally pool tickets duel\n"
                "  tally pool tickets duel --json | jq .Attributes\n",
    .arguments_min = 1,
    .arguments_max = 1,
    .run = run_tickets,
};
